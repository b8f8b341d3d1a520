"""The calls of a program, read from its checked tree: which function, signal or handler calls which, and what each does by itself that a
critical path must not."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from compiler.analysis.code_promises import Act, ActKind, CallSite, CodeUnit, Key
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import is_method
from compiler.typed_ast.types import ListType, StringType, TensorType
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl.check import heap
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.check.world import Callee
from quantdsl.critical.bounds import unbounded_loops

_EFFECTS = {
    "alloc": (ActKind.ALLOCATION, "allocates"),
    "io": (ActKind.SYSTEM, "calls the system"),
    "order": (ActKind.ORDER, "sends orders"),
    "cancel": (ActKind.ORDER, "changes orders"),
    "memory": (ActKind.STATE, "remembers"),
    "book": (ActKind.MARKET, "reads the market"),
}
_RECORDS = {"log_ring": "keeps a record", "count": "counts in a state"}
"""Functions that write the engine's memory, which no annotation but `@gpu_compute` forbids."""
_BEFORE = "give it what it needs as arguments, and act on its result"


def call_graph(checked: CheckedQuantProgram) -> dict[Key, CodeUnit]:
    """All that the program declares, and what it uses of the library."""
    codes: dict[Key, CodeUnit] = {}

    def declare(strategy: str, name: str, declaration: nodes.Function | quant.Signal | quant.Handler) -> None:
        name_span = declaration.event_span if isinstance(declaration, quant.Handler) else declaration.name_span
        codes[strategy, name] = CodeUnit((strategy, name), f"`{name.partition('#')[0]}`", declaration, name_span)

    def named(declared: tuple[nodes.Declaration]) -> Mapping[str, Callee]:
        """Functions by the one name that calls of them have in the tree: that of a method has its type."""
        found = checked.world.declared.by_name(declared)
        return {name: one for name, one in found.items() if "::" in name or not is_method(one)}

    for name, declaration in checked.library.items():
        declare("", f"std.{name}", declaration)
    strategies: list[quant.Strategy] = []
    for statement in checked.program.statements:
        match statement:
            case nodes.Function() | quant.Signal() | nodes.Impl():
                for name, declaration in named((statement,)).items():
                    if declaration.body is not None:
                        declare("", name, declaration)
            case quant.Strategy(name=strategy):
                strategies.append(statement)
                for number, inner in enumerate(statement.body.statements):
                    match inner:
                        case nodes.Function():
                            for name, declaration in named((inner,)).items():
                                declare(strategy, name, declaration)
                        case quant.Handler(event=event):
                            declare(strategy, f"on {event}#{number}", inner)
    externs = {name: f for name, f in checked.world.declared.functions.items() if isinstance(f, nodes.Function) and f.is_extern}
    constants = _constants(checked.program.statements)
    for (strategy, _), code in codes.items():
        own = next((s.body.statements for s in strategies if s.name == strategy), ())
        hidden = {s.name for s in own if isinstance(s, quant.State)}
        known = {name: natural for name, natural in constants.items() if name not in hidden} | _constants(own)
        _read(code, partial(_target, codes, frozenset(checked.library), strategy), externs, known)
        _note_changes(code, codes, checked.changes)
    return codes


def _constants(statements: tuple[nodes.Statement, ...]) -> dict[str, bool]:
    """Names of constants and parameters, and whether they are surely not negative."""
    literal: dict[str, bool] = {}
    for statement in statements:
        match statement:
            case nodes.Constant(name=name, value=value):
                literal[name] = isinstance(value, nodes.IntLiteral)
            case nodes.ProgramParameter(name=name, range=nodes.Range(low=low)):
                literal[name] = isinstance(low, nodes.IntLiteral)
            case nodes.ProgramParameter(name=name):
                literal[name] = False
            case _:
                pass
    return literal


def _target(codes: Mapping[Key, CodeUnit], library: frozenset[str], strategy: str, name: str) -> Key | None:
    """What a call of that name means there; None for what isn't written in the language."""
    inside = f"std.{name}" if name in library else name
    return next((key for key in ((strategy, name), ("", name), ("", inside)) if key in codes), None)


