"""`out[k[i]] += v[i]` and its like on a GPU: many threads change elements at once, and the result is that of the loops. Against NumPy."""

from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
DEVICES = ("emulator:sm_80", "emulator:sm_90a")
_RANDOM = np.random.default_rng(31)
NUMPY = {
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "u32": np.uint32,
    "i64": np.int64,
    "u64": np.uint64,
}


def one_by_group(statement: str, dtype: str) -> str:
    return f"""def f(v: tensor[N, {dtype}], k: tensor[N, i64], M: int) {{
    compute(v, k) -> tensor[M, {dtype}] {{ for i in 0..N: out[k[i]] {statement} }}
}}"""


def launches_of(text: str, like: str) -> list[Any]:
    return list(zynml.compile(text)._session.launches_like([like], "emulator:sm_90a")[0].threads.launches.launches)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [0, 1, 31, 4097])
def test_a_histogram_of_bytes(count: int, device: str) -> None:
    program = zynml.compile("def f(k: tensor[N, u8]) { compute(k) -> tensor[256, i32] { for i in 0..N: out[k[i]] += 1 } }", device=device)
    k = _RANDOM.integers(0, 256, count).astype(np.uint8)
    assert np.array_equal(program.f(k), np.bincount(k, minlength=256))
    assert np.array_equal(program.f(np.full(count, 7, np.uint8)), np.bincount(np.full(count, 7), minlength=256))


def test_a_histogram_takes_all_of_the_gpu() -> None:
    text = "def f(k: tensor[N, u8]) { compute(k) -> tensor[256, i32] { for i in 0..N: out[k[i]] += 1 } }"
    (launch,) = launches_of(text, "k=100000000")
    assert launch.blocks({"N": 100_000_000}) * launch.function.kernel_info.launch_bounds.max_threads_per_block >= 132 * 1024
    (launch,) = launches_of(one_by_group("+= v[i]", "i32"), "v=10000000, k=10000000, M=1000000")
    assert launch.blocks({"N": 10_000_000, "M": 1_000_000}) >= 132


@pytest.mark.parametrize("groups", [1, 7, 40_000])
@pytest.mark.parametrize("dtype", NUMPY)
def test_ints_are_exact(dtype: str, groups: int) -> None:
    """Small memories lie in shared memory first, large ones don't; narrow elements wrap as they do in the loop."""
    k, v = _RANDOM.integers(0, groups, 700), _RANDOM.integers(-100, 100, 700).astype(np.int8).astype(NUMPY[dtype])
    for statement, joined in [
        ("+= v[i]", np.add),
        ("-= v[i]", np.subtract),
        ("= max(out[k[i]], v[i])", np.maximum),
        ("= min(v[i], out[k[i]])", np.minimum),
    ]:
        expected = np.zeros(groups, NUMPY[dtype])
        joined.at(expected, k, v)
        result = zynml.compile(one_by_group(statement, dtype), device="emulator:sm_90a").f(v, k, groups)
        assert result.dtype == expected.dtype, statement
        assert np.array_equal(result, expected), statement


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("groups", [5, 40_000])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_least_and_greatest_floats(dtype: str, groups: int, device: str) -> None:
    """NaN is the least and the greatest, as in reductions."""
    numpy = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    k, v = _RANDOM.integers(0, groups, 300), _RANDOM.standard_normal(300).astype(numpy)
    v[[17, 40]], v[60], v[80] = np.nan, np.inf, -np.inf
    for statement, joined in [("= max(out[k[i]], v[i])", np.maximum), ("= min(out[k[i]], v[i])", np.minimum)]:
        expected = np.zeros(groups, numpy)
        with np.errstate(invalid="ignore"):
            joined.at(expected, k, v)
        result = zynml.compile(one_by_group(statement, dtype), device=device).f(v, k, groups)
        assert np.array_equal(result, expected, equal_nan=True), statement


