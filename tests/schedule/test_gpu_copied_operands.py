"""Convolutions whose pictures and weights don't lie as bulk copies take them: they are copied first."""

from typing import Any

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.types import Mem
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches, on_warpgroups
from tests.windows import BF16, CASES, CHANNELS_FIRST, CHANNELS_LAST, FORMS, GROUPED, ODD, convolved, small

NUMPY = {"f16": np.float16, "bf16": BF16, "f32": np.float32}

TOKENS_AND_TAPS = """
def f(X: tensor[B, T, f16], F: tensor[J, K, f16]) {
    compute(X, F) -> tensor[B, T, K, f32] {
        for k in 0..K, b in 0..B, t in 0..T {
            var s = 0.0
            for j in 0..J { if t + j >= 2 and t + j - 2 < T { s += F[j, k] * X[b, t + j - 2] } }
            out[b, t, k] = s
        }
    }
}"""

GROUPS_FIRST = """
def f(X: tensor[N, G, C, H, W, bf16], F: tensor[G, C, R, S, K, bf16], bias: tensor[G, K]) {
    compute(X, F, bias) -> tensor[N, G, K, H, W, bf16] {
        for n in 0..N, g in 0..G, a in 0..H, b in 0..W, k in 0..K {
            var s = bias[g, k]
            for q in 0..S, r in 0..R {
                if a + r >= 1 and a + r <= H and b + q >= 1 and b + q <= W {
                    for c in 0..C: s += X[n, g, c, a + r - 1, b + q - 1] * F[g, c, r, q, k]
                }
            }
            out[n, g, k, a, b] = max(s, 0.0)
        }
    }
}"""

SOLID = """
def f(X: tensor[N, C, D, H, W, bf16], F: tensor[K, C, P, Q, R, bf16]) {
    compute(X, F) -> tensor[N, K, D-1, H-1, W-1, f32] {
        for n in 0..N, k in 0..K, d in 0..D-1, y in 0..H-1, x in 0..W-1 {
            var s = 0.0
            for c in 0..C, p in 0..P, q in 0..Q, r in 0..R: s += X[n, c, d + p, y + q, x + r] * F[k, c, p, q, r]
            out[n, k, d, y, x] = s
        }
    }
}"""


def run(source: str, arrays: dict[str, Any], sizes: dict[str, int], processors: int = 2) -> Launches:
    """The launches of a block in the interpreter; workspaces begin with numbers that would show."""
    kernel = built(source)
    made = launches(kernel, sizes, processors)
    assert on_warpgroups(made)
    given = [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters]
    arguments, known = made.counted(given, sizes)
    for mem in made.workspaces:
        shape = tuple(dim.evaluate(known.__getitem__) for dim in mem.dims)
        arguments.append(np.full(shape, np.nan, NUMPY[mem.dtype]))
    for number, after in made.steps(known):
        launch = made.launches[number]
        seen = [  # groups and channels may be one dim
            value.reshape([dim.evaluate(known.__getitem__) for dim in parameter.type.dims]) if isinstance(parameter.type, Mem) else value
            for value, parameter in zip((*arguments, *after), launch.function.parameters, strict=True)
        ]
        interpret(launch.function, seen, grid=(launch.blocks(known), 1, 1))
    return made


def first(pictures: Any) -> Any:
    """Channels behind the pictures' number, from behind the pixels."""
    return np.moveaxis(pictures, -1, 1)


@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize(("pictures", "filters", "window"), [*CASES, *ODD], ids=str)
def test_channels_first(pictures: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, int, int], to: str) -> None:
    x, f = small(1, *pictures), small(2, *filters, pictures[-1])
    wanted = first(convolved(x, f, *window))
    out = np.full(wanted.shape, -7, NUMPY[to])
    sizes = dict(zip("NHWCKRSYZ", (*pictures, *filters, *wanted.shape[2:]), strict=True))
    x, f = (np.ascontiguousarray(first(one)) for one in (x, f))
    run(CHANNELS_FIRST % (to, *window), {"X": x, "F": f, "out": out}, sizes)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(NUMPY[to]).astype(np.float32))


@pytest.mark.parametrize(("pictures", "filters", "window"), ODD, ids=str)
def test_channels_that_are_few_or_odd(pictures: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, int, int]) -> None:
    x, f = small(3, *pictures), small(4, *filters, pictures[-1])
    wanted = convolved(x, f, *window).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    sizes = dict(zip("NHWCKRSYZ", (*pictures, *filters, *wanted.shape[1:3]), strict=True))
    run(CHANNELS_LAST % ("bf16", *window), {"X": x, "F": f, "out": out}, sizes)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize("processors", [2, 64])
