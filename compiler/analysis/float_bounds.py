"""Which floats can't be below a bound, as their instructions say: what functions need not look for then. NaN is below nothing."""

from compiler.hir.core import Binary, Cast, Const, Fma, Unary, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import is_float

LEAST = 2.0**-14
"""A normal number of every type of 16 bits or more."""

NONNEGATIVE = ("exp", "exp2", "abs", "sqrt", "cosh")


def is_normal(value: Value) -> bool:
    """Whether a float is infinite, NaN, or a positive number of full precision."""
    match value.source:
        case Const(value=number):
            return number >= LEAST
        case Binary(operator="add", left=left, right=right):
            return any(is_normal(one) and is_nonnegative(other) for one, other in ((left, right), (right, left)))
        case Binary(operator="max", left=left, right=right):
            return is_normal(left) or is_normal(right)
        case Fma(a=a, b=b, c=c):
            return is_normal(c) and (a is b or (is_nonnegative(a) and is_nonnegative(b)))
        case _:
            return False


def is_nonnegative(value: Value) -> bool:
    """Whether a float is no negative number; a zero may have any sign."""
    match value.source:
        case Const(value=number):
            return number >= 0
        case Unary(operator=operator, value=inner):
            return operator in NONNEGATIVE and is_float(dtype_of(inner))
        case Binary(operator="mul", left=left, right=right):
            return left is right or (is_nonnegative(left) and is_nonnegative(right))
        case Binary(operator="add" | "min", left=left, right=right):
            return is_nonnegative(left) and is_nonnegative(right)
        case Binary(operator="max", left=left, right=right):
            return is_nonnegative(left) or is_nonnegative(right)
        case Cast(value=inner, to=to):
            return is_float(to) and is_float(dtype_of(inner)) and is_nonnegative(inner)
        case _:
            return is_normal(value)
