"""What the pages of this folder compare: all messages for a program, as a user reads them."""

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import DriverOptions
from compiler.source import Source, Sources
from zynml.api import open_source


def diagnose(text: str) -> str:
    """The messages for a ZynML program, parsed and checked, kernels included; by position, with an empty line between two; empty
    when there are none."""
    source = Source("program.zynml", text)
    sources = Sources(source)
    try:
        found = open_source(source, DriverOptions(), sources, lambda warning: None).checked.diagnostics.sorted
    except ZyntaxError as error:
        found = error.diagnostics
    return "\n\n".join(render(diagnostic, sources) for diagnostic in found)
