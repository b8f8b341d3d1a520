"""`zyntax run`."""

from pathlib import Path
from typing import Any

import click

from runtime.records import evolve
from zyntax.emit_to import TRACE, KernelFiles, has_traces
from zyntax.garbage import collect_from_here
from zyntax.inputs import STDIN, TEXT, names_of, with_texts
from zyntax.options import OF_PROGRAMS, compile_options, emit_to, execution
from zyntax.progress import showing
from zyntax.replay_options import MEASURED, REPLAY, RunsBoth, replaying, require_kind
from zyntax.report import reporter


@click.command("run", cls=RunsBoth, of_replays=(*REPLAY, *MEASURED), of_programs=OF_PROGRAMS)
@click.argument("path", type=click.Path(), metavar="PROGRAM", required=False)
@with_texts
@replaying
@emit_to
@execution
def command(path: str | None, text: str | None, language: str | None, error_format: str, **given: Any) -> int | None:
    """Run PROGRAM, or standard input where it is `-`: of ZynML its top-level statements, then `main` if it has one; of QuantDSL its
    `main`, or with `--data` a strategy, on that market data.

    Exits with 0; with 1 when the program failed while it ran, or a checked failure halted the strategy; with 2 when it doesn't compile;
    with 3 when the data is bad; with 4 when `--enforce` isn't met; with 130 when it was interrupted."""
    reporter_ = reporter(error_format)
    from zyntax.languages import kept_run, language_of, open_session

    (path,) = names_of(() if path is None else (path,), text, language)
    replayed = language_of(path).replays and bool(given["data"])
    require_kind(click.get_current_context(), path, replayed=replayed)
    if replayed:
        if path in (STDIN, TEXT):
            raise click.UsageError(f"a program that is replayed on `--data` is a file, and `{path}` is none")
        from zyntax.replay import replay

        collect_from_here()
        return replay(path, reporter_, **given)
    folder = given["emit_to"]
    files = None if folder is None else KernelFiles(Path(folder))
    with showing() as doing:
        options = compile_options(**given, doing=doing, launched=files.write if files is not None else None)
        kept = kept_run(path, options, reporter_)
        if kept is not None:
            collect_from_here()
            kept.run()
            return None
        session = open_session(path, options, reporter_)
        if files is None and has_traces(session):
            files = KernelFiles(TRACE, traced=True)
            session.options = evolve(session.options, launched=files.write)
        if files is not None:
            files.session = session
        session.keeps = language_of(path).keeps_runs
        session.host  # noqa: B018 (compiled by now)
        collect_from_here()
        session.run()
    return None
