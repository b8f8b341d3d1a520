"""exp, exp2, log, log2, pow and the hyperbolic functions, for f32 and f64.

exp: n = x/ln2 rounded, r = x - n*ln2 in two steps, e**r by a polynomial, times 2**n. log: x = 2**e * m with m about 1,
s = (m-1)/(m+1), a series in s*s. Errors in ulp, f32 / f64: exp 1.1 / 1.0, exp2 1.0 / 1.0, log 1.0 / 1.0, log2 2.0 / 2.0,
sinh 2.5 / 2.5, cosh 2.0 / 2.0, tanh 2.5 / 2.5, pow 0.6 / 4.0. All handle subnormals, infinities and NaN. AVX-512 has instructions that
scale whole vectors and take them apart; they give the same bits."""

import math

from compiler.backends.llvm import coefficients
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.writer import LlvmValue


def _reduce_exp(m: Maths, x: LlvmValue, tail: LlvmValue | None = None) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
    """e**r - 1 = r + r**2 * P(r), and n as an int and as a float. `tail` is added to x exactly enough."""
    n, number = m.nearest((x, m.number(1 / math.log(2))))
    high, low = coefficients.LN2 if m.double else coefficients.LN2_F32
    r = m.fma(n, m.number(-high), x)
    r = m.fma(n, m.number(-low), r)
    if tail is not None:
        r = m.add(r, tail)
    return m.fma(m.mul(r, r), m.polynomial("exp", r), r), number, n


def exp(m: Maths, x: LlvmValue, tail: LlvmValue | None = None) -> LlvmValue:
    x = m.clamp(x, *((-800.0, 800.0) if m.double else (-120.0, 120.0)))
    power, n, number = _reduce_exp(m, x, tail)
    return m.scale(m.add(power, m.number(1.0)), n, number)


def exp_in_range(m: Maths, x: LlvmValue) -> LlvmValue:
    """e**x where that is a normal number."""
    power, n, _ = _reduce_exp(m, x)
    return m.mul(m.add(power, m.number(1.0)), m.power_of_two(n))


def exp2(m: Maths, x: LlvmValue) -> LlvmValue:
    x = m.clamp(x, *((-1200.0, 1200.0) if m.double else (-200.0, 200.0)))
    n, number = m.nearest((x, m.number(1.0)))
    r = m.sub(x, n)
    return m.scale(m.fma(r, m.polynomial("exp2", r), m.number(1.0)), number, n)


def exp2_in_range(m: Maths, x: LlvmValue) -> LlvmValue:
    """2**x where that is a normal number."""
    n, number = m.nearest((x, m.number(1.0)))
    r = m.sub(x, n)
    return m.mul(m.fma(r, m.polynomial("exp2", r), m.number(1.0)), m.power_of_two(number))


def expm1_positive(m: Maths, x: LlvmValue) -> LlvmValue:
    """e**x - 1 for 0 <= x, below the overflow of e**x."""
    rest, n, _ = _reduce_exp(m, x)
    power = m.power_of_two(n)
    return m.fma(power, rest, m.sub(power, m.number(1.0)))


def half_exp(m: Maths, x: LlvmValue) -> LlvmValue:
    """e**x / 2, which overflows no sooner than it must."""
    x = m.clamp(x, *((-800.0, 800.0) if m.double else (-120.0, 120.0)))
    power, n, number = _reduce_exp(m, x)
    return m.scale(m.add(power, m.number(1.0)), m.w.binary("sub", n, m.int(1)), m.sub(number, m.number(1.0)))


def _split(m: Maths, x: LlvmValue, normal: bool = False) -> tuple[LlvmValue, LlvmValue]:
    """A positive x as m * 2**e, m from sqrt(1/2) to sqrt(2): m and e, a float. Subnormals are scaled up first."""
    if m.takes_apart:
        fraction, e = m.parts(x)
        large = m.is_("oge", fraction, 2 * (math.sqrt(0.5) if m.double else _single(math.sqrt(0.5))))
        return m.select(large, m.mul(fraction, m.number(0.5)), fraction), m.select(large, m.add(e, m.number(1.0)), e)
    if normal:
        return _split_normal(m, x, m.number(1.5 * 2.0**m.mantissa))
    small = m.is_("olt", x, 2.0 ** (1 - m.bias))
    up = m.mantissa + 2
    x = m.select(small, m.mul(x, m.number(2.0**up)), x)
    return _split_normal(m, x, m.select(small, m.number(1.5 * 2.0**m.mantissa + up), m.number(1.5 * 2.0**m.mantissa)))


