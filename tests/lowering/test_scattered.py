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
