"""Matrix products: six loop orders, transposed and strided operands, epilogues, accumulators, batches, and kin (outer, matrix times
vector, several sums)."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import (
    DTYPES,
    EXHAUSTIVE,
    FLOATS,
    INTS,
    LAYOUTS,
    NUMBERS,
    SIZES,
    Array,
    by_layout,
    exactly,
    holds,
    laid_out,
    launched,
    numbers,
    spread,
)

ROUNDED = {"f16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place: what a sum kept in a result of 16 bits loses at each step."""


def product(zero: str = "0.0", a: str = "A[i, k]", b: str = "B[k, j]", after: str = "s", inputs: str = "A, B", kind: str = "@kernel(matmul)", result: str = "") -> str:
    return f"""def f({inputs}) {{
    compute({inputs}) {kind} {result} {{
        for i in 0..M, j in 0..N:
            var s = {zero}
            for k in 0..K:
                s += {a} * {b}
            out[i, j] = {after}
    }}
}}
"""


def in_order(order: str) -> str:
    loops = ", ".join(f"{name} in 0..{name.upper()}" for name in order)
    return f"def f(A, B) {{\n    compute(A, B) @kernel(matmul) {{\n        for {loops}:\n            out[i, j] += A[i, k] * B[k, j]\n    }}\n}}\n"


def check(text: str, a: Array, b: Array, layouts: tuple[str, str] = ("contiguous", "contiguous")) -> Array:
    got = launched(text, laid_out(a, layouts[0]), laid_out(b, layouts[1]))
    if a.dtype.kind in "iu":
        kept = np.dtype("int32") if a.dtype.kind == "i" else np.dtype("uint32")
        kept = max(kept, a.dtype, key=lambda dtype: dtype.itemsize)
        exactly(got, a.astype(kept) @ b.astype(kept))
    else:
        w, v = a.astype(np.float64), b.astype(np.float64)
        assert got.dtype == a.dtype
        holds(got, w @ v, np.abs(w) @ np.abs(v), a.shape[1])
    return got


SHAPES = (*((s, 33, 31) for s in SIZES), *((31, s, 33) for s in SIZES), *((33, 31, s) for s in SIZES), (7, 5, 3), (257, 259, 263), (64, 64, 64), (1, 1, 1), (16, 48, 1))


@pytest.mark.parametrize(("layouts", "shapes"), by_layout(spread(SHAPES, LAYOUTS, LAYOUTS[::-1])))
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_dtype_layout_and_size(dtype: str, layouts: tuple[str, str], shapes: list[tuple[int, int, int]]) -> None:
    text = product("0" if dtype in INTS else "0.0")
    for m, n, k in shapes:
        check(text, numbers(dtype, (m, k), "a"), numbers(dtype, (k, n), "b"), layouts)


def test_a_large_product() -> None:
    check(product(), numbers("f32", (1000, 1009), "a"), numbers("f32", (1009, 1000), "b"))


@pytest.mark.parametrize("order", ["".join(order) for order in permutations("ijk")])
@pytest.mark.parametrize("dtype", ("f32", "f64", "i16", "i64") if not EXHAUSTIVE else NUMBERS)
def test_every_order_of_loops(order: str, dtype: str) -> None:
    text = in_order(order).replace("..I", "..M").replace("..J", "..N")
    for shape, left, right in spread(((3, 5, 7), (33, 31, 65), (0, 3, 3), (3, 3, 0), (1, 257, 9), (130, 70, 33)), LAYOUTS, LAYOUTS[::-1]):
        m, n, k = shape
        a, b = numbers(dtype, (m, k), "a"), numbers(dtype, (k, n), "b")
        got = launched(text, laid_out(a, left), laid_out(b, right))
        if dtype in INTS:
            exactly(got, (a.astype(got.dtype) @ b.astype(got.dtype)))
        else:
            w, v = a.astype(float), b.astype(float)
            holds(got, w @ v, np.abs(w) @ np.abs(v) * stepwise(dtype, k), k)


def stepwise(dtype: str, k: int) -> float:
    return 1 + 1e6 * ROUNDED.get(dtype, 0.0) * k**0.5


@pytest.mark.parametrize(("a", "b"), (("A[k, i]", "B[k, j]"), ("A[i, k]", "B[j, k]"), ("A[k, i]", "B[j, k]")))
@pytest.mark.parametrize("dtype", ("f32", "f16", "f64", "i32"))
def test_transposed_operands(a: str, b: str, dtype: str) -> None:
    text = product("0" if dtype in INTS else "0.0", a, b)
    for shape, left, right in spread(((3, 5, 7), (33, 31, 65), (64, 96, 32), (1, 257, 9), (257, 1, 31), (5, 4, 0), (100, 100, 100)), LAYOUTS, LAYOUTS[::-1]):
        m, n, k = shape
        x, y = numbers(dtype, (m, k), "a"), numbers(dtype, (k, n), "b")
        stored = (x.T if a == "A[k, i]" else x, y.T if b == "B[j, k]" else y)
        got = launched(text, laid_out(stored[0], left), laid_out(stored[1], right))
        if dtype in INTS:
            exactly(got, x @ y)
        else:
            w, v = x.astype(float), y.astype(float)
            holds(got, w @ v, np.abs(w) @ np.abs(v), k)


