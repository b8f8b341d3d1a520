"""Charts as shapes, laid out once: `svg.py` writes them into the page, `png.py` draws them into files."""

from collections.abc import Iterator, Sequence
from math import isfinite, log10

from runtime.records import frozen
from runtime.replay.outputs.axes import decades, nanoseconds, number_ticks, span, time_ticks
from runtime.replay.outputs.charts import Bins, Chart, LineForm, Marks, NamedBars, OverTime, TimeLine, Tone

WIDTH, HEIGHT = 900, 260
RIGHT, TOP, BOTTOM = 16, 14, 28
LETTER = 6.3
"""The width of a letter of a label, about."""
_LEFT = 84
"""At least so wide is the margin with the labels of values."""
_ROW = 26
_NAMES = 150
_GAP = 10
"""Between two labels of an axis."""

Corners = Sequence[tuple[float, float]]


@frozen
class Stroke:
    """A line through points. `look`: what the line is in the chart, `grid`, `zero`, `line` or `rule`; `name`: of a rule."""

    look: str
    points: Corners
    tone: Tone | None = None
    name: str = ""


@frozen
class Polygon:
    """An area under a line (`area`), or the mark of a moment (`mark`). `title`: what it says when pointed at."""

    look: str
    points: Corners
    tone: Tone
    title: str = ""


@frozen
class Box:
    """The bar of a count. `title`: what it says when pointed at."""

    x: float
    y: float
    width: float
    height: float
    title: str


@frozen
class Dot:
    """The only point of a line."""

    x: float
    y: float
    tone: Tone


@frozen
class ChartLabel:
    """A text. `look`: what it is of, `value`, `time`, `day`, `name`, `count`, `rule` or `nothing`; `anchor`: which end of it is at `x`."""

    look: str
    x: float
    y: float
    text: str
    anchor: str
    tone: Tone | None = None


Shape = Stroke | Polygon | Box | Dot | ChartLabel


@frozen
class ValueRange:
    """What a chart over time shows: `left` is where `begin` is, `low` stands at its foot."""

    left: float
    begin: int
    end: int
    low: float
    high: float


@frozen
class Drawing:
    height: float
    shapes: Sequence[Shape]
    range: ValueRange | None = None
    """Of a chart over time."""


def drawn(chart: Chart) -> Drawing:
    """The shapes of a chart, whatever is in it."""
    match chart:
        case OverTime() if not chart.empty:
            return _over_time(chart)
        case NamedBars() if not chart.empty:
            return _named(chart)
        case Bins() if not chart.empty:
            return _bins(chart)
    return Drawing(HEIGHT / 3, [ChartLabel("nothing", WIDTH / 2, HEIGHT / 6, "nothing to show", "middle")])


@frozen
class _Upright:
    """Values from `low` at the foot to `high` at the top."""

    low: float
    high: float

    def __call__(self, value: float) -> float:
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


@frozen
class _Along:
    """Times from `begin` at `left` to `end` at the right."""

    begin: int
    end: int
    left: float

    def __call__(self, ts: int) -> float:
        return self.left + (ts - self.begin) / (self.end - self.begin) * (WIDTH - self.left - RIGHT)


def _over_time(chart: OverTime) -> Drawing:
    stamps = [point.ts for line in chart.lines for point in line.points] + [mark.ts for marks in chart.marks for mark in marks.points]
    values = [float(point.value) for line in chart.lines for point in line.points]
    values += [float(mark.value) for marks in chart.marks for mark in marks.points]
    begin, end = min(stamps), max(stamps)
    end = max(end, begin + 1)
    low, high = span([value for value in values if isfinite(value)], with_zero=any(line.form is not LineForm.LINE for line in chart.lines))
    ticks = number_ticks(low, high)
    left = _margin(ticks)
    x, y = _Along(begin, end, left), _Upright(low, high)
    times, day = time_ticks(begin, end)
    shapes = [*_rows(y, ticks, left), *_times([(x(ts), text) for ts, text in times], day)]
    if low < 0 < high:
        shapes.append(Stroke("zero", [(left, y(0)), (WIDTH - RIGHT, y(0))]))
    for line in chart.lines:
        shapes += _line(line, x, y)
    for marks in chart.marks:
        shapes += _marks(marks, x, y)
    return Drawing(HEIGHT, shapes, ValueRange(left, begin, end, low, high))