def _read(
    code: CodeUnit, target: Callable[[str], Key | None], externs: Mapping[str, nodes.Function], constants: Mapping[str, bool]
) -> None:
    """Fill in what a body calls and does."""
    body = code.declaration.body
    if body is None:
        return
    reported: set[int] = set()
    for node in _outside_compute(body):
        act = _act(node) if id(node) not in reported else None
        if act is not None:
            code.acts.append(act)
            reported.update(id(inner) for inner in walk(node))
        match node:
            case nodes.Call(callee=name) if (callee := target(name)) is not None:
                code.calls.append(CallSite(callee, node.span))
            case nodes.Call(callee=name) if name in externs:
                code.acts += _declared_effects(externs[name], node.span)
            case _:
                pass
    code.acts += [Act(ActKind.UNBOUNDED, words, span, hint) for words, span, hint in unbounded_loops(code.declaration, constants)]


def _note_changes(code: CodeUnit, codes: Mapping[Key, CodeUnit], changes: Mapping[Span, str]) -> None:
    """The states that a body changes: those of its strategy, and those of the signals that it calls."""
    body = code.declaration.body
    if body is None:
        return
    for node in walk(body):
        if isinstance(node, nodes.Assign | nodes.Call) and node.span in changes:
            code.acts.append(Act(ActKind.STATE, f"writes the state `{changes[node.span]}`", node.span, _BEFORE))
    for site in code.calls:
        if isinstance(codes[site.callee].declaration, quant.Signal):
            words = f"calls the signal `{site.callee[1].removeprefix('std.')}`, which remembers"
            code.acts.append(Act(ActKind.STATE, words, site.span, _BEFORE))


def _declared_effects(callee: nodes.Function, span: Span) -> Iterator[Act]:
    """What an `extern` function says of itself: the prelude's own, or one that the program declares."""
    if callee.name in _RECORDS and callee.span.path.startswith("<"):
        yield Act(ActKind.STATE, _RECORDS[callee.name], span, _BEFORE)
    for effect in callee.effects or ():
        if effect in _EFFECTS:
            kind, words = _EFFECTS[effect]
            if kind is ActKind.ORDER:
                yield Act(kind, words, span, "leave the checks in what risks money")
            elif kind in (ActKind.STATE, ActKind.MARKET):
                yield Act(kind, f"calls `{callee.name}`, which {words}", span, _BEFORE)
            else:
                hint = (
                    "`log_ring` keeps a record that is written out later"
                    if callee.name == "print"
                    else "call it elsewhere, and keep its result"
                )
                yield Act(kind, f"calls `{callee.name}`, which {words}", span, hint)


def _outside_compute(body: nodes.Node) -> Iterator[nodes.Node]:
    """All nodes but those inside of compute blocks, which have rules of their own."""
    inside: set[int] = set()
    for node in walk(body):
        if id(node) in inside:
            continue
        if isinstance(node, nodes.Compute):
            inside.update(id(inner) for inner in walk(node.body))
        yield node


def _act(node: nodes.Node) -> Act | None:
    """What an expression does that takes memory."""
    match node:
        case nodes.Compute():
            return Act(
                ActKind.ALLOCATION, "has a `compute` block, which takes memory", node.span, "compute in `on timer`, and keep the result"
            )
        case nodes.Comprehension() | nodes.DictLiteral():
            return Act(ActKind.ALLOCATION, "makes a list", node.span, _IN_PLACE)
        case nodes.Call(function=nodes.Field(name="push", value=nodes.Expression(type=ListType()))):
            return Act(ActKind.ALLOCATION, "lets a list grow", node.span, _IN_PLACE)
        case nodes.FString(parts=parts) if all(part.value is None for part in parts):
            return None
        case nodes.ListLiteral() | nodes.Binary() | nodes.FString():
            return _made(node)
        case nodes.Call(function=nodes.Name(name=name)) if heap.is_function(name):
            return _made(node)
        case _:
            return None


def _made(node: nodes.Expression) -> Act | None:
    """A value on the heap that an expression makes."""
    match node.type:
        case ListType():
            return Act(ActKind.ALLOCATION, "makes a list", node.span, _IN_PLACE)
        case TensorType():
            return Act(ActKind.ALLOCATION, "makes a tensor", node.span, _IN_PLACE)
        case StringType():
            return Act(ActKind.ALLOCATION, "makes a text", node.span, _TEXTS)
    return None


_IN_PLACE = "`[T; N]`, `ring<T, N>` and `table<K, V, N>` lie in place"
_TEXTS = "keep the numbers: `log_ring` takes them as they are"
