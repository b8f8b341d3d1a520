"""Extents of results that are products of sizes, and results whose rows begin where a product says."""

import numpy as np
import pytest

import zynml

PROGRAM = """
def packed(a: tensor[N, N]) {
    compute(a) @kernel(fused) -> tensor[N * (N + 1) / 2] {
        for i in 0..N:
            let first = i * (i + 1) / 2
            for k in first..first + i + 1: out[k] = a[i, k - first]
    }
}
def flat(a: tensor[M, N]) { compute(a) -> tensor[M * N] { for k in 0..M * N: out[k] = 2.0 * a[k / N, k % N] } }
def begun(a: tensor[M, N]) { compute(a) -> tensor[M * N / 2] { for i in 0..M: out[i] = a[i, 0] } }
"""


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_75", "emulator:sm_90a"])
@pytest.mark.parametrize("size", [1, 2, 3, 33])
def test_extents_that_are_products(device: str, size: int) -> None:
    program = zynml.compile(PROGRAM, device=device)
    square, wide = np.random.default_rng(size).standard_normal((2, size, size + 2)).astype(np.float32)
    square = np.ascontiguousarray(square[:, :size])
    assert np.array_equal(np.asarray(program.packed(square)), square[np.tril_indices(size)])
    assert np.array_equal(np.asarray(program.flat(wide)), 2.0 * wide.ravel())
    begun = np.asarray(program.begun(wide))
    assert len(begun) == size * (size + 2) // 2
    assert np.array_equal(begun[:size], wide[: len(begun), 0]) and not begun[size:].any()

