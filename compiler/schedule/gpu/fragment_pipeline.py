"""Sums of products on the tensor cores of any target, as a pipeline. The threads of a block copy tiles of both operands into a ring of
stages in shared memory, ahead of the products; each warp reads fragments of the stage that has arrived, those of the next depth before
it multiplies these, and keeps its part of the sums in registers, on which what follows is computed.

The way of working is the multistage one of NVIDIA's CUTLASS (`cp.async`, one barrier a stage, fragments in two sets of registers)."""

from collections.abc import Iterable, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.gpu import SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Tile
from compiler.schedule.gpu.boxed_operands import divides
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.fragment_operands import FragmentProduct
from compiler.schedule.gpu.fragment_stages import Stages, row_count, row_digits
from compiler.schedule.gpu.indices import banded, counted_on, lane_index, small, small_digits, thread_index, warp_index
from compiler.schedule.gpu.windows import WindowProduct, added_again
from compiler.schedule.region import NotPlaceable, Target, TileRegion
from compiler.schedule.table import SIMD, AxisPlan, Table

BAND = 16
"""Tiles along the rows that are taken together, so that what they read stays in the L2 cache."""


class FragmentDistributing(Distributing):
    """Builds the one launch of such a field."""

    def __init__(self, field: HirFunction, product: FragmentProduct, window: WindowProduct | None = None) -> None:
        self.others = [axis for axis in field.axes if axis not in (*product.own, *product.walked)]
        plans = [AxisPlan(axis, "block") for axis in (*self.others, *product.own)] + [AxisPlan(axis) for axis in product.walked]
        shape = product.shape
        words = [f"{shape.rows} by {shape.columns} sums a block, {' by '.join(map(str, shape.part))} a warp, on the tensor cores"]
        for name, side in zip(("rows", "columns"), (product.a, product.b), strict=True):
            words.append(f"{name} ({', '.join(side.axes)}) come {side.words}, {shape.stages} stages of {shape.depth} terms")
        super().__init__(field, Table(plans, words, block=(shape.threads,)))
        self.product, self.window = product, window
        self.first_row = Affine()
        """Of the block's tile, counted through all axes of the rows."""

    def idle(self, axes: Iterable[str]) -> list[int]:
        """Every thread has elements of its own."""
        return []

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        if any(self.target_axes(target) != {*self.product.own, *self.others} for target in group):
            raise NotPlaceable("a result that doesn't vary along all axes of a product")
        b, shape = region.builder, self.product.shape
        extents = [*(self.field.axes[axis] for axis in self.others), row_count(self.field, self.product, b).ceildiv(shape.rows)]
        extents.append(self.field.axes[self.product.b.own].ceildiv(shape.columns))
        counts = [b.count(extent) for extent in extents]
        total = b.product(counts)
        with self.blocks(total, region, ()) as (inner, number):
            self.tile(inner, number, counts)
            self.multiplied(group, inner)

    def tile(self, region: TileRegion, number: Value, counts: Sequence[Value]) -> None:
        """The place of the block's tile: in bands of rows."""
        b, shape = region.builder, self.product.shape
        down, across = counts[-2:]
        matrix = b.mul(down, across)
        rest, block = small(b, "div", number, matrix), small(b, "rem", number, matrix)
        for axis, digit in zip(self.others, small_digits(b, rest, counts[:-2])[1:], strict=True):
            region.forms[axis] = region.starts[axis] = Affine.of(digit.name)
        row, column = banded(b, block, down, across, BAND)
        self.first_row = Affine.of(row.name) * shape.rows
        columns = self.product.b.own
        region.forms[columns] = region.starts[columns] = Affine.of(column.name) * shape.columns
        if self.product.a.across:
            region.starts[self.product.a.own] = self.first_row
        region.axes |= {*self.product.own, *self.others}

    # ---- the sum ----

    def multiplied(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product, shape = region.builder, self.product, self.product.shape
        rows, columns = shape.part
        thread = Affine.of(thread_index(b).name)
        lane = lane_index(b)
        warp = warp_index(b)
        first_row = b.named((warp % shape.down) * rows)
        first_column = b.named(warp.floordiv(shape.down) * columns)
        a = Stages(self, product.a, product, self.first_row, first_row, thread, lane, region)
        other = Stages(self, product.b, product, None, first_column, thread, lane, region)
        sides = (a, other)
        steps = b.index(self.field.axes[product.sum].ceildiv(shape.depth), "steps")
        counts = [b.index(self.field.axes[axis]) for axis in product.outer] + [steps]
        for axis in product.outer:
            steps = b.mul(steps, b.count(self.field.axes[axis]))
        places: list[Value] = [b.const(0, "index") for _ in counts]
        for stage in range(shape.stages - 1):
            for side in sides:
                side.begin(b, self.inside_sum(region, b, places), Affine.of(stage), b.op("lt", b.index(stage), steps))
            for side in sides:
                side.arrive(b)
            b.emit(AsyncCommit())
            places = counted_on(b, places, counts)
        self.wait(b)
        extents = {"column": columns // 8, "half": 2, "row": rows // 16, SIMD: 2}
        names = {name: self.out.axis(name, extent) for name, extent in extents.items()}
        type = Tile(product.kind.sums, tuple((names[name], extent) for name, extent in extents.items()))
        zero = b.const(0 if type.dtype == "i32" else 0.0, type)
        early, late = sides[: shape.ahead], sides[shape.ahead :]
        held = self.registers(b, early, Affine(), 0)
        # along one axis the place of the copies is known from the step
        places = places if product.outer else []
        with b.loop("step", 0, steps.name, carried=[zero, *places, *held], unroll=1) as (body, loop):
            total, *rest = loop.carried
            places, held = rest[: len(places)], rest[len(places) :]
            step = Affine.of(loop.variable.name)
            parts = shape.depth // shape.step
            for part in range(parts):
                last = part == parts - 1
                now = self.registers(body, late, _turn(body, step, shape.stages), part)
                if last:
                    for side in sides:
                        side.arrive(body)
                    body.emit(AsyncCommit())
                    self.wait(body)
                at = _turn(body, step + (1 if last else 0), shape.stages)
                following = self.registers(body, early, at, 0 if last else part + 1)
                if part == 0:
                    self.ahead(region, body, sides, places, step, steps)
                product_ = WarpMma(accumulator=total, values=(*held, *now), shape=(rows, columns, shape.step), dtype=product.dtype)
                total, held = body.emit(product_).result, following
            body.yield_(total, *(counted_on(body, places, counts) if places else ()), *held)
        row = self.first_row + first_row + lane.floordiv(4) + Affine.of(names["half"]) * 8 + Affine.of(names["row"]) * 16
        column = region.starts[product.b.own] + first_column + (lane % 4) * 2 + Affine.of(names[SIMD]) + Affine.of(names["column"]) * 8

        def element(b: Builder, places: Mapping[str, Affine]) -> TileRegion:
            return self.standing(region, b, row.substitute(places), column.substitute(places))

        inner = self.standing(region, b, row, column)
        inner.made[product.target.results[0]] = loop.results[0]
        self.produce(group, inner, {})
        if self.window is not None:
            added_again(self, self.window, group, inner, element)

    def standing(self, region: TileRegion, b: Builder, row: Affine, column: Affine) -> TileRegion:
        """The body at a row and a column of the results."""
        inner, product, shape = region.inside(b, self.product.own), self.product, self.product.shape
        inner.forms.update(row_digits(self.field, product, row, b))
        inner.forms[product.b.own] = column
        for axis, tile in ((product.a.axes[0], shape.rows if len(product.a.axes) == 1 else 0), (product.b.own, shape.columns)):
            if not tile or not divides(tile, self.field.axes[axis]):
                inner.masks[axis] = self.field.axes[axis]
        return inner

    def registers(self, b: Builder, sides: Sequence[Stages], stage: Affine, part: int) -> list[Value]:
        return [value for side in sides for value in side.fragments(b, stage, part)]

    def ahead(self, region: TileRegion, b: Builder, sides: Sequence[Stages], places: Sequence[Value], step: Affine, steps: Value) -> None:
        """Copies of the stage that was read last begin."""
        stages = self.product.shape.stages
        turn = step + (stages - 1)
        inside = b.op("lt", b.index(turn), steps)
        for side in sides:
            side.begin(b, self.inside_sum(region, b, places or [b.index(turn)]), _turn(b, turn, stages), inside)

    def inside_sum(self, region: TileRegion, b: Builder, places: Sequence[Value]) -> TileRegion:
        """The body at a place of the sum."""
        inner = region.inside(b, (*self.product.own, *self.product.walked))
        for axis, position in zip(self.product.walked, places, strict=True):
            inner.forms[axis] = Affine.of(position.name) * (self.product.shape.depth if axis == self.product.sum else 1)
        return inner

    def wait(self, b: Builder) -> None:
        """The next stage has arrived, and all threads have read the one before."""
        b.emit(AsyncWait(count=self.product.shape.stages - 2))
        b.emit(SyncThreads())


def _turn(b: Builder, turn: Affine, stages: int) -> Affine:
    """The stage of a turn."""
    return b.named(turn % stages)
