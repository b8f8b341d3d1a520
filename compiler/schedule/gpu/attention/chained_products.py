"""Fields of products over what other products come to, element by element, `f(Q K, G V) X`: weights of each row and each term that are
computed from sums of products of the two, rounded to 16 bits, and sums over the terms that weigh by them. The backward pass of attention
is such a field. Which unit takes one, and how, is for others to say (`chain.py`)."""

from collections.abc import Sequence

from compiler.analysis.recognise import ProductSum, instructions_below, product_sum
from compiler.hir.core import Binary, Contract, Reduce, Scan, Select, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.attention.exponents import is_number
from compiler.schedule.gpu.attention.field import AttendingUnit, WalkedField, covering, ends, uncast
from compiler.schedule.gpu.attention.visible import Visible, visible_of
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides, plain_load, side_of
from runtime.records import evolve, frozen


@frozen(eq=False)
class ScoreProduct:
    """A product of rows and terms along `inner`, of which tiles have `depth` elements."""

    op: Contract
    row: BoxedOperand
    term: BoxedOperand
    inner: str
    depth: int


@frozen(eq=False)
class WeighedSum:
    """A sum over the terms of 16-bit weights times values, of those terms for which the guards hold."""

    op: Contract | Reduce
    weight: Value
    value: BoxedOperand
    guards: tuple[Value, ...]


@frozen(eq=False)
class ChainedField(WalkedField):
    """A field of chained products, whose rows are those of the first of the scores."""

    scores: tuple[ScoreProduct, ...]
    sums: tuple[WeighedSum, ...]
    query: BoxedOperand
    value: BoxedOperand
    depth: int
    along: str
    width: int
    visible: Visible
    unit: AttendingUnit = AttendingUnit(0, 0)
    terms: int = 0
    down: int = 1
    resident: int | None = None

    @property
    def walked(self) -> tuple[str, ...]:
        return self.along, *dict.fromkeys(score.inner for score in self.scores)


def chained_products(field: HirFunction, facts: Facts, terms: int) -> ChainedField | None:
    """The field as chained products with 16-bit operands whose rows begin at multiples of 16 bytes; None where it is something else.
    `terms`: those of a tile."""
    ops = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    products = {op: product for op in ops if (product := product_sum(op)) is not None}
    first = [op for op in products if isinstance(op, Contract) and plain_load(op.a) is not None and plain_load(op.b) is not None]
    second = [op for op in products if op not in first]
    if len(products) < len(ops) or not (first and second) or len({product.k for product in map(products.__getitem__, second)}) > 1:
        return None
    if {dtype_of(op.results[0]) for op in ops} != {"f32"} or not all("reassoc" in op.flags for op in second if isinstance(op, Reduce)):
        return None
    if len(products[second[0]].k) > 1 or any(isinstance(op, Contract) and op.accumulator is not None for op in ops):
        return None
    (along,) = products[second[0]].k
    outer = products[first[0]]
    rows = next((side for side, other in ((outer.m, outer.n), (outer.n, outer.m)) if along in other and along not in side), ())
    for axis in sorted(rows, key=lambda axis: -facts.about(field.axes[axis])):
        scores = [_score(field, facts, products[op], axis, along) for op in first]
        sums = [_sum(products[op], axis, first) for op in second]
        if None not in scores and None not in sums:
            return _chained(field, facts, [s for s in scores if s is not None], [s for s in sums if s is not None], along, terms)
    return None


def _score(field: HirFunction, facts: Facts, product: ProductSum, rows: str, along: str) -> ScoreProduct | None:
    if len(product.k) != 1 or not isinstance(product.op, Contract):
        return None
    (inner,) = product.k
    sides = [side_of(plain_load(operand), evolve(product, m=(rows,), n=(along,)), inner) for operand in (product.a, product.b)]
    row, term = (next((s for s in sides if s is not None and s.axes == (axis,) and not s.across), None) for axis in (rows, along))
    depth = covering(facts, field, inner)
    if row is None or term is None or depth is None or row.steps or term.steps:
        return None
    if field.axes[inner].value != depth and not (ends(row, inner, field) and ends(term, inner, field)):
        return None
    return ScoreProduct(product.op, row, term, inner, depth)


def _sum(product: ProductSum, rows: str, first: Sequence[Instruction]) -> WeighedSum | None:
    """A sum whose weights come of the first products."""
    op, guards = product.op, list[Value]()
    factors = (product.a, product.b)
    if isinstance(op, Reduce):
        value = op.values[0]
        while isinstance(value.source, Select) and is_number(value.source.otherwise, 0.0):
            guards.append(value.source.condition)
            value = value.source.then
        if not isinstance(value.source, Binary) or value.source.operator != "mul":
            return None
        factors = value.source.left, value.source.right
    for weight, value in (factors, factors[::-1]):
        weight, load = uncast(weight), plain_load(uncast(value))
        if load is None or not any(below in first for below in instructions_below(weight)):
            continue
        for axis in (*product.m, *product.n):
            side = side_of(load, evolve(product, m=(axis,), n=()), product.k[0]) if axis != rows else None
            if side is not None and side.across and side.axes == (axis,) and not side.steps and dtype_of(weight) == side.mem.dtype:
                return WeighedSum(op, weight, side, tuple(guards))
    return None


def _chained(
    field: HirFunction, facts: Facts, scores: Sequence[ScoreProduct], sums: Sequence[WeighedSum], along: str, terms: int
) -> ChainedField | None:
    operands = [side for score in scores for side in (score.row, score.term)] + [sum.value for sum in sums]
    if len({side.mem.dtype for side in operands}) > 1 or scores[0].row.mem.dtype not in ("f16", "bf16"):
        return None
    (axis, *other_axes), (guards, *other_guards) = dict.fromkeys(sum.value.axis for sum in sums), dict.fromkeys(sum.guards for sum in sums)
    width = covering(facts, field, axis)
    below = {op for sum in sums for op in instructions_below(sum.weight)}
    if other_axes or other_guards or width is None or not below.isdisjoint(sum.op for sum in sums):
        return None
    walked = [score.term for score in scores] + [sum.value for sum in sums]
    if not divides(terms, field.axes[along]) and not all(ends(side, along, field) for side in walked):
        return None
    if field.axes[axis].value != width and not all(ends(sum.value, axis, field) for sum in sums):
        return None
    inners, scope = {score.inner for score in scores}, field.scope()
    rest, stores = set(field.axes) - inners - {along}, [op for op in field.body.body if isinstance(op, Store)]
    if inners & {along, axis} or any({name for name, _ in scope.axes_of(*op.index)} != rest for op in stores):
        return None
    first, visible = scores[0], visible_of(guards, along, scores[0].row.axis)
    return ChainedField(tuple(scores), tuple(sums), first.row, sums[0].value, first.depth, along, width, visible, terms=terms)
