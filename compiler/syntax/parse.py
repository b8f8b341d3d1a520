"""From text to tree: reads a program's file, parses it, and turns the grammar layer's faults into diagnostics."""

import sys
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.source import MAX_SOURCE_BYTES, Source, Span, display_path
from compiler.syntax.base import Actions
from grammars.faults import Fault
from grammars.loader import load
from grammars.machine import Machine
from grammars.words import BY_LANGUAGE

# Every pass over a tree recurses over its depth, which the parser bounds; Python's own bound is lower.
sys.setrecursionlimit(20_000)

_TOO_LARGE = f"is too large: a program has at most {MAX_SOURCE_BYTES // (1024 * 1024)} MiB"
_MOVE_DATA = "move its data to a file that it loads"


def read_source(path: str | Path) -> Source:
    """The text of a program file, or ZYN0108 when it is none."""
    shown = display_path(path)

    def refused(message: str, hint: str | None = None) -> ZyntaxError:
        return ZyntaxError(Diagnostic("0108", message, Span(shown, 0, 0), hint=hint))

    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise refused(f"`{shown}` can't be read: {(error.strerror or str(error)).lower()}") from None
    if len(data) > MAX_SOURCE_BYTES:
        raise refused(f"`{shown}` {_TOO_LARGE}", _MOVE_DATA)
    if b"\0" in data:
        raise refused(f"`{shown}` is a binary file, not a program")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refused(f"`{shown}` is not UTF-8: byte 0x{data[error.start]:02x} in line {line}", "save it as UTF-8") from None
    return Source(shown, text)


def require_size(source: Source) -> None:
    """Refuse a text that is too large for a program. Raises ZyntaxError."""
    if len(source.text) > MAX_SOURCE_BYTES:
        raise ZyntaxError(Diagnostic("0108", f"`{source.path}` {_TOO_LARGE}", Span(source.path, 0, 0), hint=_MOVE_DATA))


def parse_with(actions: Actions, start: str) -> Any:
    """The value that the actions build from their text; raises ZyntaxError with all its syntax errors."""
    value, faults = parse_text(actions.text, actions, start)
    if faults:
        ordered = sorted(faults, key=lambda fault: (fault.start, fault.code))
        raise ZyntaxError(*(_diagnostic(fault, actions.file) for fault in ordered))
    return value


def parse_text(text: str, actions: Actions, start: str) -> tuple[Any, list[Fault]]:
    """The value that the actions build from a text, and all faults in it; the value is only whole when there are none."""
    machine = Machine(load(actions.language), BY_LANGUAGE[actions.language], actions, text, start)
    value = machine.run()
    return value, [*machine.faults, *actions.faults]


def _diagnostic(fault: Fault, path: str) -> Diagnostic:
    others = tuple(Label(Span(path, start, end), text) for start, end, text in fault.others)
    return Diagnostic(fault.code, fault.message, Span(path, fault.start, fault.end), fault.label, others, hint=fault.hint)
