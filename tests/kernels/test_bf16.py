"""Every number of bf16 through maps on the CPU, against the rounding of ml_dtypes."""

import re
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


def test_numbers_that_are_the_same_along_an_axis() -> None:
    """A NaN of f32 whose bits no bf16 holds stays one when it is rounded; those of bf16 are rounded without a look at them."""
    program = zynml.compile("""
def joined(u: tensor[M, bf16], x: tensor[M, N, bf16]): tensor { compute(u, x) { for i in 0..M, j in 0..N: out[i, j] = (-u[i] + x[i, j]) * u[i] } }
def from_f32(u: tensor[M, f32], x: tensor[M, N, bf16]): tensor {
    compute(u, x) { for i in 0..M, j in 0..N: out[i, j] = max((u[i] as bf16) + x[i, j], x[i, j]) }
}
""")
    wide = np.array([1.5, -0.0, np.inf, np.nan, 3e38, 1e-40], np.float32)
    wide = np.concatenate([wide, np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001], np.uint32).view(np.float32)])
    u, x = wide.astype(ml_dtypes.bfloat16), NUMBERS[:: 1 << 7].reshape(1, -1).repeat(len(wide), 0)
    with np.errstate(all="ignore"):
        sums = rounded(u.astype(np.float32)[:, None] + x.astype(np.float32))
        joined = rounded(rounded(x.astype(np.float32) - u.astype(np.float32)[:, None]) * u.astype(np.float32)[:, None])
    np.testing.assert_array_equal(np.asarray(program.joined(u, x)).astype(np.float32), joined)
    np.testing.assert_array_equal(np.asarray(program.from_f32(wide, x)).astype(np.float32), np.maximum(sums, x.astype(np.float32)))


def test_an_f16_that_is_stored_as_it_was_rounded_is_rounded_once() -> None:
    program = zynml.compile("def f(x: tensor[N, f16]) { compute(x) { for i in 0..N: out[i] = exp(x[i]) } }", threads=1)
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(program.f(x), np.exp(x.astype(np.float64)).astype(np.float16), rtol=1e-3, atol=6e-8)
    text = str(program.emit("llvm"))
    widened = {name for name, of in re.findall(r"(%\S+) = fpext [^%]*(%\S+) to", text) if f"{of} = fptrunc" in text}
    split = {name for name, of in re.findall(r"(%\S+) = shufflevector [^%]*(%[^,\s]+)", text) if of in widened}
    assert "fptrunc" in text and not any(f" {name} to <16 x half>" in text for name in widened | split)
