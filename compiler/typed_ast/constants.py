"""Values known when the program is compiled: literals, arithmetic on ints, and names of `let`s that hold such values."""

from compiler.typed_ast.nodes import (
    Annotation,
    Binary,
    BoolLiteral,
    Compute,
    Expression,
    FloatLiteral,
    IntLiteral,
    ListLiteral,
    Name,
    Range,
    Slice,
    StringLiteral,
    TupleLiteral,
    Unary,
    UnitNumber,
)
from compiler.typed_ast.scope import Scope, Variable
from compiler.typed_ast.units import BYTES, NANOSECONDS
from compiler.typed_ast.walk import walk

_LONGEST = (1 << 63) - 1024
_LARGEST = 1 << 200


def constant(node: Expression, scope: Scope | None = None) -> object:
    """The number, bool, text, list or tuple; None when it isn't known. Lists come as Python lists."""
    match node:
        case IntLiteral(value=value) | FloatLiteral(value=value) | BoolLiteral(value=value) | StringLiteral(value=value):
            return value
        case UnitNumber(text=text, unit=unit):
            return _bytes(text, unit)
        case Name(name=name) if scope is not None:
            entry = scope.find(name)
            if isinstance(entry, Variable):
                return entry.constant
        case Unary(operator="-", operand=operand):
            number = constant(operand, scope)
            return -number if isinstance(number, (int, float)) and not isinstance(number, bool) else None
        case ListLiteral(elements=elements) | TupleLiteral(elements=elements):
            values = [constant(e, scope) for e in elements]
            if any(v is None for v in values):
                return None
            return values if isinstance(node, ListLiteral) else tuple(values)
        case Binary():
            return _arithmetic(node, scope)
    return None


def whole_constant(node: Expression, scope: Scope | None = None) -> int | None:
    """The constant, where it is a whole number."""
    value = constant(node, scope)
    return value if type(value) is int else None


def duration(node: Expression) -> int | None:
    """The nanoseconds of `500ms`, at most what an i64 holds; None of anything else."""
    match node:
        case UnitNumber(text=text, unit=unit) if unit in NANOSECONDS:
            return int(min(float(text) * NANOSECONDS[unit], float(_LONGEST)))
    return None


def names_needing_values(compute: Compute) -> frozenset[str]:
    """The outer ints whose value lowering must know, not only their type: those in annotations and in the steps of ranges, and the
    window's options by their names."""
    found: set[str] = set()
    for node in walk(compute):
        match node:
            case Annotation(arguments=arguments):
                found |= {inner.name for argument in arguments for inner in walk(argument.value) if isinstance(inner, Name)}
            case Range(step=Expression() as step) | Slice(step=Expression() as step):
                found |= {inner.name for inner in walk(step) if isinstance(inner, Name)}
            case Name(name="stride" | "padding" | "dilation" | "groups" as name):
                found.add(name)
    return frozenset(found)


def _arithmetic(node: Binary, scope: Scope | None) -> int | None:
    if node.operator not in ("+", "-", "*", "/", "%"):
        return None
    b = constant(node.right, scope)  # First the short side of a long chain.
    a = constant(node.left, scope) if type(b) is int else None
    if type(a) is not int or type(b) is not int or max(abs(a), abs(b)) > _LARGEST or (node.operator in "/%" and b == 0):
        return None
    return whole_result(node.operator, a, b)


def whole_result(operator: str, a: int, b: int) -> int:
    """Of `+ - * / %`, as they are of ints without an end; b isn't 0 where it divides."""
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    return quotient(a, b) if operator == "/" else a - b * quotient(a, b)


def quotient(a: int, b: int) -> int:
    """a / b, cut toward zero; b isn't 0."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _bytes(text: str, unit: str) -> int | None:
    factor = BYTES.get(unit)
    if factor is None:
        return None
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        return None
    return int(number * factor) if number * factor < 1 << 62 else None
