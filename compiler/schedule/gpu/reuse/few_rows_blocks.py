"""Launches of products of few rows: the warps of a block take turns along the sum, and add up what they have in shared memory."""

from collections.abc import Iterator, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import IsNan
from compiler.hir.gpu import ClusterStore, ClusterSync, SharedAlloc, SyncThreads, WarpIndex
from compiler.hir.instruction import Value
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import Mem, Space, Tile
from compiler.schedule.gpu.indices import lane_index, small_digits, thread_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.reuse.streamed_columns import ComputedColumns, FewRowsPlacing, FewTerms, GroupScales, PackedColumns
from compiler.schedule.region import Target, TileRegion


class FewRowsBlocks(FewRowsPlacing):
    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        counts = [b.count(self.field.axes[axis]) for axis in self.batch]
        counts.append(b.count(self.field.axes[product.column].ceildiv(product.columns)))
        blocks = b.product(counts)
        if product.split > 1:
            blocks = b.mul(blocks, b.const(product.split, "index"))
        with self.blocks(blocks, region, (), product.split) as (inner, number):
            column = Affine.of(number.name)
            if product.split > 1:
                self.rank = inner.builder.emit(WarpIndex(operator="cluster_rank")).result
                inner.builder.emit(ClusterSync(writes=False, part="arrive"))
                column = inner.builder.named(column.floordiv(product.split))
            if self.batch:
                *digits, last = small_digits(inner.builder, inner.builder.index(column), counts)[1:]
                self.enter_matrix(inner, digits)
                column = Affine.of(last.name)
            inner.starts[product.row] = Affine()
            inner.starts[product.column] = column * product.columns
            inner.axes |= {product.row, product.column, *self.batch}
            self.multiplied(group, inner)

    def multiplied(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        lane, warp = lane_index(b), warp_index(b)
        quarter, line = b.named(lane % 4), b.named(lane.floordiv(4))
        names = [self.out.axis(name, extent) for name, extent in product.kind.sums_of((8 * product.own, 8 * product.blocks, 16)).axes]
        type = Tile(product.kind.sums, tuple(zip(names, (product.blocks, 2, product.own // 2, 2), strict=True)))
        shape = 8 * product.own, 8 * product.blocks, 16
        packed = product.packed
        self.many = ComputedColumns(self, line, quarter) if packed is None else PackedColumns(self, packed, line, quarter)
        self.few, self.scales = FewTerms(self, line, quarter, self.many.order), GroupScales(self, line, quarter, names)
        turns = b.index(self.field.axes[product.sum].ceildiv(product.terms))
        first = b.named(warp if self.rank is None else warp + Affine.of(self.rank.name) * product.warps)
        step = product.warps * product.split
        with b.loop("turn", first, turns.name, step, carried=[b.const(0.0, type)]) as (body, loop):
            (total,) = loop.carried
            parts = [*self.parts_of(self.at_turn(region, body, loop.variable))]
            now = iter(self.fetched(parts))
            for number, part in enumerate(parts):
                if number % product.alike == 0:
                    sums, scale = total if product.sum_.scale is None else body.const(0.0, type), self.scales.of(part, now)
                many, few = self.many.registers(part, now), self.few.registers(part, now)
                for pairs in ((pair, pair + 1) for pair in range(0, product.share // 2, 2)):
                    a = [many(2 * tile + half, pair) for tile in range(product.own // 2) for pair in pairs for half in range(2)]
                    c = [few(block, pair) for block in range(product.blocks) for pair in pairs]
                    multiplied = WarpMma(accumulator=sums, values=(*a, *c), shape=shape, dtype=product.sum_.dtype, unit=product.unit)
                    sums = body.emit(multiplied).result
                if number % product.alike == product.alike - 1:
                    total = sums if scale is None else body.fma(sums, scale, total)
            body.yield_(total)
        self.joined(group, region, loop.results[0], names, line, quarter, warp)

    def fetched(self, parts: Sequence[TileRegion]) -> list[Value]:
        """What is read in a turn, before any of it is multiplied."""
        values = list[Value]()
        for number, part in enumerate(parts):
            scales = self.scales.fetched(part) if number % self.product.alike == 0 else []
            values += [*scales, *self.many.fetched(part), *self.few.fetched(part)]
        return values

    def at_turn(self, region: TileRegion, b: Builder, turn: Value) -> TileRegion:
        """The body at the terms of a turn."""
        product, extent = self.product, self.field.axes[self.product.sum]
        inner = region.inside(b, (product.row, product.column, product.sum))
        inner.starts[product.sum] = Affine.of(turn.name) * product.terms
        if not divides(product.terms, extent):
            inner.masks[product.sum] = extent
        return inner

    def parts_of(self, region: TileRegion) -> Iterator[TileRegion]:
        """The terms of a turn that have a scale in common."""
        product = self.product
        for number in range(product.parts):
            inner = region.inside(region.builder, (product.row, product.column, product.sum))
            inner.starts[product.sum] = region.starts[product.sum] + number * product.part
            yield inner

    def joined(
        self, group: Sequence[Target], region: TileRegion, sums: Value, names: Sequence[str], line: Affine, quarter: Affine, warp: Affine
    ) -> None:
        """The sums of all warps, of an element for each thread, and what follows them."""
        product, b = self.product, region.builder
        column, half, row, simd = names
        columns, extent = product.columns, self.field.axes[product.row]
        memory = self.shared_sums(b, product.warps, columns)
        at_row = quarter * 2 + Affine.of(column) * 8 + simd
        b.store(memory, sums, [warp, at_row, Affine.of(row) * 16 + Affine.of(half) * 8 + line])
        b.emit(SyncThreads())
        if self.rank is None:
            with b.loop("element", thread_index(b).name, extent * columns, 32 * product.warps) as (body, loop):
                inner = region.inside(body, (product.row, product.column))
                self.produced(group, inner, memory, product.warps, loop.variable, Affine(), columns)
            return
        each = columns // product.split
        of_blocks = self.shared_sums(b, product.split, each)
        b.emit(ClusterSync(writes=False, part="wait"))
        member = Affine.of(self.rank.name)
        with b.loop("element", thread_index(b).name, extent * columns, 32 * product.warps) as (body, loop):
            at = Affine.of(loop.variable.name)
            total = self.added(body, memory, product.warps, at, columns)
            rank = body.cast(body.index((at % columns).floordiv(each)), "i32")
            body.emit(ClusterStore(mem=of_blocks, value=total, index=(member, at.floordiv(columns), at % each), rank=rank))
        b.emit(ClusterSync())
        with b.loop("element", thread_index(b).name, extent * each, 32 * product.warps) as (body, loop):
            inner = region.inside(body, (product.row, product.column))
            self.produced(group, inner, of_blocks, product.split, loop.variable, member * each, each)

    def shared_sums(self, b: Builder, count: int, columns: int) -> Value:
        """Columns of lanes of different lines lie side by side, and rows so that lanes use different banks."""
        type = Mem(self.product.kind.sums, (count, 8 * self.product.blocks, columns + 4), space=Space.SHARED, align=16)
        return b.emit(SharedAlloc(type=type), "sums").result

    def added(self, b: Builder, memory: Value, count: int, at: Affine, columns: int) -> Value:
        """The sums of an element that warps, or blocks, have."""
        own = [b.named(at.floordiv(columns)), b.named(at % columns)]
        total = b.load(memory, [Affine(), *own])
        for other in range(1, count):
            total = b.add(total, b.load(memory, [Affine.of(other), *own]))
        return total

    def produced(
        self, group: Sequence[Target], region: TileRegion, memory: Value, count: int, number: Value, first: Affine, columns: int
    ) -> None:
        """What follows the sum of an element."""
        product, b, at = self.product, region.builder, Affine.of(number.name)
        region.forms[product.row] = b.named(at.floordiv(columns))
        position = b.named(first + at % columns)
        self.at(region, product.column, position % 8 * product.own + position.floordiv(8))
        total = self.added(b, memory, count, at, columns)
        if product.sum_.scale is not None:
            total = self.repaired(region, total)
        region.made[product.sum_.described.op.results[0]] = total
        self.produce(group, region, {})

    def repaired(self, region: TileRegion, total: Value) -> Value:
        """A sum that isn't finite is computed again as the nest has it: scales that are infinite are factors of terms, not of sums."""
        product, target = self.product, self.product.sum_.described.op
        strange = region.builder.emit(IsNan(value=region.builder.sub(total, total))).result
        with region.builder.branch(strange, [total.type]) as (again, fine, choice):
            fine.yield_(total)
            with again.loop("term", 0, self.field.axes[product.sum], carried=[again.const(0.0, total.type)]) as (body, loop):
                inner = region.inside(body, (product.row, product.column, product.sum))
                inner.forms[product.sum] = Affine.of(loop.variable.name)
                body.yield_(*self.accumulate(target, loop.carried, inner))
            again.yield_(*loop.results)
        return choice.results[0]
