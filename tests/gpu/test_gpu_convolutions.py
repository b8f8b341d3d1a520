"""Convolutions on a GPU, in every stride, padding and dilation, with channels that boxes have and channels that they haven't; weights that
aren't finite at the border; sizes of real networks against cuDNN where PyTorch is here."""

import numpy as np
import pytest

import zynml
from tests.schedule.test_gpu_residue_parts import expected_of, in_bf16, text_of
from tests.windows import BF16, CASES, CHANNELS_FIRST, CHANNELS_LAST, FORMS, GROUPED, ODD, VALID, convolved, small

MORE = [
    ((4, 33, 31, 64), (100, 3, 3), (1, 1, 1)),
    ((1, 1, 1, 128), (64, 3, 3), (1, 1, 1)),
    ((7, 14, 14, 256), (64, 1, 1), (1, 0, 1)),
    ((2, 40, 40, 16), (24, 7, 7), (2, 3, 1)),
    ((2, 31, 31, 32), (40, 3, 3), (9, 1, 1)),
    ((2, 64, 64, 3), (96, 16, 16), (16, 0, 1)),
    ((3, 37, 41, 5), (33, 3, 3), (1, 2, 2)),
    ((2, 30, 30, 3), (64, 7, 7), (2, 3, 1)),
    ((1, 3, 500, 17), (40, 1, 9), (1, 4, 1)),
]


