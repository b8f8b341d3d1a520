"""What ZYN0406 says to write instead gives what the loops meant; expected values are counted by hand or by NumPy."""

import numpy as np
import pytest

import zynml

KEYS = np.array([0, 2, 2, 1, 2], np.int64)
VALUES = np.array([3.0, 1.0, 5.0, 2.0, 4.0], np.float32)

CUSTOM = """
def f(k: tensor[N, i64], v: tensor[N]): tensor {{
    compute(k, v) -> tensor[{size}] @kernel(custom) {{
        let i = global_idx().x
        if i < N: {write}
    }}
}}
"""


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("atomic_add(out[k[i]], v[i])", [3.0, 2.0, 10.0]),
        ("atomic_sub(out[k[i]], v[i])", [-3.0, -2.0, -10.0]),
        ("atomic_max(out[k[i]], v[i])", [3.0, 2.0, 5.0]),
    ],
)
def test_atomics(write: str, expected: list[float]) -> None:
    result = zynml.compile(CUSTOM.format(size=3, write=write)).f(KEYS, VALUES)
    assert np.asarray(result).tolist() == expected


def test_a_write_to_elements_of_their_own() -> None:
    result = zynml.compile(CUSTOM.format(size=17, write="out[i * i] = v[i]")).f(KEYS, VALUES)
    expected = np.zeros(17)
    expected[np.arange(5) ** 2] = VALUES
    assert np.asarray(result).tolist() == expected.tolist()


def test_a_running_count_goes_to_shared_memory() -> None:
    program = """
def f(v: tensor[N]): tensor {
    compute(v) -> tensor[5] @kernel(fused) {
        shared var kept[5, f32]
        var p = 0
        for i in 0..5: kept[i] = 0.0
        for i in 0..N:
            if v[i] > 2.5:
                kept[p] = v[i]
                p += 1
        for i in 0..5: out[i] = kept[i]
    }
}
"""
    assert np.asarray(zynml.compile(program).f(VALUES)).tolist() == [3.0, 5.0, 4.0, 0.0, 0.0]


def test_a_rank_is_a_sort() -> None:
    program = "def f(v: tensor[N]): tensor { compute(v) @kernel(sort) { for i in 0..N: yield v[i] } }"
    assert np.asarray(zynml.compile(program).f(VALUES)).tolist() == sorted(VALUES.tolist())


APPEND = """
def f(mut cache: tensor[B, L, D], k: tensor[B, D], at: tensor[B, i32]): tensor {
    compute(mut cache, k, at) { for b in 0..B, d in 0..D: cache[b, at[b], d] = k[b, d] }
    return cache
}
"""


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
def test_a_write_where_data_say_beside_all_loop_variables(device: str) -> None:
    """No two iterations meet: each has an element of its own along the loops' variables."""
    program, at = zynml.compile(APPEND, device=device), np.array([2, 0, 2], np.int32)
    k = np.arange(1.0, 16.0, dtype=np.float32).reshape(3, 5)
    expected = np.zeros((3, 4, 5))
    expected[np.arange(3), at] = k
    np.testing.assert_array_equal(program.f(np.zeros((3, 4, 5), np.float32), k, at), expected)
    with pytest.raises(zynml.ZynMLError, match="index 4 is out of range: axis 1 of `cache` has 4 elements"):
        program.f(np.zeros((3, 4, 5), np.float32), k, at + 2)


def test_what_is_not_written_where_data_say_is_zero(capfd: pytest.CaptureFixture[str]) -> None:
    """And LLVM isn't asked for vectors of a loop that a check may end."""
    text = "def f(v: tensor[B], at: tensor[B, i32]) { compute(v, at) -> tensor[B, 4] { for b in 0..B: out[b, at[b]] = v[b] } }"
    found = zynml.compile(text).f(VALUES, KEYS.astype(np.int32))
    assert np.asarray(found).tolist() == [[3, 0, 0, 0], [0, 0, 1, 0], [0, 0, 5, 0], [0, 2, 0, 0], [0, 0, 4, 0]]
    assert capfd.readouterr() == ("", "")


def test_a_write_where_data_say_needs_all_loop_variables() -> None:
    """Of `x[b, d]` for each d, which is the last would be chance."""
    text = APPEND.replace("cache[b, at[b], d] = k[b, d]", "cache[b, at[b], 0] = k[b, d]")
    with pytest.raises(zynml.ZynMLError, match="isn't affine in the loop variables"):
        zynml.compile(text).f(np.zeros((3, 4, 5), np.float32), np.zeros((3, 5), np.float32), np.zeros(3, np.int32))


@pytest.mark.parametrize("index", ["2 * i", "i + 1", "7 - i"])
def test_a_write_beside_a_moved_loop_variable(index: str) -> None:
    text = "def f(v: tensor[N], at: tensor[N, i64]) { compute(v, at) -> tensor[12, 3] { for i in 0..N: out[INDEX, at[i]] = v[i] } }"
    expected = np.zeros((12, 3))
    expected[[eval(index, {"i": i}) for i in range(5)], KEYS] = VALUES
    np.testing.assert_array_equal(zynml.compile(text.replace("INDEX", index)).f(VALUES, KEYS), expected)


@pytest.mark.parametrize("index", ["i / 2", "i % 4", "i - i / 2 * 2", "i + at[i]"])
def test_a_write_where_iterations_may_meet(index: str) -> None:
    text = "def f(v: tensor[N], at: tensor[N, i64]) { compute(v, at) -> tensor[12, 3] { for i in 0..N: out[INDEX, at[i]] = v[i] } }"
    with pytest.raises(zynml.ZynMLError, match="isn't affine in the loop variables"):
        zynml.compile(text.replace("INDEX", index)).f(VALUES, KEYS)
