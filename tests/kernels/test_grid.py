"""Blocks and threads of custom kernels are as many as the program says."""

import numpy as np
import pytest

import zynml

COUNTS = """
def counts(x: tensor[N]) {{
    compute(x) -> tensor[4, i32] @kernel(custom) @workgroup({workgroup}) @grid({grid}) {{
        atomic_add(out[0], 1)
        if thread_idx().x + thread_idx().y + thread_idx().z == 0: atomic_add(out[1], 1)
        out[2] = grid_dim().x
        out[3] = block_dim().x
    }}
}}
"""


def test_every_block_of_the_grid_runs_whatever_the_inputs_size() -> None:
    counts = zynml.compile(COUNTS.format(workgroup="32", grid="3")).counts(np.zeros(1000, np.float32))
    assert counts.tolist() == [96, 3, 3, 32]


def test_grids_and_blocks_have_up_to_three_dimensions() -> None:
    counts = zynml.compile(COUNTS.format(workgroup="4, 3, 2", grid="2, 2, 3")).counts(np.zeros(1, np.float32))
    assert counts.tolist() == [4 * 3 * 2 * 12, 12, 2, 4]


GRAPH = """def f(h: tensor[N, C], ptr: tensor[R, i32], to: tensor[E, i32]) {
    compute(h, ptr, to) -> tensor[N, C] { for v in 0..R - 1 {
        var t = 0.0
        for e in ptr[v]..ptr[v + 1]: t += h[to[e], 0]
        for c in 0..C {
            var s = 0.0
            for e in ptr[v]..ptr[v + 1]: s += h[to[e], c]
            out[v, c] = s / t
        }
    } }
}"""


@pytest.mark.parametrize(
    ("columns", "edges", "threads"), [(40, 8192, (64,)), (16, 8192, (32,)), (16, 262144, (64, 96, 128)), (1024, 8192, (256,))]
)
def test_blocks_are_no_larger_than_what_their_threads_share(columns: int, edges: int, threads: tuple[int, ...]) -> None:
    """As many warps as the columns fill, or once or twice the mean of the edges."""
    shapes = [f"h=4096x{columns}", "ptr=4097:i32", f"to={edges}:i32"]
    (kernel,) = zynml.compile(GRAPH)._session.launches_like(shapes, "emulator:sm_90a")
    assert [launch.block[0] in threads for launch in kernel.threads.launches.launches] == [True]
