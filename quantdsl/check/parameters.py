"""A program's `param`s: `param n: int in 1..10 = 3`. Values that were given in place of their defaults (`--set`) stand under paths of their
own, so that messages tell them apart."""

from fractions import Fraction

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.literal_numbers import decimal
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import I64, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.exact import shown
from quantdsl.check.literals import DURATIONS
from quantdsl.check.resolve import resolve

GIVEN = "--set "
"""What the paths of given values begin with."""
_FACTORS = {**{unit: Fraction(ns) for unit, ns in DURATIONS.items()}, "bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}


def check_parameter(checker: QuantChecker, node: nodes.ProgramParameter, scope: Scope) -> None:
    """The default, or what was given for it, is of the parameter's type and in its range."""
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    actual = checker.infer(node.default, scope, place)
    if place is None:
        place = strong(actual)
    else:
        require(checker, actual, place, node.default.span, f"the parameter `{node.name}`")
    if isinstance(node.range, nodes.Range):
        for end in (node.range.low, node.range.high):
            require(checker, checker.infer(end, scope, place), place, end.span, f"the range of `{node.name}`")
        _in_range(checker, node, node.range, place, scope)
    elif node.range is not None:
        checker.report("0203", "the values of a `param` are a range", node.range.span, hint="write it like `in 2..500`")
    scope.add(Variable(node.name, place, VariableKind.PROGRAM_PARAMETER, node.span))


def _in_range(checker: QuantChecker, node: nodes.ProgramParameter, within: nodes.Range, place: Type, scope: Scope) -> None:
    low, high, value = (_amount(checker, part, place, scope) for part in (within.low, within.high, node.default))
    if low is None or high is None or value is None or low <= value < high or (within.inclusive and value == high):
        return
    span, text = node.default.span, written(node.default)
    if not span.path.startswith(GIVEN):
        checker.report("0705", f"the default {text} of `{node.name}` is outside of its range", span)
        return
    edges = f"{written(within.low)}..{'=' * within.inclusive}{written(within.high)}"
    message = f"the value {text} given for `{node.name}` is outside of {edges}"
    hint = None
    if value == high:
        hint = f"`{edges}` ends before {written(within.high)}"
    elif isinstance(place, qt.QtyType) and (lots := decimal(node.default)) is not None and lots != value and low <= lots <= high:
        hint = f"a plain number counts units of `{place.of}`, here {shown(value)} lots; write `{text}lots`"
    checker.report("0705", message, span, hint=hint, others=(Label(node.span, "declared here"),))


def _amount(checker: QuantChecker, node: nodes.Expression, place: Type, scope: Scope) -> Fraction | None:
    """The value of a literal or a constant int: quantities in lots, times in ns, money and prices in the currency."""
    number = decimal(node)
    if number is None:
        whole = whole_constant(node, scope) if place == I64 else None
        return None if whole is None else Fraction(whole)
    literal = _literal(node)
    if isinstance(literal, nodes.UnitNumber):
        return number * _FACTORS.get(literal.unit, Fraction(1))
    if isinstance(place, qt.QtyType):
        instrument = checker.own.world.instruments.get(place.of or "")
        return number / instrument.lot if instrument is not None else None
    return number


def _literal(node: nodes.Expression) -> nodes.Expression:
    return node.operand if isinstance(node, nodes.Unary) else node


def written(node: nodes.Expression) -> str:
    """A literal as it was written."""
    match node:
        case nodes.Unary(operator=operator, operand=operand):
            return f"{operator}{written(operand)}"
        case nodes.UnitNumber(text=text, unit=unit):
            return f"{text}{unit}"
        case nodes.IntLiteral(value=value):
            return str(value)
        case nodes.FloatLiteral(text=text, value=value):
            return text or repr(value)
        case nodes.BoolLiteral(value=value):
            return str(value).lower()
        case nodes.Name(name=name):
            return name
    return "..."
