"""The door of tier 0: a typed program to a `HostProgram` that runs. The program becomes one Python module whose code object has
the source's file name and lines, so tracebacks, debuggers and profilers speak the program's language."""

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from compiler.backends.host.arguments import Taker, taken_as
from compiler.backends.host.continued import Continued, leave_out
from compiler.backends.host.emit import place_all
from compiler.backends.host.faults import raise_translated
from compiler.backends.host.generate import Generator
from compiler.backends.host.hot_loops import LoopFunctions
from compiler.backends.host.kept import portable
from compiler.backends.host.loaded import HostProgram, MainFunction
from compiler.backends.host.namespace import namespace_of
from compiler.backends.host.naming import MARK
from compiler.backends.host.native_functions import native_functions
from compiler.backends.host.overloaded_values import overloads_of, with_overloads
from compiler.backends.host.positions import Positions
from compiler.backends.host.runtime import HostRuntime
from compiler.backends.host.straight_functions import SEVERAL, let_come_back, straight_functions
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import NOWHERE, Source
from compiler.typed_ast import nodes
from compiler.typed_ast.arguments import ArgumentSlot, Callee, match_arguments
from compiler.typed_ast.check import ZYNML, checker_of
from compiler.typed_ast.generics import without_generics
from compiler.typed_ast.hot_loops import HotLoop, with_hot_loops
from compiler.typed_ast.inline import inlined
from compiler.typed_ast.library import Library
from compiler.typed_ast.meaning import Meaning
from compiler.typed_ast.program_functions import functions_of
from compiler.typed_ast.scope import name_place
from compiler.typed_ast.specialise import specialised
from compiler.typed_ast.types import FunctionType, Type
from runtime.lazy_numpy import np


def compile_program(
    program: nodes.Program,
    library: Library,
    runtime: HostRuntime,
    source: Source | None = None,
    others: tuple[Source, ...] = (),
    native: str = "paying",
    meaning: Meaning = ZYNML,
    of_library: bool = False,
    alone: bool = True,
    continues: Continued | None = None,
    keeps: bool = False,
) -> HostProgram:
    """Generates and loads the code of a program of a language that means `meaning`; `others` are files of which it took declarations;
    `native` says which static functions Python calls natively: those where that is "paying", "all", or "none"; `of_library`: the text is
    the library's; `alone`: no other file reads the variables of its top; `continues`: its first lines have run
    already; `keeps`: other processes are to have the code. Raises ZyntaxError for what tier 0 does not run."""
    program = without_generics(program)
    positions = Positions(program.path, source, others, of_library)
    if native != "none" and nodes.Try not in meaning.refuses:
        program = specialised(program, partial(checker_of, library=library, meaning=meaning))
    hot_loops: dict[int, HotLoop] = {}
    if native != "none" and nodes.Try not in meaning.refuses and alone and not of_library:
        program, hot_loops = with_hot_loops(program)
    checker = checker_of(program, library, meaning=meaning)
    generator = Generator(inlined(program, checker), library, positions, runtime, alone, hot_loops, native == "all")
    module = generator.module()
    place_all(module)
    if continues is not None:
        leave_out(module, continues.lines)
    code = _compiled(module, program, positions)
    namespace = namespace_of(positions, library, generator.layouts, runtime, generator.runs_beside) | generator.constants
    with_overloads(namespace, overloads_of(generator.methods, generator.resolve), generator.layouts)
    if continues is not None:
        namespace = continues.namespace(namespace)
    sites, names = generator.compute_sites, generator.exports()
    host = HostProgram(program.path, sites, names, namespace, positions, generator.layouts, code=code, settle=runtime.settle)
    exec(code, namespace)
    convert = namespace[f"{MARK}convert"]
    straight = straight_functions(module, generator.constants, sites)
    if native != "none":
        declared = generator.native_names()
        loops = {hot.function.name: declared.pop(hot.function.name) for hot in hot_loops.values()}
        host.loops = LoopFunctions(checker, program, source, namespace)
        host.loops.wait_for(generator.heats, loops)
        host.native = native_functions(checker, program, source, namespace, declared, native == "all")
    host.straight = [name for name, blocks in straight.items() if blocks >= SEVERAL]
    let_come_back(host.straight, namespace, runtime)
    written = functions_of(program)
    elsewhere = {other.path for other in others}
    for function in generator.functions:
        if MARK in function.name or (meaning.settings.untyped_parameters and function.node.span.path in elsewhere):
            continue  # of a call, or of another file, and of nobody else
        if function.name == "main":
            host.main = MainFunction(names["main"], function.node.is_async, _needed_parameter(function.node))
        parameters = generator.parameter_types(function.node)
        host.types[function.name] = FunctionType(tuple(parameters.values()), generator.resolve(function.node.result))
        taken = {p.name: taken_as(p, parameters[p.name], function.name, generator.layouts, convert) for p in function.node.parameters}
        host.functions[function.name] = _entry(host, function.python, parameters, taken, function.node)
        host.declarations[function.name] = written.get(function.name, function.node)
    for name, python in generator.tests:
        host.tests[name] = _entry(host, python, {}, {})
    if keeps:
        host.portable = portable(host, generator)
    return host


