"""Which frontend a file belongs to, by its ending."""

from pathlib import Path
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ZyntaxError

if TYPE_CHECKING:
    from compiler.driver import DriverOptions, Session
    from compiler.typed_ast.nodes import Program
    from zyntax.report import Reporter

ENDINGS = {".zynml": "zynml", ".ml": "zynml"}


def open_session(path: str, options: "DriverOptions", reporter: "Reporter") -> "Session":
    """Reads and parses the file with the frontend of its ending. Raises ZyntaxError."""
    _require_language(path)
    from zynml.api import open_program

    options.doing("reading")
    return open_program(path, options, reporter.sources, warn=lambda diagnostic: reporter.show([diagnostic]))


def read_program(path: str, reporter: "Reporter") -> "Program":
    """The file's tree, which needs the parser and nothing else. Raises ZyntaxError with all syntax errors."""
    _require_language(path)
    from compiler.syntax.parse import read_source
    from zynml.parse import parse_source

    return parse_source(reporter.sources.add(read_source(path)))


def read_text(path: str) -> str:
    """The file's text. Raises ZyntaxError."""
    _require_language(path)
    from compiler.syntax.parse import read_source

    return read_source(path).text


def _require_language(path: str) -> None:
    ending = Path(path).suffix
    if ending == ".qdsl":
        raise ZyntaxError(
            Diagnostic("0109", f"`{path}` is a QuantDSL program, which this version doesn't run", hint="ZynML programs (`.zynml`) work")
        )
    if ending not in ENDINGS:
        known = ", ".join(f"`{e}`" for e in ENDINGS)
        what = f"no language has the ending `{ending}`" if ending else "the name of a program's file ends in its language"
        raise ZyntaxError(Diagnostic("0108", f"`{path}`: {what}", hint=f"endings known: {known}"))
