"""Floats of 8 bits on the device: every pattern is widened, and numbers around every one of them, and every 65,536th f32, are rounded, as
ml_dtypes does."""

from typing import Any

import numpy as np
import pytest

import zynml

ml_dtypes = pytest.importorskip("ml_dtypes")
TYPES = {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
PROGRAM = """
def widened(x: tensor[N, f8]) { compute(x) -> tensor[N, f32] { for i in 0..N: out[i] = x[i] } }
def narrowed(x: tensor[N, f32]) { compute(x) -> tensor[N, f8] { for i in 0..N: out[i] = x[i] as f8 } }
"""


@pytest.mark.parametrize("name", TYPES)
def test_all_numbers(name: str) -> None:
    dtype: Any = getattr(ml_dtypes, TYPES[name])
    program = zynml.compile(PROGRAM.replace("f8]", f"{name}]").replace("as f8", f"as {name}"), device="cuda:0")
    every = np.arange(256, dtype=np.uint8).view(dtype)
    np.testing.assert_array_equal(np.asarray(program.widened(every)), every.astype(np.float32))
    near = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    numbers = ((np.arange(1 << 16, dtype=np.uint32)[:, None] << 16) + near).ravel().view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = numbers.astype(dtype)
    rounded = np.asarray(program.narrowed(numbers))
    np.testing.assert_array_equal(rounded.astype(np.float32), wanted.astype(np.float32))
    numbered = ~np.isnan(numbers)
    np.testing.assert_array_equal(rounded.view(np.uint8)[numbered], wanted.view(np.uint8)[numbered])
