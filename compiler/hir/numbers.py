"""What arithmetic on single numbers means, exactly: wrapping ints, floats rounded to their type, saturating casts, NaN rules. The
interpreter works with Python's own `int`, `float` and `bool`; a float always holds a value that its type can represent."""

import math
import struct
from array import array
from collections.abc import Callable
from fractions import Fraction

from compiler.hir.types import DTYPES, FLOATS, is_float, is_signed

NAN = math.nan
INFINITY = math.inf
SENTINEL = 2**63 - 1
"""The index that belongs to the identity of argmin and argmax."""

# ---- rounding ----------------------------------------------------------------------------------------------------

_single = array("f", [0.0])
_single_bits = memoryview(_single).cast("B").cast("I")


def round_f32(x: float) -> float:
    _single[0] = x
    return _single[0]


def round_f16(x: float) -> float:
    try:
        return struct.unpack("<e", struct.pack("<e", x))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(INFINITY, x)


def _round_to(x: float, precision: int, least: int, largest: float, beyond: float) -> float:
    """Nearest even with `precision` bits; `least` is the exponent of the last bit of a subnormal; past `largest` comes `beyond`."""
    if x != x or x in (0.0, INFINITY, -INFINITY):
        return x if abs(x) <= largest or x != x else math.copysign(beyond, x)
    _, exponent = math.frexp(x)
    unit = max(exponent - precision, least)
    rounded = math.copysign(math.ldexp(round(math.ldexp(x, -unit)), unit), x)
    return rounded if abs(rounded) <= largest else math.copysign(beyond, x)


def round_bf16(x: float) -> float:
    return _round_to(x, 8, -133, 3.3895313892515355e38, INFINITY)


def round_e4m3(x: float) -> float:
    return _round_to(x, 4, -9, 448.0, NAN)


def round_e5m2(x: float) -> float:
    return _round_to(x, 3, -16, 57344.0, INFINITY)


def same(x: float) -> float:
    return x


ROUND: dict[str, Callable[[float], float]] = {
    "f64": same,
    "f32": round_f32,
    "f16": round_f16,
    "bf16": round_bf16,
    "f8e4m3": round_e4m3,
    "f8e5m2": round_e5m2,
}


def odd_double(x: Fraction) -> float:
    """The exact number as a double that rounds to any narrower type as the number itself would: toward the odd neighbour."""
    try:
        near = float(x)
    except OverflowError:
        return INFINITY if x > 0 else -INFINITY
    exact = Fraction(near)
    if exact == x or struct.unpack("<q", struct.pack("<d", near))[0] & 1:
        return near
    return math.nextafter(near, INFINITY if x > exact else -INFINITY)


def int_to_float(value: int, dtype: str) -> float:
    if dtype == "f64" or -(2**53) <= value <= 2**53:
        return ROUND[dtype](float(value))
    return ROUND[dtype](odd_double(Fraction(value)))


# ---- ints --------------------------------------------------------------------------------------------------------


def limits(dtype: str) -> tuple[int, int]:
    bits = DTYPES[dtype]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed(dtype) else (0, (1 << bits) - 1)


def wrap(value: int, dtype: str) -> int | bool:
    bits = DTYPES[dtype]
    if dtype == "i1":
        return bool(value & 1)
    if not is_signed(dtype):
        return value & ((1 << bits) - 1)
    half = 1 << bits - 1
    return ((value + half) & ((1 << bits) - 1)) - half


def int_divide(a: int, b: int) -> int:
    """Toward zero, not wrapped."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def int_remainder(a: int, b: int) -> int:
    """With the dividend's sign."""
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def int_power(a: int, b: int) -> int:
    """A negative exponent gives 1 / a**|b| rounded toward zero."""
    if b >= 0:
        return pow(a, b, 1 << 64) if a >= 0 else pow(a % (1 << 64), b, 1 << 64)
    if a == 1:
        return 1
    return (-1 if b & 1 else 1) if a == -1 else 0


