"""Blocks that host code calls again and again on a GPU: machine code, or Python, launches them again with nothing decided anew. Expected
values from NumPy."""

import numpy as np
import pytest

import zynml
from compiler.launch.cuda import repeats
from compiler.launch.cuda.host_calls import HostCalls
from compiler.launch.cuda.kernels import CudaBlock
from runtime.cuda.gpu import gpu as gpu_of
from runtime.cuda.remote import OnGpu, upload
from runtime.tensor import Tensor

PROGRAM = """
struct Weight { value: tensor, mean: tensor }

impl Weight {
    def learn(self, gradient: tensor, rate: f32) {
        moved(self.value, self.mean, gradient, rate)
    }
}

def moved(w: tensor, m: tensor, gradient: tensor, rate: f32) {
    compute(mut m, mut w, gradient, rate) {
        for i in 0..I:
            m[i] = 0.5 * m[i] + gradient[i]
            w[i] = w[i] - rate * m[i]
    }
}

def weight(value: tensor): Weight { Weight { value: value, mean: value * 0.0 } }

def halves(x: tensor[N, C], by: f32): tensor {
    compute(x, by) { for i in 0..N, j in 0..C: out[i, j] = x[i, j] * by }
}
def sums(x: tensor[N, C]): tensor {
    compute(x) { for j in 0..C:
        var s = 0.0
        for i in 0..N: s += x[i, j]
        out[j] = s
    }
}
def train(w: Weight, x: tensor[N, C], steps: int): tensor {
    for step in 0..steps {
        let half = halves(x, (0.5 + (step as float)) as f32)
        w.learn(sums(half), 0.25 as f32)
    }
    w.value
}
def doubled(x: tensor[N, C], turns: int): tensor {
    mut y = x
    for turn in 0..turns { y = compute(y) { for i in 0..N, j in 0..C: out[i, j] = y[i, j] * 2.0 } }
    y
}
def turned(x: tensor[N, C], turns: int): tensor {
    mut y = x
    for turn in 0..turns { y = compute(y) { for i in 0..A, j in 0..B: out[j, i] = y[i, j] } }
    y
}
def picked(x: tensor[N], k: tensor[M, i64], turns: int): tensor {
    mut y = x
    for turn in 0..turns { y = compute(y, k) { for i in 0..M: out[i] = y[k[i]] } }
    y
}
def raised(mut w: tensor[N], x: tensor[N], turns: int): tensor {
    for turn in 0..turns { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
    w
}
"""


@pytest.fixture(autouse=True, params=["Python", "machine code"])
def soon(request, monkeypatch):
    """Whether machine code launches as soon as a call comes again, or Python does."""
    monkeypatch.setattr(repeats, "COMES_AGAIN_FROM_HOST", 1 if request.param == "machine code" else 0)
    return request.param == "machine code"


@pytest.fixture
def anew(monkeypatch):
    """How many calls of blocks were decided anew."""
    made = []
    launched = CudaBlock._launched

    def counting(block, values, stream):
        made.append(block)
        return launched(block, values, stream)

    monkeypatch.setattr(CudaBlock, "_launched", counting)
    return made


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM, device="cuda:0")


def trained(w, x, steps):
    w, mean = w.astype(np.float64), np.zeros(len(w))
    for step in range(steps):
        mean = 0.5 * mean + (x.astype(np.float64) * (0.5 + step)).sum(0)
        w = w - 0.25 * mean
    return w


def there(array, named=True):
    return Tensor(None, upload(np.ascontiguousarray(array), gpu_of(0), named))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (8, 33)], ids=str)
def test_a_training_loop(program, anew, shape):
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, shape).astype(np.float32)
    first = random.integers(-4, 5, shape[1]).astype(np.float32)
    np.testing.assert_allclose(program.train(program.weight(there(first)), there(x), 6), trained(first, x, 6), rtol=1e-6)
    before = len(anew)
    np.testing.assert_allclose(program.train(program.weight(there(first)), there(x), 40), trained(first, x, 40), rtol=1e-6)
    assert len(anew) - before <= 4  # not once a step
    np.testing.assert_allclose(program.train(program.weight(first.copy()), x, 6), trained(first, x, 6), rtol=1e-6)  # from the host


def test_other_sizes_and_layouts(program):
    random = np.random.default_rng(1)
    for shape in ((2, 3), (3, 2), (0, 4), (4, 1)):
        x = random.integers(-4, 5, shape).astype(np.float32)
        for given in (x, x[::-1]):
            for turn in range(4):
                np.testing.assert_array_equal(np.asarray(program.doubled(there(given + turn), 3)), 8 * (given + turn))
                np.testing.assert_array_equal(np.asarray(program.turned(there(given + turn), 3)), (given + turn).T)


def test_results_merely_lie_where_they_were_made(program, monkeypatch):
    made = []
    value = HostCalls.value

    def noting(calls, values, program):
        made.append(value(calls, values, program))
        return made[-1]

    monkeypatch.setattr(HostCalls, "value", noting)
    for _ in range(3):
        program.doubled(there(np.ones((2, 3), np.float32)), 4)
    # of the first turns: machine code makes others, and the last one is the function's value
    assert {(type(tensor.remote), tensor.remote.named) for tensor in made[:2]} == {(OnGpu, False)}


def test_an_index_outside_is_told_at_each_call(program):
    x, inside, outside = np.arange(4.0, dtype=np.float32), np.array([3, 0, 1, 2]), np.array([3, 0, 1, 4])
    np.testing.assert_array_equal(program.picked(x, inside, 5), x[inside][inside][inside][inside][inside])
    for _ in range(3):
        with pytest.raises(zynml.ZynMLError, match="ZYN0801"):
            program.picked(x, outside, 5)
    np.testing.assert_array_equal(program.picked(x, inside, 2), x[inside][inside])


def test_memory_that_is_shared_is_refused_however_often_others_came(program):
    x = np.arange(4.0, dtype=np.float32)
    w = there(x)
    np.testing.assert_array_equal(np.asarray(program.raised(w, there(x), 5)), 6 * x)
    with pytest.raises(zynml.ZynMLError, match="ZYN0813"):
        program.raised(w, w, 5)
    np.testing.assert_array_equal(np.asarray(w), 6 * x)
