"""Functions of type parameters that calculate, and structs whose arguments follow from their fields."""

import pytest

from tests.quantdsl.elaborate.running import Functions

PROGRAM = """
struct Acc<T> { total: T, n: int, last: T? }
struct Grid<T, N> { cells: [T; N] }
fn dot<T: Number, N>(xs: [T; N], ys: [T; N]) -> T {
  var s: T = 0
  for i in 0..xs.len { s += xs[i] * ys[i] }
  s
}
fn polynomial<T: Number>(x: T) -> T { -(3 * x * x) + max(x, 2) - abs(x) % 5 }
fn sign<T: Number>(x: T) -> int { if x > 0 { 1 } else if x < 0 { -1 } else { 0 } }
fn mean<T: Number, N>(xs: [T; N]) -> f64 {
  var s: T = 0
  for x in xs { s += x }
  (s as f64) / xs.len
}
fn grown<T: Number>(a: Acc<T>, x: T) -> Acc<T> { Acc { total: a.total + x, n: a.n + 1, last: x } }

fn dot_of_ints(a: int, b: int) -> int { dot([a, 2], [b, 5]) }
fn dot_of_floats(a: f64, b: f64) -> f64 { dot([a], [b]) }
fn of_int(x: int) -> int { polynomial(x) }
fn of_byte(x: i8) -> i8 { polynomial(x) }
fn of_float(x: f64) -> f64 { polynomial(x) }
fn signs(x: i32, y: u8, z: f32) -> int { sign(x) * 100 + sign(y) * 10 + sign(z) }
fn means(x: int, y: f64) -> f64 { mean([x, x + 1]) + mean([y, 0.5, 0.25]) }
fn total(x: f64) -> f64 {
  let a = grown(Acc { total: 1.5, n: 0, last: none }, x)
  let g = Grid { cells: [a, grown(a, x)] }
  g.cells[1].total + g.cells[0].n * 100.0 + (a.last ?? 0.0) * 1000.0
}
"""


@pytest.fixture(scope="module")
def f() -> Functions:
    return Functions(PROGRAM)


def _polynomial(x: float) -> float:
    return -(3 * x * x) + max(x, 2) - abs(x) % 5


@pytest.mark.parametrize("x", [-6, 0, 3, 6])
def test_each_type_has_its_own_arithmetic(f: Functions, x: int) -> None:
    assert f.of_int(x) == f.of_byte(x) == f.of_float(float(x)) == _polynomial(x)


def test_overflow_is_that_of_the_type(f: Functions) -> None:
    assert f.of_int(7) == -147 + 7 - 2
    assert f.of_byte(7) == ("0806",)


def test_sums_begin_with_a_whole_number(f: Functions) -> None:
    assert f.dot_of_ints(7, -3) == -11
    assert f.dot_of_floats(0.5, 0.125) == 0.0625
    assert f.means(3, 2.25) == 3.5 + 1.0


def test_numbers_are_compared_with_literals(f: Functions) -> None:
    assert f.signs(-5, 200, 0.0) == -100 + 10
    assert f.signs(0, 0, -0.5) == -1


def test_type_arguments_of_a_struct_follow_from_its_fields(f: Functions) -> None:
    assert f.total(0.5) == 2.5 + 100.0 + 500.0
