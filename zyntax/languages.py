"""Which frontend a file belongs to, by its ending."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.diagnostics import Diagnostic, ZyntaxError

if TYPE_CHECKING:
    from compiler.driver import DriverOptions, Session

ENDINGS = {".zynml": "zynml", ".ml": "zynml"}


def open_session(path: str, options: "DriverOptions", reporter: Any) -> "Session":
    """Reads and parses the file with the frontend of its ending. Raises ZyntaxError."""
    ending = Path(path).suffix
    if ending == ".qdsl":
        raise ZyntaxError(
            Diagnostic("0109", f"`{path}` is a QuantDSL program, which this version doesn't run", hint="ZynML programs (`.zynml`) work")
        )
    if ending not in ENDINGS:
        known = ", ".join(f"`{e}`" for e in ENDINGS)
        raise ZyntaxError(
            Diagnostic("0108", f"`{path}`: no language has the ending `{ending}`", hint=f"endings known: {known}")
        )
    from zynml.api import open_program

    return open_program(path, options, reporter.sources, warn=lambda diagnostic: reporter.show([diagnostic]))
