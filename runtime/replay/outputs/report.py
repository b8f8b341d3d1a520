"""`report.html`: the summary and the charts on one page that needs nothing else, no network and no script to be read."""

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TypeVar

from runtime.replay.outputs.axes import nanoseconds
from runtime.replay.outputs.charts import Bins, Chart, NamedBars, OverTime, moment
from runtime.replay.outputs.drawing import BOTTOM, HEIGHT, RIGHT, TOP, WIDTH
from runtime.replay.outputs.records import RunDescription
from runtime.replay.outputs.summary import Summary
from runtime.replay.outputs.svg import svg

Row = TypeVar("Row")

_TABLE_ROWS = 200
"""Of a chart's table; longer ones show every second point, every third..., and the last. The whole is in the Parquet files."""


def report(run: RunDescription, summary: Summary, charts: Iterable[Chart]) -> str:
    """The page. A summary that isn't complete says so at the top."""
    remarks = [run.remark] if run.remark else []
    if not summary["complete"]:
        remarks.append(f"Partial: {summary['partial']}")
    if summary["halted"]:
        remarks.append(f"Halted: {summary['halted']}")
    times = f"{_short(summary['from'])} to {_short(summary['to'])} UTC" if summary["from"] else "no profit or loss was noted"
    settings = ", ".join(f"{name} = {value}" for name, value in summary["settings"].items())
    subtitle = " · ".join(escape(text) for text in (", ".join(run.data), times, settings) if text)
    return _page().substitute(
        title=escape(Path(run.program).name),
        remarks="\n".join(f'<p class="remark">{escape(text)}</p>' for text in remarks),
        subtitle=subtitle,
        tiles="\n".join(f'<div class="tile"><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>' for name, text in _tiles(summary)),
        sections="\n".join(_section(chart) for chart in charts),
        width=WIDTH,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        height=HEIGHT,
    )


@cache
def _page() -> Template:
    return Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


def _tiles(summary: Summary) -> list[tuple[str, str]]:
    tiles: list[tuple[str, str]] = []
    for name, pnl in summary["pnl"].items():
        tiles += [
            *((label, f"{_plain(pnl[key])} {name}") for label, key in (("net", "net"), ("max drawdown", "max_drawdown"), ("fees", "fees"))),
            (f"Sharpe ({pnl['sharpe_interval']}, a year)", _maybe(pnl["sharpe"], ".2f")),
        ]
    tiles += [(name, f"{summary[name]:,}") for name in ("submitted", "filled", "cancelled", "rejected", "open")]
    tiles += [("fill ratio", _maybe(summary["fill_ratio"], ".1%")), ("rows used", f"{summary['rows_used']:,} of {summary['rows_in']:,}")]
    latency = summary["latency_ns"]
    tiles += [(f"latency {name}", nanoseconds(latency[name])) for name in ("p50", "p99.9") if latency[name] is not None]
    return tiles


def _section(chart: Chart) -> str:
    attribute, data, legend = "", "", ""
    if isinstance(chart, OverTime):
        attribute = " data-over-time"
        data = f'<script type="application/json">{_points(chart)}</script>'
        if chart.legend:
            spans = (f'<span class="{entry.tone.value}">{escape(entry.name)}</span>' for entry in chart.legend)
            legend = f'<div class="legend">{"".join(spans)}</div>'
    note = f"<p>{escape(chart.note)}</p>" if chart.note else ""
    heading = f'<h2 id="{escape(chart.key)}-title">{escape(chart.title)} <small>({escape(chart.unit)})</small></h2>'
    return f"<section{attribute}>\n{heading}\n{legend}{svg(chart)}\n{note}{_table(chart)}{data}\n</section>"


def _points(chart: OverTime) -> str:
    """For the cursor: share of the way, time and value as texts, value."""
    points = chart.lines[0].points if chart.lines else ()
    stamps = [point.ts for line in chart.lines for point in line.points] + [mark.ts for marks in chart.marks for mark in marks.points]
    begin, length = min(stamps, default=0), max(max(stamps, default=0) - min(stamps, default=0), 1)
    rows = [
        [round((point.ts - begin) / length, 6), moment(point.ts), _plain(point.value), float(point.value)]
        for point in points
        if point.value.is_finite()
    ]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _table(chart: Chart) -> str:
    match chart:
        case OverTime():
            head: Sequence[str] = ("time (UTC)", *(line.name for line in chart.lines))
            points = _thinned(chart.lines[0].points if chart.lines else ())
            rows = [[moment(point.ts), _plain(point.value)] for point in points]
            rows += [[f"{moment(mark.ts)}: {mark.text}", _plain(mark.value)] for marks in chart.marks for mark in _thinned(marks.points)]
        case NamedBars():
            head, rows = ("rule", chart.unit), [[bar.name, f"{bar.count:,}"] for bar in chart.bars]
        case Bins():
            head = ("bin", "samples")
            rows = [[bar.name, f"{bar.count:,}"] for bar in chart.bars if bar.count]
            rows += [[rule.name, nanoseconds(rule.at)] for rule in chart.rules]
    if not rows:
        return ""
    cells = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"
    return f'<details><summary>as a table</summary><div class="scroll">{table}</div></details>'


def _thinned(rows: Sequence[Row]) -> list[Row]:
    every = -(-len(rows) // _TABLE_ROWS) or 1
    return [*rows[::every], *(rows[-1:] if (len(rows) - 1) % every else [])]


def _short(iso: str) -> str:
    """A time to the second."""
    return iso.replace("T", " ").partition(".")[0]


def _plain(value: Decimal) -> str:
    """With commas between thousands, without zeros at its end."""
    text = f"{value:,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _maybe(value: float | None, form: str) -> str:
    return "none" if value is None else format(value, form)
