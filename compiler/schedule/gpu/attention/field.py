"""Fields that are attention: two products joined by a maximum and its sums. Everything between the products is the field's: scales, masks,
caps. Which units take one, and how, is for others to say (`on_warpgroups.py`, `on_warps.py`)."""

from collections.abc import Mapping

from compiler.analysis.homogeneity import Homogeneity
from compiler.analysis.recognise import ProductSum, product_sum, recognise
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Contract, Reduce, Scan, Select, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.passes.online import Online, online
from compiler.schedule.gpu.attention.exponents import Exponent, Slope, exponent_of, is_number, slope_of
from compiler.schedule.gpu.attention.seen_by_data import Compared
from compiler.schedule.gpu.attention.visible import Visible, visible_of
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, plain_load, side_of
from compiler.schedule.gpu.rewrites.counted_floats import counted_floats
from runtime.records import Factory, evolve, frozen

MOST = 256
"""Elements of a query, and of a value."""


@frozen(eq=False)
class Packed:
    """Heads beside each other among the rows: `together` of an axis, all of it where that isn't known."""

    axis: str
    together: int | None


@frozen
class AttendingUnit:
    """What multiplies together, a warp or a warpgroup: the rows and threads of one, and the threads of a block that only copy."""

    rows: int
    threads: int
    copying: int = 0


class WalkedField:
    """A field whose blocks have tiles of rows and walk along the `terms` of tiles, as attention's along keys: rows along the axis of
    `query`, results along that of `value`, of which tiles have `depth` and `width` elements; `down` units along the rows of a block,
    `across` along the terms of a tile."""

    query: BoxedOperand
    value: BoxedOperand
    along: str
    depth: int
    width: int
    visible: Visible
    unit: AttendingUnit
    terms: int
    down: int
    across: int = 1
    parts: int = 1
    """Blocks that share the terms, at most."""
    packed: Packed | None = None
    resident: int | None
    """Blocks that take tiles of rows until there are none; None where each takes one."""
    compared: tuple[Compared, ...] = ()
    """Conditions by which the block looks for the tiles of terms that its rows see."""

    @property
    def words(self) -> tuple[str, ...]:
        """How warps share the work; warpgroups have no choice."""
        return ()

    @property
    def walked(self) -> tuple[str, ...]:
        """The axes of its sums."""
        raise NotImplementedError

    @property
    def dtype(self) -> str:
        return self.query.mem.dtype

    @property
    def rows(self) -> int:
        """Of a block."""
        return self.unit.rows * self.down

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.unit.threads * self.down * self.across + self.unit.copying


@frozen(eq=False)
class AttentionField(WalkedField):
    """A field that is attention: scores of queries and keys, summed along `inner`; values, weighted along `along`."""

    rule: Online
    scores: Contract
    weighted: Contract | Reduce
    weight: Value
    query: BoxedOperand
    key: BoxedOperand
    value: BoxedOperand
    inner: str
    along: str
    depth: int
    width: int
    exponent: Exponent
    visible: Visible
    counted: frozenset[Value]
    """Floats of places, whose elements differ by constants in a tile."""
    slope: Slope | None
    """Such a float in the scores, times what a tile's have the same."""
    strict: bool
    """Whether a value that no weight is for isn't read, whatever it is: a guard stands around the sum, or memory goes on behind its end."""
    rows_read: bool
    """Whether results read the maximum or sums of a row other than as a quotient of two sums: as the log of its sum of exponentials."""
    exact: bool
    """Whether results tell by which maximum the exponents were less."""
    unit: AttendingUnit = AttendingUnit(0, 0)
    terms: int = 0
    down: int = 1
    across: int = 1
    parts: int = 1
    packed: Packed | None = None
    resident: int | None = None
    compared: tuple[Compared, ...] = ()
    stages: Mapping[str, int] = Factory(dict)
    """Of the rings in which tiles of queries, keys and values wait."""

    @property
    def walked(self) -> tuple[str, ...]:
        return self.along, self.inner

    @property
    def words(self) -> tuple[str, ...]:
        if self.unit.copying:
            return ()
        lines = [f"{self.rows} rows and tiles of {self.terms} keys a block, on the tensor cores"]
        if self.packed is not None:
            lines.append(f"{self.packed.together or 'all'} of {self.packed.axis} are rows beside each other: they share keys and values")
        if self.across > 1:
            lines.append(f"{self.across} warps share the keys of a tile")
        if self.parts > 1:
            lines.append(f"up to {self.parts} blocks share the keys, the last of them joins their sums")
        return tuple(lines)


