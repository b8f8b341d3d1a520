"""Scans in tiles, chunks and blocks: against NumPy, at sizes around tiles and blocks, alike for any number of threads."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

import zynml

SOURCE = """
def sums(x: tensor[N]): tensor {
    compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] * 2 }
}
def whole(x: tensor[N, i32]): tensor {
    compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] }
}
def down(x: tensor[M, N]): tensor {
    compute(x) @kernel(scan, +, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] }
}
def highest(x: tensor[M, N]): tensor {
    compute(x) @kernel(scan, max, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] }
}
"""


@pytest.fixture(scope="module", params=[1, 2, 3])
def program(request: pytest.FixtureRequest) -> zynml.CompiledProgram:
    return zynml.compile(SOURCE, threads=request.param)


@pytest.mark.parametrize("count", [0, 1, 5, 127, 128, 129, 4097, 131073, 300_001])
def test_running_sums_are_those_of_numpy(program: zynml.CompiledProgram, count: int) -> None:
    x = np.random.default_rng(count).integers(-100, 100, count).astype(np.int32)
    np.testing.assert_array_equal(program.whole(x), np.cumsum(x))
    np.testing.assert_array_equal(program.sums(x.astype(np.float32)), np.cumsum(x * 2.0))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (100, 257), (257, 100), (5, 0), (0, 5)])
def test_scans_along_an_axis_of_a_matrix(program: zynml.CompiledProgram, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).integers(-100, 100, shape).astype(np.float32)
    np.testing.assert_array_equal(program.down(x), np.cumsum(x, 0))
    np.testing.assert_array_equal(program.highest(x), np.maximum.accumulate(x, 1))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    x = np.random.default_rng(2).standard_normal(1_000_003).astype(np.float32)
    one, two, three = (zynml.compile(SOURCE, threads=threads).sums(x) for threads in (1, 2, 3))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one, np.cumsum(2.0 * x.astype(np.float64)), atol=0.05)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i8", "u8", "i16", "i32", "i64"])
@pytest.mark.parametrize("word", ["max", "min"])
def test_extremes_so_far_along_rows(dtype: str, word: str) -> None:
    source = f"""
def f(x: tensor[I, T, {dtype}]) {{
    compute(x) {{
        for i in 0..I:
            var h = x[i, 0]
            for t in 0..T:
                h = {word}(h, x[i, t])
                out[i, t] = h
    }}
}}
"""
    program = zynml.compile(source, threads=1)
    kind = np.dtype(bfloat16) if dtype == "bf16" else np.dtype({"f": "float", "i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
    accumulate = np.maximum.accumulate if word == "max" else np.minimum.accumulate
    random = np.random.default_rng(7)
    for count in (1, 3, 8, 31, 64, 65, 127, 131, 200):
        numbers = random.integers(0, 100, (5, count)).astype(np.float64)
        if dtype[0] in "fb":
            numbers += random.standard_normal((5, count))
            numbers[0] = np.linspace(-3, 3, count)
            numbers[1, random.integers(count)] = np.nan
            numbers[2, random.integers(count)] = np.inf
            numbers[3, random.integers(count)] = -np.inf
        x = numbers.astype(kind)
        for view in (x, np.repeat(x, 2, 1)[:, ::2], x[::-1]):
            np.testing.assert_array_equal(
                np.asarray(program.f(view)).astype(np.float64), accumulate(view.astype(np.float64), 1), f"{word} {dtype} {count}"
            )


def test_rounding_to_bf16_is_left_out_only_where_nothing_changes() -> None:
    source = """
def f(x: tensor[I, T, bf16], y: tensor[I, f32]) -> tensor[I, T, bf16] {
    compute(x, y) -> tensor[I, T, bf16] {
        for i in 0..I:
            var h = y[i]
            for t in 0..T:
                h = max(h, x[i, t])
                out[i, t] = h
    }
}
"""
    x = np.random.default_rng(8).standard_normal((3, 77)).astype(bfloat16)
    y = np.array([1.001, -7.0, 0.123456], np.float32)
    wanted = np.maximum(np.maximum.accumulate(x.astype(np.float32), 1), y[:, None]).astype(bfloat16)
    np.testing.assert_array_equal(np.asarray(zynml.compile(source, threads=1).f(x, y)).astype(np.float32), wanted.astype(np.float32))
