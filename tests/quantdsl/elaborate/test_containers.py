"""Arrays, rings, tables, structs, tuples: values that are copied where they are assigned, memory where they are changed."""

import random
from collections import deque

import numpy as np
import pytest

from compiler.hir.layout import new_memory
from compiler.hir.native_types import F64, I64
from quantdsl.native.ring import NativeRing
from tests.quantdsl.elaborate.running import MARKETS, Functions

PROGRAM = (
    MARKETS
    + """
const N = 5
struct Level { price: Price<ES>, qty: Qty<ES> = 1lots }
struct Pair<T> { first: T, second: T }
struct Window { values: [f64; N], count: int, best: Level? = none }

fn dot(a: [f64; 8], b: [f64; 8]) -> f64 {
  var s = 0.0
  for i in 0..8 { s += a[i] * b[i] }
  s
}
fn total(xs: [i64; N]) -> int {
  var t = 0
  for x in xs { t += x }
  t
}
fn at(xs: [i64; N], i: int) -> int { xs[i] }
fn copied() -> (int, int, int) {
  var a = [1, 2, 3]
  let b = a
  var c = b
  a[0] = 10
  c[1] = 20
  (a[0] * 100 + a[1], b[0] * 100 + b[1], c[0] * 100 + c[1])
}
fn changed(mut xs: [i64; N]) -> int {
  xs[0] = 7
  xs[0] + xs[1]
}
fn kept() -> (int, int) {
  let xs = [1, 2, 3, 4, 5]
  (changed(xs), xs[0])
}
fn filled(x: f64) -> [f64; N] { [x; N] }
fn put_together(result: int, memory0: [int; 2]) -> [int; 2] { [result, memory0[1]] }
fn named() -> int {
  let x = put_together(3, [4, 5])
  x[0] * 10 + x[1]
}
fn wider() -> [i64; 3] {
  let narrow: [i32; 3] = [1, -2, 3]
  narrow
}
fn nested() -> f64 {
  var w = Window { values: [0.5; N], count: 2 }
  w.values[1] = 2.0
  let before = w
  w.values[1] = 3.0
  w.best = Level { price: 10.25 }
  w.count += 1
  let level = w.best ?? Level { price: 0.25, qty: 9lots }
  before.values[1] * 1000.0 + w.values[1] * 100.0 + level.price.f64 + level.qty.f64 / 16.0 + w.count
}
fn based(p: Price<ES>) -> (Price<ES>, Qty<ES>) {
  let a = Level { price: p, qty: 3lots }
  let b = Level { price: p + 1ticks, ..a }
  (b.price, b.qty)
}
fn swap<T>(p: Pair<T>) -> Pair<T> { Pair<T> { first: p.second, second: p.first } }
fn swapped() -> (int, f64, f64) {
  let p = swap(Pair<int> { first: 1, second: 2 })
  let q = swap(swap(Pair<f64> { first: 1.5, second: 2.5 }))
  (p.first, q.first, q.second)
}
fn exchanged(a: int, b: int) -> (int, int) {
  var x = a
  var y = b
  (x, y) = (y, x + 0)
  let (s, (t, _)) = (x, (y, 3.0))
  (s, t)
}
fn moving(r: ring<f64, 4>, n: int) -> f64 {
  var t = 0.0
  for i in 0..min(r.len, n) { t += r[i] * (i + 1) }
  for x in r { t += x * 1000.0 }
  t
}
fn last_of(n: int) -> (int, int, int?) {
  var r: ring<i64, 4>
  var dropped = 0
  for i in 0..n {
    if let old = r.push(i * i) { dropped = dropped * 10 + old }
  }
  let oldest = if r.len > 0 { some(r[r.len - 1]) } else { none }
  (r.len, dropped, oldest)
}
fn while_going() -> int {
  var r: ring<i64, 3>
  _ = r.push(1)
  _ = r.push(2)
  var t = 0
  for x in r {
    _ = r.push(x * 10)
    t = t * 100 + x
  }
  t * 1000 + r[0]
}
fn cleared() -> int {
  var r: ring<i64, 3>
  r.push(1)
  r.clear()
  r.push(5)
  r.len * 10 + r[0]
}
fn structs_in_rings() -> (int, int) {
  var r: ring<Level, 2>
  r.push(Level { price: 1.0 })
  r.push(Level { price: 2.0, qty: 2lots })
  let old = r.push(Level { price: 3.0, qty: 3lots })
  let p = if let l = old { l.price.ticks } else { -1 }
  (p, r[1].price.ticks * 10 + r[0].qty.lots)
}
fn tables(a: u64, b: u64) -> (int, int, int, int, bool) {
  var t: table<u64, Level, 2>
  _ = t.insert(a, Level { price: 1.0 })
  let again = t.insert(a, Level { price: 2.0 })
  let before = match again {
    Ok(some(l)) => l.price.ticks
    Ok(none) => -1
    Err(_) => -2
  }
  _ = t.insert(b, Level { price: 3.0 })
  let third = match t.insert(a + b + 1, Level { price: 4.0 }) { Ok(_) => 0, Err(full) => 1 }
  let found = if let l = t.get(b) { l.price.ticks } else { -1 }
  let gone = if let l = t.remove(a) { l.price.ticks } else { -1 }
  (before, third, found, gone, t.get(a).is_none())
}
fn sides() -> int {
  var t: table<Side, int, 4>
  _ = t.insert(Buy, 5)
  _ = t.insert(Sell, 7)
  (t.get(Buy) ?? 0) * 10 + (t.get(Sell) ?? 0) + t.len * 100
}
fn optional_arrays(x: bool) -> f64 {
  let o: [f64; 3]? = if x { some([1.0, 2.0, 3.0]) } else { none }
  if let xs = o { xs[2] } else { -1.0 }
}
fn longest() -> [i64; 3] {
  var best = [0, 0, 0]
  for i in 0..4 { if i == 2 { best = [i, i * 2, i * 3] } }
  best
}
fn checked_pair(a: bool) -> Result<[int; 2], Pair<[u8; 2]>> {
  if a { return Ok([1, 2]) }
  Err(Pair<[u8; 2]> { first: [3, 4], second: [5, 6] })
}
fn in_results(a: bool) -> int {
  match checked_pair(a) {
    Ok(xs) => xs[0] * 10 + xs[1]
    Err(p) => p.first[1] * 10 + p.second[0]
  }
}
const WEIGHTS = [0.5; 40]
const PRIMES: [i64; 4] = [2, 3, 5, 7]
const LEVELS = [Level { price: 1.0 }, Level { price: 2.0, qty: 5lots }]
const FAULTY = [1, PRIMES[3] / (PRIMES[0] - 2)]
fn constants(n: int) -> (f64, int, int) {
  var t = 0.0
  var u = 0
  for i in 0..n {
    t += WEIGHTS[i]
    if i > 2 { u += PRIMES[i % 4] }
  }
  var own = PRIMES
  own[0] = 100
  if n < 0 { u = FAULTY[0] }
  (t, u, own[0] * 1000 + PRIMES[0] * 100 + LEVELS[1].qty.lots)
}
fn of_arrays(i: int, j: int) -> int {
  let m = [[1, 2], [3, 4], [5, 6]]
  m[i][j]
}
"""
)


