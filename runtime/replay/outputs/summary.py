"""`summary.json`: a run in a page of numbers."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from runtime.records import field, frozen
from runtime.replay.outputs.digest import Digest
from runtime.replay.outputs.gathered import Gathered
from runtime.replay.outputs.scales import Scales

NOT_HASHED = ("complete", "partial", "hash", "program", "data", "latency_ns", "machine", "outside_calls", "log_dropped")
"""What may differ between two runs of the same program on the same data."""

Summary = dict[str, Any]


@frozen
class Totals:
    """What the runner decided and counted. `submitted`: orders asked for, those that were refused among them. `settings`: what decides the
    run beside its program and its data. `drawdowns`: exact ones by currency, in money units; without one, the deepest fall between two
    records of profit and loss stands for it. `halted`: why the strategy was stopped. `more`: entries of the runner's own. `machine`: what
    is true of this machine and this moment, times among it."""

    rows_in: int
    rows_used: int
    rows_bad: int
    submitted: int
    settings: Mapping[str, Any] = field(factory=dict)
    halted: str | None = None
    machine: dict[str, Any] = field(factory=dict)
    drawdowns: Mapping[str, int] = field(factory=dict)
    more: Mapping[str, Any] = field(factory=dict)
    timing: Mapping[str, Any] = field(factory=dict)
    """How latencies were measured."""


def summarise(gathered: Gathered, totals: Totals) -> Summary:
    """All of it but `complete` and `hash`. Raises ValueError where counts that must agree don't, which is a fault of the engine."""
    counts = gathered.order_counts()
    if totals.rows_in != totals.rows_used + totals.rows_bad:
        raise ValueError(f"{totals.rows_in} rows in are not {totals.rows_used} used and {totals.rows_bad} bad")
    if totals.submitted != counts["submitted"]:
        raise ValueError(f"{totals.submitted} orders submitted, but the records have {counts['submitted']}")
    run = gathered.run
    return {
        "program": run.program,
        "data": list(run.data),
        "settings": dict(totals.settings),
        "from": iso(gathered.begin),
        "to": iso(gathered.end),
        "rows_in": totals.rows_in,
        "rows_used": totals.rows_used,
        "rows_bad": totals.rows_bad,
        **counts,
        "fills": sum(one.fill_count for one in gathered.positions),
        "fill_ratio": gathered.fill_ratio(),
        "rejects_by_rule": gathered.rejects_by_rule(),
        "pnl": {name: _currency(gathered, name, totals.drawdowns.get(name)) for name in gathered.currencies},
        "positions": {one.name: _position(gathered, number) for number, one in enumerate(run.instruments)},
        "halted": totals.halted,
        "latency_ns": {
            "samples": gathered.latency.total,
            **gathered.percentiles(),
            "target": run.target_ns,
            "within_target": None if run.target_ns is None else gathered.latency.share_within(run.target_ns),
            **totals.timing,
        },
        **totals.more,
        "machine": totals.machine,
    }


def finished(gathered: Gathered, digest: Digest, totals: Totals) -> Summary:
    """The summary of a run that came to its end, with the hash of all that it decided."""
    summary = summarise(gathered, totals)
    return {"complete": True, "hash": digest.hex(facts(summary)), **summary}


def facts(summary: Summary) -> str:
    """The part that belongs to the hash, as one text."""
    return to_json({name: value for name, value in summary.items() if name not in NOT_HASHED})


def iso(ns: int | None) -> str | None:
    """A time to the nanosecond."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:09d}Z"


def _currency(gathered: Gathered, name: str, drawdown: int | None) -> Summary:
    scales, of = Scales(gathered.run), gathered.currencies[name]
    member = next(number for number, one in enumerate(gathered.run.instruments) if one.currency == name)
    lasts = [one.last for one, belongs in zip(gathered.positions, of.members, strict=True) if belongs]
    sharpe, interval = of.sharpe.value()
    sums = {kind: sum(int(last[kind]) for last in lasts) for kind in ("realized", "unrealized", "fees", "net")}
    return {
        **{kind: scales.money.value(units, member) for kind, units in sums.items()},
        "max_drawdown": scales.money.value(of.equity.drawdown if drawdown is None else drawdown, member),
        "sharpe": sharpe,
        "sharpe_interval": interval,
    }


def _position(gathered: Gathered, number: int) -> Summary:
    scales, one = Scales(gathered.run), gathered.positions[number]
    return {
        "qty": scales.qty.value(int(one.last["position"]), number),
        "mark": scales.mark.value(int(one.last["mark2"]), number) if one.last["marked"] else None,
        **{kind: scales.money.value(int(one.last[kind]), number) for kind in ("realized", "unrealized", "fees", "net")},
        "volume": scales.qty.value(one.volume, number),
        "fills": one.fill_count,
    }


def to_json(value: Any) -> str:
    """JSON, two spaces a level; decimals are numbers with all their digits. Floats that are not finite are null."""
    return "".join(_json(value, "\n")) + "\n"


def _json(value: Any, line: str) -> Iterator[str]:
    match value:
        case Decimal():
            yield f"{value:f}"
        case float() if value != value or value in (float("inf"), float("-inf")):
            yield "null"
        case dict() | list() | tuple() if value:
            inner = line + "  "
            entries = value.items() if isinstance(value, dict) else ((None, one) for one in value)
            for number, (name, one) in enumerate(entries):
                yield ("," if number else "{" if isinstance(value, dict) else "[") + inner
                yield "" if name is None else json.dumps(str(name), ensure_ascii=False) + ": "
                yield from _json(one, inner)
            yield line + ("}" if isinstance(value, dict) else "]")
        case _:
            yield json.dumps(value, ensure_ascii=False)
