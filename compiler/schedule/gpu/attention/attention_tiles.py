"""Attention in tiles with the memories named (form B): loops over matrices and blocks of rows; in each of them a loop in time over tiles of
keys, from the last that the rows see to the first, which carries the maximum, the sums of weights and those of values. What stands between
the products, and what follows them, is what `place` finds in the field."""

from collections.abc import Sequence
from contextlib import ExitStack
from math import inf, nan
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.core import Contract, Convert, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.passes.dce import dce
from compiler.passes.rotate import rotate
from compiler.schedule.gpu.attention.field import AttentionField, ends
from compiler.schedule.gpu.attention.walk import walk_of
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides
from compiler.schedule.gpu.products.product_tiles import BlockPlan
from compiler.schedule.place import Placing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table

STAGES = 2
"""Tiles of keys, and of values, that are on their way or in use."""
TWICE = 128
"""Elements of a query or value of which there is room for two tiles of queries."""


class AttentionTiles(Placing):
    outer = "grid"

    def __init__(self, field: HirFunction, attention: AttentionField) -> None:
        query, along, columns = attention.query.axis, attention.along, attention.value.axis
        own = {query: attention.rows, columns: attention.width, along: attention.terms, attention.inner: attention.depth}
        self.batch = [axis for axis in field.axes if axis not in own]
        super().__init__(
            field, Table([*(AxisPlan(axis) for axis in self.batch), *(BlockPlan(axis, registers=n) for axis, n in own.items())])
        )
        self.attention = attention
        self.rule = attention.rule
        self.sums = [op for op in self.rule.rescaled if op is not attention.weighted]

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        attention, region = self.attention, root
        with ExitStack() as loops:
            for axis in (*self.batch, attention.query.axis):
                plan, stages = self.table[axis], STAGES if max(attention.depth, attention.width) <= TWICE else 1
                marks = self.marked(axis, stages if axis == attention.query.axis else None)
                high = self.field.axes[axis].ceildiv(plan.tile)
                body, loop = loops.enter_context(region.builder.loop(f"{axis}0", 0, high, place=self.outer, **marks))
                region = region.inside(body, (axis,))
                self.enter(plan, Affine.of(loop.variable.name), region)
            self.rows(stores, region)

    def run(self) -> HirFunction:
        return dce(super().run())

    # ---- loops ----

    def marked(self, axis: str, stages: int | None = None, searched: bool = False) -> dict[str, Any]:
        """What the loop over an axis says of it."""
        marks: dict[str, Any] = {"axis": axis, "pipeline": stages, "searched": searched or None}
        # turns of a walk aren't all of an axis
        ends = axis != self.attention.along and divides(self.table[axis].tile, self.field.axes[axis])
        marks["extent"] = None if ends else self.field.axes[axis]
        for other in () if axis != self.attention.query.axis else (self.attention.inner, self.attention.value.axis):
            marks[f"extent_{other}"] = None if self.field.axes[other].value == self.table[other].tile else self.field.axes[other]
        return {name: mark for name, mark in marks.items() if mark is not None}

    def rows(self, stores: Sequence[Target], region: TileRegion) -> None:
        """A block of rows: its walk along keys, and what follows."""
        attention, b = self.attention, region.builder
        for axis in attention.inner, attention.value.axis:
            self.enter(self.table[axis], Affine(), region)
        for axis in attention.query.axis, attention.value.axis:
            self.end_where(axis, region)
        self.staged(attention.query, region, "queries")
        walk, along = walk_of(self, attention, region), attention.along
        first = Affine.of(walk.last.name) - 1
        nothing = (self.of_rows(b, 0.0, dtype_of(op.results[0])) for op in self.sums)
        begin = [self.of_rows(b, -inf), *nothing, self.of_rows(b, 0.0, "f32", attention.value.axis)]
        marks = self.marked(along, STAGES, bool(attention.compared))
        low, high = first, first - walk.turns.name
        with b.loop(f"{along}0", low, high, -1, carried=begin, **marks) as (body, loop):
            turn = region.inside(body, (along,))
            self.enter(self.table[along], Affine.of(loop.variable.name), turn)
            self.end_where(along, turn)
            body.yield_(*self.turn(turn, loop.carried))
        maximum, *totals, output = loop.results
        for op, total in zip(self.sums, totals, strict=True):
            region.made[op.results[0]] = self.total_of_row(b, total, maximum) if attention.rows_read else total
        region.made[self.rule.maximum.results[0]] = maximum
        region.made[self.rule.total] = self.started(b, maximum)
        region.made[attention.weighted.results[0]] = output
        for target in stores:
            self.finish_target(target, region, {}, False)

    def end_where(self, axis: str, region: TileRegion) -> None:
        """Tiles reach over the end of an axis that they don't divide."""
        if not divides(self.table[axis].tile, self.field.axes[axis]):
            region.masks[axis] = self.field.axes[axis]

    def of_rows(self, b: Builder, number: float, dtype: str = "f32", *further: str) -> Value:
        """A number for each row of a tile, or for each of its sums."""
        axes = tuple((axis, self.table[axis].tile) for axis in (self.attention.query.axis, *further))
        return b.const(number, Tile(dtype, axes))

    def started(self, b: Builder, maximum: Value) -> Value:
        """A maximum joined with the number that the program's starts from."""
        return maximum if self.rule.start == -inf else b.op("max", maximum, b.const(self.rule.start, "f32"))

    def total_of_row(self, b: Builder, total: Value, maximum: Value) -> Value:
        """A sum of exponentials that are NaN where all scores are hidden."""
        if self.rule.start != -inf:
            return total
        hidden = b.op("eq", maximum, b.const(-inf, "f32"))
        keys = b.op("gt", b.index(self.field.axes[self.attention.along]), b.const(0, "index"))
        return b.select(b.op("and", hidden, keys), b.const(nan, "f32"), total)

    # ---- a turn ----

    def turn(self, turn: TileRegion, before: Sequence[Value]) -> list[Value]:
        """The maximum and the sums with a tile of keys."""
        attention, b, along = self.attention, turn.builder, self.attention.along
        maximum, *totals, output = before
        key = self.staged(attention.key, turn, "keys")
        query = turn.find(attention.query.load.result)
        assert query is not None
        product = Contract(a=query, b=key, over=(attention.inner,), to="f32", flags=attention.scores.flags)
        turn.made[attention.scores.results[0]] = b.emit(product).result
        scores = self.rule.maximum.values[0]
        turn.made[scores] = self.masked(self.value(scores, turn), -inf, [along], turn)
        most = b.op("max", maximum, b.reduce("max", turn.made[scores], over=[along])[0])
        start, base = b.const(self.rule.start, "f32"), self.started(b, most)
        if self.rule.start == -inf:
            # while nothing is seen, what exponents are less by is a number
            base = b.select(b.op("eq", most, start), b.const(0.0, "f32"), most)
        growth = b.sub(self.started(b, maximum), base)
        growth = growth if self.rule.scale is None else b.mul(growth, self.value(self.rule.scale, turn))
        growth = b.op(self.rule.exponential, growth)
        turn.made[self.rule.maximum.results[0]] = turn.made[self.rule.total] = base
        sums = [self.added(op, b.mul(total, growth), turn) for op, total in zip(self.sums, totals, strict=True)]
        return [most, *sums, self.weighted(b.mul(output, growth), turn)]

    def added(self, op: Reduce | Contract, total: Value, turn: TileRegion) -> Value:
        assert isinstance(op, Reduce)
        return turn.builder.add(total, turn.builder.reduce("add", *self.brought(op, turn), over=op.over, flags=op.flags)[0], op.flags)

    def weighted(self, total: Value, turn: TileRegion) -> Value:
        """The sums of values, of weights that are rounded to the values' type where nothing else is between them."""
        attention, b, op = self.attention, turn.builder, self.attention.weighted
        value = self.staged(attention.value, turn, "values")
        if isinstance(op, Reduce):
            return self.added(op, total, turn)
        weight = b.cast(self.masked(self.value(attention.weight, turn), 0.0, [attention.along], turn), attention.dtype)
        return b.emit(Contract(a=weight, b=value, accumulator=total, over=(attention.along,), to=op.to, flags=op.flags)).result

    def staged(self, side: BoxedOperand, region: TileRegion, ring: str) -> Value:
        """What copies bring of an operand: boxes have zeros where memory ends. `ring`: what its tiles wait in."""
        b, load, mem = region.builder, side.load, region.find(side.load.mem)
        assert mem is not None
        behind = [axis for axis in region.masks if axis == self.attention.along and not ends(side, axis, self.field)]
        where = self.mask(region, behind, load.where)
        with b.at(load.span):
            tile = b.load(mem, self.index(load.index, load.mem, region), where, 0.0)
            shared = b.emit(Convert(value=tile, place="shared", ring=ring)).result
        region.made[load.result] = shared
        return shared


def rotated_products(tiles: HirFunction) -> HirFunction:
    """Tiles in which the weights of a turn meet their values beside the scores of the next."""
    (loop,) = (op for top in tiles.body.body for op in top.walk() if isinstance(op, For) and op.place == "time")
    scores = next(op for op in loop.body.body if isinstance(op, Contract))
    (*_, last) = loop.body.body
    assert isinstance(last, Yield)
    sum = last.values[-1].source
    assert sum is not None
    return rotate(tiles, sum, scores)
