"""Random numbers by counter: a number depends on (seed, i, j) alone, so any thread of any device computes the one it needs.

The bits are those of Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11. The key
is the seed, the counter (i, j), each as two words, the low one first. Words lie in u64, whose upper halves are zero: that is the product
which vector units have.

A normal number is the inverse of the normal distribution at the middle of one of 2**52 cells: M. Wichura, "Algorithm AS 241", Applied
Statistics 37 (1988), PPND16, relative error about 1e-16. Six of seven numbers need no function but a division."""

from functools import reduce

from compiler.hir.build import Builder
from compiler.hir.instruction import Value

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = (1 << 32) - 1

CENTRE = 0.425
"""How far from one half a probability counts as central."""
NEAR_TAIL = 5.0
"""Up to where the root of -log p counts as the near tail."""
CENTRAL = (
    (
        3.3871328727963666080e0,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
NEAR = (
    (
        1.42343711074968357734e0,
        4.63033784615654529590e0,
        5.76949722146069140550e0,
        3.64784832476320460504e0,
        1.27045825245236838258e0,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187e0,
        1.67638483018380384940e0,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
FAR = (
    (
        6.65790464350110377720e0,
        5.46378491116411436990e0,
        1.78482653991729133580e0,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)
"""Numerator and denominator, lowest power first."""


def random(build: Builder, seed: Value, i: Value, j: Value) -> Value:
    """An f32 in [0, 1): 24 bits. The arguments are u64, as in all of these."""
    word, _, _, _ = philox(build, seed, i, j)
    bits = build.op("shr", word, build.const(8, "u64"))
    return build.mul(build.cast(build.cast(bits, "i32"), "f32"), build.const(2.0**-24, "f32"))


def uniform(build: Builder, seed: Value, i: Value, j: Value) -> Value:
    """An f64 in [0, 1): 53 bits."""
    return build.mul(_top_bits(build, seed, i, j, 53), build.const(2.0**-53, "f64"))


def normal(build: Builder, seed: Value, i: Value, j: Value) -> Value:
    """An f64 of mean 0 and deviation 1, from -8.21 to 8.21."""
    cell = _top_bits(build, seed, i, j, 52)
    return quantile(build, build.mul(build.sub(cell, build.const(2.0**51 - 0.5, "f64")), build.const(2.0**-52, "f64")))


def quantile(build: Builder, offset: Value) -> Value:
    """Where the normal distribution reaches one half + offset; -0.5 < offset < 0.5."""

    def constant(value: float) -> Value:
        return build.const(value, "f64")

    distance = build.op("abs", offset)
    central = build.op("le", distance, constant(CENTRE))
    root = build.op("sqrt", build.op("neg", build.op("log", build.sub(constant(0.5), distance))))
    near = build.op("le", root, constant(NEAR_TAIL))
    inner = build.sub(constant(0.180625), build.mul(offset, offset))
    outer = build.sub(root, build.select(near, constant(1.6), constant(5.0)))
    x = build.select(central, inner, outer)

    def polynomial(part: int) -> Value:
        rows = zip(CENTRAL[part], NEAR[part], FAR[part], strict=True)
        taken = [build.select(central, constant(c), build.select(near, constant(n), constant(f))) for c, n, f in rows]
        return reduce(lambda total, coefficient: build.add(build.mul(total, x), coefficient), reversed(taken))

    side = build.select(build.op("lt", offset, constant(0.0)), constant(-1.0), constant(1.0))
    numerator = build.mul(polynomial(0), build.select(central, offset, side))
    return build.op("div", numerator, polynomial(1))


def philox(build: Builder, seed: Value, i: Value, j: Value) -> tuple[Value, Value, Value, Value]:
    """Four random words of 32 bits."""
    mask, half = build.const(_WORD, "u64"), build.const(32, "u64")

    def words(value: Value) -> tuple[Value, Value]:
        return build.op("and", value, mask), build.op("shr", value, half)

    def product(word: Value, multiplier: int) -> tuple[Value, Value]:
        return words(build.mul(word, build.const(multiplier, "u64")))

    (a, b), (c, d), key = words(i), words(j), words(seed)
    for step in range(ROUNDS):
        if step:
            key = tuple(build.op("and", build.add(k, build.const(s, "u64")), mask) for k, s in zip(key, KEY_STEPS, strict=True))  # type: ignore[assignment]
        low, high = product(a, MULTIPLIERS[0])
        other_low, other_high = product(c, MULTIPLIERS[1])
        a, b, c, d = (
            build.op("xor", build.op("xor", other_high, b), key[0]),
            other_low,
            build.op("xor", build.op("xor", high, d), key[1]),
            low,
        )
    return a, b, c, d


def _top_bits(build: Builder, seed: Value, i: Value, j: Value, count: int) -> Value:
    """The upper bits of the first two words, as a whole f64."""
    low, high, _, _ = philox(build, seed, i, j)
    both = build.op("or", build.op("shl", high, build.const(32, "u64")), low)
    return build.cast(build.cast(build.op("shr", both, build.const(64 - count, "u64")), "i64"), "f64")
