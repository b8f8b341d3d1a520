"""Sums whose taps depend on a residue of the result's index (`passes/residues.py`: transposed convolutions with a stride), as fields of
their own, one for each residue. In such a part every tap counts, so it is a convolution as any other, which stores every s-th element.
Residues without taps are no parts: all of the result is filled with what a sum of nothing comes to before."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product as choices
from math import gcd, prod

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Contract, Reduce, Scan, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.prover import Inequalities
from compiler.passes.residues import MOST_RESIDUES
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.products.product_sums import unguarded
from runtime.records import frozen

MOST_PARTS = 32
WORTH = 1 << 22
"""Terms of all sums below which launches of their own take longer than they save."""
LONGEST = 128
"""Of a window's dim that a kernel is made for."""


@frozen(eq=False)
class ResidueSum:
    """The sum, what it adds and where; the axes of residues; the stores and where they are."""

    target: Reduce
    term: Value
    guard: tuple[Affine, ...]
    residues: tuple[str, ...]
    stores: Mapping[Store, tuple[Affine, ...]]


def residue_sum(field: HirFunction, least: int = 1) -> ResidueSum | None:
    """The one sum of a field, where its taps depend on so many residues."""
    sums = [op for op in field.body.body if isinstance(op, Reduce | Contract | Scan)]
    target = sums[0] if len(sums) == 1 and not field.loops else None
    if not isinstance(target, Reduce) or len(target.values) != 1 or target.monoid != "add":
        return None
    term, guards = unguarded(target.values[0])
    forms = [constraints_of(guard) for guard in guards]
    stores = {op: () if op.where is None else constraints_of(op.where) for op in field.body.body if isinstance(op, Store)}
    guard = tuple(form for some in forms for form in some or ())
    residues = tuple(axis for axis in field.axes if axis not in target.over and _is_residue(field, target, guard, axis))
    if len(residues) < least or any(some is None for some in (*forms, *stores.values())):
        return None
    return ResidueSum(target, term, guard, residues, {op: tuple(some or ()) for op, some in stores.items()})


def _is_residue(field: HirFunction, target: Reduce, guard: Sequence[Affine], axis: str) -> bool:
    """Whether it decides alone about taps: about all, or which of as many as it is long counts."""
    extent = field.axes[axis].value
    if extent is None or not 1 < extent <= MOST_RESIDUES:
        return False
    for form in guard:
        axes = {name for name in form.names if name in field.axes}
        taps = axes.intersection(target.over)
        if axes == {axis, *taps} and (not taps or any(abs(form.coefficient(tap)) == extent for tap in taps)):
            return True
    return False


