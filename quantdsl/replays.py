"""Replays of strategies as commands ask for them: what `compiler.language.Replays` says. `given` has the options of the command line by
name, with the texts of the program's parameters under `parameters`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from compiler.diagnostics import Diagnostic
from compiler.source import Source, Sources
from quantdsl.run import options as of
from quantdsl.run.open import LEVEL, CompileRequest, Doing, Warn, checked_program, open_strategy


def run_options(given: Mapping[str, Any]) -> of.RunOptions:
    """Raises ZyntaxError for texts that are none of what they should be."""
    out, back = of.latency(given["latency"], "--latency") if given["latency"] else (0, 0)
    begin, end = (of.moment(given[name], f"--{word}") if given[name] else None for name, word in (("begin", "from"), ("end", "to")))
    return of.RunOptions(
        data=of.inputs(given["data"], given["mapped"]),
        begin=begin,
        end=end,
        fills=given["fills"],
        out=out,
        back=back,
        skip=given["on_bad"] == "skip",
        trim=given["on_cross"] == "trim",
        reorder=of.duration(given["reorder"], "--reorder") if given["reorder"] else 0,
        sample=1 if given.get("latency_all") else of.SAMPLE,
        pnl_every=of.duration(given["pnl_every"], "--pnl-every") if given.get("pnl_every") else of.PNL_EVERY,
    )


def request(given: Mapping[str, Any]) -> CompileRequest:
    """How the program is to be compiled, at the level of strategies unless another is asked for."""
    settings = dict(given.get("parameters") or {})
    if given.get("seed") is not None:
        settings["seed"] = str(given["seed"])
    return CompileRequest(settings, given.get("strategy"), given.get("level") or LEVEL, bool(given.get("strict")))


def refused(message: str, hint: str) -> Exception:
    return of.refused(message, hint)


def opened(path: str, given: Mapping[str, Any], sources: Sources, warn: Warn, doing: Doing) -> tuple[Any, float | None]:
    """The strategy, and the nanoseconds that its handlers aim at. Raises ZyntaxError."""
    strategy = open_strategy(path, request(given), sources, warn, doing)
    return strategy, strategy.metadata.target_ns


def replayed(
    strategy: Any,
    given: Mapping[str, Any],
    doing: Doing,
    tell: Callable[[Any], None],
    interrupts: Callable[[], AbstractContextManager[Any]],
    make: Callable[[Any], Any],
) -> Any:
    """How the replay ended: its `summary`, `notes` and `failure`. Raises ZyntaxError."""
    from quantdsl.run.replay import Replay

    options, audit = run_options(given), None
    if given["audit"]:
        from quantdsl.run.audit import audit as counted

        doing("counting system calls")
        audit = counted(strategy, options)
    with interrupts():
        return Replay(strategy, options, tell, audit).run(make)


def measured(strategy: Any, given: Mapping[str, Any]) -> Any:
    """The `fills` and `figures()` of a strategy that is measured. Raises ZyntaxError."""
    from quantdsl.run.measure import measure

    return measure(strategy, run_options(given), given["events"], given["rounds"])


def stage(name: str, source: Source, given: Mapping[str, Any], sources: Sources, warn: Warn) -> str | bytes:
    """The strategy at a stage of its way down. Raises ZyntaxError."""
    from quantdsl.stages import stage as stage_of

    return stage_of(name, source, request(given), sources, warn)


def tested(source: Source, given: Mapping[str, Any], sources: Sources, warn: Warn) -> Sequence[tuple[str, Diagnostic | None]]:
    """The tests of a program that is correct, each with what went wrong. Raises ZyntaxError."""
    from compiler.hir.module import OptimizationLevel
    from quantdsl.testing import run_tests

    asked = request(given)
    checked = checked_program(source, asked, sources)
    for warning in checked.diagnostics.warnings:
        warn(warning)
    return run_tests(checked, OptimizationLevel(asked.level))
