"""Calls that machine code answers: it takes what it was made for, and gives what the way through the program gives; everything else goes that
way, with the messages that it has."""

import copy
import gc
import inspect
import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
import weakref

import ml_dtypes
import numpy as np
import pytest

import zynml
import zynml.compiled
import zynml.crossing
from compiler.launch import tiers
from runtime.calls import arrays, vectorcall
from zynml.functions import CompiledFunction

PROGRAM = """
let factor = 3.0
// Adds.
def add(a: tensor[N], b: tensor[N]): tensor { compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] } }
def minus(a: tensor[N], b: tensor[N]): tensor { compute(x = b, y = a) { for i in 0..N: out[i] = y[i] - x[i] } }
def doubled(x) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }
def table(x: tensor[M, N], y: tensor[N]): tensor { compute(x, y) { for i in 0..M, j in 0..N: out[j, i] = x[i, j] * y[j] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def scale64(x: tensor[N, f64], by: f64): tensor[N, f64] { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def times(x: tensor[N, i64], by: int): tensor[N, i64] { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def times32(x: tensor[N, i32], by: i32): tensor[N, i32] { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def weighed(x: tensor[N, f64], by) { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def first(x: tensor[N], n: int): tensor { compute(x, n) { for i in 0..n: out[i] = x[i] } }
def halves(x: tensor[N]): tensor { compute(x) { for i in 0..(N - 3) / 2: out[i] = x[2 * i + 1] } }
def filled(x: tensor[N], n: int): tensor[K] { compute(x, n) { for i in 0..n: out[i] = x[0] } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def total64(x: tensor[N, f64]): f64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def count(x: tensor[N, i64]): i64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def biggest(x: tensor[N]) { compute(x) @kernel reduce(argmax) { for i in 0..N: yield (x[i], i) } }
def both(x: tensor[N]) { compute(x) -> (y: tensor[N], z: tensor[N]) { for i in 0..N { y[i] = x[i] + 1.0; z[i] = x[i] * 2.0 } } }
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def silent(mut w: tensor[N]): () { compute(mut w) { for i in 0..N: w[i] = w[i] * 2.0 } }
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def inside(x: tensor[A, B, C]) {
    compute(x) -> tensor[A, B, C] { for i in 2..A - 1, j in 0..B - 3, k in 4..C: out[i, j, k] = x[i, j, k] }
}
def some(x: tensor[N]): tensor { compute(x) { for i in 0..N: if x[i] > 0.0 { out[i] = x[i] } } }
def shorter(x: tensor[N], y: tensor[N + 1]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i + 1] } }
def sums(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
def grouped(x: tensor[M, G * O], G: int, O: int): tensor[M, G] {
    compute(x, G, O) { for m in 0..M, g in 0..G { var s = 0.0; for o in 0..O: s += x[m, g * O + o]; out[m, g] = s } }
}
def captured(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * factor } }
def changed(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + x[i] }
    x.sum()
    compute(y) { for i in 0..N: out[i] = y[i] + y[i] }
}
def later(x: tensor[N], k: tensor[N, i64]): Future<tensor[N]> { compute(x, k) @async { for i in 0..N: out[i] = x[k[i]] } }
"""

SEQUENCES = """
def twice(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + x[i] }
    compute(y) { for i in 0..N: out[i] = y[i] + y[i] }
}
def less(x: tensor[N]): tensor {
    let m = compute(x) @kernel reduce(max) { for i in 0..N: yield x[i] }
    compute(x, m) { for i in 0..N: out[i] = x[i] - m }
}
def backwards(x: tensor[N], by: f32): tensor {
    let y = compute(a = x, by) @kernel scan(+) { for i in 0..N: yield a[i] * by }
    compute(v = y, x) { for i in 0..N: out[i] = v[N - 1 - i] + x[i] }
}
def layers(a: tensor[M, K], b: tensor[K, N], c: tensor[N]): tensor {
    let p = compute(a, b) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += a[i, k] * b[k, j]; out[i, j] = s } }
    let q = compute(p, c) { for i in 0..M, j in 0..N: out[i, j] = max(p[i, j] + c[j], 0.0) }
    compute(x = q, y = b) { for i in 0..M, j in 0..K { var s = 0.0; for k in 0..N: s += x[i, k] * y[j, k]; out[i, j] = s } }
}
def chosen(x: tensor[N], k: tensor[N, i64]): tensor {
    let y = compute(x) @kernel scan(+) { for i in 0..N: yield x[i] }
    compute(y, k) { for i in 0..N: out[i] = y[k[i]] }
}
def counted(x: tensor[N, i64]): tensor[N, i64] {
    let m = compute(x) @kernel reduce(max) { for i in 0..N: yield x[i] }
    compute(x, m) { for i in 0..N: out[i] = x[i] - m }
}
def swapped(x: tensor[N], y: tensor[N]): tensor {
    let a = compute(y) { for i in 0..N: out[i] = y[i] * 2.0 }
    let b = compute(x) @kernel scan(+) { for i in 0..N: yield x[i] }
    compute(y = b, x = a) { for i in 0..N: out[i] = y[i] - x[N - 1 - i] }
}
"""