def residue_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes of windows that a kernel is made for, where taps depend on residues."""
    found = residue_sum(field)
    if found is None:
        return ()
    axes = [axis for axis in found.target.over if any(axis in form.names and len(form.names) > 1 for form in found.guard)]
    names = {name for form in found.guard for name in form.names if any(axis in form.names for axis in axes)} & sizes.keys()
    windows = {name for axis in axes for name in field.axes[axis].names} & names
    return tuple(sorted((name, sizes[name]) for name in windows if 1 <= sizes[name] <= LONGEST))


def residue_parts(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """None for fields without residues, and for small ones."""
    found = residue_sum(field)
    if found is None or prod(facts.about(extent) for extent in field.axes.values()) < WORTH:
        return None
    if prod(field.axes[axis].value or 1 for axis in found.residues) > MOST_PARTS:
        return None
    every = [_Part(field, found, dict(zip(found.residues, digits, strict=True))) for digits in _digits(field, found)]
    parts = [part for part in every if not part.stores_nothing] or every[:1]
    empty = [part for part in parts if part.is_empty]
    nothing = _nothing(field, found) if len(empty) > 1 else None
    filled = [part.field() for part in parts if not part.is_empty or nothing is None]
    return [*([] if nothing is None else [nothing]), *filled]


def residues_together(field: HirFunction) -> HirFunction | None:
    """The field with a plain sum, where all residues have as many taps: they are further axes, with which the others begin elsewhere. None
    where that is no form of the residues."""
    found = residue_sum(field)
    if found is None:
        return None
    every = [_Part(field, found, dict(zip(found.residues, digits, strict=True))) for digits in _digits(field, found)]
    first = every[0]
    if any(part.is_empty or part.axes != first.axes for part in every):
        return None
    shifts: dict[str, Affine] = {}
    for axis in first.axes:
        starts = [part.names.get(axis, Affine.of(axis)) - axis for part in every]
        shifts[axis] = starts[0]
        for residue in found.residues:
            one = next(start for part, start in zip(every, starts, strict=True) if part.residues == {**first.residues, residue: 1})
            shifts[axis] += Affine.of(residue) * ((one - starts[0]).value or 0)
        if any(shifts[axis].substitute(part.digits) != start for part, start in zip(every, starts, strict=True)):
            return None
    joined = _Part(field, found, {})
    joined.names = {axis: shift + axis for axis, shift in shifts.items() if shift != Affine()}
    joined.axes = {axis: first.axes.get(axis, extent) for axis, extent in field.axes.items()}
    whole = joined.field()
    whole.name = field.name
    return whole


def _digits(field: HirFunction, found: ResidueSum) -> Iterator[tuple[int, ...]]:
    """All residues, along all their axes."""
    yield from choices(*(range(field.axes[axis].value or 1) for axis in found.residues))


def without_known_guards(field: HirFunction) -> HirFunction:
    """The field with a plain sum of products where it is known that all of them count."""
    found = residue_sum(field, 0)
    if found is None or found.residues or not found.guard:
        return field
    part = _Part(field, found, {})
    if part.remaining(found.guard):
        return field
    left = part.field()
    left.name = field.name
    return left


class _Part:
    """The field with numbers for residues. Axes run from their first element that counts to the last one."""

    def __init__(self, field: HirFunction, found: ResidueSum, residues: Mapping[str, int]) -> None:
        self.source, self.found = field, found
        self.name = f"{field.name}_{'_'.join(map(str, residues.values()))}"
        self.residues, self.digits = residues, {axis: Affine.of(digit) for axis, digit in residues.items()}
        self.names: dict[str, Affine] = {**self.digits}
        self.axes = {axis: extent for axis, extent in field.axes.items() if axis not in residues}
        guard = list(self.forms(found.guard))
        self.cut(guard, found.target.over)
        outside = [set(self.forms(forms)) for forms in found.stores.values()]
        shared = [form for form in outside[0] if all(form in forms for forms in outside)]
        self.cut(shared, [axis for axis in self.axes if axis not in found.target.over])
        ends = (*guard, *(self.axes[axis] - 1 for axis in found.target.over))
        self.is_empty = any(form.value is not None and form.value < 0 for form in ends)
        if self.is_empty:
            self.axes = {axis: extent for axis, extent in self.axes.items() if axis not in found.target.over}

    @property
    def stores_nothing(self) -> bool:
        outer = (extent.value for axis, extent in self.axes.items() if axis not in self.found.target.over)
        return any(value is not None and value <= 0 for value in outer)

    def forms(self, forms: Sequence[Affine]) -> Iterator[Affine]:
        """Without common factors, which say nothing of being at least 0."""
        for form in forms:
            form = form.substitute(self.names)
            common = gcd(*(number for _, number in form.terms))
            yield form.floordiv(common) if common > 1 else form

    def cut(self, forms: Sequence[Affine], axes: Sequence[str]) -> None:
        """Let these axes begin and end where forms of one of them alone say so."""
        for axis in axes:
            own = [form for form in forms if [name for name in form.names if name in self.axes] == [axis] and form.coefficient(axis)]
            first, extent = Affine(), self.axes[axis]
            for form in own:
                step, rest = form.coefficient(axis), form.without(axis)
                if axis in rest.names:
                    continue
                low = (-rest).ceildiv(step) if step > 0 else Affine()
                if low.value is not None and low.value > (first.value or 0):
                    first = low
            for form in own:
                step, rest = form.coefficient(axis), form.without(axis)
                if step < 0 and axis not in rest.names and self.no_longer(end := rest.floordiv(-step) + 1, extent):
                    extent = end
            self.axes[axis] = extent - first
            if first != Affine():
                shift = {axis: Affine.of(axis) + first}
                self.names = {name: form.substitute(shift) for name, form in self.names.items()} | {axis: shift[axis]}

    def no_longer(self, extent: Affine, other: Affine) -> bool:
        difference = (other - extent).value
        return difference >= 0 if difference is not None else Inequalities.inside({}, other.names).proves(other - extent)

    def field(self) -> HirFunction:
        copy, target = FieldCopy(self.source, self.names), self.found.target
        for axis, extent in self.axes.items():
            copy.function.axis(axis, extent)
        copy.parameters()
        if self.is_empty:
            copy.put(target.result, _zero(copy.body, target))
        for op in needed(self.source, known=[target.result] if self.is_empty else ()):
            if op is target:
                copy.emit(op, self.sum(copy))
            elif isinstance(op, Load | Store) and op.where is not None:
                copy.copy(op, where=self.where(op, copy))
            else:
                copy.copy(op)
        part = copy.finish()
        part.name, part.body.body = self.name, needed(part)
        return part

    def sum(self, copy: FieldCopy) -> Instruction:
        target, term = self.found.target, copy.values[self.found.term]
        product, forms = term.source, self.remaining(self.found.guard)
        if not forms and isinstance(product, Binary) and product.operator == "mul" and "reassoc" in target.flags:
            return Contract(a=product.left, b=product.right, over=target.over, to=dtype_of(term), flags=target.flags, span=target.span)
        where = copy.body.none_negative(forms)
        return copy.rebuilt(target, values=(term if where is None else copy.body.select(where, term, _zero(copy.body, target)),))

    def remaining(self, forms: Sequence[Affine]) -> list[Affine]:
        """Those that aren't known to hold."""
        return [form for form in dict.fromkeys(self.forms(forms)) if not self.known.proves(form)]

    def where(self, op: Load | Store, copy: FieldCopy) -> Value | None:
        """The condition of an access that is left: of a load, where its element exists."""
        assert op.where is not None
        forms = constraints_of(op.where)
        if forms is None:
            return copy.values[op.where]
        left = self.remaining(forms)
        if isinstance(op, Load):
            index = [form.substitute(self.names) for form in op.index]
            bounds = [bound for form, extent in zip(index, mem_of(op.mem).dims, strict=True) for bound in (form, extent - 1 - form)]
            if all(bound in left or self.known.proves(bound) for bound in bounds):
                left = [bound for bound in bounds if bound in left]
        return copy.body.none_negative(left)

    @cached_property
    def known(self) -> Inequalities:
        """What holds of the axes."""
        return Inequalities.inside(self.axes, [name for extent in self.axes.values() for name in extent.names])


