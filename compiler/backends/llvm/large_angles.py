"""Angles past 2**51 less their quarter turns, where there is no C library to ask: the bits of 2/pi that matter, times the angle's
mantissa, in 192-bit integers (Payne and Hanek's reduction)."""

import math
from functools import cache

from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import I64, pointer, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant

_WORDS = 20
_I128 = vector("i128")


def reduced(m: Maths, x: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
    """x = n*pi/2 + high + low for an f64 of 2**51 or more, and n as an int. (Of infinities and NaN, anything.)"""
    w = m.w
    bits = m.bits(m.abs(x))
    exponent = w.binary("lshr", bits, constant(I64, 52))
    mantissa = w.binary("or", w.binary("and", bits, constant(I64, (1 << 52) - 1)), constant(I64, 1 << 52))
    # the last place of the mantissa is 2**(exponent-1075); bits of 2/pi that make whole turns of it are left out
    start = w.binary("add", exponent, constant(I64, -1075 - 1 + 63))
    high, middle, low = _window(w, start)
    wide = [w.convert("zext", word, "i128") for word in (mantissa, middle, low)]
    product = w.binary("mul", wide[0], wide[2])
    carry = w.binary("lshr", product, constant(_I128, 64))
    second = w.binary("add", w.binary("mul", wide[0], wide[1]), carry)
    first = w.binary("add", w.binary("mul", mantissa, high), _upper(w, second))
    middle = w.convert("trunc", second, "i64")
    low = w.convert("trunc", product, "i64")
    # two bits of quarter turns, then the fraction, taken between -1/2 and 1/2
    fraction = [_joined(w, first, middle, 2), _joined(w, middle, low, 2)]
    over = w.binary("lshr", fraction[0], constant(I64, 63))
    number = w.binary("add", w.binary("lshr", first, constant(I64, 62)), over)
    flipped = w.binary("sub", constant(I64, 0), over)
    words = [w.binary("xor", word, flipped) for word in fraction]
    parts = []
    for position, word in enumerate(words):
        for half in range(2):
            piece = w.binary("lshr", word, constant(I64, 32)) if half == 0 else w.binary("and", word, constant(I64, (1 << 32) - 1))
            scaled = m.mul(w.convert("uitofp", piece, "double"), m.number(2.0 ** (-32 * (2 * position + half + 1))))
            parts.append(scaled)
    upper, error = m.two_sum(parts[0], parts[1])
    upper, error = m.two_sum(upper, m.add(error, m.add(parts[2], parts[3])))
    quarter, rest = math.pi / 2, 6.123233995736766e-17
    turn = m.mul(upper, m.number(quarter))
    tail = m.fma(upper, m.number(quarter), m.neg(turn))
    tail = m.add(tail, m.fma(upper, m.number(rest), m.mul(error, m.number(quarter))))
    # signs: of the fraction, and of x, for which n changes too
    negative = w.binary("xor", w.compare("ne", over, constant(I64, 0)), m.is_("olt", x, 0.0))
    turn, tail = (m.select(negative, m.neg(part), part) for part in (turn, tail))
    number = w.select(m.is_("olt", x, 0.0), w.binary("sub", constant(I64, 0), number), number)
    return turn, tail, number


def _upper(w: FunctionWriter, value: LlvmValue) -> LlvmValue:
    return w.convert("trunc", w.binary("lshr", value, constant(_I128, 64)), "i64")


def _joined(w: FunctionWriter, first: LlvmValue, second: LlvmValue, shift: int) -> LlvmValue:
    """The 64 bits that begin `shift` bits into the first word."""
    return w.binary("or", w.binary("shl", first, constant(I64, shift)), w.binary("lshr", second, constant(I64, 64 - shift)))


def _window(w: FunctionWriter, start: LlvmValue) -> list[LlvmValue]:
    """192 bits of the table, from bit `start` on, as three words."""
    words = two_over_pi()
    name = "zyn_two_over_pi"
    space = w.module.constant_space
    numbers = ", ".join(f"i64 {word - (word >> 63 << 64)}" for word in words)
    text = f"@{name} = internal addrspace({space}) constant [{len(words)} x i64] [{numbers}]"
    if text not in w.module.globals:
        w.module.globals.append(text)
    first = w.binary("lshr", start, constant(I64, 6))
    shift = w.binary("and", start, constant(I64, 63))
    table = LlvmValue(pointer(space), f"@{name}")
    held = [w.load(I64, w.offset(table, w.binary("add", first, constant(I64, number)), I64), 8) for number in range(4)]
    shifted = []
    for number in range(3):
        pair = w.binary("shl", w.convert("zext", held[number], "i128"), constant(_I128, 64))
        pair = w.binary("or", pair, w.convert("zext", held[number + 1], "i128"))
        shifted.append(_upper(w, w.binary("shl", pair, w.convert("zext", shift, "i128"))))
    return shifted


@cache
def two_over_pi() -> tuple[int, ...]:
    """64 zeros, then the bits of 2/pi behind the point, in words of 64."""
    bits = 64 * _WORDS + 64
    unit = 1 << bits

    def arctangent(inverse: int) -> int:
        total, power, number, sign = 0, unit // inverse, 1, 1
        while power:
            total += sign * (power // number)
            power //= inverse * inverse
            number, sign = number + 2, -sign
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    fraction = (unit * unit * 2 // pi) >> 64
    return tuple((fraction >> 64 * (_WORDS - 1 - number)) & (1 << 64) - 1 if number >= 0 else 0 for number in range(-1, _WORDS))
