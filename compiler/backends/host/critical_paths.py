"""Functions that promise something of their code (`@critical_path`, `@target_latency`, `@vectorizable`), and what is known of a native
function before it runs. Promises of what it calls are proved over the program's calls, all others over its HIR."""

from collections.abc import Collection, Iterator, Mapping

from compiler.analysis.code_promises import Act, ActKind, CallSite, CodeUnit, Key, prove
from compiler.analysis.ranges import Ranges
from compiler.backends.native.explained import report_on
from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.hir.control import For, While
from compiler.hir.module import HirFunction, HirModule, OptimizationLevel
from compiler.lowering.native.host_functions import NativeProgram, native_program
from compiler.passes.examine import GIGAHERTZ, Examined, examine
from compiler.source import Source, Sources, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_annotations import CRITICAL, LATENCIES
from compiler.typed_ast.function_effects import ALLOCATES, SYSTEM, FunctionEffects, ProgramEffects
from compiler.typed_ast.native_calls import has_native_code
from compiler.typed_ast.specialise import SIGN
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.walk import walk

_KINDS = {ALLOCATES: ActKind.ALLOCATION, SYSTEM: ActKind.SYSTEM}
_HINTS = {
    ActKind.ALLOCATION: "`[T; N]` lies in place, and a tensor to write to may be a `mut` parameter",
    ActKind.SYSTEM: "call it elsewhere, and keep its result",
    ActKind.INTERPRETED: "`zyntax explain` lists all that keeps functions from being native",
}
_BOUND = "let the range end at a constant or `min(n, 64)`, or go over an array `[T; N]` or a tensor whose extent is a number"
_COUNTED = "write a `for` over a range with a constant end, and leave it by `break`"


def broken_promises(checker: Checker, program: nodes.Program, sources: Sources, promised: Collection[str]) -> Iterator[Diagnostic]:
    """What is wrong with functions of which only their code tells whether they keep their promises. `program` is typed, without errors,
    and has the annotations `promised`."""
    found = effects(checker, program, has_native_code)
    module, codes, declared = _with_calls(checker, found)
    copied = _copied(program, found)
    if CRITICAL in promised:
        yield from prove({key: code for key, code in codes.items() if key[1] not in copied})
    yield from (_unmeasured(own) for name, own in found.functions.items() if not own.is_static and name not in copied and _is_timed(own))
    examination = examine(declared, module, sources, OptimizationLevel.O3)
    yield from examination.diagnostics.sorted


def critical_notes(checker: Checker, program: nodes.Program, sources: Sources) -> Mapping[str, str]:
    """Of each function on a critical path what is proved of it, in words. The promises hold."""
    found = effects(checker, program, has_native_code)
    if not any(_asks(own, (CRITICAL,)) for own in found.functions.values()):
        return {}
    module, _, declared = _with_calls(checker, found)
    examination = examine(declared, module, sources, OptimizationLevel.O3)
    return {
        examined.code.key[1]: _proved(examined)
        for examined in examination.functions.values()
        if examined.code is not None and examined.code.annotation(CRITICAL) is not None
    }


def _proved(examined: Examined) -> str:
    assert examined.cost is not None and examined.nanoseconds is not None
    time = f"{examined.cost.instructions:,} instructions, {examined.cost.cycles:,.0f} cycles, {examined.nanoseconds:,.0f} ns"
    return f"a critical path: no allocation, no call of the system, no recursion; at most {time} at {GIGAHERTZ:g} GHz"


def function_explained(
    checker: Checker, program: nodes.Program, source: Source, sources: Sources, name: str, level: OptimizationLevel
) -> str:
    """What is known of a native function before it runs, and the code that it becomes. Raises ZyntaxError where there is none."""
    found = effects(checker, program, has_native_code)
    if name not in found.functions:
        hint = did_you_mean(name, found.functions) or "`zyntax explain` of the program lists its functions"
        raise ZyntaxError(Diagnostic("0201", f"`{source.path}` has no function `{name}`", hint=hint))
    module, _, declared = _with_calls(checker, found)
    own = found.functions[name]
    if not own.is_static:
        first = own.reasons[0]
        hint = "`zyntax explain` of the program lists all reasons"
        raise ZyntaxError(Diagnostic("0420", f"`{name}` isn't native: {first.words}", first.span, hint=hint))
    examination = examine(declared, module, sources, level)
    reported = [examined for examined in examination.functions.values() if examined.code is not None and examined.code.key == ("", name)]
    return report_on(reported, examination, module, sources, level)


