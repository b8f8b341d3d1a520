"""Windows whose channels come first: tiles lie along what results are contiguous along, boxes reach no further than the hardware's do, and
a window of one tap is a plain product."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from bench.gpu.sources import convolution
from compiler.hir.gpu import SharedAlloc
from compiler.schedule.gpu.products import tiling
from compiler.schedule.gpu.products.tiling import ProductWork, TileRequests, ranked
from tests.windows import BF16, small

DEVICE = "emulator:sm_90a"
WINDOW = """
def f(x: tensor[N, C, H, W], weight: tensor[O, C, Q, R]) {
    compute(x, weight) {
        for n in 0..N, o in 0..O, y in 0..H - Q + 1, z in 0..(W - R) / STRIDE + 1:
            var total = 0.0
            for c in 0..C, q in 0..Q, r in 0..R: total += x[n, c, y + q, STRIDE * z + r] * weight[o, c, q, r]
            out[n, o, y, z] = total
    }
}"""


def words(text: str, like: str, **options: Any) -> tuple[str, ...]:
    (kernel,) = zynml.compile(text, **options)._session.launches_like([like], DEVICE)
    return kernel.threads.launches.words


@pytest.mark.parametrize(("stride", "width"), [(1, 1028), (1, 202), (3, 3080)])
def test_tiles_lie_along_the_results_rows(stride: int, width: int) -> None:
    """Of 128 pixels a box with every third would reach over 384, more than there can be; of 4 a line of cache would hardly be begun."""
    said = words(WINDOW.replace("STRIDE", str(stride)), f"x=8x64x1026x{width}:f32, weight=64x64x3x3:f32", products="tf32")
    (tile,) = (found for line in said if (found := re.match(r"tiles of ([\d x]+) by 64,", line)))
    assert 32 <= int(tile[1].split(" x ")[-1]) <= 256 // stride


def test_no_tile_is_wider_than_one_that_holds_all_columns() -> None:
    work = ProductWork(("i",), 1, (1 << 20,), 64, 18, 132, hot=True, across=1)
    assert ranked(work, lambda rows: (rows,), TileRequests())[0].tiling.columns == 64


@pytest.mark.parametrize(("side", "stride"), [((5, 16), 1), ((7, 9), 2), ((5, 7), 1)])
def test_a_window_of_one_tap_is_a_plain_product(side: tuple[int, int], stride: int) -> None:
    x, f = small(1, 2, 64, *side).astype(np.float32), small(2, 40, 64).astype(np.float32)
    program = zynml.compile(convolution(stride, 0, 1, "bf16", False), device=DEVICE)
    got = np.asarray(program.f(x.astype(BF16), f[:, :, None, None].astype(BF16)))
    wanted = np.einsum("nchw,oc->nohw", x, f)[:, :, ::stride, ::stride]
    np.testing.assert_array_equal(got.astype(np.float32), wanted.astype(BF16).astype(np.float32))


def test_pixels_of_a_window_of_one_tap_are_one_axis() -> None:
    """Rows of 28 pixels of 16 bits are no boxes; those of 784 are, and nothing is copied."""
    said = words(convolution(1, 0, 1, "bf16", False), "X=32x512x28x28:bf16, F=128x512x1x1:bf16")
    assert said[0].startswith("tiles of 256 by 128,"), said
    kept = words(convolution(1, 0, 1, "bf16", False), "X=32x512x28x28:bf16, F=128x512x3x3:bf16")
    assert kept[0].startswith("X is copied first"), kept


def test_results_of_f32_leave_in_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums change places in shared memory first; a lane's rows are its own and those 32 further on."""
    monkeypatch.setattr(tiling, "WIDTHS", (64,))
    x, f = (small(seed, *shape).astype(np.float32) for seed, shape in ((1, (1, 32, 3, 72)), (2, (40, 32, 2, 3))))
    text = WINDOW.replace("STRIDE", "1")
    taps = [(q, r, x[:, :, q : q + 2, r : r + 70]) for q in range(2) for r in range(3)]
    wanted = sum(np.einsum("nchw,oc->nohw", part, f[:, :, q, r]) for q, r, part in taps)
    np.testing.assert_array_equal(np.asarray(zynml.compile(text, device=DEVICE, products="tf32").f(x, f)), wanted)
    like = "x=1x32x3x72:f32, weight=40x32x2x3:f32"
    (kernel,) = zynml.compile(text, products="tf32")._session.launches_like([like], DEVICE)
    (product,) = (one.function for one in kernel.threads.launches.launches if "copy" not in one.function.name)
    assert any(isinstance(op, SharedAlloc) and op.result.name.startswith("turned") for op in product.body.body)
