"""Indices that are led back where they pass a memory's edges: `x[clamp(y + a - 2, 0, H - 1)]` reads the element that lies nearest to
`y + a - 2`, `x[(y + H - 1) % H]` goes on at the other end, and `x[abs(y - 3)]` turns back. Such a load has the affine index that it has
inside, and a way to read outside; what computed the index that is led back is needed no more, nor what checks it."""

from collections.abc import Mapping, Sequence
from enum import Enum
from math import gcd

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Binary, Cast, Compare, Const, InBounds, Index, Select, Unary, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from runtime.records import frozen


class Outside(Enum):
    """What is read instead of an element that lies outside: the nearest one, that at the same distance from the other end, or that at the
    same distance from the last element inside, or from the edge itself, on its other side."""

    NEAREST = "nearest"
    WRAPPED = "wrapped"
    MIRRORED = "mirrored"
    REPEATED = "repeated"


@frozen
class EdgeRead:
    """The indices of a load inside, and what it reads outside."""

    index: tuple[Affine, ...]
    outside: Outside


@frozen(eq=False)
class FieldReads:
    """The instructions that a field's stores need, and the loads, by their results, whose indices are led back at edges. What asks only
    whether such an index lies inside is none of them, and no condition of theirs."""

    ops: tuple[Instruction, ...]
    edges: Mapping[Value, EdgeRead]

    def index(self, op: Load | Store) -> tuple[Affine, ...]:
        edge = self.edges.get(op.result) if isinstance(op, Load) else None
        return op.index if edge is None else edge.index


def field_reads(field: HirFunction, whatever: bool = False) -> FieldReads:
    """`whatever`: whether an index that is mirrored counts where only extents that are no numbers yet say if it lies inside then."""
    ops = tuple(field.body.body)
    loads = [op for op in ops if isinstance(op, Load)]
    if all(isinstance(symbol, str) and symbol in field.axes for op in loads for form in op.index for symbol, _ in form.terms):
        return FieldReads(ops, {})
    values = {value.name: value for op in ops for value in op.results}
    edges = {op.result: edge for op in loads if (edge := _edge_read(op, field, values, whatever)) is not None}
    if not edges:
        return FieldReads(ops, edges)
    inside = [(form, extent) for op in loads if op.result in edges for form, extent in zip(op.index, mem_of(op.mem).dims, strict=True)]
    free = [
        _everywhere(op) if isinstance(op, Load) and op.where is not None and _holds(op.where, inside) else op
        for op in ops
        if not (isinstance(op, Check) and _holds(op.condition, inside))
    ]
    return FieldReads(_needed(free, edges), edges)


def _everywhere(load: Load) -> Load:
    """The load without its condition, with the same result."""
    free = Load(mem=load.mem, index=load.index, pad=load.pad, span=load.span)
    free.results = load.results
    return free


def _holds(condition: Value, inside: Sequence[tuple[Affine, Affine]]) -> bool:
    """Whether a condition holds where these forms are indices below their extents."""
    match condition.source:
        case Binary(operator="or", left=left, right=right):
            return _holds(left, inside) or _holds(right, inside)
        case Binary(operator="and", left=left, right=right):
            return _holds(left, inside) and _holds(right, inside)
        case InBounds(of=form, below=extent):
            return (form, extent) in inside
        case _:
            return False


def _edge_read(load: Load, field: HirFunction, values: Mapping[str, Value], whatever: bool) -> EdgeRead | None:
    """None for a load none of whose indices is led back at the memory's edges, or that has two ways to do it."""
    forms, ways = [], set()
    for form, extent in zip(load.index, mem_of(load.mem).dims, strict=True):
        inside, way = _unbounded(form, extent - 1, values), Outside.NEAREST
        if inside == form and (unwrapped := _unwrapped(form, extent, field)) is not None:
            inside, way = unwrapped, Outside.WRAPPED
        elif any(name in values for name in inside.names):
            inside, way = _unmirrored(form, extent, field, values, whatever) or (inside, way)
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
    if inside != atoms[0][0].numerator or (ends := _ends(inside, field)) is None:
        return None
    low, high = ends
    turns = (low + high) // 2 // count
    return inside - turns * count if -count <= low - turns * count and high - turns * count < 2 * count else None


