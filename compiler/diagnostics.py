"""Diagnostics: errors and warnings as values, and the one place that turns them into text.

Everything that finds fault with a user's program makes a `Diagnostic` and either collects it (`Diagnostics.add`) or
raises it (`ZyntaxError`). Nothing else in the project prints a message."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from compiler.source import Source, Sources, Span
from runtime.records import evolve, field, frozen
from runtime.tuples import as_tuple

_OF_MODULES = re.compile(r"\b[^\W\d]\w*·(?=[^\W\d])")


def as_written(text: str) -> str:
    """A text with names as programs write them: those of other files without the sign of their file."""
    return _OF_MODULES.sub("", text) if "·" in text else text


def with_modules(text: str) -> str:
    """A text with the module before each name of another file: `shapes.area`."""
    return _OF_MODULES.sub(lambda name: name[0].replace("·", "."), text) if "·" in text else text


def _all_as_written(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(as_written, texts))


def _hint(text: str | None) -> str | None:
    return None if text is None else as_written(text)


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen
class Label:
    """A secondary place and what stands there (`first written here`)."""

    span: Span
    text: str = field(default="", converter=as_written)


@frozen
class Diagnostic:
    """One message. `code` is four digits (`"0301"`), or a code of an author's language with its letters (`"IMG0201"`); `label` is the text
    beside the caret under `span`."""

    code: str
    message: str = field(converter=as_written)
    span: Span | None = None
    label: str = field(default="", converter=as_written)
    others: tuple[Label, ...] = field(default=(), converter=as_tuple)
    notes: tuple[str, ...] = field(default=(), converter=_all_as_written)
    hint: str | None = field(default=None, converter=_hint)
    severity: Severity = Severity.ERROR
    running: bool = False
    """Found while the program ran, though its code is one that the compiler gives too."""
    compiling: bool = False
    """Found before the program ran, though its code is one that a run gives too."""
    data: bool = False
    """About data that was given to the program, not about the program."""

    @property
    def full_code(self) -> str:
        return f"ZYN{self.code}" if self.code[:1].isdigit() else self.code

    @property
    def at_run_time(self) -> bool:
        """Codes 08xx and 09xx are raised while a program runs (exit code 1); all others before (exit code 2), unless they say so."""
        return self.running or (self.code[-4:].startswith(("08", "09")) and not self.compiling)


class ZyntaxError(Exception):
    """Carries one or more diagnostics up to whoever shows them."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("; ".join(f"{d.full_code}: {d.message}" for d in diagnostics))
        self.diagnostics = diagnostics

    def __reduce__(self) -> tuple[Any, ...]:
        return ZyntaxError, self.diagnostics


_OF_PROGRAMS = ("0801", "0802", "0803", "0806", "0808")
"""Faults of a run that some programs surely end with, whatever they are given."""


@contextmanager
def before_it_runs() -> Iterator[None]:
    """Errors inside are the program's before it runs, also those that say with a run's code how it would end."""
    try:
        yield
    except ZyntaxError as error:
        raise ZyntaxError(*(evolve(d, compiling=True) if d.code in _OF_PROGRAMS else d for d in error.diagnostics)) from None


class Diagnostics:
    """Collects the diagnostics of one compilation; one per cause, shown by position, those in the file `first` before others."""

    def __init__(self, first: str = "") -> None:
        self._found: dict[Diagnostic, None] = {}
        self._first = first

    def add(self, diagnostic: Diagnostic) -> None:
        self._found[diagnostic] = None

    def extend_over(self, causes: Iterable[Diagnostic]) -> None:
        """Adds errors that tell why the names at their places aren't known, which is then said no more."""
        causes = list(causes)
        told = {d.span for d in causes if d.severity is Severity.ERROR}
        self._found = {d: None for d in self._found if d.span not in told or d.code != "0201"}
        self.extend(causes)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        for diagnostic in diagnostics:
            self.add(diagnostic)

    @property
    def sorted(self) -> tuple[Diagnostic, ...]:
        def place(found: Diagnostic) -> tuple[bool, str, int]:
            return (False, "", -1) if found.span is None else (found.span.path != self._first, found.span.path, found.span.start)

        return tuple(sorted(self._found, key=place))

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.sorted if d.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(d for d in self.sorted if d.severity is Severity.WARNING)

    def raise_errors(self, strict: bool = False) -> None:
        """Raise all collected errors at once, or return when there is none. Under `strict` warnings are errors too."""
        if strict and self.warnings:
            raise ZyntaxError(*(evolve(d, severity=Severity.ERROR) for d in self.sorted if d.severity is not Severity.NOTE))
        if self.errors:
            raise ZyntaxError(*self.errors)


