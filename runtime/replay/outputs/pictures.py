"""The charts as PNG files, for where no browser is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runtime.extras import required
from runtime.replay.outputs.axes import nanoseconds
from runtime.replay.outputs.charts import Bins, Chart, LineForm, NamedBars, OverTime, Tone

COLOURS = {Tone.MAIN: "#2f6fd0", Tone.LOSS: "#c8443a", Tone.BUY: "#16855b", Tone.SELL: "#b3431f", Tone.QUIET: "#7b8089"}
_DOTS = 110


def require_pictures() -> None:
    """Raises PackageMissing where none can be drawn."""
    required("matplotlib.backends.backend_agg")
    required("PIL")


def write_picture(chart: Chart, path: Path) -> None:
    """Raises PackageMissing."""
    canvas = required("matplotlib.backends.backend_agg").FigureCanvasAgg
    figure = required("matplotlib.figure").Figure(figsize=(9.0, 3.4), dpi=_DOTS, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(_literal(f"{chart.title} ({chart.unit})"), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if chart.empty:
        axes.text(0.5, 0.5, "nothing to show", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
    else:
        match chart:
            case OverTime():
                _over_time(axes, chart)
            case NamedBars():
                _named(axes, chart)
            case Bins():
                _bins(axes, chart)
    canvas(figure)
    figure.savefig(path, format="png", metadata={"Software": None})


def _over_time(axes: Any, chart: OverTime) -> None:
    axes.grid(color="#ecedef", zorder=0)
    for line in chart.lines:
        times, values = [_time(ts) for ts, _ in line.points], [float(value) for _, value in line.points]
        style = "steps-post" if line.form is LineForm.STEPS else "default"
        axes.plot(times, values, color=COLOURS[line.tone], linewidth=1.3, drawstyle=style, marker="." if len(times) == 1 else None)
        if line.form is LineForm.AREA:
            axes.fill_between(times, values, 0, color=COLOURS[line.tone], alpha=0.18, linewidth=0)
    for marks in chart.marks:
        if marks.points:
            times, values = [_time(ts) for ts, _, _ in marks.points], [float(value) for _, value, _ in marks.points]
            axes.scatter(times, values, marker="^" if marks.up else "v", color=COLOURS[marks.tone], s=20, label=marks.name, zorder=3)
    if any(marks.points for marks in chart.marks):
        axes.legend(frameon=False, fontsize=9)
    axes.ticklabel_format(axis="y", useOffset=False, style="plain")


def _named(axes: Any, chart: NamedBars) -> None:
    bars = list(reversed(chart.bars))
    drawn = axes.barh([bar.name for bar in bars], [bar.count for bar in bars], color=COLOURS[Tone.MAIN])
    axes.bar_label(drawn, [f"{bar.count:,}" for bar in bars], padding=4, fontsize=9)


def _bins(axes: Any, chart: Bins) -> None:
    axes.set_xscale("log")
    axes.bar(
        [bar.low for bar in chart.bars],
        [bar.count for bar in chart.bars],
        [bar.high - bar.low for bar in chart.bars],
        align="edge",
        color=COLOURS[Tone.MAIN],
    )
    for rule in chart.rules:
        axes.axvline(rule.at, color=COLOURS[rule.tone], linestyle="--", linewidth=1.2, label=f"{rule.name} {nanoseconds(rule.at)}")
    axes.legend(frameon=False, fontsize=9)


def _time(ts: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ts // 1000)


def _literal(text: str) -> str:
    """Text that matplotlib takes letter for letter."""
    return text.replace("\\", "\\\\").replace("$", r"\$")
