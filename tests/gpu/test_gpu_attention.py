"""Attention on a GPU in every form, mask and layout, with lengths that no tile divides, against float64."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from tests.attentions import AXES, CASES, PASSES, Case, expected, inputs, source

NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-18}


def check(
    passes: str,
    case: Case,
    sizes: tuple[int, int, int, int, int, int],
    dtype: str = "bf16",
    layout: str = "heads outside",
    group: int = 1,
    scale: float | None = None,
    change: Any = None,
) -> None:
    b, h, m, n, d, c = sizes
    random = np.random.default_rng(m * n)
    extents = {"b": b, "h": h, "m": m, "n": n, "e": d, "d": c, "g": h // group}
    q, k, v = (random.standard_normal([extents[axis] for axis in axes]).astype(NUMPY[dtype]) for axes in AXES[layout][:3])
    if change is not None:
        change(q, k, v)
    extra = {"scale": d**-0.5 if scale is None else scale, **inputs(case, sizes, 200, random)}
    text = source(passes, case, dtype, layout, "h" if group == 1 else f"h / {group}")
    program = zynml.compile(text, device="cuda:0")
    found = np.asarray(program.f(q, k, v, extra["scale"], *(extra[one.split(":")[0]] for one in case.inputs))).astype(np.float64)
    wanted, size = expected(case, q, k, v, extra, layout, None if group == 1 else lambda heads: heads // group)
    with np.errstate(invalid="ignore"):
        close = np.abs(found - wanted) <= 2 * ULP[dtype] * size + 1e-6
    assert np.all(close | (np.isnan(found) & np.isnan(wanted)) | ((found == wanted) & np.isinf(wanted)))


SIZES = ((1, 2, 1, 1, 64, 64), (2, 3, 65, 129, 64, 64), (1, 2, 300, 300, 128, 128), (1, 1, 1000, 1013, 80, 96))


@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize("case", ["full", "causal", "causal, shorter loop"])
def test_every_form(passes: str, case: str) -> None:
    for b, h, m, n, d, c in SIZES:
        check(passes, CASES[case], (b, h, m, m if "loop" in case else n, d, c))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("elements", [64, 128])
def test_every_mask(case: str, elements: int) -> None:
    numbered = "documents" in case  # by the numbers of keys, which queries have too
    for m, n in ((260, 260), (1031, 1031)) if case == "causal, shorter loop" else ((260, 700), (515, 1031) if numbered else (1031, 515)):
        check("two passes", CASES[case], (2, 3, m, n, elements, elements))


@pytest.mark.parametrize("dtype", NUMPY)
@pytest.mark.parametrize("layout", AXES)
@pytest.mark.parametrize("group", [1, 4])
def test_every_layout_with_grouped_heads(layout: str, group: int, dtype: str) -> None:
    check("two passes", CASES["causal"], (2, 8, 333, 333, 64, 64), dtype, layout, group)


@pytest.mark.parametrize("elements", [16, 24, 32, 40, 48, 60, 72, 80, 96, 112, 120, 160, 192, 200, 224, 256])
def test_every_number_of_elements(elements: int) -> None:
    for case in ("full", "causal, from the end"):
        check("two passes", CASES[case], (1, 2, 200, 333, elements, elements))
    check("two passes", CASES["causal"], (1, 2, 200, 333, elements, 64))


@pytest.mark.parametrize("case", ["full", "causal, from the end", "masked", "window", "later keys", "biased"])
@pytest.mark.parametrize(("queries", "keys", "group"), [(1, 1000, 1), (1, 4099, 4), (3, 513, 8), (16, 2048, 4), (2, 1000, 7), (40, 700, 2), (1, 31, 1)])
def test_few_queries(queries: int, keys: int, group: int, case: str) -> None:
    check("two passes", CASES[case], (3, 28 if group == 7 else 8, queries, keys, 128, 128), "bf16", "heads inside", group)


TILES = """
def f(Q: tensor[M, D, bf16], K: tensor[N, D, bf16], V: tensor[N, C, bf16], scale: f32) {
  compute(Q, K, V, scale) -> tensor[M, C, bf16] @kernel(flash_attention) {
    for q in 0..M step 64:
      var m = -inf
      var l = 0.0
      var acc = zeros(64, C)
      for t in 0..N step 64:
        let S = (Q[q:q+64] @ transpose(K[t:t+64])) * scale
        let new = max(m, row_max(S))
        l = l * exp(m - new) + row_sum(exp(S - new))
        acc = acc * exp(m - new) + exp(S - new) @ V[t:t+64]
        m = new
      out[q:q+64] = acc / l
  }
}"""


@pytest.mark.parametrize("sizes", [(300, 700, 64, 64), (1, 2000, 128, 128), (1000, 1000, 128, 64)], ids=str)
def test_tiles_that_a_program_writes(sizes: tuple[int, int, int, int]) -> None:
    m, n, d, c = sizes
    random = np.random.default_rng(n)
    q, k, v = (random.standard_normal(shape).astype(NUMPY["bf16"]) for shape in ((m, d), (n, d), (n, c)))
    found = np.asarray(zynml.compile(TILES, device="cuda:0").f(q, k, v, 0.125)).astype(np.float64)
    wanted, size = expected(CASES["full"], q[None, None], k[None, None], v[None, None], {"scale": 0.125})
    assert np.all(np.abs(found - wanted[0, 0]) <= 2 * ULP["bf16"] * size[0, 0] + 1e-6)


@pytest.mark.parametrize("of", ["h / group", "h / (H / G)"])
@pytest.mark.parametrize("queries", [1, 300])
def test_heads_in_groups_that_a_launch_knows(of: str, queries: int) -> None:
    text = source("two passes", CASES["full"], group="h / 4").replace("h / 4", of)
    text = text.replace("scale: f32", "scale: f32, group: int").replace("(Q, K, V, scale)", "(Q, K, V, scale, group)")
    random = np.random.default_rng(queries)
    q, k, v = (random.standard_normal((2, heads, rows, 64)).astype(NUMPY["bf16"]) for heads, rows in ((8, queries), (2, 500), (2, 500)))
    found = np.asarray(zynml.compile(text, device="cuda:0").f(q, k, v, 0.125, 4)).astype(np.float64)
    wanted, size = expected(CASES["full"], q, k, v, {"scale": 0.125}, group=lambda heads: heads // 4)
    assert np.all(np.abs(found - wanted) <= 2 * ULP["bf16"] * size + 1e-6)


@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-30, 40.0, float("inf"), float("nan")])
def test_factors_of_every_sign(scale: float) -> None:
    for elements in (64, 128):
        check("two passes", CASES["causal"], (1, 2, 200, 200, elements, elements), scale=scale)


def test_rows_that_see_nothing_are_not_a_number() -> None:
    for passes in PASSES:
        check(passes, CASES["causal, from the end"], (1, 2, 400, 100, 64, 64))


def test_scores_that_are_large_or_not_finite() -> None:
    def large(q: Any, k: Any, v: Any) -> None:
        q[...] *= 50
        k[0, 0, 9:] *= 100
        q[0, 0, 5, 3], q[0, 0, 6, 2], k[0, 0, 60, 1], v[0, 0, 3, 4], v[0, 0, 64, 7] = np.nan, np.inf, -np.inf, np.inf, np.nan

    check("two passes", CASES["full"], (1, 1, 70, 70, 64, 64), change=large)


@pytest.mark.parametrize("passes", PASSES)
def test_values_that_a_loop_does_not_reach_are_not_read(passes: str) -> None:
    def wild(q: Any, k: Any, v: Any) -> None:
        v[0, 0, 7, 3], v[0, 0, 130, 20], v[0, 0, 66, 9], k[0, 0, 100, 1] = np.inf, np.nan, -np.inf, np.nan

    for elements in (64, 128):
        check(passes, CASES["causal, shorter loop"], (1, 1, 140, 140, elements, elements), change=wild)


def test_rows_that_lie_apart_and_keys_that_go_on_behind_the_end() -> None:
    """Every second query, every second key from the first on, and values with NaN behind the last key."""
    text = source("two passes", CASES["full"])
    text = text.replace("Q[b, h, i, e]", "Q[b, h, 2 * i, e]").replace("K[b, h, j, e]", "K[b, h, 2 * j + 1, e]").replace("0..N", "0..L")
    text = text.replace("scale: f32", "scale: f32, L: int").replace("(Q, K, V, scale)", "(Q, K, V, scale, L)")
    text = text.replace("B, H, M, D", "B, H, P, D", 1).replace("B, H, N, D", "B, H, R, D", 1)
    random = np.random.default_rng(5)
    for elements, length in ((128, 150), (64, 31)):
        q, k, v = (random.standard_normal((2, 3, rows, elements)).astype(NUMPY["bf16"]) for rows in (400, 600, 299))
        v[:, :, length:] = np.nan
        found = np.asarray(zynml.compile(text, device="cuda:0").f(q, k, v, elements**-0.5, length)).astype(np.float64)
        extra = {"scale": elements**-0.5}
        wanted, size = expected(CASES["full"], q[:, :, ::2], k[:, :, 1 : 2 * length : 2], v[:, :, :length], extra)
        assert np.all(np.abs(found[:, :, : wanted.shape[2]] - wanted) <= 2 * ULP["bf16"] * size + 1e-6)


@pytest.mark.parametrize(("queries", "keys", "elements"), [(300, 300, 64), (1, 1000, 128), (1031, 515, 128), (20, 4099, 64)])
def test_the_log_of_the_sum_is_a_result_too(queries: int, keys: int, elements: int) -> None:
    random = np.random.default_rng(queries)
    q, k, v = (random.standard_normal((2, 3, rows, elements)).astype(NUMPY["bf16"]) for rows in (queries, keys, keys))
    case = CASES["causal, from the end"]
    results = "(out: tensor[B, H, M, C, bf16], row: tensor[B, H, M])"
    text = source("three passes", case).replace("tensor[B, H, M, C, bf16] @", f"{results} @")
    text = text.replace("    for d in 0..C:\n", "    row[b, h, i] = m + log(l)\n    for d in 0..C:\n")
    out, row = map(np.asarray, zynml.compile(text, device="cuda:0").f(q, k, v, elements**-0.5))
    wanted, size = expected(case, q, k, v, {"scale": elements**-0.5})
    scores = np.einsum("bhme,bhne->bhmn", q.astype(np.float64), k.astype(np.float64)) * elements**-0.5
    seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    with np.errstate(all="ignore"):
        scores = np.where(seen, scores, -np.inf)
        logs = scores.max(-1) + np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1))
        close = np.abs(out.astype(np.float64) - wanted) <= 2 * ULP["bf16"] * size + 1e-6
    assert np.all(close | (np.isnan(out.astype(np.float64)) & np.isnan(wanted)))
    np.testing.assert_allclose(row, logs, rtol=2e-5, atol=2e-5)  # exponentials by an approximation that is off by 2^-22
