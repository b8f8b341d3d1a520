"""Fused kernels: chains of row reductions, shared rows and barriers, whole-tensor lines."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.cpu.paths import path_of
from compiler.fusion.program_kernels import kernels
from compiler.hir.memory import Alloc, Load
from tests.kernels.checks import DTYPES, FLOATS, LAYOUTS, SIZES, Array, by_layout, exactly, holds, laid_out, launched, numbers, spread, wide

SHAPES = (*((s, 5) for s in SIZES), *((5, s) for s in SIZES if s), (33, 257), (64, 64))

SOFTMAX = """def f(x) {
    compute(x) @kernel(fused) {
        for i in 0..M:
            var top = -inf
            for j in 0..N: top = max(top, x[i, j])
            var total = 0.0
            for j in 0..N: total += exp(x[i, j] - top)
            for j in 0..N: out[i, j] = exp(x[i, j] - top) / total
    }
}
"""

NORM = """def f(x, g, b) {
    compute(x, g, b) @kernel(fused) {
        for i in 0..M:
            var mean = 0.0
            for j in 0..N: mean += x[i, j]
            mean = mean / N
            var var = 0.0
            for j in 0..N:
                let d = x[i, j] - mean
                var += d * d
            let r = rsqrt(var / N + 1e-5)
            for j in 0..N: out[i, j] = (x[i, j] - mean) * r * g[j] + b[j]
    }
}
"""

RMS = """def f(x, g) {
    compute(x, g) @kernel(fused) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N: s += x[i, j] * x[i, j]
            for j in 0..N: out[i, j] = x[i, j] * rsqrt(s / N + 1e-6) * g[j]
    }
}
"""

STEPS = {"f16": 4e3, "bf16": 4e4, "f32": 4.0, "f64": 4.0}
"""How many f32 roundings the roundings of a chain in 16 bits are worth."""


def softmax(x: Array, axis: int = 1) -> Array:
    (w,) = wide(x)
    e = np.exp(w - w.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize(("layouts", "shapes"), by_layout(spread(SHAPES, LAYOUTS)))
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(dtype: str, layouts: tuple[str], shapes: list[tuple[int, int]]) -> None:
    (layout,) = layouts
    for shape in shapes:
        x = numbers(dtype, shape)
        got = launched(SOFTMAX, laid_out(x, layout))
        assert got.dtype == DTYPES[dtype]
        want = softmax(x)
        holds(got, want, want * STEPS[dtype], shape[1])


@pytest.mark.parametrize(("shape", "kept"), [((1, 6_291_456), True), ((1, 6_291_457), False), ((3, 1000), True)])
def test_softmax_of_rows_that_no_cache_holds(shape: tuple[int, int], kept: bool) -> None:
    """Exponentials of 24 MB are kept between the passes; of more they are computed again."""
    program = zynml.compile(SOFTMAX)
    ((_, kernel),) = kernels(program._session)
    assert set(path_of(kernel.scheduled.function, dict(zip("MN", shape, strict=True))).values()) == {kept}
    x = numbers("f32", shape)
    want = softmax(x)
    np.testing.assert_allclose(program.f(x), want, rtol=1e-5, atol=0)


def test_softmax_of_columns() -> None:
    text = SOFTMAX.replace("x[i, j]", "x[j, i]").replace("out[i, j]", "out[j, i]")
    for shape, layout in spread(SHAPES[8:], LAYOUTS):
        x = numbers("f32", shape)
        want = softmax(x, 0)
        holds(launched(text, laid_out(x, layout)), want, want * 4, shape[0])


def test_what_columns_keep_lies_as_their_lanes_do() -> None:
    text = SOFTMAX.replace("x[i, j]", "x[j, i]").replace("out[i, j]", "out[j, i]")
    ((_, kernel),) = kernels(zynml.compile(text)._session)
    loads = [op for top in kernel.scheduled.function.body.body for op in top.walk() if isinstance(op, Load) and isinstance(op.mem.source, Alloc)]
    assert loads and all(load.index[-1].coefficient("simd") == 1 for load in loads if "simd" in dict(load.result.type.axes))


@pytest.mark.parametrize(("layouts", "shapes"), by_layout(spread(SHAPES[8:], LAYOUTS)))
@pytest.mark.parametrize("dtype", FLOATS)
def test_layer_norm(dtype: str, layouts: tuple[str], shapes: list[tuple[int, int]]) -> None:
    (layout,) = layouts
    for shape in shapes:
        x, g, b = numbers(dtype, shape, 1), numbers(dtype, shape[1], 2), numbers(dtype, shape[1], 3)
        w, wg, wb = wide(x, g, b)
        variance = w.var(1, keepdims=True)
        want = (w - w.mean(1, keepdims=True)) / np.sqrt(variance + 1e-5) * wg + wb
        magnitude = (np.abs(w) + np.abs(w).mean(1, keepdims=True)) / np.sqrt(variance + 1e-5) * np.abs(wg) + np.abs(wb)
        if shape[1] == 1:
            magnitude = magnitude * 300  # a row of one: the difference is rounding, the divisor sqrt(1e-5)
        holds(launched(NORM, laid_out(x, layout), g, b), want, magnitude * STEPS[dtype] * 4, shape[1])


@pytest.mark.parametrize(("layouts", "shapes"), by_layout(spread(SHAPES[8:], LAYOUTS)))
@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype: str, layouts: tuple[str], shapes: list[tuple[int, int]]) -> None:
    (layout,) = layouts
    for shape in shapes:
        x, g = numbers(dtype, shape, 1), numbers(dtype, shape[1], 2)
        w, wg = wide(x, g)
        want = w / np.sqrt((w * w).mean(1, keepdims=True) + 1e-6) * wg
        holds(launched(RMS, laid_out(x, layout), g), want, np.abs(want) * STEPS[dtype], shape[1])


def test_nan_and_infinite_rows() -> None:
    x = numbers("f32", (5, 33))
    x[1, 7] = np.nan
    x[2, 8] = -np.inf
    x[3] = -np.inf
    got = launched(SOFTMAX, x)
    assert np.isnan(got[1]).all()
    assert got[2, 8] == 0
    assert np.isnan(got[3]).all()
    np.testing.assert_allclose(got[[0, 2, 4]].sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shared_rows_and_barriers(layout: str) -> None:
    text = """def f(x) {
    compute(x) @kernel(fused) {
        for i in 0..M:
            shared var row[N, f32]
            for j in 0..N: row[j] = x[i, j] * 2.0
            barrier()
            var s = 0.0
            for j in 0..N: s += row[j]
            barrier()
            for j in 0..N: row[j] = row[j] + s
            barrier()
            for j in 0..N: out[i, j] = row[N - 1 - j]
    }
}
"""
    for shape in ((3, 5), (33, 257), (1000, 3), (1, 1)):
        x = numbers("f32", shape)
        (w,) = wide(x)
        want = (2 * w + 2 * w.sum(1, keepdims=True))[:, ::-1]
        holds(launched(text, laid_out(x, layout)), want, np.broadcast_to(4 * np.abs(w).sum(1, keepdims=True), shape), shape[1] + 2)


LINES: tuple[tuple[str, Any], ...] = (
    ("out = x + 1.0", lambda w: w + 1),
    ("let m = reduce(max, x, axis=1, keepdims=true)\n        let e = exp(x - m)\n        out = e / reduce(+, e, axis=1, keepdims=true)", softmax),
    ("out = x - reduce(mean, x, axis=0, keepdims=true)", lambda w: w - w.mean(0, keepdims=True)),
    ("out = reduce(+, x * x, axis=-1)", lambda w: (w * w).sum(-1)),
    ("let a = abs(x)\n        for i in 0..M, j in 0..N: out[i, j] = a[i, j] * 2.0", lambda w: 2 * np.abs(w)),
    ("out = sqrt(reduce(max, abs(x))) * x", lambda w: np.sqrt(np.abs(w).max(initial=0)) * w),
)


@pytest.mark.parametrize(("layouts", "shapes"), by_layout(spread(((1, 1), (3, 5), (33, 257), (257, 33), (5, 1), (31, 31)), LAYOUTS)))
@pytest.mark.parametrize("dtype", ("f32", "f64"))
@pytest.mark.parametrize(("lines", "function"), LINES)
def test_whole_tensor_lines(lines: str, function: Any, dtype: str, layouts: tuple[str], shapes: list[tuple[int, int]]) -> None:
    text = f"def f(x: tensor[M, N, {dtype}]) {{\n    compute(x) @kernel(fused) {{\n        {lines}\n    }}\n}}\n"
    (layout,) = layouts
    for shape in shapes:
        x = numbers(dtype, shape)
        (w,) = wide(x)
        want = function(w)
        holds(launched(text, laid_out(x, layout)), want, np.broadcast_to(np.abs(w).max() ** 2 * 4 + 4, np.shape(want)), w.size)


def test_temporaries_between_loops() -> None:
    text = """def f(x, w) {
    compute(x, w) -> (y: tensor[M, N], z: tensor[M, N]) @kernel(fused) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += x[i, k] * w[k, j]
            y[i, j] = s
        for i in 0..M, j in 0..N: z[i, j] = max(y[i, j], 0.0)
    }
}
"""
    for m, n, k in ((3, 5, 7), (33, 31, 17), (64, 64, 64), (1, 257, 3)):
        x, w = numbers("f32", (m, k), 1), numbers("f32", (k, n), 2)
        u, v = wide(x, w)
        y, z = launched(text, x, w)
        holds(y, u @ v, np.abs(u) @ np.abs(v), k)
        exactly(z, np.maximum(y, 0))


def test_softmax_of_a_whole_vector_or_matrix() -> None:
    vector = """def f(x) {
    compute(x) @kernel(fused) {
        var top = -inf
        for j in 0..N: top = max(top, x[j])
        var total = 0.0
        for j in 0..N: total += exp(x[j] - top)
        for j in 0..N: out[j] = exp(x[j] - top) / total
    }
}
"""
    matrix = vector.replace("j in 0..N", "i in 0..M, j in 0..N").replace("x[j]", "x[i, j]").replace("out[j]", "out[i, j]")
    for shape in ((3,), (257,), (1009,), (3, 5), (33, 257), (257, 33), (1, 1)):
        x = numbers("f32", shape)
        (w,) = wide(x)
        want = np.exp(w - w.max())
        want /= want.sum()
        holds(launched(vector if len(shape) == 1 else matrix, x), want, want * 4, x.size)


def test_centred_along_the_first_axis_and_scaled_along_the_second() -> None:
    text = """def f(x) {
    compute(x) @kernel(fused) {
        for j in 0..N:
            var mean = 0.0
            for i in 0..M: mean += x[i, j]
            for i in 0..M: out[i, j] = x[i, j] - mean / M
    }
}
"""
    for shape, layout in spread(((3, 5), (33, 257), (257, 33), (1000, 3)), LAYOUTS):
        x = numbers("f32", shape)
        (w,) = wide(x)
        holds(launched(text, laid_out(x, layout)), w - w.mean(0), np.broadcast_to(np.abs(w).sum(0), shape), shape[0])


CHAIN = """def f(a, b, c) {
    compute(a, b, c) @kernel(fused) {
        for r in 0..M {
            shared var row[P, f32]
            for j in 0..P { row[j] = 0.0 }
            for k in 0..K {
                for j in 0..P { row[j] = row[j] + a[r, k] * b[k, j] }
            }
            for j in 0..Q {
                var s = 0.0
                for t in 0..P { s += row[t] * c[t, j] }
                out[r, j] = s
            }
        }
    }
}
"""


def test_a_product_of_a_product_kept_in_a_shared_row() -> None:
    for m, k, p, q in ((1, 1, 1, 1), (17, 9, 5, 3), (33, 20, 40, 31)):
        a, b, c = numbers("f32", (m, k)), numbers("f32", (k, p)), numbers("f32", (p, q))
        wanted = wide(a)[0] @ wide(b)[0] @ wide(c)[0]
        terms = np.abs(wide(a)[0]) @ np.abs(wide(b)[0]) @ np.abs(wide(c)[0])
        holds(launched(CHAIN, a, b, c), wanted, terms, k * p)
