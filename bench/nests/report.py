"""The rows of a wide bench in a file that grows by seed, and their distribution.

python -m bench.nests.report FILE             # the rows, worst first, and the distribution
python -m bench.nests.report BEFORE AFTER     # the nests that both have: what became slower or faster
"""

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.nests.form import BenchNest
from bench.nests.printing import zynml

WORST = 12
"""Rows that are shown with their programs."""

FINE = "right"
"""The state of a row whose answer was compared; others are `wrong`, `refused`, `stopped` and `crashed`."""

Row = dict[str, Any]


def described(nest: BenchNest) -> Row:
    return {
        "seed": nest.seed,
        "family": nest.family,
        "kind": nest.kind,
        "dtype": nest.dtype,
        "sizes": dict(nest.sizes),
        "named": nest.named,
        "layouts": {name: operand.layout for name, operand in nest.operands.items() if operand.layout != "rows"},
        "bytes": nest.bytes,
        "operations": nest.operations,
        "unit": nest.unit,
        "text": zynml(nest),
    }


def percentile(values: Sequence[float], percent: float) -> float:
    """Between the two nearest, in proportion."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def share(row: Row) -> float:
    """Of the limit; 0 where nothing right came."""
    return float(row.get("share", 0.0)) if row["state"] in (FINE, "stopped") else 0.0


def distribution(rows: Sequence[Row]) -> dict[str, Any]:
    """Every row counts, also one that was refused or wrong: as 0."""
    if not rows:
        return {"rows": 0}
    shares = [share(row) for row in rows]
    families: dict[str, list[float]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(share(row))
    states = {state: sum(row["state"] == state for row in rows) for state in sorted({row["state"] for row in rows})}
    return {
        "rows": len(rows),
        "states": states,
        "median": statistics.median(shares),
        "25th percentile": percentile(shares, 25),
        "5th percentile": percentile(shares, 5),
        "least": min(shares),
        "families": dict(sorted(((name, statistics.median(values)) for name, values in families.items()), key=lambda pair: pair[1])),
    }


def line(row: Row) -> str:
    """A row for a terminal."""
    sizes = " ".join(f"{name}={size}" for name, size in row["sizes"].items())
    head = f"{row['seed']:6} {row['family']:11} {row['dtype']:4} {row['kind'][:48]:48} {'names' if row['named'] else 'numbers':7}"
    layouts = "".join(f" {name}: {layout}" for name, layout in row["layouts"].items())
    time = f"{row['ours_ms']:9.4f} of {row['limit_ms']:8.4f} ms" if "ours_ms" in row else f"{'':>23}"
    state = "" if row["state"] == FINE else f"  {row['state'].upper()} {row.get('message', '')}"
    error = f"  error {row['error']:.1e}" if row["state"] == "wrong" and "error" in row else ""
    peer = f"  C / ours {row['c_ms'] / row['ours_ms']:.2f}" if "c_ms" in row else ""
    bound = f" ({max(row['limits_ms'], key=row['limits_ms'].__getitem__)})" if "limits_ms" in row else ""
    return f"{head} {100 * share(row):5.1f} % {time}{bound}{peer}  {sizes}{layouts}{state}{error}"


def shown(rows: Sequence[Row]) -> str:
    """The distribution, then the worst rows first, the first of them with their programs."""
    ordered = sorted(rows, key=share)
    figures = distribution(rows)
    lines = [line(row) for row in ordered]
    for row in ordered[:WORST]:
        lines += ["", line(row), row["text"].rstrip()]
    if figures["rows"]:
        states = ", ".join(f"{count} {state}" for state, count in figures["states"].items())
        lines += ["", "medians by family: " + ", ".join(f"{name} {value:.2f}" for name, value in figures["families"].items())]
        lines.append(
            f"{figures['rows']} nests ({states}): share of the limit: median {figures['median']:.3f}, 25th percentile "
            f"{figures['25th percentile']:.3f}, 5th {figures['5th percentile']:.3f}, least {figures['least']:.3f}"
        )
    return "\n".join(lines)


CHANGED = 1.05
"""Times that differ by less are the same."""


def compared(before: Sequence[Row], after: Sequence[Row]) -> str:
    """Of the nests that both have, the times before over those after, slower ones first; and whose state changed."""
    earlier = {identity(row): row for row in before}
    pairs = [(earlier[identity(row)], row) for row in after if identity(row) in earlier]
    lines = [f"{old['state']} before: {line(new)}" for old, new in pairs if old["state"] != new["state"]]
    timed = [(old["ours_ms"] / new["ours_ms"], new) for old, new in pairs if old["state"] == new["state"] == FINE]
    timed.sort(key=lambda pair: pair[0])
    lines += [f"{ratio:6.2f} {line(row)}" for ratio, row in timed if not 1 / CHANGED < ratio < CHANGED]
    if timed:
        mean = math.exp(sum(math.log(ratio) for ratio, _ in timed) / len(timed))
        lines.append(f"before over after: geometric mean {mean:.3f} of {len(timed)}, least {timed[0][0]:.2f}, most {timed[-1][0]:.2f}")
    else:
        lines.append("no nest has a time in both")
    return "\n".join(lines)


def identity(row: Row) -> tuple[Any, ...]:
    """The same nest, with as many threads."""
    return row["seed"], row.get("threads"), row["text"], row["bytes"]


def kept(path: Path | None) -> dict[str, Any]:
    """What earlier calls wrote to the file."""
    if path is not None and path.exists():
        figures: dict[str, Any] = json.loads(path.read_text())
        return figures
    return {"runs": [], "rows": []}


def keep(path: Path | None, figures: Mapping[str, Any]) -> None:
    written(path, {**figures, "distribution": distribution(figures["rows"])})


def written(path: Path | None, figures: Mapping[str, Any]) -> None:
    """To the file, whole or not at all."""
    if path is not None:
        partial = path.with_suffix(path.suffix + ".part")
        partial.write_text(json.dumps(figures, indent=1) + "\n")
        partial.replace(path)


if __name__ == "__main__":
    files = [kept(Path(name))["rows"] for name in sys.argv[1:]]
    print(compared(*files) if len(files) == 2 else shown(files[0]))
