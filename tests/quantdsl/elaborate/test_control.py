"""Patterns, branches, loops, optionals and results, generics and constants: what each gives, against plain Python."""

import numpy as np
import pytest

from tests.quantdsl.elaborate.running import MARKETS, Functions

PROGRAM = (
    MARKETS
    + """
enum E { A(int), B { n: int, side: Side? }, C }
const TWO = 2
param width: int in 1..10 = 3

fn alternatives(tag: int, n: int) -> int {
  let e = match tag { 0 => A(n), 1 => B { n: n, side: none }, 2 => B { n: n, side: Sell }, _ => C }
  match e {
    A(0) => -1
    A(x) | B { n: x, side: none } if x > 10 => x
    B { side: some(Sell), n } => n * 100
    A(TWO) => 222
    A(_) | B { .. } => 7
    C => 8
  }
}
fn pairs(a: int?, b: int?) -> int {
  match (a, b) {
    (some(x), none) | (none, some(x)) => x
    (some(1 | 2), some(y)) => y + 1000
    (some(3..=5), some(_)) => 345
    (some(x), some(y)) if x / y == 3 => 3333
    _ => -1
  }
}
fn same(a: int, b: int) -> (bool, bool, bool) {
  let e = if a > 0 { A(a) } else { B { n: a, side: Buy } }
  let f = if b > 0 { A(b) } else { B { n: b, side: Buy } }
  (e == f, e != C, A(a) == A(b))
}
fn shadows(x: int?) -> int {
  let y = 3
  let y = y * 10
  let z = if let y = x { y } else { y }
  z * 100 + y
}
fn left_early(n: int, stop: int) -> int {
  var t = 0
  for i in 0..n, j in 0..n {
    if j > i { break }
    if (i + j) % 3 == 1 { continue }
    let x = if i * j == stop { return -t } else { i * j }
    t += x
  }
  t
}
fn counted(low: int, high: int, step: int) -> (int, int, int) {
  var n = 0
  var last = 0
  for i in low..high step step { n += 1; last = i }
  var m = 0
  for i in low..=high step step { m += 1 }
  (n, last, m)
}
fn up_to(low: int, high: int) -> int {
  var n = 0
  for i in low..=high { n += 1 }
  n
}
fn down(n: int) -> int {
  var t = 0
  for i in n..0 step -2 { t = t * 10 + i }
  t
}
fn bounded(n: int) -> int {
  var i = 0
  while i < n max 5 { i += 1 }
  i
}
fn forever(n: int) -> int {
  var i = 0
  while true {
    i += 1
    if i * i > n { break }
  }
  i
}
fn tried(a: int, b: int) -> Result<int, u8> {
  if b == 0 { return Err(1) }
  if a < 0 { Err(2) } else { Ok(a / b) }
}
fn passed_on(a: int, b: int) -> Result<f64, u16> {
  let x = tried(a, b)?
  Ok(x * 0.5)
}
fn defaults(a: int, b: int, c: int?) -> int { (tried(a, b) ?? (c ?? -5)) * 10 + (c ?? (tried(a, b) ?? 9)) }
fn chained(a: int?, b: int?) -> int? { some(a? + b?) }
fn either(a: int?, b: int?) -> int? { a ?? b }
fn lazy(a: bool, x: int) -> bool { (a and 10 / x > 1) or (not a and 5 / x == 1) }
fn largest<T: Ordered>(a: T, b: T, c: T) -> T {
  var best = a
  if b > best { best = b }
  if c > best { best = c }
  best
}
fn of_kinds() -> (int, f64, Price<ES>, Duration) {
  let p: Price<ES> = 10.25
  (largest(1, 3, 2), largest(1.5, 0.5, 2.5), largest(p, p + 3ticks, p - 1ticks), largest(1ms, 2us, 3ns))
}
fn repeated<T, N>(xs: [T; N], x: T) -> [T; N] {
  var ys = [x; N]
  ys[0] = xs[0]
  ys
}
fn sizes() -> int {
  let a = repeated([1, 2, 3], 9)
  let b = repeated([5], 7)
  a[0] * 1000 + a[2] * 100 + b[0] * 10 + a.len
}
fn power(x: int, n: const int) -> int { if n == 0 { 1 } else { x * power(x, n - 1) } }
fn cubes(x: int) -> int { power(x, width) + power(x, TWO) }
fn named(a: int, b: int = 3, c: f64 = 2.0) -> f64 { a * 100 + b * 10 + c }
fn calls(x: int) -> f64 { named(x, c = 4.0) + named(b = 1, a = x) + (x |> named(5)) }
fn maths(x: f64) -> (f64, f64, bool, bool, bool) {
  (floor(x) + ceil(x), min(x, 1.0) + max(x, 1.0), is_nan(x), approx(x, x * (1.0 + 1e-12)), approx(x, x + 1.0))
}
fn single(x: f32, n: int) -> (f32, f64, f32, bool) { (x * 0.1 + 1, x * 0.1 + n, x / n as f32, x < 0.1) }
fn casts(x: f64, u: u64, b: bool) -> (i32, f64, int, f32) { (x as i32, u as f64, b as int, x as f32) }
fn compared(a: int, b: u64, c: f64) -> (bool, bool, bool) { (a < b, b > c, a == b) }
fn shifted(x: i32, n: int) -> (i32, i32) { (x << n, x >> n) }
fn unsigned(x: u8) -> u8 { -x }
fn unit(n: int) { if n > 3 { return }; let m = 10 / n }
fn asserted(n: int) { assert(n > 2, "n is {small}") }

test "holds" { assert(cubes(2) == 12) }
test "fails" {
  let x = 4
  assert(cubes(2) == x, "cubes of {x}")
}
test "constants" {
  let four = 4
  assert(four == 5, "four")
}
test "divides" { assert(1 / bounded(0) == 1) }
"""
)


