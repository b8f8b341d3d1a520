"""Attention in two passes or with a running maximum: heads in groups, lengths that nothing divides, causal, masked, sloped by head, within
documents, with either order of axes."""

import numpy as np

from tests.random_cases.case import Array, Case, Draw, wide

MASKS = {
    "": ("{s} * scale", lambda i, j, m: True),
    "causal": ("(if {j} <= {i} {{ {s} * scale }} else {{ -inf }})", lambda i, j, m: j <= i),
    "window": ("(if {j} <= {i} and {i} < {j} + 40 {{ {s} * scale }} else {{ -inf }})", lambda i, j, m: (j <= i) & (i < j + 40)),
    "added": ("({s} * scale + P[{i}, {j}])", lambda i, j, m: True),
    "sloped": ("(if {j} <= {i} {{ {s} * scale - P[{h}] * ({i} - {j}) }} else {{ -inf }})", lambda i, j, m: j <= i),
    "documents": ("(if P[{b}, {i}] == Z[{b}, {j}] {{ {s} * scale }} else {{ -inf }})", lambda i, j, m: m),
}
INPUTS = {"added": ("P: tensor[M, N]",), "sloped": ("P: tensor[H]",), "documents": ("P: tensor[B, M, i32]", "Z: tensor[B, N, i32]")}


def attention(draw: Draw) -> Case:
    types = str(draw.one(("bf16", "bf16", "bf16", "f16", "f32")))
    mask = str(draw.one(list(MASKS)))
    width = int(draw.one((4, 8, 16)) if draw.tiny else draw.one((32, 40, 64, 64, 80, 96, 128, 128, 256)))
    groups, shared = draw.extent(3), int(draw.one((1, 1, 2, 4)))
    batch = draw.extent(2)
    rows, keys = draw.extent(700), draw.extent(700)
    heads_inside = draw.often(0.3)
    b, h, i, j, d, e = (draw.name() for _ in range(6))
    running = draw.often(0.3) and mask not in ("window", "documents")
    heads = groups * shared
    scale = width**-0.5

    def order(head: str, place: str, last: str) -> str:
        return f"{b}, {place}, {head}, {last}" if heads_inside else f"{b}, {head}, {place}, {last}"

    def shape(count: int, length: int) -> tuple[int, ...]:
        return (batch, length, count, width) if heads_inside else (batch, count, length, width)

    of = h if shared == 1 else f"{h} / {shared}"
    score, visible = MASKS[mask]
    masked = score.format(s="s", i=i, j=j, h=h, b=b)
    besides = INPUTS.get(mask, ())
    declared = [
        f"Q: tensor[{'B, M, H, D' if heads_inside else 'B, H, M, D'}, {types}]",
        f"K: tensor[{'B, N, G, D' if heads_inside else 'B, G, N, D'}, {types}]",
        f"V: tensor[{'B, N, G, D' if heads_inside else 'B, G, N, D'}, {types}]",
        *besides,
        "scale: f32",
    ]
    given = ["Q", "K", "V", *(one[0] for one in besides), "scale"]
    two_passes = f"""
            var m = -inf
            for {j} in 0..N:
                var s = 0.0
                for {e} in 0..D: s += Q[{order(h, i, e)}] * K[{order(of, j, e)}]
                m = max(m, {masked})
            var l = 0.0
            var o = 0.0
            for {j} in 0..N:
                var s = 0.0
                for {e} in 0..D: s += Q[{order(h, i, e)}] * K[{order(of, j, e)}]
                let p = exp({masked} - m)
                l += p
                o += p * V[{order(of, j, d)}]"""
    one_pass = f"""
            var m = -inf
            var l = 0.0
            var o = 0.0
            for {j} in 0..N:
                var s = 0.0
                for {e} in 0..D: s += Q[{order(h, i, e)}] * K[{order(of, j, e)}]
                let top = max(m, {masked})
                l = l * exp(m - top) + exp({masked} - top)
                o = o * exp(m - top) + exp({masked} - top) * V[{order(of, j, d)}]
                m = top"""
    source = f"""
def f({", ".join(declared)}) {{
    compute({", ".join(given)}) -> tensor[{"B, M, H, D" if heads_inside else "B, H, M, D"}, {types}] {{
        for {", ".join(draw.shuffled([f"{b} in 0..B", f"{h} in 0..H", f"{i} in 0..M"]))}, {d} in 0..D:{one_pass if running else two_passes}
            out[{order(h, i, d)}] = o / l
    }}
}}"""
    q, k, v = (draw.array(types, shape(count, length)) for count, length in ((heads, rows), (groups, keys), (groups, keys)))
    added, slopes = draw.array("f32", (rows, keys)), draw.array("f32", (heads,))
    documents = [np.sort(draw.array("i32", (batch, length)) % 4, axis=1) for length in (rows, keys)]

    def weighted(change: bool) -> Array:
        wide_q, wide_k, wide_v = (np.swapaxes(wide(x), 1, 2) if heads_inside else wide(x) for x in (q, k, v))
        wide_k, wide_v = (np.repeat(x, shared, axis=1) for x in (wide_k, wide_v))
        scores = np.einsum("bhie,bhje->bhij", wide_q, wide_k, optimize=True) * scale
        if mask == "added":
            scores = scores + wide(added)
        i, j = np.arange(rows)[:, None], np.arange(keys)[None]
        if mask == "sloped":
            scores = scores - wide(slopes)[:, None, None] * (i - j)
        own = (documents[0][:, :, None] == documents[1][:, None])[:, None]
        seen = np.broadcast_to(visible(i, j, own), scores.shape)
        scores = np.where(seen, scores, -np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights = weights / weights.sum(-1, keepdims=True)
        found = np.einsum("bhij,bhjd->bhid", weights, np.abs(wide_v) if change else wide_v, optimize=True)
        return np.swapaxes(found, 1, 2) if heads_inside else found

    # weights are rounded to the operands' type before they are multiplied, scores come out of sums of `width` terms
    coarse = {"bf16": 2.0**-7, "f16": 2.0**-9, "f32": 4e-6}[types]
    words = f"{types}, {batch}x{heads}/{groups}x{rows}x{keys}x{width}, {mask or 'full'}{', heads inside' if heads_inside else ''}{', running' if running else ''}"
    inputs = [q, k, v, *{"added": [added], "sloped": [slopes], "documents": documents}.get(mask, []), scale]
    return Case("attention", source, inputs, lambda: weighted(False), lambda: weighted(True) * coarse / 1e-6, words=words)
