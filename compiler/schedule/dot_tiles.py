"""Tiles of products whose terms an instruction takes several at a time.

An instruction may want bytes of one sign from rows and of the other from columns. Rows of the wrong sign are held 128 off, and 128 times
the sum of each column is taken away again.

An instruction may take subnormal numbers for zeros. Where the least numbers of a panel of rows and of one of columns are large enough, no
sum is subnormal, because all are multiples of the last place of the least product. Other tiles multiply the same panels one term after the
other."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, Contract
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Tile
from compiler.schedule.packed import Kept, Side, TermBlock
from compiler.schedule.panels import PlacingPacked
from compiler.schedule.region import TileRegion
from compiler.schedule.table import SIMD

LEAST_NORMAL, LEAST_PRODUCT = 2.0**-126, 2.0**-110
INFINITE, SIZE = 0x7F800000, 0x7FFFFFFF
"""The least normal number, and the least product of numbers of two panels. Last places of bf16 are 2^-7 of their powers of two, so those of
products 2^-14; a number is less than twice its power of two. Bits of an infinite f32, and all but the sign's."""


class PlacingDots(PlacingPacked):
    """Places products of such terms."""

    ftz = False
    """Whether no subnormal number is met in the tile that is written."""

    def allocate(self, high: Value, wide: Value, waiting: Value, b: Builder) -> None:
        super().allocate(high, wide, waiting, b)
        assert self.packing.dots is not None
        self.dots = self.packing.dots
        dims = waiting.name, b.mul(high, b.const(self.packing.tile, "index")).name
        self.sums, self.behind = b.alloc(Mem(self.product.dtype, dims, align=64), "sums"), ()
        if self.dots.unit.flushes:
            self.least, self.least_of_columns = b.alloc(Mem(self.product.dtype, (b.add(high, wide).name,)), "least"), Affine.of(high.name)
        if self.dots.shift:
            self.shifts = b.alloc(Mem(self.product.dtype, (wide.name, Affine.of(self.packing.columns.plan.tile)), align=64), "shifts")

    def operand(self, side: Side, region: TileRegion) -> Value:
        value, b = super().operand(side, region), region.builder
        if side is self.packing.columns or not self.dots.shift:
            return value
        bits = b.cast(value, self.dots.rows)
        return b.op("xor", bits, b.const(self.dots.shift, self.dots.rows))

    def look_through(self, side: Side, panel: Value, block: TermBlock, b: Builder) -> None:
        if self.dots.unit.flushes:
            self.note_least(side, panel, block, b)
        if self.dots.shift and side is self.packing.columns:
            self.note_shifts(panel, block, b)

    # ---- numbers that are too small ----

    def note_least(self, side: Side, panel: Value, block: TermBlock, b: Builder) -> None:
        """The least number of a panel that isn't 0: bits of numbers without signs, less one, are in the numbers' order, and those of 0 are
        the last."""
        lanes, tile, one = self.packing.lanes, side.plan.tile, b.const(1, "u32")
        unit = lanes if side.along else self.group.tile
        vectors = Affine.of(block.count.name).ceildiv(unit) * (unit * tile // lanes)
        infinite = b.const(INFINITE - 1, Tile("u32", ((SIMD, Affine.of(lanes)),)))
        with b.loop("vector", 0, vectors, carried=[infinite]) as (body, vector):
            place = self.element(side, panel, Affine(), Affine())
            place[-1] = Affine.of(vector.variable.name) * lanes + Affine.of(SIMD)
            number = body.cast(body.load(self.work, place), self.product.dtype)
            bits = body.op("and", body.emit(Bitcast(value=number, to="u32")).result, body.const(SIZE, "u32"))
            body.yield_(body.op("min", vector.carried[0], body.sub(bits, one)))
        (least,) = b.reduce("min", vector.results[0], over=[SIMD])
        number = b.emit(Bitcast(value=b.add(least, one), to=self.product.dtype)).result
        b.store(self.least, number, [self.place_of_least(side, panel)])

    def place_of_least(self, side: Side, panel: Value) -> Affine:
        before = self.least_of_columns if side is self.packing.columns else Affine()
        return Affine.of(panel.name) - self.before[side] + before

    def are_normal(self, stand: dict[Side, Value], b: Builder) -> Value:
        """Whether no sum of products of these panels is subnormal."""
        rows, columns = (b.load(self.least, [self.place_of_least(side, panel)]) for side, panel in stand.items())
        large = b.op("ge", b.mul(rows, columns), b.const(LEAST_PRODUCT, self.product.dtype))
        return b.op("and", large, b.op("ge", b.op("min", rows, columns), b.const(LEAST_NORMAL, self.product.dtype)))

    def tile(self, stand: dict[Side, Value], kept: Kept, block: TermBlock, region: TileRegion) -> Value:
        if not self.dots.unit.flushes:
            return super().tile(stand, kept, block, region)
        axes = tuple((name, Affine.of(extent)) for side in stand for name, extent, _ in self.width(side).digits())
        normal, types = self.are_normal(stand, region.builder), [Tile(self.product.dtype, axes)]
        with region.builder.branch(normal, types, likely=True) as (then, otherwise, chosen):
            for body, self.ftz in (then, True), (otherwise, False):
                body.yield_(super().tile(stand, kept, block, region.inside(body, ())))
        return chosen.results[0]

    # ---- shifted rows ----

    def note_shifts(self, panel: Value, block: TermBlock, b: Builder) -> None:
        """What each column's sums are off by, as rows are shifted."""
        columns, digits = self.packing.columns, self.width(self.packing.columns).digits()
        nothing = b.const(0, Tile(self.product.dtype, tuple((name, Affine.of(extent)) for name, extent, _ in digits)))
        shift = b.const(self.dots.shift, Tile(self.dots.rows, tuple((name, Affine.of(extent)) for name, extent, _ in self.group.digits())))
        with b.loop(self.summed, 0, Affine.of(block.count.name).ceildiv(self.group.tile), carried=[nothing]) as (body, loop):
            term = Affine.of(loop.variable.name) * self.group.tile
            vector = term.floordiv(self.packing.lanes)
            factor = self.read(columns, panel, block.start, vector, term - vector * self.packing.lanes, body)
            body.yield_(self.multiplied(shift, factor, loop.carried[0], body))
        b.store(self.shifts, loop.results[0], self.place_of_shifts(panel))

    def place_of_shifts(self, panel: Value) -> list[Affine]:
        return [Affine.of(panel.name) - self.before[self.packing.columns], self.width(self.packing.columns).within()]

    def add_terms(
        self, stand: dict[Side, Value], sums: Sequence[Value], block: TermBlock, first: Affine, behind: Affine, region: TileRegion
    ) -> list[Value]:
        total, *others = super().add_terms(stand, sums, block, first, behind, region)
        if self.dots.shift:
            total = region.builder.sub(total, region.builder.load(self.shifts, self.place_of_shifts(stand[self.packing.columns])))
        return [total, *others]

    # ---- terms ----

    def multiplied(self, left: Value, right: Value, sums: Value, b: Builder) -> Value:
        over = tuple(name for name, _, _ in self.group.digits())
        flags = (*self.product.flags, *(("ftz",) if self.ftz else ()))
        return b.emit(Contract(a=left, b=right, accumulator=sums, over=over, to=self.product.dtype, flags=flags)).result

    def read(self, side: Side, panel: Value, start: Value, block: Affine, within: Affine, b: Builder) -> Value:
        held = super().read(side, panel, start, block, within, b)
        return b.cast(held, self.dots.rows if side is self.packing.rows else self.dots.columns)
