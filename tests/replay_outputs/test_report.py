"""The page and the pictures: what is in them, and that a browser draws it."""

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
from runtime.replay.outputs.charts import charts
from runtime.replay.outputs.folder import Outputs
from runtime.replay.outputs.gathered import Gathered
from runtime.replay.outputs.pictures import write_picture
from runtime.replay.outputs.records import LAYOUTS, RunDescription, TradedInstrument
from runtime.replay.outputs.summary import Totals
from runtime.replay.outputs.svg import svg
from tests.replay_outputs.samples import PLAIN, Sample, write

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
    run = evolve(swing.run, program=evil.replace("/", ""), data=[evil], settings={evil: evil}, remark=evil)
    instrument = evolve(swing.run.instruments[0], name=evil)
    write(tmp_path, evolve(swing, run=evolve(run, instruments=[instrument]), totals=evolve(swing.totals, halted=evil)))
    text = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in text
    Elements(text)


def test_pictures_show_something(folder: Path) -> None:
    for name in CHARTS:
        with Image.open(folder / f"{name}.png") as picture:
            colours = picture.convert("RGB").getcolors(1 << 24)
        assert colours is not None and len(colours) > 20


def run_of(records: dict[str, Any], run: RunDescription) -> Gathered:
    gathered = Gathered(run)
    for name, found in records.items():
        gathered.add(name, found)
    return gathered


def test_a_run_of_nothing_has_all_its_outputs(swing: Sample, tmp_path: Path) -> None:
    with Outputs(tmp_path, swing.run, PLAIN) as out:
        summary = out.finish(Totals(0, 0, 0, 0))
    assert (summary["fill_ratio"], summary["pnl"]["USD"]["sharpe"], summary["from"]) == (None, None, None)
    assert (tmp_path / "report.html").read_text().count("nothing to show") == len(CHARTS)
    for chart in charts(Gathered(swing.run)):
        write_picture(chart, tmp_path / f"{chart.key}.png")


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
    ticks = time_ticks(17, 17 + length)
    assert len(ticks) <= 8
    assert all(17 <= ts <= 17 + length for ts, _ in ticks)
    assert len({ts for ts, _ in ticks}) == len(ticks)


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