def _split_normal(m: Maths, x: LlvmValue, zero: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """The same; what `zero` is more than the magic number, the exponent is less."""
    w, bits = m.w, m.bits(x)
    # taking the bits of sqrt(1/2) away puts the border of the exponent there
    root = m.bits(m.number(math.sqrt(0.5)))
    moved = w.binary("sub", bits, root)
    e = w.binary("ashr", moved, m.int(m.mantissa))
    fraction = w.binary("sub", bits, w.binary("shl", e, m.int(m.mantissa)))
    # a small int as a float, by way of the magic number's last places: cheaper than a conversion of i64
    placed = m.from_bits(w.binary("add", e, m.bits(m.number(1.5 * 2.0**m.mantissa))))
    return m.from_bits(fraction), m.sub(placed, zero)


def _log_special(m: Maths, x: LlvmValue, result: LlvmValue) -> LlvmValue:
    result = m.select(m.is_("oeq", x, math.inf), x, result)
    result = m.select(m.is_("oeq", x, 0.0), m.number(-math.inf), result)
    return m.select(m.is_("ult", x, 0.0), m.number(math.nan), result)


def _log_kernel(m: Maths, fraction: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """log of m about 1, as f and what is to be taken from it: log m = f - (f*f/2 - s*(f*f/2 + R))."""
    f = m.sub(fraction, m.number(1.0))
    s = m.quotient(f, m.add(f, m.number(2.0)))
    z = m.mul(s, s)
    half_square = m.mul(m.mul(f, m.number(0.5)), f)
    rest = m.mul(z, m.polynomial("log", z))
    return f, m.sub(half_square, m.mul(s, m.add(half_square, rest)))


def log(m: Maths, x: LlvmValue) -> LlvmValue:
    result = _log(m, *_split(m, x))
    return result if m.takes_apart else _log_special(m, x, result)


def log_of_normal(m: Maths, x: LlvmValue) -> LlvmValue:
    """log x where x isn't less than the least normal number; it may be infinite or NaN."""
    if m.takes_apart:
        return log(m, x)
    return m.select(m.is_("olt", x, math.inf), _log(m, *_split(m, x, normal=True)), x)


def _log(m: Maths, fraction: LlvmValue, e: LlvmValue) -> LlvmValue:
    """In f32 log m = f + f*f * P(f), and log 2 is right to 28 bits as it is."""
    if not m.double:
        f = m.sub(fraction, m.number(1.0))
        return m.fma(e, m.number(math.log(2)), m.fma(m.mul(f, f), m.polynomial("log1p", f), f))
    f, less = _log_kernel(m, fraction)
    high, low = coefficients.LN2
    less = m.fma(e, m.number(-low), less)
    return m.add(m.mul(e, m.number(high)), m.sub(f, less))


def log2(m: Maths, x: LlvmValue) -> LlvmValue:
    """The natural logarithm's two parts times log2(e), in two parts itself."""
    fraction, e = _split(m, x)
    f, less = _log_kernel(m, fraction)
    natural, error = m.two_sum(f, m.neg(less))
    high = 1 / math.log(2) if m.double else _single(1 / math.log(2))
    low = coefficients.LOG2_E[1] if m.double else _single(1 / math.log(2) - high)
    product = m.mul(natural, m.number(high))
    rest = m.fma(natural, m.number(high), m.neg(product))
    rest = m.fma(natural, m.number(low), rest)
    rest = m.fma(error, m.number(high), rest)
    total, lost = m.two_sum(e, product)
    # when e is 0 the first is smaller than the second, and the sum exact
    lost = m.select(m.is_("oeq", e, 0.0), m.number(0.0), lost)
    return _log_special(m, x, m.add(total, m.add(lost, rest)))


def _single(x: float) -> float:
    import struct

    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def sinh(m: Maths, x: LlvmValue) -> LlvmValue:
    """(E + E/(E+1)) / 2 with E = e**|x| - 1; for large |x| half of e**|x|."""
    size = m.abs(x)
    border = 22.0 if m.double else 10.0
    e = expm1_positive(m, m.clamp(size, 0.0, border))
    small = m.mul(m.number(0.5), m.add(e, m.div(e, m.add(e, m.number(1.0)))))
    result = m.select(m.is_("ogt", size, border), half_exp(m, size), small)
    return m.sign_of(result, x)


def cosh(m: Maths, x: LlvmValue) -> LlvmValue:
    """t + 1/(4t) with t = e**|x| / 2."""
    t = half_exp(m, m.abs(x))
    return m.add(t, m.div(m.number(0.25), t))


def tanh(m: Maths, x: LlvmValue) -> LlvmValue:
    """E / (E + 2) with E = e**(2|x|) - 1."""
    size = m.abs(x)
    doubled = m.clamp(m.add(size, size), 0.0, 44.0 if m.double else 22.0)
    e = expm1_positive(m, doubled)
    return m.sign_of(m.quotient(e, m.add(e, m.number(2.0))), x)


def pow(m: Maths, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """e**(y * log|x|), the logarithm and the product in two parts; f32 in f64, where one part is enough. Corner cases are those of C."""
    size = m.abs(x)
    return _pow_signed(m, x, y, size, _pow_double(m, size, y) if m.double else _pow_single(m, size, y))


def _pow_single(m: Maths, size: LlvmValue, y: LlvmValue) -> LlvmValue:
    """2**(y * log2 size), in f64 no more exactly than f32 needs: log2 is right to 2**-38 of it, and y * log2 size is below 150."""
    wide, (fraction, e) = m.widened(), _split(m, size)
    # log2 of infinity and NaN are what they are
    e = m.select(m.is_("oeq", size, 0.0), m.number(-math.inf), m.select(m.is_("olt", size, math.inf), e, size))
    top = wide.sub(m.widen(fraction), wide.number(1.0))
    s = wide.quotient(top, wide.add(top, wide.number(2.0)))
    power = wide.mul(m.widen(y), wide.fma(s, wide.polynomial("log2_of_base", wide.mul(s, s)), m.widen(e)))
    n, number = wide.nearest((wide.clamp(power, -200.0, 200.0), wide.number(1.0)))
    r = wide.sub(wide.clamp(power, -200.0, 200.0), n)
    return m.narrow(wide.mul(wide.fma(r, wide.polynomial("exp2_of_power", r), wide.number(1.0)), wide.power_of_two(number)))


def _pow_double(m: Maths, size: LlvmValue, y: LlvmValue) -> LlvmValue:
    high, low = _log_pair(m, size)
    high = m.select(m.is_("oeq", size, 0.0), m.number(-math.inf), m.select(m.is_("olt", size, math.inf), high, size))
    product = m.mul(y, high)
    tail = m.fma(y, low, m.fma(y, high, m.neg(product)))
    # where the product is infinite its tail says nothing
    return exp(m, product, m.select(m.is_("olt", m.abs(product), 1e6), tail, m.number(0.0)))


def _log_pair(m: Maths, x: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """log x in two parts, right to about 2**-62 of it, of a positive finite x."""
    fraction, e = _split(m, x)
    unit = m.number(1.0)
    top = m.sub(fraction, unit)
    bottom, bottom_low = m.two_sum(m.number(2.0), top)
    s = m.div(top, bottom)
    error = m.fma(s, m.neg(bottom), top)
    s_low = m.div(m.fma(s, m.neg(bottom_low), error), bottom)
    z = m.mul(s, s)
    z_low = m.fma(s, s, m.neg(z))
    z_low = m.fma(m.add(s, s), s_low, z_low)
    # 2s + s*z*(2/3 + z*rest): the 2/3 needs two parts, what follows one
    rest = m.horner(m.coefficients("log")[1:], z)
    third, third_low = 2 / 3, 3.700743415417188e-17
    cubic = m.mul(z, rest)
    inner = m.add(m.number(third), cubic)
    inner_low = m.add(m.add(m.sub(m.number(third), inner), cubic), m.number(third_low))
    product = m.mul(z, inner)
    product_low = m.fma(z, inner, m.neg(product))
    product_low = m.add(product_low, m.fma(z, inner_low, m.mul(z_low, inner)))
    tail = m.mul(s, product)
    tail_low = m.fma(s, product, m.neg(tail))
    tail_low = m.add(tail_low, m.fma(s, product_low, m.mul(s_low, product)))
    twice = m.add(s, s)
    high, low = m.two_sum(twice, tail)
    low = m.add(low, m.add(tail_low, m.add(s_low, s_low)))
    base, base_low = coefficients.LN2
    whole = m.mul(e, m.number(base))
    total, lost = m.two_sum(whole, high)
    total, lost = m.select(m.is_("oeq", e, 0.0), high, total), m.select(m.is_("oeq", e, 0.0), m.number(0.0), lost)
    low = m.add(lost, m.fma(e, m.number(base_low), low))
    return m.two_sum(total, low)


def _pow_signed(m: Maths, x: LlvmValue, y: LlvmValue, size: LlvmValue, result: LlvmValue) -> LlvmValue:
    """x**y of |x|**y, where x may be negative, or 1, or y 0: then NaN and infinities don't matter."""
    unit, half = m.number(1.0), m.mul(y, m.number(0.5))
    result = m.select(m.is_("oeq", size, 1.0), unit, result)
    # only integer exponents, the odd ones turn the sign (floats past 2**53 are even)
    whole = m.is_("oeq", m.w.intrinsic("floor", y), y)
    odd = m.both(whole, m.is_("une", m.w.intrinsic("floor", half), half))
    result = m.select(odd, m.sign_of(result, x), result)
    bad = m.both(m.both(m.is_("olt", x, 0.0), m.is_("ogt", x, -math.inf)), m.w.binary("xor", whole, m.w.true(whole.type.lanes)))
    result = m.select(bad, m.number(math.nan), result)
    return m.select(m.either(m.is_("oeq", x, 1.0), m.is_("oeq", y, 0.0)), unit, result)
