"""Running values along two axes of one block, and beside sums of few terms, in all layouts."""

import numpy as np
import pytest

import zynml

PROGRAM = """
def integral(x: tensor[N, M, f64]) {
    compute(x) -> (s: tensor[N, M, f64], out: tensor[N, M, f64]) {
        for j in 0..M:
            var t = 0.0
            for i in 0..N:
                t += x[i, j]
                s[i, j] = t
        for i in 0..N:
            var t = 0.0
            for j in 0..M:
                t += s[i, j]
                out[i, j] = t
    }
}
def counted(x: tensor[N, M, f64]) {
    compute(x) -> (a: tensor[N, i64], b: tensor[N, f64]) {
        for i in 0..N:
            var n: i64 = 0
            var s = 0.0
            var first: i64 = M
            for j in 0..M:
                if x[i, j] >= 1.0:
                    n += 1
                    s += x[i, j] * (n as f64)
                    first = min(first, j)
            a[i] = n + 100 * first
            b[i] = s
    }
}
"""


@pytest.fixture(scope="module", params=["cpu", "emulator:sm_90a"])
def program(request: pytest.FixtureRequest) -> zynml.CompiledProgram:
    return zynml.compile(PROGRAM, device=request.param)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (1, 5), (33, 40)])
def test_running_values_go_along_each_axis(program: zynml.CompiledProgram, shape: tuple[int, int], order: str) -> None:
    x = np.asarray(np.random.default_rng(3).integers(-4, 5, shape).astype(np.float64), order=order)  # type: ignore[call-overload]
    s, out = program.integral(x)
    np.testing.assert_array_equal(s, x.cumsum(axis=0))
    np.testing.assert_array_equal(out, x.cumsum(axis=0).cumsum(axis=1))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (1, 5), (33, 40)])
def test_a_count_so_far_weighs_what_is_summed(program: zynml.CompiledProgram, shape: tuple[int, int], order: str) -> None:
    x = np.asarray(np.random.default_rng(4).integers(-4, 5, shape).astype(np.float64), order=order)  # type: ignore[call-overload]
    count, weighed = program.counted(x)
    taken = [row[row >= 1] for row in x]
    first = [int(np.argmax(row >= 1)) if (row >= 1).any() else shape[1] for row in x]
    assert count.tolist() == [len(row) + 100 * at for row, at in zip(taken, first, strict=True)]
    assert weighed.tolist() == [(row * np.arange(1, len(row) + 1)).sum() for row in taken]
