"""Indices that are led back where they pass a memory's edges: `x[clamp(y + a - 2, 0, H - 1)]` reads the element that lies nearest to
`y + a - 2`, and `x[(y + H - 1) % H]` goes on at the other end. Such a load has the affine index that it has inside, and a way to read
outside; what computed the index that is led back is needed no more."""

from collections.abc import Mapping, Sequence
from enum import Enum

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Binary, Compare, Const, InBounds, Index, Select, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from runtime.records import frozen


class Outside(Enum):
    """What is read instead of an element that lies outside: the nearest one, or that at the same distance from the other end."""

    NEAREST = "nearest"
    WRAPPED = "wrapped"


@frozen
class EdgeRead:
    """The indices of a load inside, and what it reads outside."""

    index: tuple[Affine, ...]
    outside: Outside


@frozen(eq=False)
class FieldReads:
    """The instructions that a field's stores need, and the loads, by their results, whose indices are led back at edges."""

    ops: tuple[Instruction, ...]
    edges: Mapping[Value, EdgeRead]

    def index(self, op: Load | Store) -> tuple[Affine, ...]:
        edge = self.edges.get(op.result) if isinstance(op, Load) else None
        return op.index if edge is None else edge.index


def field_reads(field: HirFunction) -> FieldReads:
    ops = tuple(field.body.body)
    loads = [op for op in ops if isinstance(op, Load)]
    if all(isinstance(symbol, str) and symbol in field.axes for op in loads for form in op.index for symbol, _ in form.terms):
        return FieldReads(ops, {})
    values = {value.name: value for op in ops for value in op.results}
    edges = {op.result: edge for op in loads if (edge := _edge_read(op, field, values)) is not None}
    return FieldReads(_needed(ops, edges) if edges else ops, edges)


def _edge_read(load: Load, field: HirFunction, values: Mapping[str, Value]) -> EdgeRead | None:
    """None for a load none of whose indices is led back at the memory's edges, or that has two ways to do it."""
    forms, ways = [], set()
    for form, extent in zip(load.index, mem_of(load.mem).dims, strict=True):
        inside, way = _unbounded(form, extent - 1, values), Outside.NEAREST
        if inside == form and (unwrapped := _unwrapped(form, extent, field)) is not None:
            inside, way = unwrapped, Outside.WRAPPED
        if any(name in values for name in inside.names):
            return None
        if inside != form:
            ways.add(way)
        forms.append(inside)
    return EdgeRead(tuple(forms), ways.pop()) if len(ways) == 1 else None


def _unwrapped(form: Affine, extent: Affine, field: HirFunction) -> Affine | None:
    """Of `f - n * floor(f / n)`, an index in n elements, f as near as may be, less a multiple of n: at most n elements outside. None for
    other forms."""
    count = extent.value
    atoms = [(symbol, coefficient) for symbol, coefficient in form.terms if isinstance(symbol, FloorDiv)]
    if count is None or len(atoms) != 1 or atoms[0][1] != -count or atoms[0][0].divisor != count:
        return None
    inside = form.without(atoms[0][0])
    if inside != atoms[0][0].numerator or any(field.axes.get(name, Affine.of("?")).value is None for name in inside.names):
        return None
    ends = [sorted((0, c * (field.axes[str(name)].constant - 1))) for name, c in inside.terms]
    low, high = (inside.constant + sum(end[side] for end in ends) for side in (0, 1))
    turns = (low + high) // 2 // count
    return inside - turns * count if -count <= low - turns * count and high - turns * count < 2 * count else None


def _unbounded(form: Affine, last: Affine, values: Mapping[str, Value]) -> Affine:
    """A form that is the value of bounds by 0 and `last`, without these."""
    bounds = {"max": Affine(), "min": last}
    while (value := _named(form, values)) is not None:
        operator, sides = _bounded(value)
        if isinstance(value.source, Index):
            form = value.source.of
        elif operator is not None and bounds[operator] in sides:
            form = sides[1 - sides.index(bounds[operator])]
        else:
            break
    return form


def _named(form: Affine, values: Mapping[str, Value]) -> Value | None:
    """The value that a form is."""
    (name, *others) = form.names or ("",)
    return values.get(name) if not others and form == Affine.of(name) else None


def _bounded(value: Value) -> tuple[str | None, tuple[Affine, ...]]:
    """Of a value that is the smaller or the larger of two, `min` or `max`, and both."""
    match value.source:
        case Binary(operator="min" | "max" as operator, left=left, right=right):
            return operator, (form_of(left), form_of(right))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _chosen(condition, then, otherwise), (form_of(then), form_of(otherwise))
        case _:
            return None, ()


def _chosen(condition: Value, then: Value, otherwise: Value) -> str | None:
    """Whether a selection is the smaller or the larger of two."""
    compared = condition.source
    if not isinstance(compared, Compare) or dtype_of(compared.left) != "index":
        return None
    ahead = form_of(compared.right) - form_of(compared.left)
    match compared.operator:
        case "le":
            holds = ahead
        case "lt":
            holds = ahead - 1
        case "ge":
            holds = -ahead
        case "gt":
            holds = -ahead - 1
        case _:
            return None
    difference = form_of(otherwise) - form_of(then)
    if holds in (difference, difference - 1):
        return "min"
    return "max" if holds in (-difference, -difference - 1) else None


def form_of(value: Value) -> Affine:
    """An index as a form: of axes and sizes where it is one, else of its own name."""
    match value.source:
        case Index(of=form):
            return form
        case Const(value=constant):
            return Affine((), int(constant))
        case _:
            return Affine.of(value.name)


def _needed(ops: Sequence[Instruction], edges: Mapping[Value, EdgeRead]) -> tuple[Instruction, ...]:
    """The instructions without those that only indices led back at edges were computed from."""
    names: set[str] = set()
    needed: list[Instruction] = []
    for op in reversed(ops):
        if not isinstance(op, Store) and op.results and not any(value.name in names for value in op.results):
            continue
        needed.append(op)
        names.update(value.name for value in op.operand_values)
        names.update(name for form in _forms(op, edges) for name in form.names)
    return tuple(reversed(needed))


def _forms(op: Instruction, edges: Mapping[Value, EdgeRead]) -> tuple[Affine, ...]:
    match op:
        case Load():
            return edges[op.result].index if op.result in edges else op.index
        case Store():
            return op.index
        case Index():
            return (op.of,)
        case InBounds():
            return op.of, op.below
        case _:
            return ()
