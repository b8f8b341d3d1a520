"""Reductions of one axis, whose chunks are read as several streams: exact for every size around whole tiles and chunks, on any number of
threads, also of two operands and of parts of an operand."""

import numpy as np
import pytest

from tests.kernels.checks import DTYPES, compiled, generator

PROGRAM = """
def total(x) { compute(x) @kernel(reduce, +) { for i in 0..N: yield x[i] } }
def largest(x) { compute(x) @kernel(reduce, max) { for i in 0..N: yield x[i] } }
def dot(x, y) { compute(x, y) @kernel(reduce, +) { for i in 0..N: yield x[i] * y[i] } }
def inner(x: tensor[N, DTYPE]) { compute(x) @kernel(reduce, +) { for i in 2..N - 3: yield x[i + 1] - x[i - 2] } }
"""

SIZES = (0, 1, 31, 127, 128, 129, 8191, 8192, 8193, 8320, 20_000, 24_577)


@pytest.mark.parametrize("threads", (1, 3))
@pytest.mark.parametrize("dtype", ("f32", "f64", "i32"))
def test_whole_numbers_are_exact(dtype: str, threads: int) -> None:
    program = compiled(PROGRAM.replace("DTYPE", dtype), threads=threads)
    for size in SIZES:
        rng = generator("streams", size)
        x, y = (rng.integers(-9, 10, size).astype(DTYPES[dtype]) for _ in range(2))
        assert program.total(x) == x.sum(dtype=np.int64)
        assert program.dot(x, y) == (x * y).sum(dtype=np.int64)
        if size:
            assert program.largest(x) == x.max()
        if size > 5:
            assert program.inner(x) == (x[3:-2] - x[:-5]).sum(dtype=np.int64)
