"""Which functions of a program are native, and why the others aren't, in words."""

from collections.abc import Callable

from compiler.backends.host.critical_paths import critical_notes
from compiler.backends.host.native_code import lowered
from compiler.backends.host.native_functions import called_by_python
from compiler.diagnostics import with_modules
from compiler.source import Sources, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.hot_loops import with_hot_loops
from compiler.typed_ast.native_calls import has_native_code


def native_explained(checker: Checker, program: nodes.Program, sources: Sources) -> str:
    """A line for each function, in the order of the text, and one for each reason below it. `program` is typed, without errors."""
    found = effects(checker, program, has_native_code)
    if not found.functions:
        return "the program has no functions\n"
    lowered(checker, found, [own.name for own in found.static])
    width = max(map(len, found.functions))
    wanted = called_by_python(checker, found, list(found.functions), False)
    reached = _reached(wanted, found.functions)
    notes = critical_notes(checker, program, sources)
    lines: list[str] = []
    for name, own in found.functions.items():
        if not own.is_static:
            lines.append(f"{name:<{width}}  runs on Python:")
            lines += [f"{'':<{width}}    {reason.words} ({_place(reason.span, sources)})" for reason in own.reasons]
        elif name in wanted:
            lines.append(f"{name:<{width}}  native{f', {notes[name]}' if name in notes else ''}")
        elif name in reached:
            lines.append(f"{name:<{width}}  native where native functions call it; it has no loop, so Python runs it itself")
        else:
            lines.append(f"{name:<{width}}  could be native, but {_spared(own)}")
    return with_modules("\n".join(lines) + "\n")


def loops_explained(checker_of: Callable[[nodes.Program], Checker], program: nodes.Program, sources: Sources) -> str:
    """A line for each loop outside of native functions that goes on natively when it is hot, in the order of the text."""
    program, loops = with_hot_loops(program)
    if not loops:
        return ""
    checker = checker_of(program)
    found = effects(checker, program, has_native_code)
    names = [hot.function.name for hot in loops.values()]
    native = [own.function.span for own in found.static if own.name not in names]
    wanted = {name: found.functions[name].function.span for name in called_by_python(checker, found, names, True)}
    outside = [span for span in wanted.values() if not any(_holds(each, span) for each in native)]
    return "".join(f"the loop at {_place(span, sources)} goes on natively when it runs for long\n" for span in _in_order(outside))


def _holds(outer: Span, inner: Span) -> bool:
    return outer.path == inner.path and outer.start <= inner.start and inner.end <= outer.end


def _in_order(spans: list[Span]) -> list[Span]:
    return sorted(spans, key=lambda span: (span.path, span.start))


def _spared(own: FunctionEffects) -> str:
    return "Python can't hand over arrays inside of other values" if own.loops else "has no loop, and a call costs more than it does"


def _reached(wanted: list[str], functions: dict[str, FunctionEffects]) -> set[str]:
    """What these functions call, by however many steps."""
    reached: set[str] = set()
    waiting = list(wanted)
    while waiting:
        more = functions[waiting.pop()].calls.keys() - reached
        reached |= more
        waiting += more
    return reached


def _place(span: Span, sources: Sources) -> str:
    source = sources.get(span.path)
    if source is None:
        return span.path
    line, column = source.line_and_column(span.start)
    return f"{span.path}:{line}:{column}"
