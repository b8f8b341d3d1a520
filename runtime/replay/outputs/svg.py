"""Charts as SVG. Colours are classes, which the page gives their meaning in light and dark; every mark says in words what it is."""

from html import escape

from runtime.replay.outputs.charts import Chart, Tone
from runtime.replay.outputs.drawing import (
    BOTTOM,
    HEIGHT,
    TOP,
    WIDTH,
    Box,
    ChartLabel,
    Corners,
    Dot,
    Polygon,
    Shape,
    Stroke,
    ValueRange,
    drawn,
)

_CURSOR = f'<g class="cursor" visibility="hidden"><line y1="{TOP}" y2="{HEIGHT - BOTTOM}"/><circle r="3.5"/></g>'


def svg(chart: Chart) -> str:
    """The chart as an `<svg>` element, whatever is in it."""
    drawing, key = drawn(chart), escape(chart.key)
    attributes, cursor = ("", []) if drawing.range is None else (_attributes(drawing.range), [_CURSOR])
    head = f'<svg viewBox="0 0 {WIDTH} {drawing.height:g}" role="img" aria-labelledby="{key}-title" data-chart="{key}"{attributes}>'
    return "\n".join([head, *map(_element, drawing.shapes), *cursor, "</svg>"])


def _attributes(shown: ValueRange) -> str:
    """For the page's cursor."""
    times = f'data-left="{shown.left:g}" data-begin="{shown.begin}" data-end="{shown.end}"'
    return f' {times} data-low="{shown.low!r}" data-high="{shown.high!r}"'


def _element(shape: Shape) -> str:
    match shape:
        case Stroke():
            name = f' data-rule="{escape(shape.name)}"' if shape.name else ""
            return f'<path class="{_class(shape.look, shape.tone)}"{name} d="{_path(shape.points)}"/>'
        case Polygon():
            return f'<path class="{_class(shape.look, shape.tone)}" d="{_path(shape.points)}Z">{_title(shape.title)}</path>'
        case Box():
            size = f'width="{shape.width:.1f}" height="{shape.height:.1f}"'
            return f'<rect class="bar main" x="{shape.x:.1f}" y="{shape.y:.1f}" {size}>{_title(shape.title)}</rect>'
        case Dot():
            return f'<circle class="{_class("dot", shape.tone)}" cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="3"/>'
        case ChartLabel():
            position = f'x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}"'
            return f'<text class="{_class(shape.look, shape.tone)}" {position}>{escape(shape.text)}</text>'


def _class(look: str, tone: Tone | None) -> str:
    return look if tone is None else f"{look} {tone.value}"


def _path(points: Corners) -> str:
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
