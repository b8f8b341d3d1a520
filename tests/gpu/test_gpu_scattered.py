"""Sums where data say, on a GPU, against NumPy."""

import numpy as np
import pytest

import zynml

RNG = np.random.default_rng(41)
BYTES = "def f(x: tensor[N, u8]) { compute(x) -> tensor[256, i32] { for i in 0..N: out[x[i]] += 1 } }"


def by_group(statement: str, dtype: str, annotation: str = "") -> str:
    return f"""def f(v: tensor[N, {dtype}], k: tensor[N, i32], M: int) {{
    compute(v, k) -> tensor[M, {dtype}] {annotation} {{ for i in 0..N: out[k[i]] {statement} }}
}}"""


@pytest.mark.parametrize("count", [0, 1, 4097, 10_000_019])
def test_bytes_are_counted(count: int) -> None:
    program = zynml.compile(BYTES, device="cuda:0")
    for x in (RNG.integers(0, 256, count).astype(np.uint8), np.full(count, 7, np.uint8)):
        assert np.array_equal(program.f(x), np.bincount(x, minlength=256))
        assert np.array_equal(program.f(x[1:]), np.bincount(x[1:], minlength=256))


@pytest.mark.parametrize("groups", [5, 5000, 1_000_000])
@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "u64"])
def test_ints(dtype: str, groups: int) -> None:
    numpy = np.dtype({"i8": np.int8, "u16": np.uint16, "i32": np.int32, "u64": np.uint64}[dtype])
    k, v = RNG.integers(0, groups, 200_003).astype(np.int32), RNG.integers(0, 100, 200_003).astype(numpy)
    cases = [
        ("+= v[i]", np.add),
        ("-= v[i]", np.subtract),
        ("= max(out[k[i]], v[i])", np.maximum),
        ("= bit_xor(out[k[i]], v[i])", np.bitwise_xor),
    ]
    for statement, joined in cases:
        expected = np.zeros(groups, numpy)
        joined.at(expected, k, v)
        assert np.array_equal(zynml.compile(by_group(statement, dtype), device="cuda:0").f(v, k, groups), expected), statement


@pytest.mark.parametrize("groups", [5, 1_000_000])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_least_and_greatest_floats(dtype: str, groups: int) -> None:
    k, v = RNG.integers(0, groups, 100_003).astype(np.int32), RNG.standard_normal(100_003).astype(np.dtype(dtype.replace("f", "float")))
    v[[5, 70]], v[900] = np.nan, -np.inf
    for statement, joined in [("= max(out[k[i]], v[i])", np.maximum), ("= min(out[k[i]], v[i])", np.minimum)]:
        expected = np.zeros(groups, v.dtype)
        with np.errstate(invalid="ignore"):
            joined.at(expected, k, v)
        found = zynml.compile(by_group(statement, dtype), device="cuda:0").f(v, k, groups)
        assert np.array_equal(found, expected, equal_nan=True), statement


@pytest.mark.parametrize("groups", [1, 300, 4000, 1_000_000])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_sums_of_floats_have_the_same_bits_in_every_run(dtype: str, groups: int) -> None:
    numpy = np.dtype(dtype.replace("f", "float"))
    k, v = RNG.integers(0, groups, 300_007).astype(np.int32), RNG.standard_normal(300_007).astype(numpy)
    expected = np.zeros(groups, np.longdouble)
    np.add.at(expected, k, v.astype(np.longdouble))
    program = zynml.compile(by_group("+= v[i]", dtype), device="cuda:0")
    first = program.f(v, k, groups)
    error = np.abs(first.astype(np.longdouble) - expected)
    assert np.all(error <= 1.1 * np.finfo(numpy).eps * np.abs(expected) + 300_007 * 2.0**-44 * (2.0**-40 if dtype == "f64" else 1))
    order = RNG.permutation(len(v))
    for _ in range(3):
        assert np.array_equal(program.f(v[order], k[order], groups), first)


def test_what_the_emulator_computes() -> None:
    k, v = RNG.integers(0, 40, 3001).astype(np.int32), (RNG.standard_normal(3001) * 2.0 ** RNG.integers(-80, 80, 3001)).astype(np.float32)
    v[7], v[9], v[11] = np.inf, np.nan, -np.inf
    text = by_group("+= v[i]", "f32")
    there = zynml.compile(text, device="emulator:sm_90a").f(v, k, 40)
    assert np.array_equal(zynml.compile(text, device="cuda:0").f(v, k, 40), there, equal_nan=True)


@pytest.mark.parametrize("groups", [64, 1_000_000])
def test_sums_in_any_order(groups: int) -> None:
    k, v = RNG.integers(0, groups, 100_003).astype(np.int32), RNG.standard_normal(100_003).astype(np.float32)
    expected = np.zeros(groups)
    np.add.at(expected, k, v.astype(np.float64))
    found = zynml.compile(by_group("+= v[i]", "f32", "@atomics(relaxed)"), device="cuda:0").f(v, k, groups)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_rows_are_added_to_rows() -> None:
    v, k = RNG.standard_normal((2000, 33)).astype(np.float32), RNG.integers(0, 77, 2000).astype(np.int32)
    text = "def f(v: tensor[N, C], k: tensor[N, i32], M: int) { compute(v, k) -> tensor[M, C] { for i in 0..N, c in 0..C: out[k[i], c] += v[i, c] } }"
    expected = np.zeros((77, 33))
    np.add.at(expected, k, v.astype(np.float64))
    np.testing.assert_allclose(zynml.compile(text, device="cuda:0").f(v, k, 77), expected, rtol=1e-6, atol=1e-6)


def test_an_index_outside_is_told_of() -> None:
    k, counts = RNG.integers(0, 50, 10_000).astype(np.int64), np.zeros(50, np.int32)
    k[6000] = 50
    text = "def f(counts: tensor[M, i32], k: tensor[N, i64]) { compute(mut counts, k) { for i in 0..N: counts[k[i]] += 1 } }"
    with pytest.raises(zynml.ZynMLError, match="index 50 is out of range: axis 0 of `counts` has 50 elements"):
        zynml.compile(text, device="cuda:0").f(counts, k)
    assert not counts.any()
