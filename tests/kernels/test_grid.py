"""Blocks and threads of custom kernels are as many as the program says."""

import numpy as np

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
