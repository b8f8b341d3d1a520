"""Values joined over a block of threads: every monoid and dtype, blocks of whole warps and others. Expected values from NumPy."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.gpu import GridIndex
from compiler.hir.module import Form, HirFunction, HirKernelInfo
from compiler.hir.types import Mem
from compiler.hir.verify import verify
from compiler.schedule.gpu.tiles.reduction import block_reduced, slots
from tests.kernels.checks import DTYPES, numbers

THREADS = (1, 2, 17, 32, 33, 48, 64, 100, 256, 330)
"""Blocks of one warp and of several, whole and not."""


def kernel(monoid: str, dtype: str, threads: int, indexed: bool = False) -> HirFunction:
    """Each thread brings an element of `x`; each writes what it gets, so that all are seen to get the same."""
    f = FunctionBuilder("joined", Form.THREAD)
    x, out = f.parameter("x", Mem(dtype, (threads,))), f.parameter("out", Mem(dtype, (threads,)))
    at = f.parameter("at", Mem("i64", (threads,))) if indexed else None
    b = f.body
    thread = b.emit(GridIndex(operator="thread_idx", dim="x"), "t").result
    values = [b.load(x, [thread.name])] + ([b.cast(thread, "i64")] if indexed else [])
    through = slots(b, threads, [dtype, "i64"][: len(values)], 32)
    total = block_reduced(b, monoid, values, thread, threads, through, 32)
    b.store(out, total[0], [thread.name])
    if at is not None:
        b.store(at, total[1], [thread.name])
    function = f.finish()
    function.kernel_info = HirKernelInfo(workgroup=(threads, 1, 1))
    verify(function)
    return function


@pytest.mark.parametrize("threads", [17, 32, 100, 128])
@pytest.mark.parametrize(
    ("monoid", "dtype", "expected"),
    [
        ("add", "i32", lambda x: x.sum(dtype=np.int32)),
        ("add", "u8", lambda x: x.sum(dtype=np.uint8)),
        ("mul", "u64", lambda x: x.prod(dtype=np.uint64)),
        ("min", "i8", np.min),
        ("max", "u16", np.max),
        ("and", "i64", np.bitwise_and.reduce),
        ("or", "u32", np.bitwise_or.reduce),
        ("xor", "i16", np.bitwise_xor.reduce),
        ("or", "bool", np.any),
        ("and", "bool", np.all),
        ("max", "f16", np.max),
        ("min", "f64", np.min),
    ],
)
def test_exact_monoids(monoid: str, dtype: str, expected: object, threads: int) -> None:
    x = numbers(dtype, threads, monoid)
    out = np.zeros_like(x)
    interpret(kernel(monoid, "i1" if dtype == "bool" else dtype, threads), [x, out])
    assert callable(expected)
    np.testing.assert_array_equal(out, np.full(threads, expected(x), DTYPES[dtype]))


@pytest.mark.parametrize("threads", THREADS)
def test_sums_of_floats_are_close_and_alike_in_all_threads(threads: int) -> None:
    x = numbers("f32", threads)
    out = np.zeros_like(x)
    interpret(kernel("add", "f32", threads), [x, out])
    assert (out == out[0]).all()
    assert abs(float(out[0]) - x.sum(dtype=np.float64)) <= 1e-6 * np.abs(x).sum(dtype=np.float64)


@pytest.mark.parametrize("threads", [1, 31, 64, 100])
@pytest.mark.parametrize("monoid", ["argmin", "argmax"])
def test_the_place_of_an_extreme_is_the_lowest_and_nan_wins(monoid: str, threads: int) -> None:
    few = np.random.default_rng(threads).integers(0, 3, threads).astype(np.float32)
    nan = few.copy()
    nan[threads // 2 :] = np.nan
    alike = np.full(threads, np.inf if monoid == "argmin" else -np.inf, np.float32)
    for x in (few, nan, alike):
        out, at = np.zeros_like(x), np.zeros(threads, np.int64)
        interpret(kernel(monoid, "f32", threads, indexed=True), [x, out, at])
        place = (np.argmin if monoid == "argmin" else np.argmax)(x)
        np.testing.assert_array_equal(at, np.full(threads, place))
        np.testing.assert_array_equal(out, np.full(threads, x[place]))


@pytest.mark.parametrize("monoid", ["min", "max", "add"])
def test_one_nan_is_seen_by_all(monoid: str) -> None:
    x = numbers("f32", 100)
    x[77] = np.nan
    out = np.zeros_like(x)
    interpret(kernel(monoid, "f32", 100), [x, out])
    assert np.isnan(out).all()
