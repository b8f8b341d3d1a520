"""sin, cos, tan and their inverses, and erf, for f32 and f64.

sin and cos: x less the nearest multiple of pi/2, taken away in four parts (f32: in f64, in two), then a polynomial. Past 2**51,
where neighbouring f64 lie half a radian apart, the C library's function is called, lane by lane and out of line; a scalar loop
with that call isn't vectorised, a tile is. Errors in ulp, f32 / f64: sin and cos 1.5 / 1.0, tan 1.0 / 2.5, asin and acos
1.0 / 1.0, atan and atan2 2.0 / 2.0, erf 1.5 / 1.5."""

import math

from compiler.backends.llvm import coefficients
from compiler.backends.llvm.exponential import exp, exp2_in_range, exp_in_range
from compiler.backends.llvm.large_angles import reduced
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.writer import LlvmValue

OF_ANGLES = frozenset({"sin", "cos", "tan"})
"""Functions that branch where an angle is past the limit."""

LIMIT = 2.0**51 * 0.9

ONE_FROM = 3.93
"""Where erf rounds to 1 in f32."""


def _reduce(m: Maths, x: LlvmValue, single: bool) -> tuple[LlvmValue, LlvmValue | None, LlvmValue]:
    """x = n*pi/2 + high + low in f64: high, low, and n as an int. An x that is an f32 comes no nearer to a multiple of pi/2 than
    two parts can tell (the first difference is exact), and has no low."""
    n, number = m.nearest((x, m.number(coefficients.TWO_OVER_PI)))
    first, second, third, fourth = (m.number(-part) for part in coefficients.HALF_PI)
    r = m.fma(n, first, x)
    if single:
        return m.fma(n, second, r), None, number
    # the second part's product and sum are kept whole: they may cancel
    product = m.mul(n, second)
    product_low = m.fma(n, second, m.neg(product))
    high = m.add(r, product)
    moved = m.sub(high, r)
    lost = m.add(m.sub(r, m.sub(high, moved)), m.sub(product, moved))
    low = m.fma(n, third, m.add(lost, product_low))
    high, low = m.two_sum(high, low)
    low = m.fma(n, fourth, low)
    return high, low, number


def _sine(m: Maths, r: LlvmValue, low: LlvmValue | None) -> LlvmValue:
    """sin(r + low), |r| up to pi/4."""
    z = m.mul(r, r)
    rest = m.mul(m.mul(z, r), m.polynomial("sin", z))
    if low is not None:
        # cos(r) is near enough 1 - z/2 here
        rest = m.fma(low, m.fma(z, m.number(-0.5), m.number(1.0)), rest)
    return m.add(r, rest)


def _cosine(m: Maths, r: LlvmValue, low: LlvmValue | None) -> LlvmValue:
    """cos(r + low): 1 - z/2 is split so that its rounding is kept."""
    z = m.mul(r, r)
    half = m.mul(z, m.number(0.5))
    head = m.sub(m.number(1.0), half)
    lost = m.sub(m.sub(m.number(1.0), head), half)
    rest = m.mul(m.mul(z, z), m.polynomial("cos", z))
    if low is not None:
        rest = m.fma(m.neg(r), low, rest)
    return m.add(head, m.add(lost, rest))


def _quadrant(m: Maths, x: LlvmValue, offset: int) -> LlvmValue:
    """sin(x + offset*pi/2)."""
    w = m.w
    wide = m.widened()
    high, tail, number = _reduce(wide, x if m.double else m.widen(x), not m.double)
    if not m.double:
        high = m.narrow(high)
        number = w.convert("trunc", number, "i32")
    return _of_quadrant(m, high, tail, w.binary("add", number, m.int(offset)))


def _of_quadrant(m: Maths, high: LlvmValue, tail: LlvmValue | None, number: LlvmValue) -> LlvmValue:
    """sin(high + tail + number*pi/2)."""
    w = m.w
    odd = w.compare("ne", w.binary("and", number, m.int(1)), m.int(0))
    result = m.select(odd, _cosine(m, high, tail), _sine(m, high, tail))
    sign = w.binary("shl", w.binary("and", number, m.int(2)), m.int(m.type.bits - 2))
    return m.from_bits(w.binary("xor", m.bits(result), sign))


def _limited(m: Maths, function: str, x: LlvmValue, result: LlvmValue) -> LlvmValue:
    """The result, but where |x| is past the limit what the C library says."""
    w = m.w
    huge = m.is_("uge", m.abs(x), LIMIT)
    any_ = w.call(f"llvm.vector.reduce.or.{huge.type.suffix}", huge.type.with_lanes(0), huge) if huge.type.lanes else huge
    weights = w.module.node(['!"branch_weights"', "i32 1", "i32 100000"])
    rare, done = w.label("huge"), w.label("done")
    w.start(w.label("common"))
    common = w.block
    w.branch_if(any_, rare, done, f", !prof {weights}")
    w.start(rare)
    fixed = w.call(_out_of_line(m, function), m.type, x, result)
    w.start(done)
    return w.phi(m.type, [(result, common), (fixed, rare)])


