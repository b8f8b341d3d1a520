"""Loops, branches, slots, local memory, strides, gathers, padding: nests against NumPy and the interpreter."""

import ctypes
import ctypes.util

import numpy as np
import pytest
from cpu_runs import assert_as_interpreted, run

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import Return
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem, Space, Tile

LEVELS = (OptimizationLevel.O0, OptimizationLevel.O3)


def matmul(place: str = "time") -> HirFunction:
    f = FunctionBuilder("matmul")
    a = f.parameter("A", Mem("f32", ["M", "K"], readonly=True))
    b = f.parameter("B", Mem("f32", ["K", "N"], readonly=True))
    c = f.parameter("C", Mem("f32", ["M", "N"]))
    for size in "MKN":
        f.parameter(size, INDEX)
    with f.body.loop("i", 0, "M", place=place) as (rows, _):
        with rows.loop("j0", 0, "N", place="simd") as (zero, _):
            zero.store(c, zero.const(0.0), ["i", "j0"])
        with rows.loop("k", 0, "K") as (inner, _), inner.loop("j", 0, "N", place="simd") as (body, _):
            product = body.mul(body.load(a, ["i", "k"]), body.load(b, ["k", "j"]), ["contract"])
            body.store(c, body.add(body.load(c, ["i", "j"]), product, ["reassoc", "contract"]), ["i", "j"])
    return f.finish()


@pytest.mark.parametrize("team", ("gomp", "team", "serial"))
@pytest.mark.parametrize("sizes", ((3, 5, 7), (128, 64, 130), (0, 3, 4), (1, 0, 5), (64, 257, 1)))
def test_matmul_of_any_size_on_any_team(sizes: tuple[int, int, int], team: str) -> None:
    m, k, n = sizes
    if team == "gomp":
        ctypes.CDLL(ctypes.util.find_library("gomp") or pytest.skip("libgomp isn't here"), mode=ctypes.RTLD_GLOBAL)
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c = np.full((m, n), 9, np.float32)
    assert run(matmul("thread"), [a, b, c, m, k, n], threads=2, team=team) is None
    # rounding of at most k sums of numbers below 1
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-6 * (k + 1))


@pytest.mark.parametrize("level", LEVELS)
def test_carried_values_swap_and_steps_run_backwards(level: OptimizationLevel) -> None:
    f = FunctionBuilder("fibonacci")
    out = f.parameter("out", Mem("i64", [20]))
    b = f.body
    zero, one = b.const(0, "i64"), b.const(1, "i64")
    with b.loop("i", 19, -1, step=-1, carried=[zero, one]) as (body, loop):
        first, second = loop.carried
        body.store(out, first, ["i"])
        body.yield_(second, body.add(first, second))
    b.store(out, b.add(loop.results[0], loop.results[1]), [0])
    found = np.zeros(20, np.int64)
    assert run(f.finish(), [found], level=level) is None
    numbers = [0, 1]
    while len(numbers) < 22:
        numbers.append(numbers[-1] + numbers[-2])
    assert found[1:].tolist() == numbers[:19][::-1]
    assert found[0] == numbers[20] + numbers[21]


@pytest.mark.parametrize("level", LEVELS)
def test_while_break_continue_and_branches(level: OptimizationLevel) -> None:
    """Collatz lengths of the odd numbers below N, stopping at the first that needs more than 100 steps."""
    f = FunctionBuilder("collatz")
    out = f.parameter("out", Mem("i32", ["N"]))
    f.parameter("N", INDEX)
    b = f.body
    with b.loop("i", 1, "N") as (body, _):
        index = body.cast(body.index("i"), "i64")
        two = body.const(2, "i64")
        even = body.op("eq", body.op("rem", index, two), body.const(0, "i64"))
        with body.when(even) as inner:
            inner.continue_()
        number, steps = body.slot(index), body.slot(body.const(0, "i32"))
        with body.repeat() as (before, step):
            before.condition(before.op("ne", before.get(number), before.const(1, "i64")))
            now = step.get(number)
            is_even = step.op("eq", step.op("and", now, step.const(1, "i64")), step.const(0, "i64"))
            with step.branch(is_even, [Tile("i64")]) as (then, other, op):
                then.yield_(then.op("shr", now, then.const(1, "i64")))
                other.yield_(other.add(other.mul(now, other.const(3, "i64")), other.const(1, "i64")))
            step.set(number, op.results[0])
            step.set(steps, step.add(step.get(steps), step.const(1, "i32")))
        with body.when(body.op("gt", body.get(steps), body.const(100, "i32"))) as inner:
            inner.break_()
        body.store(out, body.get(steps), ["i"])
    function = f.finish()
    assert_as_interpreted(function, [np.zeros(200, np.int32), 200], level)
    found = np.zeros(200, np.int32)
    run(function, [found, 200], level=level)
    assert found[25] == 23 and found[26] == 0 and found[27] == 0 and found[29] == 0


def test_a_return_ends_the_kernel() -> None:
    f = FunctionBuilder("first")
    out = f.parameter("out", Mem("f32", [4]))
    with f.body.loop("i", 0, 4) as (body, loop):
        with body.when(body.op("eq", loop.variable, body.const(2, "index"))) as inner:
            inner.emit(Return())
        body.store(out, body.const(1.0), ["i"])
    found = np.zeros(4, np.float32)
    assert run(f.finish(), [found]) is None
    assert found.tolist() == [1, 1, 0, 0]


