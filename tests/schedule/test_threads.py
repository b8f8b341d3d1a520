"""Kernels as launches of threads mean what the field says: run block by block in the interpreter of form C."""

import numpy as np
import pytest

from compiler.hir.interpret import interpret
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