pytestmark = pytest.mark.skipif(not arrays.is_known(), reason="this interpreter has no calls by machine code")


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM, threads=2)


@pytest.fixture
def ways(monkeypatch):
    """The calls that went through the program."""
    made = []

    class Counting(zynml.crossing.Crossing):
        def __init__(self, *arguments):
            made.append(1)
            super().__init__(*arguments)

    monkeypatch.setattr(zynml.crossing, "Crossing", Counting)
    return made


def numbers(*shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def ready(function, *values):
    """The function, called until calls of this kind need nothing of the program."""
    for _ in range(3):
        function(*values)
    tiers.finish()
    assert function._entry
    return function


def same(result, wanted):
    assert result.__class__ is np.ndarray and result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted, strict=True)


def answered(ways, function, *values):
    """The value of a call that doesn't go through the program."""
    before = len(ways)
    value = function(*values)
    assert len(ways) == before, "went through the program"
    return value


def refused(ways, function, *values, **named):
    """The message of a call."""
    before = len(ways)
    with pytest.raises(zynml.ZynMLError) as caught:
        function(*values, **named)
    assert len(ways) == before + 1
    return str(caught.value)


# ---- what is answered ----


@pytest.mark.parametrize("count", [0, 1, 2, 15, 16, 17, 1000, 1 << 14, (1 << 14) + 1, 1 << 17, 1 << 19])
def test_sizes_are_read_from_the_arrays(program, ways, count):
    ready(program.minus, numbers(5), numbers(5))
    a, b = numbers(count, seed=2), numbers(count, seed=3)
    result = answered(ways, program.minus, a, b)
    same(result, a - b)
    assert result.flags.c_contiguous and result.flags.writeable and result.ctypes.data % result.itemsize == 0
    again = answered(ways, program.minus, b, a)
    same(result, a - b)
    same(again, b - a)


def test_kinds_of_elements_are_tried_in_turn(program, ways):
    dtypes = [np.float32, np.float64, np.int32, np.int64, np.uint8, ml_dtypes.bfloat16, np.float16]
    for dtype in dtypes:
        ready(program.doubled, numbers(4, dtype=np.int8).astype(dtype))
    for dtype in dtypes * 2:
        x = np.abs(numbers(9, seed=4)).astype(dtype)
        same(answered(ways, program.doubled, x), x + x)


def test_kinds_beyond_those_that_are_kept_are_right():
    doubled = zynml.compile(PROGRAM).doubled
    kinds = [np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
    for _ in range(4):
        for dtype in kinds:
            same(doubled(np.arange(5).astype(dtype)), (2 * np.arange(5)).astype(dtype))


def test_unpickled_arrays_have_dtypes_of_their_own(program, ways):
    ready(program.add, numbers(4), numbers(4))
    x = numbers(4).view(np.dtype("f4", metadata={"unit": "m"}))
    assert x.dtype is not np.dtype("f4")
    same(answered(ways, program.add, x, pickle.loads(pickle.dumps(numbers(4)))), numbers(4) * 2)


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x, lambda x: x[:, ::-1], lambda x: x[::-1], lambda x: x[::2], lambda x: x[:, 1::2], lambda x: x[:, 2:], lambda x: x[:0],
        lambda x: x[:, :0], lambda x: np.asfortranarray(x), lambda x: x[::-2, ::-3], lambda x: np.broadcast_to(x[0], x.shape),
        lambda x: np.broadcast_to(x[:, :1], x.shape),
    ],
    ids=["whole", "columns back", "rows back", "rows", "columns", "cut", "no rows", "no columns", "Fortran", "both", "one row", "one column"],
)  # fmt: skip
def test_layouts(ways, cut):
    table = zynml.compile(PROGRAM, threads=1).table
    x, y = cut(numbers(6, 9)), numbers(9)[: cut(numbers(6, 9)).shape[1]]
    ready(table, x, y)
    same(answered(ways, table, x, y), np.ascontiguousarray((x * y).T))
    for seed, shape in ((5, (6, 9)), (6, (3, 3)), (7, (9, 20))):
        z = numbers(*shape, seed=seed)
        same(table(cut(z), numbers(cut(z).shape[1])), np.ascontiguousarray((cut(z) * numbers(cut(z).shape[1])).T))


def test_an_array_may_be_given_twice_and_be_read_only(program, ways):
    ready(program.add, numbers(4), numbers(4))
    x = numbers(7)
    x.flags.writeable = False
    same(answered(ways, program.add, x, x), x + x)


