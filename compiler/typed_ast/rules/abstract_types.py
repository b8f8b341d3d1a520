"""Abstract types: a number under a name of its own, as `Duration` and what `abstract Money(i64)` declares. They are structs of one field;
what programs write of them, numbers with their suffixes, operators and conversions, stands for expressions of that field."""

from collections.abc import Sequence
from fractions import Fraction

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import fits, strong
from compiler.typed_ast.duration import DURATION
from compiler.typed_ast.rules.parts import fields_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suffixes import suffix_hint
from compiler.typed_ast.types import BOOL, DType, ListType, Scalar, StructType, Type
from compiler.typed_ast.units import NANOSECONDS

_KEEPING = ("+", "-", "%")
_SCALING = ("*", "/", "%")
_ORDER = ("<", "<=", ">", ">=")


def base_of(checker: Checker, actual: Type | None) -> Scalar | None:
    """The number under an abstract type; None of all other types."""
    declared = checker.declarations.structs.get(actual.name) if isinstance(actual, StructType) else None
    if declared is None or declared.suffixes is None or not isinstance(actual, StructType):
        return None
    base = fields_of(checker, actual)[0][1]
    return base if isinstance(base, Scalar) and base.dtype is not DType.BOOL else None


# ---- what stands for what is written ---------------------------------------------------------------------------------


def _typed(checker: Checker, node: nodes.Expression, type_: Type) -> nodes.Expression:
    checker.findings.types[id(node)] = type_
    return node


def inside(checker: Checker, node: nodes.Expression, type_: Type) -> nodes.Expression:
    """The number in a value of an abstract type; any other value as it is."""
    base = base_of(checker, type_)
    if base is None or not isinstance(type_, StructType):
        return node
    name = _field(checker, type_)
    return _typed(checker, nodes.Field(value=node, name=name, span=node.span), base)


def made(checker: Checker, type_: StructType, value: nodes.Expression, span: Span) -> nodes.Expression:
    """The value of an abstract type that has this number."""
    name = _field(checker, type_)
    field = nodes.FieldValue(name=name, value=value, span=span)
    return _typed(checker, nodes.RecordLiteral(struct=nodes.Name(name=type_.name, span=span), fields=(field,), span=span), type_)


def stands_for(checker: Checker, node: nodes.Expression, made_of: nodes.Expression) -> None:
    checker.kept.append(made_of)
    checker.findings.rewrites[id(node)] = made_of


# ---- numbers with a suffix -------------------------------------------------------------------------------------------


def with_suffix(checker: Checker, node: nodes.UnitNumber, scope: Scope, expected: Type | None) -> Type:
    declared = _declared_by(checker, node)
    if declared is None:
        start = node.span.end - len(node.unit)
        hint = suffix_hint(suffix for one in checker.declarations.structs.values() for suffix in one.suffixes or ())
        message = f"unknown suffix `{node.unit}` of the number `{node.text}{node.unit}`"
        return checker.report("0106", message, Span(node.span.path, start, node.span.end), hint=hint)
    number: nodes.Expression
    if declared.name == DURATION and id(declared) in checker.declarations.foreign:
        exact = Fraction(node.text) * NANOSECONDS[node.unit]
        if exact.denominator != 1:
            return checker.report("0106", f"`{node.text}{node.unit}` is no whole number of nanoseconds", node.span)
        if exact >= 1 << 63:
            hint = "a duration has at most 292 years"
            return checker.report("0106", f"`{node.text}{node.unit}` does not fit in a duration", node.span, hint=hint)
        number = nodes.IntLiteral(value=int(exact), span=node.span)
    elif node.text.isdigit():
        number = nodes.IntLiteral(value=int(node.text), span=node.span)
    else:
        number = nodes.FloatLiteral(value=float(node.text), span=node.span)
    written: nodes.Expression
    if f"{declared.name}::{node.unit}" in checker.declarations.functions:
        path = nodes.Path(segments=(declared.name, node.unit), span=node.span)
        written = nodes.Call(function=path, arguments=(nodes.Argument(value=number, span=node.span),), span=node.span)
    else:
        field = nodes.FieldValue(name=declared.fields[0].name, value=number, span=node.span)
        written = nodes.RecordLiteral(struct=nodes.Name(name=declared.name, span=node.span), fields=(field,), span=node.span)
    stands_for(checker, node, written)
    return checker.infer(written, scope, expected)


def _declared_by(checker: Checker, node: nodes.UnitNumber) -> nodes.Struct | None:
    """The abstract type whose suffix a number has: one of its own file before those of others."""
    found = [one for one in checker.declarations.structs.values() if node.unit in (one.suffixes or ())]
    return next((one for one in found if one.span.path == node.span.path), found[-1] if found else None)


# ---- operators and conversions ---------------------------------------------------------------------------------------


