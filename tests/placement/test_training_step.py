"""A model that trains on a GPU stays there: after the first step only its data go in, and only the loss and the reports of checks come out."""

from collections.abc import Callable

import numpy as np
import pytest

from runtime.tensor import Tensor

REPORT = 128
"""Bytes of the report of a kernel that checks indices, at least."""

PROGRAM = """
config { seed: 3 }

def product(x: tensor[N, K, bf16], w: tensor[K, M, bf16]): tensor {
    compute(x, w) -> tensor[N, M] {
        for n in 0..N, m in 0..M:
            var s = 0.0f32
            for k in 0..K: s += (x[n, k] as f32) * (w[k, m] as f32)
            out[n, m] = s
    }
}

def by_weight(x: tensor[N, K, bf16], d: tensor[N, M]): tensor {
    compute(x, d) -> tensor[K, M] {
        for k in 0..K, m in 0..M:
            var s = 0.0f32
            for n in 0..N: s += (x[n, k] as f32) * d[n, m]
            out[k, m] = s
    }
}

struct Model { table: tensor, weights: tensor, mean: tensor }

def model(kinds: int, width: int): Model {
    Model { table: randn(kinds, width), weights: randn(width, kinds) * 0.1, mean: zeros(width, kinds) }
}

def rows_of(token: tensor[B, T, u8], table: tensor[K, C]): tensor {
    compute(token, table) -> tensor[B, T, C] { for b in 0..B, t in 0..T, c in 0..C: out[b, t, c] = table[token[b, t] as int, c] }
}

def losses(z: tensor[N, V], goal: tensor[N, u8]): tensor {
    compute(z, goal) -> tensor[N] {
        for n in 0..N:
            var top = -inf
            for v in 0..V: top = max(top, z[n, v])
            var total = 0.0f32
            for v in 0..V: total += exp(z[n, v] - top)
            out[n] = log(total) + top - z[n, goal[n] as int]
    }
}

def slopes(z: tensor[N, V], goal: tensor[N, u8]): tensor {
    compute(z, goal) {
        for n in 0..N:
            var top = -inf
            for v in 0..V: top = max(top, z[n, v])
            var total = 0.0f32
            for v in 0..V: total += exp(z[n, v] - top)
            for v in 0..V: out[n, v] = (exp(z[n, v] - top) / total - (if goal[n] as int == v { 1.0 } else { 0.0 })) / N
    }
}

def train(model: Model, token: tensor[B, T, u8], goal: tensor[B, T, u8], rate: f32): f32 {
    let width = model.table.shape(1)
    let x = rows_of(token, model.table).reshape([B * T, width]) as tensor[?, ?, bf16]
    let z = product(x, model.weights as tensor[?, ?, bf16]) + zeros(B * T, model.weights.shape(1))
    let flat = goal.reshape([B * T])
    let g = by_weight(x, slopes(z, flat))
    mut w = model.weights
    mut m = model.mean
    compute(mut m, g) { for i in 0..I: m[i] = 0.9 * m[i] + g[i] }
    compute(mut w, m, rate) { for i in 0..I: w[i] = w[i] - rate * m[i] }
    losses(z, flat).mean() as f32
}
"""
KINDS, WIDTH, SHAPE, RATE, STEPS = 7, 4, (2, 3), 0.5, 4


@pytest.fixture
def copied(machine, monkeypatch) -> Callable[[], dict[str, list[int]]]:
    """The bytes of each copy since the last look."""
    sizes: dict[str, list[int]] = {"in": [], "out": []}

    def counting(way: str, original: Callable) -> Callable:
        def copy(self, *arguments):
            sizes[way].append(arguments[2])
            return original(self, *arguments)

        return copy

    for way, name in (("in", "cuMemcpyHtoDAsync"), ("out", "cuMemcpyDtoHAsync")):
        monkeypatch.setattr(type(machine.fake), name, counting(way, getattr(type(machine.fake), name)))

    def look() -> dict[str, list[int]]:
        seen = {way: sorted(given) for way, given in sizes.items()}
        for given in sizes.values():
            given.clear()
        return seen

    return look


def test_a_step_copies_its_data_and_its_loss(machine, copied) -> None:
    functions = machine.open(PROGRAM, device="cuda:0").host.functions
    model = functions["model"](KINDS, WIDTH)
    table, weights = (np.array(part.contents, np.float64) for part in (model.table, model.weights))
    mean, rng = np.zeros_like(weights), np.random.default_rng(1)
    launches = []
    for step in range(STEPS):
        token, goal = (rng.integers(0, KINDS, SHAPE, np.uint8) for _ in range(2))
        launched = len(machine.fake.launches)
        loss = functions["train"](model, Tensor(token), Tensor(goal), np.float32(RATE))
        launches.append(len(machine.fake.launches) - launched)
        seen = copied()
        if step > 0:
            data = SHAPE[0] * SHAPE[1]
            assert seen["in"] == [data] * 3  # the bytes of `token`, and those of `goal` for each of its blocks
            assert [size for size in seen["out"] if size < REPORT] == [4 * data]
        x = table[token.reshape(-1)]
        z = x @ weights
        shares = np.exp(z - z.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        rows = np.arange(len(z)), goal.reshape(-1)
        # products of numbers of 8 bits each
        assert abs(float(loss) + np.log(shares[rows]).mean()) < 0.02
        shares[rows] -= 1
        mean = 0.9 * mean + x.T @ (shares / len(z))
        weights = weights - RATE * mean
    assert launches[1:] == launches[1:2] * (STEPS - 1)
    assert str(model.weights.device) == str(model.mean.device) == "cuda:0" and str(model.table.device) == "cpu"
    assert copied() == {"in": [], "out": []}
    np.testing.assert_allclose(model.weights.contents, weights, atol=0.03)
    assert copied()["out"] == [4 * KINDS * WIDTH]


def test_memory_of_a_step_comes_back(machine) -> None:
    from runtime.cuda import gpu as gpus

    functions = machine.open(PROGRAM, device="cuda:0").host.functions
    model = functions["model"](KINDS, WIDTH)
    token = np.zeros(SHAPE, np.uint8)
    blocks = []
    for _ in range(4):
        functions["train"](model, Tensor(token), Tensor(token), np.float32(RATE))
        blocks.append(gpus.gpu(0).pool.statistics().blocks_in_use)
    assert blocks[1:] == blocks[:1] * 3
