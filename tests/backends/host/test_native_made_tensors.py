"""Tensors that native functions make: what they hold, that they are what Python makes, and that their memory is given back."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from native_programs import native_of, opened, outcome

from compiler.backends.host.heap import tensor_at
from runtime.tensor import Tensor

Array = np.ndarray[Any, Any]

COMPUTED = """def primes(n: int): tensor {
    mut composite = zeros(n, dtype=bool)
    mut count = 0
    for i in 2..n {
        if not composite[i] {
            count += 1
            for j in i * i..n step i { composite[j] = true }
        }
    }
    mut found = zeros(count, dtype=i64)
    mut k = 0
    for i in 2..n {
        if not composite[i] {
            found[k] = i
            k += 1
        }
    }
    found
}
def sums(x: tensor[N, f64]): tensor[N, f64] {
    mut out = zeros(N, dtype=f64)
    mut s = 0.0
    for i, v in enumerate(x) {
        s += v
        out[i] = s
    }
    out
}
def smoothed(x: tensor[N, f64]): tensor[N, f64] {
    mut out = x.clone()
    for i in 1..N - 1 { out[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1] }
    out
}
def often(x: tensor[N, f64], times: int): tensor[N, f64] {
    mut now = x
    for t in 0..times { now = smoothed(now) }
    now
}
def in_turn(x: tensor[N, f64], times: int): tensor {
    var (now, next) = (x.clone(), x.clone())
    for t in 0..times {
        for i in 1..N - 1 { next[i] = 0.25 * now[i - 1] + 0.5 * now[i] + 0.25 * now[i + 1] }
        (now, next) = (next, now)
    }
    now
}
def product(a: tensor[N, K, f64], b: tensor[L, M, f64]): tensor[N, M, f64] {
    mut out = zeros([a.shape()[0], M], dtype=f64)
    for i in 0..N, j in 0..M {
        mut s = 0.0
        for k in 0..K { s += a[i, k] * b[k, j] }
        out[i, j] = s
    }
    out
}
def norms(a: tensor[N, M, f64]): tensor[N, f64] {
    mut out = zeros(a.len(), dtype=f64)
    for i, row in enumerate(a) {
        mut s = 0.0
        for v in row { s += v * v }
        out[i] = sqrt(s)
    }
    out
}
def total(a: tensor[N, M, f64]): float {
    mut s = 0.0
    for row in a { for v in row { s += v } }
    s + a[0][-1]
}
"""


def smoothed(x: Array, times: int) -> Array:
    for _ in range(times):
        x = np.concatenate([x[:1], 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:], x[-1:]])
    return x


def test_what_is_computed() -> None:
    program = opened(COMPUTED)
    native = native_of(program)
    assert native is not None and set(native.python) == {"primes", "sums", "smoothed", "often", "in_turn", "product", "norms", "total"}
    primes = [n for n in range(2, 1000) if all(n % d for d in range(2, n))]
    found = program.primes(1000)
    assert found.dtype == np.int64 and found.tolist() == primes
    assert program.primes(0).tolist() == program.primes(2).tolist() == []
    rng = np.random.default_rng(3)
    x, a, b = rng.normal(size=31), rng.normal(size=(5, 7)), rng.normal(size=(7, 3))
    np.testing.assert_allclose(program.sums(x), np.cumsum(x), rtol=1e-13)
    np.testing.assert_allclose(program.sums(x[::-3]), np.cumsum(x[::-3]), rtol=1e-13)
    for times in (0, 1, 2, 50):
        np.testing.assert_allclose(program.often(x, times), smoothed(x, times), rtol=1e-13)
        np.testing.assert_allclose(program.in_turn(x, times), smoothed(x, times), rtol=1e-13)
    np.testing.assert_allclose(program.product(a, b), a @ b, rtol=1e-12)
    np.testing.assert_allclose(program.product(b.T, a.T), b.T @ a.T, rtol=1e-12)
    np.testing.assert_allclose(program.norms(a.T), np.linalg.norm(a.T, axis=1), rtol=1e-14)
    np.testing.assert_allclose(program.total(a), a.sum() + a[0, -1], rtol=1e-13)


def test_a_result_may_be_an_argument_or_a_part_of_one() -> None:
    text = """def itself(x: tensor[N, f64], n: int): tensor {
    mut k = 0
    for i in 0..n { k += i }
    if k > 3 { return zeros(k, dtype=f64) }
    x
}
def row(x: tensor[N, M, f64], n: int): tensor {
    let other = zeros(7, dtype=f64)
    for i in 0..1 { if n == 9 { return other } }
    x[n]
}
def written(mut x: tensor[N, f64]): float {
    mut y = itself(x, 0)
    for i in 0..2 { y[i] = 8.0 }
    x[0]
}
"""
    program = opened(text)
    x, table = np.arange(3.0), np.arange(6.0).reshape(3, 2)
    assert np.shares_memory(program.itself(x, 2), x) and program.itself(x, 9).tolist() == [0.0] * 36
    part = program.row(table.T, -1)
    assert part.tolist() == [1.0, 3.0, 5.0] and np.shares_memory(part, table)
    part[0] = 50.0
    assert table[0, 1] == 50.0
    assert program.row(table, 9).tolist() == [0.0] * 7
    assert program.written(x) == 8.0 and x.tolist() == [8.0, 8.0, 2.0]
    table.flags.writeable = False
    assert not program.row(table, 0).flags.writeable


MADE = """def two(n: int): (tensor[?, f64], tensor[?, i64]) {
    let (a, b) = (zeros(n, dtype=f64), arange(n, dtype=i64))
    (a, b)
}
def same(n: int): (tensor[?, f32], tensor[?, f32], int) {
    let y = full(n, 0.5)
    (y, y, n)
}
def lines(n: int): (tensor[?, f64], tensor[?, f32]) { (linspace(0.1, 2.3, n, dtype=f64), linspace(1, 2, n)) }
def steps(a: int, b: int, c: int): (tensor[?, i64], tensor[?, f32], tensor[?, f64]) {
    (arange(a, b, c, dtype=i64), arange(a, b, step=c), arange(a, b, dtype=f64))
}
def fractions(a: float, b: float, c: float): (tensor[?, f32], tensor[?, f64]) { (arange(a, b, c), arange(a, b, step=c, dtype=f64)) }
def identities(a: int, b: int): (tensor[?, ?, f32], tensor[?, ?, i64]) { (eye(a), eye(a, b, dtype=i64)) }
def listed(a: int, x: float): (tensor[?, f32], tensor[?, ?, i64], tensor[?, bool]) {
    (tensor([x, 2.5, a]), tensor([[a, 2], [3, a]]), tensor([a > 3, true]))
}
def filled(a: int, x: float): (tensor[?, f32], tensor[?, i64], tensor[?, u8]) {
    (full(a, x), full(2, a, dtype=i64), full([a], 200, dtype=u8))
}
def forms(n: int): (tensor[?, f32], tensor[?, ?, f32], tensor[?, ?, ?, f64], int) {
    let s = Tensor::zeros(n, 2)
    (Tensor::ones([n]), tensor_zeros_2d(n, 3), zeros_3d(1, n, 2, dtype="f64"), s.shape()[1] + s.shape(0) + s.size() + s.rank())
}
def early(n: int): tensor[?, f64] {
    for i in 0..n {
        let t = zeros(i + 1, dtype=f64)
        if i == 3 { return t }
    }
    ones(1, dtype=f64)
}
def deep(n: int): tensor[?, f64] {
    if n == 0 { return zeros(2, dtype=f64) }
    mut a = deep(n - 1)
    a[1] += 1.0
    a
}
def chosen(n: int): tensor {
    let a = if n > 3 { zeros(n) } else { ones(4) }
    if n == 7 { return full(n, n) }
    a
}
def mixed(n: int, t: int): float {
    var (a, b) = (zeros(n, dtype=f64), ones(n, dtype=f64))
    for k in 0..t {
        let (c, d) = two(k + n)
        for i in 0..n { a[i] = b[i] + c[i] + d[i] }
        (a, b) = (b, a)
        if k % 3 == 1 { continue }
        if k > 20 { break }
        b = full(n, 2.0, dtype=f64)
    }
    let t = a
    a = b
    b = t
    mut k = 0
    while k < 3 {
        a = ones(k + 1, dtype=f64)
        k += 1
    }
    a[0] + b[0] + a.len()
}
"""
MADE_CALLS: list[tuple[str, tuple[Any, ...]]] = [
    *(("two", (n,)) for n in (3, 0, -1)), ("same", (2,)), *(("lines", (n,)) for n in (5, 1, 0, -1)),
    *(("steps", found) for found in ((0, 10, 3), (10, 0, -3), (10, 0, 3), (1, 5, 0), (-5, 5, 4))),
    *(("fractions", (0.0, *found)) for found in ((1.0, 0.1), (5.0, 1.0), (-1.0, -0.3), (1.0, -0.3), (1.0, 0.0))),
    ("fractions", (1.0, float("nan"), 0.3)), ("fractions", (1.0, 2.0, float("inf"))), ("identities", (3, 2)), ("identities", (0, 2)),
    ("identities", (2, -1)), ("listed", (4, 0.1)), ("filled", (3, 1e300)), ("filled", (2, float("nan"))), ("forms", (2,)), ("forms", (0,)),
    *(("early", (n,)) for n in (2, 9)), ("deep", (5,)), *(("chosen", (n,)) for n in (2, 5, 7)), *(("mixed", (3, t)) for t in (0, 5, 50)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments"), MADE_CALLS)
def test_what_is_made_is_what_python_makes(name: str, arguments: tuple[Any, ...]) -> None:
    natively = opened(MADE, "all")
    assert outcome(natively, name, arguments) == outcome(opened(MADE, "none"), name, arguments)
    native = native_of(natively)
    assert native is not None and name in native.python


def test_what_is_made_is_what_numpy_makes() -> None:
    program = opened(MADE, "all")
    zeros, counted = program.two(4)
    assert zeros.dtype == np.float64 and zeros.tolist() == [0.0] * 4 and counted.tolist() == [0, 1, 2, 3]
    first, second, _ = program.same(2)
    assert np.shares_memory(first, second)
    for n in (1, 2, 7):
        np.testing.assert_allclose(program.lines(n)[0], np.linspace(0.1, 2.3, n), rtol=1e-15)
    assert program.steps(10, 0, -3)[0].tolist() == [10, 7, 4, 1]
    np.testing.assert_allclose(program.fractions(0.0, 1.0, 0.1)[1], np.arange(10) * 0.1, rtol=1e-15)
    np.testing.assert_array_equal(program.identities(3, 2)[1], np.eye(3, 2))
    assert program.listed(4, 0.5)[1].tolist() == [[4, 2], [3, 4]]


FAILING = """def outside(n: int, at: int): tensor {
    mut held = zeros(n)
    for i in 0..3 {
        let more = ones(n)
        held = zeros(n)
        held[at + i] = more[0]
    }
    held
}
def over(n: int, by: int): tensor {
    mut held = zeros(n, dtype=i64)
    for i in 0..3 {
        let more = ones(n)
        held[i] = by * (by - i)
    }
    held
}
def divided(mut x: tensor[N, i64], n: int): float {
    let held = zeros(n)
    for i in 0..3 {
        let more = made(n)
        x[i] = 10 / (1 - i)
    }
    1.0
}
def made(n: int): tensor[?, f32] {
    let other = zeros(n)
    let t = zeros(n)
    t
}
def endless(n: int): int {
    let held = zeros(10)
    endless(n + 1) + 1
}
def large(mut x: tensor[N, f64], n: int): tensor {
    x[0] = 5.0
    let held = zeros(1000)
    zeros([n, 1000000, 1000000])
}
"""


def test_failures_say_what_they_say_on_python() -> None:
    python, natively = opened(FAILING, "none"), opened(FAILING, "all")
    calls: list[tuple[str, tuple[Any, ...], str]] = [
        ("outside", (4, 2), "error[ZYN0801]: index 4 is out of range of axis 0: the axis has 4, indices go from 0 to 3\n"),
        ("outside", (0, 0), "error[ZYN0801]: index 0 is out of range of axis 0: the axis is empty\n"),
        ("outside", (-4, 0), "error[ZYN0301]: a shape can't have the negative extent -4: [-4]\n"),
        ("over", (4, 2**40), "error[ZYN0806]: 1099511627776 * 1099511627776 does not fit in i64\n"),
        ("divided", (np.zeros(3, np.int64), 4), "error[ZYN0806]: 10 / 0: division by zero\n"),
    ]
    for name, arguments, first in calls:
        expected = outcome(python, name, tuple(v.copy() if isinstance(v, np.ndarray) else v for v in arguments))
        assert outcome(natively, name, arguments) == expected and expected[1].startswith(first), (name, expected)
    assert outcome(natively, "outside", (4, 1))[1] == "array([0., 0., 0., 1.], dtype=float32)"
    assert "error[ZYN0808]: functions call each other too deep\n" in outcome(natively, "endless", (0,))[1]


def test_what_memory_can_not_hold() -> None:
    """A function that changed nothing is run again on Python, which knows how much is free."""
    program = opened("def huge(n: int): tensor { let held = zeros(1000)\n zeros([n, 1000000, 1000000]) }\n" + FAILING, "all")
    assert "error[ZYN0804]: a tensor of shape [1000, 1000000, 1000000] takes 3.6 PB, and " in outcome(program, "huge", (1000,))[1]
    words = "error[ZYN0804]: a tensor of shape [9000000000000, 1000000, 1000000] has more elements than any memory can hold\n"
    assert outcome(program, "huge", (9 * 10**12,))[1].startswith(words)
    x = np.zeros(1)
    assert "error[ZYN0804]: a tensor of shape [?, ?, ?] takes more memory than is free\n" in outcome(program, "large", (x, 1000))[1]
    assert x[0] == 5.0


def mapped() -> int:
    """Bytes of this process's address space."""
    return 4096 * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])


