"""Kernels as launches of threads mean what the field says: run block by block in the interpreter of form C."""

import numpy as np
import pytest

from compiler.emulator.interpret import interpret
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.schedule.place import place
from compiler.schedule.threads import launches_of, thread_table
from tests.schedule.fields import EXAMPLES, Example
from tests.schedule.test_place import case, sizes_for


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_launches_mean_the_field(example: Example) -> None:
    field = example.make()
    launches = launches_of(place(field, thread_table(field)))
    for launch in launches.launches:
        verify(launch.function)
    for sizes in sizes_for(example):
        if max(sizes) > 40:
            continue
        known = dict(zip(example.sizes, sizes, strict=True))
        arrays, expected = case(example, sizes)
        shared = [np.zeros([int(dim.evaluate(known.__getitem__)) for dim in mem.dims], np.float32) for mem in launches.workspaces]
        for launch in launches.launches:
            blocks = launch.blocks(known)
            if blocks > 0:
                interpret(launch.function, [*arrays, *sizes, *shared], grid=(blocks, 1, 1))
        np.testing.assert_allclose(arrays[-1], expected, rtol=2e-5, atol=2e-5, err_msg=str(sizes))


def test_neighbouring_threads_write_neighbouring_elements() -> None:
    matmul = EXAMPLES[0].make()
    table = thread_table(matmul)
    assert [plan.axis for plan in table.plans if plan.place == "thread"] == ["i", "j"]


def test_two_extents_below_zero_are_no_work() -> None:
    """The inner elements of a matrix without rows and columns: -2 times -2 threads are none."""
    f = FunctionBuilder("inner", Form.FIELD, {"i": Affine.of("N") - 2, "j": Affine.of("M") - 2})
    x, y = (f.parameter(name, Mem("f32", ("N", "M"))) for name in "XY")
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    inner = [Affine.of("i") + 1, Affine.of("j") + 1]
    f.body.store(y, f.body.load(x, inner), inner)
    field = f.finish()
    launches = launches_of(place(field, thread_table(field)))
    for n, m in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (3, 4), (5, 3)]:
        values, result = np.arange(n * m, dtype=np.float32).reshape(n, m), np.full((n, m), -1, np.float32)
        for launch in launches.launches:
            interpret(launch.function, [values, result, n, m], grid=(max(1, launch.blocks({"N": n, "M": m})), 1, 1))
        expected = np.full((n, m), -1, np.float32)
        expected[1:-1, 1:-1] = values[1:-1, 1:-1]
        np.testing.assert_array_equal(result, expected)
