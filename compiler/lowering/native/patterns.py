"""Patterns: whether a value fits one, and the names that it binds. `match` tries its arms in order."""

from compiler.hir.native_expressions import Expr, all_of, any_of
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.expressions import JoinedBranches
from compiler.lowering.native.operators import compared
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import ScalarValue, Value
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, EnumType, OptionType, ResultType, Type


def fits(c: FunctionContext, pattern: nodes.Pattern, value: Value) -> list[Expr]:
    """The conditions under which a value fits; none: it always does. All of them can be computed for any value."""
    match pattern:
        case nodes.AlternativePattern(alternatives=alternatives):
            found = [fits(c, alternative, value) for alternative in alternatives]
            if not all(found):
                return []
            return [any_of(*(all_of(*conditions) for conditions in found))]
        case nodes.LiteralPattern(value=literal):
            assert isinstance(value, ScalarValue)
            return _literal(c, literal, value)
        case nodes.TuplePattern(elements=elements):
            return [one for n, element in enumerate(elements) for one in fits(c, element, c.part(value, str(n)))]
        case nodes.VariantPattern(path=path, arguments=arguments):
            if len(path) == 1 and not arguments and c.names.find(path[0]) is not None:
                assert isinstance(value, ScalarValue)
                return [compared(c, "==", value, c.number(nodes.Name(name=path[0], type=value.type, span=pattern.span), value.type))]
            return _case(c, path[-1], [(str(n), argument) for n, argument in enumerate(arguments)], value)
        case nodes.StructPattern(path=path, fields=fields):
            return _case(c, path[-1], [(f.name, f.pattern) for f in fields], value)
    return []


def _literal(c: FunctionContext, literal: nodes.Expression, value: ScalarValue) -> list[Expr]:
    if isinstance(literal, nodes.Range):
        low, high = (c.number(end, value.type) for end in (literal.low, literal.high))
        return [compared(c, ">=", value, low), compared(c, "<=" if literal.inclusive else "<", value, high)]
    return [compared(c, "==", value, c.number(literal, value.type))]


def _case(c: FunctionContext, name: str, parts: list[tuple[str, nodes.Pattern]], value: Value) -> list[Expr]:
    conditions = _tag(c, name, value)
    return [*conditions, *(one for part, inner in parts for one in fits(c, inner, part_of_case(c, value, name, part)))]


def _tag(c: FunctionContext, name: str, value: Value) -> list[Expr]:
    """Whether the value is of this case; a struct has no cases."""
    match value.type:
        case OptionType():
            present = _truth(c.part(value, "present"))
            return [present if name == c.elaboration.rules.meaning.some else ~present]
        case ResultType():
            ok = _truth(c.part(value, "ok"))
            return [ok if name == "Ok" else ~ok]
        case EnumType():
            tag = value if isinstance(value, ScalarValue) else c.part(value, "tag")
            assert isinstance(tag, ScalarValue)
            return [tag.value == c.layouts.tags(value.type)[name]]
    return []


def _truth(value: Value) -> Expr:
    assert isinstance(value, ScalarValue)
    return value.value


def part_of_case(c: FunctionContext, value: Value, case: str, part: str) -> Value:
    """A part of a value that is of a case; part "0" of `some(v)` is v."""
    match value.type:
        case OptionType():
            return c.part(value, "value")
        case ResultType():
            return c.part(value, "value" if case == "Ok" else "error")
        case EnumType():
            return c.part(value, f"{case}.{part}")
    return c.part(value, part)


def bind(c: FunctionContext, pattern: nodes.Pattern, value: Value, changes: bool = False) -> None:
    """Enters the names of a pattern that the value fits."""
    match pattern:
        case nodes.BindingPattern(name=name):
            (c.var if changes else c.let)(name, value)
        case nodes.AlternativePattern(alternatives=alternatives):
            _bind_one_of(c, alternatives, value)
        case nodes.TuplePattern(elements=elements):
            for n, element in enumerate(elements):
                bind(c, element, c.part(value, str(n)), changes)
        case nodes.VariantPattern(path=path, arguments=arguments):
            for n, argument in enumerate(arguments):
                bind(c, argument, part_of_case(c, value, path[-1], str(n)), changes)
        case nodes.StructPattern(path=path, fields=fields):
            for f in fields:
                bind(c, f.pattern, part_of_case(c, value, path[-1], f.name), changes)


