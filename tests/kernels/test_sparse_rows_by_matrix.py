"""Sparse rows times a matrix on the CPU, in whichever order the loops are written: what the columns share is computed once, and the first
fault is that of the loops as written."""

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml

COLUMNS_OUTSIDE = """def f(p: tensor[P, i32], c: tensor[K, i32], v: tensor[K, DTYPE], b: tensor[M, N, DTYPE]) {
    compute(p, c, v, b) -> tensor[P - 1, N, DTYPE] FLOATS {
        for r in 0..P - 1, j in 0..N {
            var s = 0.0
            for k in p[r]..p[r + 1] { s += v[k] * b[c[k], j] }
            out[r, j] = s
        }
    }
}"""

COLUMNS_INSIDE = """def f(p: tensor[P, i32], c: tensor[K, i32], v: tensor[K, DTYPE], b: tensor[M, N, DTYPE]) {
    compute(p, c, v, b) -> tensor[P - 1, N, DTYPE] FLOATS {
        for r in 0..P - 1, k in p[r]..p[r + 1], j in 0..N { out[r, j] += v[k] * b[c[k], j] }
    }
}"""


def operands(lengths: Any, rows: int, columns: int, kind: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(len(lengths) + columns)
    p = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    c = rng.integers(0, rows, p[-1]).astype(np.int32)
    # whole numbers, whose sums are exact in any order and type
    return p, c, rng.integers(-3, 4, p[-1]).astype(kind), rng.integers(-3, 4, (rows, columns)).astype(kind)


def product(p: Any, c: Any, v: Any, b: Any) -> Any:
    b, v = b.astype(np.float64), v.astype(np.float64)
    return np.array([v[low:high] @ b[c[low:high]] for low, high in pairwise(p)]).reshape(len(p) - 1, b.shape[1])


@pytest.mark.parametrize("text", (COLUMNS_OUTSIDE, COLUMNS_INSIDE))
@pytest.mark.parametrize("dtype", ("f32", "f64", "f16", "bf16"))
@pytest.mark.parametrize("columns", (1, 3, 4, 33, 300))
def test_rows_of_all_lengths(text: str, dtype: str, columns: int) -> None:
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else f"f{int(dtype[1:]) // 8}")
    for lengths in ([], [0], [0, 5, 1, 0, 3, 4, 9], [2] * 40):
        given = operands(lengths, 31, columns, kind)
        for floats, threads in (("", 1), ("", 2), ("@precision(floats=strict)", 1)):
            program = zynml.compile(text.replace("DTYPE", dtype).replace("FLOATS", floats), threads=threads)
            np.testing.assert_array_equal(np.asarray(program.f(*given)).astype(np.float64), product(*given))


@pytest.mark.parametrize(
    ("text", "words"), ((COLUMNS_OUTSIDE, "lines along j march in step"), (COLUMNS_INSIDE, "k: 4 steps at once go along j"))
)
def test_what_the_columns_share_is_computed_once(text: str, words: str) -> None:
    program = zynml.compile(text.replace("DTYPE", "f32").replace("FLOATS", ""), threads=1)
    assert words in str(program.emit("schedule"))
    p, c, v, b = operands([7, 3, 20], 5, 64, np.float32)
    v[4], b[c[12], 5] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(program.f(p, c, v, b), product(p, c, v, b))


@pytest.mark.parametrize("text", (COLUMNS_OUTSIDE, COLUMNS_INSIDE))
def test_the_first_fault_is_that_of_the_written_order(text: str) -> None:
    program = zynml.compile(text.replace("DTYPE", "f32").replace("FLOATS", ""), threads=1)
    p, c, v, b = operands([4, 0, 6, 9], 17, 40, np.float32)
    c[8], c[15] = 19, -18
    with pytest.raises(zynml.ZynMLError, match="index 19 is out of range: axis 0 of `b` has 17 elements"):
        program.f(p, c, v, b)
    c[8] = 0
    with pytest.raises(zynml.ZynMLError, match="index -18 is out of range: axis 0 of `b` has 17 elements"):
        program.f(p, c, v, b)
    c[15], p[3] = 0, 20
    with pytest.raises(zynml.ZynMLError, match="index 19 is out of range: axis 0 of `v` has 19 elements"):
        program.f(p, c, v, b)
    assert program.f(p, c, v, b[:, :0]).shape == (4, 0)
