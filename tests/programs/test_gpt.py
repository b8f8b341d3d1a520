"""The transformer of `programs/zynml/gpt.zynml` beside the same network in NumPy: float64, with derivatives by layers of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.driver import CompileOptions
from compiler.source import Sources
from runtime.tensor import Tensor
from zynml.api import open_program

ROOT = Path(__file__).parents[2] / "programs"
LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 2, 24, 3, 10, 5
RATE, STEPS = 0.01, 4

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
Back = Callable[[Array], Array]


def named_weights(model: Any) -> Iterator[tuple[str, Any]]:
    yield from (("byte", model.byte), ("place", model.place), ("last.gain", model.last.gain), ("last.bias", model.last.bias))
    for number, layer in enumerate(model.layers):
        for name in ("first", "second", "joint", "merge", "up", "down"):
            for part in ("gain", "bias") if name in ("first", "second") else ("weights", "bias"):
                yield f"{number}.{name}.{part}", getattr(getattr(layer, name), part)


class Network:
    """Each layer gives its value and what turns the derivative by that into the one by its input, adding those by weights to `found`."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.found = {name: np.zeros_like(value) for name, value in weights.items()}

    def dense(self, x: Array, name: str) -> tuple[Array, Back]:
        w = self.weights[f"{name}.weights"]

        def back(d: Array) -> Array:
            self.found[f"{name}.weights"] += np.einsum("btk,btm->km", x, d)
            self.found[f"{name}.bias"] += d.sum(axis=(0, 1))
            return d @ w.T

        return x @ w + self.weights[f"{name}.bias"], back

    def norm(self, x: Array, name: str) -> tuple[Array, Back]:
        apart = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((apart**2).mean(axis=-1, keepdims=True) + 1e-5)
        unit, gain = apart / spread, self.weights[f"{name}.gain"]

        def back(d: Array) -> Array:
            self.found[f"{name}.gain"] += (d * unit).sum(axis=(0, 1))
            self.found[f"{name}.bias"] += d.sum(axis=(0, 1))
            d = d * gain
            return (d - d.mean(axis=-1, keepdims=True) - unit * (d * unit).mean(axis=-1, keepdims=True)) / spread

        return unit * gain + self.weights[f"{name}.bias"], back

    def attention(self, joint: Array) -> tuple[Array, Back]:
        batch, length, _ = joint.shape
        q, k, v = joint.reshape(batch, length, 3, HEADS, WIDTH // HEADS).transpose(2, 0, 3, 1, 4)
        scale = 1.0 / np.sqrt(WIDTH // HEADS)
        scores = np.where(np.tri(length, dtype=bool), q @ k.swapaxes(2, 3) * scale, -np.inf)
        p = softmax(scores)

        def back(d: Array) -> Array:
            d = d.reshape(batch, length, HEADS, -1).transpose(0, 2, 1, 3)
            by_p = d @ v.swapaxes(2, 3)
            by_scores = p * (by_p - (p * by_p).sum(axis=-1, keepdims=True)) * scale
            parts = np.stack([by_scores @ k, by_scores.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ d])
            return parts.transpose(1, 3, 0, 2, 4).reshape(batch, length, 3 * WIDTH)

        return (p @ v).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH), back

    def loss(self, token: Array, following: Array) -> float:
        """The mean loss, whose derivatives are then in `found`."""
        x = self.weights["byte"][token] + self.weights["place"][: token.shape[1]]
        backs: list[tuple[Back, ...]] = []
        for number in range(LAYERS):
            normed, by_first = self.norm(x, f"{number}.first")
            joint, by_joint = self.dense(normed, f"{number}.joint")
            mixed, by_mixed = self.attention(joint)
            merged, by_merge = self.dense(mixed, f"{number}.merge")
            x = x + merged
            normed, by_second = self.norm(x, f"{number}.second")
            wide, by_up = self.dense(normed, f"{number}.up")
            active, by_wide = gelu(wide)
            narrow, by_down = self.dense(active, f"{number}.down")
            x = x + narrow
            backs.append((by_merge, by_mixed, by_joint, by_first, by_down, by_wide, by_up, by_second))
        last, by_last = self.norm(x, "last")
        p = softmax(last @ self.weights["byte"].T)
        picked = np.take_along_axis(p, following[..., None], axis=-1)
        d = p.copy()
        np.put_along_axis(d, following[..., None], picked - 1.0, axis=-1)
        d /= token.size
        self.found["byte"] += np.einsum("btv,btc->vc", d, last)
        d = by_last(d @ self.weights["byte"])
        for steps in reversed(backs):
            for half in (steps[4:], steps[:4]):
                inside = d
                for step in half:
                    inside = step(inside)
                d = d + inside
        np.add.at(self.found["byte"], token, d)
        self.found["place"][: token.shape[1]] += d.sum(axis=0)
        return float(-np.log(picked).mean())


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def gelu(x: Array) -> tuple[Array, Back]:
    c = np.sqrt(2.0 / np.pi)
    t = np.tanh(c * (x + 0.044715 * x**3))
    slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t**2) * c * (1.0 + 3 * 0.044715 * x**2)
    return 0.5 * x * (1.0 + t), lambda d: d * slope


