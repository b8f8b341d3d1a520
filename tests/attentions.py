"""Attention as textbooks write it, in ZynML, and in float64: forms, masks, layouts. Tensors are [batch, heads, rows, elements], where a layout
doesn't say otherwise."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from attrs import frozen

Array = Any

TWO_PASSES = """  for b in 0..B, h in 0..H, i in 0..M, d in 0..C:
    var m = -inf
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      m = max(m, SCORE)
    var l = 0.0
    var o = 0.0
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      let p = exp(SCORE - m)
      l += p
      o += p * VALUE
    RESULT = o / l
"""
THREE_PASSES = """  for b in 0..B, h in 0..H, i in 0..M {
    var m = -inf
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      m = max(m, SCORE)
    var l = 0.0
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      l += exp(SCORE - m)
    for d in 0..C:
      var o = 0.0
      for j in KEYS:
        var s = 0.0
        for e in 0..D: s += QUERY * KEY
        o += exp(SCORE - m) / l * VALUE
      RESULT = o
  }
"""
SCRATCH = """  for b in 0..B, h in 0..H, i in 0..M {
    shared var p[N, f32]
    for j in 0..N:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      p[j] = SCORE
    barrier()
    var m = -inf
    for j in KEYS: m = max(m, p[j])
    var l = 0.0
    for j in KEYS: l += exp(p[j] - m)
    for d in 0..C:
      var o = 0.0
      for j in KEYS: o += exp(p[j] - m) * VALUE
      RESULT = o / l
  }
"""
RUNNING = """  for b in 0..B, h in 0..H, i in 0..M, d in 0..C:
    var m = -inf
    var l = 0.0
    var o = 0.0
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      let top = max(m, SCORE)
      let keep = exp(m - top)
      let p = exp(SCORE - top)
      l = l * keep + p
      o = o * keep + p * VALUE
      m = top
    RESULT = o / l
"""
RUNNING_ROW = """  for b in 0..B, h in 0..H, i in 0..M {
    shared var o[C, f32]
    for d in 0..C: o[d] = 0.0
    var m = -inf
    var l = 0.0
    for j in KEYS:
      var s = 0.0
      for e in 0..D: s += QUERY * KEY
      let x = SCORE
      let top = if x > m { x } else { m }
      let keep = exp(m - top)
      l = exp(x - top) + keep * l
      for d in 0..C: o[d] = VALUE * exp(x - top) + o[d] * keep
      m = top
    for d in 0..C: RESULT = o[d] / l
  }
