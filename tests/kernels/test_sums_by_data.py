"""`out[k[i]] += v[i]` and its like in blocks of any kind, against NumPy, with every index checked: on the CPU and in strict blocks in the
order of the loops."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import zynml

Array = np.ndarray[Any, Any]
DEVICES = ("cpu", "emulator:sm_90a")
_RANDOM = np.random.default_rng(22)
SUM = "def f(v: tensor[N], k: tensor[N, i64], M: int) { compute(v, k) -> tensor[M] { for i in 0..N: out[k[i]] += v[i] } }"


def floats(*shape: int) -> Array:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def in_order(v: Array, k: Array, groups: int) -> Array:
    """The sums as the loop makes them, in f32."""
    out = np.zeros((groups, *v.shape[1:]), np.float32)
    for key, value in zip(k, v, strict=True):
        out[key] += value
    return out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("terms", "groups"), [(0, 3), (1, 1), (31, 7), (100, 33), (67, 1)])
def test_sums_by_group_have_the_bits_of_the_loop(terms: int, groups: int, device: str) -> None:
    v, k = floats(terms), _RANDOM.integers(0, groups, terms)
    floats_as = "contract" if device == "cpu" else "strict"
    program = zynml.compile(SUM, device=device, strict=True, floats=floats_as)
    for _ in range(3):
        assert np.array_equal(program.f(v, k, groups), in_order(v, k, groups))
    program = zynml.compile(
        "def f(v: tensor[N, D], k: tensor[N, i64], M: int) { compute(v, k) -> tensor[M, D] { for i in 0..N, d in 0..D: out[k[i], d] += v[i, d] } }",
        device=device,
        floats=floats_as,
    )
    rows = floats(terms, 5)
    assert np.array_equal(program.f(rows, k, groups), in_order(rows, k, groups))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads: int) -> None:
    v, k = floats(200_003), _RANDOM.integers(0, 97, 200_003)
    assert np.array_equal(zynml.compile(SUM, threads=threads).f(v, k, 97), in_order(v, k, 97))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["i8", "i32", "u8", "i64"])
def test_counts_wrap_as_ints_do(dtype: str, device: str) -> None:
    text = f"def f(k: tensor[A, B, i32]) {{ compute(k) -> tensor[5, {dtype}] {{ for i in 0..A, j in 0..B: out[k[i, j]] += 1 }} }}"
    k = _RANDOM.integers(0, 2, (33, 31)).astype(np.int32)
    numpy = np.dtype({"i8": np.int8, "i32": np.int32, "u8": np.uint8, "i64": np.int64}[dtype])
    expected = np.bincount(k.ravel(), minlength=5).astype(numpy)
    value = zynml.compile(text, device=device).f(k)
    assert value.dtype == numpy
    assert np.array_equal(value, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_other_ways_to_meet(device: str) -> None:
    k = np.array([0, 1, 0, 2, 0])
    v = np.array([3.0, 1.5, 5.0, 2.0, 4.0], np.float32)
    head = "def f(v: tensor[N], k: tensor[N, i64]) { compute(v, k) -> tensor[4] { "
    for statement, expected in [
        ("for i in 0..N: out[k[i]] -= v[i]", [-12.0, -1.5, -2.0, 0.0]),
        ("for i in 0..N: out[k[i]] = max(v[i], out[k[i]])", [5.0, 1.5, 2.0, 0.0]),
        ("for i in 0..N: out[k[i]] = min(out[k[i]], -v[i])", [-5.0, -1.5, -2.0, 0.0]),
        ("for i in 0..N: out[k[i]] = v[i] + out[k[i]]", [12.0, 1.5, 2.0, 0.0]),
        ("for m in 0..4: out[m] = 1.0\n for i in 0..N: out[k[i]] *= v[i]", [60.0, 1.5, 2.0, 1.0]),
        ("for i in 0..N: out[k[i]] += v[i]\n for m in 0..4: out[m] = 2.0 * out[m]", [24.0, 3.0, 4.0, 0.0]),
        ("for i in 0..N:\n if v[i] > 2.0: out[k[i]] += v[i]\n", [12.0, 0.0, 0.0, 0.0]),
    ]:
        assert zynml.compile(head + statement + " } }", device=device).f(v, k).tolist() == expected, statement


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("key", [-1, 3, 1 << 40])
def test_an_index_outside_is_told_of(key: int, device: str) -> None:
    k = np.array([0, 2, key, 1])
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(SUM, device=device).f(floats(4), k, 3)
    assert caught.value.codes == ("ZYN0801",)
    assert f"index {key} is out of range: axis 0 of `out` has 3 elements" in str(caught.value)


def test_the_extent_must_be_stated() -> None:
    with pytest.raises(zynml.ZynMLError, match="the extent of `out` along axis 0 depends on data") as caught:
        zynml.compile("def f(k: tensor[N, i64]) { compute(k) { for i in 0..N: out[k[i]] += 1 } }")
    assert caught.value.codes == ("ZYN0303",)


RAGGED = """
def f(value: tensor[K], column: tensor[K, i64], start: tensor[S, i64], x: tensor[M]) {
    compute(value, column, start, x) {
        for r in 0..S - 1:
            var t = 0.0
            for k in start[r]..start[r + 1]: t += value[k] * x[column[k]]
            out[r] = t
    }
}"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("start", [[0, 3, 3, 10, 20], [0, 0], [5, 9, 2, 20], [0, 20, 0]])
def test_rows_of_a_sparse_matrix(start: list[int], device: str) -> None:
    """A row that ends before it begins has no element."""
    value, column, x = floats(20), _RANDOM.integers(0, 11, 20), floats(11)
    expected = [float(np.dot(value[a:b].astype(float), x[column[a:b]])) for a, b in pairwise(start)]
    result = zynml.compile(RAGGED, device=device).f(value, column, np.array(start), x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("start", "outside"), [([0, 3, 21], 20), ([-1, 3], -1), ([-5, -2], -5), ([3, 7, -4, 9], -4), ([0, 1 << 12], 20)])
def test_rows_that_go_outside_are_told_of(start: list[int], outside: int, device: str) -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        zynml.compile(RAGGED, device=device).f(floats(20), _RANDOM.integers(0, 11, 20), np.array(start), floats(11))
    assert caught.value.codes == ("ZYN0801",)
    assert f"index {outside} is out of range: axis 0 of `value` has 20 elements" in str(caught.value)