MEGABYTES = 1 << 20


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("outside", (8 * MEGABYTES, 8 * MEGABYTES - 2)), ("over", (8 * MEGABYTES, 2**40)), ("outside", (8 * MEGABYTES, 0)),
        ("divided", (np.zeros(3, np.int64), 8 * MEGABYTES)), ("made", (8 * MEGABYTES,)),
    ],
)  # fmt: skip
def test_memory_is_given_back(name: str, arguments: tuple[Any, ...]) -> None:
    """Each call makes 64 MB or more, and results are dropped."""
    program = opened(FAILING, "all")
    outcome(program, name, arguments)
    gc.collect()
    before = mapped()
    for _ in range(40):
        outcome(program, name, arguments)
    gc.collect()
    assert mapped() - before < 256 * MEGABYTES


def test_turns_of_a_loop_give_back_what_they_made() -> None:
    """A thousand turns, each with 64 MB, in one call."""
    text = """def turns(n: int, size: int): float {
    mut now = zeros(size)
    mut s = 0.0
    for i in 0..n {
        let other = zeros(size)
        now = zeros(size)
        now[0] = other[1] + 1.0f32
        if i % 2 == 0 { continue }
        s += now[0]
    }
    s
}
"""
    program = opened(text)
    before = mapped()
    assert program.turns(1000, 8 * MEGABYTES) == 500.0
    assert mapped() - before < 256 * MEGABYTES


def test_a_result_outlives_its_program_and_its_neighbours() -> None:
    def made() -> tuple[Array, Array]:
        program = opened(MADE, "all")
        first, second = program.two(100_000)
        del first
        gc.collect()
        return second, program.early(9)

    counted, early = made()
    gc.collect()
    assert counted.tolist() == list(range(100_000)) and early.tolist() == [0.0] * 4


def test_what_lies_in_the_memory_of_a_tensor_refers_to_its_array() -> None:
    """So that a device that updates the tensor knows of it."""
    array = np.arange(6, dtype=np.float32)
    at = array.ctypes.data
    given, other = Tensor(array), Tensor(np.zeros(3, np.float32))
    del array
    assert given.is_alone and other.is_alone
    part = tensor_at(np.dtype(np.float32), at + 8, (2,), (1,), None, (other, given))
    assert part.contents.tolist() == [2.0, 3.0] and not given.is_alone and other.is_alone and not part.is_alone
    assert tensor_at(np.dtype(np.float32), at, (6,), (1,), None, (other, given)) is given
    del part
    assert given.is_alone
