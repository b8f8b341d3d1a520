"""Reductions that blocks share: everything, and few rows or columns. Run block by block in the interpreter, whichever comes last joins;
expected values from NumPy in float64, exact integers, and first places of the best."""

import numpy as np
import pytest

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.tiles.tables import block_table
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_maps import ptx

RNG = np.random.default_rng(8)

MOMENTS = """def f(x: tensor[N]) -> tensor[2] {
    compute(x) -> tensor[2] {
        var t = 0.0
        for i in 0..N: t += x[i]
        let mean = t / (N as f32)
        var s = 0.0
        for i in 0..N: s += (x[i] - mean) * (x[i] - mean)
        out[0] = mean
        out[1] = s / (N as f32)
    }
}"""

UNIT = """def f(x: tensor[N]) {
    compute(x) {
        var t = 0.0
        for i in 0..N: t += x[i] * x[i]
        let r = rsqrt(t)
        for i in 0..N: out[i] = x[i] * r
    }
}"""

CHANNELS = """def f(x: tensor[B, C, H, W]) -> tensor[C] {
    compute(x) -> tensor[C] {
        for c in 0..C {
            var t = 0.0
            var m = -inf
            for b in 0..B, h in 0..H, w in 0..W {
                t += x[b, c, h, w]
                m = max(m, x[b, c, h, w])
            }
            out[c] = t + m
        }
    }
}"""


def sums(over: str, dtype: str) -> HirFunction:
    made = FunctionBuilder("sums", Form.FIELD, {"i": "M", "j": "N"})
    kept = [axis for axis in "ij" if axis not in over]
    x = made.parameter("x", Mem(dtype, ("M", "N"), readonly=True))
    out = made.parameter("out", Mem(dtype, tuple("MN"["ij".index(axis)] for axis in kept)))
    for size in "MN":
        made.parameter(size, INDEX)
    (total,) = made.body.reduce("add", made.body.load(x, ["i", "j"]), over=[*over], flags=("reassoc",) if dtype[0] == "f" else ())
    made.body.store(out, total, kept)
    return made.finish()


def launches(field: HirFunction, sizes: dict[str, int]) -> tuple[Launches, dict[str, int], list[object]]:
    known, units, about = specialised(field, facts_of(sizes, ("x", "out")))
    table = block_table(known, about)
    assert table is not None
    counted = {unit.name: sizes[unit.size] // unit.unit for unit in units}
    arguments: list[object] = [counted.get(parameter.name, sizes.get(parameter.name)) for parameter in known.parameters]
    return field_launches(known, table), {**sizes, **counted}, arguments


@pytest.mark.parametrize("over", ["j", "i", "ij"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 20_000), (20_000, 3), (9000, 16), (3, 4097), (0, 5), (33, 31), (4096, 128)])
def test_integers_are_summed_by_one_launch_whoever_comes_last(over: str, shape: tuple[int, int]) -> None:
    sizes = dict(zip("MN", shape, strict=True))
    made, known, arguments = launches(sums(over, "i64"), sizes)
    (launch,) = made.launches
    verify(launch.function)
    x = RNG.integers(-1000, 1000, shape)
    expected = x.sum(tuple("ij".index(axis) for axis in over))
    out = np.full(np.shape(expected), 77, np.int64)
    shared = [np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], 99, numpy_dtype(mem.dtype)) for mem in made.workspaces]
    for place in made.zeros:
        shared[place][...] = 0
    for _ in range(2):
        out[...] = 77
        if blocks := launch.blocks(known):
            interpret(launch.function, [x, out, *arguments[2:], *shared], grid=(blocks, 1, 1))
        np.testing.assert_array_equal(out, expected)
        assert not any(shared[place].any() for place in made.zeros)


@pytest.mark.parametrize("count", [1, 3, 31, 1000, 5000, 9999])
def test_moments_and_what_is_divided_by_them(count: int) -> None:
    x = RNG.standard_normal(count).astype(np.float32)
    wide = x.astype(np.float64)
    moments = zynml.compile(MOMENTS, device="emulator")
    np.testing.assert_allclose(moments.f(x), [wide.mean(), wide.var()], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(zynml.compile(UNIT, device="emulator").f(x), wide / np.sqrt((wide**2).sum()), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(20, 3, 9, 40), (1, 1, 1, 1), (7, 5, 3, 2)])
def test_sums_and_maxima_of_channels(shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    wide = x.astype(np.float64)
    expected = wide.sum((0, 2, 3)) + wide.max((0, 2, 3))
    np.testing.assert_allclose(zynml.compile(CHANNELS, device="emulator").f(x), expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(3, 1), (2, 5000), (5, 33), (1, 4097), (300, 3)])
def test_places_of_the_best(kind: str, dtype: type, shape: tuple[int, int]) -> None:
    """The first of equal ones, NaN before everything, and lines of nothing but the worst."""
    x = RNG.integers(0, 20, shape).astype(dtype)
    x[0, :] = np.iinfo(dtype).min if dtype is np.int8 else -np.inf
    if dtype is not np.int8 and shape[1] > 10:
        x[-1, 7:9] = np.nan
    types = {np.float32: "f32", np.int8: "i8", np.float64: "f64"}[dtype]
    for axis in (0, 1):
        text = f"for i in 0..M, j in 0..N: yield (x[i, j], {'ij'[axis]})"
        p = zynml.compile(f"def f(x: tensor[M, N, {types}]) {{ compute(x) @kernel reduce({kind}, axis={axis}) {{ {text} }} }}", device="emulator")
        value, place = map(np.asarray, p.f(x))
        expected = getattr(np, kind)(x, axis)
        np.testing.assert_array_equal(place, expected)
        np.testing.assert_array_equal(value, np.take_along_axis(x, np.expand_dims(expected, axis), axis).squeeze(axis))


@pytest.mark.parametrize("over", ["j", "i", "ij"])
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_one_launch_that_takes_16_bytes_at_a_time(over: str, target: str) -> None:
    made, _, _ = launches(sums(over, "f32"), {"M": 64 if over == "j" else 1 << 20, "N": 1 << 20 if over == "j" else 64})
    assert len(made.launches) == 1
    text = ptx(made, target)
    assert "ld.global.nc.v4" in text
    assert "atom.relaxed.gpu.global.inc.u32" in text
    before, ticket, after = text.partition("atom.relaxed.gpu.global.inc.u32")
    assert ticket and all("fence.acq_rel.gpu" in part for part in (before, after))


def test_few_sums_over_a_short_axis_and_a_long_one_are_shared_along_the_long_one() -> None:
    text = """def f(x: tensor[B, C, H, W]) {
        compute(x) -> tensor[B] {
            for b in 0..B {
                var s = 0.0
                for c in 0..C, y in 0..H - 1, z in 0..W: s += x[b, c, y, z]
                out[b] = s
            }
        }
    }"""
    (call,) = zynml.compile(text)._session.launches_like(["x=16x3x1025x1024:f32"], "emulator:sm_90a")
    sizes = {"B": 16, "C": 3, "H": 1025, "W": 1024, "B_16": 1, "W_256": 4}
    assert [launch.blocks(sizes) for launch in call.threads.launches.launches] == [1024]
    x = RNG.integers(0, 100, (2, 3, 150, 40)).astype(np.float32)
    np.testing.assert_array_equal(zynml.compile(text, device="emulator:sm_90a").f(x), x[:, :, :-1].sum((1, 2, 3)))
