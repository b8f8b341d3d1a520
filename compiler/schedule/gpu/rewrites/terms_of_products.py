"""Sums of products as any reduction of terms: a contraction becomes the sum of what its two factors come to, and where a sum runs along
several axes, of which all but the first have numbers as extents (channels and taps of a window), it runs along one axis instead, whose
elements are numbered as the loops go."""

from collections.abc import Sequence
from math import prod
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.rewrites.windows import WindowProduct
from runtime.records import evolve


def terms_of_products(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums; itself where it has no contraction."""
    contracts = [op for op in field.body.body if isinstance(op, Contract)]
    if not contracts or any(op.accumulator is not None for op in contracts):
        return field
    return _rebuilt(field, contracts[0].over, ())[0]


def terms_of_window(window: WindowProduct) -> WindowProduct:
    """The same of a window with a border."""
    exact = [] if window.exact is None else [window.exact]
    field, made = _rebuilt(window.field, window.target.over, exact)
    target = made[window.target]
    assert isinstance(target, Reduce)
    exactly = next((op for op in (made[one] for one in exact) if isinstance(op, Reduce)), None)
    return evolve(window, field=field, target=target, exact=exactly)


def _rebuilt(field: HirFunction, over: Sequence[str], further: Sequence[Reduce]) -> tuple[HirFunction, dict[Instruction, Instruction]]:
    """The field; and what became of each instruction, of those too that it doesn't have yet, and of which it hasn't any then."""
    whole = _numbers(field, over) if _are_along(field, over) else None
    out = FieldCopy(field, {} if whole is None else _digits(field, over))
    out.parameters()
    for axis, extent in field.axes.items():
        if whole is None or axis not in over:
            out.function.axis(axis, extent)
        elif axis == over[0]:
            out.function.axis(axis, extent * whole)
    b = out.body
    made: dict[Instruction, Instruction] = {}
    for op in (*field.body.body, *further):
        changes: dict[str, Any] = {"over": over[:1]} if whole is not None and isinstance(op, Reduce | Contract) else {}
        copy = out.rebuilt(op, **changes)
        if isinstance(copy, Contract):
            flags = ("contract",) if is_float(copy.to) else ()
            with b.at(op.span):
                term = b.mul(b.cast(copy.a, copy.to), b.cast(copy.b, copy.to), flags=flags)
            copy = Reduce(monoid="add", values=(term,), over=copy.over, flags=copy.flags, span=op.span)
        made[op] = out.emit(op, copy)
    new = out.finish()
    new.body.body = [op for op in new.body.body if op not in [made[one] for one in further]]
    return new, made


def _are_along(field: HirFunction, over: Sequence[str]) -> bool:
    """Whether all that the field reduces it reduces along these axes."""
    ops = field.body.body
    return len(over) > 1 and not any(isinstance(op, Scan) or (isinstance(op, Reduce | Contract) and op.over != over) for op in ops)


def _numbers(field: HirFunction, over: Sequence[str]) -> int | None:
    """How many elements the axes behind the first one have; None where that isn't a number."""
    extents = [field.axes[axis].value for axis in over[1:]]
    known = [extent for extent in extents if extent is not None]
    return prod(known) if len(known) == len(extents) and min(known) > 0 else None


def _digits(field: HirFunction, over: Sequence[str]) -> dict[str, Affine]:
    """Each axis from the number of an element."""
    digits, rest = dict[str, Affine](), Affine.of(over[0])
    for axis in reversed(over[1:]):
        extent = field.axes[axis].value
        assert extent is not None
        digits[axis] = rest % extent
        rest = rest.floordiv(extent)
    return digits | {over[0]: rest}
