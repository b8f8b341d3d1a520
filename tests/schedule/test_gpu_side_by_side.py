"""Axes that stand side by side in memory made one, and reductions along several axes. Expected values from NumPy in float64."""

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.launch.thread_kernels import launch_facts, thread_kernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import NOTHING, facts_of, specialised
from compiler.schedule.gpu.rewrites.side_by_side import joined_axes
from compiler.schedule.gpu.tiles import rows
from compiler.schedule.launches import Launches

GROUP_NORM = """def f(x: tensor[N, G, C, H, W], gain: tensor[G, C]) { compute(x, gain) { for n in 0..N, g in 0..G {
    var t = 0.0
    for c in 0..C, h in 0..H, w in 0..W: t += x[n, g, c, h, w]
    let mean = t / ((C * H * W) as f32)
    var v = 0.0
    for c in 0..C, h in 0..H, w in 0..W: v += (x[n, g, c, h, w] - mean) * (x[n, g, c, h, w] - mean)
    let r = rsqrt(v / ((C * H * W) as f32) + 0.00001)
    for c in 0..C, h in 0..H, w in 0..W: out[n, g, c, h, w] = (x[n, g, c, h, w] - mean) * r * gain[g, c]
} } }"""

BATCH_VARIANCE = """def f(x: tensor[N, C, H, W]) { compute(x) -> tensor[C, f32] { for c in 0..C {
    var t = 0.0
    for n in 0..N, h in 0..H, w in 0..W: t += x[n, c, h, w]
    let mean = t / ((N * H * W) as f32)
    var v = 0.0
    for n in 0..N, h in 0..H, w in 0..W: v += (x[n, c, h, w] - mean) * (x[n, c, h, w] - mean)
    out[c] = v / ((N * H * W) as f32)
} } }"""

OUTER_SUMS = """def f(x: tensor[A, B, C]) {
    compute(x) { for b in 0..B, c in 0..C { var t = 0.0
        for a in 0..A: t += x[a, b, c]
        out[b, c] = t } } }"""


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", ["sm_90a", "sm_75"])
@pytest.mark.parametrize("shape", [(2, 3, 2, 5, 7), (1, 2, 3, 8, 8), (2, 2, 4, 1, 3), (1, 1, 9, 16, 16)])
def test_group_norms(shape: tuple[int, ...], target: str) -> None:
    x, gain = normal(*shape), normal(*shape[1:3])
    wide, over = x.astype(np.float64), (2, 3, 4)
    expected = (wide - wide.mean(over, keepdims=True)) / np.sqrt(wide.var(over, keepdims=True) + 1e-5) * gain[None, :, :, None, None]
    np.testing.assert_allclose(zynml.compile(GROUP_NORM, device=f"emulator:{target}").f(x, gain), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 2, 8, 8), (9, 2, 1, 31), (0, 2, 3, 4), (40, 1, 3, 16)])
