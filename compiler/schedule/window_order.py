"""The numbers of windows. Those at an edge of a picture lack some terms, which are zeros in the copy that windows are read from. Tiles
whose windows all lack a term leave it out. So windows are numbered box by box: first the lines at an edge of one axis, a box each, then
those at an edge of the next axis inside of the first, and at last the box of all windows that lack nothing. Tiles may reach from one box
into others: they take what any of their windows has."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.types import Mem
from compiler.schedule.combination import PairReduction
from compiler.schedule.interior import ZoneBounds
from compiler.schedule.padded import PaddedCopy, WindowTap
from compiler.schedule.table import AxisPlan

EDGE_SHARE, LEAST_TERMS = 16, 256
"""Where results are stored along lines, ends of lines are boxes of their own if they are at least this part of it: they are stored one by
one, which pays for windows of so many terms."""


class WindowBox:
    """A box of windows: the number of its first, and where it begins along each axis and how far it goes."""

    def __init__(self, begin: Value, end: Value, spans: dict[str, tuple[Value, Value]], b: Builder) -> None:
        *self.others, self.axis = spans
        self.begin, self.end, self.first = begin, end, {axis: first for axis, (first, _) in spans.items()}
        self.extents = {axis: extent for axis, (_, extent) in spans.items()}
        self.width = b.op("max", self.extents[self.axis], b.const(1, "index"))

    def forms(self, line: Value, b: Builder) -> dict[str, Affine]:
        """The places of a line of windows along all axes but the last."""
        digits = b.digits(line, [self.extents[axis] for axis in self.others[1:]]) if self.others else []
        return {axis: Affine.of(digit.name) + self.first[axis].name for axis, digit in zip(self.others, digits, strict=True)}


class WindowOrder:
    """The boxes of windows along `axes`, of which tiles have so many; `in_lines`: whether results are stored along the last axis."""

    def __init__(self, copy: PaddedCopy, product: PairReduction, axes: Sequence[str], tile: int, in_lines: bool, b: Builder) -> None:
        self.axes, self.tile, self.placing = axes, tile, copy.placing
        self.extents = {axis: b.count(copy.extents[axis]) for axis in (*axes, *product.k)}
        self.taps = copy.source.taps(axes, product.k, copy.placing.field.axes)
        self.count = b.product([self.extents[axis] for axis in axes])
        self.terms = b.product([self.extents[axis] for axis in product.k])
        zero = b.const(0, "index")
        spans = {axis: (zero, self.extents[axis]) for axis in axes}
        boxes: list[tuple[WindowTap | None, Value, dict[str, tuple[Value, Value]]]] = []
        for tap in self.taps:
            low, high = self.interior(tap, in_lines and tap.window == axes[-1], b)
            boxes.append((tap, b.sub(self.extents[tap.window], b.sub(high, low)), dict(spans)))
            spans[tap.window] = low, b.sub(high, low)
        boxes.append((None, b.const(1, "index"), spans))
        self.boxes = b.index(sum((Affine.of(count.name) for _, count, _ in boxes), Affine()))
        columns = 1 + 2 * len(axes) + 2 * len(self.taps)
        self.table = b.alloc(Mem("i64", (Affine.of(self.boxes.name) + 1, Affine.of(columns)), align=64), "boxes")
        before, self.lacking = zero, zero
        for at_edge, count, box in boxes:
            if at_edge is not None:
                box[at_edge.window] = zero, b.const(1, "index")
            size = b.product([extent for _, extent in box.values()])
            with b.loop("edge", 0, count.name) as (body, edge):
                ranges = {each: (zero, self.extents[each.term]) for each in self.taps}
                if at_edge is not None:
                    low, inner = spans[at_edge.window]
                    at = body.select(body.op("lt", edge.variable, low), edge.variable, body.add(edge.variable, inner))
                    box[at_edge.window], ranges[at_edge] = (at, body.const(1, "index")), self.terms_of(at_edge, at, body)
                values = [body.add(self.lacking, body.mul(edge.variable, size)), *(each for pair in box.values() for each in pair)]
                for column, value in enumerate([*values, *(each for pair in ranges.values() for each in pair)]):
                    body.store(self.table, body.cast(value, "i64"), [Affine.of(before.name) + edge.variable.name, column])
            if at_edge is not None:
                before, self.lacking = b.add(before, count), b.add(self.lacking, b.mul(count, size))
        b.store(self.table, b.cast(self.count, "i64"), [self.boxes.name, 0])
        self.places = self.window_places(copy, b)
        self.edge_tiles = b.index(Affine.of(self.lacking.name).ceildiv(tile))
        self.ranges = self.ranges_of_tiles(b) if self.taps else None

    def interior(self, tap: WindowTap, in_lines: bool, b: Builder) -> tuple[Value, Value]:
        """The windows along an axis that lack no term, or all where that isn't worth boxes."""
        extent = self.extents[tap.window]
        bounds = ZoneBounds(AxisPlan(tap.window), {tap.term: Affine.of(self.extents[tap.term].name)}, b)
        bounds.add(self.count, tap.bounds)
        low, high = bounds.elements(extent)
        if in_lines:
            edges = b.sub(extent, b.sub(high, low))
            worth = b.op("ge", b.mul(edges, b.const(EDGE_SHARE, "index")), extent)
            worth = b.both(worth, b.op("ge", self.terms, b.const(LEAST_TERMS, "index")))
            low, high = b.select(worth, low, b.const(0, "index")), b.select(worth, high, extent)
        return low, high

    def terms_of(self, tap: WindowTap, window: Value, b: Builder) -> tuple[Value, Value]:
        """From which term on, and before which one, a window has terms along an axis."""
        low, high = b.const(0, "index"), self.extents[tap.term]
        for bound in tap.bounds:
            step, rest = bound.coefficient(tap.term), bound.without(tap.term).substitute({tap.window: window.name})
            if step > 0:
                low = b.op("max", low, b.index((-rest).ceildiv(step)))
            else:
                high = b.op("min", high, b.index(rest.floordiv(-step) + 1))
        return low, high

    def box(self, number: Value, b: Builder) -> WindowBox:
        def at(column: int, after: int = 0) -> Value:
            return b.cast(b.load(self.table, [Affine.of(number.name) + after, column]), "index")

        return WindowBox(at(0), at(0, 1), {axis: (at(2 * place + 1), at(2 * place + 2)) for place, axis in enumerate(self.axes)}, b)

    def window_places(self, copy: PaddedCopy, b: Builder) -> Value:
        """Where each window begins in the copy; behind the last so many more as a tile may reach over it."""
        places = b.alloc(Mem("i64", (Affine.of(self.count.name) + self.tile,), align=64), "places")
        with b.loop("box", 0, self.boxes.name) as (body, number):
            box = self.box(number.variable, body)
            lines = body.product([body.const(1, "index"), *(box.extents[other] for other in box.others)])
            with body.loop("line", 0, lines.name, place="thread") as (each, line):
                begin = copy.offset(box.forms(line.variable, each), each)
                before = each.add(box.begin, each.mul(line.variable, box.extents[box.axis]))
                with each.loop(box.axis, 0, box.extents[box.axis].name) as (one, window):
                    along = {box.axis: Affine.of(window.variable.name) + box.first[box.axis].name}
                    place = one.add(begin, copy.offset(along, one))
                    one.store(places, one.cast(place, "i64"), [Affine.of(before.name) + window.variable.name])
        with b.loop("over", 0, self.tile) as (one, number):
            one.store(places, one.const(0, "i64"), [Affine.of(self.count.name) + number.variable.name])
        return places

    def ranges_of_tiles(self, b: Builder) -> Value:
        """The terms along each tap that any window of a tile has, of tiles with windows that lack some, and behind them of all others."""
        tiles = Affine.of(self.edge_tiles.name)
        ranges = b.alloc(Mem("i64", (tiles + 1, Affine.of(2 * len(self.taps))), align=64), "ranges")
        ends = [b.cast(end, "i64") for tap in self.taps for end in (b.const(0, "index"), self.extents[tap.term])]
        for column, end in enumerate(ends):
            with b.loop("tile", 0, tiles) as (body, tile):
                body.store(ranges, ends[column ^ 1], [tile.variable.name, column])
            b.store(ranges, end, [tiles, column])
        with b.loop("box", 0, self.boxes.name) as (body, number):
            box = self.box(number.variable, body)
            last = body.op("min", body.index(Affine.of(box.end.name).ceildiv(self.tile)), self.edge_tiles)
            with body.loop("tile", Affine.of(box.begin.name).floordiv(self.tile), last.name) as (each, tile):
                for column in range(len(ends)):
                    own = each.load(self.table, [number.variable.name, 1 + 2 * len(self.axes) + column])
                    place = [Affine.of(tile.variable.name), Affine.of(column)]
                    each.store(ranges, each.op("max" if column % 2 else "min", each.load(ranges, place), own), place)
        return ranges

    def range_of(self, tile: Value, b: Builder) -> list[tuple[Value, Value]]:
        """From which term on, and before which one, a tile has terms along each tap."""
        assert self.ranges is not None
        row = b.op("min", tile, self.edge_tiles)
        ends = [b.cast(b.load(self.ranges, [row.name, column]), "index") for column in range(2 * len(self.taps))]
        return list(zip(ends[::2], ends[1::2], strict=True))
