"""Attention in the forms that textbooks write: three passes, a running maximum, scratch rows; masks and causal cuts."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import DTYPES, LAYOUTS, Array, holds, laid_out, launched, numbers, spread


def attended(q: Array, k: Array, v: Array, visible: Array | None = None, scale: float | None = None) -> tuple[Array, Array]:
    """Softmax of the scaled scores, times v, over the last two axes; and the weights' sum of absolute values."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (scale if scale is not None else 1 / np.sqrt(q.shape[-1]))
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        p = e / e.sum(-1, keepdims=True)
    return p @ v, p @ np.abs(v) * (1 + np.abs(scores, where=np.isfinite(scores), out=np.zeros_like(scores)).max(-1, keepdims=True, initial=0))


SCORE = "s / sqrt(D)"

THREE_PASSES = """def f(Q, K, V{inputs}) {{
    compute(Q, K, V{inputs}) @kernel(attention{options}) {{
        for i in 0..N:
            var m = -inf
            for j in {range}:
                var s = 0.0
                for d in 0..D: s += Q[i, d] * K[j, d]
                m = max(m, {score})
            var l = 0.0
            for j in {range}:
                var s = 0.0
                for d in 0..D: s += Q[i, d] * K[j, d]
                l += exp(({score}) - m)
            for c in 0..C:
                var o = 0.0
                for j in {range}:
                    var s = 0.0
                    for d in 0..D: s += Q[i, d] * K[j, d]
                    o += exp(({score}) - m) / l * V[j, c]
                out[i, c] = o
    }}
}}
"""

RUNNING = """def f(Q, K, V{inputs}) {{
    compute(Q, K, V{inputs}) {kind} {{
        for i in 0..N:
            var m = -inf
            var l = 0.0
            for j in {range}:
                var s = 0.0
                for d in 0..D: s += Q[i, d] * K[j, d]
                s = {score}
                let top = max(m, s)
                let keep = exp(m - top)
                let p = exp(s - top)
                l = l * keep + p
                for c in 0..C: out[i, c] = out[i, c] * keep + p * V[j, c]
                m = top
            for c in 0..C: out[i, c] = out[i, c] / l
    }}
}}
"""

SCRATCH = """def f(Q, K, V{inputs}) {{
    compute(Q, K, V{inputs}) @kernel(fused) {{
        for i in 0..N:
            shared var p[M]
            for j in 0..M:
                var s = 0.0
                for d in 0..D: s += Q[i, d] * K[j, d]
                p[j] = {score}
            barrier()
            var m = -inf
            for j in {range}: m = max(m, p[j])
            var l = 0.0
            for j in {range}: l += exp(p[j] - m)
            for c in 0..C:
                var o = 0.0
                for j in {range}: o += exp(p[j] - m) * V[j, c]
                out[i, c] = o / l
    }}
}}
"""

SHAPES = ((3, 5, 4, 4), (33, 31, 16, 8), (1, 257, 5, 3), (31, 1, 7, 7), (64, 64, 32, 32), (100, 70, 64, 64), (0, 3, 4, 4))


def inputs(dtype: str, n: int, m: int, d: int, c: int) -> tuple[Array, Array, Array]:
    return numbers(dtype, (n, d), "q"), numbers(dtype, (m, d), "k"), numbers(dtype, (m, c), "v")


FORMS = {
    "three passes": THREE_PASSES.format(inputs="", options="", range="0..M", score=SCORE),
    "running maximum": RUNNING.format(inputs="", kind="@kernel(attention)", range="0..M", score=SCORE),
    "scratch row": SCRATCH.format(inputs="", range="0..M", score=SCORE),
}


