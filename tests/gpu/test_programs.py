"""Kernels of every kind on a GPU give what NumPy gives; programs print what they state, each compute block beside the CPU."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from compiler.launch.cuda.kernels import CudaBlock
from tests.kernels.device_kernels import KERNELS, check
from tests.programs.on_devices import PROGRAMS, beside_the_cpu
from zyntax.main import cli


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_every_kind_give_what_numpy_gives(name: str, seed: int) -> None:
    check(KERNELS[name], "cuda:0", m=(5, 33, 70)[seed], seed=seed)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_programs_print_what_they_state(program: Path, tmp_path: Path) -> None:
    with beside_the_cpu(CudaBlock) as blocks:
        code = cli.main(args=["test", str(program), "--device", "cuda:0", "--render-dir", str(tmp_path)], prog_name="zyntax", standalone_mode=False)
    assert not code
    assert blocks


def test_a_custom_kernel_has_the_blocks_that_it_asks_for() -> None:
    program = zynml.compile("""
        def bins(x: tensor[N, u8]) {
            compute(x) -> tensor[256, i32] @kernel(custom) @workgroup(64) @grid(5) {
                for p in global_idx().x..N step grid_dim().x * block_dim().x: atomic_add(out[x[p] as i32], 1)
            }
        }""", device="cuda:0")
    x = np.random.default_rng(5).integers(0, 256, 10_007).astype(np.uint8)
    np.testing.assert_array_equal(program.bins(x), np.bincount(x, minlength=256))


def test_tensors_stay_on_the_device_between_blocks() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + 1.0 }
    let z = compute(y) { for i in 0..N: out[i] = y[i] * 2.0 }
    z
}
""",
        device="cuda:0",
    )
    np.testing.assert_array_equal(program.f(np.arange(1000, dtype=np.float32)), (np.arange(1000) + 1) * 2)


def test_an_index_from_data_that_is_outside_is_reported() -> None:
    program = zynml.compile(
        """
def f(x: tensor[N], i: tensor[M, i32]): tensor {
    compute(x, i) { for j in 0..M: out[j] = x[i[j]] }
}
""",
        device="cuda:0",
    )
    index = np.array([0, 1, 7, 2, 9], np.int32)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.f(np.arange(5, dtype=np.float32), index)
    assert caught.value.codes == ("ZYN0801",)
    np.testing.assert_array_equal(program.f(np.arange(5, dtype=np.float32), index % 5), index % 5)
