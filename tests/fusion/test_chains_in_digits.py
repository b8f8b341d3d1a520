"""Chains in which a block walks along an axis in other loops than the one before: groups of channels, axes of extent 1, elements by residue."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.fusion import chains

HERE = [None, "emulator:sm_90a"]

NORM = """
def norm(x: tensor[N, C, P], weight: tensor[C], G: int) {
    compute(x, weight, G) {
        for n in 0..N, g in 0..G:
            var total = 0.0
            for o in 0..C / G, k in 0..P: total += x[n, g * (C / G) + o, k]
            let mean = total / (C / G * P)
            for o in 0..C / G, k in 0..P: out[n, g * (C / G) + o, k] = (x[n, g * (C / G) + o, k] - mean) * weight[g * (C / G) + o]
    }
}
def bounded(x: tensor[A, B, C], y: tensor[B]) {
    compute(x, y) { for i in 0..A, j in 0..B, k in 0..C: out[i, j, k] = max(x[i, j, k], y[j]) }
}
def doubled(x: tensor[A, B, C]) {
    compute(x) { for i in 0..A, j in 0..B, k in 0..C: out[i, j, k] = 2.0 * x[i, j, k] }
}
def f(x: tensor[N, C, P], weight: tensor[C], y: tensor[C], G: int) { return bounded(norm(doubled(x), weight, G), y) }
"""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """How many blocks the kernels of each planned chain have."""
    found: list[list[int]] = []
    plan = chains.plan_chain

    def noted(*given: Any) -> Any:
        made = plan(*given)
        found.append([len(group.members) for group in made.groups])
        return made

    monkeypatch.setattr(chains, "plan_chain", noted)
    return found


def normed(x: Any, weight: Any, groups: int) -> Any:
    n, c, p = x.shape
    grouped = x.astype(np.float64).reshape(n, groups, -1)
    return (grouped - grouped.mean(2, keepdims=True)).reshape(n, c, p) * weight[:, None]


@pytest.mark.parametrize("device", HERE)
def test_what_follows_groups_of_channels_is_in_their_kernel(device: str | None, planned: list[list[int]]) -> None:
    random = np.random.default_rng(1)
    program = zynml.compile(NORM, device=device)
    for n, c, p, groups in ((2, 6, 7, 3), (1, 12, 33, 2), (2, 6, 7, 2), (3, 5, 1, 5), (2, 6, 31, 1)):
        x, weight, y = (random.standard_normal(shape).astype(np.float32) for shape in ((n, c, p), (c,), (c,)))
        wanted = np.maximum(normed(2 * x, weight, groups), y[:, None])
        assert np.allclose(program.f(x, weight, y, groups), wanted, rtol=1e-5, atol=1e-5), (n, c, p, groups)
    assert planned[:3] == [[3]] * 3  # once for each of the extents


ROWS = """
def largest(x: tensor[M, N]) {
    compute(x) {
        for i in 0..M:
            var top = -inf
            for j in 0..N: top = max(top, x[i, j])
            out[i, 0] = top
    }
}
def summed(x: tensor[M, N]) {
    compute(x) {
        for i in 0..M:
            var total = 0.0
            for j in 0..N: total += x[i, j]
            out[i, 0] = total
    }
}
def halved(x: tensor[A, B]) { compute(x) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] / 2.0 } }
def f(x: tensor[M, N]) { return halved(summed(largest(x))) }
"""


@pytest.mark.parametrize("device", HERE)
def test_axes_of_extent_1_are_no_loops(device: str | None, planned: list[list[int]]) -> None:
    program = zynml.compile(ROWS, device=device)
    for shape in ((4, 33), (1, 1), (31, 5)):
        x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
        assert np.array_equal(program.f(x), x.max(1, keepdims=True) / np.float32(2))
    assert planned == [[3]]


TRANSPOSED = """
def spread(x: tensor[C, H], weight: tensor[C, O, Q], bias: tensor[O]) {
    compute(x, weight, bias) {
        for o in 0..O, y in 0..(H - 1) * 2 + Q - 2:
            var total = bias[o]
            for c in 0..C, q in 0..Q:
                let i = y + 1 - q
                if i >= 0 and i % 2 == 0 and i / 2 < H: total += x[c, i / 2] * weight[c, o, q]
            out[o, y] = total
    }
}
def scaled(x: tensor[A, B], s: tensor[A, 1]) { compute(x, s) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] * s[i, 0] } }
def raised(x: tensor[A, B]) { compute(x) { for i in 0..A, j in 0..B: out[i, j] = x[i, j] + 1.0 } }
def f(x: tensor[C, H], weight: tensor[C, O, Q], bias: tensor[O], s: tensor[O, 1]) { return raised(scaled(spread(x, weight, bias), s)) }
"""


@pytest.mark.parametrize("device", HERE)
def test_what_follows_a_transposed_window_is_in_its_kernel(device: str | None, planned: list[list[int]]) -> None:
    random = np.random.default_rng(3)
    program = zynml.compile(TRANSPOSED, device=device)
    for channels, extent, outputs, window in ((3, 9, 4, 3), (1, 1, 1, 4), (2, 17, 5, 5)):
        shapes = ((channels, extent), (channels, outputs, window), (outputs,), (outputs, 1))
        x, weight, bias, s = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        whole = np.zeros((outputs, 2 * (extent - 1) + window))
        for q in range(window):
            whole[:, q : q + 2 * extent - 1 : 2] += np.einsum("ch,co->oh", x.astype(np.float64), weight[:, :, q])
        wanted = (whole[:, 1:-1] + bias[:, None]) * s + 1
        assert np.allclose(program.f(x, weight, bias, s), wanted, rtol=1e-5, atol=1e-5)
    assert {*map(tuple, planned)} == {(3,)}
    assert "check" not in str(program.emit("hir"))