"""
PASSES = {
    "two passes": TWO_PASSES,
    "three passes": THREE_PASSES,
    "scores in a row": SCRATCH,
    "a running maximum": RUNNING,
    "a running maximum, sums in a row": RUNNING_ROW,
    "a running maximum from a number on": RUNNING.replace("var m = -inf", "var m = -1.0e30"),
}
LAYOUTS = {
    "heads outside": ("B, H, M, D", "B, G, N, D", "B, G, N, C", "b, h, i, e", "b, GROUP, j, e", "b, GROUP, j, d", "b, h, i, d"),
    "heads inside": ("B, M, H, D", "B, N, G, D", "B, N, G, C", "b, i, h, e", "b, j, GROUP, e", "b, j, GROUP, d", "b, i, h, d"),
    "rows outside": ("M, B, H, D", "N, G, B, D", "G, B, N, C", "i, b, h, e", "j, GROUP, b, e", "GROUP, b, j, d", "i, b, h, d"),
}
AXES = {
    "heads outside": ("bhme", "bgne", "bgnd", "bhmd"),
    "heads inside": ("bmhe", "bnge", "bngd", "bmhd"),
    "rows outside": ("mbhe", "ngbe", "gbnd", "mbhd"),
}


@frozen
class Case:
    """A score, the keys that it is for, inputs besides, and what it is of arrays: of the plain scores [B, H, M, N], places i and j, and the
    inputs by name. `keys`: the range in the program, and which are in it."""

    score: str = "s * scale"
    value: Callable[..., Array] = lambda s, i, j, given: s * given["scale"]
    keys: str = "0..N"
    inside: Callable[..., Array] = lambda i, j, n, m: j < n
    inputs: tuple[str, ...] = ()


def _hidden(s: Array, seen: Array) -> Array:
    return np.where(seen, s, -np.inf)


CASES = {
    "full": Case(),
    "divided": Case("s / sqrt(D)", lambda s, i, j, given: s / np.sqrt(given["D"])),
    "factors": Case("s * 0.5 * scale", lambda s, i, j, given: s * 0.5 * given["scale"]),
    "causal": Case("(if j <= i { s * scale } else { -inf })", lambda s, i, j, given: _hidden(s * given["scale"], j <= i)),
    "causal, shorter loop": Case(keys="0..i + 1", inside=lambda i, j, n, m: j <= i),
    "window, shorter loop": Case(keys="max(0, i - 25)..min(N, i + 1)", inside=lambda i, j, n, m: (j <= i) & (j >= i - 25)),
    "causal, from the end": Case(
        "(if j <= i + N - M { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], j <= i + given["N"] - given["M"]),
    ),
    "later keys": Case("(if j >= i { s * scale } else { -inf })", lambda s, i, j, given: _hidden(s * given["scale"], j >= i)),
    "window": Case(
        "(if j <= i and i - j < W { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], (j <= i) & (i - j < given["W"])),
        inputs=("W: int",),
    ),
    "every second row": Case(
        "(if 2 * j <= i + 3 { s * scale } else { -inf })", lambda s, i, j, given: _hidden(s * given["scale"], 2 * j <= i + 3)
    ),
    "biased": Case(
        "(s * scale + A[i, j])",
        lambda s, i, j, given: s * given["scale"] + given["A"].astype(np.float64),
        inputs=("A: tensor[M, N, bf16]",),
    ),
    "masked": Case(
        "(if A[b, i, j] { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], given["A"][:, None]),
        inputs=("A: tensor[B, M, N, bool]",),
    ),
    "masked and causal": Case(
        "(if A[b, i, j] and j <= i { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], given["A"][:, None] & (j <= i)),
        inputs=("A: tensor[B, M, N, bool]",),
    ),
    "documents": Case(
        "(if A[b, i] == A[b, j] { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], given["A"][:, None, : len(i), None] == given["A"][:, None, None]),
        inputs=("A: tensor[B, N, i32]",),
    ),
    "later documents, causal": Case(
        "(if A[b, i] < A[b, j] + 1 and j <= i and i - j < W { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(
            s * given["scale"], (given["A"][:, None, : len(i), None] <= given["A"][:, None, None]) & (j <= i) & (i - j < given["W"])
        ),
        inputs=("A: tensor[B, N, i32]", "W: int"),
    ),
    "documents that see nothing": Case(
        "(if A[b, i] + 1 == A[b, j] { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], given["A"][:, None, : len(i), None] + 1 == given["A"][:, None, None]),
        inputs=("A: tensor[B, N, i32]",),
    ),
    "lengths": Case(
        "(if j < A[b] { s * scale } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"], j < given["A"][:, None, None, None]),
        inputs=("A: tensor[B, i32]",),
    ),
    "capped": Case("(tanh(s * scale / 3.0) * 3.0)", lambda s, i, j, given: np.tanh(s * given["scale"] / 3) * 3),
    "a factor for each head": Case(
        "(if j <= i { s * A[h] / 2.0 } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["A"][None, :, None, None] / 2, j <= i),
        inputs=("A: tensor[H, f32]",),
    ),
    "sloped": Case("(s * scale - 0.1 * (i - j))", lambda s, i, j, given: s * given["scale"] - 0.1 * (i - j)),
    "sloped by heads": Case(
        "(if j <= i { s * scale - A[h] * (i - j) } else { -inf })",
        lambda s, i, j, given: _hidden(s * given["scale"] - given["A"][None, :, None, None] * (i - j), j <= i),
        inputs=("A: tensor[H, f32]",),
    ),
    "sloped both ways": Case(
        "(s * scale - A[h] * abs(i - 2 * j + 3))",
        lambda s, i, j, given: s * given["scale"] - given["A"][None, :, None, None] * abs(i - 2 * j + 3),
        inputs=("A: tensor[H, f32]",),
    ),
}


def source(passes: str, case: Case, dtype: str = "bf16", layout: str = "heads outside", group: str = "h") -> str:
    """The program: `f(Q, K, V, scale, inputs)`."""
    q, k, v, query, key, value, result = LAYOUTS[layout]
    heads = "H" if group == "h" else "G"
    rows = "M" if case.keys == "0..i + 1" else "N"
    k, v = (dims.replace("G", heads).replace("N", rows) for dims in (k, v))
    names = "".join(f", {one.split(':')[0]}" for one in case.inputs)
    declared = "".join(f", {one}" for one in case.inputs).replace("N", rows)
    body = (
        PASSES[passes]
        .replace("QUERY", f"Q[{query}]")
        .replace("KEYS", case.keys)
        .replace("KEY", f"K[{key}]")
        .replace("VALUE", f"V[{value}]")
        .replace("RESULT", f"out[{result}]")
        .replace("SCORE", case.score)
        .replace("GROUP", group)
    )
    if rows == "M":
        body = body.replace("N", "M")
    kind = "fused" if "shared" in body else "attention"
    return (
        f"def f(Q: tensor[{q}, {dtype}], K: tensor[{k}, {dtype}], V: tensor[{v}, {dtype}], scale: f32{declared}) {{\n"
        f"  compute(Q, K, V, scale{names}) -> tensor[{LAYOUTS[layout][0].replace('D', 'C')}, {dtype}] @kernel({kind}) {{\n{body}  }}\n}}\n"
    )


def inputs(case: Case, sizes: tuple[int, ...], window: int, random: np.random.Generator) -> dict[str, Array]:
    """What a case takes besides, by name."""
    b, h, m, n = sizes[:4]
    found: dict[str, Array] = {"W": window}
    for one in case.inputs:
        if "bool" in one:
            found["A"] = random.random((b, m, n)) < 0.6
        elif "N, i32" in one:
            found["A"] = np.sort(random.integers(0, 5, (b, n)), axis=1).astype(np.int32)
        elif "i32" in one:
            found["A"] = random.integers(1, n + 1, b).astype(np.int32)
        elif "f32" in one:
            found["A"] = random.standard_normal(h).astype(np.float32)
        elif "tensor" in one:
            found["A"] = random.standard_normal((m, n)).astype(ml_dtypes.bfloat16)
    return found


def expected(
    case: Case, q: Array, k: Array, v: Array, given: dict[str, Any], layout: str = "heads outside", group: Any = None
) -> tuple[Array, Array]:
    """The result in float64, laid out as the program's, and the size of what is summed for it."""
    of_q, of_k, of_v, of_out = AXES[layout]
    plain = [
        np.einsum(f"{axes}->{target}", x.astype(np.float64))
        for axes, target, x in ((of_q, "bhme", q), (of_k, "bgne", k), (of_v, "bgnd", v))
    ]
    heads = np.arange(plain[0].shape[1])
    which = heads if group is None else group(heads)
    q, k, v = plain[0], plain[1][:, which], plain[2][:, which]
    m, n = q.shape[2], k.shape[2]
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    with np.errstate(all="ignore"):
        scores = case.value(np.einsum("bhme,bhne->bhmn", q, k), i, j, {**given, "N": n, "M": m, "D": q.shape[3]})
        inside = np.broadcast_to(case.inside(i, j, n, m), scores.shape)
        scores = np.where(inside, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        weights = np.where(inside, weights, 0)
        weights /= weights.sum(-1, keepdims=True)
        if np.isfinite(v).all():
            result = np.einsum("bhmn,bhnd->bhmd", weights, v)
        else:
            result = np.where(inside[..., None], weights[..., None] * v[:, :, None], 0).sum(-2)
        size = np.einsum("bhmn,bhnd->bhmd", weights, np.abs(np.nan_to_num(v, nan=0.0, posinf=0.0, neginf=0.0)))
    return np.einsum(f"bhmd->{of_out}", result), np.einsum(f"bhmd->{of_out}", size)
