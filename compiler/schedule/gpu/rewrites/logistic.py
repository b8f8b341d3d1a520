"""Logistic functions, where the hardware's are good enough (`afn`): `1 + tanh(u)` is `2 / (1 + 2^(k u))`, without the cancellation that a
tanh near -1 leaves (every GELU by tanh has it), and quotients by `c + exp(u)` (sigmoids, SiLU) are products with a reciprocal. The divisor
is at least c and may be infinite, so a quarter of it has a reciprocal without subnormals, which the hardware gives in one instruction; a
division that holds for all divisors takes eight."""

from collections.abc import Sequence
from math import log

from compiler.hir.build import Builder
from compiler.hir.core import Binary, Const, Unary, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from runtime.records import frozen

_LOG2_E = 1 / log(2)
_BASES = {"exp": _LOG2_E, "exp2": 1.0}
_SHARE = 0.25
"""Of a divisor: twice 2^126, its reciprocal would be subnormal; a quarter of the largest number has one that isn't."""

_CONSTANTS = 2.0**-60, 2.0**60
"""What stands beside an exponential: with less, a quarter of it might be subnormal."""


@frozen
class _Quotient:
    """`numerator / (constant + 2^(power * exponent))`."""

    numerator: Value | float
    constant: float
    power: float
    exponent: Value


def with_logistics(field: HirFunction) -> HirFunction:
    """The field with such quotients; itself where it has none."""
    read = [value for op in field.body.body for value in op.operand_values]
    sums = {op.result: parts for op in field.body.body if (parts := _sum(op, read)) is not None}
    quotients = {op.result: parts for op in field.body.body if (parts := _divided(op, read)) is not None}
    if not sums and not quotients:
        return field
    out = FieldCopy.whole(field)
    b, values = out.body, out.values
    reciprocals: dict[Value, Value] = {}
    """Of a quarter of the divisors, by the sums."""
    for op in field.body.body:
        quotient = next((parts[op.result] for parts in (sums, quotients) if op.results and op.result in parts), None)
        scaled = _scaled(op, reciprocals)
        if quotient is not None:
            reciprocal = _reciprocal(b, quotient, values)
            if op.result in sums:
                reciprocals[op.result] = reciprocal
            numerator = quotient.numerator
            if isinstance(numerator, Value):
                quotient_ = b.mul(b.mul(values[numerator], _number(b, _SHARE)), reciprocal)
            else:
                quotient_ = b.mul(_number(b, numerator * _SHARE), reciprocal)
            out.put(op.result, quotient_)
        elif scaled is not None:
            factor, value, total = scaled
            out.put(op.result, b.mul(b.mul(values[value], _number(b, 2 * _SHARE * factor)), reciprocals[total]))
        else:
            out.copy(op)
    return out.finish()


def _number(b: Builder, number: float) -> Value:
    return b.const(number, Tile("f32"))


def _reciprocal(b: Builder, quotient: _Quotient, values: dict[Value, Value]) -> Value:
    """1 over a quarter of the divisor. Factors of the exponent are one."""
    power, exponent = quotient.power, quotient.exponent
    while (factor := _factor(exponent)) is not None:
        power, exponent = power * factor[0], factor[1]
    scaled = b.mul(values[exponent], _number(b, power))
    exponential = b.emit(Unary(operator="exp2", value=scaled, flags=("afn", "ftz"))).result
    divisor = b.fma(exponential, _number(b, _SHARE), _number(b, _SHARE * quotient.constant))
    return b.emit(Binary(operator="div", left=_number(b, 1.0), right=divisor, flags=("afn", "ftz"))).result


def _factor(value: Value) -> tuple[float, Value] | None:
    """A value that is a constant times another, or its negative."""
    match value.source:
        case Unary(operator="neg", value=inner):
            return -1.0, inner
        case Binary(operator="mul", left=Value(source=Const(value=number)), right=other) if dtype_of(value) == "f32":
            return float(number), other
        case Binary(operator="mul", left=other, right=Value(source=Const(value=number))) if dtype_of(value) == "f32":
            return float(number), other
        case _:
            return None


def _scaled(op: Instruction, sums: dict[Value, Value]) -> tuple[float, Value, Value] | None:
    """A product of a sum and a constant times another value: the constant, that value, the sum."""
    if not isinstance(op, Binary) or op.operator != "mul":
        return None
    for total, other in ((op.left, op.right), (op.right, op.left)):
        factor = _factor(other)
        if total in sums and factor is not None:
            return factor[0], factor[1], total
    return None


def _sum(op: Instruction, read: Sequence[Value]) -> _Quotient | None:
    """A sum of 1 and a tanh that nothing else reads."""
    if not isinstance(op, Binary) or op.operator != "add" or dtype_of(op.result) != "f32":
        return None
    for side, other in ((op.left, op.right), (op.right, op.left)):
        match side.source, other.source:
            case Const(value=1), Unary(operator="tanh", value=inner, flags=flags) if "afn" in flags and read.count(other) == 1:
                return _Quotient(2.0, 1.0, -2 * _LOG2_E, inner)
            case _:
                pass
    return None


def _divided(op: Instruction, read: Sequence[Value]) -> _Quotient | None:
    """A quotient by the sum of a constant and an exponential that nothing else reads."""
    if not isinstance(op, Binary) or op.operator != "div" or "afn" not in op.flags or dtype_of(op.result) != "f32":
        return None
    total = op.right.source
    if not isinstance(total, Binary) or total.operator != "add" or read.count(op.right) != 1:
        return None
    for side, other in ((total.left, total.right), (total.right, total.left)):
        match side.source, other.source:
            case Const(value=number), Unary(operator=operator, value=inner, flags=flags) if operator in _BASES and "afn" in flags:
                if read.count(other) == 1 and _CONSTANTS[0] <= number <= _CONSTANTS[1]:
                    numerator = op.left.source
                    above = float(numerator.value) if isinstance(numerator, Const) else op.left
                    return _Quotient(above, float(number), _BASES[operator], inner)
            case _:
                pass
    return None