@pytest.mark.parametrize(("after", "function"), (
    ("s + v[j]", lambda s, v: s + v), ("max(s + v[j], 0.0)", lambda s, v: np.maximum(s + v, 0)), ("s * 0.5 + v[j] * 2.0", lambda s, v: s / 2 + 2 * v),
    ("tanh(s) * v[j]", lambda s, v: np.tanh(s) * v), ("s > 0.0 ? s : v[j] * s", lambda s, v: np.where(s > 0, s, v * s)),
))  # fmt: skip
@pytest.mark.parametrize("dtype", ("f32", "bf16", "f64"))
def test_epilogues(after: str, function: Any, dtype: str) -> None:
    text = product(after=after, inputs="A, B, v")
    for m, n, k in ((3, 5, 7), (33, 31, 65), (1, 257, 9), (100, 64, 32), (5, 3, 0)):
        a, b, v = numbers(dtype, (m, k), "a"), numbers(dtype, (k, n), "b"), numbers(dtype, n, "v")
        w, x, y = a.astype(float), b.astype(float), v.astype(float)
        got = launched(text, a, b, v)
        assert got.dtype == DTYPES[dtype]
        # The epilogue of 16-bit floats rounds at each of its operations.
        steps = 1 + 3e6 * {"bf16": 2.0**-8}.get(dtype, 0.0)
        holds(got, function(w @ x, y), (np.abs(w) @ np.abs(x) + np.abs(y)) * (1 + np.abs(y)) * steps, max(k, 1))


@pytest.mark.parametrize(("dtype", "kept"), (("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"), ("i8", "i64"), ("u8", "u64"), ("i16", "i32")))
def test_results_of_another_type(dtype: str, kept: str) -> None:
    text = product("0" if dtype in INTS else "0.0", after=f"s as {kept}")
    accumulating = f"""def f(A, B) {{
    compute(A, B) @kernel(matmul) {{
        for i in 0..M, j in 0..N:
            var s: {kept} = {"0" if dtype in INTS else "0.0"}
            for k in 0..K:
                s += (A[i, k] as {kept}) * (B[k, j] as {kept})
            out[i, j] = s
    }}
}}
"""
    for program in (text, accumulating):
        for m, n, k in ((3, 5, 7), (33, 31, 65), (2, 2, 1000)):
            a, b = numbers(dtype, (m, k), "a", small=dtype in INTS), numbers(dtype, (k, n), "b", small=dtype in INTS)
            got = launched(program, a, b)
            assert got.dtype == DTYPES[kept]
            w, v = a.astype(float), b.astype(float)
            # A sum that was kept in f32 has f32's precision.
            holds(got, w @ v, np.abs(w) @ np.abs(v) * (1e9 if kept == "f64" and program is text else 1), k)


def test_a_declared_result_type() -> None:
    got = launched(product(result="-> tensor[M, N, f64]"), a := numbers("f32", (9, 33)), b := numbers("f32", (33, 5)))
    assert got.dtype == np.float64
    # The sum runs in f32, the type that flows in.
    holds(got.astype(np.float32), a.astype(float) @ b, np.abs(a).astype(float) @ np.abs(b), 33)


@pytest.mark.parametrize("dtype", ("f32", "f16", "i8", "f64"))
@pytest.mark.parametrize("kind", ("", "@kernel(batched_matmul)"))
def test_batches(dtype: str, kind: str) -> None:
    text = f"""def f(A, B) {{
    compute(A, B) {kind} {{
        for b in 0..X, i in 0..M, j in 0..N:
            var s = {"0" if dtype in INTS else "0.0"}
            for k in 0..K:
                s += A[b, i, k] * B[b, k, j]
            out[b, i, j] = s
    }}
}}
"""
    for shape, left, right in spread(((1, 3, 5, 7), (5, 33, 31, 9), (0, 3, 3, 3), (3, 3, 3, 0), (31, 1, 257, 2), (2, 64, 64, 64), (33, 4, 4, 4)), LAYOUTS, LAYOUTS[::-1]):
        x, m, n, k = shape
        a, b = numbers(dtype, (x, m, k), "a"), numbers(dtype, (x, k, n), "b")
        got = launched(text, laid_out(a, left), laid_out(b, right))
        if dtype in INTS:
            exactly(got, a.astype(np.int32) @ b.astype(np.int32))
        else:
            w, v = a.astype(float), b.astype(float)
            holds(got, w @ v, np.abs(w) @ np.abs(v), k)


