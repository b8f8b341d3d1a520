"""Control flow, calls, patterns, optionals and results of compiled functions."""

import pytest

from tests.quantdsl.elaborate.running import MARKETS, Functions

PROGRAM = (
    MARKETS
    + """
enum Action { Wait, Enter(Side, Qty<ES>), Leave { why: u8 } }
const LIMIT = 3
fn notional(p: Price<ES>, a: Action) -> Money<USD> {
  match a {
    Wait => 0 USD
    Enter(_, q) => p * q
    Leave { why } => if why > 3 { 1_000.50 USD } else { 0 USD }
  }
}
fn root(x: f64) -> f64:
  var y = x
  while abs(y * y - x) > 1e-9 max 64:
    y = (y + x / y) / 2.0
  y
fn fib(n: int) -> int { if n < LIMIT { 1 } else { fib(n - 1) + fib(n - 2) } }
fn half(a: int?) -> int? {
  let x = a?
  some(x / 2)
}
fn up_to(n: const int) -> int {
  var total = 0
  for i in 0..n, j in 0..3 { total += i * j }
  total
}
fn sizes() -> int { up_to(4) * 1000 + up_to(LIMIT) }
"""
)


@pytest.fixture(scope="module")
def f() -> Functions:
    return Functions(PROGRAM)


def test_arms_with_values(f: Functions) -> None:
    wait, enter, leave = 0, 1, 2
    assert f.notional(16_000, wait, 0, 0, 0) == 0
    assert f.notional(16_000, enter, 1, 3, 0) == 16_000 * 3 * 1_250_000_000
    assert f.notional(16_000, leave, 0, 0, 4) == 100_050_000_000
    assert f.notional(16_000, leave, 0, 0, 3) == 0


def test_loops_that_end(f: Functions) -> None:
    assert abs(f.root(2.0) - 2**0.5) < 1e-9
    assert f.root(-1.0) == ("0808", "the condition still holds after `max` 64 rounds", "abs(y * y - x) > 1e-9")


def test_recursion(f: Functions) -> None:
    assert f.fib(20) == 6765


def test_leaving_with_none(f: Functions) -> None:
    assert f.half(True, 9) == (True, 4)
    assert f.half(False, 9) == (False, 0)


def test_functions_of_constants(f: Functions) -> None:
    assert f.sizes() == 18 * 1000 + 9