@pytest.mark.parametrize("by", [0.0, -0.0, 1.5, float("inf"), float("-inf"), 1e39, -1e300, 1e-46, 5e-324, 1 / 3, 16777217.0])
def test_floats_are_rounded_as_numpy_rounds(program, ways, by):
    ready(program.scale, numbers(4), 1.0)
    ready(program.scale64, numbers(4, dtype=np.float64), 1.0)
    with np.errstate(all="ignore"):
        result, wanted = answered(ways, program.scale, np.ones(3, np.float32), by), np.full(3, np.float32(by))
        assert result.tobytes() == wanted.tobytes()
        assert answered(ways, program.scale64, np.ones(3), by).tobytes() == np.full(3, by).tobytes()


def test_no_number_is_no_number(program, ways):
    ready(program.scale, numbers(4), 1.0)
    assert np.isnan(answered(ways, program.scale, np.ones(3, np.float32), float("nan"))).all()
    assert np.isnan(answered(ways, program.scale, np.full(3, np.nan, np.float32), 2.0)).all()


@pytest.mark.parametrize("by", [0, 1, -7, 256, 257, -(1 << 24), 1 << 24])
def test_ints_where_floats_are_declared(ways, by):
    scale = ready(zynml.compile(PROGRAM).scale, numbers(4), 3)
    same(answered(ways, scale, np.ones(3, np.float32), by), np.full(3, by, np.float32))
    assert "holds" not in refused(ways, scale, numbers(3), (1 << 24) + 1)
    same(scale(np.ones(3, np.float32), 1 << 60), np.full(3, 1 << 60, np.float32))


def test_ints_and_their_ends(program, ways):
    ready(program.times, numbers(3, dtype=np.int64), 2)
    ready(program.times32, numbers(3, dtype=np.int32), 2)
    for by in (0, -1, 3, (1 << 31) - 1, -(1 << 31)):
        same(answered(ways, program.times, np.arange(3), by), np.arange(3) * by)
        same(answered(ways, program.times32, np.array([1, 0], np.int32), by), np.array([by, 0], np.int32))
    for by in ((1 << 63) - 1, -(1 << 63), 1 << 50):
        same(program.times(np.array([1, 0]), by), np.array([by, 0]))
    for by in (1 << 31, -(1 << 31) - 1, 1 << 63, 1 << 64, -(1 << 100)):
        assert refused(ways, program.times32, np.array([1], np.int32), by)
    for by in (1 << 63, 1 << 64):
        assert refused(ways, program.times, np.array([1]), by)


def test_numbers_of_undeclared_type_are_those_of_python(ways):
    weighed = zynml.compile(PROGRAM).weighed
    ready(weighed, np.ones(3), 2.0)
    ready(weighed, np.ones(3), 2)
    assert weighed(np.ones(3), True).tolist() == [1.0] * 3
    same(answered(ways, weighed, np.ones(3), 0.1), np.full(3, 0.1))
    same(answered(ways, weighed, np.ones(3), -3), np.full(3, -3.0))


def test_sizes_that_are_given_as_numbers(program, ways):
    ready(program.first, numbers(5), 2)
    for count in (0, 1, 5, 9):
        for n in range(count + 1):
            same(answered(ways, program.first, numbers(count), n), numbers(count)[:n])
    for n in (-1, -5):
        same(program.first(numbers(3), n), numbers(0))
    assert "3" in refused(ways, program.first, numbers(3), 4)


