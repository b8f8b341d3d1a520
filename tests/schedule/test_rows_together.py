"""Rows that threads have whole are stored by their blocks in the order of memory, against NumPy in float64."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.gpu import SyncThreads
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of

Array = np.ndarray[Any, Any]
ROWS = """
def f(x: tensor[B, K, DTYPE]) {
    compute(x) -> tensor[B, SHAPE, DTYPE] {
        for b in 0..B:
STORES
    }
}
"""


def program(shape: tuple[int, ...], dtype: str, but: int = 0) -> str:
    """Stores `j + 2 x[b, 0] + x[b, 1]` to element j of a row, the last `but` elements left out."""
    stores = [f"            out[b, {', '.join(map(str, at))}] = 2 * x[b, 0] + x[b, 1] + {j}" for j, at in enumerate(np.ndindex(*shape))]
    text = ROWS.replace("SHAPE", ", ".join(map(str, shape))).replace("DTYPE", dtype)
    return text.replace("STORES", "\n".join(stores[: len(stores) - but]))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((9,), "f32"), ((3, 3), "f32"), ((4, 4), "f32"), ((2, 3, 2), "f32"), ((3, 2, 4), "i32"), ((5,), "f64"), ((6,), "i64")]
)
@pytest.mark.parametrize("rows", [1, 128, 300])
def test_whole_rows(rows: int, shape: tuple[int, ...], dtype: str) -> None:
    x = np.arange(2 * rows).reshape(rows, 2).astype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    count = int(np.prod(shape))
    expected = (2 * x[:, :1] + x[:, 1:] + np.arange(count)).reshape(rows, *shape)
    found = zynml.compile(program(shape, dtype), device="emulator:sm_90a", sanitize=True).f(x)
    assert np.array_equal(found, expected)


SOLVED = """
def f(m: tensor[B, 6, 6], r: tensor[B, 6]) {
    compute(m, r) {
        for b in 0..B:
            var a: [[f32; 7]; 6] = [[0.0; 7]; 6]
            for i in 0..6:
                for j in 0..6: a[i][j] = m[b, i, j]
                a[i][6] = r[b, i]
            for k in 0..6, i in k + 1..6:
                let f = a[i][k] / a[k][k]
                for j in k..7: a[i][j] = a[i][j] - f * a[k][j]
            var x: [f32; 6] = [0.0; 6]
            for t in 0..6:
                let i = 5 - t
                var s = a[i][6]
                for j in i + 1..6: s -= a[i][j] * x[j]
                x[i] = s / a[i][i]
            for i in 0..6: out[b, i] = x[i]
    }
}
"""


@pytest.mark.parametrize("rows", [1, 19, 128, 300])
def test_rows_of_threads_that_end_before_the_block(rows: int) -> None:
    """Threads past the last row have nothing in shared memory, and nobody reads it there. Systems whose diagonal is large, by elimination."""
    rng = np.random.default_rng(rows)
    m, r = (rng.random((rows, 6, 6)) + 8 * np.eye(6)).astype("f4"), rng.random((rows, 6)).astype("f4")
    found = zynml.compile(SOLVED, device="emulator:sm_90a", sanitize=True).f(m, r)
    assert np.allclose(found, np.linalg.solve(m.astype("f8"), r.astype("f8")[..., None])[..., 0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("shape", "dtype", "but", "rows", "together"),
    [((9,), "f32", 0, 4096, True), ((9,), "f32", 0, 4097, True), ((4, 4), "f32", 0, 4096, True), ((4,), "f32", 0, 4096, False),
     ((9,), "f32", 1, 4096, False), ((9,), "i16", 0, 4096, False), ((8, 9), "f32", 0, 4096, False)],
)  # fmt: skip
def test_which_rows_go_together(shape: tuple[int, ...], dtype: str, but: int, rows: int, together: bool) -> None:
    """Not those that one access stores, that have holes, whose elements are narrow, or that are long."""
    ((_, kernel),) = kernels(zynml.compile(program(shape, dtype, but))._session)
    made = launches_for(kernel.nest, kernel.field, facts_of({"B": rows, "K": 2}, ("x", "out"), MACHINES["sm_90a"]))
    for launch in made.launches:
        verify(launch.function)
    assert any(isinstance(op, SyncThreads) for launch in made.launches for op in launch.function.body.body) is together
