"""Attention with values wider than a block has columns: scores, what rows come to, and weighted values are launches of their own."""

from typing import Any

import numpy as np
import pytest

from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.cuts import cuts
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.gpu.products import computed_operands, copied_operands, three_products
from tests.schedule.test_gpu_computed_operands import run
from tests.schedule.test_gpu_convolutions import built, on_warpgroups

SOURCE = """
def f(q: tensor[H, M, D], k: tensor[H, N, D], v: tensor[H, N, C]) {
    compute(q, k, v) -> tensor[H, M, C, f32] PRECISION {
        for h in 0..H, i in 0..M:
            var top = -inf
            for j in 0..N:
                var s = 0.0
                for d in 0..D: s += q[h, i, d] * k[h, j, d]
                WHEN top = max(top, SCALE * s)
            var total = 0.0
            for j in 0..N:
                var s = 0.0
                for d in 0..D: s += q[h, i, d] * k[h, j, d]
                WHEN total += exp(SCALE * s - top)
            for c in 0..C:
                var o = 0.0
                for j in 0..N:
                    var s = 0.0
                    for d in 0..D: s += q[h, i, d] * k[h, j, d]
                    WHEN o += exp(SCALE * s - top) * v[h, j, c]
                out[h, i, c] = o / total
    }
}"""
SIZES = {"H": 2, "M": 40, "N": 72, "D": 80, "C": 144}


def source(scale: str = "0.125", when: str = "", precision: str = "") -> str:
    text = SOURCE.replace("SCALE", scale).replace("WHEN", f"if {when}:" if when else "")
    return text.replace(" PRECISION", f" @precision({precision})" if precision else "")


@pytest.fixture(autouse=True)
def _worthwhile(in_parts: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further launches pay for small sizes, too."""
    for module in (computed_operands, copied_operands, three_products):
        monkeypatch.setattr(module, "WORTH", 0)


def arrays_of(sizes: dict[str, int]) -> dict[str, Any]:
    random = np.random.default_rng(4)
    shapes = {"q": "HMD", "k": "HND", "v": "HNC"}
    arrays = {name: random.standard_normal([sizes[dim] for dim in dims]).astype(np.float32) for name, dims in shapes.items()}
    return arrays | {"out": np.full([sizes[dim] for dim in "HMC"], -7, np.float32)}


def wanted(arrays: dict[str, Any], scale: float, causal: bool = False) -> Any:
    q, k, v = (arrays[name].astype(np.float64) for name in "qkv")
    scores = scale * np.einsum("hid,hjd->hij", q, k)
    if causal:
        scores = np.where(np.arange(scores.shape[2]) <= np.arange(scores.shape[1])[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return np.einsum("hij,hjc->hic", weights / weights.sum(2, keepdims=True), v)


@pytest.mark.parametrize("exact", [True, False], ids=["three products", "FMAs"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_scores_are_computed_once(causal: bool, exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(three_products, "LEAST", 0 if exact else 1 << 20)
    monkeypatch.setattr(three_products, "FMAS", 1e-9)
    arrays = arrays_of(SIZES)
    made = run(source(when="j <= i" if causal else ""), arrays, sizes=SIZES)
    np.testing.assert_allclose(arrays["out"], wanted(arrays, 0.125, causal), rtol=2e-5, atol=2e-6)
    assert on_warpgroups(made) == exact
    known = made.counted_sizes(SIZES)
    assert (2, 40, 72) in {tuple(dim.evaluate(known.__getitem__) for dim in mem.dims) for mem in made.workspaces}


@pytest.mark.parametrize("sizes", [{"H": 1, "M": 1, "N": 33, "D": 31, "C": 257}, {"H": 3, "M": 67, "N": 1, "D": 64, "C": 131}], ids=str)
def test_odd_sizes(sizes: dict[str, int]) -> None:
    arrays = arrays_of(sizes)
    run(source(), arrays, sizes=sizes)
    np.testing.assert_allclose(arrays["out"], wanted(arrays, 0.125), rtol=2e-5, atol=2e-6)


def test_rounded_products_of_narrow_values() -> None:
    sizes = {**SIZES, "C": 64}
    arrays = arrays_of(sizes)
    made = run(source(precision="products=tf32"), arrays, sizes=sizes)
    np.testing.assert_allclose(arrays["out"], wanted(arrays, 0.125), rtol=5e-3, atol=5e-3)
    assert on_warpgroups(made)


def test_a_score_that_is_not_a_number_stays_in_its_row() -> None:
    arrays = arrays_of(SIZES)
    arrays["q"][1, 3, 5] = np.nan
    run(source(), arrays, sizes=SIZES)
    expected = wanted(arrays, 0.125)
    assert np.isnan(expected[1, 3]).all() and np.isnan(expected).sum() == SIZES["C"]
    np.testing.assert_allclose(arrays["out"], expected, rtol=2e-5, atol=2e-6)


def test_scores_that_memory_has_no_room_for_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuts, "MOST_KEPT", 1 << 10)
    kernel = built(source())
    names = [one.name for one in kernel.nest.parameters]
    assert not launches_for(kernel.nest, kernel.field, facts_of(SIZES, names, MACHINES["sm_90a"], 2)).workspaces
