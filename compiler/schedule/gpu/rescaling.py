"""Sums that read a maximum along their own axis, in one pass with it: when the maximum grows, what has been summed is multiplied by what
the exponential changes (`passes/online.py` proves where that holds). The textbook's three passes over the scores of attention become
one."""


from compiler.analysis.recognise import product_sum
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.passes.online import Online, online
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.combine import combine_over_threads
from compiler.schedule.region import Target, TileRegion
from runtime.records import Factory, define

LOWEST = {
    "f16": -(2.0 - 2.0**-10) * 2.0**15,
    "bf16": -(2.0 - 2.0**-7) * 2.0**127,
    "f32": -(2.0 - 2.0**-23) * 2.0**127,
    "f64": -(2.0 - 2.0**-52) * 2.0**1023,
}
"""The lowest finite numbers."""


@define(eq=False)
class Rescaling:
    """The rule at work in one field. The maximum starts at the lowest finite number, so that a block of scores that are all hidden
    makes no NaN."""

    rule: Online
    _growth: dict[TileRegion, Value] = Factory(dict)
    """What sums are multiplied by in an iteration, by the body of its loop."""

    def covers(self, target: Target) -> bool:
        return target in self.rule.rescaled

    def identity(self, placing: BlockTiles, region: TileRegion) -> list[Value]:
        """The maximum of nothing, for each row that a thread has."""
        maximum = self.rule.maximum
        axes = sorted(placing.axes(maximum.results), key=placing.table.order)
        dtype = dtype_of(maximum.results[0])
        return [region.builder.const(max(LOWEST[dtype], self.rule.start), Tile(dtype, placing.tile_axes(axes, region)))]

    def grown(self, placing: BlockTiles, before: Value, region: TileRegion) -> list[Value]:
        """The maximum with this tile's elements, complete: all threads along the axis have it."""
        b, maximum = region.builder, self.rule.maximum
        value = placing.masked(placing.value(maximum.values[0], region), float("-inf"), [self.rule.axis], region)
        over = [name for name, _ in placing.tile_axes([self.rule.axis], region)]
        tile = b.reduce("max", value, over=over)[0] if over else value
        dims = [placing.table[self.rule.axis].dim] if placing.table[self.rule.axis].threads > 1 else []
        (tile,) = combine_over_threads(placing, maximum, [tile], dims, b)
        after = b.op("max", before, tile)
        difference = b.sub(before, after)
        if self.rule.scale is not None:
            difference = b.mul(difference, placing.value(self.rule.scale, region))
        self._growth[region] = b.op(self.rule.exponential, difference)
        region.made[maximum.results[0]] = after
        return [after]

    def rescaled(self, sums: list[Value], region: TileRegion) -> list[Value]:
        growth: Value | None = None
        around: TileRegion | None = region
        while growth is None and around is not None:
            growth, around = self._growth.get(around), around.parent
        assert growth is not None
        return [region.builder.mul(value, region.builder.cast(growth, dtype_of(value))) for value in sums]


def rescaling_of(field: HirFunction) -> Rescaling | None:
    """The rule, where it holds for all that reads a maximum and the maximum itself isn't a result."""
    axes = dict.fromkeys(axis for op in field.body.body if isinstance(op, Contract | Reduce) and is_product(op) for axis in op.over)
    for axis in axes:
        rule = online(field, axis)
        if isinstance(rule, Online) and any(map(is_product, rule.rescaled)) and not _is_read_after(field, rule):
            return Rescaling(rule)
    return None


def is_product(op: Contract | Reduce) -> bool:
    """Whether it is a sum of products with rows and columns, guarded or not."""
    product = None if isinstance(op, Contract) else product_sum(op)
    return isinstance(op, Contract) or (product is not None and bool(product.m and product.n))


def _is_read_after(field: HirFunction, rule: Online) -> bool:
    """Whether something reads the maximum other than through the sums that are rescaled."""
    named = {result.name: result for op in field.body.body for result in op.results}
    waiting = [value for op in field.body.body if isinstance(op, Store) for value in op.operand_values]
    others = [op for op in field.body.body if isinstance(op, Reduce | Contract) and op not in rule.rescaled]
    waiting += [value for op in others for value in op.operand_values]
    seen: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in rule.maximum.results or value is rule.total:
            return True
        if value in seen or value.source is None or value.source in rule.rescaled:
            continue
        seen.add(value)
        waiting += value.source.operand_values
        waiting += [named[name] for name in value.source.symbols if name in named]
    return False