def _compiled(module: ast.Module, program: nodes.Program, positions: Positions) -> Any:
    try:
        return compile(module, program.path or "<program>", "exec", dont_inherit=True)
    except SyntaxError as error:
        span = positions.span(error.lineno, error.end_lineno, error.offset, error.end_offset)
        if "nested blocks" in str(error):
            raise ZyntaxError(
                Diagnostic("0108", "more than 20 loops stand inside each other", span, hint="move the inner loops into a function")
            ) from None
        raise ZyntaxError(Diagnostic("0901", f"a fault of the compiler itself: {error.msg}", span)) from None
    except RecursionError:
        raise ZyntaxError(Diagnostic("0108", "the program is nested too deep", None, hint="move inner parts into functions")) from None


def _needed_parameter(main: nodes.Function) -> Diagnostic | None:
    """What is wrong with a `main` that can't be called without arguments."""
    needed = next((p for p in main.parameters if p.default is None), None)
    if needed is None:
        return None
    text = f"`main` is called without arguments, but needs `{needed.name}`"
    return Diagnostic("0204", text, needed.span, hint=f"declare `param {needed.name}` at the top level instead")


def _entry(
    host: HostProgram, python: str, types: Mapping[str, Type], by_name: Mapping[str, Taker], function: nodes.Function | None = None
) -> Callable[..., Any]:
    """A function of the program for callers in Python, whose numbers count as unsuffixed literals. `by_name`: what makes values those of
    its parameters."""
    order = list(types)
    names = {p.name for p in function.parameters} if function is not None else set()
    required = {p.name for p in function.parameters if p.default is None} if function is not None else set()
    kinds = tuple(types.values())
    weak = tuple((position, by_name[name]) for position, name in enumerate(order))
    program = host.namespace

    def run(values: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        if not host._started:
            host.start()
        if weak:
            given = [*values]
            for position, taken in weak:
                if position < len(given):
                    given[position] = taken(given[position])
            values = tuple(given)
        if named:
            value = program[python](*values, **{name: by_name[name](v) if name in by_name else v for name, v in named.items()})
        else:
            value = program[python](*values)
        host.settle(False)
        return value

    run_silently: Callable[..., Any] | None = None

    def call(*values: Any, **named: Any) -> Any:
        nonlocal run_silently
        if named or len(values) != len(kinds):
            given_names = {*order[: len(values)], *named}
            if function is not None and (not required <= given_names <= names or len(values) + len(named) != len(given_names)):
                raise ZyntaxError(_wrong_arguments(function, len(values), tuple(named)))
        if run_silently is None:
            run_silently = np.errstate(all="ignore")(run)
        try:
            return run_silently(values, named)
        except (Exception, KeyboardInterrupt) as error:
            raise_translated(error)

    call.__name__ = call.__qualname__ = python
    return call


def _wrong_arguments(function: nodes.Function, positional: int, named: tuple[str, ...]) -> Diagnostic:
    """What is wrong with a call from Python, in the words of calls in a program."""
    value = nodes.Name(name="value", span=NOWHERE)
    arguments = [nodes.Argument(value=value, span=NOWHERE)] * positional
    arguments += [nodes.Argument(value=value, name=name, span=NOWHERE) for name in named]
    slots = [ArgumentSlot(p.name, p.default is None) for p in function.parameters]
    call = nodes.Call(function=value, arguments=tuple(arguments), span=NOWHERE)
    fault = match_arguments(slots, call, Callee(function.name, str))
    assert isinstance(fault, Diagnostic)
    return Diagnostic("0204", fault.message, name_place(function), "declared here", hint=fault.hint)