@pytest.fixture(scope="module")
def f() -> Functions:
    return Functions(PROGRAM)


def test_arms_are_tried_in_order(f: Functions) -> None:
    assert [f.alternatives(0, n) for n in (0, 2, 3, 11)] == [-1, 222, 7, 11]
    assert [f.alternatives(1, n) for n in (0, 2, 11)] == [7, 7, 11]
    assert [f.alternatives(2, n) for n in (0, 2, 11)] == [0, 200, 1100]
    assert f.alternatives(3, 0) == 8


def test_pairs_of_optionals(f: Functions) -> None:
    assert f.pairs(True, 5, False, 0) == f.pairs(False, 0, True, 5) == 5
    assert f.pairs(True, 2, True, 40) == 1040
    assert f.pairs(True, 4, True, 0) == 345
    assert f.pairs(True, 9, True, 3) == 3333
    assert f.pairs(True, 9, True, 2) == -1
    assert f.pairs(False, 9, False, 2) == -1
    assert f.pairs(True, 9, True, 0) == ("0806", "9 / 0 has no value in i64", "x / y")


def test_equality_of_cases(f: Functions) -> None:
    assert f.same(1, 1) == (True, True, True)
    assert f.same(1, 2) == (False, True, False)
    assert f.same(-1, -1) == (True, True, True)
    assert f.same(0, 5) == (False, True, False)


def test_names(f: Functions) -> None:
    assert f.shadows(True, 7) == 730
    assert f.shadows(False, 0) == 3030


@pytest.mark.parametrize(("n", "stop"), [(0, 0), (1, 5), (4, 6), (5, 6), (6, 12), (6, 100)])
def test_leaving_loops(f: Functions, n: int, stop: int) -> None:
    def expected() -> int:
        t = 0
        for i in range(n):
            for j in range(n):
                if j > i:
                    break
                if (i + j) % 3 == 1:
                    continue
                if i * j == stop:
                    return -t
                t += i * j
        return t

    assert f.left_early(n, stop) == expected()


TOP = 2**63 - 1


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(0, 10, 3), (0, 9, 3), (5, 5, 1), (5, 4, 1), (10, 0, -3), (0, 10, -1), (TOP - 3, TOP, 2), (-TOP - 1, TOP, TOP), (TOP, -TOP, -TOP)],
)
def test_ranges(f: Functions, low: int, high: int, step: int) -> None:
    numbers = range(low, high, step)
    through = range(low, high + (1 if step > 0 else -1), step)
    assert f.counted(low, high, step) == (len(numbers), numbers[-1] if numbers else 0, len(through))


def test_ends_of_ranges(f: Functions) -> None:
    assert f.up_to(TOP - 2, TOP) == 3
    assert f.up_to(3, 2) == 0
    assert f.up_to(-TOP - 1, TOP).code == "0806"
    assert f.counted(0, 5, 0) == ("0806", "a range with a step of 0", "low..high step step")
    assert f.down(7) == 7531