@pytest.mark.parametrize("device", DEVICES)
def test_bits(device: str) -> None:
    k, v = _RANDOM.integers(0, 9, 100), _RANDOM.integers(0, 2, 100).astype(bool)
    for operator, joined, start in [("or", np.logical_or, False), ("and", np.logical_and, True)]:
        text = f"""def f(v: tensor[N, bool], k: tensor[N, i64]) {{
    compute(v, k) -> tensor[12, bool] {{
        for m in 0..12: out[m] = {str(start).lower()}
        for i in 0..N: out[k[i]] = out[k[i]] {operator} v[i]
    }}
}}"""
        expected = np.full(12, start)
        joined.at(expected, k, v)
        assert np.array_equal(zynml.compile(text, device=device).f(v, k), expected), operator
    words = _RANDOM.integers(0, 1 << 31, 100).astype(np.uint32)
    for operator, joined_bits in [("bit_or", np.bitwise_or), ("bit_xor", np.bitwise_xor)]:
        expected = np.zeros(9, np.uint32)
        joined_bits.at(expected, k, words)
        text = f"""def f(v: tensor[N, u32], k: tensor[N, i64]) {{
    compute(v, k) -> tensor[9, u32] {{ for i in 0..N: out[k[i]] = {operator}(out[k[i]], v[i]) }}
}}"""
        assert np.array_equal(zynml.compile(text, device=device).f(words, k), expected), operator


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (37, 5), (8, 64)])
def test_rows_are_added_to_rows(shape: tuple[int, int], device: str) -> None:
    v, k = _RANDOM.integers(-9, 9, shape).astype(np.int32), _RANDOM.integers(0, 6, shape[0]).astype(np.int32)
    expected = np.zeros((6, shape[1]), np.int32)
    np.add.at(expected, k, v)
    for loops in ("for i in 0..N, c in 0..C", "for c in 0..C, i in 0..N"):
        text = f"""def f(v: tensor[N, C, i32], k: tensor[N, i32], M: int) {{
    compute(v, k) -> tensor[M, C] {{ {loops}: out[k[i], c] += v[i, c] }}
}}"""
        assert np.array_equal(zynml.compile(text, device=device).f(v, k, 6), expected), loops


@pytest.mark.parametrize("device", DEVICES)
def test_several_memories_and_conditions(device: str) -> None:
    v, k = _RANDOM.integers(-9, 9, 500).astype(np.int32), _RANDOM.integers(0, 6, 500).astype(np.int64)
    text = """def f(v: tensor[N, i32], k: tensor[N, i64]) {
    compute(v, k) -> (total: tensor[6, i32], most: tensor[6, i16], seen: tensor[6, u8], square: tensor[N, i32]) {
        for i in 0..N:
            square[i] = v[i] * v[i]
            if v[i] > 0:
                total[k[i]] += v[i]
                most[k[i]] = max(most[k[i]], v[i] as i16)
            seen[k[i]] += 1
        for m in 0..6: total[m] = total[m] * 2
    }
}"""
    total, most, seen, square = zynml.compile(text, device=device).f(v, k)
    expected, highest = np.zeros(6, np.int32), np.zeros(6, np.int16)
    np.add.at(expected, k[v > 0], v[v > 0])
    np.maximum.at(highest, k[v > 0], v[v > 0].astype(np.int16))
    assert np.array_equal(total, 2 * expected)
    assert np.array_equal(most, highest)
    assert np.array_equal(seen, np.bincount(k, minlength=6))
    assert np.array_equal(square, v * v)


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_there_before_is_added_to(device: str) -> None:
    text = "def f(counts: tensor[M, i64], k: tensor[N, u16]) { compute(mut counts, k) { for i in 0..N: counts[k[i]] += 1 } }"
    counts, k = np.arange(50), _RANDOM.integers(0, 50, 999).astype(np.uint16)
    expected = counts + np.bincount(k, minlength=50)
    zynml.compile(text, device=device).f(counts, k)
    assert np.array_equal(counts, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("groups", [3, 50_000])
def test_an_index_outside_is_told_of_and_nothing_is_written(groups: int, device: str) -> None:
    text = "def f(counts: tensor[M, i32], k: tensor[N, i64]) { compute(mut counts, k) { for i in 0..N: counts[k[i]] += 1 } }"
    counts, k = np.arange(groups, dtype=np.int32), np.array([0, 1, groups, 2, -1])
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(text, device=device).f(counts, k)
    assert caught.value.codes == ("ZYN0801",)
    assert f"index {groups} is out of range: axis 0 of `counts` has {groups} elements" in str(caught.value)
    assert np.array_equal(counts, np.arange(groups))


@pytest.mark.parametrize("device", DEVICES)
def test_no_groups(device: str) -> None:
    program = zynml.compile(one_by_group("+= v[i]", "i32"), device=device)
    assert program.f(np.zeros(0, np.int32), np.zeros(0, np.int64), 0).shape == (0,)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(np.zeros(2, np.int32), np.zeros(2, np.int64), 0)
    assert caught.value.codes == ("ZYN0801",)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["u8", "i32"])
@pytest.mark.parametrize("groups", [4, 50_000])
def test_the_sanitizer_finds_nothing(groups: int, dtype: str, device: str) -> None:
    k, v = _RANDOM.integers(0, groups, 300), np.ones(300, NUMPY[dtype])
    for statement in ("+= v[i]", "= max(out[k[i]], v[i])"):
        zynml.compile(one_by_group(statement, dtype), device=device, sanitize=True).f(v, k, groups)
