"""Several iterations of a shared loop under way in each thread, so that all their loads are on their way before the first is used. Where
the loop walks along memory, a thread reads pieces: neighbours that begin at a multiple of 16 bytes. The first and the last piece of a
row hold elements of others too, which are read and dropped; nothing is read behind the memory's last whole piece but element by element.

Which thread joins what, and in which order, depends on where the loop begins and ends alone."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.types import Slot, bytes_of
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.pieces import loads_in_pieces
from compiler.schedule.gpu.reduction import combined, identities
from compiler.schedule.gpu.sorting import taken
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start
from runtime.records import frozen

FEWEST = 2
"""Elements of a piece that make it worth it."""


@frozen(eq=False)
class Pieces:
    """Loads of a loop that read `across` neighbours at once."""

    loads: tuple[Load, ...]
    across: int


def pieces_of(spread: Spread, known: Facts) -> Pieces | None:
    """How the loop reads in pieces; None where it doesn't walk along memory, or does more than to join what it reads there."""
    loop = spread.outer
    if not overlaps(spread) or any(isinstance(op, Check) for op in loop.body.body):
        return None
    loads = loads_in_pieces(loop, known)
    if not loads or len(loads) < sum(isinstance(op, Load) for op in loop.body.body):
        return None
    across = max(ALIGNMENT // bytes_of(mem_of(op.mem).dtype) for op in loads)
    return Pieces(loads, across) if across >= FEWEST else None


def overlaps(spread: Spread) -> bool:
    """Whether a thread may do several iterations at once: they do nothing but compute what is joined."""
    loop = spread.outer
    cells = [cell for fold in spread.folds for cell in fold.cells]
    if len(spread.loops) > 1 or not cells or loop.step != 1 or any(isinstance(cell.type, Slot) for cell in cells):
        return False
    return all(isinstance(op, Load | Check | Yield) or (op.effects is Effect.PURE and not op.regions) for op in loop.body.body)


class Overlapping(Cooperation):
    """Work whose threads take several iterations of a shared loop at once."""

    def __init__(
        self, start: Start, spreads: Mapping[For, Spread], barriers: Barriers, lanes: int, turns: int, known: Facts | None
    ) -> None:
        """`known`: where memories are aligned; None where nothing is read in pieces."""
        super().__init__(start, spreads, barriers, lanes)
        self.turns, self.known = turns, known

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        pieces = None if self.known is None else pieces_of(spread, self.known)
        if isinstance(stride, int) and pieces is not None:
            return self.in_pieces(spread, pieces, number, stride, b)
        if isinstance(stride, int) and self.turns > 1 and overlaps(spread):
            return self.at_once(spread, number, stride, b)
        return super().share(spread, number, stride, b)

    def end(self, spread: Spread, b: Builder) -> Value:
        """Where the loop ends for this thread."""
        return b.index(self.copy.form(spread.outer.high))

    def at_once(self, spread: Spread, number: Value, stride: int, b: Builder) -> list[list[Value]]:
        """As `share` has it, several iterations a turn, instruction by instruction, each with cells of its own. Those behind the last do
        the last one again, and what comes of that is dropped."""
        loop, form, count = spread.outer, self.copy.form, self.turns
        parameters, last = loop.body.parameters[1:], loop.body.body[-1]
        first = self.started(spread, b)
        high = self.end(spread, b)
        end = b.sub(high, b.const(1, "index"))
        start = form(loop.low) + Affine.of(number.name)
        with b.loop(loop.variable.name, start, high.name, stride * count, first * count) as (inner, walked):
            places = [inner.index(Affine.of(walked.variable.name) + stride * turn) for turn in range(count)]
            own: list[dict[Value, Value]] = []
            for turn, place in enumerate(places):
                carried = walked.carried[turn * len(parameters) :][: len(parameters)]
                own.append(dict(zip(parameters, carried, strict=True)))
                own[turn][loop.variable] = inner.op("min", place, end) if turn else walked.variable
            for op in loop.body.body:
                for known in own if op is not last else []:
                    self.values.update(known)
                    self.again(op, inner)
                    known.update((result, self.values[result]) for result in op.results)
            given: list[Value] = []
            for turn, (place, known) in enumerate(zip(places, own, strict=True)):
                values = [known.get(value, self.values[value]) for value in last.operand_values]
                if turn:
                    there = inner.op("lt", place, high)
                    values = [inner.select(there, value, known[cell]) for cell, value in zip(parameters, values, strict=True)]
                given += values
            inner.yield_(*given)
        return self.joined(spread, walked.results, b)

    def in_pieces(self, spread: Spread, pieces: Pieces, number: Value, stride: int, b: Builder) -> list[list[Value]]:
        """As `share` has it, in pieces: several a turn, each with cells of its own, and in each piece one element after the other. Behind
        the last whole piece of a memory there are single elements."""
        loop, form, count, across = spread.outer, self.copy.form, self.turns, pieces.across
        cells, first = loop.body.parameters[1:], self.started(spread, b)
        low, high, nothing = b.index(form(loop.low)), self.end(spread, b), b.const(0, "index")
        axis = self.start.out.axis("item", across)
        whole = [form(mem_of(op.mem).dims[0]).floordiv(across) * across for op in pieces.loads]
        reach = high
        for extent in dict.fromkeys(whole):
            reach = b.op("min", reach, b.index(extent))
        some = b.op("lt", low, reach)
        begin = b.select(some, b.index(Affine.of(low.name).floordiv(across)), nothing)
        end = b.select(some, b.index(Affine.of(reach.name).ceildiv(across)), nothing)
        behind = b.sub(end, b.const(1, "index"))
        with b.loop("piece", Affine.of(begin.name) + Affine.of(number.name), end.name, stride * count, first * count) as (inner, walked):
            at = [inner.index(Affine.of(walked.variable.name) + stride * turn) for turn in range(count)]
            read: list[list[Value]] = []
            for turn, piece in enumerate(at):
                there = inner.op("min", piece, behind) if turn else piece
                read.append([inner.load(self.values[op.mem], [Affine.of(there.name) * across + axis]) for op in pieces.loads])
            given: list[Value] = []
            for turn, (piece, tiles) in enumerate(zip(at, read, strict=True)):
                values = walked.carried[turn * len(cells) :][: len(cells)]
                position = inner.index(Affine.of(piece.name) * across)
                inside = self.elements_inside(position, low, reach, across, inner)
                for item in range(across):
                    known = {op: taken(inner, tile, axis, item) for op, tile in zip(pieces.loads, tiles, strict=True)}
                    bit = inner.op("and", inside, inner.const(1 << item, "u32"))
                    own = inner.op("ne", bit, inner.const(0, "u32"))
                    new = self.iteration(loop, inner.index(Affine.of(position.name) + item), values, known, inner)
                    values = [inner.select(own, value, old) for value, old in zip(new, values, strict=True)]
                given += values
            inner.yield_(*given)
        results = walked.results
        if any(extent.value is None or form(mem_of(op.mem).dims[0]) != extent for op, extent in zip(pieces.loads, whole, strict=True)):
            rest = b.op("max", low, reach)
            with b.loop("rest", Affine.of(rest.name) + Affine.of(number.name), high.name, stride, results[: len(cells)], unroll=1) as (
                inner,
                single,
            ):
                inner.yield_(*self.iteration(loop, single.variable, single.carried, {}, inner))
            results = [*single.results, *results[len(cells) :]]
        return self.joined(spread, results, b)

    def elements_inside(self, position: Value, low: Value, high: Value, across: int, b: Builder) -> Value:
        """A bit for each element of the piece at a position: whether it lies from `low` to below `high`."""
        nothing, one = b.const(0, "index"), b.const(1, "u32")
        before = b.op("max", b.sub(low, position), nothing)
        upto = b.op("max", b.op("min", b.sub(high, position), b.const(across, "index")), nothing)
        return b.sub(b.op("shl", one, b.cast(upto, "u32")), b.op("shl", one, b.cast(before, "u32")))

    def iteration(self, loop: For, variable: Value, cells: Sequence[Value], known: Mapping[Load, Value], b: Builder) -> list[Value]:
        """What an iteration makes of the cells, where some loads are known."""
        self.values.update(zip(loop.body.parameters, (variable, *cells), strict=True))
        for op in loop.body.body[:-1]:
            if isinstance(op, Load) and op in known:
                self.values[op.results[0]] = known[op]
            else:
                self.again(op, b)
        return [self.values[value] for value in loop.body.body[-1].operand_values]

    def again(self, op: Instruction, b: Builder) -> None:
        b.span = op.span
        self.copy.one(op, b)

    def started(self, spread: Spread, b: Builder) -> list[Value]:
        """What the cells hold before a thread's first iteration."""
        loop = spread.outer
        started = {c: v for fold in spread.folds for c, v in zip(fold.cells, identities(b, fold.monoid, fold.dtypes), strict=True)}
        return [
            started[cell] if cell in started else self.values[old] for cell, old in zip(loop.body.parameters[1:], loop.carried, strict=True)
        ]

    def joined(self, spread: Spread, results: Sequence[Value], b: Builder) -> list[list[Value]]:
        """The cells of all turns, joined, by fold."""
        parameters = spread.outer.body.parameters[1:]
        totals: list[list[Value]] = []
        for fold in spread.folds:
            places = [parameters.index(cell) for cell in fold.cells]
            parts = [[results[turn * len(parameters) + place] for place in places] for turn in range(self.turns)]
            while len(parts) > 1:
                parts = [combined(b, fold.monoid, one, other) for one, other in zip(parts[::2], parts[1::2], strict=True)]
            totals += parts
        return totals
