"""Merges of runs by threads: stable in both directions, NaN last, of any length and along any axis."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.merge_sort import merge_pass, passes


def one_pass(dtype: str, axis: int, descending: bool) -> HirFunction:
    """What the thread `place` does in the pass that merges runs of `width`."""
    f = FunctionBuilder("merge", Form.NEST)
    memories = [f.parameter(name, Mem(one, ("N", "M"))) for name, one in (("a", dtype), ("b", "i64"), ("c", dtype), ("d", "i64"))]
    place, width = f.parameter("place", INDEX), f.parameter("width", INDEX)
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    merge_pass(f.body, place, width, memories[:2], memories[2:], axis, descending)
    return f.finish()


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["i32", "f32"])
def test_equal_keys_keep_their_order_and_nan_stands_last(dtype: str, axis: int, descending: bool) -> None:
    function = one_pass(dtype, axis, descending)
    for n, m in [(1, 1), (2, 3), (3, 2), (7, 5), (5, 8), (9, 13)]:
        keys = np.random.default_rng(n).integers(-2, 3, (n, m)).astype(np.int32 if dtype == "i32" else np.float32)
        if dtype == "f32":
            keys[np.random.default_rng(m).random((n, m)) < 0.3] = np.nan
        places = np.broadcast_to(np.arange(keys.shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1)), keys.shape).copy()
        signed = -keys if descending else keys
        expected = np.argsort(signed, axis=axis, kind="stable")  # NumPy puts NaN last, too
        here, there = (keys.copy(), places), (np.empty_like(keys), np.empty_like(places))
        for pair in passes(keys.shape[axis]):
            for width in pair:
                for place in range(keys.size):
                    interpret(function, [*here, *there, place, width, n, m])
                here, there = there, here
        np.testing.assert_array_equal(here[1], expected)
        np.testing.assert_array_equal(here[0], np.take_along_axis(keys, expected, axis))