def binary(checker: Checker, node: nodes.Binary, left: Type, right: Type) -> Type | None:
    """An operator one of whose sides is of an abstract type; None: it isn't defined, or compares values as structs do."""
    left, right = strong(left), strong(right)
    bases = base_of(checker, left), base_of(checker, right)
    base = bases[0] or bases[1]
    if base is None:
        return None
    result: Type | None = None
    if left == right:
        if node.operator in _ORDER:
            result = BOOL
        elif node.operator in _KEEPING:
            result = left
        elif node.operator == "/":
            result = base
    elif isinstance(right, Scalar) and node.operator in _SCALING and fits(right, base):
        result = left
    elif isinstance(left, Scalar) and node.operator == "*" and fits(left, base):
        result = right
    if result is None:
        return None
    sides = inside(checker, node.left, left), inside(checker, node.right, right)
    within = nodes.Binary(operator=node.operator, left=sides[0], right=sides[1], operator_span=node.operator_span, span=node.span)
    _typed(checker, within, BOOL if result == BOOL else base)
    stands_for(checker, node, made(checker, result, within, node.span) if isinstance(result, StructType) else within)
    return result


def instead(checker: Checker, node: nodes.Binary, left: Type, right: Type) -> str | None:
    """What to write where a value of an abstract type stands beside a number."""
    for found, other, written in ((left, right, node.right), (right, left, node.left)):
        if base_of(checker, found) is not None and isinstance(other, Scalar) and node.operator in (*_KEEPING[:2], *_ORDER, "==", "!="):
            number = written.value if isinstance(written, nodes.IntLiteral | nodes.FloatLiteral) else "..."
            return f"make a `{checker.show(found)}` of the number: `{checker.show(found)}({number})`"
    return None


def negative(checker: Checker, node: nodes.Unary, type_: Type) -> Type | None:
    if node.operator != "-" or base_of(checker, type_) is None or not isinstance(type_, StructType):
        return None
    base = base_of(checker, type_)
    assert base is not None
    within = _typed(checker, nodes.Unary(operator="-", operand=inside(checker, node.operand, type_), span=node.span), base)
    stands_for(checker, node, made(checker, type_, within, node.span))
    return type_


def cast(checker: Checker, node: nodes.Cast, type_: Type, target: Type) -> Type | None:
    """`duration as i64`, `5 as Money`; None where neither side is of an abstract type."""
    type_ = strong(type_)
    from_, to = base_of(checker, type_), base_of(checker, target)
    if type_ == target and to is not None:
        stands_for(checker, node, node.value)
        return target
    if isinstance(target, Scalar) and from_ is not None:
        within = nodes.Cast(value=inside(checker, node.value, type_), target=node.target, span=node.span)
        stands_for(checker, node, _typed(checker, within, target))
        return target
    if isinstance(type_, Scalar) and to is not None and isinstance(target, StructType):
        syntax = checker.declarations.structs[target.name].fields[0].annotation
        assert syntax is not None
        within = nodes.Cast(value=node.value, target=syntax, span=node.span)
        stands_for(checker, node, made(checker, target, _typed(checker, within, to), node.span))
        return target
    return None


def constructed(checker: Checker, node: nodes.Call, name: str, scope: Scope) -> Type | None:
    """`Money(5)`; None where the name is of no abstract type."""
    declared = checker.declarations.structs.get(name)
    if declared is None or declared.suffixes is None:
        return None
    match node.arguments:
        case (nodes.Argument(name=None, value=value),):
            field = nodes.FieldValue(name=declared.fields[0].name, value=value, span=value.span)
            written = nodes.RecordLiteral(struct=nodes.Name(name=name, span=node.function.span), fields=(field,), span=node.span)
            stands_for(checker, node, written)
            return checker.infer(written, scope)
    return checker.report("0204", f"`{name}(...)` takes the one number that the value is made of", node.span)


def wanted_beside(checker: Checker, operator: str, other: Type) -> Scalar | None:
    """The type that a number without a suffix takes beside a value of an abstract type."""
    return base_of(checker, other) if operator in _SCALING else None


_OF_NUMBERS = ("abs", "clamp", "max", "min", "sum")


def of_library(checker: Checker, node: nodes.Call, name: str, given: Sequence[Type]) -> Type | None:
    """The type of `min`, `max`, `abs` and `clamp` of values of one abstract type, and of `sum`, `min` and `max` of a list of them, which
    are those of their numbers; None of other calls. `given`: the types of the arguments."""
    checker.findings.rewrites.pop(id(node), None)
    if name not in _OF_NUMBERS or not given or any(argument.name is not None for argument in node.arguments):
        return None
    found = [strong(one) for one in given]
    first = found[0]
    if len(found) == 1 and isinstance(first, ListType) and name != "abs":
        element = first.element
        first, arguments = element, [_numbers(checker, node.arguments[0].value, element)]
    elif all(other == first for other in found) and name != "sum":
        arguments = [inside(checker, argument.value, first) for argument in node.arguments]
    else:
        return None
    base = base_of(checker, first)
    if base is None or not isinstance(first, StructType):
        return None
    values = tuple(nodes.Argument(value=one, span=one.span) for one in arguments)
    within = nodes.Call(function=nodes.Name(name=name, span=node.function.span), arguments=values, span=node.span)
    stands_for(checker, node, made(checker, first, _typed(checker, within, base), node.span))
    return first


def _numbers(checker: Checker, source: nodes.Expression, element: Type) -> nodes.Expression:
    """The numbers in the values of a list."""
    name = "value"
    one = inside(checker, _typed(checker, nodes.Name(name=name, span=source.span), element), element)
    numbers = nodes.Comprehension(element=one, names=(name,), source=source, span=source.span)
    return _typed(checker, numbers, ListType(base_of(checker, element) or element))


def _field(checker: Checker, type_: StructType) -> str:
    return checker.declarations.structs[type_.name].fields[0].name
