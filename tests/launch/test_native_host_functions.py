"""Functions of several blocks that host code calls, some of which update their inputs: machine code makes all their launches, with the same
values and the same errors as through the program."""

import numpy as np
import pytest

import zynml
from compiler.launch.native_calls import host_blocks, host_functions


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(host_blocks, "COMES_AGAIN", 3)
    monkeypatch.setattr(host_functions, "COMES_AGAIN", 3)


@pytest.fixture
def through_program(monkeypatch):
    """How many calls of functions went through the program."""
    calls = []
    run = host_functions.HostFunctionCalls.run

    def counted(self, *values, **named):
        calls.append(values)
        return run(self, *values, **named)

    monkeypatch.setattr(host_functions.HostFunctionCalls, "run", counted)
    return calls


def compiled(text, **options):
    return zynml.compile(text, tier=1, threads=1, **options)


STEP = """
def step(w: tensor[R, S], v: tensor[R, S], g: tensor[R, S], rate: f32) {
    compute(mut v, g) { for r in 0..R, s in 0..S: v[r, s] = 0.5 * v[r, s] - rate * g[r, s] }
    compute(mut w, v) { for r in 0..R, s in 0..S: w[r, s] = w[r, s] + v[r, s] }
}
def turned(w, g, turns: int, rate: float) {
    let v = w.clone()
    for turn in 0..turns { step(w, v, g, (rate * turn) as f32) }
    v
}
"""


def stepped(w, v, g, turns, rate):
    for turn in range(turns):
        v = 0.5 * v - float(np.float32(rate * turn)) * g
        w = w + v
    return w, v


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (33, 65), (0, 4)])
def test_several_updates_are_one_call_of_machine_code(through_program, shape):
    rng = np.random.default_rng(3)
    w, g = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    expected = stepped(w.astype(np.float64), w.astype(np.float64), g.astype(np.float64), 20, 0.25)
    v = compiled(STEP).turned(w, g, 20, 0.25)
    np.testing.assert_allclose(w, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(v, expected[1], rtol=1e-4, atol=1e-4)
    assert len(through_program) == 3


def test_python_calls_several_updates():
    rng = np.random.default_rng(4)
    w, v, g = (rng.standard_normal((5, 9)).astype(np.float32) for _ in range(3))
    expected = stepped(w.astype(np.float64), v.astype(np.float64), g.astype(np.float64), 12, 0.25)
    program = compiled(STEP)
    for turn in range(12):
        program.step(w, v, g, 0.25 * turn)
    np.testing.assert_allclose(w, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(v, expected[1], rtol=1e-4, atol=1e-4)


def test_inputs_that_share_memory_are_refused_at_any_turn(through_program):
    text = STEP + """
def shared(x, turns: int) {
    let w = x.clone()
    for turn in 0..turns { step(w[0:2], turn == turns - 1 ? w[1:3] : x[0:2], x[2:4], 1.0 as f32) }
}
"""
    with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
        compiled(text).shared(np.ones((4, 3), np.float32), 9)
    assert len(through_program) == 4


def test_extents_that_disagree_are_told_at_any_turn(through_program):
    text = STEP + """
def uneven(x, turns: int) {
    let w = x.clone()
    for turn in 0..turns { step(w[0:2], x[0:2], turn == turns - 1 ? x[0:1] : x[2:4], 1.0 as f32) }
}
"""
    with pytest.raises(zynml.ZynMLError, match="ZYN0802"):
        compiled(text).uneven(np.ones((4, 3), np.float32), 9)
    assert len(through_program) == 4


FAILS = """
def moved(w: tensor[N], x: tensor[N], at: tensor[N, i32]): tensor {
    compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] }
    compute(x, at) { for i in 0..N: out[i] = x[at[i]] }
}
def turned(w, x, at, turns: int) {
    for turn in 0..turns { moved(w, x, at + (turn == turns - 1 ? 100 : 0)) }
}
"""


def test_what_is_updated_before_a_block_fails_is_updated_once():
    w, x = np.zeros(4, np.float32), np.ones(4, np.float32)
    with pytest.raises(zynml.ZynMLError, match="101"):
        compiled(FAILS).turned(w, x, np.array([1, 1, 1, 1], np.int32), 9)
    np.testing.assert_array_equal(w, 9 * x)


def test_values_of_blocks_are_handed_on_and_come_out(through_program):
    text = """
def both(x: tensor[N], by: f32) {
    let y = compute(x, by) { for i in 0..N: out[i] = x[i] * by }
    compute(mut x, y) { for i in 0..N: x[i] = x[i] + y[i] }
    compute(x, y) { for i in 0..N: out[i] = x[i] * y[i] }
}
def turned(x, turns: int) {
    mut found = []
    for turn in 0..turns { found.push(both(x, 0.5 as f32)) }
    found
}
"""
    x = np.array([1.0, -2.0, 0.25], np.float32)
    now, products = x.astype(np.float64), []
    for _ in range(9):
        half = 0.5 * now
        now = now + half
        products.append(now * half)
    found = compiled(text).turned(x, 9)
    np.testing.assert_allclose(found, products, rtol=1e-5)
    np.testing.assert_allclose(x, now, rtol=1e-5)
    assert len(through_program) == 3