@pytest.mark.parametrize("dtype", ("f16", "bf16", "f32", "f64"))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("operands", spread(SHAPES, LAYOUTS, LAYOUTS[::-1]))
def test_every_form_and_dtype(form: str, dtype: str, operands: tuple[Any, ...]) -> None:
    shape, left, right = operands
    q, k, v = inputs(dtype, *shape)
    text = FORMS[form].replace("p[M]", f"p[M, {dtype}]")
    got = launched(text, laid_out(q, left), laid_out(k, right), laid_out(v, left))
    want, magnitude = attended(q, k, v)
    assert got.dtype == DTYPES[dtype]
    # Scores and running results in 16 bits are rounded to them; weights move as much as the exponents do.
    steps = {"f16": 8e6 * 2.0**-11, "bf16": 8e6 * 2.0**-8, "f64": 4.0, "f32": 4.0}[dtype]
    holds(got, want, magnitude * steps, shape[1] + shape[2])


CAUSAL = {
    "three passes, shorter loop": THREE_PASSES.format(inputs="", options=", causal=true", range="0..i + 1", score=SCORE),
    "three passes, choice": THREE_PASSES.format(inputs="", options=", causal=true", range="0..M", score=f"j <= i ? {SCORE} : -inf"),
    "running maximum, shorter loop": RUNNING.format(inputs="", kind="@kernel(attention, causal=true)", range="0..i + 1", score=SCORE),
    "scratch row, shorter loop": SCRATCH.format(inputs="", range="0..i + 1", score=SCORE),
}


@pytest.mark.parametrize("form", CAUSAL)
def test_causal_attention(form: str) -> None:
    for n in (1, 3, 31, 64, 129):
        q, k, v = inputs("f32", n, n, 16, 8)
        want, magnitude = attended(q, k, v, np.tril(np.ones((n, n), bool)))
        holds(launched(CAUSAL[form], q, k, v), want, magnitude * 4, n + 16)


@pytest.mark.parametrize("form", ("three passes", "scratch row"))
def test_masks(form: str) -> None:
    text = {
        "three passes": THREE_PASSES.format(inputs=", mask", options="", range="0..M", score=f"mask[i, j] ? {SCORE} : -inf"),
        "scratch row": SCRATCH.format(inputs=", mask", range="0..M", score=f"mask[i, j] ? {SCORE} : -inf"),
    }[form]
    for n, m in ((3, 5), (33, 31), (64, 129)):
        q, k, v = inputs("f32", n, m, 16, 8)
        mask = np.random.default_rng(n).random((n, m)) < 0.5
        mask[:, 0] = True
        want, magnitude = attended(q, k, v, mask)
        holds(launched(text, q, k, v, mask), want, magnitude * 4, m + 16)


def test_a_row_that_sees_nothing_is_not_a_number() -> None:
    text = THREE_PASSES.format(inputs=", mask", options="", range="0..M", score=f"mask[i, j] ? {SCORE} : -inf")
    q, k, v = inputs("f32", 5, 9, 4, 4)
    mask = np.ones((5, 9), bool)
    mask[2] = False
    got = launched(text, q, k, v, mask)
    assert np.isnan(got[2]).all()
    assert np.isfinite(np.delete(got, 2, 0)).all()


