"""Convolutions: stride, padding, dilation, groups, with and without a border test, channels first and last; depthwise; plain windows."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import DTYPES, INTS, LAYOUTS, Array, exactly, holds, laid_out, launched, numbers, spread


def convolved(x: Array, w: Array, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1) -> Array:
    """The definition, channels first."""
    images, _, height, width = x.shape
    filters, per_group, rows, columns = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    high = max(0, (height + 2 * padding - dilation * (rows - 1) - 1) // stride + 1)
    wide = max(0, (width + 2 * padding - dilation * (columns - 1) - 1) // stride + 1)
    out = np.zeros((images, filters, high, wide), x.dtype)
    each = filters // groups
    for r in range(rows):
        for q in range(columns):
            part = padded[:, :, r * dilation :, q * dilation :][:, :, ::stride, ::stride][:, :, :high, :wide]
            for g in range(groups):
                chosen = slice(g * each, (g + 1) * each)
                out[:, chosen] += np.einsum("ncyx,oc->noyx", part[:, g * per_group : (g + 1) * per_group], w[chosen, :, r, q])
    return out


def check(text: str, x: Array, w: Array, layouts: tuple[str, str] = ("contiguous", "contiguous"), **options: int) -> None:
    got = launched(text, laid_out(x, layouts[0]), laid_out(w, layouts[1]))
    if x.dtype.kind in "iu":
        exactly(got, convolved(x.astype(got.dtype), w.astype(got.dtype), **options))
        return
    assert got.dtype == x.dtype
    u, v = x.astype(np.float64), w.astype(np.float64)
    holds(got, convolved(u, v, **options), convolved(np.abs(u), np.abs(v), **options), w[0].size)


def plain(stride: int = 1, dilation: int = 1, zero: str = "0.0", kind: str = "@kernel(conv2d)") -> str:
    """Windows that lie inside."""
    iy = "y" if stride == 1 else f"{stride} * y"
    ix = "x" if stride == 1 else f"{stride} * x"
    r, q = ("r", "q") if dilation == 1 else (f"{dilation} * r", f"{dilation} * q")
    return f"""def f(X, W) {{
    compute(X, W) {kind} {{
        for n in 0..N, o in 0..F, y in 0..OH, x in 0..OW:
            var s = {zero}
            for c in 0..C, r in 0..R, q in 0..S:
                s += X[n, c, {iy} + {r}, {ix} + {q}] * W[o, c, r, q]
            out[n, o, y, x] = s
    }}
}}
"""


GUARDED = """def f(X, W) {{
    compute(X, W) @kernel(conv2d{options}) {{
        for n in 0..N, o in 0..F, y in 0..OH, x in 0..OW:
            var s = {zero}
            for c in 0..C, r in 0..R, q in 0..S:
                let iy = y * stride + r * dilation - padding
                let ix = x * stride + q * dilation - padding
                if iy >= 0 and iy < IH and ix >= 0 and ix < IW:
                    s += X[n, c, iy, ix] * W[o, c, r, q]
            out[n, o, y, x] = s
    }}
}}
"""


def guarded(zero: str = "0.0", **options: int) -> str:
    return GUARDED.format(options="".join(f", {name}={value}" for name, value in options.items()), zero=zero)


OPERANDS = spread(((1, 1, 3, 3), (2, 3, 9, 8), (1, 5, 31, 33)), ((4, 3, 3), (1, 1, 1), (3, 2, 3)), LAYOUTS[:3], LAYOUTS[2:])


@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("dtype", (*INTS, "f16", "bf16", "f32", "f64"))
def test_every_dtype(dtype: str, operands: tuple[Any, ...]) -> None:
    zero = "0" if dtype in INTS else "0.0"
    shape, window, left, right = operands
    x, w = numbers(dtype, shape, 1), numbers(dtype, (window[0], shape[1], *window[1:]), 2)
    check(plain(zero=zero), x, w, (left, right))
    check(guarded(zero, padding=1), x, w, (left, right), padding=1)


WINDOWS = spread(((2, 3, 9, 8), (1, 2, 33, 31), (3, 1, 5, 40), (1, 4, 17, 17)), ((3, 3), (1, 2), (3, 1), (2, 3)), LAYOUTS[1:])


@pytest.mark.parametrize("stride", (1, 2, 3))
@pytest.mark.parametrize("padding", (0, 1, 2))
@pytest.mark.parametrize("dilation", (1, 2))
@pytest.mark.parametrize("operands", WINDOWS)
def test_stride_padding_dilation(stride: int, padding: int, dilation: int, operands: tuple[Any, ...]) -> None:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    shape, window, layout = operands
    x, w = numbers("f32", shape, 1), numbers("f32", (4, shape[1], *window), 2)
    check(guarded(**options), x, w, (layout, "contiguous"), **options)
    if padding == 0:
        check(plain(stride, dilation), x, w, ("contiguous", layout), stride=stride, dilation=dilation)


@pytest.mark.parametrize("size", (3, 31, 33, 64, 257))
def test_every_size(size: int) -> None:
    for shape in ((1, 2, size, 5), (1, 2, 5, size), (1, size, 5, 5)):
        x, w = numbers("f32", shape, 1), numbers("f32", (3, shape[1], 3, 3), 2)
        check(plain(), x, w)
        check(guarded(padding=1), x, w, padding=1)


@pytest.mark.parametrize("filters", (1, 33, 257))
def test_many_filters(filters: int) -> None:
    x, w = numbers("f32", (2, 3, 12, 11), 1), numbers("f32", (filters, 3, 3, 3), 2)
    check(plain(), x, w)
    check(guarded(padding=1), x, w, padding=1)


def test_empty_batches_and_channels() -> None:
    check(plain(), np.zeros((0, 3, 5, 5), np.float32), numbers("f32", (4, 3, 3, 3)))
    check(plain(), np.zeros((2, 0, 5, 5), np.float32), np.zeros((4, 0, 3, 3), np.float32))
    check(plain(), numbers("f32", (1, 1, 3, 3)), numbers("f32", (1, 1, 3, 3)))


@pytest.mark.parametrize("groups", (1, 2, 4))
def test_groups(groups: int) -> None:
    text = f"""def f(X, W) {{
    compute(X, W) @kernel(conv2d, groups={groups}, padding=1) {{
        for n in 0..N, g in 0..{groups}, o in 0..{8 // groups}, y in 0..OH, x in 0..OW:
            var s = 0.0
            for c in 0..C, r in 0..R, q in 0..S:
                let iy = y + r - padding
                let ix = x + q - padding
                if iy >= 0 and iy < IH and ix >= 0 and ix < IW:
                    s += X[n, g * {4 // groups} + c, iy, ix] * W[g * {8 // groups} + o, c, r, q]
            out[n, g * {8 // groups} + o, y, x] = s
    }}
}}
"""
    for shape in ((2, 4, 9, 8), (1, 4, 33, 31)):
        x, w = numbers("f32", shape, 1), numbers("f32", (8, 4 // groups, 3, 3), 2)
        check(text, x, w, groups=groups, padding=1)


@pytest.mark.parametrize(("filters", "height", "width"), [(16, 28, 28), (16, 5, 25), (13, 7, 40), (16, 6, 49), (17, 5, 28), (16, 4, 20)])
@pytest.mark.parametrize("bad", (None, np.inf))
def test_groups_of_few_filters(filters: int, height: int, width: int, bad: float | None) -> None:
    """Of so few that a vector holds them, and of one more; lines end in two vectors under a mask, in one, or in none."""
    text = """def f(X, W) {
    compute(X, W) @kernel(conv2d) {
        for n in 0..N, g in 0..G, o in 0..F, y in 0..H, x in 0..V:
            var s = 0.0
            for c in 0..C, r in 0..3, q in 0..3:
                let iy = y + r - 1
                let ix = x + q - 1
                if iy >= 0 and iy < H and ix >= 0 and ix < V: s += X[n, g, c, iy, ix] * W[g, o, c, r, q]
            out[n, g, o, y, x] = s
    }
}
"""
    x, w = numbers("f32", (4, 4, 5, height, width), 1), numbers("f32", (4, filters, 5, 3, 3), 2)
    if bad is not None:
        w[1, 2, 3, 0, 0] = bad  # at the edge no product has it
    u, v = x.astype(np.float64), w.astype(np.float64)
    got = launched(text, x, w)
    for g in range(4):
        group, of_group = np.pad(u[:, g], ((0, 0), (0, 0), (1, 1), (1, 1))), v[g]
        inside = np.pad(np.ones_like(u[:, g]), ((0, 0), (0, 0), (1, 1), (1, 1))) > 0
        expected, sizes = np.zeros((4, filters, height, width)), np.zeros((4, filters, height, width))
        for r in range(3):
            for q in range(3):
                part, here = (each[:, :, None, r : r + height, q : q + width] for each in (group, inside))
                with np.errstate(invalid="ignore"):
                    terms = np.where(here, part * of_group.T[q, r][None, :, :, None, None], 0.0)
                expected += terms.sum(1)
                sizes += np.abs(terms).sum(1)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(np.isfinite(got[:, g]), finite)
        holds(got[:, g][finite], expected[finite], sizes[finite], 45)


def test_groups_by_division() -> None:
    text = """def f(X, W) {
    compute(X, W) @kernel(conv2d, groups=2) {
        for n in 0..N, o in 0..8, y in 0..OH, x in 0..OW:
            var s = 0.0
            for c in 0..2, r in 0..R, q in 0..S:
                s += X[n, (o / 4) * 2 + c, y + r, x + q] * W[o, c, r, q]
            out[n, o, y, x] = s
    }
}
"""
    x, w = numbers("f32", (2, 4, 9, 8), 1), numbers("f32", (8, 2, 3, 3), 2)
    check(text, x, w, groups=2)


def test_channels_last() -> None:
    text = """def f(X, W) {
    compute(X, W) @kernel(conv2d, padding=1) {
        for n in 0..N, y in 0..OH, x in 0..OW, o in 0..F:
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C:
                let iy = y + r - 1
                let ix = x + q - 1
                if iy >= 0 and iy < IH and ix >= 0 and ix < IW:
                    s += X[n, iy, ix, c] * W[r, q, c, o]
            out[n, y, x, o] = s
    }
}
"""
    for channels, filters in ((3, 33), (33, 5), (16, 16)):
        x, w = numbers("f32", (2, 9, 8, channels), 1), numbers("f32", (3, 3, channels, filters), 2)
        u, v = (a.astype(float) for a in (x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)))
        want, magnitude = convolved(u, v, padding=1), convolved(np.abs(u), np.abs(v), padding=1)
        holds(launched(text, x, w), want.transpose(0, 2, 3, 1), magnitude.transpose(0, 2, 3, 1), channels * 9)


@pytest.mark.parametrize("kind", ("conv2d_depthwise", "depthwise"))
@pytest.mark.parametrize("dtype", ("f32", "f16", "i8", "f64"))
def test_depthwise(kind: str, dtype: str) -> None:
    zero = "0" if dtype in INTS else "0.0"
    text = f"""def f(X, W) {{
    compute(X, W) @kernel({kind}, stride=2, padding=1) {{
        for n in 0..N, c in 0..C, y in 0..OH, x in 0..OW:
            var s = {zero}
            for r in 0..R, q in 0..S:
                let iy = y * stride + r - padding
                let ix = x * stride + q - padding
                if iy >= 0 and iy < IH and ix >= 0 and ix < IW:
                    s += X[n, c, iy, ix] * W[c, r, q]
            out[n, c, y, x] = s
    }}
}}
"""
    for shape, layout in spread(((1, 1, 3, 3), (2, 5, 9, 8), (1, 33, 17, 31), (1, 3, 64, 65)), LAYOUTS):
        x, w = numbers(dtype, shape, 1), numbers(dtype, (shape[1], 3, 3), 2)
        got = launched(text, laid_out(x, layout), w)
        wide: Any = got.dtype if dtype in INTS else np.float64
        options = {"stride": 2, "padding": 1, "groups": shape[1]}
        want = convolved(x.astype(wide), w[:, None].astype(wide), **options)
        if dtype in INTS:
            exactly(got, want)
        else:
            assert got.dtype == DTYPES[dtype]
            holds(got, want, convolved(np.abs(x.astype(wide)), np.abs(w[:, None].astype(wide)), **options), 9)


def test_a_filter_of_one_picture() -> None:
    text = """def f(p, t) {
    compute(p, t) {
        for y in 0..H, x in 0..W:
            var s = 0.0
            for r in 0..3, q in 0..3:
                let v = y + r - 1
                let u = x + q - 1
                if v >= 0 and v < H and u >= 0 and u < W: s += t[r, q] * p[v, u]
            out[y, x] = s
    }
}
"""
    for shape, layout in spread(((1, 1), (3, 31), (33, 257), (100, 3)), LAYOUTS):
        p, t = numbers("f32", shape, 1), numbers("f32", (3, 3), 2)
        u, v = p.astype(float)[None, None], t.astype(float)[None, None]
        holds(launched(text, laid_out(p, layout), t), convolved(u, v, padding=1)[0, 0], convolved(np.abs(u), np.abs(v), padding=1)[0, 0], 9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_dimensional_windows_and_pools(layout: str) -> None:
    window = "def f(x, w) {\n    compute(x, w) { for o in 0..O {\n            var s = 0.0\n            for k in 0..K { s += x[o + k] * w[k] }\n            out[o] = s\n        } }\n}\n"
    pool = "def f(x) {\n    compute(x) { for o in 0..O {\n            var m = -inf\n            for k in 0..3 { m = max(m, x[2 * o + k]) }\n            out[o] = m\n        } }\n}\n"
    for size in (5, 31, 257, 1000):
        x, w = numbers("f32", size, 1), numbers("f32", 5, 2)
        u, v = x.astype(float), w.astype(float)
        holds(launched(window, laid_out(x, layout), w), np.correlate(u, v, "valid"), np.correlate(np.abs(u), np.abs(v), "valid"), 5)
        count = (size - 3) // 2 + 1
        exactly(launched(pool, laid_out(x, layout)), np.array([x[2 * o : 2 * o + 3].max() for o in range(count)]))


def test_a_border_test_around_the_sum_over_channels() -> None:
    """The guard stands outside the innermost sum: still a convolution, and a weight that isn't finite touches only what it meets."""
    text = """def f(p: tensor[N, H, W, C], t: tensor[K, R, S, C]) {
    compute(p, t) -> tensor[N, H, W, K] @kernel(conv2d, padding=1) {
        for n in 0..N, y in 0..H, x in 0..W, k in 0..K:
            var s = 0.0
            for r in 0..R, q in 0..S:
                if y + r >= 1 and y + r < H + 1 and x + q >= 1 and x + q < W + 1:
                    for c in 0..C: s += p[n, y + r - 1, x + q - 1, c] * t[k, r, q, c]
            out[n, y, x, k] = s
    }
}
"""
    for shape in ((1, 1, 1, 1), (2, 5, 7, 3), (1, 31, 33, 17)):
        p, t = numbers("f32", shape, 1), numbers("f32", (4, 3, 3, shape[3]), 2)
        u, v = p.astype(float).transpose(0, 3, 1, 2), t.astype(float).transpose(0, 3, 1, 2)
        expected, magnitude = (convolved(*pair, padding=1).transpose(0, 2, 3, 1) for pair in ((u, v), (np.abs(u), np.abs(v))))
        holds(launched(text, p, t), expected, magnitude, 9 * shape[3])
        t[0, 0, 0, 0] = np.inf
        got = launched(text, p, t)
        assert np.isfinite(got[:, 0, :, 0]).all() and np.isfinite(got[:, :, 0, 0]).all()
