"""Loops over rows whose bounds data hold, as in sparse matrices by rows, against NumPy in float64."""

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.schedule.gpu.nests.at_once import AtOnce
from compiler.schedule.gpu.ragged import ragged, ragged_parts, staged_rows

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a", "emulator:sm_75")
_RANDOM = np.random.default_rng(17)

VECTOR = """
def f(start: tensor[P, i64], column: tensor[K, i64], weight: tensor[K], x: tensor[N], R: int): tensor {
    compute(start, column, weight, x) -> tensor[R] {
        for row in 0..R:
            var s = 0.0
            for k in start[row]..start[row + 1]: s += weight[k] * x[column[k]]
            out[row] = s
    }
}
"""
MATRIX = """
def f(start: tensor[P, i32], column: tensor[K, i32], weight: tensor[K], x: tensor[N, C], R: int): tensor {
    compute(start, column, weight, x) -> tensor[R, C] {
        for row in 0..R, c in 0..C:
            var s = 0.0
            for k in start[row]..start[row + 1]: s += weight[k] * x[column[k], c]
            out[row, c] = s
    }
}
"""


def starts(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def by_rows(start: Array, terms: Array) -> Array:
    """The sums of the rows of terms, in float64."""
    return np.array([terms[a:b].astype(np.float64).sum(axis=0) for a, b in pairwise(start)]).reshape(len(start) - 1, *terms.shape[1:])


LENGTHS = {
    "no rows": np.zeros(0, int),
    "one row": np.array([7]),
    "empty rows": np.zeros(37, int),
    "one element a row": np.ones(261, int),
    "three a row": np.full(101, 3),
    "sixteen a row": _RANDOM.poisson(16, 259),
    "a warp a row": _RANDOM.poisson(70, 131),
    "a block a row": _RANDOM.poisson(700, 9),
    "one long row": np.where(np.arange(260) == 77, 2011, 5),
    "long rows side by side": np.where(np.arange(777) % 64 < 3, 600, 2),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", LENGTHS)
def test_sparse_rows_times_a_vector(kind: str, device: str) -> None:
    start = starts(LENGTHS[kind])
    column, weight, x = _RANDOM.integers(0, 41, start[-1]), floats(start[-1]), floats(41)
    expected = by_rows(start, weight.astype(np.float64) * x[column])
    got = zynml.compile(VECTOR, device=device).f(start, column, weight, x, len(start) - 1)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [1, 5, 32])
def test_sparse_rows_times_a_matrix(columns: int, device: str) -> None:
    start = starts(_RANDOM.poisson(4, 67))
    column, weight, x = _RANDOM.integers(0, 29, start[-1]), floats(start[-1]), floats(29, columns)
    expected = by_rows(start, weight[:, None].astype(np.float64) * x[column])
    got = zynml.compile(MATRIX, device=device).f(start.astype(np.int32), column.astype(np.int32), weight, x, 67)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_other_monoids_and_what_follows_them(device: str) -> None:
    text = """
    def f(start: tensor[P, i64], v: tensor[K], R: int): tensor {
        compute(start, v) -> tensor[R, 4] {
            for r in 0..R:
                var most = -1.0e30
                var count: i32 = 0
                for k in start[r]..start[r + 1]:
                    most = max(most, v[k])
                    if v[k] > 0.0: count += 1
                var total = 0.0
                for k in start[r]..start[r + 1]: total += exp(v[k] - most)
                out[r, 0] = most
                out[r, 1] = count as f32
                out[r, 2] = total
                if total > 1.5: out[r, 3] = log(total)
        }
    }
    """
    lengths = _RANDOM.poisson(11, 83) + 1
    lengths[[3, 82]] = 899
    start = starts(lengths)
    v = floats(start[-1])
    rows = [v[a:b].astype(np.float64) for a, b in pairwise(start)]
    totals = [np.exp(row - row.max()).sum() for row in rows]
    expected = [[row.max(), (row > 0).sum(), total, np.log(total) if total > 1.5 else 0.0] for row, total in zip(rows, totals, strict=True)]
    np.testing.assert_allclose(zynml.compile(text, device=device).f(start, v, 83), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("long", [0, 1, 3])
def test_a_division_by_what_a_row_comes_to(long: int, device: str) -> None:
    """Nobody divides by the count of a row without elements: not lanes without a row, nor those whose row is left to the block."""
    text = """
    def f(start: tensor[P, i64], v: tensor[K, i32], R: int): tensor {
        compute(start, v) -> tensor[R, i32] {
            for r in 0..R:
                var total: i32 = 0
                var count: i32 = 0
                for k in start[r]..start[r + 1]:
                    total += v[k]
                    count += 1
                out[r] = total / count
        }
    }
    """
    lengths = _RANDOM.poisson(9, 261) + 1
    lengths[[7, 40, 41][:long]] = 1201
    start = starts(lengths)
    v = _RANDOM.integers(0, 1000, start[-1]).astype(np.int32)
    expected = by_rows(start, v).astype(np.int64) // lengths
    assert np.array_equal(zynml.compile(text, device=device).f(start, v, 261), expected)
    start[11] = start[10]
    with pytest.raises(zynml.ZynMLError, match="ZYN0806"):
        zynml.compile(text, device=device).f(start, v, 261)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float64, np.float16])
