"""The border of windows on warpgroups. Outside of a picture bulk copies put zeros, so that products with finite weights count nothing, as
the nest says; a weight that is infinite or NaN makes NaN of a zero. So whenever that happens it shows: a NaN among the sums. A warpgroup
whose tile has one, and reaches over the border, computes the tile once more, term by term as the nest is written, and writes it
again. What a tile costs without any is one look at its sums."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder
from compiler.hir.core import IsNan
from compiler.hir.gpu import GridIndex, SharedAlloc
from compiler.hir.hopper import BulkWait
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.warpgroup_operands import ROWS, WarpgroupProduct, digit
from compiler.schedule.place import Region, Target

if TYPE_CHECKING:
    from compiler.schedule.gpu.warpgroup_products import WarpgroupDistributing

THREADS = 128
TURNS = 2
"""Tiles that have a note of their own: threads may be one tile apart."""


class Border:
    """In shared memory: of each warpgroup, whether the sums of a tile have a NaN."""

    repairing = False

    def __init__(self, b: Builder, product: WarpgroupProduct) -> None:
        self.product = product
        self.notes: Value | None = None
        if product.may_repair:
            self.notes = b.emit(SharedAlloc(type=Mem("i32", (product.warpgroups, TURNS), space=Space.SHARED)), "notes").result

    def begin(self, b: Builder) -> None:
        if self.notes is not None:
            for group in range(self.product.warpgroups):
                for turn in range(TURNS):
                    b.store(self.notes, b.const(0, "i32"), [group, turn])

    def noted(self, placing: "WarpgroupDistributing", sums: Value, number: Value, b: Builder) -> Value:
        """Whether any thread of the warpgroup has a NaN in its sums of this tile, or, of sums in parts, an infinity."""
        assert self.notes is not None
        place = self.place(placing, number)
        strange = b.sub(sums, sums) if self.product.low else sums
        (found,) = b.reduce("or", b.emit(IsNan(value=strange)).result, over=placing.digits)
        with b.when(found) as noting:
            noting.store(self.notes, noting.const(1, "i32"), place)
        placing.meet(b)
        return b.op("ne", b.load(self.notes, place), b.const(0, "i32"))

    def place(self, placing: "WarpgroupDistributing", number: Value) -> list[Affine]:
        turn = Affine.of(number.name).floordiv(self.product.turns) * self.product.blocks + placing.block
        return [placing.team, turn - turn.floordiv(TURNS) * TURNS]

    def repaired(self, placing: "WarpgroupDistributing", group: Sequence[Target], region: Region, number: Value, b: Builder) -> None:
        """Where the tile reaches over the border, or is of sums in parts: all of it once more, an element a thread and turn, over what
        was written."""
        assert self.notes is not None
        with b.when(placing.leader) as one:
            one.emit(BulkWait(count=0))
        placing.meet(b)
        with b.when(self.outside(placing, region, b)) as again:
            self.repairing = True
            self.recomputed(placing, group, region, again)
            self.repairing = False
        with b.when(placing.leader) as one:
            one.store(self.notes, one.const(0, "i32"), self.place(placing, number))
        placing.meet(b)

    def recomputed(self, placing: "WarpgroupDistributing", group: Sequence[Target], region: Region, b: Builder) -> None:
        columns = placing.width
        thread = Affine.of(b.emit(GridIndex(operator="thread_idx", dim="x")).result.name)
        with b.loop("again", 0, ROWS * columns // THREADS) as (body, loop):
            element = Affine.of(loop.variable.name) * THREADS + thread - thread.floordiv(THREADS) * THREADS
            element = Affine.of(body.index(element).name)
            row = Affine.of(body.index(placing.first_row(placing.block) + element.floordiv(columns)).name)
            places = [digit(row, size, extent, self.product.rows) for _, size, extent in self.product.a.digits]
            column = placing.first_column + element - element.floordiv(columns) * columns
            placing.produce(group, placing.at(region, body, places, column), {})

    def outside(self, placing: "WarpgroupDistributing", region: Region, b: Builder) -> Value:
        """Whether any product of the tile lies outside of the guard."""
        if self.product.low:
            return b.const(True, "i1")
        product, lowest = self.product, b.const(0, "index")
        extents = {axis: placing.field.axes[axis] for axis in (*product.outer, product.sum)}
        ends = {axis: Affine.of(tile) for side in product.sides for axis, tile in zip(side.axes, side.tile, strict=True)}
        corner = region.inside(b, ())
        for form in product.guard:
            for axis, extent in {**extents, **ends}.items():
                first = region.starts[axis] if axis in ends else Affine()
                corner.forms[axis] = first + (extent - 1 if _slope(form, axis) < 0 else 0)
            lowest = b.op("min", lowest, b.index(placing.form(form, corner)))
        return b.op("lt", lowest, b.const(0, "index"))


def _slope(form: Affine, axis: str) -> int:
    """Which way a form goes along an axis, inside of quotients too."""
    inner = ((symbol, coefficient) for symbol, coefficient in form.terms if isinstance(symbol, FloorDiv))
    return form.coefficient(axis) + sum(coefficient * _slope(symbol.numerator, axis) for symbol, coefficient in inner)
