"""Loops: what they go over, the variables of their clauses, and their bodies, which see what earlier rounds assigned."""

from collections.abc import Sequence

from compiler.source import Span
from compiler.typed_ast import nodes, turns
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.requirements import report_optional
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import (
    ERROR,
    I64,
    RANGE,
    UNIT,
    UNKNOWN,
    ArrayType,
    DictType,
    ListType,
    OptionType,
    Scalar,
    TensorType,
    TupleType,
    Type,
)
from compiler.typed_ast.walk import walk


@CORE.checks(nodes.For)
def for_(checker: Checker, node: nodes.For, scope: Scope) -> Type:
    if checker.meaning.rules.traits.loop(checker, node, scope):
        return UNIT
    inner = scope.inner()
    whole = turns.is_whole(node.body, checker.meaning.rules.ends_turn)
    around: tuple[turns.CountedLoop, ...] | None = checker.frame.turns if whole else None
    for clause in node.clauses:
        seen = inner.as_now()
        type_ = checker.infer(clause.source, inner)
        bind_loop_names(checker, inner, clause.names, clause.name_spans, clause.source, type_)
        match clause:
            case nodes.ForClause(names=(name,), source=nodes.Range() as source) if around is not None and (counting := inner.own(name)):
                around = (*around, turns.CountedLoop(counting, source, seen))
            case nodes.ForClause(source=nodes.Range()):
                pass
            case _ if not isinstance(type_, ArrayType):
                around = None  # an array has elements, a ring or list may have none
    loop_body(checker, node.body, inner, around or ())
    inner.close()
    return UNIT


def counted(checker: Checker, node: nodes.While, scope: Scope) -> tuple[turns.CountedLoop, ...]:
    """The loops around a `while` and itself, where it counts as a `for` does."""
    loop = turns.counted(node, scope) if turns.is_whole(node.body, checker.meaning.rules.ends_turn) else None
    return (*checker.frame.turns, loop) if loop is not None else ()


def loop_body(checker: Checker, body: nodes.Block, scope: Scope, around: tuple[turns.CountedLoop, ...]) -> None:
    """Checks a body with the types of the first round, then, when a round changes some, once more silently to record those that
    hold in all rounds."""
    for node in walk(body):  # what a loop assigns to isn't known in its body, whatever it was before
        name = turns.changed(node)
        if name is not None and (variable := scope.variable(name)) is not None:
            variable.now = None
    with checker.within(sometimes=True, loops=checker.frame.loops + 1, turns=around):
        before = _types_that_widen(checker, scope)
        checker.infer(body, scope, used=False)
        if before and not checker.findings.muted and _types_that_widen(checker, scope) != before:
            checker.mute()
            checker.infer(body, scope, used=False)
            checker.unmute()


def _types_that_widen(checker: Checker, scope: Scope) -> list[Type]:
    """Of the variables in sight; the types of numbers, and of values in place, stay."""
    mutable = (entry for _, entry in scope.visible() if isinstance(entry, Variable) and entry.mutable)
    return [one.type for one in mutable if not isinstance(one.type, Scalar) and checker.kind(one.type).widens]


def bind_loop_names(
    checker: Checker, scope: Scope, names: tuple[str, ...], spans: tuple[Span, ...], source: nodes.Expression, type_: Type
) -> None:
    """Declares the variables of a `for` clause or a comprehension over a source of type `found`."""
    pairs = isinstance(type_, DictType) and len(names) == 2
    element = iterated(checker, type_, source.span) if not isinstance(type_, DictType) or not pairs else TupleType((type_.key, type_.value))
    parts: Sequence[Type] = (element,) if len(names) == 1 else _parts(checker, element, names, source.span)
    for number, (name, part) in enumerate(zip(names, parts, strict=True)):
        span = spans[number] if number < len(spans) else source.span
        variable = Variable(name, part, VariableKind.LOOP, span, frame=checker.frame)
        scope.add(variable)
        checker.meaning.rules.declared(checker, variable)


def _parts(checker: Checker, element: Type, names: tuple[str, ...], span: Span) -> Sequence[Type]:
    """What several names stand for in each round."""
    if is_silent(element) or isinstance(element, ListType | TensorType):
        return (ERROR if element == ERROR else UNKNOWN,) * len(names)
    if isinstance(element, TupleType) and len(element.elements) == len(names):
        return element.elements
    shown = checker.show(element)
    if isinstance(element, TupleType):
        checker.report("0203", f"{len(names)} names for a tuple of {len(element.elements)}", span, f"this hands out {shown}")
    else:
        numbered = len(names) == 2 and "enumerate" in checker.library.functions
        hint = f"`enumerate(...)` hands out `({names[0]}, {names[1]})`" if numbered else None
        checker.report("0203", f"{len(names)} names for one value: each step hands out {shown}", span, hint=hint)
    return (ERROR,) * len(names)


def iterated(checker: Checker, type_: Type, span: Span) -> Type:
    """The type of what a loop over a value hands out, one by one; reports what cannot be looped over."""
    if type_ == RANGE:
        return I64
    rule = checker.kind(type_).iterate or no_elements
    return rule(checker, type_, span)


def no_elements(checker: Checker, type_: Type, span: Span, hint: str | None = None) -> Type:
    if type_ == ERROR:
        return ERROR
    if isinstance(type_, OptionType):
        return report_optional(checker, type_, span)
    shown = checker.show(type_)
    hint = "loop over a range: `for i in 0..n`" if isinstance(type_, Scalar) else hint
    hint = hint or checker.meaning.rules.traits.missing(checker, "for", type_, None)
    return checker.report("0203", f"nothing to loop over: this is {shown}", span, f"this is {shown}", hint=hint)
