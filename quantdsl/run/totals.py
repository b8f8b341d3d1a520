"""What a run says about itself beside its records: what it was of, and what the runner and the engine counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.engine.interface import EVENTS
from quantdsl.engine.layout import KILLED, REDUCING
from quantdsl.metadata import StrategyMetadata
from quantdsl.run.audit import Audit
from quantdsl.run.engine_run import EngineRun
from quantdsl.run.machine import machine
from quantdsl.run.options import RunOptions
from quantdsl.run.program import LinkedStrategy
from runtime.replay.bad_rows import Why
from runtime.replay.grids import GridStep
from runtime.replay.outputs.decimals import exact
from runtime.replay.outputs.records import RiskRule, RunDescription, TradedInstrument, rule_name
from runtime.replay.outputs.summary import Totals, iso

ADDS = ("crossed", "repeated_number", "no_room")
EVENTS_OF_ORDERS = ("execute", "cancel", "delete", "replace")
"""As the engine's book counts them."""
LOSS, FAILURE = -1, -2
"""Of `killed_by`."""


def run_of(strategy: LinkedStrategy, options: RunOptions) -> RunDescription:
    """What the outputs are of, as far as it is known before anything is read."""
    metadata = strategy.metadata
    market = metadata.market
    return RunDescription(
        program=strategy.path,
        instruments=[
            TradedInstrument(
                name=market.name, tick=GridStep(*market.tick), lot=GridStep(*market.lot), currency=market.currency, scale=market.scale
            )
        ],
        data=[str(file.path) if file.symbol is None else f"{file.symbol}={file.path}" for file in options.data],
        handlers=EVENTS,
        target_ns=metadata.target_ns,
        remark=f"No risk block: {metadata.no_risk}" if metadata.no_risk is not None else "",
        logs=bool(metadata.logs),
    )


def settings_of(metadata: StrategyMetadata, options: RunOptions, fills: str) -> dict[str, Any]:
    """What decides a run beside its program and its data. `fills`: how orders fill."""
    return {
        **metadata.parameters,
        "strategy": metadata.strategy,
        "fills": fills,
        "latency_ns": f"{options.out}/{options.back}",
        "on_bad": "skip" if options.skip else "stop",
        "on_cross": "trim" if options.trim else "refuse",
        **({"reorder_ns": options.reorder} if options.reorder else {}),
        **{name: iso(ns) for name, ns in (("from", options.begin), ("to", options.end)) if ns is not None},
    }


def totals_of(
    replay: EngineRun, settings: Mapping[str, Any], audit: Audit | None, not_pinned: str | None, seconds: float
) -> Totals:
    """At the end of a run; `not_pinned` is why the thread isn't on the core that the program asks for. Raises ZyntaxError where the run's
    money doesn't add up, which is a fault of the engine."""
    engine, tallies, metadata = replay.engine, replay.feed.tallies, replay.strategy.metadata
    crossed, book = replay.crossed.count, engine["book"]
    used, bad = sum(tally.used for tally in tallies) - crossed, sum(tally.bad for tally in tallies) + crossed
    reasons = sum((tally.reasons for tally in tallies), Counter({Why.CROSSED: crossed}))
    more = {
        "rows_bad_by_reason": {why.reason: reasons[why] for why in Why if reasons[why]},
        "rows_left_out": sum(tally.left_out for tally in tallies),
        "events": replay.events,
        "identity": _identity(replay),
        "trading": "killed" if engine["trading"] == KILLED else "reducing" if engine["trading"] == REDUCING else "active",
        "books_refused": int(book["crossed"]),
        "books_left_out": int(book["left_out"]),
        "gaps": dict(sorted(sum((tally.gaps for tally in tallies), Counter[str]()).items())),
        "adds_refused": _by_name(ADDS, book["adds_refused"]),
        "unknown_orders": _by_name(EVENTS_OF_ORDERS, book["unknown"]),
        "illegal_transitions": int(engine["illegal"]),
        "counted": _counted(engine["reject_counts"]),
        "log_dropped": engine.dropped,
        "outside_calls": _outside(replay.strategy, audit),
    }
    return Totals(
        settings=settings,
        rows_in=used + bad,
        rows_used=used,
        rows_bad=bad,
        submitted=int(engine["submitted"]),
        halted=_halted(replay),
        machine={**machine(), **_times(replay, seconds)},
        drawdowns={metadata.market.currency: int(engine["position"]["max_drawdown"])},
        more=more,
        timing=_timing(replay, not_pinned),
    )


