"""Values that come from one of several branches: `match`, and the conditions that take a pattern."""

from functools import partial

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker, leaves
from compiler.typed_ast.conversions import clash, fits, join, strong
from compiler.typed_ast.exhaustiveness import PatternShape, uncovered
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.rules.patterns import bind
from compiler.typed_ast.rules.placing import condition
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import BOOL, ERROR, NEVER, NONE, UNIT, UNKNOWN, OptionType, Scalar, Type


def joined(checker: Checker, a: Type, b: Type, node: nodes.Node, expected: Type | None) -> Type:
    """The type of a value that comes from one of two branches. Where one of them is what is expected, the other is what is wrong, which
    whoever expects it reports; where anything is, they may differ."""
    if ERROR in (a, b):
        return ERROR
    if UNKNOWN in (a, b, expected):
        return join(a, b)
    if checker.kind(a).widens and checker.kind(b).widens:
        return _differ(checker, a, b, node) if expected is None and UNIT not in (a, b) and clash(a, b) else join(a, b)
    if expected is not None and expected != ERROR:
        misfits = [one for one in (a, b) if not fits(one, expected)]
        if len(misfits) < 2:
            return misfits[0] if misfits else NEVER if a == b == NEVER else expected
    if a == NEVER or b == NEVER:
        return b if a == NEVER else a
    weak_last = isinstance(b, Scalar) and b.weak
    for one, other in ((b, a), (a, b)) if weak_last else ((a, b), (b, a)):
        if fits(one, other):
            return other
        if one == NONE:
            return OptionType(strong(other))
    return checker.meaning.meet(a, b) or _differ(checker, a, b, node)


def _differ(checker: Checker, a: Type, b: Type, node: nodes.Node) -> Type:
    shown, span = (checker.show(a), checker.show(b)), node.span
    others: tuple[Label, ...] = ()
    match node:
        case nodes.If(then=then, otherwise=nodes.Expression() as last) | nodes.Conditional(then=then, otherwise=last):
            first, second = next(leaves(then), then), next(leaves(last), last)
            span, others = second.span, (Label(first.span, f"this is {shown[0]}"),)
    message = f"the branches give `{shown[0]}` and `{shown[1]}`"
    return checker.report("0203", message, span, f"this is {shown[1]}", others, hint="all branches give one type")


@CORE.infers(nodes.LetCondition)
def let_condition(checker: Checker, node: nodes.LetCondition, scope: Scope, expected: Type | None, used: bool) -> Type:
    found = checker.infer(node.value, scope)
    plain = isinstance(node.pattern, nodes.BindingPattern | nodes.WildcardPattern | nodes.TuplePattern)
    if plain and found not in (ERROR, UNKNOWN) and not isinstance(found, OptionType):
        message = f"`if let` takes out a value that may be none, and this `{checker.show(found)}` may not"
        found = checker.report("0203", message, node.value.span, hint="a plain `let` is enough, or write a case: `if let Ok(v) = ...`")
    bind(checker, node.pattern, found.value if plain and isinstance(found, OptionType) else found, scope)
    return BOOL


@CORE.infers(nodes.Match)
def match_(checker: Checker, node: nodes.Match, scope: Scope, expected: Type | None, used: bool) -> Type:
    subject = checker.infer(node.subject, scope)
    rows: list[tuple[PatternShape, ...]] = []
    result: Type | None = None
    for arm in node.arms:
        covered, found = _arm(checker, arm, subject, scope, expected, used)
        rows += [(covered,)] if covered is not None else []
        if result is None:
            result = found
        else:
            result = joined(checker, result, found, arm.body, expected) if used else NEVER if result == found == NEVER else UNIT
    missing = uncovered(partial(cases_of, checker), rows, (subject,)) if subject not in (ERROR, UNKNOWN) else None
    if missing is not None:
        message = "this `match` doesn't cover " + ("all values" if missing[0] == "_" else f"`{missing[0]}`")
        checker.report("0206", message, node.subject.span, hint=f"add an arm `{missing[0]} => ...`")
    return result if result is not None else UNIT


def _arm(
    checker: Checker, arm: nodes.Arm, subject: Type, scope: Scope, expected: Type | None, used: bool
) -> tuple[PatternShape | None, Type]:
    """What an arm covers for certain (None: it has a condition), and the type of its value."""
    inner = Scope(scope)
    shape = bind(checker, arm.pattern, subject, inner)
    covered = shape if arm.guard is None else None
    with checker.within(sometimes=True, turns=()):
        if arm.guard is not None:
            condition(checker, arm.guard, inner, "the condition")
        if isinstance(arm.body, nodes.Block) or used:
            return covered, checker.infer(arm.body, inner, expected, used)
        return covered, checker.statement(nodes.ExpressionStatement(value=arm.body, span=arm.body.span), inner)
