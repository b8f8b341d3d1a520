"""ZynML from Python: open and run programs, or take a program's functions and blocks as callables on NumPy arrays."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic
from compiler.driver import CompileOptions, Session
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from zynml.parse import parse_source
from zynml.session_language import language_of_session


def open_program(path: str, options: CompileOptions, sources: Sources, warn: Callable[[Diagnostic], None]) -> Session:
    """A program file as a session. Raises ZyntaxError with all syntax errors."""
    source = sources.add(read_source(path))
    return open_source(source, options, sources, warn)


def open_source(source: Source, options: CompileOptions, sources: Sources, warn: Callable[[Diagnostic], None]) -> Session:
    """A program text as a session."""
    return Session(source, parse_source(source), language_of_session(source, options), sources, options, warn)