def _is_timed(own: FunctionEffects) -> bool:
    """Whether it has a target, and no promise that says more."""
    return _asks(own, LATENCIES) and not _asks(own, (CRITICAL,))


def _unmeasured(own: FunctionEffects) -> Diagnostic:
    annotation = next(annotation for annotation in own.function.annotations if annotation.name in LATENCIES)
    first, others = own.reasons[0], (Label(annotation.span, "asked for here"),)
    message = f"nothing is known of the time that `{own.name}` takes, which isn't native: {first.words}"
    return Diagnostic("0420", message, first.span, "", others, hint=_HINTS[ActKind.INTERPRETED])


def _copied(program: nodes.Program, found: ProgramEffects) -> frozenset[str]:
    """Functions of which copies are called only: for the types, or the functions, that they are called with."""
    originals = {name.partition("<")[0].partition(SIGN)[0] for name in found.functions if "<" in name or SIGN in name}
    calls = [node for node in walk(program) if isinstance(node, nodes.Call)] if originals else []
    heads = {id(call.function) for call in calls}
    values = {node.name for node in walk(program) if isinstance(node, nodes.Name) and id(node) not in heads}
    return frozenset(originals - values - {call.callee for call in calls})


def _asks(own: FunctionEffects, names: Collection[str]) -> bool:
    return any(annotation.name in names for annotation in own.function.annotations)


def _with_calls(checker: Checker, found: ProgramEffects) -> tuple[HirModule, dict[Key, CodeUnit], dict[str, CodeUnit]]:
    """The program's native functions in HIR, with all their checks; its calls; and the declarations by names in HIR."""
    lowered = native_program(checker, found, [own.name for own in found.static])
    codes = _call_graph(found, lowered)
    return lowered.module, codes, {symbol: codes["", name] for name, symbol in lowered.symbols.items()}


def _call_graph(found: ProgramEffects, lowered: NativeProgram) -> dict[Key, CodeUnit]:
    codes: dict[Key, CodeUnit] = {}
    for name, own in found.functions.items():
        symbol = lowered.symbols.get(name)
        code = CodeUnit(("", name), f"`{name}`", own.function, own.function.name_span)
        code.calls = [CallSite(("", callee), span) for callee, span in own.calls.items()]
        code.acts = [*_acts(own), *(_unbounded(own.function, lowered.module.functions[symbol]) if symbol is not None else ())]
        codes[code.key] = code
    return codes


def _acts(own: FunctionEffects) -> Iterator[Act]:
    """What a function does by itself that native code doesn't, or that makes something on a heap."""
    called = set(own.calls.values())
    reasons = [reason for reason in own.reasons if reason.span not in called]
    for reason in [reason for reason in reasons if reason.effect in _KINDS] or reasons[:1]:
        kind = _KINDS.get(reason.effect, ActKind.INTERPRETED)
        words = reason.words.removeprefix("it ") if reason.words.startswith("it ") else f"has no native code: {reason.words}"
        yield Act(kind, words.partition(", which has no native")[0], reason.span, _HINTS[kind])
    if own.makes is not None and own.makes not in called:
        yield Act(ActKind.ALLOCATION, "makes a tensor on the heap", own.makes, _HINTS[ActKind.ALLOCATION])


def _unbounded(declared: nodes.Function, function: HirFunction) -> Iterator[Act]:
    """The loops of which nothing says how often they run."""
    ranges, heads = Ranges(function), _heads(declared)
    for op in (op for top in function.body.body for op in top.walk()):
        span = heads.get(op.span, op.span) if op.span is not None else function.span
        if isinstance(op, For) and ranges.turns(op) is None and span is not None:
            yield Act(ActKind.UNBOUNDED, "has a `for` without a constant bound", span, _BOUND)
        elif isinstance(op, While) and ranges.rounds(op) is None and span is not None:
            yield Act(ActKind.UNBOUNDED, "has a `while`, of which nothing says how often it runs", span, _COUNTED)


def _heads(declared: nodes.Function) -> dict[Span, Span]:
    """What each loop goes over, or the condition that it has, by where the loop stands."""
    heads: dict[Span, Span] = {}
    for node in walk(declared):
        if isinstance(node, nodes.For):
            heads[node.span] = Span(node.span.path, node.clauses[0].source.span.start, node.clauses[-1].source.span.end)
        elif isinstance(node, nodes.While):
            heads[node.span] = node.condition.span
    return heads