@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize(("pictures", "filters", "window"), [*CASES, *ODD, *MORE], ids=str)
def test_windows(pictures: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, int, int], to: str) -> None:
    x, f = small(1, *pictures), small(2, *filters, pictures[-1])
    wanted = convolved(x, f, *window).astype({"bf16": BF16, "f32": np.float32}[to])
    p = zynml.compile(CHANNELS_LAST % (to, *window), device="cuda:0")
    np.testing.assert_array_equal(p.f(x, f).astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize(("pictures", "filters", "window"), [*CASES, *ODD, *MORE], ids=str)
def test_channels_first(pictures: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, int, int], to: str) -> None:
    x, f = small(1, *pictures), small(2, *filters, pictures[-1])
    wanted = convolved(x, f, *window).astype({"bf16": BF16, "f32": np.float32}[to])
    p = zynml.compile(CHANNELS_FIRST % (to, *window), device="cuda:0")
    for _ in range(2):
        found = p.f(*(np.ascontiguousarray(np.moveaxis(one, -1, 1)) for one in (x, f)))
        np.testing.assert_array_equal(np.moveaxis(np.asarray(found), 1, -1).astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize("channels", [3, 20, 32])
@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_are_not_finite(to: str, channels: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, f = small(3, 3, 19, 17, channels), small(4, 72, 3, 3, channels)
    for number in (np.inf, -np.inf, np.nan):
        f[tuple(random.integers(0, extent) for extent in f.shape)] = number
        x[tuple(random.integers(0, extent) for extent in x.shape)] = number
    wanted = convolved(x, f, 1, 1, 1).astype({"bf16": BF16, "f32": np.float32}[to])
    p = zynml.compile(CHANNELS_LAST % (to, 1, 1, 1), device="cuda:0")
    for _ in range(3):
        np.testing.assert_array_equal(p.f(x, f).astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [1.0, np.inf], ids=str)
def test_groups_and_what_follows(form: str, weight: float) -> None:
    n, h, w, g, c, k = 5, 13, 9, 3, 48, 40
    x, f, z = small(9, n, h, w, g, c), small(10, g, k, 3, 3, c), small(11, n, h, w, g, k)
    bias = np.arange(g * k, dtype=np.float32).reshape(g, k)
    f[1, 3, 0, 1, 2] = weight
    sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    if form == "zeros" and not np.isfinite(weight):
        sums[:, 0, :, 1, 3] = np.nan
    wanted = (np.maximum(sums + bias, 0) + z.astype(np.float64)).astype(BF16)
    p = zynml.compile(GROUPED.replace("FORM", FORMS[form]), device="cuda:0")
    np.testing.assert_array_equal(p.f(x, f, bias, z).astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("groups", [(32, 8, 8), (7, 4, 5), (9, 16, 17), (3, 5, 3), (66, 1, 2)], ids=str)
@pytest.mark.parametrize("number", [1.0, np.inf, np.nan], ids=str)
def test_groups_of_few_channels(groups: tuple[int, int, int], number: float, form: str) -> None:
    n, h, w, g, c, k = 3, 11, 14, *groups
    x, f, z = small(9, n, h, w, g, c), small(10, g, k, 3, 3, c), small(11, n, h, w, g, k)
    bias = np.arange(g * k, dtype=np.float32).reshape(g, k) % 50
    x[1, 4, 5, 1, 0] = number
    with np.errstate(invalid="ignore"):
        sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    wanted = (np.maximum(sums + bias, 0) + z.astype(np.float64)).astype(BF16)
    p = zynml.compile(GROUPED.replace("FORM", FORMS[form]), device="cuda:0")
    for _ in range(2):
        np.testing.assert_array_equal(p.f(x, f, bias, z).astype(np.float32), wanted.astype(np.float32))


def test_windows_without_borders() -> None:
    x, f, bias = small(5, 3, 21, 37, 72), small(6, 3, 2, 72, 64), np.arange(64, dtype=np.float32) - 30
    wanted = np.maximum(convolved(x, f.transpose(3, 0, 1, 2), 1, 0, 1) + bias, 0).astype(BF16)
    p = zynml.compile(VALID, device="cuda:0")
    np.testing.assert_array_equal(p.f(x, f, bias), wanted)


LAYERS = [
    (56, 64, 64, 1, 1),
    (56, 64, 64, 3, 1),
    (56, 64, 256, 1, 1),
    (28, 128, 128, 3, 1),
    (56, 128, 128, 3, 2),
    (14, 256, 256, 3, 1),
    (7, 512, 512, 3, 1),
    (224, 3, 64, 7, 2),
    (56, 36, 72, 3, 1),
    (56, 256, 256, 3, 1),
]


@pytest.mark.parametrize("last", [True, False], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize(("side", "channels", "filters", "taps", "stride"), LAYERS, ids=str)
def test_layers_of_a_network(side: int, channels: int, filters: int, taps: int, stride: int, last: bool) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    make = torch.Generator(device="cuda").manual_seed(1)
    x = torch.randn(8, side, side, channels, device="cuda", generator=make).bfloat16()
    f = torch.randn(filters, taps, taps, channels, device="cuda", generator=make).bfloat16()
    first = [one.permute(0, 3, 1, 2) for one in (x, f)]
    wanted = torch.nn.functional.conv2d(*(one.double() for one in first), stride=stride, padding=taps // 2)
    if last:
        p, wanted = zynml.compile(CHANNELS_LAST % ("f32", stride, taps // 2, 1)), wanted.permute(0, 2, 3, 1)
        found = torch.from_dlpack(p.f(x, f)).double()
    else:
        p = zynml.compile(CHANNELS_FIRST % ("f32", stride, taps // 2, 1))
        found = torch.from_dlpack(p.f(*(one.contiguous() for one in first))).double()
    assert found.shape == wanted.shape
    # products of bf16 are exact in f32; the tensor cores add 16 of them to a sum at a time and cut off what doesn't fit, always towards
    # zero. So each step takes half a unit of 2^-23 from a sum that grows to its end, all in one direction: in proportion to the steps
    steps = channels * taps * taps / 16
    assert float((found - wanted).norm() / wanted.norm()) < 2.0**-23 * (4 + steps / 2)


@pytest.mark.parametrize(
    ("rank", "window", "padding", "x", "filters"),
    [
        (2, 4, 1, (2, 64, 64, 64), 64),
        (2, 4, 1, (3, 128, 31, 47), 72),
        (2, 2, 0, (5, 72, 33, 64), 136),
        (3, 2, 0, (2, 64, 9, 17, 32), 64),
    ],
    ids=str,
)
def test_transposed_in_bf16(rank: int, window: int, padding: int, x: tuple[int, ...], filters: int) -> None:
    """Residues with as many taps, which are one product."""
    pictures, weight = small(1, *x), small(2, x[1], filters, *[window] * rank)
    wanted = expected_of(pictures, weight, 2, padding, 1, 0, 1, rank).astype(np.float32).astype(BF16)
    p = zynml.compile(in_bf16(text_of(rank, 2, padding, 1, 0, 1)), device="cuda:0")
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(p.f(pictures, weight)).astype(np.float32), wanted.astype(np.float32))
