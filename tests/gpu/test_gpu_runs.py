"""Functions of host code that machine code answers whole, on the device: a layer that is trained, with arrays, floats and sizes that change,
and what the host reads between. Expected values from NumPy in float64."""

import numpy as np
import pytest

import zynml
from tests.learnt_runs import learnt_runs

PROGRAM = """
struct Weight { value: tensor, mean: tensor }
struct Layer { one: Weight, two: Weight }
struct Trace { x: tensor, y: tensor }

def step(w: tensor[K, M], m: tensor[K, M], g: tensor[K, M], rate: f32) {
    compute(mut m, mut w, g, rate) {
        for i in 0..K, j in 0..M:
            m[i, j] = 0.5 * m[i, j] + g[i, j]
            w[i, j] = w[i, j] - rate * m[i, j]
    }
}
def product(x: tensor[N, K], w: tensor[K, M]): tensor {
    compute(x, w) { for n in 0..N, m in 0..M { var s = 0.0f32; for k in 0..K { s += x[n, k] * w[k, m] }; out[n, m] = s } }
}
def by_weight(x: tensor[N, K], d: tensor[N, M]): tensor {
    compute(x, d) { for k in 0..K, m in 0..M { var s = 0.0f32; for n in 0..N { s += x[n, k] * d[n, m] }; out[k, m] = s } }
}
impl Layer {
    def forward(self, x: tensor[N, K]) {
        let y = product(x, self.one.value)
        (product(y, self.two.value), Trace { x: x, y: y })
    }
    def backward(self, t: Trace, d: tensor[N, K], rate: f32) {
        step(self.one.value, self.one.mean, by_weight(t.x, d), rate)
        step(self.two.value, self.two.mean, by_weight(t.y, d), rate)
    }
}
def layer(a: tensor[K, K], b: tensor[K, K], c: tensor[K, K], d: tensor[K, K]): Layer {
    Layer { one: Weight { value: a, mean: b }, two: Weight { value: c, mean: d } }
}
def trained(model: Layer, x: tensor[N, K], turns: int, rate: f32) {
    mut z = x
    for turn in 0..turns {
        let (made, trace) = model.forward(x)
        model.backward(trace, made, rate)
        z = made
    }
    z
}
"""


class Expected:
    def __init__(self, parts):
        self.a, self.b, self.c, self.d = (part.astype(np.float64) for part in parts)

    def trained(self, x, turns, rate):
        z = x
        for _ in range(turns):
            y = x @ self.a
            z = y @ self.c
            for value, mean, gradient in ((self.a, self.b, x.T @ z), (self.c, self.d, y.T @ z)):
                mean[:] = 0.5 * mean + gradient
                value -= rate * mean
        return z


@pytest.fixture
def learnt(monkeypatch):
    """How many launches each function has that machine code answers."""
    return learnt_runs(monkeypatch)


def test_training_a_layer(gpu, learnt):
    torch = pytest.importorskip("torch")
    program = zynml.compile(PROGRAM, device="cuda:0")
    random = np.random.default_rng(1)
    for rows, width in ((48, 32), (31, 33), (48, 32), (1, 8)):
        parts = [(random.standard_normal((width, width)) / width).astype(np.float32) for _ in range(4)]
        model = program.layer(*[torch.from_numpy(part).cuda() for part in parts])
        expected = Expected(parts)
        for turn in range(8):
            x = random.standard_normal((rows, width)).astype(np.float32)
            rate = np.float32(1e-3 * (turn % 3))
            got = program.trained(model, torch.from_numpy(x).cuda(), 10, rate)
            want = expected.trained(x.astype(np.float64), 10, float(rate))
            np.testing.assert_allclose(np.asarray(got), want, rtol=2e-2, atol=2e-3)
            np.testing.assert_allclose(np.asarray(model.one.value), expected.a, rtol=2e-2, atol=2e-3)
    assert len(learnt) == 6, "two functions, each with three kinds of arguments"


def test_memory_and_results_stay(gpu, learnt):
    """The same arguments give the same bits whoever launches, and no more memory is held."""
    torch = pytest.importorskip("torch")
    program = zynml.compile(PROGRAM, device="cuda:0")
    random = np.random.default_rng(2)
    parts = [(random.standard_normal((64, 64)) / 64).astype(np.float32) for _ in range(4)]
    x = torch.from_numpy(random.standard_normal((100, 64)).astype(np.float32)).cuda()
    seen, used = [], []
    for _ in range(6):
        model = program.layer(*[torch.from_numpy(part).cuda() for part in parts])
        seen.append(np.asarray(program.trained(model, x, 20, np.float32(1e-3))).tobytes())
        used.append(gpu.pool.statistics().in_use)
    assert len(set(seen)) == 1 and learnt
    assert len(set(used[3:])) == 1
