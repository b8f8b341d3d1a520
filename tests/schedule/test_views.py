"""Views with gaps go into kernels where they lie: dense rows as vectors, anything else by its strides."""

from typing import Any

import numpy as np
import pytest

import zynml

PROGRAM = zynml.compile("""
def twice(x: tensor[M, N]): tensor {
    compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] * 2 }
}
""")
WHOLE = np.arange(40.0 * 70).reshape(40, 70).astype(np.float32)
VIEWS = {
    "every second row": WHOLE[::2],
    "some columns": WHOLE[:, 3:60],
    "every second column": WHOLE[:, ::2],
    "rows from the end": WHOLE[::-1],
    "columns from the end": WHOLE[:, ::-1],
    "turned": WHOLE.T,
    "one column": WHOLE[:, 5:6],
    "nothing": WHOLE[5:5, 2:9],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_a_view_is_read_as_what_it_shows(view: Any) -> None:
    np.testing.assert_array_equal(PROGRAM.twice(view), view * 2)
