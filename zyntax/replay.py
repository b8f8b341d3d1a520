"""Replays of strategies from the command line: options to a run, a run to words and an exit code."""

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
    from compiler.language import Replays

HALTED, LATE = 1, 4


def replay(path: str, here: Reporter, **given: Any) -> int:
    """Runs the strategy and prints its summary; gives the exit code. Raises ZyntaxError."""
    replays, given = _replays(path), _with_parameters(given)
    if given["png"] and given["out"] is None:
        raise replays.refused("`--png` writes into the folder of `--out`, which isn't given", "--out FOLDER")
    replays.run_options(given)
    with showing() as doing:
        strategy, target = replays.opened(path, given, here.sources, lambda warning: here.show([warning]), doing)
        if given["enforce"] and target is None:
            message = "`--enforce` needs a target, and no handler has one"
            raise replays.refused(message, "write `@target_latency(500ns)` in front of it")
        ending = replays.replayed(strategy, given, doing, _telling(doing), noticed, lambda about: _sink(given, about))
    print(summary_text(ending.summary, given["out"]), end="")
    sys.stdout.flush()
    here.show([*(Diagnostic("0811", note, severity=Severity.NOTE) for note in ending.notes)])
    if ending.failure is not None:
        here.show([ending.failure])
        return HALTED
    return _latency(ending.summary, given["enforce"], here)


def bench(path: str, here: Reporter, as_json: bool, **given: Any) -> None:
    """Measures the strategy and prints figures. Raises ZyntaxError."""
    replays, given = _replays(path), _with_parameters(given)
    if not given["data"]:
        raise replays.refused(f"`{path}`: a strategy runs on market data", f"zyntax bench {path} --data trades.csv")
    replays.run_options(given)
    with showing() as doing:
        strategy, target = replays.opened(path, given, here.sources, lambda warning: here.show([warning]), doing)
        doing("measuring")
        measured = replays.measured(strategy, given)
    if as_json:
        print(json.dumps({"program": path, "fills": measured.fills, **measured.figures()}, indent=2))
        return
    print(bench_text(path, target, measured.fills, measured.figures()), end="")


def stage_of(path: str, here: Reporter, stage: str, **given: Any) -> str | bytes:
    """The strategy at a stage of its way down. Raises ZyntaxError."""
    from zyntax.languages import read

    with showing() as doing:
        doing("compiling")
        given = _with_parameters(given)
        return _replays(path).stage(stage, read(path, here), given, here.sources, lambda warning: here.show([warning]))


def _replays(path: str) -> "Replays":
    from zyntax.languages import language_of

    of_replays = language_of(path).of_replays
    assert of_replays is not None, "commands ask `is_replayed` first"
    return of_replays()


def _with_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    return {**given, "parameters": settings_of(given)}


def _sink(given: Mapping[str, Any], about: Any) -> Any:
    if given["out"] is None:
        from runtime.replay.outputs.kept import KeptRecords

        return KeptRecords(about, tables=False)
    from runtime.replay.outputs.folder import OutputOptions, Outputs

    return Outputs(Path(given["out"]), about, OutputOptions(png=given["png"]))


def _telling(doing: Callable[[str], None]) -> Callable[[Any], None]:
    def tell(progress: Any) -> None:
        from runtime.replay.outputs.charts import moment

        rate = progress.events / progress.seconds if progress.seconds else 0.0
        done = "" if progress.share is None else f"{_bar(progress.share)} {progress.share:.0%}  "
        doing(f"{done}{progress.events:,} events, {rate / 1e6:.1f} M/s, {moment(progress.now)}")

    return tell


def _bar(share: float, width: int = 24) -> str:
    full = round(share * width)
    return "━" * full + "╌" * (width - full)


def _latency(summary: dict[str, Any], percentile: str | None, here: Reporter) -> int:
    """4 where the percentile that is enforced is above the target."""
    latencies = summary["latency_ns"]
    value = latencies[percentile] if percentile is not None else None
    if value is None or value <= latencies["target"]:
        return 0
    message = f"the {percentile} of the handlers' latency is {value:,.0f} ns, above the target of {latencies['target']:,.0f} ns"
    here.show([Diagnostic("0811", message, running=True)])
    return LATE