@pytest.mark.parametrize("dtype", ("bf16", "f32", "f64"))
def test_what_rows_come_to_is_a_result_too(dtype: str) -> None:
    """The log of the sum of exponentials, and the maximum."""
    text = THREE_PASSES.format(inputs="", options="", range="0..M", score=f"j <= i ? {SCORE} : -inf")
    text = text.replace("            for c in", "            lse[i] = m + log(l)\n            most[i] = m\n            for c in")
    wide = "f64" if dtype == "f64" else "f32"
    text = text.replace(
        "compute(Q, K, V)", f"compute(Q, K, V) -> (out: tensor[N, C, {dtype}], lse: tensor[N, {wide}], most: tensor[N, {wide}])"
    )
    text = text.replace("var s = 0.0", f"var s = 0.0{wide}").replace("var l = 0.0", f"var l = 0.0{wide}")
    for n, m, d, c in ((3, 5, 4, 4), (33, 31, 16, 8), (65, 70, 16, 24)):
        q, k, v = inputs(dtype, n, m, d, c)
        scores = np.where(np.arange(m) <= np.arange(n)[:, None], q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(d), -np.inf)
        most = scores.max(-1)
        out, log, maximum = launched(text, q, k, v)
        want, magnitude = attended(q, k, v, np.tril(np.ones((n, m), bool)))
        holds(out, want, magnitude * (8e6 * 2.0**-8 if dtype == "bf16" else 4), m + d)
        # scores in 16 bits are rounded to them
        off = 2.0**-7 if dtype == "bf16" else 1e-5
        np.testing.assert_allclose(maximum, most, rtol=off, atol=off)
        np.testing.assert_allclose(log, most + np.log(np.exp(scores - most[:, None]).sum(-1)), rtol=off, atol=off)


def test_batches_of_heads() -> None:
    text = """def f(Q, K, V) {
    compute(Q, K, V) @kernel(attention) {
        for b in 0..B, h in 0..H, i in 0..N:
            var m = -inf
            for j in 0..M:
                var s = 0.0
                for d in 0..D: s += Q[b, h, i, d] * K[b, h, j, d]
                m = max(m, s * 0.25)
            var l = 0.0
            for j in 0..M:
                var s = 0.0
                for d in 0..D: s += Q[b, h, i, d] * K[b, h, j, d]
                l += exp(s * 0.25 - m)
            for c in 0..C:
                var o = 0.0
                for j in 0..M:
                    var s = 0.0
                    for d in 0..D: s += Q[b, h, i, d] * K[b, h, j, d]
                    o += exp(s * 0.25 - m) * V[b, h, j, c]
                out[b, h, i, c] = o / l
    }
}
"""
    for shape in ((2, 3, 9, 16), (1, 2, 33, 16)):
        q, k, v = (numbers("f32", shape, name) for name in "qkv")
        want, magnitude = attended(q, k, v, scale=0.25)
        holds(launched(text, q, k, v), want, magnitude * 4, shape[2] + 16)


@pytest.mark.parametrize(("n", "m", "d", "c"), ((16, 16, 16, 16), (17, 37, 9, 21), (33, 40, 16, 8)))
@pytest.mark.parametrize("heads_inside", (False, True))
def test_groups_of_heads_that_share_keys(n: int, m: int, d: int, c: int, heads_inside: bool) -> None:
    text = """def f(Q: tensor[B, H, N, D], K: tensor[B, G, M, D], V: tensor[B, G, M, C]) {
    compute(Q, K, V) {
        for b in 0..B, h in 0..H, i in 0..N:
            var m = -inf
            for j in 0..M:
                var s = 0.0
                for d in 0..D: s += Q[b, h, i, d] * K[b, h / (H / G), j, d]
                m = max(m, s * 0.25)
            var l = 0.0
            for j in 0..M:
                var s = 0.0
                for d in 0..D: s += Q[b, h, i, d] * K[b, h / (H / G), j, d]
                l += exp(s * 0.25 - m)
            for c in 0..C:
                var o = 0.0
                for j in 0..M:
                    var s = 0.0
                    for d in 0..D: s += Q[b, h, i, d] * K[b, h / (H / G), j, d]
                    o += exp(s * 0.25 - m) * V[b, h / (H / G), j, c]
                out[b, h, i, c] = o / l
    }
}
"""
    shapes = ((2, 4, n, d), (2, 2, m, d), (2, 2, m, c))
    q, k, v = (numbers("f32", shape, name) for shape, name in zip(shapes, "qkv", strict=True))
    if heads_inside:
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v))
    want, magnitude = attended(q, k.repeat(2, 1), v.repeat(2, 1), scale=0.25)
    holds(launched(text, q, k, v), want, magnitude * 4, m + d)