def attention_field(field: HirFunction, facts: Facts) -> AttentionField | None:
    """The field as attention with 16-bit operands whose rows begin at multiples of 16 bytes; None where it is something else."""
    shape, rule = recognise(field).attention, rescaling_of(field)
    if shape is None or rule is None:
        return None
    first, second = shape.scores, shape.weighted
    scores, weighted = first.op, second.op
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    if [op for op in rule.rescaled if is_product(op)] != [weighted] or any(op not in (rule.maximum, *rule.rescaled, scores) for op in sums):
        return None
    if not isinstance(scores, Contract) or second.k != (rule.axis,) or len(first.k) != 1 or len(rule.maximum.over) != 1:
        return None
    sides_ = next((sides for axis in _rows(field, facts, first, rule) if (sides := _sides(first, second, axis, rule)) is not None), None)
    if sides_ is None:
        return None
    query, key, value = sides_
    dtype = query.mem.dtype
    if dtype not in ("f16", "bf16") or {key.mem.dtype, value.mem.dtype} != {dtype}:
        return None
    if {dtype_of(op.results[0]) for op in (scores, weighted)} != {"f32"}:
        return None
    inner = first.k[0]
    depth, width = (covering(facts, field, axis) for axis in (inner, value.axis))
    if depth is None or width is None or dtype_of(rule.maximum.results[0]) != "f32":
        return None
    strict = isinstance(weighted, Reduce)
    stores = [op for op in field.body.body if isinstance(op, Store)]
    scope, whole = field.scope(), set(field.axes) - {inner, rule.axis}
    if any({axis for axis, _ in scope.axes_of(*op.index)} not in (whole, whole - {value.axis}) for op in stores):
        return None
    exponent = exponent_of(rule, scores.results[0], query.axis)
    if exponent.constant <= 0 or not exponent.explains(field):
        return None
    visible = visible_of(exponent.guards, rule.axis, query.axis)
    counted = counted_floats(field, facts)
    slope = slope_of(exponent, scores.results[0], query.axis)
    slope = slope if slope is not None and slope.distance.result in counted else None
    weight = second.b if uncast(second.a).source is value.load else second.a
    weight = rounded_from(weight) if dtype_of(weight) == dtype else weight
    if isinstance(weighted, Reduce) and not _hidden_by(exponent, weighted, weight):
        return None
    operands = (weight, query, key, value)
    by_maximum = Homogeneity(rule.total)
    rows_read = not all(by_maximum.quotients(op.value) for op in stores)
    exact = not all(by_maximum.free(op.value) for op in stores)
    return AttentionField(
        rule, scores, weighted, *operands, inner, rule.axis, depth, width, exponent, visible, counted, slope, strict, rows_read, exact
    )


def rescaling_of(field: HirFunction) -> Online | None:
    """The rule by which sums that read a maximum along their own axis are one pass with it, where it holds for all of them: when it grows,
    what has been summed is multiplied by what the exponential changes (`passes/online.py` proves where that holds)."""
    axes = dict.fromkeys(axis for op in field.body.body if isinstance(op, Contract | Reduce) and is_product(op) for axis in op.over)
    for axis in axes:
        rule = online(field, axis)
        if isinstance(rule, Online) and any(map(is_product, rule.rescaled)):
            return rule
    return None


def is_product(op: Contract | Reduce) -> bool:
    """Whether it is a sum of products with rows and columns, guarded or not."""
    product = None if isinstance(op, Contract) else product_sum(op)
    return isinstance(op, Contract) or (product is not None and bool(product.m and product.n))


def _hidden_by(exponent: Exponent, weighted: Reduce, weight: Value) -> bool:
    """Whether a guarded sum is one of weights that are 0 where its guard doesn't hold."""
    value = weighted.values[0]
    while isinstance(value.source, Select):
        if value.source.condition not in exponent.guards or not is_number(value.source.otherwise, 0.0):
            return False
        value = value.source.then
    return isinstance(value.source, Binary) and value.source.operator == "mul" and exponent.is_weight(weight.source)


def _rows(field: HirFunction, facts: Facts, product: ProductSum, rule: Online) -> list[str]:
    """Axes that may be the rows of a tile, the longest first; the others are walked block by block."""
    rows = [axis for axis in (*product.m, *product.n) if axis != rule.axis]
    return sorted(rows, key=lambda axis: -facts.about(field.axes[axis]))


def _sides(first: ProductSum, second: ProductSum, rows: str, rule: Online) -> tuple[BoxedOperand, BoxedOperand, BoxedOperand] | None:
    """Queries, keys and values, where `rows` is the axis of the queries; None where boxes can't have them."""
    if rows not in (*second.m, *second.n):
        return None
    sides = [side_of(plain_load(operand), evolve(first, m=(rows,), n=(rule.axis,)), first.k[0]) for operand in (first.a, first.b)]
    query = next((side for side in sides if side is not None and side.axis == rows), None)
    key = next((side for side in sides if side is not None and side.axis == rule.axis), None)
    if query is None or key is None or query.across or key.across:
        return None
    for operand in (second.a, second.b):
        load = plain_load(uncast(operand))
        if load is None or rows in {axis for form in load.index for axis in form.names}:
            continue
        for axis in (*second.m, *second.n):
            value = side_of(load, evolve(second, m=(axis,), n=()), rule.axis)
            if value is not None and value.across:
                return query, key, value
    return None


def ends(side: BoxedOperand, axis: str, field: HirFunction) -> bool:
    """Whether memory ends where the axis does, so that boxes have zeros beyond."""
    (dim,) = [position for position, form in enumerate(side.load.index) if axis in form.names]
    return side.load.index[dim] == Affine.of(axis) and side.mem.dims[dim] == field.axes[axis]


def uncast(value: Value) -> Value:
    """The narrow number behind a widening, which loses nothing."""
    return value.source.value if isinstance(value.source, Cast) and value.source.to == "f32" else value


def rounded_from(weight: Value) -> Value:
    """What a weight is rounded from."""
    return weight.source.value if isinstance(weight.source, Cast) and dtype_of(weight.source.value) == "f32" else weight


def covering(facts: Facts, field: HirFunction, axis: str) -> int | None:
    """Elements that a tile has where an axis is so long, a multiple of 16."""
    most = facts.about(field.axes[axis])
    return max(16, -(-most // 16) * 16) if most <= MOST else None
