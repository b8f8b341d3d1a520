"""Windows whose operand is copied with zeros around it and read in place, against NumPy in float64 and exact ints."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def padded(x: tensor[B, C, H, W, DTYPE], w: tensor[F, C, R, S, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..(H + 2 - R) / STEP + 1, z in 0..(W + 2 - S) / STEP + 1:
            var s = ZERO
            for c in 0..C, r in 0..R, q in 0..S:
                let v = STEP * y + r - 1
                let u = STEP * z + q - 1
                if v >= 0 and v < H and u >= 0 and u < W: s += x[n, c, v, u] * w[f, c, r, q]
            out[n, f, y, z] = s
    }
}
def far(x: tensor[B, C, H, W, DTYPE], w: tensor[F, C, 5, 3, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..(H - 1) / STEP + 1, z in 0..W:
            var s = ZERO
            for c in 0..C, r in 0..5, q in 0..3:
                let v = STEP * y + r - 2
                let u = z + 2 * q - 2
                if v >= 0 and v < H and u >= 0 and u < W: s += x[n, c, v, u] * w[f, c, r, q]
            out[n, f, y, z] = s
    }
}
def one_tap(x: tensor[B, C, H, W, DTYPE], w: tensor[F, C, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..(H - 2) / 3 + 1, z in 0..(W - 1) / STEP + 1:
            var s = ZERO
            for c in 0..C: s += x[n, c, 3 * y + 1, STEP * z] * w[f, c]
            out[n, f, y, z] = s
    }
}
def even(x: tensor[B, C, H, W, DTYPE], w: tensor[C, 3, 3, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, c in 0..C, y in 0..(H - 1) / 2 + 1, z in 0..(W - 1) / STEP + 1:
            var s = ZERO
            for r in 0..3, q in 0..3:
                let v = 2 * y + 2 * r - 2
                let u = STEP * z + q - 1
                if v >= 0 and v < H and u >= 0 and u < W: s += x[n, c, v, u] * w[c, r, q]
            out[n, c, y, z] = s
    }
}
def single(x: tensor[C, H, W, DTYPE], w: tensor[F, C, 3, 3, DTYPE]): tensor {
    compute(x, w) {
        for f in 0..F, y in 0..H, z in 0..W:
            var s = ZERO
            for c in 0..C, r in 0..3, q in 0..3:
                let v = y + r - 1
                let u = z + q - 1
                if v >= 0 and v < H and u >= 0 and u < W: s += x[c, v, u] * w[f, c, r, q]
            out[f, y, z] = s
    }
}
def side_by_side(x: tensor[B, C, H, W, DTYPE], w: tensor[F, C, 3, 3, DTYPE], bias: tensor[B, F, DTYPE]): tensor {
    compute(x, w, bias) {
        for n in 0..B, f in 0..F, y in 0..H, z in 0..W:
            var s = ZERO
            for c in 0..C, r in 0..3, q in 0..3:
                let v = y + r - 1
                let u = z + q - 1
                if v >= 0 and v < H and u >= 0 and u < W: s += x[n, c, v, u] * w[f, c, r, q]
            out[f, y, z, n] = s + bias[n, f]
    }
}
def solid(x: tensor[B, D, H, W, C, DTYPE], w: tensor[3, 3, 3, C, F, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, a in 0..D, y in 0..H, z in 0..W, f in 0..F:
            var s = ZERO
            for p in 0..3, r in 0..3, q in 0..3, c in 0..C:
                let t = a + p - 1
                let v = y + r - 1
                let u = z + q - 1
                if t >= 0 and t < D and v >= 0 and v < H and u >= 0 and u < W: s += x[n, t, v, u, c] * w[p, r, q, c, f]
            out[n, a, y, z, f] = s
    }
}
def inside(x: tensor[B, C, H, W, DTYPE], w: tensor[F, C, 3, 2, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..(H - 5) / STEP + 1, z in 0..(W - 2) / STEP + 1:
            var s = ZERO
            for c in 0..C, r in 0..3, q in 0..2: s += x[n, c, STEP * y + 2 * r, STEP * z + q] * w[f, c, r, q]
            out[n, f, y, z] = s
    }
}
def groups(x: tensor[B, G, C, W, DTYPE], w: tensor[G, F, C, 3, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, g in 0..G, f in 0..F, z in 0..(W - 1) / STEP + 1:
            var s = ZERO
            for c in 0..C, q in 0..3:
                if STEP * z + q >= 1 and STEP * z + q - 1 < W: s += x[n, g, c, STEP * z + q - 1] * w[g, f, c, q]
            out[n, g, f, z] = s + z
    }
}
def turned(x: tensor[B, C, W, DTYPE], w: tensor[F, C, 4, DTYPE]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, z in 0..W:
            var s = ZERO
            for c in 0..C, q in 0..4:
                if z >= q: s += x[n, c, z - q] * w[f, c, q]
            out[n, f, z] = s
    }
}
def last(x: tensor[B, H, W, C, DTYPE], w: tensor[3, S, C, F, DTYPE], bias: tensor[F, DTYPE], old: tensor[B, H, V, F, DTYPE]): tensor {
    compute(x, w, bias, old) {
        for n in 0..B, f in 0..F, y in 0..H, z in 0..V:
            var s = ZERO
            for c in 0..C, r in 0..3, q in 0..S:
                let v = y + r - 1
                if v >= 0 and v < H: s += x[n, v, 5 * z + q, c] * w[r, q, c, f]
            out[n, y, z, f] = max(s + bias[f], old[n, y, z, f])
    }
}
def first(x: tensor[B, C, H, W, DTYPE], w: tensor[F, G, C, 3, DTYPE], bias: tensor[F, DTYPE], old: tensor[B, F, G, H, V, DTYPE]): tensor {
    compute(x, w, bias, old) {
        for n in 0..B, f in 0..F, g in 0..G, y in 0..H, z in 0..V:
            var s = ZERO
            for c in 0..C, q in 0..3: s += x[n, c, y, 5 * z + 2 - q] * w[f, g, c, q]
            out[n, f, g, y, z] = max(s + bias[f], old[n, f, g, y, z])
    }
}
"""
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32}


