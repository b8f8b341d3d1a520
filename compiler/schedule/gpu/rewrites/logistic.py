"""Logistic functions, where the hardware's are good enough (`afn`): `1 + tanh(u)` is `2 / (1 + 2^(k u))`, without the cancellation that a
tanh near -1 leaves (every GELU by tanh has it), and quotients by `c + exp(u)` (sigmoids, SiLU) are products with a reciprocal. The divisor
is at least c and may be infinite, so a quarter of it has a reciprocal without subnormals, which the hardware gives in one instruction; a
division that holds for all divisors takes eight."""

from collections import Counter
from collections.abc import Iterator
from math import log

from compiler.hir.build import Builder
from compiler.hir.core import Binary, Const, Unary, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.passes.rewrite import rewrite, rule

_LOG2_E = 1 / log(2)
_BASES = {"exp": _LOG2_E, "exp2": 1.0}
_SHARE = 0.25
"""Of a divisor: twice 2^126, its reciprocal would be subnormal; a quarter of the largest number has one that isn't."""

_CONSTANTS = 2.0**-60, 2.0**60
"""What stands beside an exponential: with less, a quarter of it might be subnormal."""

_FAST = ("afn", "ftz")


def with_logistics(field: HirFunction) -> HirFunction:
    """The field with such quotients; itself where it has none. What else reads a tanh, or an exponential, has it computed anyway."""
    read = Counter(value.name for op in field.body.body for value in op.operand_values)
    if not any(isinstance(op, Binary) and (_one_and_tanh(op) or _quotient(op)) for op in field.body.body):
        return field

    @rule(Binary)
    def one_and_tanh(op: Binary, b: Builder) -> Value | None:
        "1 + tanh(u)  =>  2 / (1 + 2^(k u))"
        found = _one_and_tanh(op)
        if found is None or read[found.result.name] > 1:
            return None
        return b.mul(_number(b, 2 * _SHARE), _reciprocal(b, 1.0, -2 * _LOG2_E, found.value))

    @rule(Binary)
    def scaled(op: Binary, b: Builder) -> Value | None:
        "(k / d) * (f * v)  =>  (v * (k f)) / d"
        for total, other in _sides(op) if op.operator == "mul" else ():
            numerator, factor = _factor(total), _factor(other)
            if numerator is not None and factor is not None and _is_reciprocal(numerator[1]):
                return b.mul(b.mul(factor[1], _number(b, numerator[0] * factor[0])), numerator[1])
        return None

    @rule(Binary)
    def quotient(op: Binary, b: Builder) -> Value | None:
        "n / (c + exp(u))  =>  n * (1 / (c + 2^(k u)))"
        found = _quotient(op)
        if found is None or read[op.right.name] > 1 or read[found[1].result.name] > 1:
            return None
        above = op.left.source
        share = _number(b, float(above.value) * _SHARE) if isinstance(above, Const) else b.mul(op.left, _number(b, _SHARE))
        return b.mul(share, _reciprocal(b, found[0], _BASES[found[1].operator], found[1].value))

    return rewrite(field, [one_and_tanh, scaled, quotient])


def _number(b: Builder, number: float) -> Value:
    return b.const(number, Tile("f32"))


def _reciprocal(b: Builder, constant: float, power: float, exponent: Value) -> Value:
    """1 over a quarter of the constant and 2 to a power times the exponent, of which factors are the power's."""
    while (factor := _factor(exponent)) is not None:
        power, exponent = power * factor[0], factor[1]
    exponential = b.emit(Unary(operator="exp2", value=b.mul(exponent, _number(b, power)), flags=_FAST)).result
    divisor = b.fma(exponential, _number(b, _SHARE), _number(b, _SHARE * constant))
    return b.emit(Binary(operator="div", left=_number(b, 1.0), right=divisor, flags=_FAST)).result


def _is_reciprocal(value: Value) -> bool:
    return isinstance(value.source, Binary) and value.source.operator == "div" and value.source.flags == _FAST


def _factor(value: Value) -> tuple[float, Value] | None:
    """A value that is a constant times another, or its negative."""
    match value.source:
        case Unary(operator="neg", value=inner):
            return -1.0, inner
        case Binary(operator="mul") as product if dtype_of(value) == "f32":
            sides = ((float(side.source.value), other) for side, other in _sides(product) if isinstance(side.source, Const))
            return next(sides, None)
        case _:
            return None


def _sides(op: Binary) -> Iterator[tuple[Value, Value]]:
    yield op.left, op.right
    yield op.right, op.left


def _one_and_tanh(op: Binary) -> Unary | None:
    """The tanh that 1 is added to."""
    for side, other in _sides(op) if op.operator == "add" and dtype_of(op.left) == "f32" else ():
        match side.source, other.source:
            case Const(value=1), Unary(operator="tanh", flags=flags) as tanh if "afn" in flags:
                return tanh
    return None


def _quotient(op: Binary) -> tuple[float, Unary] | None:
    """The constant, and the exponential that is added to it, of a divisor."""
    total, fast = op.right.source, op.operator == "div" and "afn" in op.flags and dtype_of(op.left) == "f32"
    for side, other in _sides(total) if fast and isinstance(total, Binary) and total.operator == "add" else ():
        match side.source, other.source:
            case Const(value=number), Unary(operator=operator, flags=flags) as found if operator in _BASES and "afn" in flags:
                if _CONSTANTS[0] <= number <= _CONSTANTS[1]:
                    return float(number), found
    return None
