"""Indices that data decide, checked in the loop that uses them, which takes several turns at once: results are NumPy's, and the first outside
is told, wherever it stands."""

import ml_dtypes
import numpy as np
import pytest

import zynml

SOURCE = """
def picked(t: tensor[V, f64], x: tensor[N, I]) { compute(t, x) { for i in 0..N: out[i] = t[x[i]] } }
def counts(x: tensor[N, I], B: int) { compute(x, B) -> tensor[B, i32] { for i in 0..N: out[x[i]] += 1 } }
def largest(x: tensor[N, I], v: tensor[N, i32], B: int) {
    compute(x, v, B) -> tensor[B, i32] { for i in 0..N: out[x[i]] = max(out[x[i]], v[i]) }
}
def rows(t: tensor[M, V, i32], x: tensor[M, N, I]) { compute(t, x) { for i in 0..M, j in 0..N: out[i, j] = t[i, x[i, j]] } }
"""

KINDS = {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
LENGTHS = (0, 1, 7, 8, 9, 15, 16, 17, 1023, 1024, 2500)


@pytest.fixture(scope="module", params=KINDS)
def index(request):
    return request.param


@pytest.fixture(scope="module")
def program(index):
    return zynml.compile(SOURCE.replace(", I]", f", {index}]"), threads=2)


def places(index: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 100, shape).astype(KINDS[index])


@pytest.mark.parametrize("length", LENGTHS)
def test_inside(program, index, length):
    x, table = places(index, length), np.arange(100) * 0.5
    np.testing.assert_array_equal(np.asarray(program.picked(table, x)), table[x])
    np.testing.assert_array_equal(np.asarray(program.counts(x, 100)), np.bincount(x, minlength=100))
    values, most = np.arange(length, dtype=np.int32), np.zeros(100, np.int32)
    np.maximum.at(most, x, values)
    np.testing.assert_array_equal(np.asarray(program.largest(x, values, 100)), most)
    tables, places_ = np.arange(300, dtype=np.int32).reshape(3, 100), places(index, 3, length)
    np.testing.assert_array_equal(np.asarray(program.rows(tables, places_)), np.take_along_axis(tables, places_.astype(np.int64), 1))


@pytest.mark.parametrize("first", [0, 7, 8, 15, 1023, 2498, 2499])
def test_the_first_outside_is_told(program, index, first):
    x = places(index, 2500)
    x[first:] = 101
    if index != "u8":
        x[first + 1 :] = -1
    said = r"index 101 is out of range: axis 0 of `{}` has 100 elements"
    with pytest.raises(zynml.ZynMLError, match=said.format("t")):
        program.picked(np.zeros(100), x)
    with pytest.raises(zynml.ZynMLError, match=said.format("out")):
        program.counts(x, 100)
    with pytest.raises(zynml.ZynMLError, match=said.format("out")):
        program.largest(x, np.zeros(2500, np.int32), 100)


@pytest.mark.parametrize("bins", [-1, 0, 1, 255, 256, 257])
def test_bins_beside_the_ends_of_bytes(bins):
    program = zynml.compile(SOURCE.replace(", I]", ", u8]"))
    x = np.array([0, 3, 254, 255] * 10, np.uint8)
    if bins > 255:
        np.testing.assert_array_equal(np.asarray(program.counts(x, bins)), np.bincount(x, minlength=bins))
    else:
        first = next(number for number in (0, 3, 254, 255) if number >= bins)
        with pytest.raises(zynml.ZynMLError, match=f"index {first} is out of range"):
            program.counts(x, bins)
    np.testing.assert_array_equal(np.asarray(program.counts(x[:0], bins)), np.zeros(max(bins, 0)))


@pytest.mark.parametrize("element", ["u8", "i16", "f16", "bf16", "f32"])
@pytest.mark.parametrize("length", LENGTHS)
def test_elements_that_are_moved_or_summed_one_by_one(element, length):
    """Of whole numbers up to 3: their sums are exact."""
    program = zynml.compile(f"""
def picked(t: tensor[V, {element}], x: tensor[N, i32]) {{ compute(t, x) {{ for i in 0..N: out[i] = t[x[i]] }} }}
def total(t: tensor[V, {element}], x: tensor[N, i32], w: tensor[N, {element}]) {{
    compute(t, x, w) -> tensor[1, f32] {{
        for o in 0..1:
            var s: f32 = 0.0
            for i in 0..N: s += (t[x[i]] as f32) * (w[i] as f32)
            out[o] = s
    }}
}}
""")
    kinds = {"u8": np.uint8, "i16": np.int16, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
    table, x = (np.arange(100) % 4).astype(kinds[element]), places("i32", length)
    weights = (np.arange(length) % 3).astype(kinds[element])
    np.testing.assert_array_equal(np.asarray(program.picked(table, x)), table[x])
    assert np.asarray(program.total(table, x, weights))[0] == int((table[x].astype(np.int64) * weights.astype(np.int64)).sum())
    if length:
        x[-1] = 100
        for call in (lambda: program.picked(table, x)), (lambda: program.total(table, x, weights)):
            with pytest.raises(zynml.ZynMLError, match=r"index 100 is out of range: axis 0 of `t` has 100 elements"):
                call()


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("extreme", ["max", "min"])
@pytest.mark.parametrize("turned", [False, True])
def test_extremes_of_floats_where_data_say(dtype, extreme, turned):
    """NaN wins, whichever side it stands on."""
    arguments = "v[i], out[x[i]]" if turned else "out[x[i]], v[i]"
    program = zynml.compile(f"""
def f(x: tensor[N, i32], v: tensor[N, {dtype}], B: int) {{
    compute(x, v, B) -> tensor[B, {dtype}] {{ for i in 0..N: out[x[i]] = {extreme}({arguments}) }}
}}
""")
    for length in LENGTHS:
        x = places("i32", length) % 50
        v = (np.random.default_rng(length).integers(-9, 9, length)).astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])
        v[3:4], v[length // 2 :: 700] = np.nan, -np.inf
        expected = np.zeros(50, v.dtype)
        with np.errstate(invalid="ignore"):
            (np.maximum if extreme == "max" else np.minimum).at(expected, x, v)
        np.testing.assert_array_equal(np.asarray(program.f(x, v, 50)), expected)


BESIDE = """
def f(t: tensor[M, V, f32], x: tensor[M, N, i32], y: tensor[M, N, D]) {
    compute(t, x, y) { for i in 0..M, j in 0..N: out[i, j] = t[i, x[i, j]] + y[i, j] }
}
"""


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(1, 300), (15, 15), (16, 16), (37, 150), (40, 9), (50, 300)])
def test_a_memory_that_lies_across_beside_indices(dtype: str, shape: tuple[int, int]) -> None:
    numbers = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    random = np.random.default_rng(shape[0])
    table, x = random.integers(-9, 9, (shape[0], 100)).astype(np.float32), random.integers(0, 100, shape).astype(np.int32)
    y = np.asfortranarray(random.integers(-9, 9, shape).astype(numbers))
    f = zynml.compile(BESIDE.replace("D]", f"{dtype}]"), threads=2).f
    np.testing.assert_array_equal(np.asarray(f(table, x, y)), np.take_along_axis(table, x.astype(np.int64), 1) + y)
    x[-1, -1], x[shape[0] // 2, 3:] = -1, 100
    with pytest.raises(zynml.ZynMLError, match="index 100 is out of range"):
        f(table, x, y)


def test_memories_that_are_fetched_ahead() -> None:
    """Larger than near caches: the next row of a table and what lies ahead are fetched, at the ends of memories too."""
    program = zynml.compile(SOURCE.replace(", I]", ", i32]"), threads=2)
    random = np.random.default_rng(0)
    tables, x = random.integers(0, 9, (700, 1601), np.int32), random.integers(0, 1601, (700, 1603), np.int32)
    np.testing.assert_array_equal(np.asarray(program.rows(tables, x)), np.take_along_axis(tables, x.astype(np.int64), 1))
    flat = x.reshape(-1)
    np.testing.assert_array_equal(np.asarray(program.counts(flat, 1601)), np.bincount(flat, minlength=1601))
    assert "llvm.prefetch" in program.llvm