@pytest.fixture(scope="module", params=[("f32", 1), ("f32", 2), ("f32", 3), ("f64", 2), ("i32", 1)], ids=str)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(scope="module")
def program(kind: Any) -> Any:
    dtype, step = kind
    source = SOURCE.replace("DTYPE", dtype).replace("ZERO", "0" if dtype == "i32" else "0.0").replace("STEP", str(step))
    return zynml.compile(source, threads=2)


def numbers(dtype: str, *shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(DTYPES[dtype])


def windows(x: Any, w: Any, step: int, apart: int = 1) -> Any:
    """Sums of all windows of two dimensions, terms of a column `apart` rows from each other."""
    high, wide = apart * (w.shape[-2] - 1) + 1, w.shape[-1]
    views = np.lib.stride_tricks.sliding_window_view(x.astype(float), (high, wide), axis=(2, 3))[:, :, ::step, ::step, ::apart]
    return np.einsum("ncyzrq,fcrq->nfyz", views, w.astype(float))


@pytest.mark.parametrize("shape", [(1, 3, 9, 33), (2, 5, 31, 16), (1, 4, 40, 57)])
def test_padded_windows(program: Any, kind: Any, shape: tuple[int, ...]) -> None:
    dtype, step = kind
    x = numbers(dtype, *shape)
    for high, wide in (3, 3), (2, 5):
        w = numbers(dtype, 19, shape[1], high, wide)
        np.testing.assert_array_equal(program.padded(x, w), windows(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w, step))
    few = np.zeros((2, *shape[1:]), x.dtype)[:0]
    assert program.padded(few, w).shape[0] == 0


@pytest.mark.parametrize("shape", [(1, 16, 1, 1), (2, 37, 4, 5), (3, 19, 14, 7), (1, 20, 3, 40), (5, 3, 11, 2)])
@pytest.mark.parametrize("filters", [16, 67])
def test_windows_lack_several_terms_at_edges(program: Any, kind: Any, shape: tuple[int, ...], filters: int) -> None:
    """Pictures no larger than windows too, and as many channels as are turned into the copy or fewer."""
    dtype, step = kind
    x, w = numbers(dtype, *shape), numbers(dtype, filters, shape[1], 5, 3)
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2))).astype(float), (5, 5), axis=(2, 3))
    expected = np.einsum("ncyzrq,fcrq->nfyz", views[:, :, ::step, :, :, ::2], w.astype(float))
    np.testing.assert_array_equal(program.far(x, w), expected)
    np.testing.assert_array_equal(program.far(x, np.asfortranarray(w)), expected)