def test_variances_of_channels(shape: tuple[int, ...], parts: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one launch, and in parts; with rows that registers hold, and without."""
    if parts:
        request.getfixturevalue("in_parts")
        monkeypatch.setattr(rows, "MOST_THREADS", 1)
    x = normal(*shape)
    with np.errstate(all="ignore"):
        found = zynml.compile(BATCH_VARIANCE, device="emulator:sm_80").f(x)
        expected = x.astype(np.float64).var((0, 2, 3)) if shape[0] else np.full(shape[1], np.nan)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3, 5), (3, 8, 8), (2, 0, 3), (33, 1, 7)])
def test_sums_that_leave_several_axes(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    np.testing.assert_allclose(zynml.compile(OUTER_SUMS, device="emulator").f(x), x.astype(np.float64).sum(0), rtol=1e-5, atol=1e-6)


def made(source: str, sizes: dict[str, int]) -> Launches:
    ((compute, kernel),) = kernels(zynml.compile(source)._session)
    found = thread_kernel(kernel, compute, launch_facts(kernel, sizes, ["x", "out", "gain"], MACHINES["sm_90a"])).launches
    assert found is not None
    return found


def test_extents_are_products_that_the_launch_computes() -> None:
    found = made(OUTER_SUMS, {"A": 100, "B": 24, "C": 37})
    (product,) = found.products
    arguments, known = found.counted([None, None, 100, 24, 37], {"A": 100, "B": 24, "C": 37})
    assert known[product.name] * product.unit == 24 * 37
    assert arguments[5] == known[product.name] and len(arguments) == 6
    assert product.value({"B_8": -1, "C": 37}) == 0


def test_rows_of_several_axes_are_read_once() -> None:
    """Their lengths are constants of the kernel, so that no product is left."""
    found = made(GROUP_NORM, {"N": 32, "G": 32, "C": 8, "H": 56, "W": 56})
    assert not found.products
    assert [launch.block for launch in found.launches] == [(512, 1, 1)]


def field(index: tuple[str, ...] = ("i", "j"), over: tuple[str, ...] = ("i", "j"), place: bool = False) -> HirFunction:
    """The sum of x[k, i, j] along some axes, less a value along one of them."""
    f = FunctionBuilder("field", Form.FIELD, {"k": "K", "i": "M", "j": "N"})
    x = f.parameter("x", Mem("f32", ("K", "M", "N"), readonly=True))
    y = f.parameter("y", Mem("f32", ("M", "N") if len(index) == 2 else ("M",), readonly=True))
    out = f.parameter("out", Mem("f32", tuple({"k": "K", "i": "M", "j": "N"}[axis] for axis in "kij" if axis not in over)))
    for size in "KMN":
        f.parameter(size, INDEX)
    value = f.body.sub(f.body.load(x, ["k", "i", "j"]), f.body.load(y, list(index)))
    if place:
        value = f.body.mul(value, f.body.cast(f.body.index("i"), "f32"))
    f.body.store(out, f.body.reduce("add", value, over=list(over), flags=("reassoc",))[0], [axis for axis in "kij" if axis not in over])
    return f.finish()


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (field(), {"k", "i"}),
        (field(over=("k",)), {"k", "i"}),
        (field(index=("i",)), {"k", "i", "j"}),
        (field(over=("j",)), {"k", "i", "j"}),
        (field(over=("k", "j")), {"k", "i", "j"}),
        (field(place=True), {"k", "i", "j"}),
        (field(index=("j", "i")), {"k", "i", "j"}),
    ],
    ids=["both summed", "both left", "one has a value of its own", "one summed", "not neighbours", "its place counts", "turned"],
)
def test_which_axes_become_one(given: HirFunction, left: set[str]) -> None:
    known, _, about = specialised(given, facts_of({"K": 3, "M": 5, "N": 7}, ()))
    assert set(joined_axes(known, about)[0].axes) == left
    assert joined_axes(known, NOTHING)[2].about(known.axes["k"]) > 0


IN_ONE_PLACE = """def f(x: tensor[M, N]) { compute(x) -> tensor[1] { for k in 0..1 {
    var s = 0.0
    for i in 0..M, j in 0..N: s += x[i, j]
    out[k] = s
} } }"""

SCALED = """def f(x: tensor[M, N], y: tensor[A, B]) { compute(x, y) -> tensor[A, B] { for a in 0..A, b in 0..B {
    var s = 0.0
    for i in 0..M, j in 0..N: s += x[i, j]
    out[a, b] = s * y[a, b]
} } }"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_75"])
@pytest.mark.parametrize("shape", [(5, 7), (40, 33), (0, 3), (300, 20)])
def test_a_sum_that_no_result_varies_with(shape: tuple[int, int], target: str) -> None:
    """It is everybody's: all blocks share it, and what is computed from it is a launch behind."""
    x, y = normal(*shape), normal(3, 37)
    total = x.astype(np.float64).sum()
    np.testing.assert_allclose(zynml.compile(IN_ONE_PLACE, device=f"emulator:{target}").f(x), [total], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(zynml.compile(SCALED, device=f"emulator:{target}").f(x, y), total * y, rtol=1e-4, atol=1e-5)
    assert len(made(IN_ONE_PLACE, {"M": 4096, "N": 1024}).launches) == 2


@pytest.mark.parametrize("inner", ["n", "r", "c", "t"])
def test_axes_of_any_name(inner: str) -> None:
    """The registers and digits of an axis have names of their own, too."""
    program = f"def f(x: tensor[A, B]) {{ compute(x) @kernel reduce(+) {{ for j in 0..A, {inner} in 0..B: yield x[j, {inner}] }} }}"
    assert zynml.compile(program, device="emulator:sm_90a").f(np.ones((478, 257), np.float32)) == 478 * 257
