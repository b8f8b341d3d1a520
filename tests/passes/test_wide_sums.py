"""Sums into results of 16 bits are added up in f32."""

import ml_dtypes
import numpy as np
import pytest

import zynml

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("device", ["cpu", "emulator"])
@pytest.mark.parametrize("name", TYPES)
def test_a_sum_into_a_result_is_rounded_once(name: str, device: str) -> None:
    source = f"def f(x: tensor[M, N, {name}]) {{ compute(x) {{ for j in 0..N, i in 0..M: out[i] += x[i, j] }} }}"
    x = np.ones((3, 2500), TYPES[name])
    np.testing.assert_array_equal(zynml.compile(source, device=device).f(x), np.full(3, 2500, TYPES[name]))


@pytest.mark.parametrize("name", TYPES)
def test_products_that_flow_into_a_wider_result_are_exact(name: str) -> None:
    source = f"""def f(A: tensor[M, K, {name}], B: tensor[K, N, {name}]) {{
        compute(A, B) -> tensor[M, N, f32] {{ for k in 0..K, i in 0..M, j in 0..N: out[i, j] += A[i, k] * B[k, j] }}
    }}"""
    r = np.random.default_rng(0)
    a, b = (r.integers(1, 256, shape).astype(TYPES[name]) for shape in ((5, 40), (40, 7)))
    np.testing.assert_array_equal(zynml.compile(source).f(a, b), a.astype(np.float64) @ b.astype(np.float64))