def test_bounded_loops_stop_the_program(f: Functions) -> None:
    assert [f.bounded(n) for n in (-1, 4, 5)] == [0, 4, 5]
    assert f.bounded(6) == ("0808", "the condition still holds after `max` 5 rounds", "i < n")
    assert f.forever(17) == 5


def test_results(f: Functions) -> None:
    assert f.tried(9, 2) == (True, 4, 0)
    assert f.tried(9, 0) == (False, 0, 1)
    assert f.tried(-9, 2) == (False, 0, 2)
    assert f.passed_on(9, 2) == (True, 2.0, 0)
    assert f.passed_on(9, 0) == (False, 0.0, 1)
    assert f.defaults(9, 2, True, 6) == 46
    assert f.defaults(9, 0, True, 6) == 66
    assert f.defaults(9, 0, False, 6) == -50 + 9
    assert f.defaults(9, 3, False, 6) == 33
    assert f.chained(True, 2, True, 3) == (True, 5)
    assert f.chained(True, 2, False, 3) == (False, 0)
    assert f.either(False, 2, True, 3) == (True, 3)
    assert f.either(True, 2, True, 3) == (True, 2)
    assert f.either(False, 2, False, 0)[0] is False


def test_truths_are_computed_where_they_decide(f: Functions) -> None:
    assert f.lazy(True, 5) is True
    assert f.lazy(False, 5) is True
    assert f.lazy(True, 10) is False
    assert f.lazy(True, 0) == ("0806", "10 / 0 has no value in i64", "10 / x")
    assert f.lazy(False, 0) == ("0806", "5 / 0 has no value in i64", "5 / x")


def test_generics_and_constants(f: Functions) -> None:
    assert f.of_kinds() == (3, 2.5, 44, 1_000_000)
    assert f.sizes() == 1000 + 900 + 50 + 3
    assert f.cubes(5) == 150
    assert f.calls(2) == 234.0 + 212.0 + 252.0


def test_maths(f: Functions) -> None:
    assert f.maths(2.5) == (5.0, 3.5, False, True, False)
    assert repr(f.maths(float("nan"))) == repr((float("nan"), float("nan"), True, False, False))
    assert f.maths(float("-inf")) == (float("-inf"), float("-inf"), False, True, True)
    tenth, x = np.float32(0.1), np.float32(0.7)
    expected = (float(x * tenth + np.float32(1)), float(x * tenth) + 3.0, float(x / np.float32(3)), bool(x < tenth))
    assert f.single(float(x), 3) == expected
    assert f.single(float(tenth), 3)[3] is False
    assert f.casts(-3.9, 2**64 - 1, True) == (-3, 2.0**64, 1, pytest.approx(-3.9, rel=1e-7))
    assert f.casts(3e9, 0, True) == ("0806", "3000000000.0 as i32 does not fit in i32", "x as i32")
    assert f.compared(-1, 2**63, 2.0**63) == (True, False, False)
    assert f.compared(5, 5, 4.5) == (False, True, True)
    assert f.shifted(3, 4) == (48, 0)
    assert f.shifted(-3, 1) == (-6, -2)
    assert f.shifted(1, 31).code == f.shifted(1, 32).code == f.shifted(1, -1).code == "0806"
    assert f.unsigned(0) == 0
    assert f.unsigned(1) == ("0806", "-(1) does not fit in u8", "-x")


def test_functions_without_results(f: Functions) -> None:
    assert f.unit(5) == f.unit(2) == ()
    assert f.unit(0) == ("0806", "10 / 0 has no value in i64", "10 / n")
    assert f.asserted(3) == ()
    assert f.asserted(2) == ("0808", "assertion failed: n is {small}", 'assert(n > 2, "n is {small}")')


def test_blocks(f: Functions) -> None:
    found = f.tests()
    assert found["holds"] == ()
    assert found["fails"] == ("0808", "assertion failed: cubes of {x}", 'assert(cubes(2) == x, "cubes of {x}")')
    assert found["constants"] == ("0808", "assertion failed: four", 'assert(four == 5, "four")')
    assert found["divides"] == ("0806", "1 / 0 has no value in i64", "1 / bounded(0)")