def float_to_int(x: float, low: int, high: int) -> int:
    """Toward zero, saturating, NaN to 0."""
    if x != x:
        return 0
    if x <= low:
        return low
    return high if x >= high else int(x)


# ---- floats ------------------------------------------------------------------------------------------------------


def divide(a: float, b: float) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return NAN if a == 0 or a != a else math.copysign(INFINITY, a) * math.copysign(1.0, b)


def remainder(a: float, b: float) -> float:
    try:
        return math.fmod(a, b)
    except ValueError:
        return NAN


def smaller(a: float, b: float) -> float:
    if a == b:
        return a if math.copysign(1.0, a) < 0 else b
    if a < b:
        return a
    return b if b < a else NAN


def larger(a: float, b: float) -> float:
    if a == b:
        return b if math.copysign(1.0, a) < 0 else a
    if a > b:
        return a
    return b if b > a else NAN


def power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -INFINITY if a < 0 and b % 2 == 1 else INFINITY
    except ValueError:
        if a != 0:
            return NAN
        return math.copysign(INFINITY, a) if b % 2 == 1 else INFINITY


def fma(a: float, b: float, c: float, dtype: str) -> float:
    """a * b + c rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a * b == 0 else 0.0
    if dtype == "f64":
        try:
            return float(exact)
        except OverflowError:
            return INFINITY if exact > 0 else -INFINITY
    return ROUND[dtype](odd_double(exact))


def sign(x: float) -> float:
    return x if x == 0 or x != x else math.copysign(1.0, x)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding to integers, as a float that keeps its sign, NaN and infinities."""

    def rounded(x: float) -> float:
        return math.copysign(float(function(x)), x) if -4503599627370496.0 < x < 4503599627370496.0 else x

    return rounded


def _guarded(function: Callable[[float], float], at_zero: float | None = None, overflow: float = INFINITY) -> Callable[[float], float]:
    """A function of the math module that gives NaN where it has no value, `at_zero` at a pole there."""

    def guarded(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return at_zero if at_zero is not None and x == 0 else NAN
        except OverflowError:
            return overflow

    return guarded


def _reciprocal_root(x: float) -> float:
    return math.copysign(INFINITY, x) if x == 0 else NAN if x < 0 else 1.0 / math.sqrt(x)


def _sinh(x: float) -> float:
    try:
        return math.sinh(x)
    except OverflowError:
        return math.copysign(INFINITY, x)


FLOAT_UNARY: dict[str, Callable[[float], float]] = {
    "sign": sign,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "round": _whole(round),
    "trunc": _whole(math.trunc),
    "sqrt": _guarded(math.sqrt),
    "rsqrt": _reciprocal_root,
    "exp": _guarded(math.exp),
    "exp2": _guarded(math.exp2),
    "log": _guarded(math.log, -INFINITY),
    "log2": _guarded(math.log2, -INFINITY),
    "erf": math.erf,
    "sin": _guarded(math.sin),
    "cos": _guarded(math.cos),
    "tan": _guarded(math.tan),
    "asin": _guarded(math.asin),
    "acos": _guarded(math.acos),
    "atan": math.atan,
    "sinh": _sinh,
    "cosh": _guarded(math.cosh),
    "tanh": math.tanh,
}
"""Functions of one float, before rounding to the type."""

# ---- bits --------------------------------------------------------------------------------------------------------

_FORMATS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "index": "q"}
_FLOAT_FORMATS = {"f16": "e", "f32": "f", "f64": "d"}


def bits_of(value: float | int, dtype: str) -> int:
    """The number's bits as an unsigned int."""
    match dtype:
        case "bf16":
            _single[0] = value
            return _single_bits[0] >> 16
        case "f8e4m3" | "f8e5m2":
            return _eight_bits(float(value), dtype)
        case "f16" | "f32" | "f64":
            return int.from_bytes(struct.pack("<" + _FLOAT_FORMATS[dtype], value), "little")
        case _:
            return int(value) & ((1 << DTYPES[dtype]) - 1)