@pytest.fixture(scope="module")
def f() -> Functions:
    return Functions(PROGRAM)


def test_elements(f: Functions) -> None:
    a, b = np.arange(8.0), np.arange(8.0) - 3
    assert f.dot(a, b) == float(a @ b)
    assert f.dot(a, a) == float(a @ a)
    xs = np.array([3, -1, 4, 1, -5], np.int64)
    assert f.total(xs) == 2
    assert [f.at(xs, i) for i in range(5)] == xs.tolist()
    assert f.at(xs, 5) == ("0801", "index 5 in an array of 5", "xs[i]")
    assert f.at(xs, -1) == ("0801", "index -1 in an array of 5", "xs[i]")
    assert f.of_arrays(2, 1) == 6
    assert f.constants(6) == (3.0, 7 + 2 + 3, 100_205)
    assert f.constants(41) == ("0801", "index 40 in an array of 40", "WEIGHTS[i]")
    assert f.constants(-1) == ("0806", "7 / 0 has no value in i64", "PRIMES[3] / (PRIMES[0] - 2)")
    assert f.of_arrays(0, 2) == ("0801", "index 2 in an array of 2", "m[i][j]")


def test_values_are_copied(f: Functions) -> None:
    assert f.copied() == (1002, 102, 120)
    assert f.kept() == (9, 1)
    xs = np.array([3, -1, 4, 1, -5], np.int64)
    assert f.changed(xs) == 6
    assert xs[0] == 3


def test_arrays_as_results(f: Functions) -> None:
    out = np.zeros(5)
    f.filled(2.5, out)
    assert out.tolist() == [2.5] * 5
    out = np.zeros(3, np.int64)
    assert f.named() == 35
    f.wider(out)
    assert out.tolist() == [1, -2, 3]
    f.longest(out)
    assert out.tolist() == [2, 4, 6]


def test_structs(f: Functions) -> None:
    assert f.nested() == 2000 + 300 + 10.25 + 1 / 16 + 3
    assert f.based(40) == (41, 3)
    assert f.swapped() == (2, 1.5, 2.5)
    assert f.exchanged(1, 2) == (2, 1)
    assert f.optional_arrays(True) == 3.0
    assert f.optional_arrays(False) == -1.0
    assert f.in_results(True) == 12
    assert f.in_results(False) == 45


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 9])
def test_rings(f: Functions, n: int) -> None:
    values, dropped = deque(maxlen=4), 0
    for i in range(n):
        if len(values) == 4:
            dropped = dropped * 10 + values[0]
        values.append(i * i)
    assert f.last_of(n) == (len(values), dropped, n > 0, values[0] if n else 0)


def test_elements_of_rings(f: Functions) -> None:
    ring = NativeRing(F64, 4)
    memory = new_memory(ring.type)
    made = random.Random(7)
    values: deque[float] = deque(maxlen=4)
    for _ in range(9):
        x = made.random()
        memory["items"][0][memory["next"][0]] = x
        memory["next"], memory["count"] = (memory["next"] + 1) % 4, min(int(memory["count"][0]) + 1, 4)
        values.appendleft(x)
        expected = 0.0
        for i in range(min(len(values), 3)):
            expected += values[i] * (i + 1)
        for x in values:
            expected += x * 1000.0
        assert f.moving(memory, 3) == expected


def test_a_loop_goes_over_what_was_there(f: Functions) -> None:
    assert f.while_going() == 201 * 1000 + 10
    assert f.cleared() == 15
    assert f.structs_in_rings() == (4, 83)


def test_tables(f: Functions) -> None:
    assert f.tables(3, 4) == (4, 1, 12, 8, True)
    assert f.tables(2**64 - 1, 0) == ("0806", "18446744073709551615 + 1 does not fit in u64", "a + b + 1")
    assert f.sides() == 257


def test_sizes() -> None:
    assert NativeRing(I64, 3).type.fields[0] == ("count", I64)
