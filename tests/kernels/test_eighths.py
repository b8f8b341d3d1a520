"""f8e4m3 and f8e5m2 in programs: every pattern is the number that ml_dtypes says, numbers are rounded as it rounds them, sums are kept in
f32."""

import ml_dtypes
import numpy as np
import pytest

import zynml

TYPES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
PROGRAM = """
def widened(x: tensor[N, f8]) { compute(x) -> tensor[N, f32] { for i in 0..N: out[i] = x[i] * 2.0f32 } }
def narrowed(x: tensor[N, f32]) { compute(x) -> tensor[N, f8] { for i in 0..N: out[i] = x[i] as f8 } }
def doubled(x: tensor[N, f8]) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }
def product(A: tensor[M, K, f8], B: tensor[K, N, f8]) {
    compute(A, B) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
}
"""


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", TYPES)
def test_numbers(name: str, device: str) -> None:
    program, dtype = zynml.compile(PROGRAM.replace("f8]", f"{name}]").replace("as f8", f"as {name}"), device=device), TYPES[name]
    every = np.arange(256, dtype=np.uint8).view(dtype)
    np.testing.assert_array_equal(program.widened(every), every.astype(np.float32) * 2)
    sums = program.doubled(every)
    with np.errstate(over="ignore"):
        assert sums.dtype == dtype
        np.testing.assert_array_equal(sums.astype(np.float32), (every.astype(np.float32) * 2).astype(dtype).astype(np.float32))
    random = np.random.default_rng(1)
    numbers = np.concatenate(
        [
            random.standard_normal(1000) * 10.0 ** random.uniform(-6, 6, 1000),
            [np.inf, -np.inf, np.nan, 0, 448, 464, 465, 57344, 61439, 61440],
        ]
    ).astype(np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(program.narrowed(numbers).astype(np.float32), numbers.astype(dtype).astype(np.float32))


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", TYPES)
def test_products_are_summed_in_f32(name: str, device: str) -> None:
    program = zynml.compile(PROGRAM.replace("f8]", f"{name}]").replace("as f8", f"as {name}"), device=device)
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype(TYPES[name]) for shape in ((19, 70), (70, 33)))
    np.testing.assert_allclose(program.product(a, b), a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=1e-5)