@pytest.mark.parametrize("shape", [(5, 20, 41, 40), (6, 33, 24, 39)])
def test_pictures_that_are_copied_some_at_a_time(program: Any, kind: Any, shape: tuple[int, ...]) -> None:
    """Results of each picture together, and those of all pictures side by side; and one picture without an axis of pictures."""
    dtype, step = kind
    x, w, bias = numbers(dtype, *shape), numbers(dtype, 34, shape[1], 3, 3), numbers(dtype, shape[0], 34)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = windows(padded, w, 1)
    np.testing.assert_array_equal(program.padded(x, w), windows(padded, w, step))
    np.testing.assert_array_equal(program.side_by_side(x, w, bias), expected.transpose(1, 2, 3, 0) + bias.T[:, None, None])
    np.testing.assert_array_equal(program.single(x[0], w), expected[0])


@pytest.mark.parametrize("filters", [1, 16, 40])
def test_what_no_window_reads_is_not_copied(program: Any, kind: Any, filters: int) -> None:
    """Windows of one tap that are several elements apart, and windows of single channels of which each second line has no term."""
    dtype, step = kind
    x, w = numbers(dtype, 2, 35, 23, 37), numbers(dtype, filters, 35)
    expected = np.einsum("ncyz,fc->nfyz", x[:, :, 1::3, ::step].astype(float), w.astype(float))
    np.testing.assert_array_equal(program.one_tap(x, w), expected)
    w = numbers(dtype, 35, 3, 3)
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (2, 2), (1, 1))).astype(float), (5, 3), axis=(2, 3))
    expected = np.einsum("ncyzrq,crq->ncyz", views[:, :, ::2, ::step, ::2], w.astype(float))
    np.testing.assert_array_equal(program.even(x, w), expected)


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 1, 3, 9)])
def test_windows_along_three_axes(program: Any, kind: Any, shape: tuple[int, ...]) -> None:
    dtype, _ = kind
    x, w = numbers(dtype, *shape, 18), numbers(dtype, 3, 3, 3, 18, 33)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (1, 1), (0, 0))).astype(float)
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3, 3), axis=(1, 2, 3))
    np.testing.assert_array_equal(program.solid(x, w), np.einsum("nayzcprq,prqcf->nayzf", views, w.astype(float)))


def test_windows_that_lie_inside(program: Any, kind: Any) -> None:
    dtype, step = kind
    x, w = numbers(dtype, 2, 3, 20, 45), numbers(dtype, 17, 3, 3, 2)
    expected = windows(x, w, step, 2)
    np.testing.assert_array_equal(program.inside(x, w), expected)
    np.testing.assert_array_equal(program.inside(np.asfortranarray(x), w), expected)
    np.testing.assert_array_equal(program.inside(x.repeat(2, 3)[..., ::2], w), expected)


def test_groups_have_copies_of_their_own(program: Any, kind: Any) -> None:
    dtype, step = kind
    x, w = numbers(dtype, 2, 3, 5, 83), numbers(dtype, 3, 18, 5, 3)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1))).astype(float)
    views = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=3)[:, :, :, ::step]
    expected = np.einsum("ngczq,gfcq->ngfz", views, w.astype(float))
    np.testing.assert_array_equal(program.groups(x, w), expected + np.arange(expected.shape[-1]))


