"""What all turns of a loop read and check first is read and checked once before it: the same results and the same fault, and none where the
loop has no turn."""

import numpy as np
import pytest

import zynml

SOURCE = """
def rows(t: tensor[V, C, i16], x: tensor[N, i32]) { compute(t, x) { for i in 0..N, c in 0..C: out[i, c] = t[x[i], c] } }
def cells(t: tensor[V, W, f32], x: tensor[N, i32], y: tensor[C, i32]) {
    compute(t, x, y) { for i in 0..N, c in 0..C: out[i, c] = t[x[i], y[c]] }
}
"""


def test_rows_of_a_table() -> None:
    program = zynml.compile(SOURCE)
    random = np.random.default_rng(0)
    for rows, columns, count in (7, 1, 9), (3, 33, 5), (40, 100, 0), (5, 0, 4):
        t = random.integers(-99, 99, (rows, columns)).astype(np.int16)
        x = random.integers(0, rows, count).astype(np.int32)
        np.testing.assert_array_equal(program.rows(t, x), t[x])
        z, y = random.standard_normal((rows, 6)).astype(np.float32), random.integers(0, 6, columns).astype(np.int32)
        np.testing.assert_array_equal(program.cells(z, x, y), z[x][:, y])


def test_a_check_stands_before_its_loop() -> None:
    text = zynml.compile(SOURCE).emit("hir-after=place")
    first = text[: text.index("@cells")]
    assert first.index("check") < first.index("for c in")


def test_faults_are_those_of_the_loops_as_written() -> None:
    program = zynml.compile(SOURCE)
    t, x = np.zeros((4, 3), np.int16), np.array([1, 9, -2], np.int32)
    with pytest.raises(zynml.ZynMLError, match="index 9 is out of range"):
        program.rows(t, x)
    assert program.rows(np.zeros((4, 0), np.int16), x).shape == (3, 0)
    cells, ok = np.zeros((4, 3), np.float32), np.array([0, 2], np.int32)
    with pytest.raises(zynml.ZynMLError, match="index 9 is out of range: axis 0"):
        program.cells(cells, x, ok)
    with pytest.raises(zynml.ZynMLError, match="index 7 is out of range: axis 1"):
        program.cells(cells, x, np.array([0, 7], np.int32))


def test_loops_that_count_down_have_turns() -> None:
    """Their end is below their beginning."""
    text = """def f(k: tensor[N, i32], x: tensor[?, f32]) {
    compute(k, x) -> tensor[N, f32] {
        for i in 0..N:
            for j in N - 1..-1 step -1:
                out[i] += x[k[i]]
    }
}"""
    k, x = np.array([2, 0, 1, 1], np.int32), np.array([1.0, 10.0, 100.0], np.float32)
    np.testing.assert_array_equal(zynml.compile(text).f(k, x), 4 * x[k])
