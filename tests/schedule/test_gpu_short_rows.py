"""Pictures of few channels, channels last: rows of 2 to 7 elements that threads take whole, several of them as vectors. Expected values
from NumPy in float64."""

import numpy as np
import pytest

import zynml

NORMALISED = """def f(x: tensor[N, H, W, C, u8], mean: tensor[C], deviation: tensor[C]) {
    compute(x, mean, deviation) -> tensor[N, H, W, C, f32] {
        for n in 0..N, y in 0..H, z in 0..W, c in 0..C: out[n, y, z, c] = (x[n, y, z, c] as f32 / 255.0 - mean[c]) / deviation[c]
    }
}"""
BLURRED = """def f(x: tensor[H, W, C, f32], k: tensor[3, C]) {
    compute(x, k) -> tensor[H, W, C, f32] {
        for y in 0..H, z in 0..W, c in 0..C {
            var s = 0.0
            for i in 0..3 { if z + i >= 1 and z + i <= W { s += k[i, c] * x[y, z + i - 1, c] } }
            out[y, z, c] = s
        }
    }
}"""
RNG = np.random.default_rng(3)


@pytest.mark.parametrize("target", ["emulator:sm_90a", "emulator:sm_80"])
@pytest.mark.parametrize("shape", [(1, 1, 1, 3), (2, 3, 5, 2), (1, 2, 8, 3), (2, 3, 33, 3), (1, 2, 12, 7), (1, 3, 31, 5)])
def test_channels_with_scales_of_their_own(target: str, shape: tuple[int, ...]) -> None:
    x = RNG.integers(0, 256, shape, dtype=np.uint8)
    mean, deviation = RNG.random(shape[-1], np.float32), RNG.random(shape[-1], np.float32) + 0.5
    expected = (x / 255.0 - mean.astype(np.float64)) / deviation
    program = zynml.compile(NORMALISED, device=target)
    np.testing.assert_allclose(program.f(x, mean, deviation), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(program.f(x[:, :, ::-1], mean, deviation), expected[:, :, ::-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 16, 3), (2, 31, 2), (2, 7, 6)])
def test_windows_along_short_rows_end_at_the_edge(shape: tuple[int, ...]) -> None:
    x, k = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal((3, shape[-1])).astype(np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (0, 0)))
    expected = sum(k[i] * padded[:, i : i + shape[1]] for i in range(3))
    np.testing.assert_allclose(zynml.compile(BLURRED, device="emulator:sm_90a").f(x, k), expected, rtol=1e-5, atol=1e-5)
