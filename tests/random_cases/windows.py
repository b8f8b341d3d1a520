"""Convolutions: both orders of axes, strides, borders, dilation, groups, one to three dimensions."""

import itertools
from typing import Any

import numpy as np

from tests.random_cases.case import Array, Case, Draw, wide


def window(draw: Draw) -> Case:
    types = str(draw.one(("bf16", "bf16", "f16", "f32", "f64")))
    rank = int(draw.one((1, 2, 2, 2, 2, 3)))
    last, whole, grouped = draw.often(0.6), draw.often(0.5), draw.often(0.25)
    stride, dilation = int(draw.one((1, 1, 1, 2))), int(draw.one((1, 1, 1, 2)))
    groups = draw.extent(4) if grouped else 1
    channels, filters = (draw.extent(5 if draw.tiny else 130 // groups) for _ in range(2))
    images = draw.extent(4)
    taps = [int(draw.one((1, 2, 3) if draw.tiny else (1, 2, 3, 5))) for _ in range(rank)]
    padding = int(draw.one((0, 0, 1, 2)))
    most = {1: 300, 2: 40, 3: 12}[rank] if not draw.tiny else 6
    sides = [max(draw.extent(most), dilation * (tap - 1) + 1) for tap in taps]
    outs = [(side + 2 * padding - dilation * (tap - 1) - 1) // stride + 1 for side, tap in zip(sides, taps, strict=True)]
    n, k, c, g = (draw.name() for _ in range(4))
    at = [draw.name() for _ in range(rank)]
    by = [draw.name() for _ in range(rank)]
    places = [_place(y, stride, r, dilation, padding) for y, r in zip(at, by, strict=True)]
    named = [f"p{axis}" for axis in range(rank)]
    ahead = [g] if grouped else []
    own = [*ahead, c]
    image = [n, *named, *own] if last else [n, *own, *named]
    weight = [*ahead, k, *by, c] if last else [*ahead, k, c, *by]
    out = [n, *at, *ahead, k] if last else [n, *ahead, k, *at]
    sizes = {n: ("N", images), k: ("K", filters), c: ("C", channels), g: ("G", groups)}
    sizes |= {name: (f"H{axis}", side) for axis, (name, side) in enumerate(zip(named, sides, strict=True))}
    sizes |= {name: (f"T{axis}", tap) for axis, (name, tap) in enumerate(zip(by, taps, strict=True))}
    x = draw.array(types, [sizes[name][1] for name in image], whole)
    w = draw.array(types, [sizes[name][1] for name in weight], whole)
    lines = [f"let {name} = {place}" for name, place in zip(named, places, strict=True)]
    term = f"s += X[{', '.join(image)}] * F[{', '.join(weight)}]"
    if padding:
        inside = " and ".join(f"{name} >= 0 and {name} < H{axis}" for axis, name in enumerate(named))
        lines.append(f"if {inside} {{ {term} }}")
    else:
        lines.append(term)
    summed = draw.loops([f"{name} in 0..{sizes[name][0]}" for name in [*by, c]], "\n".join(lines), "")
    relu = draw.often(0.3)
    body = f"var s = 0.0\n{summed}\nout[{', '.join(out)}] = {'max(s, 0.0)' if relu else 's'}"
    # the extents of the result can't be solved from a guarded window: they are said
    said = {name: str(extent) for name, extent in zip(at, outs, strict=True)} | {name: size for name, (size, _) in sizes.items()}
    ranges = [f"{name} in 0..{said[name]}" for name in out]
    loops = draw.loops(ranges, body, "        ")
    result = ", ".join(said[name] for name in out)
    source = f"""
def f(X: tensor[{", ".join(sizes[name][0] for name in image)}, {types}], F: tensor[{", ".join(sizes[name][0] for name in weight)}, {types}]) {{
    compute(X, F) -> tensor[{result}, {types}] {{
{loops}
    }}
}}"""

    def convolved(change: Any) -> Array:
        axes_x = [image.index(name) for name in (n, *named, *own)]
        axes_w = [weight.index(name) for name in (*ahead, k, c, *by)]
        picture, filters_ = np.transpose(change(wide(x)), axes_x), np.transpose(change(wide(w)), axes_w)
        if not grouped:
            picture, filters_ = picture[..., None, :], filters_[None]
        padded = np.pad(picture, [(0, 0), *[(padding, padding)] * rank, (0, 0), (0, 0)])
        total = np.zeros((images, *outs, groups, filters))
        for tap in itertools.product(*map(range, taps)):
            cut = tuple(slice(t * dilation, t * dilation + stride * (o - 1) + 1, stride) for t, o in zip(tap, outs, strict=True))
            part = padded[(slice(None), *cut)]
            total += np.einsum("...gc,gkc->...gk", part, filters_[(slice(None), slice(None), slice(None), *tap)])
        found = total if grouped else total[..., 0, :]
        standard = [n, *at, *ahead, k]
        return np.transpose(found, [standard.index(name) for name in out])

    def wanted() -> Array:
        found = convolved(lambda v: v)
        return np.maximum(found, 0) if relu else found

    words = f"{types}, {'last' if last else 'first'}, {images}x{sides}x{groups}x{channels} to {filters}, taps {taps}, {stride} {padding} {dilation}"
    terms = channels * int(np.prod(taps))
    return Case("window", source, [x, w], wanted, lambda: convolved(np.abs), terms, layouts=[draw.layout(x), draw.layout(w)], words=words)


def _place(y: str, stride: int, r: str, dilation: int, padding: int) -> str:
    parts = [y if stride == 1 else f"{y} * {stride}", r if dilation == 1 else f"{r} * {dilation}"]
    return " + ".join(parts) + (f" - {padding}" if padding else "")