def test_element_types(dtype: type, device: str) -> None:
    text = """
    def f(start: tensor[P, i64], v: tensor[K, T], R: int): tensor {
        compute(start, v) -> tensor[R, T] {
            for r in 0..R:
                var s = v[0] - v[0]
                for k in start[r]..start[r + 1]: s += v[k]
                out[r] = s
        }
    }
    """.replace("T]", {"int8": "i8]", "int32": "i32]", "int64": "i64]", "float64": "f64]", "float16": "f16]"}[np.dtype(dtype).name])
    start = starts(_RANDOM.poisson(9, 45))
    v = _RANDOM.integers(-9, 9, start[-1]).astype(dtype)
    expected = by_rows(start, v).astype(dtype)
    assert np.array_equal(zynml.compile(text, device=device).f(start, v, 45), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_strict_sums_keep_the_written_order(device: str) -> None:
    start = starts(_RANDOM.poisson(40, 19))
    column, weight, x = _RANDOM.integers(0, 41, start[-1]), floats(start[-1]), floats(41)
    expected = np.zeros(19, np.float32)
    for row in range(19):
        for k in range(start[row], start[row + 1]):
            expected[row] += weight[k] * x[column[k]]
    program = zynml.compile(VECTOR, device=device, floats="strict")
    assert np.array_equal(program.f(start, column, weight, x, 19), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("row", "bound", "index"), [(100, 1 << 33, 808), (100, -5, -5), (100, -(1 << 60), -(1 << 60)), (101, 809, 808)])
def test_wrong_bounds(row: int, bound: int, index: int, device: str) -> None:
    """The first index that is outside, at once: a loop of 2**33 iterations would take 20 s, one of 2**60 centuries."""
    start = np.arange(102) * 8
    column, weight, x = _RANDOM.integers(0, 41, 808), floats(808), floats(41)
    start[row] = bound
    with pytest.raises(zynml.ZynMLError) as raised:
        zynml.compile(VECTOR, device=device).f(start, column, weight, x, 101)
    assert raised.value.codes == ("ZYN0801",)
    assert f"index {index} is out of range: axis 0 of `weight` has 808 elements" in str(raised.value)


@pytest.mark.parametrize("device", DEVICES)
def test_a_wrong_column_comes_before_a_wrong_end(device: str) -> None:
    start = np.arange(102) * 8
    column, weight, x = _RANDOM.integers(0, 41, 808), floats(808), floats(41)
    start[101], column[803] = 10_000, 41
    with pytest.raises(zynml.ZynMLError, match="index 41 is out of range: axis 0 of `x` has 41 elements"):
        zynml.compile(VECTOR, device=device).f(start, column, weight, x, 101)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_end_before_they_begin_are_empty(device: str) -> None:
    start = np.array([5, 3, 3, 900, 8])
    got = zynml.compile(VECTOR, device=device).f(start, np.zeros(8, int), np.ones(8, np.float32), np.ones(1, np.float32), 2)
    assert got.tolist() == [0.0, 0.0]
    with pytest.raises(zynml.ZynMLError, match="index 8 is out of range"):
        zynml.compile(VECTOR, device=device).f(start, np.zeros(8, int), np.ones(8, np.float32), np.ones(1, np.float32), 4)
    empty = np.array([700, 700])
    assert zynml.compile(VECTOR, device=device).f(empty, np.zeros(8, int), np.ones(8, np.float32), np.ones(1, np.float32), 1).tolist() == [
        0.0
    ]


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_loop_inside_checks_nothing(device: str) -> None:
    text = """
    def f(start: tensor[P, i64], v: tensor[K], w: tensor[D], R: int): tensor {
        compute(start, v, w) -> tensor[R, D] {
            for r in 0..R:
                for k in start[r]..start[r + 1]:
                    for d in 0..D: out[r, d] += v[k] * w[d]
        }
    }
    """
    program = zynml.compile(text, device=device)
    start, v = np.array([0, 2, 9]), np.array([1.5, 2.5, 3.5], np.float32)
    assert program.f(start, v, np.zeros(0, np.float32), 2).shape == (2, 0)
    with pytest.raises(zynml.ZynMLError, match="index 3 is out of range: axis 0 of `v` has 3 elements"):
        program.f(start, v, np.ones(2, np.float32), 2)
    assert program.f(start[:2], v, np.array([1.0, 2.0], np.float32), 1).tolist() == [[4.0, 8.0]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8"])
def test_maxima_of_rows_that_a_block_does(dtype: str, device: str) -> None:
    """Rows of hundreds of elements, some of them empty."""
    lowest = "-128 as i8" if dtype == "i8" else "-inf"
    text = f"""
    def f(start: tensor[P, i32], v: tensor[K, {dtype}]): tensor {{
        compute(start, v) {{
            for r in 0..P - 1:
                var s = {lowest}
                for k in start[r]..start[r + 1]: s = max(s, v[k])
                out[r] = s
        }}
    }}
    """
    start = starts(_RANDOM.integers(0, 3, 41) * 600).astype(np.int32)
    numpy = {"f32": np.float32, "f64": np.float64, "i8": np.int8}[dtype]
    v = (_RANDOM.standard_normal(start[-1]) * 9 - 40).astype(numpy)
    expected = [v[a:b].max(initial=-128 if dtype == "i8" else -np.inf) for a, b in pairwise(start)]
    assert zynml.compile(text, device=device).f(start, v).tolist() == [float(value) if dtype != "i8" else int(value) for value in expected]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("step", [2, 3])
def test_steps_and_distances(step: int, device: str) -> None:
    text = f"""
    def f(start: tensor[P, i64], v: tensor[K], w: tensor[L], R: int): tensor {{
        compute(start, v, w) -> tensor[R] {{
            for r in 0..R:
                var s = 0.0
                for k in start[r]..start[r + 1] step {step}: s += v[k + 1] * w[k]
                out[r] = s
        }}
    }}
    """
    program = zynml.compile(text, device=device)
    start, v, w = np.array([0, 7, 7, 20]), floats(22), floats(21)
    expected = [sum(float(v[k + 1]) * float(w[k]) for k in range(a, b, step)) for a, b in pairwise(start)]
    np.testing.assert_allclose(program.f(start, v, w, 3), expected, rtol=1e-5, atol=1e-5)
    for low, high in [(0, 1 << 40), (1, 1 << 40), (6, 23), (-3, 4), (30, 40)]:
        first = next((f"{k + 1} is out of range: axis 0 of `v` has 22" if not 0 <= k + 1 < 22 else f"{k} is out of range: axis 0 of `w` has 21")
                     for k in range(low, high, step) if not (0 <= k + 1 < 22 and 0 <= k < 21))  # fmt: skip
        with pytest.raises(zynml.ZynMLError, match=first):
            program.f(np.array([low, high]), v, w, 1)


@pytest.mark.parametrize(("rows", "mean"), [(1, 3), (37, 8), (5, 150)])
def test_what_rows_update_is_read_by_no_other_lane(rows: int, mean: int) -> None:
    """Found by the sanitizer: lanes behind the last row read what its own lane was writing."""
    random = np.random.default_rng(rows)
    p = np.concatenate([[0], np.cumsum(random.integers(0, 2 * mean, rows))]).astype(np.int32)
    a, x = random.integers(-3, 4, int(p[-1])).astype(np.float32), random.integers(-3, 4, (int(p[-1]), 9)).astype(np.float32)
    program = zynml.compile(
        """
        def sums(mut y: tensor[R], p: tensor[Q, i32], a: tensor[K]) {
            compute(mut y, p, a) {
                for r in 0..R:
                    var s = y[r]
                    for k in p[r]..p[r + 1]: s += a[k]
                    y[r] = s
            }
        }
        def columns(mut y: tensor[R, C], p: tensor[Q, i32], a: tensor[K], x: tensor[K, C]) {
            compute(mut y, p, a, x) {
                for r in 0..R, c in 0..C:
                    var s = y[r, c]
                    for k in p[r]..p[r + 1]: s += a[k] * x[k, c]
                    y[r, c] = s
            }
        }""",
        device="emulator",
        sanitize=True,
    )
    y, z = np.ones(rows, np.float32), np.ones((rows, 9), np.float32)
    program.sums(y, p, a)
    program.columns(z, p, a, x)
    np.testing.assert_array_equal(y, [1 + a[p[r] : p[r + 1]].sum() for r in range(rows)])
    np.testing.assert_array_equal(z, [1 + a[p[r] : p[r + 1]] @ x[p[r] : p[r + 1]] for r in range(rows)])


PIECES = """
def f(start: tensor[P, i32], v: tensor[K, {dtype}]): tensor {{
    compute(start, v) -> tensor[P - 1, {result}] {{
        for r in 0..P - 1:
            var s = {first}
            for k in start[r]..start[r + 1]: s {joined}
            out[r] = s
    }}
}}
"""
TOGETHER = {
    "one row": [4099],
    "one element": [1],
    "rows of 1, 31, 33 and 1000": [1, 31, 33, 1000, 0, 33, 31, 1],
    "all in one row": [0] * 40 + [2003] + [0] * 40,
    "rows of 5": [5] * 131,
    "rows of any length": list(np.random.default_rng(3).poisson(19, 77)),
}


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "i32", "i64"])
@pytest.mark.parametrize("kind", TOGETHER)
def test_rows_are_read_in_pieces(kind: str, dtype: str, before: int) -> None:
    """Rows begin and end anywhere in a piece, and so does the memory."""
    start = (starts(np.array(TOGETHER[kind])) + before).astype(np.int32)
    numpy = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    v = _RANDOM.integers(0, 100, start[-1] + before).astype(numpy)
    text = PIECES.format(dtype=dtype, result="i64", first="0 as i64", joined="+= v[k] as i64")
    got = zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(start, v)
    assert got.tolist() == [int(v[a:b].astype(np.int64).sum()) for a, b in pairwise(start)]


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_and_infinities_in_rows(name: str, dtype: str) -> None:
    numpy, joined = np.dtype(dtype.replace("f", "float")), {"max": np.max, "min": np.min}[name]
    first = {"max": -np.inf, "min": np.inf}[name]
    start = starts(np.array([7, 0, 33, 1, 260, 9])).astype(np.int32)
    v = _RANDOM.standard_normal(start[-1]).astype(numpy)
    v[[3, 40]], v[20], v[100] = np.nan, np.inf, -np.inf
    text = PIECES.format(dtype=dtype, result=dtype, first="-inf" if name == "max" else "inf", joined=f"= {name}(s, v[k])")
    got = zynml.compile(text, device="emulator:sm_90a").f(start, v)
    np.testing.assert_array_equal(got, [joined(v[a:b], initial=first) for a, b in pairwise(start)])


