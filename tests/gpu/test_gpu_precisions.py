"""Products of f32, bytes and 16 bits on a GPU in every layout, as exact as FMAs, of numbers of every magnitude, and rounded where that is
asked for. Expected values in float64; whole numbers exactly."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
NUMPY = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f32": np.float32, "i8": np.int8, "bf16": ml_dtypes.bfloat16}
LAYOUTS = {
    "rows": ("A[i, k]", "B[k, j]", "M, K", "K, N"),
    "turned B": ("A[i, k]", "B[j, k]", "M, K", "N, K"),
    "turned A": ("A[k, i]", "B[k, j]", "K, M", "K, N"),
    "both turned": ("A[k, i]", "B[j, k]", "K, M", "N, K"),
}
SIZES = [(1024, 768, 1000), (1021, 777, 1003), (130, 2050, 4097), (512, 512, 512), (2048, 1, 4096)]


def multiplied(dtype: str, layout: str, a: Array, b: Array, note: str = "") -> Array:
    left, right, first, second = LAYOUTS[layout]
    program = zynml.compile(
        f"""
def f(A: tensor[{first}, {dtype}], B: tensor[{second}, {dtype}]) {{
    compute(A, B) -> tensor[M, N, {"i32" if dtype == "i8" else "f32"}] {note} {{
        for i in 0..M, j in 0..N:
            var s = {"0" if dtype == "i8" else "0.0"}
            for k in 0..K: s += {left} * {right}
            out[i, j] = s
    }}
}}""",
        device="cuda:0",
    )
    given = [np.ascontiguousarray(x.T) if "[k, i]" in index or "[j, k]" in index else x for x, index in ((a, left), (b, right))]
    return np.asarray(program.f(*given))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", NUMPY)
def test_whole_numbers_in_every_layout(dtype: str, layout: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    random = np.random.default_rng(k)
    a, b = (random.integers(-4, 5, shape).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))
    np.testing.assert_array_equal(multiplied(dtype, layout, a, b), a.astype(np.float64) @ b.astype(np.float64))


BYTES = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "i8": np.int8, "u8": np.uint8}


@pytest.mark.parametrize("sizes", [(520, 384, 2064), (129, 1000, 4096), (1021, 77, 1003)], ids=str)
@pytest.mark.parametrize(("left", "right"), [("f8e4m3", "f8e4m3"), ("f8e5m2", "f8e4m3"), ("f8e5m2", "f8e5m2"), ("u8", "i8")])
def test_bytes_with_a_scale_for_each_row_and_column(left: str, right: str, sizes: tuple[int, int, int]) -> None:
    (m, n, k), whole = sizes, left == "u8"
    program = zynml.compile(
        f"""
def f(A: tensor[M, K, {left}], B: tensor[N, K, {right}], p: tensor[M, f32], q: tensor[N, f32]) {{
    compute(A, B, p, q) -> tensor[M, N, f32] {{
        for i in 0..M, j in 0..N:
            var s = {"0" if whole else "0.0"}
            for k in 0..K: s += {"(A[i, k] as i32) * (B[j, k] as i32)" if whole else "A[i, k] * B[j, k]"}
            out[i, j] = (s as f32) * p[i] * q[j]
    }}
}}""",
        device="cuda:0",
    )
    random = np.random.default_rng(k)
    a, b = (random.integers(0 if dtype == "u8" else -4, 5, (rows, k)).astype(BYTES[dtype]) for dtype, rows in ((left, m), (right, n)))
    p, q = (np.exp2(random.integers(-3, 4, rows)).astype(np.float32) for rows in (m, n))
    wanted = (a.astype(np.float64) @ b.astype(np.float64).T) * p[:, None] * q
    np.testing.assert_array_equal(np.asarray(program.f(a, b, p, q)), wanted.astype(np.float32))


def test_long_sums_of_eight_bits_are_nearly_those_of_f32() -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn) for shape in ((512, 16384), (16384, 512)))
    assert error(multiplied("f8e4m3", "turned B", a, b), a, b) < 1e-3


def error(found: Array, a: Array, b: Array) -> float:
    """In proportion to the sums, as a norm."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def chained(a: Array, b: Array) -> Array:
    """The product with each sum as one chain of FMAs in written order, rounded to f32 after each."""
    sums = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        sums = (sums + a[:, k : k + 1].astype(np.float64) * b[k]).astype(np.float32)
    return sums


