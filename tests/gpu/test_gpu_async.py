"""`@async` blocks on the device: the programs of `tests/futures`, blocks that overtake each other, inputs that change meanwhile."""

import gc

import numpy as np
import pytest

import zynml
from tests.futures.test_golden_rule import FAILING, PROGRAMS, run


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_what_it_must(gpu, name):
    text, lines = PROGRAMS[name]
    assert run(text, "cuda:0") == (lines, FAILING.get(name, []))


OVERTAKING = """
def slow(x: tensor[N]): Future<f32> {
    compute(x) @async @kernel(reduce, +) {
        for i in 0..N:
            var s = x[i]
            for k in 0..300_000_000:
                s = s * s + 0.25
            yield s
    }
}
def quick(x: tensor[N]): Future<f32> { compute(x) @async @kernel(reduce, +) { for i in 0..N: yield x[i] } }
def overtake(x: tensor[N]): (i64, f32) {
    await quick(x)
    await any(slow(x), quick(x))
}
"""


def test_blocks_overtake_each_other(gpu):
    """With one stream for both the slow one, which was there first, would be done first."""
    program = zynml.compile(OVERTAKING, device="cuda:0")
    assert program.overtake(np.full(1, 0.5, np.float32)) == (1, 0.5)
    program.run()  # waits for the other


def test_many_blocks_at_once_give_each_its_own(gpu):
    program = zynml.compile(
        """
def go(x: tensor[N], k: f32): Future<tensor[N]> { compute(x, k) @async { for i in 0..N: out[i] = x[i] * k + 1.0 } }
def chain(x: tensor[N], rounds: i64): tensor[N] {
    mut y = x
    for r in 0..rounds {
        let (a, b) = await all(go(y, 0.5), go(y, 0.25))
        y = compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] }
    }
    y
}
""",
        device="cuda:0",
    )
    x = np.arange(100_003, dtype=np.float32)
    expected = x.astype(np.float64)
    for _ in range(100):
        expected = expected * 0.75 + 2
    assert np.allclose(program.chain(x, 100), expected, rtol=1e-5)
    before = gpu.pool.statistics().blocks_in_use
    program.chain(x, 100)
    gc.collect()
    gpu.stream.synchronize(timeout=60)
    assert gpu.pool.statistics().blocks_in_use <= before