@pytest.mark.parametrize("filters", [16, 37])
def test_results_along_filters(program: Any, kind: Any, filters: int) -> None:
    """Channels last, windows five elements apart."""
    dtype, _ = kind
    x, w = numbers(dtype, 2, 7, 43, 3), numbers(dtype, 3, 4, 3, filters)
    bias, old = numbers(dtype, filters), numbers(dtype, 2, 7, 8, filters)
    views = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0))).astype(float), (3, 4), axis=(1, 2))
    expected = np.einsum("nyzcrq,rqcf->nyzf", views[:, :, ::5], w.astype(float))
    np.testing.assert_array_equal(program.last(x, w, bias, old), np.maximum(expected + bias, old))


@pytest.mark.parametrize("width", [1, 3, 8, 13])
def test_results_along_windows(program: Any, kind: Any, width: int) -> None:
    """Filters of two axes whose taps look back, and lines of results shorter and longer than vectors."""
    dtype, _ = kind
    x, w = numbers(dtype, 3, 5, 9, 5 * width), numbers(dtype, 5, 7, 5, 3)
    bias, old = numbers(dtype, 5), numbers(dtype, 3, 5, 7, 9, width)
    views = np.lib.stride_tricks.sliding_window_view(x.astype(float), 3, axis=3)[:, :, :, ::5, ::-1]
    expected = np.einsum("ncyzq,fgcq->nfgyz", views, w.astype(float))
    np.testing.assert_array_equal(program.first(x, w, bias, old), np.maximum(expected + bias[:, None, None, None], old))


def test_windows_that_look_back(program: Any, kind: Any) -> None:
    dtype, _ = kind
    x, w = numbers(dtype, 2, 6, 200), numbers(dtype, 16, 6, 4)
    padded = np.pad(x, ((0, 0), (0, 0), (3, 0))).astype(float)
    expected = np.einsum("nczq,fcq->nfz", np.lib.stride_tricks.sliding_window_view(padded, 4, axis=2), w[..., ::-1].astype(float))
    np.testing.assert_array_equal(program.turned(x, w), expected)


@pytest.mark.parametrize("filters", [17, 64])
def test_what_is_not_finite_stays_in_its_windows(program: Any, kind: Any, filters: int) -> None:
    dtype, step = kind
    if dtype == "i32":
        return
    x, w = numbers(dtype, 1, 3, 20, 40), numbers(dtype, filters, 3, 3, 3)
    x[0, 1, 0, 0], x[0, 2, 7, 39], x[0, 0, 19, 11] = np.nan, np.inf, -np.inf
    outside = ((0, 0), (0, 0), (1, 1), (1, 1))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(program.padded(x, w), windows(np.pad(x, outside), w, step))
        # a term that isn't there is no zero times such a number
        x = np.ones_like(x)
        for place in (3, 1, 0, 0), (filters - 1, 2, 2, 2):
            w[3, 1, 0, 0], w[filters - 1, 2, 2, 2] = 1, 1
            w[place] = np.inf
            here = windows(np.pad(x, outside), np.where(np.isinf(w), 0, w), step)
            meets = windows(np.pad(x, outside), np.isinf(w).astype(x.dtype), step) > 0
            np.testing.assert_array_equal(program.padded(x, w), np.where(meets, np.inf, here))


def test_threads_give_the_same_bits() -> None:
    source = SOURCE.replace("DTYPE", "f32").replace("ZERO", "0.0").replace("STEP", "1")
    rng = np.random.default_rng(3)
    x, w = rng.random((2, 5, 33, 47), np.float32), rng.random((20, 5, 3, 3), np.float32)
    first, *others = (np.asarray(zynml.compile(source, threads=threads).padded(x, w)) for threads in (1, 2, 3))
    for other in others:
        np.testing.assert_array_equal(first, other)
