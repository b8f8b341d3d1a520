"""Charts as PNG files, for where no browser is, drawn by Pillow."""

from collections.abc import Sequence
from math import ceil, dist
from pathlib import Path
from typing import Any

from runtime.extras import required
from runtime.replay.outputs.charts import Chart, OverTime, Tone
from runtime.replay.outputs.drawing import LETTER, WIDTH, Box, ChartLabel, Corners, Dot, Polygon, Shape, Stroke, drawn

_PIXELS = 2
"""Of a unit of the drawing."""
_FINER = 2
"""So many times finer it is drawn, then averaged, so that edges are smooth."""
_SCALE = _PIXELS * _FINER
_TITLE = 28
"""The height of the title."""
_GROUND = "#ffffff"
_TONES = {Tone.MAIN: "#2f6fd0", Tone.LOSS: "#c8443a", Tone.BUY: "#16855b", Tone.SELL: "#b3431f", Tone.QUIET: "#7b8089"}
_TINTS = {Tone.MAIN: "#dae5f7", Tone.LOSS: "#f5dddb", Tone.BUY: "#d5eae2", Tone.SELL: "#f1dcd6", Tone.QUIET: "#e7e8ea"}
"""Of areas, which the grid must not shine through: Pillow's shapes have no opacity."""
_LINES = {"grid": ("#ecedef", 1.0, 0), "zero": ("#7b8089", 1.0, 3), "line": ("", 1.6, 0), "rule": ("", 1.5, 5)}
"""Colour, width, and length of the dashes, by look; without a colour it is that of the tone."""
_INK, _SOFT = "#1c1d20", "#63676f"
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def require_png() -> None:
    """Raises PackageMissing where no PNG file can be drawn."""
    required("PIL")


def write_png(chart: Chart, path: Path) -> None:
    """Raises PackageMissing."""
    drawing = drawn(chart)
    image = required("PIL.Image").new("RGB", (WIDTH * _SCALE, ceil((drawing.height + _TITLE) * _SCALE)), _GROUND)
    canvas = _Canvas(required("PIL.ImageDraw").Draw(image))
    canvas.text(8, 18 - _TITLE, f"{chart.title} ({chart.unit})", "start", _INK, 13)
    canvas.legend(chart)
    for shape in drawing.shapes:
        canvas.add(shape)
    image.reduce(_FINER).save(path, format="png")


class _Canvas:
    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def add(self, shape: Shape) -> None:
        match shape:
            case Stroke():
                colour, width, dash = _LINES[shape.look]
                self._stroke(shape.points, colour or _TONES[shape.tone or Tone.MAIN], width, dash)
            case Polygon():
                self._draw.polygon(_placed(shape.points), (_TINTS if shape.look == "area" else _TONES)[shape.tone])
            case Box():
                corners = [(shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height)]
                self._draw.rectangle(_placed(corners), _TONES[Tone.MAIN])
            case Dot():
                self._draw.ellipse(_placed([(shape.x - 3, shape.y - 3), (shape.x + 3, shape.y + 3)]), _TONES[shape.tone])
            case ChartLabel():
                self.text(shape.x, shape.y, shape.text, shape.anchor, _SOFT if shape.tone is None else _TONES[shape.tone], 11)

    def text(self, x: float, y: float, text: str, anchor: str, colour: str, size: int) -> None:
        font = required("PIL.ImageFont").load_default(size * _SCALE)
        (at,) = _placed([(x, y)])
        self._draw.text(at, text, colour, font, anchor=_ANCHORS[anchor], stroke_width=_SCALE, stroke_fill=_GROUND)

    def legend(self, chart: Chart) -> None:
        """What the colours mean, at the right of the title."""
        x = float(WIDTH)
        for entry in reversed(chart.legend) if isinstance(chart, OverTime) else ():
            x -= LETTER * len(entry.name) + 28
            self._draw.rectangle(_placed([(x, 8 - _TITLE), (x + 10, 18 - _TITLE)]), _TONES[entry.tone])
            self.text(x + 15, 17 - _TITLE, entry.name, "start", _SOFT, 11)

    def _stroke(self, points: Corners, colour: str, width: float, dash: int) -> None:
        for line in _dashes(points, dash) if dash else [points]:
            self._draw.line(_placed(line), colour, round(width * _SCALE), joint="curve")


def _placed(points: Corners) -> list[tuple[float, float]]:
    return [(x * _SCALE, (y + _TITLE) * _SCALE) for x, y in points]


def _dashes(points: Corners, length: int) -> Sequence[Corners]:
    """A straight line in pieces, with gaps as long as they are."""
    begin, end = points
    count = max(1, ceil(dist(begin, end) / (2 * length)))

    def at(share: float) -> tuple[float, float]:
        return begin[0] + (end[0] - begin[0]) * share, begin[1] + (end[1] - begin[1]) * share

    return [(at(number / count), at((number + 0.5) / count)) for number in range(count)]
