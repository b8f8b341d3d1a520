"""Vectors whose elements a mask picks: stores, gathers and scatters, against NumPy; and how often they are written out."""

import re
from collections import Counter

import numpy as np
import pytest
from cpu_runs import NUMPY, assert_same, run

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem

ROWS, LANES = 6, 8
AVX2, AVX512 = "+avx2,+fma,+f16c", "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma,+f16c"


def turned(dtype: str) -> HirFunction:
    """y = x^T, read down columns and written along rows; z = y^T, written down columns. Tiles end with the matrix."""
    f = FunctionBuilder("turned", Form.TILE, {"r": ROWS, "simd": LANES})
    x, y, z = (f.parameter(name, Mem(dtype, dims)) for name, dims in (("x", ["N", "M"]), ("y", ["M", "N"]), ("z", ["N", "M"])))
    for size in "MN":
        f.parameter(size, INDEX)
    row, column = Affine.of("i0") * ROWS + "r", Affine.of("j0") * LANES + "simd"
    loops = f.body.loop("i0", 0, Affine.of("M").ceildiv(ROWS))
    with loops as (rows, _), rows.loop("j0", 0, Affine.of("N").ceildiv(LANES)) as (tile, _):
        value = tile.load(x, [column, row], pad=0)
        inside = tile.op("and", tile.inbounds(row, "M"), tile.inbounds(column, "N"))
        tile.store(y, value, [row, column], where=inside)
        tile.store(z, value, [column, row], where=inside)
    return f.finish()


@pytest.mark.parametrize("dtype", ["i1", "i8", "u16", "f16", "bf16", "f8e4m3", "i32", "f64"])
def test_what_lies_outside_is_neither_read_nor_written(dtype: str) -> None:
    function = turned(dtype)
    for m, n in ((1, 1), (6, 8), (7, 9), (31, 3), (3, 33), (0, 5)):
        x = np.random.default_rng(m).integers(0, 2 if dtype == "i1" else 100, (n, m)).astype(NUMPY[dtype])
        held = [np.ones((m, n), x.dtype), np.ones((n, m), x.dtype)]
        around = [np.ones(array.size + 64, x.dtype) for array in held]
        views = [base[32 : 32 + array.size].reshape(array.shape) for base, array in zip(around, held, strict=True)]
        assert run(function, [x, *views, m, n]) is None
        assert_same(views[0].copy(), np.ascontiguousarray(x.T))
        assert_same(views[1].copy(), x)
        assert all((base[:32] == 1).all() and (base[-32:] == 1).all() for base in around)


@pytest.mark.parametrize(
    ("dtype", "features", "called"),
    [
        ("i16", AVX2, {"gather", "store", "scatter"}),
        ("f32", AVX2, {"scatter"}),
        ("i16", AVX512, {"gather", "scatter"}),
        ("f32", AVX512, set()),
    ],
)
def test_many_that_the_machine_lacks_are_calls_of_one_function(dtype: str, features: str, called: set[str]) -> None:
    text = compile_function(turned(dtype), CpuOptions(cpu="znver3", features=features)).llvm_unoptimised
    written = Counter(re.findall(r"call .*@llvm\.masked\.(\w+)", text))
    assert written == {kind: 5 if kind in called else ROWS for kind in ("gather", "store", "scatter")}
    assert {*re.findall(r"define internal .*@masked\.(\w+)", text)} == called
