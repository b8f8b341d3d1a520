"""Charts as SVG. Colours are classes, which the page gives their meaning in light and dark; every mark says in words what it is."""

from collections.abc import Callable, Sequence
from html import escape
from math import log10

from runtime.replay.outputs.axes import decades, nanoseconds, number_ticks, span, time_ticks
from runtime.replay.outputs.charts import Bins, Chart, LineForm, Marks, NamedBars, OverTime, TimeLine

WIDTH, HEIGHT = 900, 260
LEFT, RIGHT, TOP, BOTTOM = 84, 16, 14, 28
_ROW = 26
_NAMES = 150

Scale = Callable[[float], float]


def svg(chart: Chart) -> str:
    """The chart as an `<svg>` element, whatever is in it."""
    match chart:
        case OverTime() if not chart.empty:
            return _over_time(chart)
        case NamedBars() if not chart.empty:
            return _named(chart)
        case Bins() if not chart.empty:
            return _bins(chart)
    return _element(chart, HEIGHT // 3, [f'<text class="nothing" x="{WIDTH / 2}" y="{HEIGHT / 6}">nothing to show</text>'])


def _element(chart: Chart, height: float, content: Sequence[str], attributes: str = "") -> str:
    key = escape(chart.key)
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{key}-title" data-chart="{key}"{attributes}>'
    return "\n".join([head, *content, "</svg>"])


def _over_time(chart: OverTime) -> str:
    points = [(ts, float(value)) for line in chart.lines for ts, value in line.points]
    points += [(ts, float(value)) for marks in chart.marks for ts, value, _ in marks.points]
    begin, end = min(ts for ts, _ in points), max(ts for ts, _ in points)
    end = max(end, begin + 1)
    zero = any(line.form is not LineForm.LINE for line in chart.lines)
    low, high = span([value for _, value in points], with_zero=zero)

    def x(ts: float) -> float:
        return LEFT + (ts - begin) / (end - begin) * (WIDTH - LEFT - RIGHT)

    y = _upright(low, high)
    content = _rows(y, number_ticks(low, high))
    content += [_tick(x(ts), text) for ts, text in time_ticks(begin, end)]
    if low < 0 < high:
        content.append(f'<line class="zero" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0):.1f}" y2="{y(0):.1f}"/>')
    content += [_line(line, x, y) for line in chart.lines]
    content += [_mark(marks, x(ts), y(float(value)), text) for marks in chart.marks for ts, value, text in marks.points]
    content.append(f'<g class="cursor" visibility="hidden"><line y1="{TOP}" y2="{HEIGHT - BOTTOM}"/><circle r="3.5"/></g>')
    return _element(chart, HEIGHT, content, f' data-begin="{begin}" data-end="{end}" data-low="{low!r}" data-high="{high!r}"')


def _line(line: TimeLine, x: Scale, y: Scale) -> str:
    places = [(x(ts), y(float(value))) for ts, value in line.points]
    if not places:
        return ""
    path = f"M{places[0][0]:.1f},{places[0][1]:.1f}"
    for place, height in places[1:]:
        path += f"H{place:.1f}V{height:.1f}" if line.form is LineForm.STEPS else f"L{place:.1f},{height:.1f}"
    drawn = f'<path class="line {line.tone.value}" d="{path}"/>'
    if line.form is LineForm.AREA:
        drawn = f'<path class="area {line.tone.value}" d="{path}L{places[-1][0]:.1f},{y(0):.1f}L{places[0][0]:.1f},{y(0):.1f}Z"/>' + drawn
    if len(places) == 1:
        drawn += f'<circle class="dot {line.tone.value}" cx="{places[0][0]:.1f}" cy="{places[0][1]:.1f}" r="3"/>'
    return drawn


def _mark(marks: Marks, x: float, y: float, text: str) -> str:
    base = 8 if marks.up else -8
    return f'<path class="mark {marks.tone.value}" d="M{x:.1f},{y:.1f}l-4.5,{base}h9Z"><title>{escape(text)}</title></path>'


def _named(chart: NamedBars) -> str:
    most = max(bar.count for bar in chart.bars)
    content = []
    for row, bar in enumerate(chart.bars):
        top = TOP + row * _ROW
        width = (WIDTH - _NAMES - 90) * bar.count / most
        content.append(f'<text class="name" x="{_NAMES - 8}" y="{top + 14}">{escape(bar.name)}</text>')
        content.append(f'<rect class="bar main" x="{_NAMES}" y="{top + 2}" width="{width:.1f}" height="{_ROW - 8}" rx="2">')
        content.append(f"<title>{escape(bar.name)}: {bar.count:,}</title></rect>")
        content.append(f'<text class="count" x="{_NAMES + width + 6:.1f}" y="{top + 14}">{bar.count:,}</text>')
    return _element(chart, 2 * TOP + len(chart.bars) * _ROW, content)


def _bins(chart: Bins) -> str:
    low = min([chart.bars[0].low, *(rule.at for rule in chart.rules if rule.at > 0)]) / 1.1
    high = max([chart.bars[-1].high, *(rule.at for rule in chart.rules)]) * 1.1
    most = max(bar.count for bar in chart.bars)

    def x(value: float) -> float:
        return LEFT + log10(max(value, low) / low) / log10(high / low) * (WIDTH - LEFT - RIGHT)

    y = _upright(0, most * 1.15)
    content = _rows(y, number_ticks(0, most * 1.15))
    taken = 0.0
    for value, text in decades(low, high):
        if x(value) - taken > 56:
            content.append(_tick(x(value), text))
            taken = x(value)
    for bar in chart.bars:
        if bar.count:
            left, right, top = x(bar.low), x(bar.high), y(bar.count)
            content.append(
                f'<rect class="bar main" x="{left:.1f}" y="{top:.1f}" width="{max(right - left - 1, 1):.1f}" height="{y(0) - top:.1f}">'
                f"<title>{escape(bar.name)}: {bar.count:,}</title></rect>"
            )
    for number, rule in enumerate(sorted(chart.rules, key=lambda rule: rule.at)):
        place, height = x(rule.at), TOP + 9 + 12 * (number % 4)
        before = place > WIDTH - 150
        look, ends = f'class="rule {rule.tone.value}"', f'x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{y(0):.1f}"'
        content.append(f'<line {look} data-rule="{escape(rule.name)}" {ends}/>')
        anchor, shift = ("end", -4) if before else ("start", 4)
        text = escape(f"{rule.name} {nanoseconds(rule.at)}")
        content.append(f'<text {look} text-anchor="{anchor}" x="{place + shift:.1f}" y="{height}">{text}</text>')
    return _element(chart, HEIGHT, content)


def _upright(low: float, high: float) -> Scale:
    return lambda value: HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _rows(y: Scale, ticks: Sequence[tuple[float, str]]) -> list[str]:
    found = []
    for value, text in ticks:
        found.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        found.append(f'<text class="value" x="{LEFT - 8}" y="{y(value) + 4:.1f}">{text}</text>')
    return found


def _tick(x: float, text: str) -> str:
    return f'<text class="time" x="{x:.1f}" y="{HEIGHT - 8}">{escape(text)}</text>'
