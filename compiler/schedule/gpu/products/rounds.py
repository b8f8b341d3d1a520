"""How much of each tile's sum a block has, and how sums of several blocks become one.

Blocks take tiles round after round: whole tiles, or, where the last round would leave blocks idle, pieces of that round's tiles, as many as
there are blocks for. A tile whose sum is cut so is finished by the block that has its beginning: others leave what they have in memory, and
it adds that up in the order of the sum. Equal shares of all steps for all blocks (stream-K: Osama, Merrill, Cecka, Garland, Owens, PPoPP
2023) would leave nothing idle at all, but blocks at as many places of the sum share neither what the cache has nor pages of memory:
decision 0019.

Where there are too few tiles for a machine, the blocks of a cluster multiply a piece each, write what they have to memory that all of them
see, and each adds up, piece after piece in order, its part of the tile's columns, and finishes that. One launch, the same bits in every
run."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Atomic, Fence
from compiler.hir.hopper import BarrierArrive, BarrierInit, BarrierMake, BarrierWait
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc
from compiler.hir.types import Barrier, Mem
from compiler.schedule.gpu.indices import small, thread_index
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.tiling import LONG_PIECE, MOST_OF_LONG, MOST_PIECES, WARPGROUP
from runtime.records import frozen


@frozen
class RoundPart:
    """What a block does in a round: `steps` of a tile's sum from `low` on, `done` of its own before. `others`: how many blocks have the
    rest of the sum, where these may be any."""

    round: Value
    tile: Value
    low: Value
    steps: Value
    done: Value
    others: Value | None = None


class Rounds:
    """Whole tiles: every so many of `total`, of `steps` from `low` on."""

    def __init__(self, b: Builder, product: BoxedProduct, team: Value, total: Value, low: Value, steps: Value) -> None:
        self.product, self.team, self.low, self.steps = product, team, low, steps
        self.count = small(b, "div", b.add(b.sub(total, team), b.index(product.teams - 1)), b.index(product.teams))

    def part(self, b: Builder, round: Value) -> RoundPart:
        tile = b.index(Affine.of(round.name) * self.product.teams + self.team.name)
        return RoundPart(round, tile, self.low, self.steps, b.mul(round, self.steps))


class UnevenRounds:
    """One tile of a block, where sums aren't of one length: a multiprocessor takes the next when it has room. How many steps there are
    shows where the tile lies."""

    def __init__(self, b: Builder, tile: Value) -> None:
        self.count, self.tile = b.const(1, "index"), tile

    def part(self, b: Builder, round: Value) -> RoundPart:
        none = b.const(0, "index")
        return RoundPart(round, self.tile, none, none, none)


class CutRounds:
    """Pieces of the last round's tiles, then whole tiles. The last block has the beginning of a sum: one that waits began no sooner than
    those that it waits for."""

    def __init__(self, b: Builder, product: BoxedProduct, team: Value, total: Value, steps: Value) -> None:
        self.product, self.team, self.steps = product, team, steps
        teams, unit, none = b.const(product.teams, "index"), b.const(1, "index"), b.const(0, "index")
        whole = small(b, "div", total, teams)
        self.before = b.mul(whole, teams)
        self.left = b.sub(total, self.before)
        apart = b.op("max", self.left, unit)
        long = b.op("min", b.const(MOST_OF_LONG, "index"), small(b, "div", steps, b.const(LONG_PIECE, "index")))
        pieces = b.op("min", b.op("max", b.const(MOST_PIECES, "index"), long), small(b, "div", teams, apart))
        self.length = small(b, "div", b.add(steps, b.sub(pieces, unit)), pieces)
        pieces = small(b, "div", b.add(steps, b.sub(self.length, unit)), self.length)
        self.others = b.sub(pieces, unit)
        piece = small(b, "div", team, apart)
        self.tile = b.add(self.before, b.sub(team, b.mul(piece, apart)))
        self.low = b.mul(b.sub(self.others, piece), self.length)
        self.cut = b.select(b.op("lt", team, b.mul(self.left, pieces)), unit, none)
        self.high = b.op("min", b.add(self.low, self.length), steps)
        self.count = b.add(whole, self.cut)

    def part(self, b: Builder, round: Value) -> RoundPart:
        none = b.const(0, "index")
        cut = b.op("lt", round, self.cut)
        further = b.sub(round, self.cut)
        tile = b.select(cut, self.tile, b.index(Affine.of(further.name) * self.product.teams + self.team.name))
        low, high = b.select(cut, self.low, none), b.select(cut, self.high, self.steps)
        done = b.add(b.mul(self.cut, b.sub(self.high, self.low)), b.mul(further, self.steps))
        return RoundPart(round, tile, low, b.sub(high, low), b.select(cut, none, done), b.select(cut, self.others, none))


AnyRounds = Rounds | CutRounds | UnevenRounds


class Leftovers:
    """What blocks have of sums that others finish: of each block one sum, of each of its warpgroups whether it is there."""

    def __init__(self, b: Builder, product: BoxedProduct) -> None:
        self.product = product
        dims = (product.teams, product.together, product.tiling.groups * product.accumulators, product.columns // 8, WARPGROUP, 2, 2)
        self.sums = b.alloc(Mem(product.to, dims, align=64), "sums")
        there = Mem("u32", (product.teams, product.together, product.tiling.groups), align=64)
        self.there = b.emit(Alloc(type=there, zeros=True), "there").result

    def leave(self, group: MultiplyingWarpgroup, b: Builder, rounds: CutRounds, sums: Sequence[Value]) -> None:
        """For the block that finishes the tile."""
        team = Affine.of(rounds.team.name)
        for number, sum in enumerate(sums):
            b.store(self.sums, sum, self.index(group, b, team, number))
        group.meet(b)
        with b.when(group.leader) as leading:
            leading.emit(Fence(scope="device"))
            self.exchanged(group, leading, team, 1)

    def added(self, group: MultiplyingWarpgroup, b: Builder, rounds: CutRounds, part: RoundPart, sums: Sequence[Value]) -> list[Value]:
        """The tile's sums, of those of its first steps."""
        assert part.others is not None
        with b.loop("other", 0, part.others.name, carried=[rounds.team, *sums]) as (body, loop):
            nearer, *before = loop.carried
            other = body.sub(nearer, rounds.left)
            team = Affine.of(other.name)
            with body.repeat() as (again, _):
                there = Atomic(operation="add", mem=self.there, index=self.flag(group, team), value=again.const(0, "u32"))
                again.condition(again.op("eq", again.emit(there).result, again.const(0, "u32")))
            body.emit(Fence(scope="device"))
            group.meet(body)
            with body.when(group.leader) as leading:
                self.exchanged(group, leading, team, 0)
            partial = [body.load(self.sums, self.index(group, body, team, number)) for number in range(len(sums))]
            body.yield_(other, *[body.add(sum, more) for sum, more in zip(before, partial, strict=True)])
        return loop.results[1:]

    def index(self, group: MultiplyingWarpgroup, b: Builder, team: Affine, number: int) -> list[Affine]:
        pair, eight, half = group.digits
        thread = Affine.of(thread_index(b).name)
        rows = group.number * self.product.accumulators + number
        own = thread % WARPGROUP
        return [team, group.rank, rows, Affine.of(eight), own, Affine.of(half), Affine.of(pair)]

    def flag(self, group: MultiplyingWarpgroup, team: Affine) -> tuple[Affine, ...]:
        return team, group.rank, group.number

    def exchanged(self, group: MultiplyingWarpgroup, b: Builder, team: Affine, there: int) -> None:
        b.emit(Atomic(operation="exchange", mem=self.there, index=self.flag(group, team), value=b.const(there, "u32")))


