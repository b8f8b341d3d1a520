"""Every number of bf16 through maps on the CPU, against the rounding of ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml

SOURCE = """
def copied(x: tensor[N, bf16]): tensor { compute(x) { for i in 0..N: out[i] = x[i] } }
def roots(x: tensor[N, bf16]): tensor { compute(x) { for i in 0..N: out[i] = sqrt(abs(x[i])) } }
def sums(x: tensor[N, bf16]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * x[i] + x[i] } }
def strictly(x: tensor[N, bf16]): tensor { compute(x) @precision(floats=strict) { for i in 0..N: out[i] = x[i] * x[i] + x[i] } }
"""
NUMBERS = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)


def rounded(values: Any) -> Any:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize("name", ["copied", "roots", "sums", "strictly"])
def test_every_number(name: str) -> None:
    wide = NUMBERS.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = NUMBERS.astype(np.float64)
        expected = {
            "copied": wide,
            "roots": rounded(np.sqrt(np.abs(wide))),
            "sums": rounded((exact * exact + exact).astype(np.float32)),
            "strictly": rounded(rounded(wide * wide) + wide),
        }[name]
    result = np.asarray(getattr(zynml.compile(SOURCE), name)(NUMBERS))
    np.testing.assert_array_equal(result.astype(np.float32), expected)
    assert result.dtype == NUMBERS.dtype