def test_weights_that_are_not_finite_meet_no_zeros(channels: int, processors: int) -> None:
    x, f = small(3, 2, 4, 5, channels), small(4, 24, 3, 3, channels)
    f[1, 0, 0, 2], f[2, 2, 1, 0], f[20, 1, 2, 1] = np.inf, np.nan, -np.inf
    x[0, 3, 3, 2], x[1, 0, 0, 1] = np.nan, 0
    wanted = convolved(x, f, 1, 1, 1).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    sizes = dict(zip("NHWCKRSYZ", (2, 4, 5, channels, 24, 3, 3, 4, 5), strict=True))
    run(CHANNELS_LAST % ("bf16", 1, 1, 1), {"X": x, "F": f, "out": out}, sizes, processors)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))
    assert np.isfinite(wanted[:, 0, :, 1]).any() and np.isnan(wanted).any() and np.isinf(wanted).any()


def test_one_channel_that_no_axis_names() -> None:
    x, f = small(5, 3, 50).astype(np.float16), small(6, 5, 24).astype(np.float16)
    out = np.full((3, 50, 24), -7, np.float32)
    run(TOKENS_AND_TAPS, {"X": x, "F": f, "out": out}, {"B": 3, "T": 50, "J": 5, "K": 24})
    wide = np.pad(x, ((0, 0), (2, 2))).astype(np.float64)
    wanted = sum(wide[:, j : j + 50, None] * f[j].astype(np.float64) for j in range(5))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("channels", [5, 24])
def test_groups_with_their_channels_first(channels: int) -> None:
    n, g, h, w, k = 2, 3, 6, 5, 24
    x, f, bias = small(7, n, h, w, g, channels), small(8, g, k, 3, 3, channels), np.arange(g * k, dtype=np.float32).reshape(g, k)
    sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    wanted = np.maximum(sums + bias, 0).astype(BF16).transpose(0, 3, 4, 1, 2)
    out = np.full(wanted.shape, -7, BF16)
    x, f = np.ascontiguousarray(x.transpose(0, 3, 4, 1, 2)), np.ascontiguousarray(f.transpose(0, 4, 2, 3, 1))
    sizes = {"N": n, "G": g, "C": channels, "H": h, "W": w, "R": 3, "S": 3, "K": k}
    run(GROUPS_FIRST, {"X": x, "F": f, "bias": bias, "out": out}, sizes)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("channels", [3, 24])
def test_solids(channels: int) -> None:
    n, d, h, w, k = 2, 4, 5, 6, 16
    x, f = small(9, n, channels, d, h, w), small(10, k, channels, 2, 2, 2)
    wanted = np.zeros((n, k, d - 1, h - 1, w - 1))
    for p, q, r in np.ndindex(2, 2, 2):
        part = x[:, :, p : p + d - 1, q : q + h - 1, r : r + w - 1].astype(np.float64)
        wanted += np.einsum("ncdhw,kc->nkdhw", part, f[..., p, q, r].astype(np.float64))
    out = np.full(wanted.shape, -7, np.float32)
    run(SOLID, {"X": x, "F": f, "out": out}, {"N": n, "C": channels, "D": d, "H": h, "W": w, "K": k, "P": 2, "Q": 2, "R": 2})
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    ("groups", "channels", "filters", "weight", "pixel", "form"),
    [
        (8, 8, 8, 1.0, 0, "one guard"),
        (16, 4, 8, np.inf, 0, "one guard"),
        (5, 4, 6, np.inf, 0, "guards in each other"),
        (3, 16, 9, 1.0, np.nan, "zeros"),
        (3, 5, 3, np.nan, np.inf, "one guard"),
        (4, 32, 24, np.inf, 0, "one guard"),
    ],
    ids=str,
)
def test_groups_of_few_channels(groups: int, channels: int, filters: int, weight: float, pixel: float, form: str) -> None:
    n, h, w, g, c, k = sizes = (1, 3, 3, groups, channels, filters)
    x, f, z = small(9, n, h, w, g, c), small(10, g, k, 3, 3, c), small(11, n, h, w, g, k)
    bias = np.arange(g * k, dtype=np.float32).reshape(g, k)
    f[1, 2, 0, 1, 2], x[0, 2, 1, 1, 3] = weight, pixel
    with np.errstate(invalid="ignore"):
        sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    if form == "zeros" and not np.isfinite(weight):
        sums[:, 0, :, 1, 2] = np.nan
    wanted = (np.maximum(sums + bias, 0) + z.astype(np.float64)).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    known = {**dict(zip("NHWGCK", sizes, strict=True)), "R": 3, "S": 3}
    made = run(GROUPED.replace("FORM", FORMS[form]), {"X": x, "F": f, "bias": bias, "Z": z, "out": out}, known)
    assert len(made.launches) == (2 if groups * channels % 64 == 0 else 3)  # channels in whole groups are read in place
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))
