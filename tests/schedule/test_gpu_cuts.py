"""Fields that are cut at their reductions because that is cheaper, in parts that each have a schedule: compared with NumPy in float64."""

import numpy as np
import pytest

import zynml
from tests.schedule.test_gpu_convolutions import built, launches

CHAMFER = """
def f(a: tensor[B, N, 2], b: tensor[B, M, 2]) {
    compute(a, b) -> tensor[B] {
        for g in 0..B {
            var t = 0.0
            for i in 0..N {
                var m = inf
                for j in 0..M:
                    m = min(m, (a[g, i, 0] - b[g, j, 0]) * (a[g, i, 0] - b[g, j, 0]) + (a[g, i, 1] - b[g, j, 1]) * (a[g, i, 1] - b[g, j, 1]))
                t += m
            }
            out[g] = t / N
        }
    }
}"""
BOTH_SUMS = """
def f(x: tensor[M, N]) {
    compute(x) -> (a: tensor[M], b: tensor[N]) {
        for i in 0..M {
            var s = 0.0
            for j in 0..N: s += x[i, j]
            a[i] = s
        }
        for j in 0..N {
            var s = 0.0
            for i in 0..M: s += x[i, j]
            b[j] = s
        }
    }
}"""


def test_sums_of_minima_are_two_parts_where_there_are_many() -> None:
    kernel = built(CHAMFER)
    assert len(launches(kernel, {"B": 8, "N": 2048, "M": 2048}, 132).launches) == 2
    assert len(launches(kernel, {"B": 2, "N": 64, "M": 64}, 132).launches) == 1


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("shape", [(2, 33, 70), (1, 1, 5)])
def test_sums_of_minima(shape: tuple[int, int, int]) -> None:
    b, n, m = shape
    random = np.random.default_rng(n)
    x, y = (random.standard_normal((b, count, 2)).astype(np.float32) for count in (n, m))
    apart = ((x.astype(np.float64)[:, :, None] - y.astype(np.float64)[:, None]) ** 2).sum(3)
    np.testing.assert_allclose(zynml.compile(CHAMFER, device="emulator:sm_80").f(x, y), apart.min(2).mean(1), rtol=1e-5)


@pytest.mark.usefixtures("in_parts")
def test_sums_of_rows_and_of_columns_are_a_part_each() -> None:
    x = np.random.default_rng(1).integers(-9, 10, (37, 70)).astype(np.float32)
    rows, columns = zynml.compile(BOTH_SUMS, device="emulator:sm_90a").f(x)
    np.testing.assert_array_equal(rows, x.sum(1))
    np.testing.assert_array_equal(columns, x.sum(0))
    made = launches(built(BOTH_SUMS), {"M": 4096, "N": 4096}, 132)
    assert all(launch.blocks(made.counted_sizes({"M": 4096, "N": 4096})) > 1 for launch in made.launches)


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("shape", [(5, 70), (1, 1), (3, 1025)])
def test_running_values_over_their_total(shape: tuple[int, int]) -> None:
    text = """def f(x: tensor[M, N]) { compute(x) { for i in 0..M {
        var t = 0.0
        for j in 0..N: t += x[i, j]
        var s = 0.0
        for j in 0..N:
            s += x[i, j]
            out[i, j] = s / t
    } } }"""
    x = np.random.default_rng(3).uniform(0.5, 1, shape).astype(np.float32)
    expected = np.cumsum(x, 1, np.float64) / x.sum(1, keepdims=True, dtype=np.float64)
    np.testing.assert_allclose(zynml.compile(text, device="emulator:sm_90a").f(x), expected, rtol=1e-5)
    assert len(launches(built(text), {"M": 16384, "N": 4096}, 132).launches) == 2
