"""Replays of QuantDSL strategies from the command line: options to a run, a run to words and an exit code."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.diagnostics import Diagnostic, Severity
from zyntax.interrupts import noticed
from zyntax.options import settings_of
from zyntax.progress import showing
from zyntax.report import Reporter
from zyntax.summary_text import bench_text, summary_text

if TYPE_CHECKING:
    from quantdsl.run.open import CompileRequest
    from quantdsl.run.options import RunOptions
    from quantdsl.run.replay import ReplayProgress

HALTED, LATE = 1, 4


def replay(path: str, here: Reporter, **given: Any) -> int:
    """Runs the strategy and prints its summary; gives the exit code. Raises ZyntaxError."""
    from quantdsl.run.open import open_strategy

    if given["png"] and given["out"] is None:
        raise _no_folder()

    options = run_options(**given)
    with showing() as doing:
        strategy = open_strategy(path, wishes_of(given), here.sources, lambda found: here.show([found]), doing)
        from quantdsl.run.replay import Replay

        if given["enforce"] and strategy.metadata.target_ns is None:
            raise _no_target()
        audit = None
        if given["audit"]:
            from quantdsl.run.audit import audit as counted

            doing("counting system calls")
            audit = counted(strategy, options)
        with noticed():
            ending = Replay(strategy, options, _telling(doing), audit).run(lambda about: _sink(given, about))
    print(summary_text(ending.summary, given["out"]), end="")
    sys.stdout.flush()
    here.show([*(Diagnostic("0811", note, severity=Severity.NOTE) for note in ending.notes)])
    if ending.failure is not None:
        here.show([ending.failure])
        return HALTED
    return _latency(ending.summary, given["enforce"], here)


def bench(path: str, here: Reporter, as_json: bool, **given: Any) -> None:
    """Measures the strategy and prints figures. Raises ZyntaxError."""
    from quantdsl.run.measure import measure
    from quantdsl.run.open import open_strategy

    if not given["data"]:
        raise _no_data(path)
    options = run_options(**given)
    with showing() as doing:
        strategy = open_strategy(path, wishes_of(given), here.sources, lambda measured: here.show([measured]), doing)
        doing("measuring")
        measured = measure(strategy, options, given["events"], given["rounds"])
    if as_json:
        print(json.dumps({"program": path, "fills": measured.fills, **measured.figures()}, indent=2))
        return
    print(bench_text(path, strategy.metadata.target_ns, measured.fills, measured.figures()), end="")


def _no_data(path: str) -> Exception:
    from quantdsl.run.options import refused

    return refused(f"`{path}`: a strategy runs on market data", f"zyntax bench {path} --data trades.csv")


def stage_of(path: str, here: Reporter, stage: str, **given: Any) -> str | bytes:
    """The strategy at a stage of its way down. Raises ZyntaxError."""
    from quantdsl.stages import stage as made
    from zyntax.languages import read

    with showing() as doing:
        doing("compiling")
        return made(stage, read(path, here), wishes_of(given), here.sources, lambda found: here.show([found]))


def wishes_of(given: Mapping[str, Any]) -> "CompileRequest":
    """How the program is to be compiled. `level` None: as strategies are unless one is asked for."""
    from quantdsl.run.open import LEVEL, CompileRequest

    settings = settings_of(given)
    if given.get("seed") is not None:
        settings["seed"] = str(given["seed"])
    return CompileRequest(settings, given.get("strategy"), given.get("level") or LEVEL, bool(given.get("strict")))


def run_options(**given: Any) -> "RunOptions":
    """Raises ZyntaxError for texts that are none of what they should be."""
    from quantdsl.run import options as of

    out, back = of.latency(given["latency"]) if given["latency"] else (0, 0)
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


def _sink(given: Mapping[str, Any], about: Any) -> Any:
    if given["out"] is None:
        from runtime.replay.outputs.kept import KeptRecords

        return KeptRecords(about, tables=False)
    from runtime.replay.outputs.folder import OutputOptions, Outputs

    return Outputs(Path(given["out"]), about, OutputOptions(png=given["png"]))


def _telling(doing: Callable[[str], None]) -> "Callable[[ReplayProgress], None]":
    def tell(progress: "ReplayProgress") -> None:
        from runtime.replay.outputs.charts import moment

        rate = progress.events / progress.seconds if progress.seconds else 0.0
        done = "" if progress.share is None else f"{_bar(progress.share)} {progress.share:.0%}  "
        doing(f"{done}{progress.events:,} events, {rate / 1e6:.1f} M/s, {moment(progress.now)}")

    return tell


def _bar(share: float, width: int = 24) -> str:
    full = round(share * width)
    return "━" * full + "╌" * (width - full)


def _no_folder() -> Exception:
    from quantdsl.run.options import refused

    return refused("`--png` writes into the folder of `--out`, which isn't given", "--out FOLDER")


def _no_target() -> Exception:
    from quantdsl.run.options import refused

    return refused("`--enforce` needs a target, and no handler has one", "write `@target_latency(500ns)` in front of it")


def _latency(summary: dict[str, Any], percentile: str | None, here: Reporter) -> int:
    """4 where the percentile that is enforced is above the target."""
    latencies = summary["latency_ns"]
    value = latencies[percentile] if percentile is not None else None
    if value is None or value <= latencies["target"]:
        return 0
    message = f"the {percentile} of the handlers' latency is {value:,.0f} ns, above the target of {latencies['target']:,.0f} ns"
    here.show([Diagnostic("0811", message, running=True)])
    return LATE
