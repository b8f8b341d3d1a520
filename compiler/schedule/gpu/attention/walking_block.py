"""What blocks that walk along tiles of terms, as those of keys, have in common, whoever multiplies: the turns that rows need, what is
hidden in them, numbers in registers as tensor cores leave them. Four lanes share a row, each has two neighbours of every eight columns,
and rows eight apart."""

from collections.abc import Callable, Iterable, Sequence
from math import inf

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import IsNan, Pack2
from compiler.hir.gpu import Vote
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.types import Tile
from compiler.schedule.gpu.attention.field import WalkedField
from compiler.schedule.gpu.attention.walk import QueryTiles, Walk
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import Target, TileRegion
from runtime.records import evolve

BOTH, BELOW, NONE = (True, False), (False,), ()
"""With which bounds of keys those of a turn are compared: those above them, and those below."""


class WalkingBlock:
    """What a block does, whoever multiplies. `terms`: keys of a tile that a warp has; `columns`: the axes of its registers along them,
    neighbours and eights; `half`: that of its rows; `rows`: all axes along rows; `features`: along a value, as `columns`."""

    columns: tuple[str, str]
    half: str
    rows: tuple[str, ...]
    features: tuple[str, str]
    lane: Affine
    across: Affine
    """The first column that a lane has."""

    def __init__(self, placing: BlockTiles, walked: WalkedField, queries: QueryTiles, region: TileRegion) -> None:
        self.placing, self.walked, self.queries, self.region = placing, walked, queries, region
        self.terms = walked.terms
        self.compared: dict[TileRegion, tuple[bool, ...]] = {}
        """Of each turn: the bounds that may hide some of its keys."""

    def attended(self, group: Sequence[Target], block: Value, blocks: Value) -> None:
        """What the block of this number among so many does: its tiles of queries with their keys, and what follows."""
        raise NotImplementedError

    def stored(self, target: Store, region: TileRegion) -> bool:
        """Whether the block has a way of its own to store a result, and did."""
        return False

    def make(self, op: Instruction, region: TileRegion) -> Value | None:
        """A value as this block computes it; None: as everywhere."""
        return None

    # ---- turns ----

    def tile(self, walk: Walk, turn: Value) -> Affine:
        return Affine.of(walk.last.name) - 1 - Affine.of(turn.name)

    def start(self, walk: Walk, turn: Value) -> Affine:
        """The first key of a turn that the warp has."""
        return self.tile(walk, turn) * self.walked.terms

    def stretches(self, b: Builder, walk: Walk) -> list[tuple[Value, Value, tuple[bool, ...]]]:
        """Turns behind the first: begin, end, and the bounds that may hide some of their keys."""
        unit = b.const(1, "index")
        parts: list[tuple[Value, Value, tuple[bool, ...]]] = [(walk.open, walk.closed, NONE)]
        if walk.open is not unit:
            parts.insert(0, (unit, walk.open, BOTH))
        if walk.closed is not walk.turns:
            parts.append((walk.closed, walk.turns, BELOW))
        return parts

    def turned(self, region: TileRegion, b: Builder, walk: Walk, number: Value, compared: tuple[bool, ...]) -> TileRegion:
        """The scores of this turn: their places, and which exist."""
        along, (pair, eight) = self.walked.along, self.columns
        turn = region.inside(b, (along,))
        turn.starts[along] = self.start(walk, number)
        turn.forms[along] = turn.starts[along] + self.across + Affine.of(eight) * 8 + pair
        self.compared[turn] = compared
        if True in compared and not divides(self.walked.terms, self.placing.field.axes[along]):
            turn.masks[along] = self.placing.field.axes[along]
        return turn

    # ---- registers ----

    def tile_of_rows(self, dtype: str) -> Tile:
        """A number for each row of a thread."""
        return Tile(dtype, tuple((axis, self.placing.out.function.axes[axis]) for axis in self.rows))

    def hidden(self, turn: TileRegion, value: Value, otherwise: float = -inf) -> Value:
        """Scores, or weights, with what guards hide, and what isn't there, at another number. Bounds are compared as whole numbers of 32
        bits, relative to the first of a thread's columns."""
        b, walked = turn.builder, self.walked
        along, (pair, eight) = walked.along, self.columns
        nothing = b.const(otherwise, "f32")
        for other in self.conditions(turn):
            value = b.select(self.placing.value(other, turn), value, nothing)
        if not self.compared[turn]:
            return value
        start = turn.starts[along]
        limits: dict[bool, Value] = {}
        if along in turn.masks:
            limits[True] = b.index(turn.masks[along] - 1 - start)
        for bound in walked.visible.bounds:
            if bound.above not in self.compared[turn]:
                continue
            limit = b.index(evolve(bound, rest=self.placing.form(bound.rest, turn)).last(turn.forms[walked.query.axis]) - start)
            known = limits.get(bound.above)
            limits[bound.above] = limit if known is None else b.op("min" if bound.above else "max", limit, known)
        column = b.cast(b.index(Affine.of(eight) * 8 + pair), "i32")
        for above, limit in limits.items():
            near = b.cast(b.op("min", b.op("max", limit, b.const(-1, "index")), b.const(self.terms, "index")), "i32")
            own = b.sub(near, b.cast(b.index(self.across), "i32"))
            value = b.select(b.op("le" if above else "ge", column, own), value, nothing)
        return value

    def conditions(self, turn: TileRegion) -> list[Value]:
        """What may hide scores of a turn besides bounds."""
        known = {each.condition for each in self.walked.compared} if self.compared[turn] == NONE else set()
        return [other for other in self.walked.visible.others if other not in known]

    def speaks(self, b: Builder) -> Value:
        """Whether the thread is the one that stores what its rows come to, of those that have them."""
        return b.op("eq", b.index(self.across), b.const(0, "index"))

    def packed(self, b: Builder, weights: Value) -> Value:
        """In pairs, as the left operand of the second product."""
        return b.emit(Pack2(value=b.cast(weights, self.walked.dtype), over=self.columns[0])).result

    def score(self, region: TileRegion, query: BoxedOperand, key: BoxedOperand, axis: str) -> Value:
        """The sum of products of the thread's rows and one key."""
        b = region.builder
        with b.loop("element", 0, self.placing.field.axes[axis], carried=[b.const(0.0, self.tile_of_rows("f32"))]) as (body, loop):
            inner = region.inside(body, (axis,))
            inner.forms[axis] = Affine.of(loop.variable.name)
            left, right = (body.cast(self.placing.value(side.load.results[0], inner), "f32") for side in (query, key))
            body.yield_(body.fma(left, right, loop.carried[0]))
        return loop.results[0]

    def summed_again(
        self, region: TileRegion, walk: Walk, sum: Value, guards: Iterable[Value], weighed: Callable[[TileRegion], tuple[Value, Value]]
    ) -> Value:
        """A sum over terms, or where it is NaN that of the terms that are there and that no guard hides; `weighed` gives the weight and the
        value of one."""
        b, walked = region.builder, self.walked
        wrong = b.emit(IsNan(value=sum)).result
        (any_wrong,) = b.reduce("or", wrong, over=(*self.features, *self.rows))
        with b.branch(b.emit(Vote(operation="any", predicate=any_wrong)).result, [sum.type]) as (again, fine, chosen):
            first = again.index((Affine.of(walk.last.name) - walk.turns.name) * walked.terms)
            last = again.index(Affine.of(walk.last.name) * walked.terms)
            end = again.op("min", last, again.index(self.placing.field.axes[walked.along]))
            with again.loop("key", first.name, end.name, carried=[again.const(0.0, sum.type)]) as (body, loop):
                term = region.inside(body, (walked.along,))
                term.forms[walked.along] = Affine.of(loop.variable.name)
                weight, value = weighed(term)
                product = body.mul(body.cast(weight, "f32"), body.cast(value, "f32"))
                for guard in guards:
                    product = body.select(self.placing.value(guard, term), product, body.const(0.0, "f32"))
                body.yield_(body.add(loop.carried[0], product))
            again.yield_(again.select(wrong, loop.results[0], sum))
            fine.yield_(sum)
        return chosen.results[0]
