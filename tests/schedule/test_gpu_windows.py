"""Convolutions on tiles of threads: other types than boxes have, and processors older than Hopper."""

from typing import Any

import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.tensor_core import WarpMma
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built, launches
from tests.schedule.test_gpu_distribute import workspaces
from tests.windows import BF16, CHANNELS_FIRST, CHANNELS_LAST, FORMS, GROUPED, convolved, small

NUMPY = {"f16": np.float16, "bf16": BF16, "f32": np.float32, "f64": np.float64}


def has(made: Launches, kind: type) -> bool:
    return any(isinstance(op, kind) for one in made.launches for top in one.function.body.body for op in top.walk())


def run(source: str, arrays: dict[str, Any], sizes: dict[str, int], architecture: str) -> Launches:
    kernel = built(source)
    made = launches(kernel, sizes, 2, architecture)
    given = [arrays[one.name] if one.name in arrays else sizes[one.name] for one in kernel.nest.parameters]
    arguments, known = made.counted(given, sizes)
    shared = workspaces(made, known)
    for number, after in made.steps(known):
        launch = made.launches[number]
        interpret(launch.function, [*arguments, *shared, *after], grid=(launch.blocks(known), 1, 1))
    return made


@pytest.mark.parametrize("last", [True, False], ids=["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("types", "architecture", "pictures", "filters", "window", "weight"),
    [
        ("f32", "sm_90a", (1, 5, 4, 6), (9, 3, 3), (1, 1, 1), np.inf),
        ("f32", "sm_75", (1, 9, 8, 5), (5, 2, 3), (2, 2, 1), 1.0),
        ("f64", "sm_80", (1, 5, 6, 4), (20, 3, 3), (1, 2, 2), np.nan),
        ("bf16", "sm_80", (1, 5, 4, 16), (17, 3, 3), (1, 1, 1), -np.inf),
        ("f16", "sm_75", (2, 6, 3, 17), (20, 3, 3), (1, 1, 1), np.nan),
        ("f32", "sm_75", (1, 4, 3, 3), (2, 2, 2), (1, 1, 1), np.inf),
    ],
    ids=str,
)
def test_windows(
    types: str,
    architecture: str,
    pictures: tuple[int, ...],
    filters: tuple[int, ...],
    window: tuple[int, int, int],
    weight: float,
    last: bool,
) -> None:
    to = "f64" if types == "f64" else "f32"
    source = ((CHANNELS_LAST if last else CHANNELS_FIRST) % (to, *window)).replace("bf16", types)
    if to == "f64":
        source = source.replace("var s = 0.0", "var s = 0.0 as f64")
    x, f = small(1, *pictures).astype(NUMPY[types]), small(2, *filters, pictures[-1]).astype(NUMPY[types])
    f[1, 0, 1, 2], x[0, 3, 2, 1] = weight, np.nan if np.isnan(weight) else 2
    wanted = convolved(x, f, *window)
    sizes = dict(zip("NHWCKRSYZ", (*pictures, *filters, *wanted.shape[1:3]), strict=True))
    if not last:
        x, f, wanted = (np.ascontiguousarray(np.moveaxis(one, -1, 1)) for one in (x, f, wanted))
    out = np.full(wanted.shape, -7, NUMPY[to])
    made = run(source, {"X": x, "F": f, "out": out}, sizes, architecture)
    assert has(made, WarpMma) is (types in ("f16", "bf16"))
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_write_a_window_and_what_follows(form: str) -> None:
    n, h, w, g, c, k = sizes = (1, 4, 5, 2, 16, 17)
    x, f, z, bias = small(9, n, h, w, g, c), small(10, g, k, 3, 3, c), small(11, n, h, w, g, k), np.arange(g * k, dtype=np.float32)
    bias = bias.reshape(g, k)
    f[1, 3, 0, 1, 2] = np.inf if form != "zeros" else 3
    sums = np.stack([convolved(x[..., group, :], f[group], 1, 1, 1) for group in range(g)], axis=3)
    wanted = (np.maximum(sums + bias, 0) + z.astype(np.float64)).astype(BF16)
    out = np.full(wanted.shape, -7, BF16)
    known = {**dict(zip("NHWGCK", sizes, strict=True)), "R": 3, "S": 3}
    run(GROUPED.replace("FORM", FORMS[form]), {"X": x, "F": f, "bias": bias, "Z": z, "out": out}, known, "sm_86")
    np.testing.assert_array_equal(out.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize(("types", "target"), [("f32", "sm_90"), ("bf16", "sm_80"), ("f16", "sm_75"), ("f64", "sm_80")])
def test_no_kernel_spills(types: str, target: str) -> None:
    sizes = dict(zip("NHWCKRSYZ", (32, 56, 56, 64, 64, 3, 3, 56, 56), strict=True))
    made = launches(built((CHANNELS_LAST % ("f32", 1, 1, 1)).replace("bf16", types)), sizes, 132, target)
    cubin = assemble(compile_kernels([one.function for one in made.launches], gpu_target(target)))
    assert all(use.spills == 0 for use in cubin.kernels.values()), cubin.kernels
