"""Windows with several filters, distances, and other reductions of what two operands give together, packed into panels: compared with
NumPy in float64, at sizes that end in every direction."""

from typing import Any

import numpy as np
import pytest

import zynml

SOURCE = """
def padded(x: tensor[B, C, H, W], w: tensor[F, C, R, S]): tensor {
    compute(x, w) {
        for n in 0..B, f in 0..F, y in 0..H, z in 0..W:
            var s = 0.0
            for c in 0..C, r in 0..R, q in 0..S:
                if y + r >= 1 and y + r - 1 < H and z + q >= 1 and z + q - 1 < W: s += x[n, c, y + r - 1, z + q - 1] * w[f, c, r, q]
            out[n, f, y, z] = s
    }
}
def stepping(x: tensor[B, C, H, W], w: tensor[F, C, R, S], bias: tensor[F]): tensor {
    compute(x, w, bias) {
        for n in 0..B, f in 0..F, y in 0..Y, z in 0..Z:
            var s = 0.0
            for c in 0..C, r in 0..R, q in 0..S: s += x[n, c, 2 * y + r, 2 * z + q] * w[f, c, r, q]
            out[n, f, y, z] = max(s + bias[f], 0.0)
    }
}
def channels_last(x: tensor[B, H, W, C], w: tensor[R, S, C, F]): tensor {
    compute(x, w) {
        for n in 0..B, y in 0..Y, z in 0..Z, f in 0..F:
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C: s += x[n, y + r, z + q, c] * w[r, q, c, f]
            out[n, y, z, f] = s
    }
}
def distances(a: tensor[M, D], b: tensor[N, D]): tensor {
    compute(a, b) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for d in 0..D:
                let t = a[i, d] - b[j, d]
                s += t * t
            out[i, j] = sqrt(s)
    }
}
def weighted(a: tensor[M, D], b: tensor[N, D], w: tensor[D]): tensor {
    compute(a, b, w) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for d in 0..D: s += w[d] * abs(a[i, d] - b[j, d])
            out[i, j] = s
    }
}
def farthest(a: tensor[M, D], b: tensor[N, D]): tensor {
    compute(a, b) {
        for i in 0..M, j in 0..N:
            var s = -inf
            for d in 0..D: s = max(s, a[i, d] + b[j, d])
            out[i, j] = s
    }
}
def differing(a: tensor[M, D, i32], b: tensor[N, D, i32]): tensor {
    compute(a, b) -> tensor[M, N, i32] {
        for i in 0..M, j in 0..N:
            var s = 0i32
            for d in 0..D: s += bit_xor(a[i, d], b[j, d])
            out[i, j] = s
    }
}
def by_head(a: tensor[H, M, D], b: tensor[H, N, D]): tensor {
    compute(a, b) {
        for h in 0..H, j in 0..N, i in 0..M:
            var s = 0.0
            for d in 0..D: s += abs(a[h, i, d] - b[h, j, d])
            out[h, j, i] = s
    }
}
"""

PAIRS = [(0, 9, 3), (9, 0, 3), (9, 9, 0), (1, 1, 1), (8, 8, 1), (31, 33, 3), (13, 17, 31), (33, 1, 40), (97, 50, 259)]
"""Rows, columns, terms: none, one, ends in every direction, several blocks."""


@pytest.fixture(scope="module")
def programs() -> tuple[Any, Any]:
    return zynml.compile(SOURCE, threads=1), zynml.compile(SOURCE, threads=2)