@pytest.mark.parametrize("terms", [300, 512, 1000, 4096])
def test_no_less_exact_than_a_chain_of_fmas(terms: int) -> None:
    random = np.random.default_rng(terms)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((1024, terms), (terms, 1024)))
    few = a[::16]
    chain = error(chained(few, b), few, b)
    for note in ("", "@precision(products=f32)"):
        assert error(multiplied("f32", "rows", a, b, note)[::16], few, b) < 1.25 * chain < 2e-6, note


@pytest.mark.parametrize("layout", ["rows", "turned B"])
def test_tf32_where_it_is_asked_for(layout: str) -> None:
    random = np.random.default_rng(1)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((512, 768), (768, 512)))
    assert 1e-5 < error(multiplied("f32", layout, a, b, "@precision(products=tf32)"), a, b) < 1e-3


@pytest.mark.parametrize("scale", [-60, 60, -100, 110, -122], ids="2^{}".format)
def test_every_magnitude(scale: int) -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((512, 1024), (1024, 512)))
    scaled = multiplied("f32", "rows", a * np.float32(2.0**scale), b * np.float32(2.0 ** -(scale // 2)))
    assert error(scaled.astype(np.float64) * 2.0 ** (scale // 2 - scale), a, b) < 1e-6


def infinite(a: Array, b: Array) -> None:
    a[3, 5], b[9, 70], a[400, 8] = np.inf, -np.inf, np.nan


def infinity_of_nothing(a: Array, b: Array) -> None:
    a[3, 5], b[5, :] = np.inf, 0


def near_the_largest(a: Array, b: Array) -> None:
    a[:], b[:] = np.float32(3.4e38), 0
    b[0], b[1, ::2], b[2, ::2] = 1, -0.5, 0.5


@pytest.mark.parametrize("fill", [infinite, infinity_of_nothing, near_the_largest])
def test_what_is_not_finite(fill: Callable[[Array, Array], None]) -> None:
    random = np.random.default_rng(3)
    a, b = (random.integers(1, 5, shape).astype(np.float32) for shape in ((500, 1024), (1024, 600)))
    fill(a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(multiplied("f32", "rows", a, b), (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


def test_a_number_that_is_not_finite_in_every_row() -> None:
    random = np.random.default_rng(6)
    a, b = (random.integers(1, 5, shape).astype(np.float32) for shape in ((1000, 520), (520, 1100)))
    a[np.arange(1000), random.integers(0, 520, 1000)] = np.where(np.arange(1000) % 2, np.inf, np.nan)
    np.testing.assert_array_equal(multiplied("f32", "rows", a, b), (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize(("left", "right"), [("bf16", "f32"), ("f32", "f16")])
def test_factors_of_two_types(left: str, right: str) -> None:
    program = zynml.compile(
        f"""
def f(A: tensor[M, K, {left}], B: tensor[K, N, {right}]) {{
    compute(A, B) -> tensor[M, N, f32] {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }}
}}""",
        device="cuda:0",
    )
    random, numbers = np.random.default_rng(7), {**NUMPY, "f16": np.float16}
    a, b = (random.integers(-4, 5, shape).astype(numbers[dtype]) for shape, dtype in (((777, 1030), left), ((1030, 650), right)))
    np.testing.assert_array_equal(np.asarray(program.f(a, b)), a.astype(np.float64) @ b.astype(np.float64))


def test_the_same_bits_in_every_run() -> None:
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((700, 2000), (2000, 900)))
    first = multiplied("f32", "rows", a, b)
    for _ in range(5):
        np.testing.assert_array_equal(multiplied("f32", "rows", a, b), first)
