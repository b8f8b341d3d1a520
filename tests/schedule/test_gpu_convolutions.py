"""Convolutions, and products whose rows lie along several axes, on warpgroups: in every stride, padding and dilation what the nest means,
and what weights that aren't finite do at the border."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.fusion.program_kernels import kernels
from compiler.hir.hopper import BulkLoad, WarpgroupMma
from compiler.hir.verify import verify
from compiler.launch.kernels import BuiltKernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.launches import Launches
from tests.windows import BF16, CASES, CHANNELS_LAST, FORMS, GROUPED, VALID, convolved, small

NUMPY = {"bf16": BF16, "f32": np.float32}

TEXTS = """
def f(X: tensor[B, T, K, bf16], A: tensor[K, N, bf16]) {
    compute(X, A) -> tensor[B, T, N, bf16] {
        for b in 0..B, t in 0..T, n in 0..N {
            var s = 0.0
            for k in 0..K: s += X[b, t, k] * A[k, n]
            out[b, t, n] = s
        }
    }
}"""


def built(source: str) -> BuiltKernel:
    program = zynml.compile(source)
    ((_, kernel),) = kernels(program._session)
    return kernel


def launches(kernel: BuiltKernel, sizes: dict[str, int], processors: int = 2, architecture: str = "sm_90a") -> Launches:
    memories = [parameter.name for parameter in kernel.nest.parameters]
    made = launches_for(kernel.nest, kernel.field, facts_of(sizes, memories, MACHINES[architecture], processors))
    for launch in made.launches:
        verify(launch.function)
    return made


def on_warpgroups(made: Launches) -> bool:
    return any(isinstance(op, WarpgroupMma) for one in made.launches for top in one.function.body.body for op in top.walk())


def run(kernel: BuiltKernel, arrays: dict[str, Any], sizes: dict[str, int], processors: int = 2) -> None:
    made = launches(kernel, sizes, processors)
    assert on_warpgroups(made)
    given = [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters]
    arguments, known = made.counted(given, sizes)
    for mem in made.workspaces:
        arguments.append(np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], np.nan, np.float32))
    (launch,) = made.launches
    interpret(launch.function, arguments, grid=(launch.blocks(known), 1, 1))




@pytest.mark.parametrize("to", ["bf16", "f32"])
@pytest.mark.parametrize(("pictures", "filters", "window"), CASES, ids=str)
def test_windows_in_every_step(pictures: tuple[int, ...], filters: tuple[int, ...], window: tuple[int, int, int], to: str) -> None:
    x, f = small(1, *pictures), small(2, *filters, pictures[-1])
    wanted = convolved(x, f, *window)
    out = np.full(wanted.shape, -7, NUMPY[to])
    sizes = dict(zip("NHWCKRSYZ", (*pictures, *filters, *wanted.shape[1:3]), strict=True))
    run(built(CHANNELS_LAST % (to, *window)), {"X": x, "F": f, "out": out}, sizes)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(NUMPY[to]).astype(np.float32))


@pytest.mark.parametrize(("to", "processors"), [("bf16", 2), ("f32", 2), ("bf16", 64)])
def test_weights_that_are_not_finite_meet_no_zeros_of_the_border(to: str, processors: int) -> None:
    x, f = small(3, 2, 4, 5, 16), small(4, 24, 3, 3, 16)
    f[1, 0, 0, 5], f[2, 2, 1, 0], f[20, 1, 1, 15] = np.inf, np.nan, -np.inf
    x[0, 3, 3, 2], x[1, 0, 0, 5] = np.nan, 0
    wanted = convolved(x, f, 1, 1, 1)
    out = np.full(wanted.shape, -7, NUMPY[to])
    sizes = dict(zip("NHWCKRSYZ", (2, 4, 5, 16, 24, 3, 3, 4, 5), strict=True))
    run(built(CHANNELS_LAST % (to, 1, 1, 1)), {"X": x, "F": f, "out": out}, sizes, processors)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(NUMPY[to]).astype(np.float32))
    assert np.isfinite(wanted[:, 0, :, 1]).any() and np.isnan(wanted).any() and np.isinf(wanted).any()


@pytest.mark.parametrize("pictures", [(2, 10, 10, 24), (1, 5, 37, 64)], ids=str)
def test_windows_without_borders_and_what_follows(pictures: tuple[int, int, int, int]) -> None:
    n, h, w, c = pictures
    x, f, bias = small(5, *pictures), small(6, 3, 2, c, 64), np.arange(64, dtype=np.float32) - 30
    wanted = np.maximum(convolved(x, f.transpose(3, 0, 1, 2), 1, 0, 1) + bias, 0).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    sizes = {"N": n, "H": h, "W": w, "C": c, "R": 3, "S": 2, "K": 64}
    run(built(VALID), {"X": x, "F": f, "bias": bias, "out": out}, sizes)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [1.0, np.inf], ids=str)
def test_every_way_to_write_a_window_in_groups(form: str, weight: float) -> None:
    n, h, w, g, c, k = sizes = (1, 3, 4, 3, 40, 24)
    x, f, z, bias = small(9, n, h, w, g, c), small(10, g, k, 3, 3, c), small(11, n, h, w, g, k), np.arange(g * k, dtype=np.float32).reshape(g, k)
    f[1, 3, 0, 1, 2] = weight
    sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    if form == "zeros" and not np.isfinite(weight):
        # the program multiplies the border's zeros
        sums[:, 0, :, 1, 3] = np.nan
    wanted = (np.maximum(sums + bias, 0) + z.astype(np.float64)).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    known = {**dict(zip("NHWGCK", sizes, strict=True)), "R": 3, "S": 3}
    run(built(GROUPED.replace("FORM", FORMS[form])), {"X": x, "F": f, "bias": bias, "Z": z, "out": out}, known)
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("texts", [(3, 50, 72), (1, 128, 64), (17, 8, 80), (130, 1, 64)], ids=str)
def test_rows_along_several_axes(texts: tuple[int, int, int]) -> None:
    x, a = small(7, *texts), small(8, texts[-1], 80)
    wanted = (x.astype(np.float64) @ a.astype(np.float64)).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    run(built(TEXTS), {"X": x, "A": a, "out": out}, dict(zip("BTKN", (*texts, 80), strict=True)))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("window", [(1, 1, 1), (2, 1, 1), (1, 0, 1)], ids=str)
def test_the_assembler_keeps_products_side_by_side(window: tuple[int, int, int]) -> None:
    taps = 1 if window[1] == 0 else 3
    sizes = dict(zip("NHWCKRSYZ", (32, 56, 56, 256, 256, taps, taps, 56 // window[0], 56 // window[0]), strict=True))
    made = launches(built(CHANNELS_LAST % ("bf16", *window)), sizes, 132)
    assert on_warpgroups(made)
    module = compile_kernels([one.function for one in made.launches], gpu_target("sm_90a"))
    assert module.hands_registers
    cubin = assemble(module)
    assert all(use.spills == 0 for use in cubin.kernels.values()), cubin.kernels
    assert "C7509" not in cubin.log and "C7510" not in cubin.log and "C7519" not in cubin.log, cubin.log


def boxes(made: Launches) -> list[BulkLoad]:
    return [op for one in made.launches for top in one.function.body.body for op in top.walk() if isinstance(op, BulkLoad)]


def test_tiles_fill_pictures() -> None:
    kernel = built(CHANNELS_LAST % ("bf16", 1, 1, 1))
    for side, box in ((56, (2, 8, 8, 64)), (28, (16, 4, 4, 64)), (32, (1, 8, 32, 64))):
        sizes = dict(zip("NHWCKRSYZ", (32, side, side, 64, 64, 3, 3, side, side), strict=True))
        assert boxes(launches(kernel, sizes, 132))[0].box == box


def test_what_boxes_can_not_have_is_left_to_others() -> None:
    def chosen(source: str, **sizes: int) -> bool:
        return on_warpgroups(launches(built(source), sizes, 132))

    good = dict(zip("NHWCKRSYZ", (8, 28, 28, 64, 64, 3, 3, 28, 28), strict=True))
    plain = CHANNELS_LAST % ("bf16", 1, 1, 1)
    assert chosen(plain, **good)
    assert not chosen(plain.replace("tensor[N, H, W, C, bf16]", "tensor[N, H, W, C, f16]"), **good)
    assert not chosen(CHANNELS_LAST % ("bf16", 9, 1, 1), **good)  # boxes leave out seven elements at most
    assert not chosen(plain.replace("j < W {", "j < W - 1 {"), **good)  # the guard says more than that places exist
    assert not chosen(plain.replace("i >= 0 and", "i >= 0 and k >= c and"), **good)
    assert not chosen(plain.replace("* F[k, r, q, c]", "* (F[k, r, q, c] * 2.0)"), **good)  # a weight that is computed
