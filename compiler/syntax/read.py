"""Reads a program's file. Imports nothing that parses, so that a program from the cache is run without it."""

from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import MAX_SOURCE_BYTES, Source, Span, display_path

if TYPE_CHECKING:
    from pathlib import Path

_TOO_LARGE = f"is too large: a program has at most {MAX_SOURCE_BYTES // (1024 * 1024)} MiB"
_MOVE_DATA = "move its data to a file that it loads"


def read_source(path: "str | Path") -> Source:
    """The text of a program file, or ZYN0108 when it is none."""
    shown = display_path(path)
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a warm start waits for it, and paths take longer to import than to read
            data = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise _refused(shown, f"can't be read: {(error.strerror or str(error)).lower()}") from None
    return source_of(shown, data)


def source_of(shown: str, data: bytes) -> Source:
    """The text of a program that messages call `shown`, or ZYN0108 when it is none."""
    if len(data) > MAX_SOURCE_BYTES:
        raise _refused(shown, _TOO_LARGE, _MOVE_DATA)
    if b"\0" in data:
        raise _refused(shown, "is a binary file, not a program")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _refused(shown, f"is not UTF-8: byte 0x{data[error.start]:02x} in line {line}", "save it as UTF-8") from None
    return Source(shown, text)


def _refused(shown: str, problem: str, hint: str | None = None) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0108", f"`{shown}` {problem}", Span(shown, 0, 0), hint=hint))


def require_size(source: Source) -> None:
    """Refuse a text that is too large for a program. Raises ZyntaxError."""
    if len(source.text) > MAX_SOURCE_BYTES:
        raise ZyntaxError(Diagnostic("0108", f"`{source.path}` {_TOO_LARGE}", Span(source.path, 0, 0), hint=_MOVE_DATA))