def _huge(m: Maths, function: str, x: LlvmValue) -> LlvmValue:
    """The function of an f64 past the limit, without the C library."""
    high, low, number = reduced(m, x)
    sine, cosine = (_of_quadrant(m, high, low, m.w.binary("add", number, m.int(offset))) for offset in (0, 1))
    result = {"sin": sine, "cos": cosine}.get(function) or m.div(sine, cosine)
    # infinities and NaN
    return m.select(m.is_("olt", m.abs(x), float("inf")), result, m.sub(x, x))


def _out_of_line(m: Maths, function: str) -> str:
    """`fix(x, result)`: the result with each lane past the limit replaced."""

    def make(name: str) -> None:
        f = m.w.module.function(name, m.type, [(m.type, "x"), (m.type, "result")], "internal", "noinline cold")
        x, result = f.parameters
        if f.module.c_library:
            f.module.declare(function, "double (double)")
        for lane in range(max(1, m.type.lanes)):
            scalar = Maths(f, m.type.with_lanes(0))
            angle = f.extract(x, lane) if m.type.lanes else x
            huge, after = f.label("huge"), f.label("after")
            f.start(f.label("lane"))
            before = f.block
            f.branch_if(scalar.is_("uge", scalar.abs(angle), LIMIT), huge, after)
            f.start(huge)
            wide = angle if m.double else scalar.widen(angle)
            value = f.call(function, scalar.type.of("double"), wide) if f.module.c_library else _huge(scalar.widened(), function, wide)
            value = value if m.double else scalar.narrow(value)
            changed = f.insert(result, value, lane) if m.type.lanes else value
            f.start(after)
            result = f.phi(m.type, [(result, before), (changed, huge)])
        f.ret(result)

    return m.w.module.helper(f"zyn.{function}.huge.{m.type.suffix}", make)


def sin(m: Maths, x: LlvmValue) -> LlvmValue:
    result = _quadrant(m, x, 0)
    return _limited(m, "sin", x, m.select(m.is_("oeq", x, 0.0), x, result))


def cos(m: Maths, x: LlvmValue) -> LlvmValue:
    return _limited(m, "cos", x, _quadrant(m, x, 1))


def tan(m: Maths, x: LlvmValue) -> LlvmValue:
    """sine / cosine, or minus its inverse; f32 divides in f64."""
    w = m.w
    wide = m.widened()
    argument = x if m.double else m.widen(x)
    high, low, number = _reduce(wide, argument, not m.double)
    s, c = _sine(wide, high, low), _cosine(wide, high, low)
    odd = w.compare("ne", w.binary("and", number, wide.int(1)), wide.int(0))
    quotient = wide.div(m.select(odd, wide.neg(c), s), m.select(odd, s, c))
    result = m.select(wide.is_("oeq", argument, 0.0), argument, quotient)
    return _limited(m, "tan", x, result if m.double else m.narrow(result))


def _arcsine(m: Maths, x: LlvmValue, z: LlvmValue) -> LlvmValue:
    """asin x - x for |x| <= 1/2, z = x*x."""
    return m.mul(m.mul(x, z), m.polynomial("asin", z))


def _half_angle(m: Maths, size: LlvmValue) -> tuple[LlvmValue, LlvmValue, LlvmValue]:
    """z = (1-|x|)/2, its root, and what the root lacks."""
    z = m.mul(m.sub(m.number(1.0), size), m.number(0.5))
    root = m.sqrt(z)
    error = m.fma(m.neg(root), root, z)
    lacks = m.div(error, m.add(root, root))
    lacks = m.select(m.is_("ogt", root, 0.0), lacks, m.number(0.0))
    return z, root, lacks


def asin(m: Maths, x: LlvmValue) -> LlvmValue:
    """pi/2 - 2 asin(sqrt((1-|x|)/2)) above one half."""
    size = m.abs(x)
    z, root, lacks = _half_angle(m, size)
    large = m.is_("ogt", size, 0.5)
    argument = m.select(large, root, size)
    rest = _arcsine(m, argument, m.select(large, z, m.mul(size, size)))
    high, low = _two(m, coefficients.PI)
    twice = m.add(root, root)
    first, lost = m.two_sum(m.number(high / 2), m.neg(twice))
    tail = m.sub(m.number(low / 2), m.add(m.add(rest, rest), m.add(lacks, lacks)))
    result = m.select(large, m.add(first, m.add(lost, tail)), m.add(size, rest))
    return m.sign_of(result, x)


