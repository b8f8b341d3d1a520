"""Compute blocks in compiled code: reductions, in written order."""

import math

import numpy as np
import pytest

from tests.errors.conftest import diagnose
from tests.quantdsl.elaborate.running import Functions
from tests.quantdsl.host.test_pricing import black_scholes
from tests.randoms import known

PROGRAM = """
fn mc_call(s: f64, k: f64, r: f64, vol: f64, t: f64, paths: int, seed: u64) -> (f64, f64) {
    let drift = (r - 0.5 * vol * vol) * t
    let sd = vol * sqrt(t)
    let acc = compute(paths) @kernel(reduce, +) @device("auto") {
        @workgroup(256)
        for i in 0..paths {
            let z = normal(seed, i)
            let p = exp(-r * t) * max(s * exp(drift + sd * z) - k, 0.0)
            yield (p, p * p)
        }
    }
    let m = acc.0 / paths
    return (m, sqrt((acc.1 / paths - m * m) / paths))
}
fn sums(n: int) -> (i64, i64, i64) {
    let squares = compute(n) @kernel(reduce, +) { for i in 0..n: yield i * i }
    let counted = compute(n) @kernel(reduce, +) { for i in 0..n: if i % 3 == 0 { yield true } }
    let pairs = compute(n) @kernel(reduce) { for i in 0..n, j in 0..i: yield 1 }
    (squares, counted, pairs)
}
fn extremes(a: [f64; 5]) -> (f64, f64, bool, bool, f64) {
    let low = compute(a) @kernel(reduce, min) { for i in 0..5: yield a[i] }
    let high = compute(x = a) @kernel(reduce, max) { for i in 0..5: yield x[i] }
    let all = compute(a) @kernel(reduce, and) { for i in 0..5: yield a[i] > 0.0 }
    let any = compute(a) @kernel(reduce, or) { for i in 0..5: yield a[i] > 4.0 }
    (low, high, all, any, compute(a) @kernel(reduce, *) { for i in 0..5: yield a[i] })
}
fn of_five(x: f64) -> (f64, f64, bool, bool, f64) { extremes([x, 2.0, -3.0, 4.5, 1.0]) }
fn wraps(n: int) -> i64 {
    compute(n) @kernel(reduce, +) {
        for i in 0..n {
            var x = 9_223_372_036_854_775_807
            x += i
            yield x * 3
        }
    }
}
fn nothing(n: int) -> (f64, f64) {
    let total = compute(n) @kernel(reduce, +) { for i in 0..n: yield 0.5 }
    (total, compute(n) @kernel(reduce, min) { for i in 0..n: yield 0.5 })
}
fn checked_again(n: int) -> i64 {
    let s = compute(n) @kernel(reduce, +) { for i in 0..n: yield i }
    s + 9_223_372_036_854_775_807
}
"""


@pytest.fixture(scope="module")
def functions() -> Functions:
    return Functions(PROGRAM)


def test_an_option(functions: Functions) -> None:
    """In written order, natively; the interpreter's exponential may end in another bit."""
    n = 2000
    x = math.exp(-0.03) * np.maximum(100 * np.exp(0.03 - 0.02 + 0.2 * known.normal(7, np.arange(n))) - 105, 0)
    for native in functions.both.native:
        price, error = native["fn.mc_call"].run([100.0, 105.0, 0.03, 0.2, 1.0, n, 7]).results
        assert price == pytest.approx(x.mean(), rel=1e-12)
        assert error == pytest.approx(x.std() / math.sqrt(n), rel=1e-9)
        assert abs(price - black_scholes(True, 100, 105, 0.03, 0.2, 1)) < 4 * error


@pytest.mark.parametrize("n", (0, 1, 3, 31, 1000))
def test_sums_of_ints(functions: Functions, n: int) -> None:
    assert functions.sums(n) == (sum(i * i for i in range(n)), len(range(0, n, 3)), n * (n - 1) // 2)


@pytest.mark.parametrize("x", (-7.5, 0.5, 9.0, math.inf))
def test_the_other_operators(functions: Functions, x: float) -> None:
    values = [x, 2.0, -3.0, 4.5, 1.0]
    assert functions.of_five(x) == (min(values), max(values), False, True, math.prod(values))


def test_nan_wins(functions: Functions) -> None:
    low, high, _, _, product = functions.of_five(math.nan)
    assert math.isnan(low) and math.isnan(high) and math.isnan(product)


def test_nothing_yielded_is_the_identity(functions: Functions) -> None:
    assert functions.nothing(0) == (0.0, math.inf)


def test_ints_wrap_inside_and_are_checked_behind(functions: Functions) -> None:
    n = 5
    expected = sum(((2**63 - 1 + i) * 3 + 2**63) % 2**64 - 2**63 for i in range(n))
    assert functions.wraps(n) == (expected + 2**63) % 2**64 - 2**63
    assert functions.checked_again(1) == 2**63 - 1
    assert functions.checked_again(3) == ("0806",)


@pytest.mark.parametrize(
    "text, code, words",
    [
        ("fn f(n: int) -> f64 { compute(n) @kernel(reduce, +) { for i in 0..n { let x = i } } }", "0408", "a reduction without a `yield`"),
        (
            "fn f(n: int) -> f64 { compute(n) @kernel(reduce, +) { for i in 0..n { if i > 3 { return 1.0 }\nyield 1.0 } } }",
            "0410",
            "`return` leaves a compute block",
        ),
        (
            "fn f(n: int) -> bool { compute(n) @kernel(reduce, and) { for i in 0..n { yield i } } }",
            "0203",
            "this reduction combines bools, and a `i64` is yielded",
        ),
        ("fn f(n: int) { yield 1 }", "0408", "`yield` stands outside of a compute block"),
        (
            "fn f(n: int) -> str { compute(n) @kernel(reduce, +) { for i in 0..n { yield 1 } } }",
            "0203",
            "the result is `str`, and this is `i64`",
        ),
        (
            "@critical_path fn f(n: int) -> i64 { compute(n) @kernel(reduce, +) { for i in 0..9 { yield 1 } } }",
            "0711",
            "`f` has a `compute` block",
        ),
        (
            "fn f(n: int) -> (i64, f64) { compute(n) @kernel(reduce, +) { for i in 0..n { yield (i, 1.0)\nyield 1 } } }",
            "0203",
            "the `yield` before gives",
        ),
    ],
)
def test_what_is_wrong_with_a_block(text: str, code: str, words: str) -> None:
    message = diagnose(text + "\n", language="quantdsl")
    assert message.startswith(f"error[ZYN{code}]: {words}"), message
    assert message.count("error[") == 1
