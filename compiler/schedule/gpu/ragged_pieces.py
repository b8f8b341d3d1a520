"""Long rows of a ragged axis on lanes: the lanes of a row read it in pieces of 16 bytes side by side, those that lie in it wholly, and
what there is before the first and behind the last of these element by element, one a lane."""

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.barriers import Barriers
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.ragged import LaneCooperation, mean_row
from compiler.schedule.gpu.ragged_elements import RowElements
from compiler.schedule.gpu.ragged_spans import RaggedSpans
from compiler.schedule.gpu.sorting import taken
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start
from runtime.records import frozen

LONG_BYTES = 448
"""Of a mean row from which lanes are worth it: they ask for where it begins and ends first, and join what they have at its end."""

FULL = 1024
"""Lanes of a multiprocessor from which on rows are many: of fewer ones, blocks read equal parts, however long a row is."""

FLYING = 64
"""Bytes that a lane has under way at once."""

ROWS_RESIDENT = 5
"""Blocks of a multiprocessor for which there are registers: with more, pieces wouldn't be under way at once."""


@frozen(eq=False)
class RowPieces:
    """How rows are read: pieces of a lane under way at once, and lanes of a row."""

    spans: RaggedSpans
    turns: int
    lanes: int


def row_pieces(spans: RaggedSpans, facts: NestFacts, known: Facts) -> RowPieces | None:
    """None where rows are so short that blocks had better read many of them at once, or so few that lanes would be idle."""
    width, mean = sum(bytes_of(mem_of(op.mem).dtype) for op in spans.loads), mean_row(spans.nest, spans.spread, facts, known)
    if mean * width < LONG_BYTES or spans.across > known.machine.lanes:
        return None
    turns, pieces = max(1, FLYING // (spans.across * width)), -(-mean // spans.across)
    lanes = min(known.machine.lanes, max(spans.across, power_of_two(-(-pieces // turns))))
    if known.about(facts.nest.of_loop(spans.nest.outer).extent) * lanes < known.processors * FULL:
        return None
    return RowPieces(spans, min(turns, -(-pieces // lanes)), lanes)


class PieceLanes(RowElements, LaneCooperation):
    """The work of rows as the code of one thread, which is one of the lanes of a row."""

    def __init__(self, pieces: RowPieces, start: Start, barriers: Barriers, rows: Value) -> None:
        LaneCooperation.__init__(self, start, {pieces.spans.spread.outer: pieces.spans.spread}, barriers, pieces.lanes, rows)
        self.of_rows(pieces.spans.spread)
        self.pieces, self.across = pieces, pieces.spans.across
        self.item = start.out.axis("item", self.across)

    def share(self, spread: Spread, number: Value, stride: Value | int, b: Builder) -> list[list[Value]]:
        """What a lane's elements make, by fold. A row of which a check fails is gone through once more, which says where."""
        across, outer = self.across, spread.outer
        self.failed = b.slot(b.const(False, "i1"))
        low = b.index(self.form(outer.low))
        high = b.op("max", b.index(self.form(outer.high)), low)
        first = b.index(Affine.of(low.name).ceildiv(across))
        last = b.op("max", b.index(Affine.of(high.name).floordiv(across)), first)
        head = b.sub(b.op("min", b.index(Affine.of(first.name) * across), high), low)
        behind = b.op("max", b.index(Affine.of(last.name) * across), b.add(low, head))
        singles = []
        for rank in range(0, 2 * across - 2, self.lanes_of_row):
            at = b.add(number, b.const(rank, "index"))
            place = b.select(b.op("lt", at, head), b.add(low, at), b.add(behind, b.sub(at, head)))
            there = b.op("lt", place, high)
            singles.append((place, there, {op: [b.load(self.values[op.mem], [place.name], there)] for op in self.pieces.spans.loads}))
        values = self.whole_pieces(b.index(Affine.of(first.name) + Affine.of(number.name)), last, b)
        for place, there, alone in singles:
            (element,) = self.computed([place], alone, [there], b)
            values = self.element(element, values, there, b)
        if self.pieces.spans.guarded:
            with b.when(b.get(self.failed)) as inner:
                self.copy.one(outer, inner)
        self.values.update((result, self.values[old]) for result, old in zip(outer.results, outer.carried, strict=True))
        left = iter(values)
        return [[next(left) for _ in fold.cells] for fold in spread.folds]

    def whole_pieces(self, own: Value, last: Value, b: Builder) -> list[Value]:
        """What the pieces `own`, and so many lanes further, before the last come to: several under way at once."""
        across, turns, loads = self.across, self.pieces.turns, self.pieces.spans.loads
        end = b.sub(last, b.const(1, "index"))
        with b.loop("piece", own.name, last.name, turns * self.lanes_of_row, self.nothing(b), unroll=1) as (inner, walked):
            numbers = [inner.index(Affine.of(walked.variable.name) + turn * self.lanes_of_row) for turn in range(turns)]
            inside = [inner.op("lt", number, last) if turn else None for turn, number in enumerate(numbers)]
            forms = [Affine.of((inner.op("min", number, end) if turn else number).name) * across for turn, number in enumerate(numbers)]
            read = [[inner.load(self.values[op.mem], [form + Affine.of(self.item)]) for op in loads] for form in forms]
            values = list(walked.carried)
            for form, tiles, there in zip(forms, read, inside, strict=True):
                known = {op: [taken(inner, tile, self.item, item) for item in range(across)] for op, tile in zip(loads, tiles, strict=True)}
                before = values
                for element in self.computed([inner.index(form + item) for item in range(across)], known, [there] * across, inner):
                    values = self.element(element, values, None, inner)
                if there is not None:
                    values = [inner.select(there, value, old) for value, old in zip(values, before, strict=True)]
            inner.yield_(*values)
        return list(walked.results)