def both(programs: tuple[Any, Any], name: str, *arrays: Any) -> Any:
    """The result, which has the same bits on one and on two threads."""
    one, two = (np.asarray(getattr(program, name)(*arrays)) for program in programs)
    assert one.tobytes() == two.tobytes()
    return one


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def windows(x: Any, w: Any, padding: int = 0, step: int = 1) -> Any:
    wide = np.pad(x.astype(float), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    view = np.lib.stride_tricks.sliding_window_view(wide, w.shape[2:], axis=(2, 3))[:, :, ::step, ::step]
    return np.einsum("ncyzrs,fcrs->nfyz", view, w.astype(float), optimize=True)


@pytest.mark.parametrize("shape", [(2, 5, 7, 9, 17), (1, 16, 33, 31, 33), (3, 4, 1, 40, 16), (1, 31, 20, 16, 20), (0, 4, 9, 9, 16)])
def test_windows_with_padding(programs: tuple[Any, Any], shape: tuple[int, ...]) -> None:
    b, c, h, v, f = shape
    x, w = normal(b, c, h, v), normal(f, c, 3, 3)
    np.testing.assert_allclose(both(programs, "padded", x, w), windows(x, w, 1), atol=1e-3)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_filters_that_are_not_finite_count_only_where_the_window_is_inside(programs: tuple[Any, Any], number: float) -> None:
    x, w = np.abs(normal(1, 8, 12, 21)) + 1, normal(16, 8, 3, 3)
    w[3, 2, 0, 0] = number
    result = both(programs, "padded", x, w)
    w[3, 2, 0, 0] = 0
    expected = windows(x, w, 1)
    expected[0, 3, 1:, 1:] = number
    np.testing.assert_allclose(result, expected, atol=1e-3)


def test_an_image_that_is_not_finite(programs: tuple[Any, Any]) -> None:
    x, w = normal(1, 8, 12, 21), normal(16, 8, 3, 3)
    x[0, 4, 5, 6] = np.nan
    result = both(programs, "padded", x, w)
    inside = np.zeros((12, 21), bool)
    inside[4:7, 5:8] = True
    assert np.isnan(result[0, :, inside]).all() and np.isfinite(result[0, :, ~inside]).all()


@pytest.mark.parametrize("shape", [(2, 6, 33, 35, 16), (1, 3, 40, 67, 19), (2, 16, 9, 8, 33)])
def test_windows_that_step_by_two(programs: tuple[Any, Any], shape: tuple[int, ...]) -> None:
    b, c, h, v, f = shape
    x, w, bias = normal(b, c, h, v), normal(f, c, 3, 3), normal(f)
    expected = np.maximum(windows(x, w, step=2) + bias[:, None, None], 0)
    np.testing.assert_allclose(both(programs, "stepping", x, w, bias), expected, atol=1e-3)
    np.testing.assert_allclose(both(programs, "stepping", x[::-1], w, bias), expected[::-1], atol=1e-3)


def test_windows_over_channels_that_lie_last(programs: tuple[Any, Any]) -> None:
    for b, c, h, v, f in ((2, 5, 19, 21, 17), (1, 32, 12, 40, 33)):
        x, w = normal(b, c, h, v), normal(f, c, 3, 5)
        result = both(programs, "channels_last", x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy())
        np.testing.assert_allclose(result.transpose(0, 3, 1, 2), windows(x, w), atol=1e-3)


@pytest.mark.parametrize("sizes", PAIRS)
def test_distances(programs: tuple[Any, Any], sizes: tuple[int, int, int]) -> None:
    m, n, d = sizes
    a, b, w = normal(m, d), normal(n, d), normal(d)
    apart = a[:, None].astype(float) - b[None]
    np.testing.assert_allclose(both(programs, "distances", a, b), np.sqrt((apart**2).sum(2)), atol=1e-3)
    np.testing.assert_allclose(both(programs, "weighted", a, b, w), (np.abs(apart) * w).sum(2), atol=1e-3)


@pytest.mark.parametrize("sizes", PAIRS)
def test_maxima_and_sums_of_whole_numbers_are_exact(programs: tuple[Any, Any], sizes: tuple[int, int, int]) -> None:
    m, n, d = sizes
    a, b = normal(m, d), normal(n, d)
    together = a[:, None] + b[None]
    np.testing.assert_array_equal(both(programs, "farthest", a, b), together.max(2, initial=-np.inf))
    p, q = ((array * 1000).astype(np.int32) for array in (a, b))
    np.testing.assert_array_equal(both(programs, "differing", p, q), (p[:, None] ^ q[None]).sum(2, dtype=np.int32))


def test_nan_wins_in_a_maximum(programs: tuple[Any, Any]) -> None:
    a, b = normal(20, 30), normal(40, 30)
    a[7, 11] = np.nan
    result = both(programs, "farthest", a, b)
    assert np.isnan(result[7]).all()
    np.testing.assert_array_equal(np.delete(result, 7, 0), np.delete((a[:, None] + b[None]).max(2), 7, 0))


def test_a_batch_of_distances(programs: tuple[Any, Any]) -> None:
    a, b = normal(3, 29, 7), normal(3, 18, 7)
    expected = np.abs(a[:, None].astype(float) - b[:, :, None]).sum(3)
    np.testing.assert_allclose(both(programs, "by_head", a, b), expected, atol=1e-4)




@pytest.mark.parametrize("columns", (1, 2, 3, 7, 8, 12, 15, 16, 17))
def test_columns_whose_number_is_written_have_vectors_of_so_many(columns: int) -> None:
    text = f"""
def along(a: tensor[M, D], b: tensor[{columns}, D]): tensor {{
    compute(a, b) {{ for i in 0..M, j in 0..{columns}, d in 0..D: out[i, j] += abs(a[i, d] - b[j, d]) }}
}}
def across(a: tensor[M, D], b: tensor[D, {columns}]): tensor {{
    compute(a, b) {{ for i in 0..M, j in 0..{columns}, d in 0..D: out[i, j] += abs(a[i, d] - b[d, j]) }}
}}
"""
    program = zynml.compile(text)
    for rows, terms in ((1, 1), (3, 31), (33, 65)):
        a, b = (np.random.default_rng(seed).integers(-99, 99, (size, terms)).astype(np.float32) for seed, size in ((1, rows), (2, columns)))
        exact = np.abs(a[:, None, :] - b).sum(2)  # whole numbers below 2^24: every order of the sum gives it
        np.testing.assert_array_equal(program.along(a, b), exact)
        np.testing.assert_array_equal(program.across(a, np.ascontiguousarray(b.T)), exact)
