"""Sums that data scatter from several loops: rows of whole pieces of 16 bytes are read so, others element by element. Expected values are
exact."""

import numpy as np
import pytest

import zynml

COUNTS = "def f(x: tensor[H, W, u8]) { compute(x) -> tensor[256, i32] { for y in 0..H, z in 0..W: out[x[y, z]] += 1 } }"
WEIGHED = """def f(x: tensor[B, H, W, i32], v: tensor[B, H, W], k: tensor[H]) {
    compute(x, v, k) -> tensor[B, 50] @atomics(relaxed) {
        for b in 0..B, y in 0..H, z in 0..W: out[b, x[b, y, z]] += v[b, y, z] * k[y]
    }
}"""
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("target", ["emulator:sm_90a", "emulator:sm_80"])
@pytest.mark.parametrize("shape", [(1, 16), (3, 32), (5, 48), (7, 17), (65, 160), (0, 16), (16, 0)])
def test_counts_of_a_picture(target: str, shape: tuple[int, int]) -> None:
    x = RNG.integers(0, 256, shape, dtype=np.uint8)
    np.testing.assert_array_equal(zynml.compile(COUNTS, device=target).f(x), np.bincount(x.ravel(), minlength=256))


@pytest.mark.parametrize("shape", [(1, 2, 16), (3, 5, 20), (2, 4, 17), (2, 9, 64)])
def test_sums_of_several_pictures(shape: tuple[int, int, int]) -> None:
    x, v = RNG.integers(0, 50, shape, dtype=np.int32), RNG.integers(0, 9, shape).astype(np.float32)
    k = RNG.integers(0, 9, shape[1]).astype(np.float32)
    expected = [np.bincount(x[b].ravel(), (v[b] * k[:, None]).ravel(), minlength=50) for b in range(shape[0])]
    np.testing.assert_array_equal(zynml.compile(WEIGHED, device="emulator:sm_90a").f(x, v, k), expected)


@pytest.mark.parametrize(("shape", "words"), [("8192x8192", True), ("8192x8190", False)])
def test_rows_of_whole_pieces_are_read_in_these(shape: str, words: bool) -> None:
    (call,) = zynml.compile(COUNTS)._session.launches_like([f"x={shape}:u8"], "emulator:sm_90a")
    (launch,) = call.threads.launches.launches
    assert any(axis.startswith("beside") for axis in launch.function.axes) is words