def render(diagnostic: Diagnostic, sources: Sources) -> str:
    """The message as plain text: head, place, source lines with carets, notes, hint. Colour is the caller's business."""
    lines = [f"{diagnostic.severity.value}[{diagnostic.full_code}]: {diagnostic.message}"]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic, diagnostic.span, sources)
    lines += [f"note: {note}" for note in diagnostic.notes]
    if diagnostic.hint:
        lines.append(f"hint: {diagnostic.hint}")
    return "\n".join(lines)


def to_json(diagnostic: Diagnostic, sources: Sources) -> dict[str, Any]:
    """The message as plain data: places as path, offsets, and lines and columns from 1, in characters. `end_column` is behind the last
    character, on the line of that character; of a span that takes in a line's end it is behind the line."""

    def place(span: Span) -> dict[str, Any]:
        fields: dict[str, Any] = {"path": span.path, "start": span.start, "end": span.end}
        source = sources.get(span.path)
        if source is not None:
            fields["line"], fields["column"] = source.line_and_column(span.start)
            last_line, last_column = source.line_and_column(max(span.start, span.end - 1))
            fields["end_line"], fields["end_column"] = last_line, last_column + (span.end > span.start)
        return fields

    return {
        "code": diagnostic.full_code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "place": place(diagnostic.span) if diagnostic.span else None,
        "label": diagnostic.label,
        "others": [{"place": place(o.span), "text": o.text} for o in diagnostic.others],
        "notes": list(diagnostic.notes),
        "hint": diagnostic.hint,
    }


def _excerpt(diagnostic: Diagnostic, span: Span, sources: Sources) -> list[str]:
    source = sources.get(span.path)
    if source is None:
        return [f"  --> {span.path}"] if span.path else []
    labels = [Label(span, diagnostic.label), *(o for o in diagnostic.others if sources.get(o.span.path) is not None)]
    labels_here = [label for label in labels if label.span.path == span.path]
    elsewhere = [label for label in labels if label.span.path != span.path]
    rows = {source.line_and_column(label.span.start)[0] for label in labels_here}
    gutter = len(str(max(rows)))
    line, column = source.line_and_column(span.start)
    out = [f"{' ' * gutter}--> {span.path}:{line}:{column}", f"{' ' * gutter} |"]
    previous = None
    for row in sorted(rows):
        if previous is not None and row > previous + 1:
            out.append(f"{' ' * gutter}...")
        previous = row
        text = source.line(row)
        out.append(f"{row:>{gutter}} | {_printable(text)}")
        for label in sorted(
            (label for label in labels_here if source.line_and_column(label.span.start)[0] == row),
            key=lambda label: label.span.start,
        ):
            out.append(f"{' ' * gutter} | {_caret_line(source, text, label, primary=label is labels[0])}")
    for label in elsewhere:
        other = sources.get(label.span.path)
        assert other is not None
        row, column = other.line_and_column(label.span.start)
        out.append(f"{' ' * gutter}::: {label.span.path}:{row}:{column}: {label.text}")
    return out


def _caret_line(source: Source, text: str, label: Label, primary: bool) -> str:
    _, column = source.line_and_column(label.span.start)
    length = max(1, min(label.span.end - label.span.start, len(text) - column + 1))
    before = _printable(text[: column - 1])
    under = _printable(text[column - 1 : column - 1 + length])
    mark = ("^" if primary else "-") * max(1, _width(under))
    return (" " * _width(before) + mark + (" " + label.text if label.text else "")).rstrip()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ("    " if c == "\t" else "\N{REPLACEMENT CHARACTER}") for c in text)


def _width(text: str) -> int:
    """Columns a terminal gives to the text: wide East Asian characters take two, combining ones none."""
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
