"""Programs for the tests of tier 0: run from text, with and without the checker's types, which must make no difference."""

import io
from collections.abc import Callable
from typing import Any

from attrs import define, field

from compiler.backends.host.loaded import HostProgram
from compiler.backends.host.program import compile_program
from compiler.backends.host.values import Bounds
from compiler.diagnostics import ZyntaxError, render
from compiler.source import Source, Sources, Span
from compiler.typed_ast.check import check
from zynml.parse import parse_source
from zynml.stdlib import StdlibSettings, library


@define
class Recorder:
    """A runtime that records what the program asks for."""

    asked: list[Any] = field(factory=list)
    modules: dict[tuple[str, ...], HostProgram] = field(factory=dict)
    parameters: dict[str, Any] = field(factory=dict)
    functions: dict[str, Callable[..., Any]] = field(factory=dict)
    result: Any = None

    def compute(self, site: int, values: dict[str, Any]) -> Any:
        self.asked.append(("compute", site, values))
        return self.result

    compute_later = compute_chain = compute

    def coming_back(self, name: str, function: Callable[..., Any], changes: Callable[[], int]) -> Callable[..., Any]:
        return function

    def settled(self, value: Any) -> Any:
        return value

    def render(self, value: Any, form: str, options: dict[str, Any], span: Span) -> None:
        self.asked.append(("render", value, form, options))

    def parameter(self, name: str, default: Any, bounds: Bounds | None, span: Span) -> Any:
        self.asked.append(("parameter", name, default, bounds))
        return self.parameters.get(name, default)

    def configure(self, entries: dict[str, Any], span: Span) -> None:
        self.asked.append(("config", entries))

    def settle(self, program_ends: bool) -> None:
        pass

    def module(self, path: tuple[str, ...], span: Span) -> HostProgram | None:
        return self.modules.get(path)


def build(text: str, runtime: Recorder | None = None, typed: bool = True, output: io.StringIO | None = None) -> HostProgram:
    source = Source("program.zynml", text)
    used = library(StdlibSettings(output=output or io.StringIO()))
    program = parse_source(source)
    if typed:
        checked = check(program, used)
        checked.diagnostics.raise_errors()
        program = checked.program
    return compile_program(program, used, runtime or Recorder(), source)


def output(text: str, typed: bool = True, runtime: Recorder | None = None) -> str:
    written = io.StringIO()
    build(text, runtime, typed, written).run()
    return written.getvalue()


def lines(text: str) -> list[str]:
    """What a program prints, by lines; the same with the checker's types and without."""
    with_types, without = output(text), output(text, typed=False)
    assert with_types == without
    return with_types.splitlines()


def message(text: str, typed: bool = True) -> str:
    """The message with which a program stops."""
    source = Source("program.zynml", text)
    try:
        output(text, typed)
    except ZyntaxError as error:
        return "\n".join(render(d, Sources(source)) for d in error.diagnostics)
    raise AssertionError("the program ran to its end")