def test_strided_and_reversed_memory() -> None:
    f = FunctionBuilder("copy")
    x = f.parameter("x", Mem("f64", ["M", "N"], strides=["s0", "s1"], readonly=True))
    out = f.parameter("out", Mem("f64", ["M", "N"]))
    for name in ("M", "N", "s0", "s1"):
        f.parameter(name, INDEX)
    with f.body.loop("i", 0, "M") as (rows, _), rows.loop("j", 0, "N", place="simd") as (body, _):
        body.store(out, body.load(x, ["i", "j"]), ["i", "j"])
    function = f.finish()
    whole = np.arange(35.0 * 66).reshape(35, 66)
    for view in (whole.T, whole[::2, ::3], whole[::-1, ::-1], whole[:, 3:4], whole[5:5]):
        found = np.zeros(view.shape)
        m, n = view.shape
        assert run(function, [view, found, m, n, view.strides[0] // 8, view.strides[1] // 8]) is None
        np.testing.assert_array_equal(found, view)


def test_padding_and_where_leave_memory_alone() -> None:
    """A window of three with zeros outside, stored only at even places."""
    f = FunctionBuilder("window")
    x, out = f.parameter("x", Mem("f32", ["N"], readonly=True)), f.parameter("out", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "N") as (body, loop):
        i = Affine.of("i")
        sum_ = body.add(body.add(body.load(x, [i - 1], pad=0.5), body.load(x, [i])), body.load(x, [i + 1], pad=0.5))
        even = body.op("eq", body.op("rem", loop.variable, body.const(2, "index")), body.const(0, "index"))
        body.store(out, sum_, ["i"], where=even)
    function = f.finish()
    for n in (0, 1, 2, 33, 1000):
        values = np.arange(n, dtype=np.float32)
        found = np.full(n, -1, np.float32)
        assert run(function, [values, found, n]) is None
        padded = np.pad(values, 1, constant_values=0.5)
        expected = np.where(np.arange(n) % 2 == 0, padded[:-2] + padded[1:-1] + padded[2:], -1) if n else values
        np.testing.assert_array_equal(found, expected)


def test_floor_in_an_index() -> None:
    """Bounds and indices with quotients of negative numbers too."""
    f = FunctionBuilder("halve")
    x, out = f.parameter("x", Mem("i32", [64])), f.parameter("out", Mem("i32", [64]))
    form = (Affine.of("i") - 20).floordiv(3)
    with f.body.loop("i", 0, 64) as (body, _):
        body.store(out, body.load(x, [form + 10 + Affine.of("i").floordiv(4)]), ["i"])
    assert_as_interpreted(f.finish(), [np.arange(64, dtype=np.int32), np.zeros(64, np.int32)])


@pytest.mark.parametrize("n", (5, 5000))
def test_local_memory_on_stack_and_heap(n: int) -> None:
    f = FunctionBuilder("reverse_rows")
    x, out = f.parameter("x", Mem("f64", ["M", "N"])), f.parameter("out", Mem("f64", ["M", "N"]))
    f.parameter("M", INDEX)
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "M", place="thread", serial_below=2) as (rows, _):
        row = rows.alloc(Mem("f64", ["N"], space=Space.LOCAL))
        small = rows.alloc(Mem("f64", [3], space=Space.LOCAL))
        rows.store(small, rows.const(1.0, "f64"), [2])
        with rows.loop("j", 0, "N") as (body, _):
            body.store(row, body.load(x, ["i", "j"]), ["j"])
        with rows.loop("k", 0, "N") as (body, _):
            back = body.load(row, [Affine.of("N") - "k" - 1])
            body.store(out, body.add(back, body.load(small, [2])), ["i", "k"])
    values = np.random.default_rng(1).random((7, n))
    found = np.zeros((7, n))
    assert run(f.finish(), [values, found, 7, n], threads=2) is None
    np.testing.assert_array_equal(found, values[:, ::-1] + 1)


def test_a_reduction_without_permission_keeps_its_order() -> None:
    """In a simd loop too: only `reassoc` lets the sum be split."""

    def total(flags: tuple[str, ...]) -> HirFunction:
        f = FunctionBuilder("total")
        x, out = f.parameter("x", Mem("f32", ["N"])), f.parameter("out", Mem("f32", []))
        f.parameter("N", INDEX)
        cell = f.body.slot(f.body.const(0.0))
        with f.body.loop("i", 0, "N", place="simd") as (body, _):
            body.set(cell, body.add(body.get(cell), body.load(x, ["i"]), flags))
        f.body.store(out, f.body.get(cell), [])
        return f.finish()

    values = np.random.default_rng(2).random(10007, np.float32)
    strict, free = np.zeros((), np.float32), np.zeros((), np.float32)
    run(total(()), [values, strict, len(values)])
    run(total(("reassoc",)), [values, free, len(values)])
    assert strict == np.cumsum(values, dtype=np.float32)[-1]
    np.testing.assert_allclose(free, values.sum(dtype=np.float64), rtol=1e-6)


def test_scalar_arguments_of_every_width() -> None:
    f = FunctionBuilder("sum")
    out = f.parameter("out", Mem("f64", [9]))
    dtypes = ("i8", "u8", "i16", "u32", "i64", "f16", "bf16", "f32", "i1")
    numbers = [f.parameter(f"p_{dtype}", Tile(dtype)) for dtype in dtypes]
    for place, number in enumerate(numbers):
        f.body.store(out, f.body.cast(number, "f64"), [place])
    found = np.zeros(9)
    assert run(f.finish(), [found, -5, 200, -30000, 4000000000, -(2**40), 0.1, 0.1, 0.1, True]) is None
    assert found.tolist() == [-5, 200, -30000, 4e9, -(2.0**40), float(np.float16(0.1)), 0.10009765625, float(np.float32(0.1)), 1]
