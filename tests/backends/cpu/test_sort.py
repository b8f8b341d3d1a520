"""Stable sorting with and without payload: every dtype, direction and axis, NaN last, both zeros equal, against NumPy's lexsort."""

from collections.abc import Callable

import numpy as np
import pytest
from cpu_runs import NUMPY, run_kernel

from compiler.backends.cpu import sort_keys
from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.backends.cpu.native import NativeKernel
from compiler.hir.build import FunctionBuilder
from compiler.hir.library import Sort
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem
from compiler.machines.cpu import CPUS

DTYPES = ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")

QUICK = CpuOptions(OptimizationLevel.O1)
"""Less time for the compiler, the same code but for loops."""


def sorting(dtype: str, rank: int, axis: int, descending: bool, alone: bool = False) -> HirFunction:
    f = FunctionBuilder("sorting")
    dims = ["L", "M", "N"][-rank:]
    keys = f.parameter("keys", Mem(dtype, dims))
    payload = () if alone else (f.parameter("payload", Mem("i64", dims)),)
    for dim in dims:
        f.parameter(dim, INDEX)
    f.body.emit(Sort(keys=keys, payload=payload, axis=axis, descending=descending))
    return f.finish()


def keys_of(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype[0] in "iu":
        info = np.iinfo(NUMPY[dtype])
        made = rng.integers(info.min, info.max, shape, dtype=NUMPY[dtype], endpoint=True)
        made.flat[::3] = 5
        return made
    made = np.round(rng.normal(size=shape) * 4).astype(NUMPY[dtype])
    for start, step, value in ((0, 7, np.nan), (1, 11, -0.0), (2, 13, np.inf), (3, 17, -np.inf), (4, 19, 0.0)):
        made.flat[start::step] = value
    return made


def expected_order(keys: np.ndarray, descending: bool) -> np.ndarray:
    """Of one line."""
    if keys.dtype.kind in "biu":
        numbers = keys.astype(object)
        return np.array(sorted(range(len(keys)), key=lambda k: -numbers[k] if descending else numbers[k]), dtype=np.int64)
    numbers = keys.astype(np.float64)
    return np.lexsort((-numbers if descending else numbers, np.isnan(numbers)))


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(dtype: str, descending: bool) -> None:
    for rank, axis, shapes in (
        (1, 0, ((0,), (1,), (7,), (40,), (41,), (1000,))),
        (2, 0, ((3, 5), (50, 6))),
        (2, 1, ((0, 4), (60, 5), (3, 257))),
    ):
        kernel = compile_function(sorting(dtype, rank, axis, descending), QUICK)
        for shape in shapes:
            keys = keys_of(dtype, shape)
            found = keys.copy()
            places = np.broadcast_to(np.moveaxis(np.arange(shape[axis]).reshape(-1, *[1] * (rank - 1)), 0, axis), shape).copy()
            assert run_kernel(kernel, [found, places, *shape], threads=2) is None
            for line in np.ndindex(*[n for number, n in enumerate(shape) if number != axis]):
                at = (*line[:axis], slice(None), *line[axis:])
                order = expected_order(keys[at], descending)
                np.testing.assert_array_equal(places[at], order)
                bits = f"u{keys.dtype.itemsize}"
                np.testing.assert_array_equal(found[at].view(bits) if found[at].flags.c_contiguous else found[at].copy().view(bits),
                                              keys[at][order].view(bits))


def test_the_middle_axis_of_three() -> None:
    kernel = compile_function(sorting("f32", 3, 1, False))
    keys = np.random.default_rng(1).random((4, 100, 3), np.float32)
    found, places = keys.copy(), np.zeros(keys.shape, np.int64)
    assert run_kernel(kernel, [found, places, *keys.shape], threads=2) is None
    np.testing.assert_array_equal(found, np.sort(keys, axis=1))


def sorted_alone(kernel: NativeKernel, keys: np.ndarray, axis: int = 0, descending: bool = False) -> None:
    """Compares every bit of every line."""
    found = keys.copy()
    assert run_kernel(kernel, [found, *keys.shape], threads=2) is None
    bits = f"u{keys.dtype.itemsize}"
    for other in np.ndindex(*np.delete(keys.shape, axis)):
        line, before = (np.moveaxis(array, axis, -1)[other] for array in (found, keys))
        np.testing.assert_array_equal(line.copy().view(bits), before[expected_order(before, descending)].view(bits))


@pytest.mark.parametrize("descending", (False, True))
@pytest.mark.parametrize("dtype", (*DTYPES, "f8e4m3"))
def test_keys_alone(dtype: str, descending: bool) -> None:
    kernel = compile_function(sorting(dtype, 1, 0, descending, alone=True), QUICK)
    for size in (0, 1, 7, 129, 5000):
        sorted_alone(kernel, keys_of(dtype, (size,)), 0, descending)


@pytest.mark.parametrize("axis", (0, 1, 2))
def test_keys_alone_along_every_axis(axis: int) -> None:
    for dtype in ("f32", "u64"):
        kernel = compile_function(sorting(dtype, 3, axis, False, alone=True), QUICK)
        for shape in ((2, 3, 5), (3, 200, 2), (1, 2, 300), (0, 2, 3), (2, 0, 3), (9, 1, 17)):
            sorted_alone(kernel, keys_of(dtype, shape), axis)


@pytest.mark.parametrize("dtype", ("f32", "i64", "f16", "u8"))
def test_many_short_lines_of_keys_alone(dtype: str) -> None:
    for axis in (0, 1):
        kernel = compile_function(sorting(dtype, 2, axis, axis == 0, alone=True), QUICK)
        for lines, length in ((20, 1), (4, 3), (9, 7), (33, 8), (16, 17), (17, 40), (8, 256), (9, 257), (3, 9)):
            keys = keys_of(dtype, (length, lines) if axis == 0 else (lines, length))
            sorted_alone(kernel, keys, axis, axis == 0)
            if dtype[0] == "f":  # nothing but numbers, then NaNs and zeros in some lines
                plain = np.nan_to_num(keys) + NUMPY[dtype](0)
                sorted_alone(kernel, plain, axis, axis == 0)
                plain[:1] = keys[:1]
                sorted_alone(kernel, plain, axis, axis == 0)


SPREAD: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.random(n),
    "all equal": lambda rng, n: np.full(n, 3.0),
    "two values": lambda rng, n: rng.integers(0, 2, n),
    "every exponent": lambda rng, n: np.ldexp(rng.normal(size=n), rng.integers(-60, 60, n)),
    "sorted": lambda rng, n: np.arange(n) - n / 2,
    "reversed": lambda rng, n: n - np.arange(n),
    "equal where a sample looks": lambda rng, n: np.where(np.arange(n) % 2, rng.normal(size=n) * 1000, 1.0),
    "few far away": lambda rng, n: np.where(rng.random(n) < 0.001, 1e9, 0.001) * rng.normal(size=n),
    "half zeros": lambda rng, n: np.maximum(rng.normal(size=n), 0),
}


