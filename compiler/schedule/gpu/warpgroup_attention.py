"""Attention as warpgroups of sm_90a take it (`attention_roles.py` builds the launch)."""

from attrs import asdict

from compiler.hir.module import HirFunction
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.attention_field import AttentionField, attention_field, ends
from compiler.schedule.gpu.boxed_operands import divides
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.warpgroup_tiles import ROWS, WARPGROUP
from runtime.records import frozen

TERMS = ((128, 128), (256, 64))
"""Elements of a query or value, and keys of a tile: two tiles of keys and two of values go beside the queries into shared memory, and the
scores of a tile beside the sums into registers."""
GROUPS = ((64, 3), (256, 2))
"""Elements of a query or value, and warpgroups that multiply: as many as registers are enough for."""
REACH = 256
"""Elements that a box reaches over along a dim, at most."""


@frozen(eq=False, kw_only=True)
class WarpgroupAttention(AttentionField):
    """`groups`: warpgroups that multiply."""

    groups: int

    @property
    def rows(self) -> int:
        return ROWS * self.groups

    @property
    def threads(self) -> int:
        return WARPGROUP * (self.groups + 1)


def warpgroup_attention(field: HirFunction, facts: Facts) -> WarpgroupAttention | None:
    """The field as attention for warpgroups; None where they don't take it."""
    attention = attention_field(field, facts) if facts.machine.unit(Issue.WARPGROUP) is not None else None
    if attention is None or facts.about(field.axes[attention.query.axis]) < ROWS:
        return None
    query, key, value = attention.query, attention.key, attention.value
    if any(field.axes[attention.inner].value != attention.depth and not ends(side, attention.inner, field) for side in (query, key)):
        return None
    largest = max(attention.depth, attention.width)
    terms, groups = (next(number for most, number in table if largest <= most) for table in (TERMS, GROUPS))
    groups = min(groups, REACH // (ROWS * max(query.steps, default=1)))
    if groups < 2 or any(max(side.steps, default=1) * terms > REACH for side in (key, value)):
        return None
    strict = attention.strict or not (divides(terms, field.axes[attention.along]) or ends(value, attention.along, field))
    known = asdict(attention, recurse=False) | {"terms": terms, "strict": strict}
    return WarpgroupAttention(**known, groups=groups)
