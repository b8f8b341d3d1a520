"""Ints that are written out, and arithmetic on nothing else: known exactly, and of the type that their place or their neighbour has."""

from compiler.diagnostics import Diagnostic, Label
from compiler.typed_ast.constants import quotient
from compiler.typed_ast.nodes import Binary, Expression, IntLiteral, Unary
from runtime.records import frozen

DIVIDES_BY_ZERO = "this divides by zero"


@frozen
class LostRemainder:
    """A division `left / right` that leaves a remainder."""

    node: Binary
    left: int
    right: int


def weak_int(node: Expression) -> int | None:
    """The value, however large; None of anything else, and where there is no value."""
    match node:
        case IntLiteral(suffix=None, value=value):
            return value
        case Unary(operator="-", operand=operand):
            value_of = weak_int(operand)
            return None if value_of is None else -value_of
        case Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
            b = weak_int(right)  # first the short side of a long chain
            a = weak_int(left) if b is not None else None
            return None if a is None or b is None else _result(operator, a, b)
    return None


def _result(operator: str, a: int, b: int) -> int | None:
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case _ if b == 0:
            return None
    return quotient(a, b) if operator == "/" else a - b * quotient(a, b)


def lost_remainder(node: Expression) -> LostRemainder | None:
    """A division inside a weak int that isn't exact; None of what is no weak int."""
    if weak_int(node) is None:
        return None
    match node:
        case Unary(operand=operand):
            return lost_remainder(operand)
        case Binary(operator=operator, left=left, right=right):
            a, b = weak_int(left), weak_int(right)
            if operator == "/" and a is not None and b and a % b:
                return LostRemainder(node, a, b)
            return lost_remainder(left) or lost_remainder(right)
    return None


def remainder_fault(lost: LostRemainder, others: tuple[Label, ...] = ()) -> Diagnostic:
    """What is said where a float is wanted."""
    a, b = lost.left, lost.right
    message = f"`{a} / {b}` is {quotient(a, b)}: ints are divided without a remainder, and a float is wanted"
    return Diagnostic("0705", message, lost.node.span, "", others, hint=f"write `{a}.0 / {b}`")
