"""Blocks of host code that machine code launches once they come again: the same values and the same errors as through the program."""

import numpy as np
import pytest

import zynml
from compiler.launch.native_calls import host_blocks


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(host_blocks, "COMES_AGAIN", 3)


@pytest.fixture
def answers(monkeypatch):
    """How many calls machine code answered, and how many went through the program."""
    counts = {"machine": 0, "program": 0}
    value = host_blocks.HostLaunches.value

    def counted(self, values):
        answer = value(self, values)
        counts["program" if answer is host_blocks.MISSED else "machine"] += 1
        return answer

    monkeypatch.setattr(host_blocks.HostLaunches, "value", counted)
    return counts


def compiled(text, **options):
    return zynml.compile(text, tier=1, threads=1, **options)


LOOP = """
def scaled(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def moved(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def total(x: tensor[N]): f64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] as f64 } }
def turned(x, turns: int) {
    mut w = x.clone()
    mut sums = []
    for turn in 0..turns {
        let y = scaled(w, 0.5 as f32)
        println(f"{y.shape(0)}")
        moved(w, y)
        sums.push(total(w))
    }
    (w, sums)
}
"""


@pytest.mark.parametrize("count", [0, 1, 3, 31, 1000])
def test_a_loop_of_blocks_gives_what_numpy_does(answers, count):
    x = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    w, sums = compiled(LOOP).turned(x, 8)
    expected, of_turns = x.astype(np.float64), []
    for _ in range(8):
        expected = expected * 1.5
        of_turns.append(expected.sum())
    np.testing.assert_allclose(w, expected, rtol=1e-6)
    np.testing.assert_allclose(sums, of_turns, rtol=1e-5, atol=1e-5)
    assert answers["machine"] >= 12


def test_an_array_with_gaps_and_another_type_have_code_of_their_own(answers):
    text = """
    def doubled(x) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }
    def turned(a, b, turns: int) {
        mut found = []
        for turn in 0..turns {
            found.push(doubled(a[0:5]))
            found.push(doubled(b))
            found.push(doubled(a[0:turn]))
        }
        found
    }
    """
    a, b = np.arange(10, dtype=np.int32), np.arange(14, dtype=np.float64)[::2]
    found = compiled(text).turned(a, b, 8)
    for turn in range(8):
        for value, expected in zip(found[3 * turn : 3 * turn + 3], (a[:5] * 2, b * 2, a[:turn] * 2), strict=True):
            assert value.dtype == expected.dtype
            np.testing.assert_array_equal(value, expected)
    assert answers["machine"] >= 10


def test_a_fault_of_a_later_turn_is_told_where_the_block_stands(answers):
    text = """
def taken(x: tensor[N], at: tensor[M, i32]): tensor { compute(x, at) { for i in 0..M: out[i] = x[at[i]] } }
def turned(x, at, turns: int) {
    mut last = x
    for turn in 0..turns {
        last = taken(x, at + (turn == turns - 1 ? 100 : 0))
    }
    last
}
"""
    with pytest.raises(zynml.ZynMLError) as raised:
        compiled(text).turned(np.ones(5, np.float32), np.array([1, 2], np.int32), 9)
    assert answers["machine"] >= 4
    assert "index 101 is outside of 0..5" in str(raised.value) or "101" in str(raised.value)


def test_an_updated_input_that_shares_memory_is_refused_at_any_turn(answers):
    text = """
def moved(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def turned(x, turns: int) {
    let w = x.clone()
    for turn in 0..turns {
        moved(w[0:4], turn == turns - 1 ? w[1:5] : x[1:5])
    }
    w
}
"""
    with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
        compiled(text).turned(np.ones(8, np.float32), 9)
    assert answers["machine"] >= 4


CHAIN = """
def pushed(x: tensor[B, D], w: tensor[D, H]): tensor {
    let s = compute(x, w) {
        for i in 0..B, j in 0..H:
            var s = 0.0
            for k in 0..D: s += x[i, k] * w[k, j]
            out[i, j] = s
    }
    compute(s) { for i in 0..B, j in 0..H: out[i, j] = max(s[i, j], 0.0) }
}
def squared(h: tensor[B, H]): tensor { compute(h) { for i in 0..B, j in 0..H: out[i, j] = h[i, j] * h[i, j] } }
def turned(x, w, v, turns: int) {
    mut found = []
    for turn in 0..turns {
        let h = pushed(x, w)
        let g = squared(h)
        let k = pushed(x, turn % 2 == 0 ? v : w)
        found.push((h, g, k))
    }
    found
}
"""


@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 1, 1), (33, 7, 31)])
def test_chains_hand_all_values_on_that_are_read_again(answers, sizes):
    rng = np.random.default_rng(2)
    b, d, h = sizes
    x, w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((b, d), (d, h), (d, h)))
    found = compiled(CHAIN).turned(x, w, v, 12)
    for turn, (first, second, third) in enumerate(found):
        expected = np.maximum(x.astype(np.float64) @ w, 0)
        np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(second, expected**2, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(third, np.maximum(x.astype(np.float64) @ (v if turn % 2 == 0 else w), 0), rtol=1e-5, atol=1e-5)
    assert answers["machine"] >= 12


def test_a_watched_call_goes_through_the_program(answers):
    """A function of blocks that Python calls gets machine code of its own, whatever its blocks have."""
    program = compiled("def added(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }")
    x = np.ones(3, np.float32)
    for _ in range(12):
        np.testing.assert_array_equal(program.added(x, x), x + x)
    assert answers["machine"] == 0