def _bind_one_of(c: FunctionContext, alternatives: tuple[nodes.Pattern, ...], value: Value) -> None:
    """Names that all alternatives bind get theirs from the first one that fits."""
    first, *others = alternatives
    if not names_of(first):
        return
    bind(c, first, value)
    found = {name: c.variable(c.value(nodes.Name(name=name, type=_bound(c, name)))) for name in names_of(first)}
    fitting = fits(c, first, value)
    missed = c.b.variable(~all_of(*fitting) if fitting else c.b.const(False, "i1"))
    for other in others:
        conditions = fits(c, other, value)
        with c.b.when(all_of(missed.value, *conditions)), c.scope():
            bind(c, other, value)
            for name, variable in found.items():
                c.write(variable, c.fit(c.value(nodes.Name(name=name, type=_bound(c, name))), variable.type))
            missed.value = False
    for name, variable in found.items():
        c.let(name, c.read(variable))


def _bound(c: FunctionContext, name: str) -> Type:
    found = c.names.find(name)
    assert found is not None
    return found.held.type


def names_of(pattern: nodes.Pattern) -> list[str]:
    match pattern:
        case nodes.BindingPattern(name=name):
            return [name]
        case nodes.AlternativePattern(alternatives=alternatives):
            return names_of(alternatives[0])
        case nodes.TuplePattern(elements=inner) | nodes.VariantPattern(arguments=inner):
            return [name for one in inner for name in names_of(one)]
        case nodes.StructPattern(fields=fields):
            return [name for one in fields for name in names_of(one.pattern)]
    return []


# ---- where patterns stand -----------------------------------------------------------------------------------------------------------


@CORE.elaborates(nodes.LetCondition)
def let_condition(c: FunctionContext, node: nodes.LetCondition, place: Type | None) -> Value:
    """Whether the value fits; its names are entered into the scope of the condition."""
    value = c.kept(c.value(node.value))
    if isinstance(node.pattern, nodes.BindingPattern | nodes.WildcardPattern | nodes.TuplePattern):
        conditions, value = [_truth(c.part(value, "present"))], c.part(value, "value")
        conditions += fits(c, node.pattern, value)
    else:
        conditions = fits(c, node.pattern, value)
    bind(c, node.pattern, value)
    return c.truth(all_of(*conditions)) if conditions else c.constant(True, BOOL)


@CORE.elaborates(nodes.Match)
def match_(c: FunctionContext, node: nodes.Match, place: Type | None) -> Value:
    subject = c.kept(c.value(node.subject))
    joined = JoinedBranches(c, node, place)
    _arms(c, list(node.arms), subject, joined)
    return joined.value()


def _arms(c: FunctionContext, arms: list[nodes.Arm], subject: Value, joined: JoinedBranches) -> None:
    """One arm in the branch of an `if`, the others in its `else`."""
    if not arms:
        return
    arm, *others = arms
    with c.at(arm):
        last = not others and arm.guard is None
        conditions = fits(c, arm.pattern, subject) if not last else []
        if not conditions and arm.guard is None:
            with c.scope():
                bind(c, arm.pattern, subject)
                joined.set(arm.body)
            return
        if arm.guard is not None:
            with c.scope():
                bind(c, arm.pattern, subject)
                conditions = [_guarded(c, conditions, arm.guard)]
        with c.b.when(all_of(*conditions)), c.scope():
            bind(c, arm.pattern, subject)
            joined.set(arm.body)
        with c.b.otherwise():
            _arms(c, others, subject, joined)


def _guarded(c: FunctionContext, conditions: list[Expr], guard: nodes.Expression) -> Expr:
    """Whether an arm is taken: its condition is only reached where its pattern fits."""
    if not conditions:
        return c.number(guard, BOOL).value
    fitting = all_of(*conditions)
    taken = c.b.variable(fitting)
    with c.b.when(fitting), c.reaching():
        taken.value = c.number(guard, BOOL).value
    return taken.value
