"""The figures of bench/gpu as a picture: how far each workload is below the device's limits, by how much it computes for each byte.

    python -m bench.roofline bench/results/gpu-h200.json docs/roofline-h200.svg"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

COLOURS = {"products": "#1f5fa8", "convolutions": "#2a8f4f", "attention": "#b8442e", "scans_sorts": "#6d3f9c", "programs": "#444444"}
ROOFS = {"f8": "f8, i8", "bf16": "bf16, f16", "tf32": "tf32", "f32": "f32, f64"}
"""Types whose limits are drawn, and the words at them."""


def draw(figures: dict[str, Any], picture: Path) -> None:
    """Dots are ours, lines lead to the best peer. What only moves bytes is no dot: the table tells its share of the limit."""
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "zyntax"
    from matplotlib import pyplot

    limits = figures["limits"]
    made, axes = pyplot.subplots(figsize=(10, 6))
    low, high = 0.05, 2e4
    for type, words in ROOFS.items():
        top = limits["operations"][type]
        knee = top / limits["bytes"]
        axes.plot([low, knee, high], [low * limits["bytes"] / 1e12, top / 1e12, top / 1e12], color="#999999", linewidth=0.8)
        axes.text(high, top / 1e12, f" {words}", va="center", fontsize=8, color="#666666")
    named: set[str] = set()
    for row in (row for row in figures["rows"] if "failed" not in row and row["operations"]):
        intensity, kind = row["operations"] / row["bytes"], row["kind"]
        ours = row["operations"] / row["ours_ms"] / 1e9
        colour = COLOURS[kind]
        if "peer_ms" in row:
            axes.plot([intensity] * 2, [ours, row["operations"] / row["peer_ms"] / 1e9], color=colour, linewidth=0.7, alpha=0.6)
        label = None if kind in named else kind.replace("_", " and ")
        named.add(kind)
        axes.plot([intensity], [ours], "o", color=colour, markersize=4, label=label)
    axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations a byte", ylabel="10^12 operations a second")
    axes.set_title(f"{figures['device']}, {figures['date']}: ours (dots) and the best peer (ends of lines)", fontsize=10)
    axes.legend(loc="lower right", fontsize=8)
    made.savefig(picture, metadata={"Date": None})
    pyplot.close(made)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
