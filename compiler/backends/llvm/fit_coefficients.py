"""Makes `coefficients.py`: polynomials through Chebyshev nodes, of functions that are summed from their series with 90 digits.

Run it as `python -m compiler.backends.llvm.fit_coefficients > compiler/backends/llvm/coefficients.py`. Not needed to compile."""

import struct
from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 90
D = Decimal
ONE = D(1)
Function = Callable[[Decimal], Decimal]


def series(term: Callable[[int], Decimal]) -> Function:
    """The sum of term(k) * x**k until it no longer changes."""
    terms: list[Decimal] = []

    def value(x: Decimal) -> Decimal:
        total, power = D(0), ONE
        for k in range(4000):
            if k == len(terms):
                terms.append(term(k))
            step = terms[k] * power
            total += step
            power *= x
            if k > 3 and abs(step) < D(10) ** -80:
                break
        return total

    return value


def factorial(n: int) -> Decimal:
    result = ONE
    for k in range(2, n + 1):
        result *= k
    return result


def pi() -> Decimal:
    """Machin's formula."""
    arctangent = series(lambda k: D((-1) ** k) / (2 * k + 1))
    fifth, last = ONE / 5, ONE / 239
    return 4 * (4 * fifth * arctangent(fifth * fifth) - last * arctangent(last * last))


PI = pi()
LN2 = D(2).ln()


def arcsine_term(k: int) -> Decimal:
    """Of (asin x - x) / x**3 in x**2."""
    n = k + 1
    return factorial(2 * n) / (D(4) ** n * factorial(n) ** 2 * (2 * n + 1))


def erf_over_x(z: Decimal) -> Decimal:
    return 2 / PI.sqrt() * series(lambda k: D((-1) ** k) / (factorial(k) * (2 * k + 1)))(z)


def scaled_erfc(t: Decimal) -> Decimal:
    """exp(x*x) * erfc(x) at x = 2/t - 2."""
    x = 2 / t - 2
    return (x * x).exp() * (1 - x * erf_over_x(x * x))


def power_of_erfc(x: Decimal) -> Decimal:
    """log2(erfc(x))."""
    return (1 - x * erf_over_x(x * x)).ln() / LN2


NONE = -1
"""The degree where a function has no polynomial for that type."""

DENSER = {"log2_erfc": D("2.5")}
"""How much nearer to each other nodes lie at the low end, of functions that need be right to less at the high one."""

# name: function, low, high, degree for f32, degree for f64
TABLE: dict[str, tuple[Function, Decimal, Decimal, int, int]] = {
    "exp": (series(lambda k: 1 / factorial(k + 2)), -LN2 / 2, LN2 / 2, 4, 10),
    "exp2": (series(lambda k: LN2 ** (k + 1) / factorial(k + 1)), D("-0.5"), D("0.5"), 6, 12),
    "log": (series(lambda k: D(2) / (2 * k + 3)), D(0), D("0.02944"), 3, 7),
    "log2_of_base": (series(lambda k: D(2) / ((2 * k + 1) * LN2)), D(0), D("0.02944"), NONE, 4),
    "exp2_of_power": (series(lambda k: LN2 ** (k + 1) / factorial(k + 1)), D("-0.5"), D("0.5"), NONE, 6),
    "log1p": (series(lambda k: D((-1) ** (k + 1)) / (k + 2)), D("0.5").sqrt() - 1, D(2).sqrt() - 1, 8, NONE),
    "sin": (series(lambda k: D((-1) ** (k + 1)) / factorial(2 * k + 3)), D(0), D("0.617"), 3, 6),
    "cos": (series(lambda k: D((-1) ** k) / factorial(2 * k + 4)), D(0), D("0.617"), 3, 6),
    "asin": (series(arcsine_term), D(0), D("0.25"), 5, 13),
    "atan": (series(lambda k: D((-1) ** (k + 1)) / (2 * k + 3)), D(0), D("0.17158"), 5, 12),
    "erf": (lambda z: erf_over_x(z) - 1, D(0), D(1), 6, 14),
    "log2_erfc": (power_of_erfc, D(1), D("3.93"), 6, NONE),
    "erfc": (scaled_erfc, D("0.25"), D(2) / 3, NONE, 17),
}


def interpolate(f: Function, low: Decimal, high: Decimal, degree: int, denser: Decimal = ONE) -> list[Decimal]:
    """Coefficients, constant first, of the polynomial through the Chebyshev nodes."""
    count = degree + 1
    nodes = [low + (high - low) * ((1 + cosine(PI * (2 * k + 1) / (2 * count))) / 2) ** denser for k in range(count)]
    table = [f(x) for x in nodes]
    for level in range(1, count):
        for k in range(count - 1, level - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (nodes[k] - nodes[k - level])
    result = [table[-1]]
    for k in range(count - 2, -1, -1):
        result = [D(0), *result]
        for power in range(len(result) - 1):
            result[power] -= nodes[k] * result[power + 1]
        result[0] += table[k]
    return result


def cosine(x: Decimal) -> Decimal:
    return series(lambda k: D((-1) ** k) / factorial(2 * k))(x * x)


def to_float(x: Decimal) -> float:
    """The nearest double, rounded once."""
    fraction = Fraction(x)
    return fraction.numerator / fraction.denominator


def to_single(x: Decimal) -> float:
    return float(struct.unpack("<f", struct.pack("<f", to_float(x)))[0])


def parts(x: Decimal, count: int, bits: int | None = None) -> list[float]:
    """A sum of doubles; all but the last cut to `bits` bits where given."""
    rounded = []
    for number in range(count):
        value = to_float(x)
        if bits is not None and number < count - 1:
            (raw,) = struct.unpack("<q", struct.pack("<d", value))
            (value,) = struct.unpack("<d", struct.pack("<q", raw >> (53 - bits) << (53 - bits)))
        rounded.append(value)
        x -= D(value)
    return rounded


def single_parts(x: Decimal, first_bits: int) -> list[float]:
    """Two singles, the first cut short so that small multiples of it are exact."""
    (raw,) = struct.unpack("<i", struct.pack("<f", to_single(x)))
    (head,) = struct.unpack("<f", struct.pack("<i", raw >> (24 - first_bits) << (24 - first_bits)))
    return [float(head), to_single(x - D(float(head)))]


def main() -> None:
    print('"""Coefficients of the math library, constant term first. Made by `fit_coefficients.py`; not edited by hand."""\n')
    for width, column, convert in (("F32", 3, to_single), ("F64", 4, to_float)):
        print(f"{width}: dict[str, tuple[float, ...]] = {{")
        for name, row in TABLE.items():
            degree = row[3] if column == 3 else row[4]
            if degree == NONE:
                continue
            numbers = [convert(c) for c in interpolate(row[0], row[1], row[2], degree, DENSER.get(name, ONE))]
            print(f'    "{name}": (')
            for number in numbers:
                print(f"        {number!r},")
            print("    ),")
        print("}")
    print(f"HALF_PI = {tuple(parts(PI / 2, 4))!r}")
    print(f"QUARTER_PI = {tuple(parts(PI / 4, 2))!r}")
    print(f"PI = {tuple(parts(PI, 2))!r}")
    print(f"TWO_OVER_PI = {to_float(2 / PI)!r}")
    print(f"LN2 = {tuple(parts(LN2, 2, 32))!r}")
    print(f"LN2_F32 = {tuple(single_parts(LN2, 15))!r}")
    print(f"LOG2_E = {tuple(parts(1 / LN2, 2))!r}")


if __name__ == "__main__":
    main()
