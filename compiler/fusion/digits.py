"""Loops in the digits of what another block stores: where it stores `out[g * 512 + o]` and the next one reads `x[j]`, the loop over `j`
becomes loops over `g` and `o`, in the same order, so that each reads what the same turns of the loops before have stored. Where it
stores `out[i, 0]`, the next one's only turn along that axis is no loop."""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import prod

from compiler.analysis.accesses import walk
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction

Digits = tuple[int, ...]
"""Extents from the slowest to the fastest digit; their product is what the axis has. No digits: only the element 0."""


def digits_stored(function: HirFunction, memory: Value) -> dict[int, Digits]:
    """The axes of memory along which one store walks in digits that aren't a single one. Empty where several stores write it."""
    stores = [op for op in walk(function.body) if isinstance(op, Store) and op.mem is memory]
    if len(stores) != 1:
        return {}
    loops = {op.variable.name: op for op in walk(function.body) if isinstance(op, For)}
    found = {axis: _digits(form, loops) for axis, form in enumerate(stores[0].index)}
    return {axis: digits for axis, digits in found.items() if digits is not None}


def _digits(form: Affine, loops: Mapping[str, For]) -> Digits | None:
    names = sorted(form.names, key=form.coefficient, reverse=True)
    if len(names) == 1 or form.without(*names) != Affine() or any(name not in loops for name in names):
        return None
    extents = [loops[name].high.value if loops[name].low == Affine() and loops[name].step == 1 else None for name in names]
    known = [extent for extent in extents if extent is not None]
    if len(known) != len(names) or any(form.coefficient(name) != prod(known[at + 1 :]) for at, name in enumerate(names)):
        return None
    return tuple(known)


def loops_in_digits(
    nest: HirFunction, memory: Value, stored: Mapping[int, Digits], extent_of: Callable[[Affine], Affine]
) -> dict[str, Digits]:
    """The loops of a nest, by variable, that walk along whole axes of memory which were stored in digits. `extent_of` gives a form of the
    nest over what is known."""
    loops = {op.variable.name: op for op in walk(nest.body) if isinstance(op, For)}
    loads = [op for op in walk(nest.body) if isinstance(op, Load) and op.mem is memory]
    found: dict[str, Digits] = {}
    for axis, digits in stored.items():
        for form in {load.index[axis] for load in loads}:
            loop = loops.get(form.names[0]) if len(form.names) == 1 else None
            if loop is None or form != Affine.of(loop.variable.name) or not _can_be_cut(loop, digits):
                continue
            if extent_of(loop.high).value == prod(digits):
                found[loop.variable.name] = digits
    return found


def _can_be_cut(loop: For, digits: Digits) -> bool:
    """What is carried from turn to turn is handed on only where there is a single turn."""
    return loop.low == Affine() and loop.step == 1 and not (loop.carried and digits)


def number_of(digits: Digits, variables: Sequence[str]) -> Affine:
    """What the digits come to."""
    return sum((Affine.of(name) * prod(digits[at + 1 :]) for at, name in enumerate(variables)), Affine())


def digits_of(field: HirFunction) -> dict[str, str]:
    """For each axis of a field of more than one turn the axis that stands for the number of which it is a digit, everywhere in memory:
    itself where it is no digit, the slowest one where it is."""
    stands_for = {axis: axis for axis, extent in field.axes.items() if extent.value != 1}
    forms = [form for op in field.body.body if isinstance(op, Load | Store) for form in op.index]
    for slow, fast in permutations(stands_for, 2):
        size = field.axes[fast].value
        both = [form for form in forms if slow in form.names or fast in form.names]
        if size is not None and both and all(0 != form.coefficient(fast) * size == form.coefficient(slow) for form in both):
            stands_for = {axis: stands_for[slow] if chosen == stands_for[fast] else chosen for axis, chosen in stands_for.items()}
    return stands_for
