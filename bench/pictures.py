"""The pictures of README.md, from measured figures and from a replay; and one of KernelBench.

    python -m bench.pictures limits bench/results/gpu-h200.json docs/limits-h200.svg
    python -m bench.pictures replay docs/replay-report.svg
    python -m bench.pictures kernelbench FILE SVG       # of `bench.gpu.kernelbench --json FILE`

They lie on a ground of their own, so they read alike on a light and on a dark page."""

import json
import math
import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import quantdsl
from bench.gpu.kernelbench import ratios

ROOT = Path(__file__).parents[1]
WORKLOADS = {
    "matmul bf16 4096^3": "matrix product, bf16, 4096³",
    "matmul f64 4096^3": "matrix product, f64, 4096³",
    "8B up, 16x14336x4096 bf16": "product of 16 rows, 16×14336×4096, bf16",
    "conv2d 32x56x56x256 to 256 3x3 NHWC bf16": "convolution, 3×3, 256 channels, bf16",
    "attention bf16 4x16x4096x128": "attention, 4096 tokens, 128 wide, bf16",
    "softmax 16384x4096 bf16": "softmax of 16384 rows, bf16",
    "transpose 8192^2 bf16": "transpose, 8192², bf16",
    "scan 268435456 f32": "running sum of 2²⁸ numbers, f32",
}
"""Rows of `bench.gpu`, and what the picture calls them."""

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1c1d20 } .soft { fill: #63676f; font-size: 12px }
.head { font-size: 15px; font-weight: 600 }
.card { fill: #ffffff; stroke: #e4e5e8 } .grid { stroke: #ecedef } .ours { fill: #2f6fd0 } .peer { stroke: #1c1d20; stroke-width: 2.5 }
.end { text-anchor: end } .middle, .time { text-anchor: middle }
</style>"""

CHART_STYLE = """<style>
.chart text { font-size: 11px; fill: #63676f } .value { text-anchor: end } .zero { stroke: #7b8089; stroke-dasharray: 3 3 }
.line { fill: none; stroke-width: 1.6 } .main { stroke: #2f6fd0 } .quiet { stroke: #7b8089 }
.mark { stroke: none } .mark.buy { fill: #16855b } .mark.sell { fill: #b3431f }
</style>"""


def picture(width: int, height: int, title: str, content: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">'
    card = f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    return "\n".join([head, STYLE, card, f'<text class="head" x="20" y="30">{escape(title)}</text>', *content, "</svg>", ""])


def limits(figures: dict[str, Any]) -> str:
    """A bar a workload: our share of the device's limit; a stroke across it is the best peer's."""
    rows = {row["workload"]: row for row in figures["rows"]}
    left, full, top, step = 320, 440, 78, 30
    bottom = top + step * len(WORKLOADS)

    def x(share: float) -> float:
        return left + share * full

    content = ['<text class="soft" x="20" y="50">bar: Zyntax, with its rate; stroke: the fastest peer, named in parentheses</text>']
    for percent in range(0, 101, 25):
        content.append(f'<line class="grid" x1="{x(percent / 100)}" x2="{x(percent / 100)}" y1="{top - 8}" y2="{bottom}"/>')
        content.append(f'<text class="soft middle" x="{x(percent / 100)}" y="{bottom + 18}">{percent} %</text>')
    for number, (workload, name) in enumerate(WORKLOADS.items()):
        row, y = rows[workload], top + step * number
        ours = row["share_of_limit"]
        peer = x(ours * row["ours_ms"] / row["peer_ms"])
        content.append(f'<text class="end" x="{left - 10}" y="{y + 14}">{escape(name)}</text>')
        content.append(f'<rect class="ours" x="{left}" y="{y + 1}" width="{ours * full:.1f}" height="17" rx="2"/>')
        content.append(f'<line class="peer" x1="{peer:.1f}" x2="{peer:.1f}" y1="{y - 2}" y2="{y + 21}"/>')
        end = max(x(ours), peer) + 8
        content.append(f'<text class="soft" x="{end:.1f}" y="{y + 14}">{row["rate"]:.3g} {row["unit"]} ({escape(row["best_peer"])})</text>')
    return picture(900, bottom + 34, f"Share of the hardware's limit, {figures['device']}, {figures['date']}", content)


def kernelbench(figures: dict[str, Any]) -> str:
    """A line a problem, the worst first: the times of PyTorch, eager and compiled, over ours on a scale of powers; those that aren't
    right have their state."""

    def shares(row: dict[str, Any]) -> dict[str, float]:
        return ratios(row) if row["state"] == "right" else {}

    rows = sorted(figures["rows"], key=lambda row: min(shares(row).values(), default=0.0))
    left, full, top, step = 400, 440, 78, 17
    bottom = top + step * len(rows)

    def x(share: float) -> float:
        return left + full * (math.log10(min(max(share, 0.01), 100.0)) + 2) / 4

    content = ['<text class="soft" x="20" y="50">bar: from the slower of our two ratios to 1; dot: PyTorch; stroke: torch.compile</text>']
    for share in (0.01, 0.1, 1, 10, 100):
        content.append(f'<line class="grid" x1="{x(share)}" x2="{x(share)}" y1="{top - 8}" y2="{bottom}"/>')
        content.append(f'<text class="soft middle" x="{x(share)}" y="{bottom + 18}">{share:g}</text>')
    for number, row in enumerate(rows):
        y, known = top + step * number, shares(row)
        content.append(f'<text class="soft end" x="{left - 10}" y="{y + 12}">{escape(row["title"][:50])} ({row["number"]})</text>')
        if not known:
            content.append(f'<text class="soft" x="{left + 8}" y="{y + 12}">{escape(row["state"])}</text>')
            continue
        low, high = sorted((x(min(known.values())), x(1)))
        content.append(f'<rect class="ours" x="{low:.1f}" y="{y + 5}" width="{high - low:.1f}" height="6" rx="2"/>')
        if "eager" in known:
            content.append(f'<circle cx="{x(known["eager"]):.1f}" cy="{y + 8}" r="4"/>')
        if "compile" in known:
            at = f"{x(known['compile']):.1f}"
            content.append(f'<line class="peer" x1="{at}" x2="{at}" y1="{y + 1}" y2="{y + 15}"/>')
    return picture(900, bottom + 34, "KernelBench, level 1: their time over ours", content)


def replay() -> str:
    """Two charts of the report of `programs/quantdsl/ema_cross.qdsl` on the sample of trades."""
    with tempfile.TemporaryDirectory() as folder:
        program = quantdsl.compile(ROOT / "programs" / "quantdsl" / "ema_cross.qdsl")
        program.run(ROOT / "programs" / "data" / "btcusdt_spot_20240808_trades.csv", out=folder)
        page = (Path(folder) / "report.html").read_text(encoding="utf-8")
    content, y = [CHART_STYLE], 50
    for key, title in (("equity", "profit and loss, USDT"), ("price", "price, with what was bought (▲) and sold (▼)")):
        chart = re.search(rf'<svg viewBox="0 0 (\d+) (\d+)"[^>]*data-chart="{key}".*?>\n(.*?)\n</svg>', page, re.DOTALL)
        assert chart is not None
        drawn = re.sub(r'<g class="cursor".*?</g>|<title>.*?</title>', "", chart[3])
        content.append(f'<text x="20" y="{y + 4}">{title}</text>')
        content.append(f'<g class="chart" transform="translate(0 {y + 10})">\n{drawn}\n</g>')
        y += int(chart[2]) + 30
    return picture(900, y, "ema_cross.qdsl on six minutes of BTCUSDT, from its report.html", content)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["limits", source, target]:
            Path(target).write_text(limits(json.loads(Path(source).read_text())), encoding="utf-8")
        case ["kernelbench", source, target]:
            Path(target).write_text(kernelbench(json.loads(Path(source).read_text())), encoding="utf-8")
        case ["replay", target]:
            Path(target).write_text(replay(), encoding="utf-8")
        case _:
            raise SystemExit(__doc__)
