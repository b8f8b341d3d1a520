"""Between which bounds the ints of generated expressions lie, so that only those are checked that may leave i64. An expression that isn't
known has no `interval` and may be any i64."""

import ast

from compiler.backends.host.numbers import I64_MAX, I64_MIN

Interval = tuple[int, int]
FULL: Interval = (I64_MIN, I64_MAX)
LENGTH: Interval = (0, 1 << 48)
"""Of what memory holds."""
ROUNDS = 1 << 50
"""More than any loop of Python's makes: at ten nanoseconds each they take four months."""


def interval(tree: ast.expr) -> Interval:
    """The bounds of an i64."""
    match tree:
        case ast.Constant(value=value) if type(value) is int:
            return value, value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if type(value) is int:
            return -value, -value
    found: Interval = getattr(tree, "interval", FULL)
    return found


def marked(tree: ast.expr, bounds: Interval) -> ast.expr:
    """The expression, whose value lies within the bounds."""
    if bounds != FULL:
        tree.interval = bounds  # type: ignore[attr-defined]
    return tree


def clipped(bounds: Interval) -> Interval:
    """What is left of bounds in i64."""
    return max(bounds[0], I64_MIN), min(bounds[1], I64_MAX)


def result(symbol: str, operands: list[Interval]) -> Interval:
    """The bounds of `a + b`, `a - b`, `a * b` or `-a` before anything is checked."""
    if len(operands) == 1:
        return -operands[0][1], -operands[0][0]
    (low, high), (other_low, other_high) = operands
    match symbol:
        case "+":
            return low + other_low, high + other_high
        case "-":
            return low - other_high, high - other_low
    products = [a * b for a in (low, high) for b in (other_low, other_high)]
    return min(products), max(products)


def quotient(symbol: str, left: Interval, right: Interval) -> Interval:
    """The bounds of `a / b` or `a % b`, which round toward zero."""
    (low, high), most = left, max(abs(right[0]), abs(right[1]))
    if symbol == "%":
        rest = most - 1
        return max(min(low, 0), -rest), min(max(high, 0), rest)
    if right[0] <= 0:
        return FULL
    return min(low // right[0], 0) if low < 0 else low // right[1], max(high, 0) // right[0]


def loop(low: ast.expr, high: ast.expr, inclusive: bool) -> Interval:
    """The bounds of what `low..high` hands out."""
    first, last = interval(low), interval(high)[1] - (not inclusive)
    return first[0], max(min(last, first[1] + ROUNDS), first[0])


def within(tree: ast.expr, bounds: Interval) -> ast.expr:
    """The expression, whose value lies within these bounds, too."""
    low, high = interval(tree)
    return marked(tree, (max(low, bounds[0]), min(high, bounds[1]))) if not isinstance(tree, ast.Constant) else tree