@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "i32", "u64"))
def test_keys_alone_however_they_are_spread(dtype: str) -> None:
    kernel = compile_function(sorting(dtype, 1, 0, False, alone=True), QUICK)
    rng = np.random.default_rng(2)
    for make in SPREAD.values():
        numbers = make(rng, 6400)
        keys = np.clip(numbers * 1000, -(2.0**31) if dtype == "i32" else 0, 2.0**31 - 1) if dtype[0] in "iu" else numbers
        sorted_alone(kernel, keys.astype(NUMPY[dtype]))


@pytest.mark.parametrize("dtype", ("f32", "i64", "f16", "u32"))
def test_threads_share_the_parts_of_a_long_line(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "WORTH_THREADS", 15_000)
    rng = np.random.default_rng(4)
    for descending in (False, True):
        kernel = compile_function(sorting(dtype, 1, 0, descending, alone=True), QUICK)
        for number, make in enumerate(SPREAD.values()):
            numbers = np.clip(make(rng, 15_000 + number), -1000, 1000)
            keys = ((numbers + 1000) * 1000 if dtype[0] in "iu" else numbers).astype(NUMPY[dtype])
            wanted = np.sort(np.where(keys == 0, np.zeros((), keys.dtype), keys))
            for threads in (1, 2, 3, 7):
                found = np.where(keys == 0, np.zeros((), keys.dtype), keys)
                assert run_kernel(kernel, [found, len(found)], threads=threads) is None
                assert found.tobytes() == (wanted[::-1] if descending else wanted).tobytes()


@pytest.mark.parametrize("dtype", ("f32", "f64", "i32", "u64"))
def test_a_line_longer_than_near_caches_is_split_first(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_keys, "SPLIT_BYTES", 1 << 16)
    monkeypatch.setattr(sort_keys, "NEAR_BYTES", 1 << 13)
    rng = np.random.default_rng(6)
    for descending in (False, True):
        kernel = compile_function(sorting(dtype, 1, 0, descending, alone=True), QUICK)
        for number, make in enumerate(SPREAD.values()):
            numbers = np.clip(make(rng, 17_000 + 4 * number), -1000, 1000) + 0.0
            keys = ((numbers + 1000) * 1000 if dtype[0] in "iu" else numbers).astype(NUMPY[dtype])
            wanted = np.sort(keys)
            for threads in (1, 3):
                found = keys.copy()
                assert run_kernel(kernel, [found, len(found)], threads=threads) is None
                np.testing.assert_array_equal(found, wanted[::-1] if descending else wanted)


def test_both_zeros_and_every_nan_keep_their_order() -> None:
    rng = np.random.default_rng(3)
    for dtype, bits in (("f32", np.uint32), ("f16", np.uint16)):
        top = 8 * np.dtype(bits).itemsize - 1
        nans = np.iinfo(bits).max - rng.integers(0, 9, 6000).astype(bits) ^ (rng.integers(0, 2, 6000).astype(bits) << bits(top))
        zeros = rng.integers(0, 2, 6000).astype(bits) << bits(top)
        numbers = rng.normal(size=6000).astype(NUMPY[dtype]).view(bits)
        keys = np.choose(rng.integers(0, 3, 6000), (nans, zeros, numbers)).astype(bits).view(NUMPY[dtype])
        for descending in (False, True):
            kernel = compile_function(sorting(dtype, 1, 0, descending, alone=True), QUICK)
            sorted_alone(kernel, keys, 0, descending)
            sorted_alone(kernel, keys[:50], 0, descending)


@pytest.mark.parametrize("cpu", sorted(CPUS))
def test_code_of_every_processor_sorts_in_its_vectors(cpu: str) -> None:
    machine = CPUS[cpu]
    options = CpuOptions(OptimizationLevel.O1, machine.triple, machine.cpu, machine.features)
    text = compile_function(sorting("f32", 1, 0, False, alone=True), options).llvm_unoptimised
    assert f"@sort.block.v{machine.vector_bits // 32}f32.up" in text
