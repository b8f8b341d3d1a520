"""A run's summary, and what a measurement found, in a few lines for the terminal."""

from decimal import Decimal
from typing import Any


def summary_text(summary: dict[str, Any], out: str | None) -> str:
    rows: list[tuple[str, str]] = [
        ("rows", _rows(summary)),
        ("orders", ", ".join(f"{summary[name]:,} {name}" for name in ("submitted", "filled", "cancelled", "rejected", "open"))),
    ]
    lost = {name.replace("_", " "): summary[name] for name in ("gaps", "adds_refused", "unknown_orders") if summary[name]}
    if lost:
        rows.append(("lost", ", ".join(f"{sum(counts.values()):,} {name}{_counts(counts)}" for name, counts in lost.items())))
    if summary["rejects_by_rule"]:
        rows.append(("rejects", ", ".join(f"{name} {count:,}" for name, count in summary["rejects_by_rule"].items())))
    for name, position in summary["positions"].items():
        rows.append(("position", f"{_plain(position['qty'])} {name}{_mark(position['mark'])}, {position['fills']:,} fills"))
    for currency, pnl in summary["pnl"].items():
        parts = ", ".join(f"{word} {_plain(pnl[word])}" for word in ("realized", "unrealized", "fees"))
        rows.append(("net", f"{_plain(pnl['net'])} {currency} ({parts}), drawdown {_plain(pnl['max_drawdown'])}"))
    latency, machine = summary["latency_ns"], summary["machine"]
    if latency["samples"]:
        target = f", target {latency['target']:,.0f} ns: {latency['within_target']:.2%} within" if latency["target"] is not None else ""
        shown = ", ".join(f"{name} {latency[name]:,.0f} ns" for name in ("p50", "p99", "p99.9"))
        rows.append(("latency", f"{shown} ({latency['samples']:,} samples{target})"))
    if machine.get("events_per_s"):
        rows.append(("events", f"{summary['events']:,}, {machine['events_per_s'] / 1e6:.1f} M/s; {machine['seconds']:.2f} s with reading"))
    outside = summary["outside_calls"]
    if "page_faults" in outside:
        faults = f"{outside['page_faults']:,} page faults, {outside['context_switches']:,} context switches"
        rows.append(("audit", f"{outside['allocator']} allocator calls, {outside['system']} system calls; {faults}"))
    if summary.get("log_dropped"):
        rows.append(("log", f"{summary['log_dropped']:,} records dropped, the oldest of events that made too many"))
    if summary["halted"] is not None:
        rows.append(("halted", summary["halted"]))
    rows.append(("hash", summary["hash"]))
    rows.append(("outputs", f"{out}/report.html" if out is not None else "none: --out FOLDER writes them"))
    return _lines(rows)


def bench_text(path: str, target: float | None, fills: str, figures: dict[str, Any]) -> str:
    """`figures`: of `quantdsl.run.measure.MeasuredRun`."""
    rows = [
        ("program", f"{path}, {fills} fills, one core"),
        (
            "data",
            f"{figures['sample']:,} events, read at {figures['rows_read_per_s'] / 1e6:.1f} M rows/s; repeated to {figures['events']:,}",
        ),
        (
            "events",
            f"{figures['events_per_s'] / 1e6:.1f} M/s: {figures['ns_per_event']:.1f} ns each, {figures['ns_per_event_best']:.1f} at best",
        ),
    ]
    timed = [("batches", figures["batches_of_16_ns_per_event"], "an event, in batches of 16")]
    timed += [(f"on {event}", shares, "a call") for event, shares in figures["handlers_ns_per_call"].items()]
    for name, shares, of in timed:
        if shares is not None:
            rows.append((name, ", ".join(f"{share} {value:,.1f} ns" for share, value in shares.items()) + f" {of}"))
    rows.append(("timer", f"{figures['timer_subtracted_ns']:.1f} ns subtracted, tells {figures['timer_resolution_ns']:.1f} ns apart"))
    if target is not None:
        rows.append(("target", f"{target:,.0f} ns a call"))
    return _lines(rows)


def _lines(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name.ljust(width)}  {text}\n" for name, text in rows)


def _rows(summary: dict[str, Any]) -> str:
    left = f", {summary['rows_left_out']:,} left out" if summary.get("rows_left_out") else ""
    bad = f"{summary['rows_bad']:,} bad{_counts(summary['rows_bad_by_reason'])}"
    return f"{summary['rows_in']:,} in, {summary['rows_used']:,} used, {bad}{left}"


def _counts(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})" if counts else ""


def _mark(mark: Decimal | None) -> str:
    return f" at {_plain(mark)}" if mark is not None else ""


def _plain(value: Decimal) -> str:
    text = f"{value:,f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
