"""From text to tree: reads a `.zynml` file, parses it, and turns the grammar layer's faults into diagnostics."""

import re
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.source import MAX_SOURCE_BYTES, Source, Span, display_path
from compiler.typed_ast import nodes
from grammars.faults import Fault
from grammars.loader import load
from grammars.machine import Machine
from grammars.words import ZYNML
from zynml.actions import ZynmlActions
from zynml.actions.base import Actions

_SUFFIXES = re.compile(r"Suffixes\s*\(\s*\"([\w, ]*)\"")


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
        raise refused(
            f"`{shown}` is too large: a program has at most {MAX_SOURCE_BYTES // (1024 * 1024)} MiB",
            "move its data to a file that it loads",
        )
    if b"\0" in data:
        raise refused(f"`{shown}` is a binary file, not a program")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refused(f"`{shown}` is not UTF-8: byte 0x{data[error.start]:02x} in line {line}", "save it as UTF-8") from None
    return Source(shown, text)


def parse_source(source: Source) -> nodes.Program:
    """The tree of a program; raises ZyntaxError with all its syntax errors."""
    if len(source.text) > MAX_SOURCE_BYTES:
        message = f"`{source.path}` is too large: a program has at most {MAX_SOURCE_BYTES // (1024 * 1024)} MiB"
        raise ZyntaxError(Diagnostic("0108", message, Span(source.path, 0, 0), hint="move its data to a file that it loads"))
    program = _parse(source, "program")
    assert isinstance(program, nodes.Program)
    return program


def parse_expression(text: str, path: str = "<expression>") -> nodes.Expression:
    """The tree of a single expression."""
    expression = _parse(Source(path, text), "expression_only")
    assert isinstance(expression, nodes.Expression)
    return expression


def _parse(source: Source, start: str) -> Any:
    units = frozenset(unit.strip() for found in _SUFFIXES.findall(source.text) for unit in found.split(","))
    value, faults = parse_text(source.text, ZynmlActions(source.path, source.text, units=units), start)
    if faults:
        ordered = sorted(faults, key=lambda fault: (fault.start, fault.code))
        raise ZyntaxError(*(_diagnostic(fault, source.path) for fault in ordered))
    return value


def parse_text(text: str, actions: Actions, start: str) -> tuple[Any, list[Fault]]:
    """The value that the actions build from a text, and all faults in it; the value is only whole when there are none."""
    machine = Machine(load("zynml"), ZYNML, actions, text, start)
    value = machine.run()
    return value, [*machine.faults, *actions.faults]


def _diagnostic(fault: Fault, path: str) -> Diagnostic:
    others = tuple(Label(Span(path, start, end), text) for start, end, text in fault.others)
    return Diagnostic(fault.code, fault.message, Span(path, fault.start, fault.end), fault.label, others, hint=fault.hint)
