"""Powers of ints, by squaring: exact, or they stop; modulo the type where ints wrap."""

from compiler.hir.native_expressions import Expr
from compiler.hir.numbers import limits
from compiler.hir.types import is_signed
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import known

NEGATIVE = "{0} ** {1}: a negative power of an int"
UNROLLED = 64
"""The largest constant exponent whose products are written out."""


def power_of_ints(c: FunctionContext, base: Expr, exponent: Expr) -> Expr:
    b, constant = c.b, known(exponent)
    if isinstance(constant, int) and 0 <= constant <= UNROLLED:
        return _written_out(c, base, exponent, constant)
    if is_signed(exponent.dtype):
        b.require(exponent >= 0, base, exponent, code="0806", message=NEGATIVE, hint="raise a float instead: `x as f64`")
    result, square, left = b.variable(1, base.dtype), b.variable(base), b.variable(exponent)
    with b.repeat():
        with b.when(left.value == 0):
            b.break_()
        with b.when((left.value & 1) != 0):
            result.value = _product(c, result.value, square.value, base, exponent)
        left.value = left.value >> 1
        with b.when(left.value != 0):
            square.value = _product(c, square.value, square.value, base, exponent)
    return result.value


def _written_out(c: FunctionContext, base: Expr, exponent: Expr, count: int) -> Expr:
    result, square = None, base
    while count:
        if count & 1:
            result = square if result is None else _product(c, result, square, base, exponent)
        count >>= 1
        if count:
            square = _product(c, square, square, base, exponent)
    return result if result is not None else c.b.const(1, base.dtype)


def _product(c: FunctionContext, x: Expr, y: Expr, base: Expr, exponent: Expr) -> Expr:
    """x * y on the way to `base ** exponent`: where it overflows, so does that."""
    b, dtype = c.b, x.dtype
    if c.wraps:
        return x.wrapping_mul(y)
    wide, (low, high) = "i128" if is_signed(dtype) else "u128", limits(dtype)
    product = x.cast(wide).wrapping_mul(y.cast(wide))
    within = (product >= b.const(low, dtype).cast(wide)) & (product <= b.const(high, dtype).cast(wide))
    message = f"{{0}} ** {{1}} does not fit in {dtype}"
    b.require(within, base, exponent, code="0806", message=message, hint=f"{dtype} holds {low} to {high}")
    return product.cast(dtype)