def acos(m: Maths, x: LlvmValue) -> LlvmValue:
    size = m.abs(x)
    z, root, lacks = _half_angle(m, size)
    large = m.is_("ogt", size, 0.5)
    argument = m.select(large, root, x)
    rest = _arcsine(m, argument, m.select(large, z, m.mul(x, x)))
    high, low = _two(m, coefficients.PI)
    # small: pi/2 - (x + rest)
    first, lost = m.two_sum(m.number(high / 2), m.neg(x))
    small = m.add(first, m.add(lost, m.sub(m.number(low / 2), rest)))
    twice = m.add(root, root)
    more = m.add(m.add(rest, rest), m.add(lacks, lacks))
    positive = m.add(twice, more)
    first, lost = m.two_sum(m.number(high), m.neg(twice))
    negative = m.add(first, m.add(lost, m.sub(m.number(low), more)))
    return m.select(large, m.select(m.is_("olt", x, 0.0), negative, positive), small)


def _two(m: Maths, parts: tuple[float, float]) -> tuple[float, float]:
    """A constant in two parts of the type."""
    if m.double:
        return parts
    import struct

    (high,) = struct.unpack("<f", struct.pack("<f", parts[0]))
    (low,) = struct.unpack("<f", struct.pack("<f", parts[0] - high + parts[1]))
    return high, low


def _arctangent(m: Maths, over: LlvmValue, under: LlvmValue) -> LlvmValue:
    """atan(over / under), both at least 0 and not both 0 or infinite: one division, after turning by pi/4 or pi/2."""
    steep = m.is_("ogt", over, m.mul(under, m.number(2.414213562373095)))
    middle = m.is_("ogt", over, m.mul(under, m.number(0.41421356237309503)))
    top = m.select(steep, m.neg(under), m.select(middle, m.sub(over, under), over))
    bottom = m.select(steep, over, m.select(middle, m.add(over, under), under))
    t = m.div(top, bottom)
    z = m.mul(t, t)
    rest = m.mul(m.mul(t, z), m.polynomial("atan", z))
    high, low = _two(m, coefficients.QUARTER_PI)

    def turn(part: float) -> LlvmValue:
        return m.select(steep, m.number(2 * part), m.select(middle, m.number(part), m.number(0.0)))

    base = turn(high)
    total, lost = m.two_sum(base, t)
    lost = m.select(m.is_("oeq", base, 0.0), m.number(0.0), lost)
    return m.add(total, m.add(lost, m.add(rest, turn(low))))


def atan(m: Maths, x: LlvmValue) -> LlvmValue:
    size = m.abs(x)
    finite = m.clamp(size, 0.0, 1e300 if m.double else 1e37)
    result = _arctangent(m, finite, m.number(1.0))
    return m.sign_of(result, x)


def atan2(m: Maths, y: LlvmValue, x: LlvmValue) -> LlvmValue:
    over, under = m.abs(y), m.abs(x)
    # both infinite: an angle of pi/4; sums must not overflow, and 0/0 counts as 0
    infinite = m.both(m.is_("oeq", over, math.inf), m.is_("oeq", under, math.inf))
    over, under = m.select(infinite, m.number(1.0), over), m.select(infinite, m.number(1.0), under)
    big = 2.0**1020 if m.double else 2.0**124
    huge = m.either(m.is_("ogt", over, big), m.is_("ogt", under, big))
    factor = m.select(huge, m.number(0.0625), m.number(1.0))
    over, under = m.mul(over, factor), m.mul(under, factor)
    under = m.select(m.both(m.is_("oeq", over, 0.0), m.is_("oeq", under, 0.0)), m.number(1.0), under)
    over_infinite, under_infinite = m.is_("oeq", over, math.inf), m.is_("oeq", under, math.inf)
    over, under = m.select(over_infinite, m.number(1.0), over), m.select(over_infinite, m.number(0.0), under)
    over, under = m.select(under_infinite, m.number(0.0), over), m.select(under_infinite, m.number(1.0), under)
    angle = _arctangent(m, over, under)
    high, low = _two(m, coefficients.PI)
    # the sign bit of x counts, for -0.0 too
    left = m.w.compare("slt", m.bits(x), m.int(0))
    first, lost = m.two_sum(m.number(high), m.neg(angle))
    result = m.select(left, m.add(first, m.add(lost, m.number(low))), angle)
    result = m.sign_of(result, y)
    return m.select(m.is_("uno", x, y), m.number(math.nan), result)


def erf(m: Maths, x: LlvmValue) -> LlvmValue:
    """x + x*P(x*x) up to 1, and NaN; then 1 - erfc(x): in f32 2**Q(x), in f64 exp(-x*x) * Q(2/(2+x))."""
    size = m.abs(x)
    z = m.mul(x, x)
    small = m.fma(x, m.in_four("erf", z) if m.double else m.polynomial("erf", z), x)
    if m.double:
        far = m.clamp(size, 1.0, 6.0)
        t = m.div(m.number(2.0), m.add(far, m.number(2.0)))
        tail = m.mul((exp if m.device else exp_in_range)(m, m.neg(m.mul(far, far))), m.in_four("erfc", t))
    else:
        far = m.at_most(size, ONE_FROM)
        tail = exp2_in_range(m, m.polynomial("log2_erfc", far))
    large = m.sign_of(m.sub(m.number(1.0), tail), x)
    return m.select(m.is_("ogt", size, 1.0), large, small)