@pytest.mark.parametrize("lanes", [1, 2, 8, 32, 256])
@pytest.mark.parametrize("dtype", ["i8", "i16", "f64"])
def test_rows_that_begin_and_end_anywhere_in_pieces(dtype: str, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By lanes of any number, and by blocks; in memory that ends within a piece, or holds none."""
    monkeypatch.setattr(ragged, "mean_row", lambda *_: 5000 if lanes == 256 else 70)
    monkeypatch.setattr(ragged, "power_of_two", lambda _: lanes)
    monkeypatch.setattr(ragged, "WIDE", 0)
    monkeypatch.setattr(staged_rows, "SHORT", 512 if lanes == 1 else 0)
    text = f"""
    def f(low: tensor[R, i32], high: tensor[R, i32], v: tensor[K, {dtype}], w: tensor[V, {dtype}], x: tensor[K, i32]) {{
        compute(low, high, v, w, x) -> tensor[R, {dtype}] {{
            for r in 0..R:
                var s: {dtype} = 0
                for k in low[r]..high[r]: s += v[k] * w[x[k]]
                out[r] = s
        }}
    }}
    """
    program = zynml.compile(text, device="emulator:sm_90a", sanitize=True)
    numpy = np.dtype(dtype.replace("f", "float").replace("i", "int"))
    for count in (0, 1, 3, 35):
        low, high = np.array([(a, b) for a in range(count + 1) for b in range(a, count + 1)], np.int32).T.copy()
        v, w, x = (
            _RANDOM.integers(-9, 9, count).astype(numpy),
            np.arange(-2, 3).astype(numpy),
            _RANDOM.integers(0, 5, count).astype(np.int32),
        )
        got = program.f(low, high, v, w, x)
        np.testing.assert_array_equal(got, [(v[a:b] * w[x[a:b]]).sum(dtype=numpy) for a, b in zip(low, high, strict=True)])


@pytest.mark.parametrize("kind", ["one element", "rows of 5", "rows of 1, 31, 33 and 1000", "all in one row", "rows of any length"])
def test_threads_share_the_elements_of_rows_equally(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks, of which a block's rows fill several, end within one, or are too many for any."""
    monkeypatch.setattr(staged_rows, "THREADS", 32)
    start = starts(np.array(TOGETHER[kind])).astype(np.int32)
    weight, x = _RANDOM.integers(-9, 9, start[-1]).astype(np.int32), _RANDOM.integers(-9, 9, 7).astype(np.int32)
    column = _RANDOM.integers(0, 7, start[-1]).astype(np.int32)
    text = """
    def f(start: tensor[P, i32], column: tensor[K, i32], weight: tensor[K, i32], x: tensor[N, i32]) {
        compute(start, column, weight, x) -> tensor[P - 1, 2, i32] {
            for r in 0..P - 1:
                var s = 0
                var last = -1
                for k in start[r]..start[r + 1]:
                    s += weight[k] * x[column[k]]
                    last = max(last, (k as i32))
                out[r, 0] = s
                out[r, 1] = last
        }
    }
    """
    program = zynml.compile(text, device="emulator:sm_90a", sanitize=True)
    sums = [int((weight[a:b] * x[column[a:b]]).sum()) for a, b in pairwise(start)]
    assert program.f(start, column, weight, x).tolist() == [
        [s, b - 1 if b > a else -1] for s, (a, b) in zip(sums, pairwise(start), strict=True)
    ]
    column[-1] = 7
    with pytest.raises(zynml.ZynMLError, match="index 7 is out of range: axis 0 of `x` has 7 elements"):
        program.f(start, column, weight, x)


@pytest.mark.parametrize("dtype", ["i32", "i64", "f32", "f64"])
@pytest.mark.parametrize("mean", [1, 12])
def test_rows_in_order_need_no_second_way(mean: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of random lengths, of which threads read none by themselves: that would leave them empty."""

    def nothing(self: Any, spread: Any, number: Any, stride: Any, b: Any) -> list[list[Any]]:
        if self.inside_tile:
            return AtOnce.share(self, spread, number, stride, b)
        self.values.update(zip(spread.outer.results, self.started(spread, b), strict=True))
        return []

    monkeypatch.setattr(ragged.LaneCooperation, "share", nothing, raising=False)
    monkeypatch.setattr(staged_rows, "FILLED", 1 / 2)
    start = starts(_RANDOM.exponential(mean, 997).astype(int)).astype(np.int32)
    numpy = np.dtype({"u": "uint", "i": "int", "f": "float"}[dtype[0]] + dtype[1:])
    v = _RANDOM.integers(0, 3, start[-1]).astype(numpy)
    text = f"""
    def f(start: tensor[P, i32], v: tensor[K, {dtype}]) {{
        compute(start, v) -> tensor[P - 1, {dtype}] {{
            for r in 0..P - 1:
                var s: {dtype} = 0
                for k in start[r]..start[r + 1]: s += v[k]
                out[r] = s
        }}
    }}
    """
    got = zynml.compile(text, device="emulator:sm_90a").f(start, v)
    np.testing.assert_array_equal(got, [v[a:b].sum(dtype=numpy) for a, b in pairwise(start)])


def test_a_row_that_begins_before_the_first_of_its_block() -> None:
    """In the piece with which the first one begins, of which the block computes but its rows' elements."""
    low, high = np.array([5, 4, 9], np.int32), np.array([9, 7, 13], np.int32)
    weight, column, x = np.arange(16, dtype=np.int32), np.arange(16, dtype=np.int32)[::-1].copy(), np.arange(16, dtype=np.int32) ** 2
    text = """
    def f(low: tensor[R, i32], high: tensor[R, i32], weight: tensor[K, i32], column: tensor[K, i32], x: tensor[V, i32]) {
        compute(low, high, weight, column, x) -> tensor[R, i32] {
            for r in 0..R:
                var s = 0
                for k in low[r]..high[r]: s += weight[k] * x[column[k]]
                out[r] = s
        }
    }
    """
    got = zynml.compile(text, device="emulator:sm_90a", sanitize=True).f(low, high, weight, column, x)
    assert got.tolist() == [int((weight[a:b] * x[column[a:b]]).sum()) for a, b in zip(low, high, strict=True)]


def test_rows_of_a_view_are_read_element_by_element() -> None:
    start = starts(np.array([5, 40, 0, 17])).astype(np.int32)
    v = _RANDOM.standard_normal(start[-1] + 1).astype(np.float32)
    text = PIECES.format(dtype="f32", result="f32", first="0.0", joined="+= v[k]")
    got = zynml.compile(text, device="emulator:sm_90a").f(start, v[1:])
    np.testing.assert_allclose(got, by_rows(start, v[1:]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("total", [0, 1, 3, 31, 1000, 8191, 17_001])
@pytest.mark.parametrize("dtype", ["i8", "f64"])
def test_rows_anywhere_in_what_a_block_reads(dtype: str, total: int) -> None:
    """Empty ones, ones of one element, and one that is longer than what a block reads at once; a few elements behind the last piece."""
    numpy = np.dtype({"i8": "int8", "f64": "float64"}[dtype])
    inside = _RANDOM.integers(0, total // 3 + 1, 700)
    start = np.sort(np.concatenate([[0], inside, [total]])).astype(np.int32)
    v = _RANDOM.integers(-9, 9, total).astype(numpy)
    text = PIECES.format(dtype=dtype, result=dtype, first="0" if dtype == "i8" else "0.0", joined="+= v[k]")
    got = zynml.compile(text, device="emulator:sm_90a").f(start, v)
    np.testing.assert_array_equal(got, by_rows(start, v.astype(np.float64)).astype(np.int64).astype(numpy))


def test_rows_in_no_order() -> None:
    """They don't lie behind each other: rows end before they begin, and share elements."""
    start = _RANDOM.integers(0, 3001, 600).astype(np.int32)
    v = _RANDOM.integers(-9, 9, 3000).astype(np.int64)
    text = PIECES.format(dtype="i64", result="i64", first="0", joined="+= v[k]")
    got = zynml.compile(text, device="emulator:sm_90a").f(start, v)
    np.testing.assert_array_equal(got, [v[a:b].sum() for a, b in pairwise(start)])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_rows_of_every_length_around_whole_vectors(dtype: type) -> None:
    name = {np.float32: "f32", np.float64: "f64", np.int32: "i32", np.int64: "i64"}[dtype]
    text = f"""
    def f(start: tensor[P, i32], v: tensor[K, {name}]) {{
        compute(start, v) {{
            for row in 0..P - 1:
                var s: {name} = 0
                var most: {name} = -100
                for k in start[row]..start[row + 1]:
                    s += v[k]
                    most = max(most, v[k])
                out[row] = s * 2 + most
        }}
    }}
    """
    f = zynml.compile(text).f
    start = starts(_RANDOM.permutation(np.arange(137))).astype(np.int32)
    v = _RANDOM.integers(-90, 90, start[-1]).astype(dtype)
    wanted = [2 * v[a:b].astype(np.float64).sum() + max([-100, *v[a:b]]) for a, b in pairwise(start)]
    assert np.array_equal(np.asarray(f(start, v)).astype(np.float64), wanted)
    if np.dtype(dtype).kind == "f":
        v[start[5] - 1] = np.nan
        assert np.isnan(np.asarray(f(start, v))).nonzero()[0].tolist() == [int(np.searchsorted(start, start[5] - 1, side="right")) - 1]


@pytest.mark.parametrize("element", ["i8", "u8", "i16", "f16", "bf16", "f32", "f64", "i64"])
@pytest.mark.parametrize("index", ["k", "x[k]"])
def test_rows_of_every_length_of_elements_of_every_type(element: str, index: str) -> None:
    """Small whole numbers, so that sums are exact; row by row, and at indices that are data."""
    result = "f64" if element == "f64" else "f32" if "f" in element else "i64"
    zero, low = ("0.0", "-inf") if "f" in element else ("0", "-100")
    f = zynml.compile(f"""
    def f(start: tensor[P, i32], v: tensor[K, {element}], x: tensor[K, i32]) {{
        compute(start, v, x) -> tensor[3, P - 1, {result}] {{
            for row in 0..P - 1:
                var s: {result} = {zero}
                for k in start[row]..start[row + 1]: s += (v[{index}] as {result}) * 2
                out[0, row] = s
            for row in 0..P - 1:
                var most: {result} = {low}
                for k in start[row]..start[row + 1]: most = max(most, v[{index}] as {result})
                out[1, row] = most
            for row in 0..P - 1:
                var least: {result} = 50
                for k in start[row]..start[row + 1]: least = min(least, v[{index}] as {result})
                out[2, row] = least
        }}
    }}
    """).f
    numpy = {"bf16": ml_dtypes.bfloat16}.get(element) or np.dtype(element.replace("f", "float").replace("i", "int").replace("u8", "uint8"))
    start = starts(_RANDOM.permutation(np.arange(150))).astype(np.int32)
    v, x = _RANDOM.integers(0, 9, start[-1]).astype(numpy), _RANDOM.integers(0, start[-1], start[-1]).astype(np.int32)
    read = (v[x] if index != "k" else v).astype(np.float64)
    got = np.asarray(f(start, v, x)).astype(np.float64)
    assert np.array_equal(got[0], [2 * read[a:b].sum() for a, b in pairwise(start)])
    assert np.array_equal(got[1], [max([float(low), *read[a:b]]) for a, b in pairwise(start)])
    assert np.array_equal(got[2], [min([50.0, *read[a:b]]) for a, b in pairwise(start)])
    if index != "k":
        for place in start[60], start[-1] - 1:
            wrong = x.copy()
            wrong[place] = start[-1]
            with pytest.raises(zynml.ZynMLError, match=rf"index {start[-1]} is out of range: axis 0 of `v`"):
                f(start, v, wrong)


LONGEST = {
    "one long row": [4099],
    "long rows among short ones": [3, 700, 0, 1, 5000, 129, 130, 2, 2, 900, 64],
    "each row long": [300, 301, 2000, 257],
    "a block with many": [1] * 37 + [400, 1025] * 9 + [0] * 40,
    "short rows": [7] * 500,
}


SHARED = """
def f(start: tensor[P, i32], column: tensor[K, i32], v: tensor[K], x: tensor[N]) {{
    compute(start, column, v, x) -> tensor[P - 1] {{
        for r in 0..P - 1:
            {before}
            for k in start[r]..start[r + 1]:
                {joined}
            {after}
    }}
}}
"""


def shared_rows(before: str, joined: str, after: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with parts of 128 elements, of rows with more than 256."""
    for name, value in (("EACH", 2), ("FEWEST", 0)):
        monkeypatch.setattr(ragged_parts, name, value)
    text = SHARED.format(before=before, joined=joined, after=after)
    program = zynml.compile(text, device="emulator:sm_90a", sanitize=True)
    like = program._session.launches_like(["start=100,column=10000,v=10000,x=50"], "emulator:sm_90a")[0]
    assert len(like.threads.launches.launches) == 2
    return program


@pytest.mark.parametrize("kind", LONGEST)
@pytest.mark.parametrize("what", ["sum", "vector", "maximum and count"])
def test_rows_that_blocks_share(kind: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = (starts(np.array(LONGEST[kind])) + 3).astype(np.int32)
    v, x = _RANDOM.integers(-9, 9, start[-1] + 1).astype(np.float32), _RANDOM.integers(-9, 9, 50).astype(np.float32)
    column = _RANDOM.integers(0, 50, len(v)).astype(np.int32)
    end = "\n" + 12 * " "
    lines = {
        "sum": ("var s = 0.0", "s += v[k]", "out[r] = s"),
        "vector": ("var s = 1.0", "s += v[k] * x[column[k]]", "out[r] = s + x[r - r / 50 * 50]"),
        "maximum and count": (f"var s = -100.0{end}var c = 0.0", f"s = max(s, v[k]){end}    c += 1.0", "out[r] = s + 100.0 * c"),
    }
    wanted = {
        "sum": lambda r, a, b: v[a:b].sum(),
        "vector": lambda r, a, b: 1 + (v[a:b] * x[column[a:b]]).sum() + x[r % 50],
        "maximum and count": lambda r, a, b: v[a:b].max(initial=-100) + 100 * (b - a),
    }[what]
    program = shared_rows(*lines[what], monkeypatch)
    for _ in range(2):
        assert program.f(start, column, v, x).tolist() == [wanted(row, a, b) for row, (a, b) in enumerate(pairwise(start))]


def test_long_rows_that_share_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is room for the parts of some of them: blocks do the others alone, in this call and the next."""
    start = np.array([0, 999, 1, 998, 2, 997, 3, 996, 4, 995, 5, 994, 500, 900, 0, 1000], np.int32)
    v = _RANDOM.integers(-9, 9, 1000).astype(np.float32)
    program = shared_rows("var s = 0.0", "s += v[k]", "out[r] = s", monkeypatch)
    for _ in range(2):
        assert program.f(start, np.zeros(1000, np.int32), v, np.zeros(1, np.float32)).tolist() == [v[a:b].sum() for a, b in pairwise(start)]


@pytest.mark.parametrize("wrong", [{77: -3}, {1203: 41}, {640: 41, 1203: 50}, {0: 99, 1599: 41}])
def test_a_wrong_column_of_a_row_that_blocks_share(wrong: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    start = np.array([0, 130, 650, 650, 1600], np.int32)
    column, v, x = _RANDOM.integers(0, 41, 1600).astype(np.int32), floats(1600), floats(41)
    program = shared_rows("var s = 0.0", "s += v[k] * x[column[k]]", "out[r] = s", monkeypatch)
    expected = by_rows(start, v * x[column])
    bad = column.copy()
    bad[list(wrong)] = list(wrong.values())
    with pytest.raises(zynml.ZynMLError, match=f"index {wrong[min(wrong)]} is out of range: axis 0 of `x` has 41 elements"):
        program.f(start, bad, v, x)
    np.testing.assert_allclose(program.f(start, column, v, x), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("first", [-1000, -100, 90, 1000])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_extremes_of_narrow_numbers_in_wide_ones(kind: type, first: int) -> None:
    """Rows of no elements keep what they begin with, which the narrow type may not hold; those that end before they begin have none."""
    text = """
    def f(start: tensor[P, i32], v: tensor[K, T], first: i32): tensor {
        compute(start, v, first) -> tensor[P, 2, i32] {
            for r in 0..P - 1:
                var most = first
                var least = first
                for k in start[r]..start[r + 1]:
                    most = max(most, v[k])
                    least = min(least, v[k])
                out[r, 0] = most
                out[r, 1] = least
        }
    }
    """
    lengths = np.concatenate([np.arange(140), [255, 256, 257, 600, 0, 0, 1, -130, 3, -70, -1, 2]])
    start = starts(lengths).astype(np.int32)
    v = _RANDOM.integers(np.iinfo(kind).min, np.iinfo(kind).max, start.max(), endpoint=True).astype(kind)
    expected = [[max([first, *row]), min([first, *row])] for row in (v[a:b].tolist() for a, b in pairwise(start))]
    got = zynml.compile(text.replace(", T]", f", {'u' if kind is np.uint8 else 'i'}{8 * v.itemsize}]")).f(start, v, np.int32(first))
    np.testing.assert_array_equal(got[:-1], expected)


HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


def narrow_vector(dtype: str) -> str:
    """The vector's product with weights and a vector of this type, columns of 32 bits, and results of f32."""
    narrow = VECTOR.replace("weight: tensor[K]", f"weight: tensor[K, {dtype}]").replace("x: tensor[N]", f"x: tensor[N, {dtype}]")
    return narrow.replace("column: tensor[K, i64]", "column: tensor[K, i32]").replace("tensor[R]", "tensor[R, f32]")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", LENGTHS)
def test_sparse_rows_of_halves(kind: str, dtype: str) -> None:
    start = starts(LENGTHS[kind])
    column = _RANDOM.integers(0, 41, start[-1]).astype(np.int32)
    weight, x = (floats(count).astype(HALVES[dtype]) for count in (start[-1], 41))
    expected = by_rows(start, weight.astype(np.float64) * x.astype(np.float64)[column])
    got = zynml.compile(narrow_vector(dtype)).f(start, column, weight, x, len(start) - 1)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("place", [*range(20, 39)])
def test_a_wrong_column_of_halves_is_told_wherever_it_stands_in_a_row(place: int) -> None:
    start = starts(np.array([0, 20, 19, 3]))
    column, weight, x = np.zeros(42, np.int32), floats(42).astype(np.float16), floats(5).astype(np.float16)
    program = zynml.compile(narrow_vector("f16"))
    for wrong in (5, -1, 2**31 - 1, -(2**31)):
        column[place] = wrong
        with pytest.raises(zynml.ZynMLError, match=f"index {wrong} is out of range: axis 0 of `x` has 5 elements"):
            program.f(start, column, weight, x, 4)


def test_empty_rows_of_an_empty_vector() -> None:
    start, nothing = np.zeros(9, np.int64), np.zeros(0, np.float16)
    got = zynml.compile(narrow_vector("f16")).f(start, np.zeros(0, np.int32), nothing, nothing, 8)
    assert not np.asarray(got).any()
