"""Rows that data choose are fetched turns before: gathers and scattered sums of large memories against NumPy's exact sums, for few turns and
many, and for indices of several types."""

import numpy as np
import pytest

import zynml

TEXT = """
def scatter(x: tensor[N, INDEX], v: tensor[N, C, f32], B: int) {
    compute(x, v, B) -> tensor[B, C, f32] {
        for i in 0..N, c in 0..C: out[x[i], c] += v[i, c]
    }
}
def gather(x: tensor[N, INDEX], v: tensor[B, C, f32]) {
    compute(x, v) -> tensor[N, C, f32] {
        for i in 0..N, c in 0..C: out[i, c] = v[x[i], c]
    }
}
"""


@pytest.mark.parametrize("index", ("i32", "i64", "u8"))
@pytest.mark.parametrize("columns", (5, 300))
def test_rows_of_large_memories(index: str, columns: int) -> None:
    program = zynml.compile(TEXT.replace("INDEX", index), threads=2)
    rows = 1 + (1 << 20) // (4 * columns)
    rng = np.random.default_rng(columns)
    table = rng.integers(-9, 10, (rows, columns)).astype(np.float32)
    for turns in (0, 1, 31, 200, 4_000_000 // columns):
        x = rng.integers(0, min(rows, 256), turns).astype({"i32": np.int32, "i64": np.int64, "u8": np.uint8}[index])
        v = rng.integers(-9, 10, (turns, columns)).astype(np.float32)
        sums = np.zeros((rows, columns), np.float32)
        np.add.at(sums, x, v)
        np.testing.assert_array_equal(program.scatter(x, v, rows), sums)
        np.testing.assert_array_equal(program.gather(x, table), table[x])


def test_only_such_rows_are_fetched() -> None:
    def fetches(text: str) -> int:
        return str(zynml.compile(text, threads=1).emit("llvm")).count("@llvm.prefetch.p0(")

    assert fetches(TEXT.replace("INDEX", "i32").split("def gather")[0]) >= 2
    other = "def f(x: tensor[N, i32], v: tensor[N, C, f32]) { compute(x, v) { for i in 0..N, c in 0..C: out[i, c] = v[i, c] + (x[i] as f32) } }"
    assert fetches(other) == 0