def _line(line: TimeLine, x: _Along, y: _Upright) -> Iterator[Shape]:
    """A gap where values aren't finite."""
    for points in _stretches([(x(point.ts), float(point.value)) for point in line.points]):
        corners: list[tuple[float, float]] = []
        for at, value in points:
            height = y(value)
            if line.form is LineForm.STEPS and corners:
                corners.append((at, corners[-1][1]))
            corners.append((at, height))
        if line.form is LineForm.AREA:
            yield Polygon("area", [*corners, (corners[-1][0], y(0)), (corners[0][0], y(0))], line.tone)
        yield Stroke("line", corners, line.tone) if len(points) > 1 else Dot(*corners[0], line.tone)


def _stretches(points: Corners) -> Iterator[Corners]:
    """Neighbours that are finite, together."""
    begin = 0
    for index, (_, value) in enumerate(points):
        if not isfinite(value):
            if index > begin:
                yield points[begin:index]
            begin = index + 1
    if len(points) > begin:
        yield points[begin:]


def _marks(marks: Marks, x: _Along, y: _Upright) -> Iterator[Shape]:
    base = 8 if marks.up else -8
    for mark in marks.points:
        if isfinite(value := float(mark.value)):
            at, height = x(mark.ts), y(value)
            yield Polygon("mark", [(at, height), (at - 4.5, height + base), (at + 4.5, height + base)], marks.tone, mark.text)


def _named(chart: NamedBars) -> Drawing:
    most = max(bar.count for bar in chart.bars) or 1
    shapes: list[Shape] = []
    for row, bar in enumerate(chart.bars):
        top = TOP + row * _ROW
        width = (WIDTH - _NAMES - 90) * bar.count / most
        shapes.append(ChartLabel("name", _NAMES - 8, top + 14, bar.name, "end"))
        shapes.append(Box(_NAMES, top + 2, width, _ROW - 8, f"{bar.name}: {bar.count:,}"))
        shapes.append(ChartLabel("count", _NAMES + width + 6, top + 14, f"{bar.count:,}", "start"))
    return Drawing(2 * TOP + len(chart.bars) * _ROW, shapes)


def _bins(chart: Bins) -> Drawing:
    low = min([chart.bars[0].low, *(rule.at for rule in chart.rules if rule.at > 0)]) / 1.1
    high = max([chart.bars[-1].high, *(rule.at for rule in chart.rules)]) * 1.1
    y = _Upright(0, max(bar.count for bar in chart.bars) * 1.15)
    ticks = [(value, text) for value, text in number_ticks(0, y.high) if value == int(value)]
    left = _margin(ticks)

    def x(value: float) -> float:
        return left + log10(max(value, low) / low) / log10(high / low) * (WIDTH - left - RIGHT)

    shapes = [*_rows(y, ticks, left), *_times([(x(value), text) for value, text in decades(low, high)])]
    for bar in chart.bars:
        if bar.count:
            begin, end, top = x(bar.low), x(bar.high), y(bar.count)
            shapes.append(Box(begin, top, max(end - begin - 1, 1), y(0) - top, f"{bar.name}: {bar.count:,}"))
    for number, rule in enumerate(sorted(chart.rules, key=lambda rule: rule.at)):
        at, text = x(rule.at), f"{rule.name} {nanoseconds(rule.at)}"
        shapes.append(Stroke("rule", [(at, TOP), (at, y(0))], rule.tone, rule.name))
        anchor, shift = ("end", -4) if at + 4 + LETTER * len(text) > WIDTH else ("start", 4)
        shapes.append(ChartLabel("rule", at + shift, TOP + 9 + 12 * (number % 4), text, anchor, rule.tone))
    return Drawing(HEIGHT, shapes)


def _margin(ticks: Sequence[tuple[float, str]]) -> float:
    """Wide enough for every label."""
    return max(_LEFT, 14 + LETTER * max((len(text) for _, text in ticks), default=0))


def _rows(y: _Upright, ticks: Sequence[tuple[float, str]], left: float) -> Iterator[Shape]:
    for value, text in ticks:
        yield Stroke("grid", [(left, y(value)), (WIDTH - RIGHT, y(value))])
        yield ChartLabel("value", left - 8, y(value) + 4, text, "end")


def _times(ticks: Sequence[tuple[float, str]], day: str = "") -> Iterator[Shape]:
    """Labels below the chart: the day at its left, then those of the ticks that there is room for. The first and the last may stand beside
    their ticks by half their width."""
    free = 0.0
    if day:
        yield ChartLabel("day", _GAP, HEIGHT - 8, day, "start")
        free = 2 * _GAP + LETTER * len(day)
    for number, (at, text) in enumerate(ticks):
        half = LETTER * len(text) / 2
        centre = min(at if number else max(at, free + half), WIDTH - half)
        if centre - half >= free and abs(centre - at) <= half:
            yield ChartLabel("time", centre, HEIGHT - 8, text, "middle")
            free = centre + half + _GAP