def _zero(b: Builder, target: Reduce) -> Value:
    to = dtype_of(target.result)
    return b.const(identity_of("add", [to])[0], to)


def _nothing(field: HirFunction, found: ResidueSum) -> HirFunction | None:
    """All elements of the result as a sum of nothing leaves them; None where it isn't known that the field stores all."""
    if len(found.stores) != 1:
        return None
    ((store, conditions),) = found.stores.items()
    dims, outer, bounds = mem_of(store.mem).dims, dict[str, Affine](), set[Affine]()
    for form, extent in zip(store.index, dims, strict=True):
        own = [name for name in form.names if name in field.axes]
        if not {*own}.isdisjoint(found.residues):
            if not counts_all(field, form, extent):
                return None
            outer |= dict.fromkeys(own, extent)
            bounds |= {form, extent - 1 - form}
        elif not {*own}.isdisjoint(outer):
            return None
    before = needed(field, [store.value], [found.target.result])
    varying = {axis for op in before for axis, _ in union_axes(*op.results)}.union(name for op in before for name in op.symbols)
    if not bounds.issuperset(conditions) or not varying.isdisjoint(outer):
        return None
    index: list[Affine] = []
    for form in store.index:
        position = next((name for name in form.names if name in outer and name not in found.residues), None)
        index.append(form if position is None else Affine.of(position))
    used = {name for form in index for name in form.names} | varying
    copy = FieldCopy(field)
    for axis, extent in field.axes.items():
        if axis in used:
            copy.function.axis(axis, outer.get(axis, extent))
    copy.parameters()
    copy.put(found.target.result, _zero(copy.body, found.target))
    for op in before:
        copy.copy(op)
    copy.body.store(copy.values[store.mem], copy.values[store.value], index)
    part = copy.finish()
    part.name = f"{field.name}_nothing"
    return part


def counts_all(field: HirFunction, form: Affine, extent: Affine) -> bool:
    """Whether an index, a number in digits of residues below a position, comes to all of a dim."""
    digits = sorted((form.coefficient(name), name) for name in form.names if name in field.axes)
    step, start = 1, form.without(*(name for _, name in digits))
    for number, (coefficient, axis) in enumerate(digits):
        if coefficient != step:
            return False
        if number + 1 < len(digits):
            if (length := field.axes[axis].value) is None:
                return False
            step *= length
    end = start + field.axes[digits[-1][1]] * step
    known = Inequalities.inside({}, {*end.names, *extent.names})
    return known.proves(-start) and known.proves(end - extent)
