"""Programs whose functions run both ways: on Python, and natively."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import zynml
from compiler.backends.host.native_functions import NativeFunctions, native_functions
from compiler.backends.host.stopped_natively import StoppedNatively
from compiler.options import CompileOptions
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.check import checker_of
from zynml.api import open_source
from zynml.compiled import CompiledProgram


def opened(text: str, native: str = "paying") -> CompiledProgram:
    """The program, whose static functions Python calls natively: "all", "none", or those where it is "paying"."""
    source = Source("<program>", text)
    return CompiledProgram.of(open_source(source, CompileOptions(native=native), Sources(source), lambda warning: None))


def native_of(program: CompiledProgram) -> NativeFunctions | None:
    return program._session.host.native


def outcome(program: CompiledProgram, name: str, arguments: tuple[Any, ...]) -> tuple[str, str]:
    """The class and the text of what a call gives, or the whole message of what went wrong."""
    try:
        value = program.functions[name](*arguments)
    except zynml.ZynMLError as error:
        return "error", str(error)
    return type(value).__name__, "nan" if isinstance(value, float | np.floating) and value != value else repr(value)


class Natively:
    """The static functions of a text by themselves, without those on Python."""

    def __init__(self, text: str) -> None:
        source = Source("<program>", text)
        session = open_source(source, CompileOptions(), Sources(source), lambda warning: None)
        program = session.check()
        self.functions: dict[str, Any] = {f.name: _missing(f.name) for f in program.statements if isinstance(f, nodes.Function)}
        checker = checker_of(program, session.language.library)
        self.found = native_functions(checker, program, None, self.functions, {name: name for name in self.functions}, True)

    @property
    def reasons(self) -> Mapping[str, list[str]]:
        if self.found is None:
            return {}
        return {name: [reason.words for reason in own.reasons] for name, own in self.found.found.functions.items()}

    def __call__(self, name: str, *arguments: Any) -> Any:
        try:
            return self.functions[name](*arguments)
        except StoppedNatively as stopped:
            return stopped.diagnostic


def _missing(name: str) -> Any:
    def on_python(*arguments: Any) -> Any:
        raise AssertionError(f"`{name}` is called on Python with {arguments}")

    return on_python