def test_factors_that_a_kernel_is_made_for(program, ways):
    x = numbers(3, 12)
    ready(program.grouped, x, 4, 3)
    same(answered(ways, program.grouped, x, 4, 3), x.reshape(3, 4, 3).sum(-1))
    for groups in (1, 2, 6, 12):
        same(program.grouped(x, groups, 12 // groups), x.reshape(3, groups, -1).sum(-1))
    same(answered(ways, program.grouped, x[:1], 4, 3), x[:1].reshape(1, 4, 3).sum(-1))
    assert "12" in refused(ways, program.grouped, x, 4, 4)


@pytest.mark.parametrize("count", range(12))
def test_sizes_are_divided_downwards(program, ways, count):
    ready(program.halves, numbers(9))
    x = numbers(count)
    if count in (0, 2):
        assert f"divides {count - 3} by 2, which needs larger sizes" in refused(ways, program.halves, x)
    else:
        same(program.halves(x), x[1::2][: max(0, (count - 3) // 2)])


def test_results_that_are_numbers(program, ways):
    x = numbers(9)
    cases = [
        (program.total, x, np.float32, np.float32(x.sum())),
        (program.total64, x.astype(np.float64), float, float(x.sum())),
        (program.count, x.astype(np.int64), int, int(x.sum())),
    ]
    for function, given, kind, wanted in cases:
        ready(function, given)
        value = answered(ways, function, given)
        assert value.__class__ is kind and value == wanted
    ready(program.biggest, x)
    value = answered(ways, program.biggest, x)
    assert value == (x.max(), x.argmax()) and [type(part) for part in value] == [type(part) for part in program.biggest(x=x)]


def test_results_that_are_tuples(program, ways):
    ready(program.both, numbers(4))
    x = numbers(6)
    y, z = answered(ways, program.both, x)
    same(y, x + 1)
    same(z, x * 2)


def test_what_is_not_written_is_0(program, ways):
    ready(program.some, numbers(4))
    for count in (4, 300, 1 << 15):
        x = numbers(count)
        for _ in range(3):
            same(answered(ways, program.some, x), np.where(x > 0, x, np.float32(0)))


def test_what_lies_around_the_written_inside_is_0(program, ways):
    """Long lines are cleared around it, short ones as a whole; memory that was used before is what results are made in."""
    ready(program.inside, numbers(4, 5, 80))
    for shape in (4, 5, 600), (2, 3, 400), (5, 3, 300), (1, 9, 100), (9, 9, 64), (9, 9, 65), (9, 9, 3), (7, 2, 5000), (30, 40, 70), (3, 0, 90):
        x, wanted = np.abs(numbers(*shape)) + 1, np.zeros(shape, np.float32)
        wanted[2 : shape[0] - 1, : max(0, shape[1] - 3), 4:] = x[2 : shape[0] - 1, : max(0, shape[1] - 3), 4:]
        for _ in range(3):
            program.doubled(np.ones(x.size, np.float32))
            same(program.inside(x), wanted)
        if min(shape) > 4:  # else there is nothing inside, which the program's own way sees
            tiers.finish()
            same(answered(ways, program.inside, x), wanted)


def test_products_of_matrices(program, ways):
    ready(program.sums, numbers(2, 3), numbers(3, 4))
    ready(program.sums, numbers(17, 33), numbers(33, 65))  # another path through the kernel, of which there is all then
    for m, k, n in ((1, 1, 1), (3, 0, 2), (0, 3, 2), (17, 33, 65), (128, 64, 96), (3, 5, 0)):
        x, y = numbers(m, k), numbers(k, n)
        same(answered(ways, program.sums, x, y), (x.astype(np.float64) @ y).astype(np.float32))


# ---- what is updated ----


def test_an_updated_array_is_the_value(program, ways):
    ready(program.raised, numbers(4), numbers(4))
    w, x = numbers(5, seed=8), numbers(5, seed=9)
    wanted = w + x
    assert answered(ways, program.raised, w, x) is w
    same(w, wanted)
    ready(program.silent, numbers(4))
    assert answered(ways, program.silent, w) is None
    same(w, wanted * 2)


def test_arrays_that_lie_apart_in_one_memory(program, ways):
    ready(program.raised, numbers(4), numbers(4))
    whole = numbers(20)
    before = whole.copy()
    answered(ways, program.raised, whole[:10], whole[10:])
    same(whole, np.concatenate([before[:10] + before[10:], before[10:]]))
    answered(ways, program.raised, whole[10:], whole[:10])


@pytest.mark.parametrize("first, second", [((0, 10), (9, 19)), ((9, 19), (0, 10)), ((0, 10), (0, 10)), ((4, 6), (5, 7))])
def test_arrays_that_overlap_are_refused(program, ways, first, second):
    ready(program.raised, numbers(4), numbers(4))
    whole = numbers(20)
    before = whole.copy()
    assert "ZYN0813" in refused(ways, program.raised, whole[slice(*first)], whole[slice(*second)])
    same(whole, before)


def test_interleaved_arrays_are_left_to_the_program(program, ways):
    whole = numbers(20)
    for _ in range(4):
        before = whole.copy()
        program.raised(whole[::2], whole[1::2])
        same(whole[::2], before[::2] + before[1::2])


def test_memory_that_may_not_be_written(program, ways):
    ready(program.raised, numbers(4), numbers(4))
    w = numbers(3)
    w.flags.writeable = False
    assert "its memory is read-only" in refused(ways, program.raised, w, numbers(3))
    same(w, numbers(3))


# ---- what goes through the program ----


def test_messages_are_the_same_before_and_after(ways):
    wrong = [
        ("add", (numbers(3), numbers(4)), {}),
        ("add", (numbers(3),), {}),
        ("add", (numbers(3), numbers(3), numbers(3)), {}),
        ("add", (), {}),
        ("add", (numbers(3), numbers(3).astype(np.float64)), {}),
        ("add", (numbers(3, 1), numbers(3, 1)), {}),
        ("add", (numbers(3), numbers(3)), {"c": 1}),
        ("add", (numbers(3), "text"), {}),
        ("add", (numbers(3), None), {}),
        ("add", (numbers(3), numbers(3).astype(">f4")), {}),
        ("add", (np.ma.masked_array([1.0], [True]), numbers(1)), {}),
        ("scale", (numbers(3), 1 << 70), {}),
        ("times", (np.arange(3), 2.5), {}),
        ("times", (np.arange(3), True), {}),
        ("picked", (numbers(3), np.array([0, 3])), {}),
        ("picked", (numbers(3), np.array([-4])), {}),
        ("shorter", (numbers(3), numbers(3)), {}),
        ("filled", (numbers(3), 1 << 50), {}),
        ("filled", (numbers(3), 1 << 45), {}),
        ("filled", (numbers(0), 5), {}),
    ]
    right = {
        "add": (numbers(3), numbers(3)), "scale": (numbers(3), 2), "times": (np.arange(3), 2), "picked": (numbers(3), np.array([1])),
        "shorter": (numbers(3), numbers(4)), "filled": (numbers(3), 5),
    }  # fmt: skip
    program = zynml.compile(PROGRAM)
    before = [refused(ways, getattr(program, name), *values, **named) for name, values, named in wrong]
    for name, values in right.items():
        ready(getattr(program, name), *values)
    for _ in range(2):
        assert [refused(ways, getattr(program, name), *values, **named) for name, values, named in wrong] == before


class Named(np.ndarray):
    """A class under NumPy's."""


class Lent:
    """An array of a library that speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def unaligned(array):
    held = np.empty(array.nbytes + 1, np.uint8)
    held[1:] = array.view(np.uint8)
    return held[1:].view(array.dtype)


@pytest.mark.parametrize(
    "change",
    [lambda x: x.view(Named), Lent, list, unaligned, lambda x: memoryview(x), lambda x: x.astype(np.int32)],
    ids=["subclass", "DLPack", "list", "unaligned", "memoryview", "ints"],
)
def test_other_arguments_are_right(program, ways, change):
    ready(program.add, numbers(4), numbers(4))
    a, b = numbers(5, seed=2), numbers(5, seed=3)
    for first, second in ((change(a), b), (a, change(b)), (change(a), change(b))):
        for _ in range(3):
            before = len(ways)
            same(np.asarray(program.add(first, second)), a + b)
            assert len(ways) == before + 1


def test_arguments_by_name(program, ways):
    ready(program.minus, numbers(4), numbers(4))
    a, b = numbers(5, seed=2), numbers(5, seed=3)
    for values, named in (((a,), {"b": b}), ((), {"b": b, "a": a})):
        same(program.minus(*values, **named), a - b)


def test_numbers_of_numpy(program):
    ready(program.scale, numbers(4), 2.0)
    for by in (np.float32(0.5), np.int32(3), np.array(2.0, np.float32)):
        same(program.scale(numbers(5), by), numbers(5) * np.float32(by))


def test_functions_that_are_more_than_blocks_of_parameters_go_through_the_program(program, ways):
    for _ in range(4):
        same(program.captured(numbers(4)), numbers(4) * 3)
        same(program.changed(numbers(4)), numbers(4) * 4)
    assert not program.captured._entry and not program.changed._entry


# ---- several blocks ----


def layered(a, b, c):
    return np.maximum(a.astype(np.float64) @ b + c, 0) @ b.T.astype(np.float64)


@pytest.fixture(scope="module")
def sequences():
    return zynml.compile(SEQUENCES, threads=2)


@pytest.mark.parametrize("count", [1, 2, 17, 1000, 1 << 17])
def test_blocks_one_after_the_other(sequences, ways, count):
    ready(sequences.twice, numbers(4))
    ready(sequences.less, numbers(4))
    ready(sequences.backwards, numbers(4), 2.0)
    ready(sequences.swapped, numbers(4), numbers(4))
    x, y = numbers(count, seed=count), numbers(count, seed=count + 1)
    same(answered(ways, sequences.twice, x), x * 4)
    same(answered(ways, sequences.less, x), x - x.max())
    same(answered(ways, sequences.backwards, x, 3.0), (np.cumsum(x.astype(np.float64) * 3)[::-1] + x).astype(np.float32))
    same(answered(ways, sequences.swapped, x, y), (np.cumsum(x.astype(np.float64)) - 2 * y[::-1]).astype(np.float32))


def test_products_in_layers(sequences, ways):
    ready(sequences.layers, numbers(2, 3), numbers(3, 4), numbers(4))
    ready(sequences.layers, numbers(70, 40), numbers(40, 90), numbers(90))  # another path through the kernels
    for m, k, n in ((1, 1, 1), (5, 6, 7), (0, 3, 2), (3, 0, 2), (3, 2, 0), (70, 40, 90)):
        given = numbers(m, k), numbers(k, n, seed=2), numbers(n, seed=3)
        same(answered(ways, sequences.layers, *given), layered(*given).astype(np.float32))
    assert "size `N`" in refused(ways, sequences.layers, numbers(2, 3), numbers(3, 4), numbers(5))
    assert "size `K`" in refused(ways, sequences.layers, numbers(2, 3), numbers(2, 4), numbers(4))


def test_a_fault_of_a_later_block_is_told_by_the_program(ways):
    right, wrong = np.array([2, 0, 1]), np.array([0, 3, 1])
    program = zynml.compile(SEQUENCES)
    before = refused(ways, program.chosen, numbers(3), wrong)
    assert "ZYN0801" in before
    ready(program.chosen, numbers(3), right)
    x = numbers(3)
    watched = (x, right, wrong, x.dtype)
    gc.collect()
    early = references(*watched)
    for _ in range(200):
        assert refused(ways, program.chosen, x, wrong) == before
        same(answered(ways, program.chosen, x, right), np.cumsum(x)[right])
    gc.collect()
    assert all(abs(late - first) <= 8 for first, late in zip(early, references(*watched), strict=True))


def test_whole_numbers_between_blocks_are_the_programs(sequences):
    for _ in range(4):
        x = np.array([3, 1 << 60, -5])
        same(sequences.counted(x), x - x.max())


def test_what_blocks_hand_on_is_freed(sequences):
    x = numbers(1 << 15)
    ready(sequences.backwards, x, 2.0)
    tracemalloc.start()
    try:
        early = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            sequences.backwards(x, 2.0)
        late = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert late - early < 4 * x.nbytes


@pytest.mark.parametrize("options", [{"device": "emulator"}, {"sanitize": True}], ids=str)
def test_calls_that_are_watched_or_run_elsewhere_have_no_machine_code(options):
    program = zynml.compile(PROGRAM, **options)
    for _ in range(4):
        same(np.asarray(program.add(numbers(4), numbers(4))), numbers(4) * 2)
    assert not program.add._entry


def test_a_huge_view_of_little_memory(program):
    ready(program.first, numbers(5)[::2], 2)
    for extent in (1 << 40, 1 << 46, 1 << 47, 1 << 50):
        same(program.first(np.broadcast_to(np.float32(3), (extent,)), 4), np.full(4, 3, np.float32))


def test_a_dropped_future_raises_at_the_next_call(program, ways):
    ready(program.add, numbers(4), numbers(4))
    future = program.later(numbers(3), np.array([0, 1, 9]))
    with pytest.raises(zynml.ZynMLError, match="ZYN0801"):
        future.result()
    program.later(numbers(3), np.array([0, 1, 9]))
    gc.collect()
    raised = []
    for _ in range(1000):
        try:
            program.add(numbers(4), numbers(4))
        except zynml.ZynMLError as error:
            raised.append(error.codes)
            break
    assert raised == [("ZYN0801",)]
    same(answered(ways, program.add, numbers(4), numbers(4)), numbers(4) * 2)


def test_after_a_fault_the_next_call_is_judged_by_itself(program, ways):
    ready(program.picked, numbers(4), np.array([1]))
    for place in (0, 2):
        k = np.zeros(3, np.int64)
        k[place] = 9
        assert "ZYN0801" in refused(ways, program.picked, numbers(4), k)
        same(answered(ways, program.picked, numbers(4), np.array([3, 1])), numbers(4)[[3, 1]])


# ---- references, memory ----


def references(*objects):
    return [sys.getrefcount(each) for each in objects]


def test_no_reference_is_lost_or_kept(program):
    a, b, k, wrong = numbers(5), numbers(5), np.array([1, 2]), np.array([1, 9])
    by = 1e9 + 0.5
    calls = [
        (program.add, (a, b)), (program.scale, (a, by)), (program.total, (a,)), (program.both, (a,)), (program.raised, (a, b)),
        (program.silent, (a,)), (program.biggest, (a,)), (program.picked, (a, k)), (program.sums, (a[:, None][:4].copy(), b[None].copy())),
    ]  # fmt: skip
    for function, values in calls:
        ready(function, *values)
    watched = (a, b, k, wrong, by, None, True, a.dtype, k.dtype, np.ndarray, program.add, program.picked, program.add._slow)
    with pytest.raises(zynml.ZynMLError):
        program.picked(a, wrong)
    gc.collect()
    before = references(*watched)
    for _ in range(300):
        for function, values in calls:
            function(*values)
        for values in ((a, k[:1]), (a, wrong)):
            try:
                program.picked(*values)
            except zynml.ZynMLError as error:
                assert error.codes == ("ZYN0801",)
        program.add(a, b=b)
    gc.collect()
    after = references(*watched)
    assert all(abs(late - early) <= 8 for early, late in zip(before, after, strict=True)), (before, after)


@pytest.mark.parametrize("count", [16, 1 << 15])
def test_results_are_freed(program, count):
    x = numbers(count)
    ready(program.both, x)
    program.both(x)
    tracemalloc.start()
    try:
        early = tracemalloc.get_traced_memory()[0]
        for _ in range(500):
            program.both(x)
        late = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert late - early < 4 * x.nbytes + 20_000


def test_functions_are_freed_with_their_code():
    gone = []
    for _ in range(4):
        program = zynml.compile(PROGRAM)
        add = ready(program.add, numbers(4), numbers(4))
        kept = add._kept[0][0]
        gone += [weakref.ref(add), weakref.ref(program.add._slow), weakref.ref(kept)]
        add.of_its_own = add, program
        del program, add, kept
        gc.collect()
    assert [each() for each in gone] == [None] * len(gone)


def test_a_function_outlives_its_program(ways):
    add = ready(zynml.compile(PROGRAM).add, numbers(4), numbers(4))
    gc.collect()
    same(answered(ways, add, numbers(5), numbers(5)), numbers(5) * 2)
    assert "size `N`" in refused(ways, add, numbers(5), numbers(4))


def test_a_function_that_was_emptied_says_so():
    add = ready(zynml.compile(PROGRAM).add, numbers(4), numbers(4))
    del add._kept
    same(add(numbers(5), numbers(5)), numbers(5) * 2)
    del add._slow
    with pytest.raises(ReferenceError, match="the function is gone by now"):
        add(numbers(5), numbers(5))


# ---- threads, processes ----


def test_threads_with_several_kinds_at_once(ways):
    program = zynml.compile(PROGRAM, threads=2)
    kinds = [np.float32, np.float64, np.int32, np.int64]
    wrong = []

    def work(number):
        dtype = kinds[number % len(kinds)]
        x = np.arange(1 << (4 + 2 * (number % 8)), dtype=dtype) % 100
        for turn in range(40):
            if program.doubled(x).tobytes() != (x + x).tobytes():
                wrong.append((number, turn))
            y = np.full(50 + turn, number, np.float32)
            if program.add(y, y).tolist() != [2.0 * number] * len(y):
                wrong.append((number, turn, "add"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for dtype in kinds:
        answered(ways, program.doubled, np.ones(3, dtype))


def test_a_long_run_lets_others_run_and_a_short_one_does_not(program):
    x, y = numbers(16), numbers(400, 400)
    ready(program.add, x, x)
    ready(program.sums, y, y)
    turns, ended = [0], []

    def others():
        while not ended:
            turns[0] += 1
            os.sched_yield()  # gives the interpreter away, and asks for it again

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(100):
            before = turns[0]
            program.add(x, x)
            assert turns[0] == before
        for _ in range(100):
            before = turns[0]
            program.sums(y, y)
            if turns[0] > before:
                break
        else:
            pytest.fail("nobody else ran")
    finally:
        ended.append(1)
        sys.setswitchinterval(interval)
        thread.join()


SCRIPT = """
import atexit, os, sys, threading
import numpy as np
import zynml
program = zynml.compile('''
def add(a: tensor[N], b: tensor[N]): tensor {{ compute(a, b) {{ for i in 0..N: out[i] = a[i] + b[i] }} }}
def scaled(x: tensor[N, f64], by: f64): tensor {{ compute(x, by) {{ for i in 0..N: out[i] = x[i] * by + exp(-x[i]) }} }}
''', threads=2)
x, y = np.arange(16, dtype=np.float32), np.linspace(0.0, 1.0, 1 << 19)
def right(by):
    same = np.allclose(program.scaled(y, by), y * by + np.exp(-y), rtol=1e-12, atol=0)
    return bool(same) and program.add(x, x * 2).tolist() == (x * 3).tolist()
assert all(right(2.0) for _ in range(3)) and program.add._entry and program.scaled._entry
{}
"""


def run(script):
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT.format(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_of_a_parent_whose_threads_ran_works():
    assert run("""
def forked(work):
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def work():
    found = []
    threads = [threading.Thread(target=lambda by=by: found.append(right(by))) for by in (1.0, 2.0)]
    for each in threads: each.start()
    found.append(right(4.0))
    for each in threads: each.join()
    return found == [True] * 3 and forked(lambda: right(5.0)) == 0

print(forked(lambda: right(3.0) and right(4.0)), forked(work), right(6.0))
""") == ["0", "0", "True"]


def test_calls_while_the_interpreter_ends():
    assert run("""
class Last:
    def __init__(self): self.add, self.x = program.add, x
    def __del__(self):
        try:
            print("sum", self.add(self.x, self.x).sum())
        except Exception as error:
            print(type(error).__name__)
last = Last()
sys.last_of_all = Last()
atexit.register(lambda: print(right(2.0)))
""")[0] == "True"


# ---- as objects of Python ----


def test_a_function_shows_itself_as_functions_do(program):
    add = program.add
    assert (add.__name__, add.__qualname__, add.__module__, add.__doc__) == ("add", "add", "zynml.compiled", "Adds.")
    assert repr(add) == f"<function add at {id(add):#x}>"
    assert str(inspect.signature(add)) == "(a: tensor[N], b: tensor[N]) -> tensor"
    assert callable(add) and inspect.isroutine(add)
    assert copy.copy(add) is add and copy.deepcopy({"f": add})["f"] is add
    assert add is program.functions["add"] and add == program.add and hash(add) == hash(program.add)
    with pytest.raises(pickle.PicklingError, match="add"):
        pickle.dumps(add)


def test_a_function_in_a_class_is_a_method(program):
    class Vector:
        plus = program.add
        x = numbers(3)

        def __array__(self, dtype=None, copy=None):
            return self.x

    assert Vector.plus is program.add
    assert Vector().plus.__func__ is program.add
    same(Vector.__dict__["plus"](Vector.x, Vector.x), Vector.x * 2)


def test_a_function_takes_attributes(program):
    program.add.note = "mine"
    assert program.add.note == "mine" and weakref.ref(program.add)() is program.add
    del program.add.note


def test_without_machine_code_calls_are_the_same(monkeypatch):
    monkeypatch.setattr(zynml.compiled, "OFFSETS", None)
    monkeypatch.setattr(zynml.compiled, "FunctionOfProgram", CompiledFunction)
    program = zynml.compile(PROGRAM)
    for _ in range(4):
        same(program.add(numbers(4), numbers(4)), numbers(4) * 2)
        assert program.biggest(x=numbers(4)) == (numbers(4).max(), numbers(4).argmax())


@pytest.mark.parametrize("missing", ["_table", "_reads_right", "is_supported"])
def test_where_arrays_are_not_known_calls_go_through_the_program(monkeypatch, missing):
    monkeypatch.setattr(arrays, missing, lambda: None)
    arrays.is_known.cache_clear()
    try:
        assert not arrays.is_known()
        program = zynml.compile(PROGRAM)
        for _ in range(4):
            same(program.add(numbers(4), numbers(4)), numbers(4) * 2)
        assert not program.add._entry
    finally:
        monkeypatch.undo()
        arrays.is_known.cache_clear()


def test_other_interpreters_are_not_supported(monkeypatch):
    for name, value in (("version_info", (3, 99)), ("byteorder", "big"), ("gettotalrefcount", lambda: 0)):
        with monkeypatch.context() as changed:
            changed.setattr(sys, name, value, raising=False)
            assert not vectorcall.is_supported.__wrapped__()
    assert vectorcall.is_supported.__wrapped__()


THREADS = {
    "one dimension": ("@workgroup(64)", "let i = global_idx().x\n if i < M * N: out[i / N, i % N] = x[i / N, i % N] * 2.0"),
    "strides": ("@workgroup(32)", "for i in global_idx().x..M * N step grid_dim().x * block_dim().x: out[i / N, i % N] = x[i / N, i % N] * 2.0"),
    "two dimensions": ("@workgroup(8, 4)", "let j = global_idx().x\n let i = global_idx().y\n if i < M and j < N: out[i, j] = x[i, j] * 2.0"),
    "a grid": ("@workgroup(16) @grid(3)", "for i in global_idx().x..M * N step 48: out[i / N, i % N] = x[i / N, i % N] * 2.0"),
}


@pytest.mark.parametrize("kind", THREADS)
def test_kernels_of_threads_are_launched_by_machine_code(ways, kind):
    annotations, body = THREADS[kind]
    program = zynml.compile(
        f"def f(x: tensor[M, N]): tensor[M, N] {{ compute(x) -> tensor[M, N] @kernel(custom) {annotations} {{\n{body}\n}} }}"
    )
    shapes = [(5, 7), (5, 7), (5, 7), (0, 3), (3, 0), (1, 1), (33, 65), (257, 31), (1000, 7), (64, 100)]
    for rows, columns in shapes:
        x = numbers(rows * columns).reshape(rows, columns)
        same(program.f(x), x + x)
    assert len(ways) <= 2


def test_what_threads_add_up_is_the_same_by_machine_code(ways):
    program = zynml.compile(
        "def f(x: tensor[N, i32], k: int): tensor { compute(x, k) -> tensor[4, i32] @kernel(custom) @workgroup(64) {"
        " for i in global_idx().x..N step grid_dim().x * block_dim().x: atomic_add(out[x[i] & 3], k as i32) } }"
    )
    for size in (5, 5, 0, 1, 64, 65, 1000, 100_000):
        x = np.arange(size, dtype=np.int32)
        same(program.f(x, 3), np.array([3 * (x % 4 == bin_).sum() for bin_ in range(4)], np.int32))
    assert len(ways) <= 2
