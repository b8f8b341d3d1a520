"""`zyntax bench`: what the runtime costs on this machine."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zyntax.gpu_here import require_gpu
from zyntax.options import error_format, level, settings
from zyntax.replay_options import BENCH, RunsBoth, require_kind, with_options
from zyntax.report import reporter

if TYPE_CHECKING:
    from runtime.cuda.gpu import Gpu


@click.command("bench", cls=RunsBoth, of_replays=(*BENCH, settings, level))
@click.argument("subject")
@partial(with_options, options=(*BENCH, settings, level))
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@error_format
def command(subject: str, as_json: bool, error_format: str, **given: Any) -> None:
    """Measure SUBJECT on this machine.

    \b
    launch     host time of a kernel launch on the first GPU: with arguments, waited for, in graphs; and of
               allocations, module look-ups and events. Microseconds, medians.
    PROGRAM    a strategy of QuantDSL on the market data of --data: events a second, and how long an event takes."""
    reporter_ = reporter(error_format)
    from compiler.languages import endings, language_of

    if Path(subject).suffix in endings() and language_of(subject).replays:
        from zyntax.replay import bench

        bench(subject, reporter_, as_json, **given)
        return
    require_kind(click.get_current_context(), subject, replayed=False)
    _device(subject, as_json)


def _device(subject: str, as_json: bool) -> None:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    if subject not in SUBJECTS:
        raise ZyntaxError(
            Diagnostic(
                "0505", f"`zyntax bench` doesn't measure `{subject}`", hint=f"it measures {', '.join(SUBJECTS)}, and strategies (`.qdsl`)"
            )
        )
    require_gpu(f"`zyntax bench {subject}` measures a GPU", "`zyntax devices` lists what is here")
    from runtime.cuda.errors import CudaError, CudaRefused
    from runtime.cuda.gpu import gpu

    try:
        device = gpu()
        figures = SUBJECTS[subject](device)
    except (CudaError, CudaRefused) as error:
        raise ZyntaxError(Diagnostic("0805", f"the device failed: {error}")) from None
    limits = device.device.properties
    if as_json:
        driver = ".".join(map(str, limits.driver_version))
        print(json.dumps({"device": limits.name, "driver": driver, "microseconds": figures}, indent=2))
        return
    print(f"cuda:{limits.ordinal}: {limits.name}, microseconds of the host")
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"  {name.ljust(width)}  {value:9.3f}")


def _launch(device: "Gpu") -> dict[str, float]:
    from runtime.cuda.measure import allocations, launches

    return launches(device) | allocations(device)


SUBJECTS: dict[str, Callable[["Gpu"], dict[str, float]]] = {"launch": _launch}
"""What can be measured, and how."""
