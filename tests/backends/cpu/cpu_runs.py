"""Runs a HIR function on arrays, natively, and beside the interpreter."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.backends.cpu.faults import NativeFault
from compiler.emulator.interpret import interpret
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.module import Form, HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem

NUMPY = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "index": np.int64,
}
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")


def run(
    function: HirFunction, arguments: Sequence[Any], threads: int = 1, level: OptimizationLevel = OptimizationLevel.O3, team: str = "auto"
) -> NativeFault | None:
    """Runs natively; arrays are changed in place."""
    return run_kernel(compile_function(function, CpuOptions(level=level, threads=team)), arguments, threads)


def run_kernel(kernel: Any, arguments: Sequence[Any], threads: int = 1) -> NativeFault | None:
    return kernel.run([a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments], threads)


def assert_as_interpreted(function: HirFunction, arguments: Sequence[Any], level: OptimizationLevel = OptimizationLevel.O3) -> None:
    """The same bits in every array as the interpreter leaves there (any NaN for a NaN)."""
    expected = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    found = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    interpret(function, expected)
    assert run(function, found, level=level) is None
    for left, right in zip(found, expected, strict=True):
        if isinstance(left, np.ndarray):
            assert_same(left, right)


def assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    if found.dtype.kind not in "iub":
        with np.errstate(all="ignore"):
            nan = np.isnan(found.astype(np.float64))
            assert np.array_equal(nan, np.isnan(expected.astype(np.float64)))
        found, expected = np.where(nan, 0, found).astype(found.dtype), np.where(nan, 0, expected).astype(found.dtype)
    bits = f"u{found.dtype.itemsize}"
    wrong = np.flatnonzero(found.view(bits) != expected.view(bits))
    assert not len(wrong), f"at {wrong[:5]}: {found.ravel()[wrong[:5]]}, not {expected.ravel()[wrong[:5]]}"


def pointwise(emit: Any, dtypes: Sequence[str], result: str, form: str) -> HirFunction:
    """out[i] = emit(x0[i], ...): a scalar `loop`, a `simd` loop, or `tile`s of 2 registers by 8 lanes with a masked end."""
    tile = form == "tile"
    axes = {"r": 2, "simd": 8} if tile else {}
    f = FunctionBuilder("f", Form.TILE if tile else Form.NEST, axes)
    f.parameter("N", INDEX)
    inputs = [f.parameter(f"x{k}", Mem(d, ["N"], readonly=True)) for k, d in enumerate(dtypes)]
    out = f.parameter("out", Mem(result, ["N"]))

    def body(b: Builder, at: Any) -> None:
        if tile:
            inside = b.inbounds(at, "N")
            b.store(out, emit(b, *(b.load(x, [at], pad=1) for x in inputs)), [at], where=inside)
        else:
            b.store(out, emit(b, *(b.load(x, [at]) for x in inputs)), [at])

    if tile:
        from compiler.hir.affine import Affine

        with f.body.loop("i0", 0, Affine.of("N").ceildiv(16)) as (inner, _):
            body(inner, Affine.of("i0") * 16 + Affine.of("r") * 8 + "simd")
    else:
        with f.body.loop("i", 0, "N", place="simd" if form == "simd" else "time") as (inner, _):
            body(inner, "i")
    return f.finish()