def test_batches_of_heads_with_shared_weights() -> None:
    text = """def f(A, B) {
    compute(A, B) @kernel(batched_matmul) {
        for b in 0..X, h in 0..H, i in 0..M, j in 0..N:
            for k in 0..K:
                out[b, h, i, j] += A[b, i, h, k] * B[h, j, k]
    }
}
"""
    a, b = numbers("f32", (3, 17, 4, 9), 1), numbers("f32", (4, 33, 9), 2)
    w, v = a.astype(float), b.astype(float)
    holds(launched(text, a, b), np.einsum("bihk,hjk->bhij", w, v), np.einsum("bihk,hjk->bhij", np.abs(w), np.abs(v)), 9)


@pytest.mark.parametrize("dtype", FLOATS)
def test_matrix_times_vector_and_dot(dtype: str) -> None:
    rows = "def f(A, x) {\n    compute(A, x) { for i in 0..M {\n            var s = 0.0\n            for k in 0..K { s += A[i, k] * x[k] }\n            out[i] = s\n        } }\n}\n"
    columns = "def f(A, x) {\n    compute(A, x) { for j in 0..N, k in 0..K { out[j] += x[k] * A[k, j] } }\n}\n"
    dot = "def f(x, y) {\n    compute(x, y) @kernel(reduce, +) { for i in 0..N: yield x[i] * y[i] }\n}\n"
    for shape, layout in spread(((3, 5), (33, 257), (257, 33), (1, 1000), (1000, 1), (5, 0)), LAYOUTS):
        m, k = shape
        a, x, y = numbers(dtype, (m, k), "a"), numbers(dtype, k, "x"), numbers(dtype, m, "y")
        w, v, u = a.astype(float), x.astype(float), y.astype(float)
        holds(launched(rows, laid_out(a, layout), laid_out(x, layout)), w @ v, np.abs(w) @ np.abs(v), k)
        holds(launched(columns, laid_out(a, layout), y), u @ w, np.abs(u) @ np.abs(w) * stepwise(dtype, m), m)
        # Products of 16-bit floats are rounded to their type only when the sum isn't the accumulator's.
        holds(launched(dot, x, x), v @ v, v @ v, k)


def test_a_sum_over_two_indices() -> None:
    text = """def f(A, B) {
    compute(A, B) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K, l in 0..L:
                s += A[i, k, l] * B[k, j, l]
            out[i, j] = s
    }
}
"""
    a, b = numbers("f32", (17, 5, 31), 1), numbers("f32", (5, 33, 31), 2)
    w, v = a.astype(float), b.astype(float)
    holds(launched(text, a, b), np.einsum("ikl,kjl->ij", w, v), np.einsum("ikl,kjl->ij", np.abs(w), np.abs(v)), 155)


def test_two_sums_in_one_nest() -> None:
    text = """def f(A, B) {
    compute(A, B) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            var t = 0.0
            for k in 0..K:
                s += A[i, k] * B[k, j]
                t += A[i, k]
            out[i, j] = s - t
    }
}
"""
    a, b = numbers("f64", (33, 17), 1), numbers("f64", (17, 31), 2)
    holds(launched(text, a, b), a @ b - a.sum(1, keepdims=True), np.abs(a) @ np.abs(b) + np.abs(a).sum(1, keepdims=True), 34)


@pytest.mark.parametrize("bound", ("0..i", "0..i + 1", "i..K"))
def test_triangular_products(bound: str) -> None:
    text = f"def f(A, B) {{\n    compute(A, B) {{ for i in 0..M, j in 0..N {{\n            var s = 0.0\n            for k in {bound}: s += A[i, k] * B[k, j]\n            out[i, j] = s\n        }} }}\n}}\n"
    for m, n in ((1, 1), (3, 5), (33, 31), (64, 65), (130, 7)):
        a, b = numbers("f32", (m, m), 1), numbers("f32", (m, n), 2)
        part = np.tril(a, -1 if bound == "0..i" else 0) if bound != "i..K" else np.triu(a)
        w, v = part.astype(float), b.astype(float)
        holds(launched(text, a, b), w @ v, np.abs(w) @ np.abs(v), m)


def test_nan_and_infinity_spread_as_in_the_textbook() -> None:
    a, b = numbers("f32", (33, 17), 1), numbers("f32", (17, 31), 2)
    a[3, 4], a[9, 9], b[2, 30] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = a.astype(float) @ b.astype(float)
    got = launched(product(), a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[np.isinf(want)], want[np.isinf(want)])
