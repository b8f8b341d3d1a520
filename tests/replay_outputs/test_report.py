"""The page and the PNG files: what is in them, and that a browser draws it."""

import json
import re
import shutil
import subprocess
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from PIL import Image

from runtime.replay.grids import GridStep
from runtime.replay.outputs.axes import number_ticks, span, time_ticks
from runtime.replay.outputs.charts import Bar, Bins, Chart, LineForm, Mark, MarkLine, Marks, NamedBars, OverTime, Point, TimeLine, charts
from runtime.replay.outputs.drawing import HEIGHT, LETTER, WIDTH, Box, ChartLabel, Drawing, Stroke, drawn
from runtime.replay.outputs.folder import Outputs
from runtime.replay.outputs.gathered import Gathered
from runtime.replay.outputs.png import write_png
from runtime.replay.outputs.records import LAYOUTS, RunDescription, TradedInstrument
from runtime.replay.outputs.summary import Totals
from runtime.replay.outputs.svg import svg
from tests.replay_outputs.samples import Sample, write

CHARTS = ["equity", "drawdown", "position", "price", "rejects", "latency"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (on Debian: apt install chromium)")


class Elements(HTMLParser):
    """Checks that what is opened is closed, and counts elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def having(self, **attributes: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.seen if all(attrs.get(name.rstrip("_")) == value for name, value in attributes.items())]


def test_the_page_has_every_chart_and_a_table_for_each(folder: Path, swing: Sample) -> None:
    page = Elements((folder / "report.html").read_text())
    assert [attrs["data-chart"] for tag, attrs in page.seen if tag == "svg"] == CHARTS
    assert [tag for tag, _ in page.seen].count("table") == len(CHARTS)
    bought = int((swing.records["fills"]["side"] == 1).sum())
    assert len(page.having(class_="mark buy")) == bought
    assert len(page.having(class_="mark sell")) == len(swing.records["fills"]) - bought
    assert {attrs["data-rule"] for _, attrs in page.seen if "data-rule" in attrs} == {"p50", "p99", "p99.9", "target"}


def test_the_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    assert not re.search(r"https?:|src\s*=|href\s*=|@import|url\(|fetch\(", text)


def test_texts_from_outside_are_texts(swing: Sample, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    run = evolve(swing.run, program=evil.replace("/", ""), data=[evil], remark=evil)
    instrument = evolve(swing.run.instruments[0], name=evil)
    write(tmp_path, evolve(swing, run=evolve(run, instruments=[instrument]), totals=evolve(swing.totals, settings={evil: evil}, halted=evil)))
    text = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in text
    Elements(text)


def test_png_files_show_something(folder: Path) -> None:
    for name in CHARTS:
        with Image.open(folder / f"{name}.png") as picture:
            assert picture.width == 2 * WIDTH
            colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None and len(colours) > 20
        assert any(count > 1000 and colour != (255, 255, 255) for count, colour in colours)


def run_of(records: dict[str, Any], run: RunDescription) -> Gathered:
    gathered = Gathered(run)
    for name, found in records.items():
        gathered.add(name, found)
    return gathered


def test_a_run_of_nothing_has_all_its_outputs(swing: Sample, tmp_path: Path) -> None:
    with Outputs(tmp_path, swing.run) as out:
        summary = out.finish(Totals(rows_in=0, rows_used=0, rows_bad=0, submitted=0))
    assert (summary["fill_ratio"], summary["pnl"]["USD"]["sharpe"], summary["from"]) == (None, None, None)
    assert (tmp_path / "report.html").read_text().count("nothing to show") == len(CHARTS)
    for chart in charts(Gathered(swing.run)):
        write_png(chart, tmp_path / f"{chart.key}.png")


@pytest.mark.parametrize("value", [0, 1, -(2**63) + 1, 2**63 - 1])
def test_one_moment_is_a_chart(value: int, swing: Sample) -> None:
    pnl, latency = np.zeros(1, LAYOUTS["pnl"]), np.full(1, 0, LAYOUTS["latency"])
    pnl["net"] = value if abs(value) < 2**62 else value // 4
    pnl["position"] = pnl["mark2"] = value
    pnl["marked"] = 1
    for chart in charts(run_of({"pnl": pnl, "latency": latency}, swing.run)):
        drawn = svg(chart)
        assert "nan" not in drawn and "inf" not in drawn


def test_several_instruments_have_charts_of_their_own(tmp_path: Path) -> None:
    names = [f"I{n}" for n in range(12)]
    run = RunDescription(
        "many",
        [
            TradedInstrument(name, GridStep.of(Decimal("0.01")), GridStep(0, 1), "EUR" if n % 2 else "USD", 2)
            for n, name in enumerate(names)
        ],
    )
    pnl = np.zeros(12, LAYOUTS["pnl"])
    pnl["instrument"], pnl["net"], pnl["ts"] = np.arange(12), np.arange(12), np.arange(12)
    fills = np.zeros(12, LAYOUTS["fills"])
    fills["instrument"], fills["side"], fills["qty"] = [3] * 6 + [9] * 6, 1, 1
    found = [chart.key for chart in charts(run_of({"pnl": pnl, "fills": fills}, run))]
    assert found[:4] == ["equity-USD", "drawdown-USD", "equity-EUR", "drawdown-EUR"]
    assert "price-I3" in found and "price-I9" in found
    assert sum(key.startswith("price-") for key in found) == 8


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.7e-9, 4e-9), (99.99, 100.01), (-1e15, 3), (61837.63, 61837.64)])
def test_ticks_are_few_distinct_and_inside(low: float, high: float) -> None:
    ticks = number_ticks(*span([low, high]))
    texts = [text for _, text in ticks]
    assert 2 <= len(ticks) <= 8 and len(set(texts)) == len(texts)
    assert [float(text.replace(",", "")) for text in texts] == pytest.approx(
        [value for value, _ in ticks], rel=1e-6, abs=(high - low) * 1e-3
    )


@pytest.mark.parametrize("length", [1, 7, 999, 10**6, 3 * 10**9, 86_400 * 10**9, 400 * 86_400 * 10**9, 9 * 10**18])
def test_time_ticks_are_few_and_distinct(length: int) -> None:
    ticks, day = time_ticks(17, 17 + length)
    assert day == ("" if length >= 7 * 86_400 * 10**9 else "1970-01-01")
    assert len(ticks) <= 8
    assert all(17 <= ts <= 17 + length for ts, _ in ticks)
    assert len({ts for ts, _ in ticks}) == len(ticks)


# ---- the layout of charts ----------------------------------------------------------------------------------------------------

BEGIN = 1_700_000_000 * 10**9


def over_time(values: list[Any], form: LineForm = LineForm.LINE, step: int = 10**9, marks: list[Mark] | None = None) -> OverTime:
    points = [Point(BEGIN + step * number, Decimal(value)) for number, value in enumerate(values)]
    return OverTime("price", "Price", "USD", [TimeLine("mark", points, form)], [Marks("bought", marks or [])])


def latencies(*at: float, count: int = 3) -> Bins:
    bars = [Bar("a", count, 50.0, 56.0), Bar("b", 0, 56.0, 63.0), Bar("c", 1, 63.0, 70.0)]
    return Bins("latency", "Latency", "samples by ns", bars, [MarkLine(one, f"p{number}") for number, one in enumerate(at)])


EXTREMES = {
    "many": over_time([number % 97 for number in range(5000)]),
    "large": over_time([-(2**63), 2**63 - 1]),
    "small": over_time(["-0.00000001", "0.00000002"]),
    "flat": over_time([61_837, 61_837, 61_837]),
    "days": over_time([1, 2, 3], step=40 * 86_400 * 10**9),
    "nanoseconds": over_time([1, 2, 3, 4], step=1),
    "steps": over_time([1, -1, 2], LineForm.STEPS),
    "area": over_time([0, -1, -3], LineForm.AREA),
    "rejects": NamedBars("rejects", "Rejects", "orders", [Bar("max_open_orders", 10**9), Bar("kill", 0)]),
    "latency": latencies(60.0, 3.0, 1e9, 9.9e8, 61.0),
    "few samples": latencies(60.0, count=1),
}


def box_of(label: ChartLabel) -> tuple[float, float, float, float]:
    width = LETTER * len(label.text)
    left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
    return left, left + width, label.y - 8, label.y


@pytest.mark.parametrize("name", EXTREMES)
def test_labels_are_inside_and_apart(name: str) -> None:
    drawing = drawn(EXTREMES[name])
    boxes = [box_of(shape) for shape in drawing.shapes if isinstance(shape, ChartLabel)]
    assert len(boxes) > 2
    for number, (left, right, top, bottom) in enumerate(boxes):
        assert left >= 0 and right <= WIDTH + 1 and top >= 0 and bottom <= drawing.height
        assert not any(left < b and a < right and top < d and c < bottom for a, b, c, d in boxes[:number]), boxes[number]


@pytest.mark.parametrize("name", EXTREMES)
def test_shapes_are_inside(name: str) -> None:
    chart = EXTREMES[name]
    for shape in drawn(chart).shapes:
        match shape:
            case Stroke():
                assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in shape.points)
            case Box():
                assert 0 <= shape.x <= shape.x + shape.width <= WIDTH and shape.height >= 0
    Elements(svg(chart))


def line_of(drawing: Drawing) -> list[Stroke]:
    return [shape for shape in drawing.shapes if isinstance(shape, Stroke) and shape.look == "line"]


def test_a_line_goes_through_its_points() -> None:
    """By hand: 3 points over 800 units from 84 on; values 0, 5, 10 with 6 % of air above and below."""
    (line,) = line_of(drawn(over_time([0, 10, 5])))
    height = (260 - 28 - 14) / 11.2
    expected = [(84, 232 - 0.6 * height), (484, 232 - 10.6 * height), (884, 232 - 5.6 * height)]
    assert [*line.points] == [pytest.approx(point) for point in expected]


def test_steps_hold_until_the_next_point() -> None:
    (line,) = line_of(drawn(over_time([1, 3], LineForm.STEPS)))
    (first, _), (second, before), (third, after) = line.points
    assert (first, second, third) == (84, 884, 884) and before == line.points[0][1] != after


def test_values_that_are_no_numbers_are_gaps(tmp_path: Path) -> None:
    chart = over_time([1, 2, "NaN", 4, 5, "Infinity", 7], marks=[Mark(BEGIN, Decimal("NaN"), "bought 1 at NaN")])
    assert [len(line.points) for line in line_of(drawn(chart))] == [2, 2]
    text = svg(chart).lower()
    assert "nan" not in text and "inf" not in text and text.count("<circle class=\"dot") == 1
    write_png(chart, tmp_path / "gaps.png")
    assert over_time(["NaN"]).empty and "nothing to show" in svg(over_time(["NaN"]))


def test_latencies_that_are_no_numbers_arent_counted(swing: Sample) -> None:
    latency = np.zeros(3, LAYOUTS["latency"])
    latency["ns"] = [50.0, np.nan, np.nan]
    found: Chart = charts(run_of({"latency": latency}, swing.run))[-1]
    assert isinstance(found, Bins) and [bar.count for bar in found.bars] == [1]


PROBE = """
<pre id="probe"></pre>
<script>
const found = [...document.querySelectorAll("svg[data-chart]")].map(svg => {
  const area = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent("pointermove", { clientX: area.left + area.width / 2, clientY: area.top + 40 }));
  const tip = svg.parentElement.querySelector(".tip");
  const shapes = [...svg.querySelectorAll("path.line, rect.bar")];
  return {
    chart: svg.dataset.chart, width: area.width, height: area.height, tip: tip && !tip.hidden ? tip.textContent : null,
    cursor: svg.querySelector(".cursor")?.getAttribute("visibility") ?? null,
    length: shapes.reduce((sum, shape) => sum + shape.getTotalLength(), 0), colour: shapes.length ? getComputedStyle(shapes[0]).stroke : null,
  };
});
document.getElementById("probe").textContent = JSON.stringify({ found, wide: document.documentElement.scrollWidth > innerWidth });
</script>
"""


def chromium(*arguments: str, profile: Path) -> str:
    assert CHROMIUM is not None
    common = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1080,2700")
    return subprocess.run([CHROMIUM, *common, *arguments], check=True, capture_output=True, text=True, timeout=120).stdout


@needs_chromium
def test_a_browser_draws_the_charts_and_reads_out_their_values(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "probed.html"
    page.write_text((folder / "report.html").read_text().replace("</body>", PROBE + "</body>"))
    dom = chromium("--dump-dom", page.as_uri(), profile=tmp_path / "profile")
    probe = re.search(r'<pre id="probe">(.*?)</pre>', dom)
    assert probe is not None
    result = json.loads(probe[1].replace("&gt;", ">").replace("&amp;", "&"))
    assert result["wide"] is False
    assert [chart["chart"] for chart in result["found"]] == CHARTS
    for chart in result["found"]:
        assert chart["width"] > 800 and chart["height"] > 60 and chart["length"] > 500, chart
    for chart in result["found"][:4]:
        assert chart["cursor"] == "visible" and re.fullmatch(r"2023-11-14 22:1[34]:\d\d(\.\d+)?  -?[\d,.]+", chart["tip"]), chart


@needs_chromium
@pytest.mark.parametrize(("scheme", "ground", "main"), [("1", (251, 251, 250), (47, 111, 208)), ("0", (19, 20, 23), (110, 163, 242))])
def test_the_page_is_not_blank_in_light_and_dark(
    scheme: str, ground: tuple[int, int, int], main: tuple[int, int, int], folder: Path, tmp_path: Path
) -> None:
    shot = tmp_path / "shot.png"
    chromium(
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={shot}",
        (folder / "report.html").as_uri(),
        profile=tmp_path / "profile",
    )
    with Image.open(shot) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert tuple(pixels[0, 0]) == ground
    bars = (np.abs(pixels - main).sum(axis=2) < 12).sum()
    assert bars > 5000
