"""`out[k[i]] += v[i]` and its like on a GPU: many threads change elements at once, and the result is that of the loops. Against NumPy."""

from math import fsum
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.schedule.gpu.scattered import scatter_targets

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
    for launch in launches_of(one_by_group("+= v[i]", "i32"), "v=10000000, k=10000000, M=1000000"):
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


def sums_by_group(v: Array, k: Array, groups: int) -> Array:
    """In float64, each rounded once."""
    return np.array([fsum(v[k == group].astype(np.float64)) for group in range(groups)])


@pytest.mark.parametrize("groups", [1, 7, 5000])
@pytest.mark.parametrize(("dtype", "least"), [("f16", 2**-11), ("f32", 2**-24), ("f64", 2**-52)])
def test_sums_of_floats_are_exact_but_for_their_rounding(dtype: str, least: float, groups: int) -> None:
    """Magnitudes of all sizes: an element is as exact as the largest of its terms allows, and the order of the terms changes nothing."""
    numpy = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    program = zynml.compile(one_by_group("+= v[i]", dtype), device="emulator:sm_90a")
    for count, spread in [(0, 0), (1, 0), (900, 0), (900, 4 if dtype == "f16" else 90)]:
        k = _RANDOM.integers(0, groups, count)
        v = (_RANDOM.standard_normal(count) * 2.0 ** _RANDOM.integers(-spread, spread + 1, count)).astype(numpy)
        expected, largest = sums_by_group(v, k, groups), np.zeros(groups)
        np.maximum.at(largest, k, np.abs(v.astype(np.float64)))
        result = program.f(v, k, groups)
        bound = 1.01 * least * np.abs(expected) + 1000 * 2.0 ** (-104 if dtype == "f64" else -52) * largest
        assert np.all(np.abs(result.astype(np.float64) - expected) <= bound)
        order = _RANDOM.permutation(count)
        assert np.array_equal(program.f(v[order], k[order], groups), result)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_infinities_nan_and_the_ends_of_floats(dtype: str, device: str) -> None:
    numpy = {"f32": np.float32, "f64": np.float64}[dtype]
    most, least = np.finfo(numpy).max, np.finfo(numpy).smallest_subnormal
    groups = [
        ([np.inf, 1.0], np.inf),
        ([-np.inf, most, -np.inf], -np.inf),
        ([np.inf, 2.0, -np.inf], np.nan),
        ([np.nan, 1.0], np.nan),
        ([most, -most, 3.0], 0.0),
        ([least, least, -3 * least], -least),
        ([0.0, -0.0], 0.0),
        ([most, most], np.inf),
        ([1.0, 2.0], 3.0),
    ]
    v = np.array([value for values, _ in groups for value in values], numpy)
    k = np.repeat(np.arange(len(groups)), [len(values) for values, _ in groups])
    result = zynml.compile(one_by_group("+= v[i]", dtype), device=device).f(v, k, len(groups) + 1)
    assert np.array_equal(result, np.array([*(total for _, total in groups), 0.0], numpy), equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_floats_add_to_what_was_there(device: str) -> None:
    text = "def f(total: tensor[M], v: tensor[N, C], k: tensor[N, i32]) { compute(mut total, v, k) { for i in 0..N, c in 0..C: total[k[i]] -= v[i, c] } }"
    total, v, k = (
        np.arange(6, dtype=np.float32),
        _RANDOM.standard_normal((90, 3)).astype(np.float32),
        _RANDOM.integers(0, 5, 90).astype(np.int32),
    )
    expected = total - sums_by_group(v.ravel(), np.repeat(k, 3), 6)
    zynml.compile(text, device=device).f(total, v, k)
    np.testing.assert_allclose(total, expected, rtol=2**-23)


@pytest.mark.parametrize("device", [*DEVICES, "cpu"])
@pytest.mark.parametrize("groups", [4, 20_000])
def test_sums_in_any_order(groups: int, device: str) -> None:
    v, k = _RANDOM.standard_normal(500), _RANDOM.integers(0, groups, 500)
    for dtype in (np.float16, np.float32, np.float64):
        text = one_by_group("+= v[i]", f"f{8 * np.dtype(dtype).itemsize}").replace("] {", "] @atomics(relaxed) {")
        terms = v.astype(dtype)
        result, expected = zynml.compile(text, device=device).f(terms, k, groups), np.zeros(groups)
        np.add.at(expected, k, terms.astype(np.float64))
        np.testing.assert_allclose(result, expected, rtol=500 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)


def test_strict_sums_keep_their_order() -> None:
    for annotation in ("", "@atomics(relaxed)"):
        text = one_by_group("+= v[i]", "f32").replace("] {", f"] {annotation} {{")
        v, k = _RANDOM.standard_normal(300).astype(np.float32), _RANDOM.integers(0, 3, 300)
        expected = np.zeros(3, np.float32)
        for group, value in zip(k, v, strict=True):
            expected[group] += value
        assert np.array_equal(zynml.compile(text, device="emulator:sm_90a", floats="strict").f(v, k, 3), expected)


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
    v, k = _RANDOM.integers(-9, 9, shape), _RANDOM.integers(0, 6, shape[0]).astype(np.int32)
    expected = np.zeros((6, shape[1]), np.int32)
    np.add.at(expected, k, v)
    cases = [("i32", "for i in 0..N, c in 0..C"), ("i32", "for c in 0..C, i in 0..N"), ("f32", "for i in 0..N, c in 0..C")]
    for dtype, loops in cases:
        text = f"""def f(v: tensor[N, C, {dtype}], k: tensor[N, i32], M: int) {{
    compute(v, k) -> tensor[M, C] {{ {loops}: out[k[i], c] += v[i, c] }}
}}"""
        assert np.array_equal(
            zynml.compile(text, device=device).f(v.astype(np.dtype(dtype.replace("f", "float").replace("i", "int"))), k, 6), expected
        ), loops


@pytest.mark.parametrize("device", DEVICES)
def test_several_memories_and_conditions(device: str) -> None:
    v, k = _RANDOM.integers(-9, 9, 500).astype(np.int32), _RANDOM.integers(0, 6, 500).astype(np.int64)
    text = """def f(v: tensor[N, i32], k: tensor[N, i64]) {
    compute(v, k) -> (total: tensor[6, i32], half: tensor[6, f32], most: tensor[6, i16], seen: tensor[6, u8], square: tensor[N, i32]) {
        for i in 0..N:
            square[i] = v[i] * v[i]
            half[k[i]] += 0.5 * (v[i] as f32)
            if v[i] > 0:
                total[k[i]] += v[i]
                most[k[i]] = max(most[k[i]], v[i] as i16)
            seen[k[i]] += 1
        for m in 0..6: total[m] = total[m] * 2
    }
}"""
    total, half, most, seen, square = zynml.compile(text, device=device).f(v, k)
    expected, highest = np.zeros(6, np.int32), np.zeros(6, np.int16)
    np.add.at(expected, k[v > 0], v[v > 0])
    np.maximum.at(highest, k[v > 0], v[v > 0].astype(np.int16))
    assert np.array_equal(total, 2 * expected)
    assert np.array_equal(half, sums_by_group(0.5 * v, k, 6).astype(np.float32))
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
@pytest.mark.parametrize("statement", ["= max(low[k[i]], v[i])", "= min(low[k[i]], v[i])"])
def test_a_nan_that_was_there_stays(statement: str, device: str) -> None:
    low = np.array([np.nan, -np.nan, -1.0, -np.inf, np.inf], np.float32)
    v, k = np.array([-2.0, 3.0, 4.0, -4.0, -5.0, 1.0, 2.0], np.float32), np.array([0, 0, 1, 1, 2, 3, 4])
    joined, expected = np.maximum if "max" in statement else np.minimum, low.copy()
    with np.errstate(invalid="ignore"):
        joined.at(expected, k, v)
    text = f"def f(low: tensor[M], v: tensor[N], k: tensor[N, i64]) {{ compute(mut low, v, k) {{ for i in 0..N: low[k[i]] {statement} }} }}"
    zynml.compile(text, device=device).f(low, v, k)
    assert np.array_equal(low, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_loops_inside_decide_how_many_terms_there_are(dtype: str) -> None:
    numpy = np.dtype(dtype.replace("f", "float"))
    v, k, start = _RANDOM.standard_normal(900).astype(numpy), _RANDOM.integers(0, 7, 900), np.array([0, 3, 3, 500, 900])
    text = f"""def f(v: tensor[N, {dtype}], k: tensor[N, i64], start: tensor[S, i64]) {{
    compute(v, k, start) -> tensor[7, {dtype}] {{
        for r in 0..S - 1:
            for i in start[r]..start[r + 1]: out[k[i]] += v[i]
    }}
}}"""
    expected = sums_by_group(v, k, 7)
    result = zynml.compile(text, device="emulator:sm_90a").f(v, k, start)
    np.testing.assert_allclose(
        result, expected, rtol=1e-13 if dtype == "f64" else np.finfo(numpy).eps, atol=1e-13 if dtype == "f64" else 1e-9
    )


@pytest.mark.parametrize("workgroup", ["96", "8, 4", "7, 3, 2"])
@pytest.mark.parametrize("groups", [6, 9000])
def test_blocks_of_other_sizes(groups: int, workgroup: str) -> None:
    v, k = _RANDOM.standard_normal(1500).astype(np.float32), _RANDOM.integers(0, groups, 1500)
    text = one_by_group("+= v[i]", "f32").replace("] {", f"] @workgroup({workgroup}) {{")
    expected = np.zeros(groups)
    np.add.at(expected, k, v.astype(np.float64))
    np.testing.assert_allclose(zynml.compile(text, device="emulator:sm_90a").f(v, k, groups), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("annotation", ["", "@atomics(relaxed)"])
@pytest.mark.parametrize("device", DEVICES)
def test_messages_along_edges(device: str, annotation: str) -> None:
    """Each term is found by an index of its own, which may be outside, too: nothing is read there."""
    text = f"""def f(x: tensor[M, C], w: tensor[N], source: tensor[N, i32], to: tensor[N, i32]) {{
    compute(x, w, source, to) -> tensor[M, C] {annotation} {{
        for e in 0..N, c in 0..C: out[to[e], c] += w[e] * x[source[e], c]
    }}
}}"""
    nodes, edges = 3000, 700
    x, w = _RANDOM.standard_normal((nodes, 5)).astype(np.float32), _RANDOM.standard_normal(edges).astype(np.float32)
    source, to = (_RANDOM.integers(0, nodes, edges).astype(np.int32) for _ in range(2))
    expected = np.zeros((nodes, 5))
    np.add.at(expected, to, (w[:, None] * x[source]).astype(np.float64))
    program = zynml.compile(text, device=device, sanitize=True)
    np.testing.assert_allclose(program.f(x, w, source, to), expected, rtol=1e-5, atol=1e-6)
    for outside, name in ((source, "x"), (to, "out")):
        kept, outside[500] = outside[500], nodes
        with pytest.raises(zynml.ZynMLError, match=f"index {nodes} is out of range: axis 0 of `{name}` has {nodes} elements"):
            zynml.compile(text, device=device).f(x, w, source, to)
        outside[500] = kept


@pytest.mark.parametrize("dtype", ["i32", "i64", "f32"])
def test_a_block_has_a_copy_of_a_larger_memory(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is much to add up."""
    monkeypatch.setattr(scatter_targets, "WORTH", 0)
    k, v = _RANDOM.integers(0, 9000, 4000), _RANDOM.integers(-(2**31), 2**31 - 1, 4000)
    v[:2000] = v[0]
    k[:2000] %= 3
    terms = v.astype({"i32": np.int32, "i64": np.int64, "f32": np.float32}[dtype])
    program = zynml.compile(one_by_group("+= v[i]", dtype), device="emulator:sm_90a", sanitize=True)
    expected = np.zeros(9000, np.float64 if dtype == "f32" else terms.dtype)
    np.add.at(expected, k, terms)
    assert np.array_equal(program.f(terms, k, 9000), expected.astype(terms.dtype))
    (launch,) = [one for one in launches_of(one_by_group("+= v[i]", dtype), "v=4000, k=4000, M=9000") if one.function.name.endswith("_0")]
    assert launch.shared


@pytest.mark.parametrize(
    ("dtype", "groups", "terms", "shared"),
    [
        ("i32", 87_104, 14_513_536, True),
        ("i32", 87_104, 7_000_000, False),
        ("i32", 400_000, 90_000_000, False),
        ("f32", 72_949, 17_988_643, True),
        ("f64", 38_720, 13_181_568, False),
    ],
)
def test_ranges_have_copies_where_terms_are_many_and_ranges_few(dtype: str, groups: int, terms: int, shared: bool) -> None:
    launches = launches_of(one_by_group("+= v[i]", dtype), f"v={terms}, k={terms}, M={groups}")
    assert any(launch.shared for launch in launches) == shared


@pytest.mark.parametrize(("dtype", "groups"), [("i32", 70_000), ("f32", 40_000), ("i64", 29_100)])
def test_a_block_has_a_copy_of_a_range(dtype: str, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a memory that is larger than a block's shared memory: each range is added up by blocks of its own."""
    monkeypatch.setattr(scatter_targets, "WORTH", 0)
    k, v = _RANDOM.integers(0, groups, 300), _RANDOM.integers(-1000, 1000, 300)
    k[:3] = 0, groups - 1, groups // 2
    terms = v.astype({"i32": np.int32, "i64": np.int64, "f32": np.float32}[dtype])
    expected = np.zeros(groups, terms.dtype)
    np.add.at(expected, k, terms)
    program = zynml.compile(one_by_group("+= v[i]", dtype), device="emulator:sm_90a")
    assert np.array_equal(program.f(terms, k, groups), expected)
    k[200] = groups
    with pytest.raises(zynml.ZynMLError, match=f"index {groups} is out of range: axis 0 of `out` has {groups} elements"):
        program.f(terms, k, groups)


@pytest.mark.parametrize("device", DEVICES)
def test_no_groups(device: str) -> None:
    program = zynml.compile(one_by_group("+= v[i]", "i32"), device=device)
    assert program.f(np.zeros(0, np.int32), np.zeros(0, np.int64), 0).shape == (0,)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(np.zeros(2, np.int32), np.zeros(2, np.int64), 0)
    assert caught.value.codes == ("ZYN0801",)


@pytest.mark.parametrize(("groups", "device"), [(4, DEVICES[0]), (4, DEVICES[1]), (9000, DEVICES[1])])
@pytest.mark.parametrize("dtype", ["u8", "i32", "f32", "f64"])
def test_the_sanitizer_finds_nothing(groups: int, dtype: str, device: str) -> None:
    k, v = _RANDOM.integers(0, groups, 99), np.ones(99, {**NUMPY, "f32": np.float32, "f64": np.float64}[dtype])
    for statement in ("+= v[i]", "= max(out[k[i]], v[i])"):
        zynml.compile(one_by_group(statement, dtype), device=device, sanitize=True).f(v, k, groups)
