"""Arithmetic of bytes and 16-bit ints whose sums need more bits than they have, in windows with conditions at edges and without, against NumPy."""

import numpy as np
import pytest

import zynml

KINDS = {"u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32}

WINDOWS = """
fn life(x: tensor[H, W, T]) { return compute(x) -> tensor[H, W, T] {
    for i in 0..H, j in 0..W {
        var s = 0
        for r in 0..3, q in 0..3 {
            let y = i + r - 1
            let z = j + q - 1
            if y >= 0 and y < H and z >= 0 and z < W: s += x[y, z]
        }
        out[i, j] = 1 if s == 3 or (s == 4 and x[i, j] == 1) else 0
    }
} }
fn sums(x: tensor[H, W, T]) { return compute(x) {
    for i in 0..H, j in 0..W {
        var s = 0
        for r in 0..3, q in 0..5 {
            if i + r >= 2 and j + q >= 3 and j + q < W + 3: s += x[i + r - 2, j + q - 3]
        }
        out[i, j] = s * 2 + 1
    }
} }
"""


def shifted(x: np.ndarray, down: int, right: int) -> np.ndarray:
    """What lies so many rows down and columns to the right of each element; outside are zeros."""
    wide = np.pad(x, ((8, 8), (8, 8)))
    return wide[8 + down : 8 + down + x.shape[0], 8 + right : 8 + right + x.shape[1]]


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16", "i32"])
def test_windows_with_edges(dtype: str) -> None:
    program = zynml.compile(WINDOWS.replace("T]", f"{dtype}]"))
    whole = np.iinfo(KINDS[dtype])
    low, high = max(whole.min, -(2**20)), min(whole.max, 2**20)
    rng = np.random.default_rng(7)
    for shape in (1, 1), (2, 3), (3, 31), (5, 33), (4, 67), (9, 64), (33, 100), (0, 4), (3, 0):
        cells = rng.integers(0, 2, shape)
        around = sum(shifted(cells, r, q) for r in (-1, 0, 1) for q in (-1, 0, 1))
        alive = (around == 3) | ((around == 4) & (cells == 1))
        np.testing.assert_array_equal(np.asarray(program.life(cells.astype(KINDS[dtype]))), alive)
        for x in rng.integers(low, high, shape, endpoint=True), np.full(shape, low), np.full(shape, high):
            expected = sum(shifted(x, r - 2, q - 3) for r in range(3) for q in range(5)) * 2 + 1
            np.testing.assert_array_equal(np.asarray(program.sums(x.astype(KINDS[dtype]))), expected)


MAPS = """
fn f(x: tensor[M, N, T], y: tensor[M, N, T]) { return compute(x, y) {
    for i in 0..M, j in 0..N {
        let a = x[i, j] as i64
        let b = y[i, j] as i64
        out[i, j] = {value}
    }
} }
"""


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16"])
@pytest.mark.parametrize(
    ("value", "of"),
    [
        ("max(a - b, -a) + 3", lambda a, b: np.maximum(a - b, -a) + 3),
        ("a * b - a", lambda a, b: a * b - a),
        ("a * a * a * b * b * b", lambda a, b: a**3 * b**3),
        ("(a if a + b > 100 else b - 7) as i16", lambda a, b: np.where(a + b > 100, a, b - 7).astype(np.int16)),
        ("((a + b) as f32) * 0.5", lambda a, b: (a + b) * 0.5),
    ],
)
def test_maps(dtype: str, value: str, of: object) -> None:
    assert callable(of)
    f = zynml.compile(MAPS.replace("T]", f"{dtype}]").replace("{value}", value)).f
    whole = np.iinfo(KINDS[dtype])
    for shape in (1, 1), (3, 31), (2, 20), (2, 33), (5, 129), (2, 0):
        x, y = np.random.default_rng(3).integers(whole.min, whole.max, (2, *shape), endpoint=True)
        x.flat[:2], y.flat[:2] = whole.min, whole.max
        np.testing.assert_array_equal(np.asarray(f(x.astype(KINDS[dtype]), y.astype(KINDS[dtype]))), of(x, y))
