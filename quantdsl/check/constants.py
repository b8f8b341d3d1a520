"""Whole numbers that are known when the program is compiled."""

from compiler.typed_ast import nodes
from quantdsl.check.scope import CheckScope


def constant_int(node: nodes.Expression, scope: CheckScope) -> int | None:
    """The value of an expression of literals and constants, exact however large; None when it isn't known, or has none."""
    match node:
        case nodes.IntLiteral(value=value):
            return value
        case nodes.Name(name=name):
            variable = scope.find(name)
            return variable.constant if variable is not None and not variable.mutable else None
        case nodes.Unary(operator="-", operand=operand):
            inner = constant_int(operand, scope)
            return None if inner is None else -inner
        case nodes.Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
            b = constant_int(right, scope)  # First the short side of a long chain.
            a = constant_int(left, scope) if b is not None else None
            if a is None or b is None or (operator in "/%" and b == 0):
                return None
            return result_of(operator, a, b)
    return None


def result_of(operator: str, a: int, b: int) -> int:
    """Of `+ - * / %`, as they are of ints without an end; b isn't 0 where it divides."""
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient if operator == "/" else a - b * quotient