TURNS = 2
"""Tiles whose sums have memory of their own: a warpgroup may be one tile ahead of others."""


class ClusterSums:
    """`sums`: of each cluster, turn, piece, 64 rows, 8 columns: four neighbouring elements a thread."""

    def __init__(self, b: Builder, product: BoxedProduct) -> None:
        self.product = product
        self.sums: Value | None = None
        self.written: Value | None = None
        if product.tiling.pieces > 1:
            blocks, eights = product.tiling.groups * product.accumulators, product.columns // 8
            dims = (product.teams, TURNS, product.tiling.pieces, blocks, eights, 128, 2, 2)
            self.sums = b.alloc(Mem(product.to, dims, align=64), "sums")

    def begin(self, b: Builder, leading: Builder) -> None:
        """The barriers, made in the block and initialised by one thread: one for each warpgroup, that waits for its like."""
        if self.sums is not None:
            self.written = b.emit(BarrierMake(type=Barrier(self.product.tiling.groups)), "written").result
            for number in range(self.product.tiling.groups):
                leading.emit(BarrierInit(barrier=self.written, barrier_index=(Affine.of(number),), count=self.product.tiling.pieces))

    def range(self, b: Builder, steps: Value, rank: Affine) -> tuple[Value, Value]:
        """Where the block's piece of so many steps begins, and how long it is."""
        pieces = b.index(Affine.of(steps.name).ceildiv(self.product.tiling.pieces))
        low = b.op("min", steps, b.mul(pieces, b.index(rank)))
        return low, b.op("min", pieces, b.sub(steps, low))

    def joined(
        self, group: MultiplyingWarpgroup, b: Builder, cluster: Value, number: Value, parts: Sequence[Value], eight: str, own: str
    ) -> list[Value]:
        """The sums of the block's own columns, along the axis `own`, of sums of all columns, along `eight`."""
        product = self.product
        assert self.sums is not None and self.written is not None
        pair, _, half = group.digits
        thread = Affine.of(thread_index(b).name)
        turn = Affine.of(number.name)
        begin = [Affine.of(cluster.name), turn % TURNS]

        def place(piece: Affine, number: int, column: Affine) -> list[Affine]:
            rows = group.number * product.accumulators + number
            lane = thread % 128
            return [*begin, piece, rows, column, lane, Affine.of(half), Affine.of(pair)]

        for own_number, part in enumerate(parts):
            b.store(self.sums, part, place(group.rank, own_number, Affine.of(eight)))
        group.meet(b)
        with b.when(group.leader) as leading:
            for piece in range(product.tiling.pieces):
                there = leading.const(piece, "i32")
                leading.emit(BarrierArrive(barrier=self.written, barrier_index=(group.number,), rank=there, scope="cluster"))
        parity = b.cast(b.index(begin[1]), "i32")
        b.emit(BarrierWait(barrier=self.written, barrier_index=(group.number,), parity=parity, scope="cluster"))
        totals = []
        for own_number in range(len(parts)):
            column = group.rank * (product.columns // 8 // product.tiling.pieces) + Affine.of(own)
            read = [b.load(self.sums, place(Affine.of(piece), own_number, column)) for piece in range(product.tiling.pieces)]
            total = read[0]
            for more in read[1:]:
                total = b.add(total, more)
            totals.append(total)
        return totals
