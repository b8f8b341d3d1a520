"""Scans in tiles, chunks and blocks: against NumPy, at sizes around tiles and blocks, alike for any number of threads."""

import numpy as np
import pytest

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
