"""What the sizes and numbers of a call make wrong, a division by 0 or an index outside, is no error where no iteration comes to it."""

import numpy as np
import pytest

import zynml

PROGRAM = """
def roll(x: tensor[N, M, f64], d: i64) {
    compute(x, d) { for i in 0..N, j in 0..M: out[i, j] = x[(i + N - d % N) % N, j] }
}
def repeated(x: tensor[N, M, f64], d: i64) {
    compute(x, d) {
        for i in 0..N:
            for j in 0..M:
                if d > 0: out[i, j] = x[i, j % d]
                else: out[i, j] = 7.0
    }
}
def digits(x: tensor[N, f64], d: i64) {
    compute(x, d) -> tensor[N, i64] {
        for i in 0..N:
            if d != 0: out[i] = 10 * (i / d) + i % d
    }
}
def in_loops(x: tensor[N, f64], d: i64) {
    compute(x, d) -> tensor[N, f64] {
        for i in 0..N:
            var s = 0.0
            for j in 0..d: s += x[i / d + j % d]
            out[i] = s
    }
}
def quotient(x: tensor[N, f64], d: i64) {
    compute(x, d) -> tensor[N, i64] { for i in 0..N: out[i] = i / d }
}
def band(x: tensor[N, M, f64]) {
    compute(x) -> tensor[N, f64] {
        for i in 0..N:
            var s = 0.0
            for a in max(0, i - 2)..min(N, i + 2):
                if a - 1 >= 0 and a < M: s += x[a - 1, i % M] - x[a, a]
            out[(i + 3) % N] = s
    }
}
def nothing(x: tensor[N, M, f64], d: i64) {
    compute(x, d) -> tensor[N, f64] {
        for i in 0..N:
            if d > 2 and i % d == 0: out[i] = x[i, d]
    }
}
"""


@pytest.fixture(scope="module", params=["cpu", "emulator:sm_90a"])
def program(request: pytest.FixtureRequest) -> zynml.CompiledProgram:
    return zynml.compile(PROGRAM, device=request.param)


def test_divisors_of_0_stop_only_iterations_that_divide(program: zynml.CompiledProgram) -> None:
    assert program.roll(np.ones((0, 3)), 1).shape == (0, 3)
    assert program.roll(np.arange(6.0).reshape(3, 2), 1).tolist() == [[4, 5], [0, 1], [2, 3]]
    assert program.repeated(np.ones((2, 3)), 0).tolist() == [[7] * 3] * 2
    assert program.repeated(np.arange(6.0).reshape(2, 3), 2).tolist() == [[0, 1, 0], [3, 4, 3]]
    assert program.digits(np.ones(3), 0).tolist() == [0, 0, 0]
    assert program.digits(np.ones(5), 2).tolist() == [0, 1, 10, 11, 20]
    assert program.in_loops(np.ones(3), 0).tolist() == [0, 0, 0]
    assert program.in_loops(np.ones(3), 2).tolist() == [2, 2, 2]
    assert program.quotient(np.ones(0), 0).shape == (0,)
    with pytest.raises(zynml.ZynMLError, match="division by zero in `i / d`"):
        program.quotient(np.ones(3), 0)


def test_indices_outside_stop_only_iterations_that_read_there(program: zynml.CompiledProgram) -> None:
    for n, m in ((1, 33), (1, 1), (2, 1), (5, 3)):
        x = np.arange(n * m * 1.0).reshape(n, m)
        bands = [range(max(1, i - 2), min(n, i + 2, m)) for i in range(n)]
        sums = [sum(x[a - 1, i % m] - x[a, a] for a in band) for i, band in enumerate(bands)]
        assert np.roll(program.band(x), -3).tolist() == sums
        assert program.nothing(x, 2).tolist() == [0] * n
    with pytest.raises(zynml.ZynMLError, match="index 3 is out of range: axis 1 of `x` has 3 elements"):
        program.nothing(np.ones((5, 3)), 3)
