"""Fields that are attention, as warpgroups of sm_90a take them: two products joined by a maximum and its sums (`attention_roles.py` builds
the launch). Everything between the products is the field's: scales, masks, caps."""

from attrs import frozen

from compiler.analysis.recognise import product_sum
from compiler.hir.core import Cast, Contract, Reduce, Scan, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.passes.online import Online
from compiler.schedule.gpu.exponents import Exponent, exponent_of
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.rescaling import rescaling_of
from compiler.schedule.gpu.visible import Visible, visible_of
from compiler.schedule.gpu.warpgroup_operands import ROWS, Side, plain_load, side_of

DEPTHS = (64, 128)
"""Elements of a query, and of a value, that tiles have."""
TERMS = 128
"""Keys of a tile."""
GROUPS = {64: 3, 128: 2}
"""Warpgroups that multiply, by the elements of a value: as many as registers are enough for."""


@frozen(eq=False)
class WarpgroupAttention:
    """A field that is attention: scores of queries and keys, summed along `inner`; values, weighted along `along`. `depth` and `width`:
    elements of a query and of a value that a tile has; `groups`: warpgroups that multiply."""

    rule: Online
    scores: Contract
    weighted: Contract
    weight: Value
    query: Side
    key: Side
    value: Side
    inner: str
    along: str
    depth: int
    width: int
    groups: int
    exponent: Exponent
    visible: Visible

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return ROWS * self.groups

    @property
    def dtype(self) -> str:
        return self.query.mem.dtype


def warpgroup_attention(field: HirFunction, facts: Facts) -> WarpgroupAttention | None:
    """The field as attention for warpgroups; None where they don't take it."""
    rescaling = rescaling_of(field) if facts.architecture == "sm_90a" else None
    if rescaling is None:
        return None
    rule = rescaling.rule
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    products = [op for op in sums if isinstance(op, Contract)]
    weighted = [op for op in products if op in rule.rescaled]
    scores = [op for op in products if op not in rule.rescaled]
    if len(weighted) != 1 or len(scores) != 1 or any(op not in (rule.maximum, *rule.rescaled, *scores) for op in sums):
        return None
    first, second = product_sum(scores[0]), product_sum(weighted[0])
    if first is None or second is None or second.k != (rule.axis,) or len(first.k) != 1 or len(rule.maximum.over) != 1:
        return None
    if any(len(axes) != 1 for axes in (first.m, first.n, second.m, second.n)):
        return None
    sides = [side_of(plain_load(operand), first, first.k[0]) for operand in (scores[0].a, scores[0].b)]
    values = [side_of(plain_load(_uncast(operand)), second, rule.axis) for operand in (weighted[0].a, weighted[0].b)]
    key = next((side for side in sides if side is not None and side.axis == rule.axis), None)
    query = next((side for side in sides if side is not None and side.axis != rule.axis), None)
    found = [side for side in values if side is not None]
    if key is None or query is None or len(found) != 1:
        return None
    (value,) = found
    dtype = query.mem.dtype
    if dtype not in ("f16", "bf16") or {key.mem.dtype, value.mem.dtype} != {dtype} or {op.to for op in products} != {"f32"}:
        return None
    if query.across or key.across or not value.across or query.axis not in (*second.m, *second.n):
        return None
    depth, width = (_covering(facts, field, axis) for axis in (first.k[0], value.axis))
    stores = [op for op in field.body.body if isinstance(op, Store)]
    scope = field.scope()
    own = {query.axis, value.axis, *first.batch}
    if depth is None or width is None or any({axis for axis, _ in scope.axes_of(*op.index)} != own for op in stores):
        return None
    if set(first.batch) != set(second.batch) or facts.about(field.axes[query.axis]) < ROWS:
        return None
    if dtype_of(rule.maximum.results[0]) != "f32":
        return None
    exponent = exponent_of(rule, scores[0].results[0])
    visible = visible_of(exponent.guards, rule.axis, query.axis)
    from compiler.schedule.gpu.attention_options import opt
    groups = opt('groups', GROUPS[max(depth, width)])
    weight = weighted[0].b if values[0] is value else weighted[0].a
    return WarpgroupAttention(
        rule, scores[0], weighted[0], weight, query, key, value, first.k[0], rule.axis, depth, width, groups, exponent, visible
    )


def _uncast(value: Value) -> Value:
    """The narrow number behind a widening, which loses nothing."""
    return value.source.value if isinstance(value.source, Cast) and value.source.to == "f32" else value


def _covering(facts: Facts, field: HirFunction, axis: str) -> int | None:
    return next((depth for depth in DEPTHS if depth >= facts.about(field.axes[axis])), None)
