"""Axes that always stand side by side in memory, made one: the rows and columns of pictures that are added up, the channels and pixels
of a norm. One long axis fills the threads of a block where several short ones don't.

The extent of the one is a product of sizes, which no affine form is: a further parameter, that the launch computes."""

from itertools import pairwise

from compiler.analysis.written_order import in_written_order
from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.core import Contract, Reduce
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu.facts import Facts, multiplied
from compiler.schedule.launches import Product
from runtime.records import evolve, frozen


def joined_axes(field: HirFunction, facts: Facts) -> tuple[HirFunction, tuple[Product, ...], Facts]:
    """A field (form F) of reductions, of sums of products, or of what is turned, with such axes made one, as many as there are; the
    products that its further parameters are, in order; and the facts with their names. Fields of anything else are as they were."""
    products: list[Product] = []
    while (pair := _pair(field)) is not None:
        outer, inner = pair
        name = FreshNames(field).fresh(f"{outer}_times_{inner}")
        extent, product, facts = multiplied(field.axes[outer], field.axes[inner], facts, name)
        products += [] if product is None else [product]
        field = _joined(field, outer, inner, extent, None if product is None else name)
    return field, tuple(products), facts


def _pair(field: HirFunction) -> tuple[str, str] | None:
    """Two axes that can be made one, the outer first."""
    ops = field.body.body
    if not (any(isinstance(op, Reduce | Contract) for op in ops) or _is_turned(field)) or not all(_is_simple(op) for op in ops):
        return None
    accesses = [op for op in ops if isinstance(op, Load | Store)]
    tried: set[tuple[str, str]] = set()
    for op in accesses:
        near = [(form, _alone(inner, field)) for form, inner in pairwise(op.index)]
        for outer, inner in ((outer, inner) for form, inner in near for outer in field.axes if form.coefficient(outer) == 1):
            if inner is not None and outer != inner and (outer, inner) not in tried:
                tried.add((outer, inner))
                if _stand_together(field, outer, inner):
                    return outer, inner
    return None


def _is_turned(field: HirFunction) -> bool:
    """Whether something is read along another axis than results are written along: squares of long axes are full."""
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]
    near = {
        kind: {axis for op in accesses for axis in field.axes if isinstance(op, kind) and steps_by_one(mem_of(op.mem), op.index, axis)}
        for kind in (Load, Store)
    }
    return bool(near[Load] - near[Store])


def _is_simple(op: Instruction) -> bool:
    """Whether an instruction goes on element by element, or reduces whole axes."""
    return isinstance(op, Load | Store | Reduce | Contract) or (op.family.value == "plain" and not op.regions)


def _alone(form: Affine, field: HirFunction) -> str | None:
    """The axis that an index is."""
    ((name, coefficient),) = form.terms if len(form.terms) == 1 else (("", 0),)
    return name if isinstance(name, str) and name in field.axes and coefficient == 1 and form.constant == 0 else None


def _stand_together(field: HirFunction, outer: str, inner: str) -> bool:
    """Whether every access has both axes, next to each other in memory and nowhere else, or neither, and all else reads them only as
    axes of values."""
    both = {outer, inner}
    if any(both.intersection(op.over) and (outer, inner) not in pairwise(op.over) for op in in_written_order(field)):
        return False
    places: dict[Value, int | None] = {}
    for op in field.body.body:
        if isinstance(op, Load | Store):
            position = _place(field, op, outer, inner)
            if position is None or places.setdefault(op.mem, position) != position:
                return False
        elif isinstance(op, Reduce | Contract):
            if len(both.intersection(op.over)) == 1:
                return False
        elif not both.isdisjoint(op.symbols):
            return False
    return True


NOWHERE = -1


def _place(field: HirFunction, op: Load | Store, outer: str, inner: str) -> int | None:
    """Of which dim of the memory on an access has the axes; `NOWHERE` where it has neither; None where it has them in another way. The
    outer one may be shifted, as rows of a window are, if it is known by how many elements that is."""
    have = [position for position, form in enumerate(op.index) if not {outer, inner}.isdisjoint(form.names)]
    if not have:
        return NOWHERE
    mem, position = mem_of(op.mem), have[0]
    if have != [position, position + 1] or op.index[position].coefficient(outer) != 1 or op.index[position + 1] != Affine.of(inner):
        return None
    if outer in op.index[position].without(outer).names or inner in op.index[position].names:
        return None
    if mem.strides is not None or mem.swizzle is not None or op.mem not in field.parameters:
        return None
    if mem.dims[position + 1] != field.axes[inner]:
        return None
    if (op.index[position], mem.dims[position]) != (Affine.of(outer), field.axes[outer]) and field.axes[inner].value is None:
        return None
    return None if isinstance(op, Load) and op.pad is not None else position


@frozen
class _JoinedNames:
    outer: str
    inner: str
    extent: Affine
    each: int
    """Elements of the inner axis, where that is a number."""

    def index(self, forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
        position = self.place(forms)
        if position is None:
            return forms
        shifted = forms[position].without(self.outer) * self.each + self.outer
        return (*forms[:position], shifted, *forms[position + 2 :])

    def place(self, forms: tuple[Affine, ...]) -> int | None:
        return next((position for position, form in enumerate(forms) if form.coefficient(self.outer)), None)

    def dims(self, dims: tuple[Affine, ...], position: int, length: Affine) -> tuple[Affine, ...]:
        """Those of a memory of so many elements along the outer axis."""
        whole = self.extent if dims[position] == length else dims[position] * self.each
        return (*dims[:position], whole, *dims[position + 2 :])


def in_one_axis(field: HirFunction, outer: str, inner: str) -> HirFunction | None:
    """The field (form F) with two axes as one, whether they stand side by side in all memories or not: what has them apart takes them from
    the number of an element. None where the inner one's extent isn't a number, or something is reduced along one of the two."""
    each = field.axes[inner].value
    reduced = {axis for op in field.body.body if isinstance(op, Reduce | Contract) for axis in op.over}
    if not each or {outer, inner} & reduced or not all(_is_simple(op) for op in field.body.body):
        return None
    return _joined(field, outer, inner, field.axes[outer] * each, None)


def _joined(field: HirFunction, outer: str, inner: str, extent: Affine, further: str | None) -> HirFunction:
    """The field with both as one axis, called as the outer one; `further`: a new parameter that its extent names."""
    names = _JoinedNames(outer, inner, extent, field.axes[inner].value or 0)
    digits = {outer: Affine.of(outer).floordiv(names.each), inner: Affine.of(outer) % names.each} if names.each else {}
    out = FieldCopy(field, digits)
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]
    places = {op.mem: {_place(field, other, outer, inner) for other in accesses if other.mem is op.mem} for op in accesses}
    together = {mem: position for mem, (position, *more) in places.items() if position not in (None, NOWHERE) and not more}
    for axis, old in field.axes.items():
        if axis != inner:
            out.function.axis(axis, extent if axis == outer else old)
    for parameter in field.parameters:
        type = parameter.type
        if isinstance(type, Mem) and parameter in together:
            type = evolve(type, dims=names.dims(type.dims, together[parameter], field.axes[outer]))
        out.parameter(parameter, type)
    if further is not None:
        out.function.parameter(further, INDEX)

    def place(index: tuple[Affine, ...]) -> list[Affine]:
        others = {name: form for name, form in out.names.items() if name not in digits}
        return [form.substitute(others) for form in names.index(index)]

    return out.viewed(dict.fromkeys(together, place), {inner})
