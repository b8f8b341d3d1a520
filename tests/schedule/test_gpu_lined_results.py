"""Products whose results have rows that begin at any address, on warpgroups: against NumPy."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.hir.gpu import WarpSync
from compiler.hir.hopper import WarpgroupMma

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
FOLLOWING = {
    "s": lambda s, z, r: s,
    "exp(-s * 0.01)": lambda s, z, r: np.exp(-0.01 * s),
    "s + z[i, j]": lambda s, z, r: s + z,
    "max(s + r[j], 0.0)": lambda s, z, r: np.maximum(s + r, 0),
}


def text_of(dtype: str, following: str, batch: str = "") -> str:
    loops, outer, at = ("for g in 0..G, i in 0..I, j in 0..J", "G, ", "g, ") if batch else ("for i in 0..I, j in 0..J", "", "")
    return f"""def f(x: tensor[{outer}I, K, {dtype}], y: tensor[{outer}K, J, {dtype}], z: tensor[I, J, {dtype}], r: tensor[J, {dtype}]) {{
    compute(x, y, z, r) {{
        {loops}:
            var s = 0.0
            for k in 0..K: s += x[{at}i, k] * y[{at}k, j]
            out[{at}i, j] = {following}
    }}
}}"""


def kernels(program: Any, like: str) -> list[Any]:
    functions = [launch.function for launch in program._session.launches_like([like], "emulator:sm_90a")[0].threads.launches.launches]
    return [[type(op) for top in function.body.body for op in top.walk()] for function in functions]


@pytest.mark.parametrize("following", FOLLOWING)
@pytest.mark.parametrize(("dtype", "sizes"), [("f16", (257, 517, 40)), ("bf16", (397, 301, 64)), ("f16", (193, 519, 88))])
def test_lanes_have_neighbouring_columns(dtype: str, sizes: tuple[int, int, int], following: str) -> None:
    i, j, k = sizes
    program = zynml.compile(text_of(dtype, following), device="emulator:sm_90a")
    like = f"x={i}x{k}:{dtype}, y={k}x{j}:{dtype}, z={i}x{j}:{dtype}, r={j}:{dtype}"
    assert any(WarpgroupMma in ops and WarpSync in ops for ops in kernels(program, like))
    random = np.random.default_rng(j)
    x, y, z, r = (random.integers(-2, 3, shape).astype(NUMPY[dtype]) for shape in ((i, k), (k, j), (i, j), (j,)))
    sums, wide = x.astype(np.float64) @ y.astype(np.float64), [each.astype(np.float64) for each in (z, r)]
    expected = FOLLOWING[following](sums, *wide)
    rtol = 2 * float(ml_dtypes.finfo(NUMPY[dtype]).eps) if "exp" in following else float(ml_dtypes.finfo(NUMPY[dtype]).eps)
    np.testing.assert_allclose(program.f(x, y, z, r).astype(np.float64), expected, rtol=rtol)


def test_in_batches() -> None:
    g, i, j, k = 2, 65, 261, 72
    program = zynml.compile(text_of("f16", "s * 0.5", "batch"), device="emulator:sm_90a", sanitize=True)
    x, y = (np.random.default_rng(k).integers(-2, 3, shape).astype(np.float16) for shape in ((g, i, k), (g, k, j)))
    result = program.f(x, y, np.zeros((i, j), np.float16), np.zeros(j, np.float16))
    np.testing.assert_array_equal(result, 0.5 * (x.astype(np.float64) @ y.astype(np.float64)))


def test_rows_of_whole_pieces_go_out_in_boxes() -> None:
    program = zynml.compile(text_of("f16", "s"), device="emulator:sm_90a")
    like = "x=512x64:f16, y=64x512:f16, z=512x512:f16, r=512:f16"
    assert not any(WarpgroupMma in ops and WarpSync in ops for ops in kernels(program, like))


@pytest.mark.parametrize(("dtype", "to"), [("i8", "i32"), ("bf16", "f32")])
@pytest.mark.parametrize("j", [517, 520])
def test_wider_numbers_fill_sectors_from_registers_where_rows_are_whole_ones(dtype: str, to: str, j: int) -> None:
    i, k = 257, 160
    text = f"""def f(x: tensor[I, K, {dtype}], y: tensor[J, K, {dtype}]) {{
        compute(x, y) -> tensor[I, J, {to}] {{
            for i in 0..I, j in 0..J:
                var s = 0 as {to}
                for k in 0..K: s += (x[i, k] as {to}) * (y[j, k] as {to})
                out[i, j] = s
        }}
    }}"""
    program = zynml.compile(text, device="emulator:sm_90a")
    (ops,) = kernels(program, f"x={i}x{k}:{dtype}, y={j}x{k}:{dtype}")
    assert WarpgroupMma in ops
    assert (WarpSync in ops) == (j == 517)
    x, y = (np.random.default_rng(j).integers(-2, 3, shape).astype(NUMPY.get(dtype, np.int8)) for shape in ((i, k), (j, k)))
    np.testing.assert_array_equal(program.f(x, y), x.astype(np.float64) @ y.astype(np.float64).T)
