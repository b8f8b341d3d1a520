"""Vectors of elements a few apart: loaded as all that lies around them, never past the last."""

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import zynml

STEPS = (2, 3, 4, 5)
DTYPES = {"f32": np.float32, "f64": np.float64, "u8": np.uint8, "i16": np.int16, "f16": np.float16}


def source(dtype: str) -> str:
    return "\n".join(
        f"""
def every_{step}(x: tensor[{step} * N, {dtype}]): tensor {{
    compute(x) {{ for i in 0..N: out[i] = max(x[{step} * i], x[{step} * i + {step - 1}]) }}
}}"""
        for step in STEPS
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_a_few_apart(dtype: str) -> None:
    program = zynml.compile(source(dtype), threads=1)
    for step in STEPS:
        for n in (0, 1, 3, 31, 33, 97, 1000):
            x = np.random.default_rng(n).integers(0, 100, n * step).astype(DTYPES[dtype])
            expected = np.maximum(x[::step], x[step - 1 :: step])
            np.testing.assert_array_equal(getattr(program, f"every_{step}")(x), expected, err_msg=f"{step} {n}")


def last_of_a_page(array: Any) -> Any:
    """The array where nothing that may be read follows."""
    pages = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    whole = np.frombuffer(pages, np.uint8)
    address = whole.ctypes.data
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
    held = whole[mmap.PAGESIZE - array.nbytes : mmap.PAGESIZE].view(array.dtype)
    held[:] = array
    return held


@pytest.mark.parametrize("step", STEPS)
def test_nothing_behind_the_last_element_is_read(step: int) -> None:
    program = zynml.compile(
        f"def first(x: tensor[M], n: int): tensor {{ compute(x, n) {{ for i in 0..n: out[i] = x[{step} * i] }} }}", threads=1
    )
    for n in (16, 32, 33, 64):
        x = last_of_a_page(np.arange((n - 1) * step + 1, dtype=np.float32))
        np.testing.assert_array_equal(program.first(x, n), x[::step])


def test_maxima_of_squares() -> None:
    program = zynml.compile(
        """
def pool(x: tensor[C, H, W]): tensor {
    compute(x) {
        for c in 0..C, i in 0..H/2, j in 0..W/2:
            var m = -inf
            for r in 0..2, q in 0..2: m = max(m, x[c, 2 * i + r, 2 * j + q])
            out[c, i, j] = m
    }
}"""
    )
    for shape in ((1, 2, 2), (3, 33, 35), (2, 64, 66), (1, 31, 1), (0, 4, 4)):
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        c, h, w = shape[0], shape[1] // 2, shape[2] // 2
        squares = x[:, : 2 * h, : 2 * w].reshape(c, h, 2, w, 2)
        np.testing.assert_array_equal(program.pool(x), squares.max((2, 4)) if w else np.zeros((c, h, w), np.float32))
    x = np.zeros((1, 40, 40), np.float32)
    x[0, 5, 7] = np.nan
    assert np.argwhere(np.isnan(program.pool(x))).tolist() == [[0, 2, 3]]
