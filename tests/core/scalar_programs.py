"""Functions over numbers, tuples, loops and short arrays, whose text both languages read, with results computed by Python's exact ints, its
doubles, or closed forms."""

import math

from tests.core.dialects import Stopped
from tests.core.program import Program

I64 = 2**63
OVERFLOW = Stopped("0806")


def _collatz(n: int) -> int:
    return 0 if n == 1 else 1 + _collatz(n // 2 if n % 2 == 0 else 3 * n + 1)


def _cut(a: int, b: int) -> tuple[int, int]:
    """The quotient cut toward zero, and its remainder."""
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - b * quotient


def _escape(x: float, y: float, limit: int) -> int:
    z, rounds = complex(0, 0), 0
    while rounds < limit and abs(z) <= 2:
        z, rounds = z * z + complex(x, y), rounds + 1
    return rounds


def _newton(x: float) -> float:
    guess = x
    for _ in range(30):
        guess = 0.5 * (guess + x / guess)
    return guess


def _horner(x: float) -> float:
    return ((2.0 * x - 3.0) * x + 0.5) * x - 7.0


SCALAR_PROGRAMS = (
    Program(
        "collatz",
        "fn f(n: int) -> int { var x = n\n var steps = 0\n while x != 1 { if x % 2 == 0 { x = x / 2 } else { x = 3 * x + 1 }\n steps += 1 }\n steps }",
        [((n,), _collatz(n)) for n in (1, 7, 27, 97)],
    ),
    Program(
        "gcd by recursion",
        "fn f(a: int, b: int) -> int { if b == 0 { a } else { f(b, a % b) } }",
        [((a, b), math.gcd(a, b)) for a, b in ((12, 18), (17, 5), (0, 9), (2**40, 6**20))],
    ),
    Program(
        "factorial until it overflows",
        "fn f(n: int) -> int { var t = 1\n for i in 1..n + 1 { t *= i }\n t }",
        [((n,), math.factorial(n) if n <= 20 else OVERFLOW) for n in (0, 5, 20, 21)],
    ),
    Program(
        "fibonacci by a swap of a pair",
        "fn f(n: int) -> int { var a = 0\n var b = 1\n for i in 0..n { (a, b) = (b, a + b) }\n a }",
        [((0,), 0), ((10,), 55), ((91,), 4660046610375530309), ((93,), OVERFLOW)],
    ),
    Program(
        "quotient and remainder",
        "fn f(a: int, b: int) -> (int, int) { (a / b, a % b) }",
        [*(((a, b), _cut(a, b)) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2), (-I64, 3))), ((1, 0), OVERFLOW), ((-I64, -1), OVERFLOW)],
    ),
    Program("remainder of the least int", "fn f(a: int, b: int) -> int { a % b }", [((-I64, -1), 0), ((5, 0), OVERFLOW)]),
    Program("sum at the limit", "fn f(a: int, b: int) -> int { a + b }", [((I64 - 2, 1), I64 - 1), ((I64 - 1, 1), OVERFLOW), ((-I64, -1), OVERFLOW)]),
    Program("product at the limit", "fn f(a: int, b: int) -> int { a * b }", [((2**32, 2**30), 2**62), ((2**32, 2**31), OVERFLOW), ((-(2**32), 2**31), -I64)]),
    Program("negative of the least int", "fn f(a: int) -> int { -a }", [((5,), -5), ((-I64,), OVERFLOW)]),
    Program("shifts and masks", "fn f(n: int) -> int { ((n << 3) >> 1) & 255 }", [((n,), n * 4 & 255) for n in (0, 1, 77, -3)]),
    Program("a shift gives the type that is shifted", "fn f(n: int) -> int { let a = n as i8\n let b = 3i16\n ((a << b) as int) * 100 + ((a >> b) as int) }", [((9,), 7201), ((-8,), -6401), ((100,), OVERFLOW)]),
    Program("branches of an i8 and a literal", "fn g(a: i8, b: i8) -> i8 { let c = if a > b { a } else { 1 }\n c + 100i8 }\nfn f(n: int) -> int { g(n as i8, 5i8) as int }", [((3,), 101), ((20,), 120), ((50,), OVERFLOW)]),
    Program("branches of a u8 and an i8", "fn f(n: int) -> int { let a = n as u8\n let b = -3i8\n let c = if n > 5 { a } else { b }\n let d = match n { 7 => a, _ => b }\n (c as int) * 1000 + (d as int) }", [((200,), 199997), ((7,), 7007), ((1,), -3003)]),
    Program("shift count outside", "fn f(n: int) -> int { 1 << n }", [((0,), 1), ((62,), 2**62), ((64,), OVERFLOW), ((-1,), OVERFLOW)]),
    Program("narrow ints stop", "fn f(n: int) -> i8 { let a: i8 = n as i8\n a + 100i8 }", [((27,), 127), ((28,), OVERFLOW), ((200,), OVERFLOW)]),
    Program("unsigned stops below zero", "fn f(n: int) -> u8 { let a: u8 = n as u8\n a - 10u8 }", [((10,), 0), ((9,), OVERFLOW)]),
    Program("i32 stops", "fn f(n: int) -> i32 { let a: i32 = n as i32\n a * a }", [((46340,), 46340**2), ((46341,), OVERFLOW)]),
    Program("widening is exact", "fn f(n: int) -> int { let a: i32 = n as i32\n let b: u16 = 65535u16\n a + b }", [((-128,), 65535 - 128)]),
    Program("float of an int", "fn f(n: int) -> f64 { n as f64 / 3.0 }", [((n,), n / 3.0) for n in (1, -7, 2**53)]),
    Program("int of a float", "fn f(x: f64) -> int { x as int }", [((2.9,), 2), ((-2.9,), -2), ((1e19,), OVERFLOW), ((math.nan,), OVERFLOW)]),
    Program("newton's root", "fn f(x: f64) -> f64 { var g = x\n for i in 0..30 { g = 0.5 * (g + x / g) }\n g }", [((x,), _newton(x)) for x in (2.0, 9.0, 1e10)]),
    Program("horner", "fn f(x: f64) -> f64 { ((2.0 * x - 3.0) * x + 0.5) * x - 7.0 }", [((x,), _horner(x)) for x in (0.1, -3.7, 1e8)]),
    Program(
        "mandelbrot",
        "fn f(x: f64, y: f64, limit: int) -> int { var a = 0.0\n var b = 0.0\n var n = 0\n"
        " while n < limit and a * a + b * b <= 4.0 { let c = a * a - b * b + x\n b = 2.0 * a * b + y\n a = c\n n += 1 }\n n }",
        [((x, y, 100), _escape(x, y, 100)) for x, y in ((0.0, 0.0), (1.0, 1.0), (-0.75, 0.1), (0.3, 0.6))],
    ),
    Program(
        "float corners",
        "fn f(x: f64) -> (f64, bool, bool) { (1.0 / x, x == x, x < 1.0) }",
        [((0.0,), (math.inf, True, True)), ((-2.0,), (-0.5, True, True)), ((math.inf,), (0.0, True, False))],
    ),
    Program(
        "break leaves the inner loop",
        "fn f(n: int) -> int { var t = 0\n for i in 0..n { for j in 0..n { if j > i { break }\n if (i + j) % 3 == 1 { continue }\n t += i * j } }\n t }",
        [((n,), sum(i * j for i in range(n) for j in range(n) if j <= i and (i + j) % 3 != 1)) for n in (0, 1, 9)],
    ),
    Program("range with a step", "fn f(a: int, b: int) -> int { var t = 0\n for i in a..b step 3 { t = t * 2 + i }\n t }", [((0, 10), ((0 * 2 + 3) * 2 + 6) * 2 + 9), ((5, 5), 0)]),
    Program("blocks are values", "fn f(n: int) -> int { let a = if n > 0 { let b = n * 2\n b + 1 } else { -1 }\n a }", [((4,), 9), ((0,), -1)]),
    Program("shadowing", "fn f(n: int) -> int { let a = n\n let a = a * 10\n if n > 0 { let a = 5\n let b = a } else { }\n a + 1 }", [((4,), 41), ((0,), 1)]),
    Program("and is short", "fn f(n: int) -> bool { n != 0 and 10 / n > 2 or n == -1 }", [((0,), False), ((3,), True), ((4,), False), ((-1,), True)]),
    Program("defaults of parameters", "fn g(a: int, b: int = a0()) -> int { a * 100 + b }\nfn a0() -> int { 7 }\nfn f(n: int) -> int { g(n) + g(n, b = 2) + g(b = 3, a = 1) }", [((4,), 407 + 402 + 103)]),
    Program("parameters that change are copies", "fn g(mut a: int) -> int { a += 1\n a }\nfn f(n: int) -> int { var x = n\n let y = g(x)\n x * 100 + y }", [((4,), 405)]),
    Program("a tuple of a tuple", "fn g(n: int) -> ((int, int), bool) { ((n, n * n), n > 2) }\nfn f(n: int) -> int { let (p, q) = g(n)\n if q { p.0 + p.1 } else { 0 } }", [((4,), 20), ((1,), 0)]),
    Program("an array read in a loop", "fn f(n: int) -> int { let a = [3, 1, 4, 1, 5]\n var t = 0\n for i in 0..5 { t = t * n + a[i] }\n t }", [((10,), 31415), ((2,), 3 * 16 + 8 + 16 + 2 + 5)]),
    Program(
        "an array sorted in place",
        "fn f(n: int) -> int { var a = [n, 7, 2, 9, 4]\n for i in 0..5 { for j in 0..4 { if a[j] > a[j + 1] { let t = a[j]\n a[j] = a[j + 1]\n a[j + 1] = t } } }\n"
        " a[0] * 10000 + a[1] * 1000 + a[2] * 100 + a[3] * 10 + a[4] }",
        [((n,), int("".join(map(str, sorted((n, 7, 2, 9, 4)))))) for n in (1, 5, 8)],
    ),
)  # fmt: skip
