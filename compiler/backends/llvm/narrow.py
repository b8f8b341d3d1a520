"""The floats narrower than f32: to and from their bits, and rounding an f32 to them (nearest, halves to even).

f16 uses LLVM's `half` conversions where the target has the instruction; bf16 and the 8-bit floats, and f16 elsewhere, are
integer arithmetic, which needs no library and vectorises."""

from collections.abc import Callable

from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant, poison
from compiler.hir.types import FLOATS


def _const(value: LlvmValue, number: int) -> LlvmValue:
    return constant(value.type.of("i32"), number)


def round_narrow(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """The f32 rounded to the narrow type, still as an f32."""
    if dtype == "bf16" and value.text in w.known_bf16:
        return value
    if dtype == "f16" and has_f16(w):
        rounded = w.convert("fpext", w.convert("fptrunc", value, "half"), "float")
        w.before_rounding[rounded.text] = value
        return rounded
    if dtype == "bf16" and w.module.native_bfloat and not value.type.lanes:
        return _known_bf16(w, _bf16_beside_zero(w, value, upper=True))
    if dtype == "bf16" and w.module.native_bfloat:
        words = poison(value.type.of("i32"))
        for lane in range(value.type.lanes):
            words = w.insert(words, _bf16_beside_zero(w, w.extract(value, lane), upper=True), lane)
        rounded = w.convert("bitcast", words, "float")
        w.before_rounding[rounded.text] = value
        return rounded
    if dtype == "bf16":
        return _known_bf16(w, w.binary("and", _bf16_rounded(w, value), _const(value, 0xFFFF0000)))
    rounded = from_bits(w, to_bits(w, value, dtype), dtype)
    if w.module.native_bytes and dtype in _EIGHTHS:
        w.before_rounding[rounded.text] = value
    return rounded


def to_bits(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """An f32 as the bits of the narrow type, rounded; vectors in pairs that are full."""
    value = w.before_rounding.get(value.text, value)
    if dtype == "f16" and has_f16(w):
        return w.convert("bitcast", w.convert("fptrunc", value, "half"), "i16")
    known = value.text in w.known_bf16
    if dtype == "bf16" and w.module.native_bfloat and not known:
        if not value.type.lanes:
            return w.convert("trunc", _bf16_beside_zero(w, value, upper=False), "i16")
        return w.convert("bitcast", w.convert("fptrunc", value, "bfloat"), "i16")
    if dtype == "bf16":
        bits = w.convert("bitcast", value, "i32") if known else _bf16_rounded(w, value)
        return w.convert("trunc", w.binary("lshr", bits, _const(value, 16)), "i16")
    if w.module.native_bytes and dtype in _EIGHTHS:
        return _lane_by_lane(w, value, "i8", lambda lane: _eighth_bits(w, lane, dtype))
    exponent, mantissa = _FORMATS[dtype]
    return _small_bits(w, value, dtype, exponent, mantissa)


def from_bits(w: FunctionWriter, bits: LlvmValue, dtype: str) -> LlvmValue:
    """The f32 of the bits of a narrow type: exact."""
    if dtype == "f16" and has_f16(w):
        return w.convert("fpext", w.convert("bitcast", bits, "half"), "float")
    if w.module.native_bytes and dtype in _EIGHTHS:
        return _lane_by_lane(w, bits, "float", lambda lane: _from_eighth_bits(w, lane, dtype))
    wide = w.convert("zext", bits, "i32")
    if dtype == "bf16":
        return _known_bf16(w, w.binary("shl", wide, _const(wide, 16)))
    exponent, mantissa = _FORMATS[dtype]
    return _from_small_bits(w, wide, dtype, exponent, mantissa)


def has_f16(w: FunctionWriter) -> bool:
    return w.module.native_half


_FORMATS = {"f16": (5, 10), "f8e4m3": (4, 3), "f8e5m2": (5, 2)}

_EIGHTHS = {"f8e4m3": ("e4m3x2", 464.0, 0x7F), "f8e5m2": ("e5m2x2", 61440.0 * (1 - 2.0**-24), 0x7C)}
"""Floats of 8 bits that GPUs convert: pairs of them in PTX, the largest f32 that isn't rounded past the largest one, and what such are."""


def _known_bf16(w: FunctionWriter, bits: LlvmValue) -> LlvmValue:
    """The f32 of bits whose lower half is 0: it needs no rounding to be stored."""
    value = w.convert("bitcast", bits, "float")
    w.known_bf16.add(value.text)
    return value


def _bf16_beside_zero(w: FunctionWriter, value: LlvmValue, upper: bool) -> LlvmValue:
    """A word with the bf16 in one half, on GPUs: pairs are narrowed by a unit four times as fast as the one that takes single floats."""
    zero = constant(value.type, 0.0)
    pair = [value, zero] if upper else [zero, value]
    (word,) = w.assembly("cvt.rn.bf16x2.f32 $0, $1, $2;", [value.type.of("i32")], "f,f", pair, pure=True, alone=True)
    return word


def _bf16_rounded(w: FunctionWriter, value: LlvmValue) -> LlvmValue:
    """Bits of the f32 whose upper half is the bf16: add just under half, and the lowest kept bit; NaN is made quiet instead."""
    bits = w.convert("bitcast", value, "i32")
    odd = w.binary("and", w.binary("lshr", bits, _const(bits, 16)), _const(bits, 1))
    rounded = w.binary("add", w.binary("add", bits, _const(bits, 0x7FFF)), odd)
    if value.text in w.short_nan:
        return rounded
    quiet = w.binary("or", bits, _const(bits, 0x00400000))
    return w.select(w.compare("uno", value, value), quiet, rounded)


def _lane_by_lane(w: FunctionWriter, value: LlvmValue, element: str, convert: Callable[[LlvmValue], LlvmValue]) -> LlvmValue:
    if not value.type.lanes:
        return convert(value)
    made = poison(value.type.of(element))
    for lane in range(value.type.lanes):
        made = w.insert(made, convert(w.extract(value, lane)), lane)
    return made


def _eighth_bits(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """By the instruction, which ends at the largest number: what is rounded past it, and NaN, have bits of their own."""
    pair, largest, infinite = _EIGHTHS[dtype]
    zero = constant(value.type, 0.0)
    (word,) = w.assembly(f"cvt.rn.satfinite.{pair}.f32 $0, $1, $2;", [value.type.of("i16")], "f,f", [zero, value], pure=True, alone=True)
    bits = w.convert("bitcast", value, "i32")
    sign = w.binary("and", w.binary("lshr", bits, _const(bits, 24)), _const(bits, 0x80))
    above = w.binary("or", sign, _const(bits, infinite))
    if dtype == "f8e5m2":
        above = w.select(w.compare("uno", value, value), w.binary("or", sign, _const(bits, 0x7E)), above)
    inside = w.compare("ole", w.intrinsic("fabs", value), constant(value.type, largest))
    return w.convert("trunc", w.select(inside, w.convert("zext", word, "i32"), above), "i8")


def _from_eighth_bits(w: FunctionWriter, bits: LlvmValue, dtype: str) -> LlvmValue:
    """Through f16, which has all of them."""
    word = w.convert("zext", bits, "i16")
    (halves,) = w.assembly(f"cvt.rn.f16x2.{_EIGHTHS[dtype][0]} $0, $1;", [bits.type.of("i32")], "h", [word], pure=True, alone=True)
    return w.convert("fpext", w.convert("bitcast", w.convert("trunc", halves, "i16"), "half"), "float")


def _small_bits(w: FunctionWriter, value: LlvmValue, dtype: str, exponent: int, mantissa: int) -> LlvmValue:
    """Normal results: rebias and round in the integer. Subnormal ones: add a power of two whose last place is the type's."""
    bias = (1 << (exponent - 1)) - 1
    shift = 23 - mantissa
    bits = w.convert("bitcast", value, "i32")
    sign = w.binary("and", w.binary("lshr", bits, _const(bits, 32 - FLOATS[dtype])), _const(bits, 1 << (FLOATS[dtype] - 1)))
    size = w.binary("and", bits, _const(bits, 0x7FFFFFFF))
    odd = w.binary("and", w.binary("lshr", size, _const(bits, shift)), _const(bits, 1))
    half = (1 << (shift - 1)) - 1
    rounded = w.binary("add", w.binary("add", size, odd), _const(bits, half - ((127 - bias) << 23)))
    normal = w.binary("lshr", rounded, _const(bits, shift))
    # magic has the last place of the smallest subnormal: 2**(1-bias-mantissa)
    magic = (127 + (1 - bias - mantissa) + 23) << 23
    magic_float = w.convert("bitcast", _const(bits, magic), "float")
    tiny = w.binary("fadd", w.convert("bitcast", size, "float"), magic_float)
    subnormal = w.binary("sub", w.convert("bitcast", tiny, "i32"), _const(bits, magic))
    small = w.compare("ult", size, _const(bits, (127 - bias + 1) << 23))
    result = w.select(small, subnormal, normal)
    if dtype == "f8e4m3":
        # no infinity: what rounds past 448 is NaN
        top = 0x7F
        over = w.compare("ugt", result, _const(bits, 0x7E))
        infinite = top
    else:
        infinite = ((1 << exponent) - 1) << mantissa
        over = w.compare("uge", size, _const(bits, ((127 + bias + 1) << 23) - (1 << (shift - 1))))
        top = infinite | (1 << (mantissa - 1))
    result = w.select(over, _const(bits, infinite), result)
    result = w.select(w.compare("ugt", size, _const(bits, 0x7F800000)), _const(bits, top), result)
    if dtype == "f8e4m3":
        result = w.select(w.compare("uge", size, _const(bits, (127 + 9) << 23)), _const(bits, top), result)
    return w.convert("trunc", w.binary("or", result, sign), f"i{FLOATS[dtype]}")


def _from_small_bits(w: FunctionWriter, wide: LlvmValue, dtype: str, exponent: int, mantissa: int) -> LlvmValue:
    """Shift into place; multiplying by a power of two rebiases, and makes subnormals normal on the way."""
    width = FLOATS[dtype]
    bias = (1 << (exponent - 1)) - 1
    sign = w.binary("shl", w.binary("and", wide, _const(wide, 1 << (width - 1))), _const(wide, 32 - width))
    size = w.binary("and", wide, _const(wide, (1 << (width - 1)) - 1))
    shifted = w.convert("bitcast", w.binary("shl", size, _const(wide, 23 - mantissa)), "float")
    scaled = w.binary("fmul", shifted, constant(shifted.type, 2.0 ** (127 - bias)))
    bits = w.convert("bitcast", scaled, "i32")
    if dtype == "f8e4m3":
        special = w.compare("eq", size, _const(wide, 0x7F))
        bits = w.select(special, _const(wide, 0x7FC00000), bits)
    else:
        infinite = ((1 << exponent) - 1) << mantissa
        special = w.compare("uge", size, _const(wide, infinite))
        bits = w.select(special, w.binary("or", bits, _const(wide, 0x7F800000)), bits)
    return w.convert("bitcast", w.binary("or", bits, sign), "float")


def double_to_odd_float(w: FunctionWriter, value: LlvmValue) -> LlvmValue:
    """An f64 as an f32, rounded to odd: rounding that once more to a narrower type is then right."""
    nearest = w.convert("fptrunc", value, "float")
    back = w.convert("fpext", nearest, "double")
    bits = w.convert("bitcast", nearest, "i32")
    beyond = w.compare("ogt", w.intrinsic("fabs", back), w.intrinsic("fabs", value))
    toward_zero = w.binary("sub", bits, w.convert("zext", beyond, "i32"))
    inexact = w.compare("one", back, value)
    odd = w.binary("or", toward_zero, w.convert("zext", inexact, "i32"))
    return w.convert("bitcast", odd, "float")