def relative(found: Array, expected: Array) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.fixture(scope="module")
def functions() -> Any:
    options = CompileOptions(device="cpu", parameters={"steps": "0", "writes": "0"})
    program: Any = open_program(str(ROOT / "zynml" / "gpt.zynml"), options, Sources(), lambda warning: None)
    return program.host.functions


def windows() -> Iterator[tuple[Array, Array]]:
    rng = np.random.default_rng(11)
    story = np.frombuffer((ROOT / "data" / "moby_dick.txt").read_bytes(), np.uint8)
    for _ in range(STEPS):
        start = rng.integers(0, len(story) - CONTEXT - 1, BATCH)
        window = np.stack([story[at : at + CONTEXT + 1] for at in start])
        yield window[:, :-1], window[:, 1:]


def test_derivatives_in_numpy_are_those_of_the_loss() -> None:
    """The reference itself, by differences of the loss in a random direction for each weight."""
    rng = np.random.default_rng(3)
    shapes = {"byte": (128, WIDTH), "place": (CONTEXT, WIDTH), "last.gain": (WIDTH,), "last.bias": (WIDTH,)}
    for number in range(LAYERS):
        for name, inputs, outputs in (("joint", 1, 3), ("merge", 1, 1), ("up", 1, 4), ("down", 4, 1)):
            shapes[f"{number}.{name}.weights"] = (inputs * WIDTH, outputs * WIDTH)
            shapes[f"{number}.{name}.bias"] = (outputs * WIDTH,)
        shapes |= {f"{number}.{name}.{part}": (WIDTH,) for name in ("first", "second") for part in ("gain", "bias")}
    weights = {name: rng.normal(size=shape) * 0.3 for name, shape in shapes.items()}
    token, following = next(windows())
    network = Network(weights)
    network.loss(token, following)
    for name, value in weights.items():
        direction = rng.normal(size=value.shape)
        high, low = (Network(weights | {name: value + sign * 1e-5 * direction}).loss(token, following) for sign in (1, -1))
        np.testing.assert_allclose((network.found[name] * direction).sum(), (high - low) / 2e-5, rtol=1e-5, atol=1e-8)


def test_training_goes_as_in_numpy(functions: Any) -> None:
    """Products of bf16, whose 8 bits are off by up to 0.4 percent each, keep derivatives within a few percent of their length. Adam
    divides each element's step by its size, so that those near 0 go either way: weights are compared by how far they went."""
    model = functions["gpt"](LAYERS, WIDTH, HEADS, CONTEXT)
    weights = {name: np.array(weight.value.array, np.float64) for name, weight in named_weights(model)}
    began = {name: value.copy() for name, value in weights.items()}
    means, squares = ({name: np.zeros_like(value) for name, value in weights.items()} for _ in range(2))
    for step, (token, following) in enumerate(windows(), 1):
        network = Network(weights)
        expected = network.loss(token.astype(np.int64), following.astype(np.int64))
        before = {name: np.array(weight.value.array, np.float64) for name, weight in named_weights(model)}
        given = (Tensor(np.ascontiguousarray(part)) for part in (token, following))
        assert float(functions["train"](model, *given, step, RATE)) == pytest.approx(expected, rel=2e-3), step
        bound, rate = np.sqrt(1.0 - 0.99**step), RATE * min(1.0, step / 20.0)
        for name, weight in named_weights(model):
            means[name] += 0.1 * (network.found[name] - means[name])
            squares[name] += 0.01 * (network.found[name] ** 2 - squares[name])
            if step == 1:
                assert relative(weight.mean.array, means[name]) < 0.03, name
                assert relative(weight.square.array, squares[name]) < 0.06, name
            moved = rate * (weight.mean.array / (1.0 - 0.9**step)) / (np.sqrt(weight.square.array) / bound + 1e-8)
            np.testing.assert_allclose(weight.value.array, before[name] - moved, rtol=1e-5, atol=1e-7, err_msg=name)
            weights[name] -= rate * (means[name] / (1.0 - 0.9**step)) / (np.sqrt(squares[name]) / bound + 1e-8)
    for name, weight in named_weights(model):
        ways = [value.array - began[name] if isinstance(value, Tensor) else value - began[name] for value in (weight.value, weights[name])]
        if name.endswith("joint.bias"):
            # what is added to every key changes no softmax: its derivative is 0 but for rounding
            ways = [np.delete(way, np.s_[WIDTH : 2 * WIDTH]) for way in ways]
        assert relative(*ways) < 0.1, name
