"""Shows diagnostics, in colour on a terminal, as JSON on request, and gives the exit code that goes with them."""

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

import click

from runtime.extras import PackageMissing
from zyntax.interrupts import watched
from zyntax.reader import ReaderGone

if TYPE_CHECKING:
    from types import FrameType

    from compiler.diagnostics import Diagnostic
    from compiler.source import Span

INTERRUPTED = 130
BAD_DATA = 3


class Reporter:
    """Where the messages of one invocation go. `form`: "text" or "json"."""

    def __init__(self, form: str = "text") -> None:
        from compiler.source import Sources

        self.form = form
        self.sources: Sources = Sources()

    def show(self, diagnostics: "Iterable[Diagnostic]") -> None:
        from compiler.diagnostics import render, to_json

        shown = list(diagnostics)
        if self.form == "json":
            import json

            for diagnostic in shown:
                _write(sys.stderr, json.dumps(to_json(diagnostic, self.sources), ensure_ascii=False) + "\n")
            return
        for number, diagnostic in enumerate(shown):
            text = render(diagnostic, self.sources)
            _write(sys.stderr, ("\n" if number else "") + (_coloured(text) if wants_colour(sys.stderr) else text) + "\n")


_current: list[Reporter] = []


def reporter(form: str = "text") -> Reporter:
    """The invocation's reporter; a command sets the form before it does anything that can fail."""
    if not _current:
        _current.append(Reporter(form))
    _current[0].form = form
    return _current[0]


def guarded(action: Callable[[], Any]) -> int:
    """Runs a command and turns whatever comes out of it into messages and an exit code."""
    from click.exceptions import Exit

    _open_closed_streams()
    try:
        with watched(_leave):
            result = action()
        return result if isinstance(result, int) else 0
    except Exit as leave:
        return leave.exit_code
    except click.ClickException as usage:
        usage.show()
        return usage.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except (BrokenPipeError, ReaderGone):
        # Not an error, but the interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(error)


def _open_closed_streams() -> None:
    """A command started with its output closed (`>&-`) has no stream there: what it says goes nowhere, but it must not fail of it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 (open as long as the process)


def exit_code(diagnostics: "Iterable[Diagnostic]") -> int:
    """Of all messages of one command: interrupted, else 2 for a program that doesn't compile, else bad data, else a failed run."""
    listed = list(diagnostics)
    if any(d.code == "0809" for d in listed):
        return INTERRUPTED
    if not listed or any(not d.at_run_time and not d.data for d in listed):
        return 2
    return BAD_DATA if any(d.data for d in listed) else 1


def _interrupted(span: "Span | None" = None) -> int:
    from compiler.diagnostics import Diagnostic

    reporter(_current[0].form if _current else "text").show([Diagnostic("0809", "interrupted", span)])
    return INTERRUPTED


def _leave(frame: "FrameType | None") -> None:
    """The end of a run whose main thread is inside native code: what was printed is written, then the process is gone."""
    from compiler.backends.host.faults import span_of_frame

    _interrupted(span_of_frame(frame))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


def _failed(error: Exception) -> int:
    from compiler.diagnostics import Diagnostic, ZyntaxError

    reporter_ = reporter(_current[0].form if _current else "text")
    if isinstance(error, ZyntaxError):
        reporter_.show(error.diagnostics)
        if error.__cause__ is not None and any(d.code == "0902" for d in error.diagnostics):
            _show_traceback(error.__cause__)
        return exit_code(error.diagnostics)
    if isinstance(error, PackageMissing):
        from compiler.codes.packages import package_missing

        reporter_.show([package_missing(error)])
        return 2
    if isinstance(error, MemoryError):
        reporter_.show([Diagnostic("0804", "out of memory")])
        return 1
    reporter_.show([internal_fault(error)])
    _show_traceback(error)
    return 1


def _show_traceback(error: BaseException) -> None:
    """For those who work on zyntax itself, or on a language of their own, and ask for it."""
    if os.environ.get("ZYNTAX_TRACEBACK"):
        import traceback

        traceback.print_exception(error)


def internal_fault(error: Exception) -> "Diagnostic":
    """Our own fault, said so, with the innermost place in our code for the report that we ask for."""
    import traceback

    from compiler.diagnostics import Diagnostic

    frames = traceback.extract_tb(error.__traceback__)
    position = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "unknown place"  # noqa: PTH119 - `--help` needs no pathlib
    return Diagnostic(
        "0901",
        f"internal fault: {type(error).__name__}: {error} ({position})",
        hint="this is a fault of zyntax, not of your program; please report it with the program",
    )


def wants_colour(stream: TextIO) -> bool:
    """NO_COLOR (any value) wins; else colour on a terminal only."""
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM") != "dumb"


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        stream.write(text.encode(stream.encoding or "ascii", "replace").decode(stream.encoding or "ascii"))
    stream.flush()


def _coloured(text: str) -> str:
    bold, red, yellow, blue, reset = "\033[1m", "\033[31m", "\033[33m", "\033[34m", "\033[0m"
    out = []
    for line in text.split("\n"):
        if line.startswith("error["):
            head, _, rest = line.partition(":")
            line = f"{bold}{red}{head}{reset}{bold}:{rest}{reset}"
        elif line.startswith("warning["):
            head, _, rest = line.partition(":")
            line = f"{bold}{yellow}{head}{reset}{bold}:{rest}{reset}"
        elif line.startswith(("hint:", "note:")):
            line = f"{bold}{line[:5]}{reset}{line[5:]}"
        elif (bar := line.find(" |")) >= 0 and line[:bar].strip().isdigit() | (not line[:bar].strip()):
            rest = line[bar + 2 :]
            stripped = rest.strip()
            if stripped.startswith("^"):
                rest = f"{red}{rest}{reset}"
            elif stripped.startswith("-"):
                rest = f"{blue}{rest}{reset}"
            line = f"{blue}{line[: bar + 2]}{reset}{rest}"
        out.append(line)
    return "\n".join(out)