def _ends(form: Affine, field: HirFunction) -> tuple[int, int] | None:
    """The least and the largest that a form is, where the extents of its axes are numbers."""
    if any(field.axes.get(name, Affine.of("?")).value is None for name in form.names):
        return None
    ends = [sorted((0, c * (field.axes[str(name)].constant - 1))) for name, c in form.terms]
    low, high = (form.constant + sum(end[side] for end in ends) for side in (0, 1))
    return low, high


_TURNS: Mapping[tuple[str, int | None], Outside] = {
    ("max", 0): Outside.MIRRORED,
    ("max", -1): Outside.REPEATED,
    ("min", -2): Outside.MIRRORED,
    ("min", -1): Outside.REPEATED,
}
"""Of the larger of f and s - f, or of the smaller of f and 2n + s - f, by s: how it reads."""


def _unmirrored(
    form: Affine, extent: Affine, field: HirFunction, values: Mapping[str, Value], whatever: bool
) -> tuple[Affine, Outside] | None:
    """An index that turns back below 0, or behind the last of so many elements, without that, and which way it turns. None for other
    indices, and for those that may lie farther outside than there are elements."""
    turned = dict[str, Outside]()
    while (seen := _seen(form, values)) is not None:
        if isinstance(seen, Affine):
            form = seen
            continue
        operator, (left, right) = seen
        way = _TURNS.get((operator, (left + right - extent * 2 * (operator == "min")).value))
        if way is None or operator in turned or (turned and way not in turned.values()):
            return None
        turned[operator] = way
        form = max(left, right, key=lambda side: max((c for name, c in side.terms if name in values or name in field.axes), default=0))
    if not turned:
        return None
    (way,) = set(turned.values())
    ends, count, once = _ends(form, field), extent.value, way is Outside.MIRRORED
    if ends is None or count is None:
        return (form, way) if whatever else None
    farthest = count - 1 if once else count
    least, most = -farthest if "max" in turned else 0, count - 1 + (farthest if "min" in turned else 0)
    return (form, way) if least <= ends[0] and ends[1] <= most else None


def _seen(form: Affine, values: Mapping[str, Value]) -> Affine | tuple[str, tuple[Affine, ...]] | None:
    """What makes a form that is a value, or some forms beside one: another form, or the smaller or larger of two. None for others."""
    named = [(str(name), c) for name, c in form.terms if name in values]
    if len(named) != 1 or abs(named[0][1]) != 1:
        return None
    ((name, sign),), value = named, values[named[0][0]]
    rest, made = form - Affine.of(name) * sign, form_of(value)
    if made != Affine.of(name):
        return rest + made * sign
    if isinstance(value.source, Unary) and value.source.operator == "abs":
        size = form_of(value.source.value)
        return ("max" if sign > 0 else "min"), (rest + size, rest - size)
    operator, sides = _bounded(value)
    return (operator, sides) if operator is not None and form == Affine.of(name) else None


def _unbounded(form: Affine, last: Affine, values: Mapping[str, Value]) -> Affine:
    """A form that is the value of bounds by 0 and `last`, without these."""
    bounds = {"max": Affine(), "min": last}
    while (value := _named(form, values)) is not None:
        operator, sides = _bounded(value)
        if (seen := form_of(value)) != form:
            form = seen
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
    if not isinstance(compared, Compare) or dtype_of(compared.left) not in _INDICES:
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
    holds, difference = _at_least_0(holds), form_of(otherwise) - form_of(then)
    if holds in (_at_least_0(difference), _at_least_0(difference - 1)):
        return "min"
    return "max" if holds in (_at_least_0(-difference), _at_least_0(-difference - 1)) else None


def _at_least_0(form: Affine) -> Affine:
    """The least form that isn't negative where this one isn't."""
    divisor = gcd(*(coefficient for _, coefficient in form.terms)) or 1
    return Affine(tuple((symbol, coefficient // divisor) for symbol, coefficient in form.terms), form.constant // divisor)


_INDICES = ("index", "i64")


def form_of(value: Value) -> Affine:
    """An index as a form: of axes and sizes where it is one, else of its own name."""
    match value.source:
        case Index(of=form):
            return form
        case Const(value=constant):
            return Affine((), int(constant))
        case Cast(value=inner) if dtype_of(value) in _INDICES and dtype_of(inner) in _INDICES:
            return form_of(inner)
        case Binary(operator="add" | "sub" as operator, left=left, right=right) if dtype_of(value) in _INDICES:
            return form_of(left) + form_of(right) if operator == "add" else form_of(left) - form_of(right)
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
