"""What the pages of this folder compare: all messages for a program, as a user reads them."""

import contextlib
import io

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from compiler.syntax.comments import comment_warnings
from quantdsl.check.program import check_program
from quantdsl.critical.whole import examine_all
from quantdsl.parse import parse_source
from zynml.api import open_source


def diagnose(text: str, run: bool = False, sanitize: bool = False, language: str = "zynml") -> str:
    """The messages for a program, parsed and checked, kernels included; by position, with an empty line between two; empty when there are
    none. With `run` one in ZynML is run on the CPU when it checks, as by `zyntax run`, and warnings are left out; with `sanitize` as by
    `zyntax run --sanitize`."""
    if language == "quantdsl":
        return _of_quantdsl(text)
    run = run or sanitize
    source = Source("program.zynml", text)
    sources = Sources(source)
    try:
        session = open_source(source, CompileOptions(threads=2, sanitize=sanitize), sources, lambda warning: None)
        found = () if run else session.checked.diagnostics.sorted
        if run:
            with contextlib.redirect_stdout(io.StringIO()):
                session.run()
    except ZyntaxError as error:
        found = error.diagnostics
    return "\n\n".join(render(diagnostic, sources) for diagnostic in found)


def _of_quantdsl(text: str) -> str:
    source = Source("program.qdsl", text)
    try:
        checked = check_program(parse_source(source))
        checked.diagnostics.extend(comment_warnings(source))
        if not checked.diagnostics.errors:
            checked.diagnostics.extend(examine_all(checked, source, Sources(source)).sorted)
        found = checked.diagnostics.sorted
    except ZyntaxError as error:
        found = error.diagnostics
    return "\n\n".join(render(diagnostic, Sources(source)) for diagnostic in found)
