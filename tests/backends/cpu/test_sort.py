"""Stable sorting with payload: every dtype, direction and axis, NaN last, both zeros equal, against NumPy's lexsort."""

import numpy as np
import pytest
from cpu_runs import NUMPY, run_kernel

from compiler.backends.cpu.compile import compile_function
from compiler.hir.build import FunctionBuilder
from compiler.hir.library import Sort
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem

DTYPES = ("i1", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64")


def sorting(dtype: str, rank: int, axis: int, descending: bool) -> HirFunction:
    f = FunctionBuilder("sorting")
    dims = ["L", "M", "N"][-rank:]
    keys, payload = f.parameter("keys", Mem(dtype, dims)), f.parameter("payload", Mem("i64", dims))
    for dim in dims:
        f.parameter(dim, INDEX)
    f.body.emit(Sort(keys=keys, payload=(payload,), axis=axis, descending=descending))
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
        kernel = compile_function(sorting(dtype, rank, axis, descending))
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