def number_of(bits: int, dtype: str) -> float | int | bool:
    """The number that these bits stand for."""
    match dtype:
        case "bf16":
            _single_bits[0] = bits << 16
            return _single[0]
        case "f8e4m3" | "f8e5m2":
            return _eight_bit_number(bits, dtype)
        case "f16" | "f32" | "f64":
            return struct.unpack("<" + _FLOAT_FORMATS[dtype], bits.to_bytes(FLOATS[dtype] // 8, "little"))[0]  # type: ignore[no-any-return]
        case _:
            return wrap(bits, dtype)


def _eight_bit_number(bits: int, dtype: str) -> float:
    mantissa_bits, bias = (3, 7) if dtype == "f8e4m3" else (2, 15)
    negative, rest = bits >> 7, bits & 0x7F
    exponent, mantissa = rest >> mantissa_bits, rest & ((1 << mantissa_bits) - 1)
    if dtype == "f8e4m3":
        value = NAN if rest == 0x7F else 0.0
    else:
        value = (NAN if mantissa else INFINITY) if exponent == 31 else 0.0
    if value == 0.0:
        fraction = mantissa + (1 << mantissa_bits if exponent else 0)
        value = math.ldexp(fraction, max(exponent, 1) - bias - mantissa_bits)
    return -value if negative else value


def _eight_bits(value: float, dtype: str) -> int:
    if value != value:
        return 0x7F
    negative = 0x80 if math.copysign(1.0, value) < 0 else 0
    low, high = 0, 0x7E if dtype == "f8e4m3" else 0x7C
    while low < high:  # the numbers grow with their bits
        middle = (low + high) // 2
        low, high = (middle + 1, high) if _eight_bit_number(middle, dtype) < abs(value) else (low, middle)
    return negative | low


class Numbers(dict[int, float]):
    """The numbers of a narrow float type by their bits, filled as they are asked for."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def __missing__(self, bits: int) -> float:
        number = self[bits] = float(number_of(bits, self.dtype))
        return number


def bitcast(value: float | int, source: str, to: str) -> float | int | bool:
    return number_of(bits_of(value, source), to)


# ---- monoids -----------------------------------------------------------------------------------------------------


def identity(monoid: str, dtype: str) -> float | int | bool:
    """The element that changes nothing."""
    floating = is_float(dtype)
    match monoid:
        case "add" | "or" | "xor":
            return 0.0 if floating else wrap(0, dtype)
        case "mul":
            return 1.0 if floating else wrap(1, dtype)
        case "and":
            return wrap(-1, dtype)
        case "min" | "argmin":
            return INFINITY if floating else bool(limits(dtype)[1]) if dtype == "i1" else limits(dtype)[1]
        case _:
            return -INFINITY if floating else bool(limits(dtype)[0]) if dtype == "i1" else limits(dtype)[0]


def beats(monoid: str, new: tuple[float | int, ...], old: tuple[float | int, ...]) -> bool:
    """Whether the second pair (value, index...) of argmin or argmax takes the place of the first: NaN wins, then the better value, then
    the lower index."""
    a, b = new[0], old[0]
    if a != a or b != b:
        return a != a and (b == b or new[1:] < old[1:])
    if a == b:
        return new[1:] < old[1:]
    return a < b if monoid == "argmin" else a > b


def convert(value: float | int | bool, source: str, to: str) -> float | int | bool:
    """`cast` on one number."""
    if to == "i1":
        return bool(value != 0)
    if is_float(to):
        return ROUND[to](float(value)) if is_float(source) else int_to_float(int(value), to)
    if is_float(source):
        return float_to_int(float(value), *limits(to))
    return wrap(int(value), to)