def _identity(replay: EngineRun) -> dict[str, Decimal]:
    """Realised and unrealised profit are what was paid and what is held; to the last unit."""
    position, market = replay.engine["position"], replay.strategy.metadata.market
    realized, unrealized, cost, qty = (int(position[name]) for name in ("realized", "unrealized", "cost", "qty"))
    cash, mark2 = int(replay.engine["account"]["cash"]), replay.engine.optional("mark2", replay.engine["account"])
    value = cost + unrealized if mark2 is None else round(Fraction(qty * mark2 * market.tick_value, 2))
    if realized + unrealized != cash + value:
        raise ZyntaxError(
            Diagnostic("0901", f"the money of the run doesn't add up: {realized} + {unrealized} is not {cash} + {value} units")
        )
    return {"cash_flows": exact(cash, market.scale), "value": exact(value, market.scale)}


def _by_name(names: Sequence[str], counts: Any) -> dict[str, int]:
    return {name: int(count) for name, count in zip(names, counts, strict=True) if count}


def _halted(replay: EngineRun) -> str | None:
    killed = int(replay.engine["killed_by"])
    if killed == FAILURE:
        return replay.failure.message if replay.failure is not None else "a checked failure"
    if killed == LOSS:
        return "its risk block's limit of losses"
    return f"kill: {replay.strategy.metadata.kill_texts[killed - 1]}" if killed > 0 else None


def _counted(counts: Any) -> dict[str, int]:
    """What `count(rejects, why)` counted, by rule."""
    return {rule_name(rule): int(count) for rule, count in zip(RiskRule, counts, strict=True) if count}


def _outside(strategy: LinkedStrategy, audit: Audit | None) -> dict[str, Any]:
    """What the loop and the handlers ask of the system and of allocators. Native code calls what it is linked with and nothing else."""
    known = 0 if not strategy.unknown else None
    counts = {"allocator": known, "system": known, "linked_with": list(strategy.outside)}
    if audit is None:
        return {**counts, "how": "by the symbols that the code is linked with"}
    return {
        **counts,
        "system": audit.system_calls,
        "system_by_number": audit.by_number,
        "page_faults": audit.page_faults,
        "context_switches": audit.context_switches,
        "how": "allocators by the symbols that the code is linked with; system calls traced in a run before, page faults by getrusage",
    }


def _times(replay: EngineRun, seconds: float) -> dict[str, Any]:
    inside = replay.inside
    return {
        "compile_s": {name: round(value, 6) for name, value in replay.strategy.seconds.items()},
        "seconds": round(seconds, 6),
        "engine_s": round(inside, 6),
        "events_per_s": round(replay.events / inside) if inside else None,
        "events_per_s_with_reading": round(replay.events / seconds) if seconds else None,
    }


def _timing(replay: EngineRun, not_pinned: str | None) -> Mapping[str, Any]:
    """How latencies were taken."""
    if not replay.options.sample:
        return {}
    from quantdsl.run.clock import clock

    found, core = clock(), replay.strategy.metadata.affinity
    return {
        **({"core": core if not_pinned is None else None, "not_pinned": not_pinned} if core is not None else {}),
        "one_event_in": replay.options.sample,
        "subtracted": round(found.cost * found.cycle, 2),
        "resolution": round(found.step * found.cycle, 2),
        "added_to_each": round(2 * found.cost * found.cycle / replay.options.sample, 3),
    }
