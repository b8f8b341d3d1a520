"""The milestones on a GPU: arithmetic, a reduction, a product on tensor cores, and a program from the command line."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.module import HirFunction
from runtime.cuda.copies import to_device, to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.launch import CheckedLaunch
from tests import milestone_kernels as milestones

ROOT = Path(__file__).parents[2]
TARGET = "sm_80"
"""Machine code for the device at hand: PTX of this target runs on all that are newer."""


@pytest.fixture
def launch(gpu: Gpu) -> Callable[[HirFunction, list[Any], tuple[int, int, int]], None]:
    def run(function: HirFunction, arguments: list[Any], grid: tuple[int, int, int]) -> None:
        made = compile_kernels(function, gpu_target(TARGET))
        (entry,) = made.entries
        kinds = ["pointer" if p.kind != "number" else {"index": "i64"}.get(p.dtype, p.dtype) for p in entry.parameters]
        record = np.zeros(8, np.int64)
        given = [to_device(x, gpu.allocate(x.nbytes), gpu.stream) if isinstance(x, np.ndarray) else x for x in (*arguments, record)]
        CheckedLaunch(gpu.modules.load(made.text, function.name).kernel(entry.symbol), kinds, grid, entry.block)(gpu.stream, *given)
        for here, there in zip(arguments, given, strict=False):
            if isinstance(here, np.ndarray):
                here[...] = to_host(there)
        assert not to_host(given[-1]).any()

    return run


@pytest.mark.parametrize("n", [1, 31, 256, 1000, 1_000_003])
def test_arithmetic(launch: Any, n: int) -> None:
    milestones.arithmetic(launch, n)


@pytest.mark.parametrize("n", [1, 33, 1000, 2049, 1_000_003])
def test_a_reduction_through_shuffles_and_shared_memory(launch: Any, n: int) -> None:
    milestones.reduction(launch, n)


@pytest.mark.parametrize("n", [32, 96, 256])
def test_a_product_on_tensor_cores(launch: Any, n: int) -> None:
    milestones.tensor_core_product(launch, n)


def test_tensor_cores_are_used() -> None:
    made = compile_kernels(milestones.kernels()["product"], gpu_target(TARGET))
    assert "wmma.mma.sync" in made.text
    assert assemble(made, gpu_target(TARGET)).spills == 0


def test_a_program_that_names_the_gpu_runs_from_the_command_line() -> None:
    command = [sys.executable, "-m", "zyntax", "run", "programs/zynml/matmul.zynml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tensor([[58.0, 64.0], [139.0, 154.0]], shape=[2, 2], dtype=f32)\n"


def test_any_program_runs_on_the_gpu_that_the_command_names(tmp_path: Path) -> None:
    text = "let A = ones(300, 200)\nlet B = ones(200, 100)\n"
    text += "let C = compute(A, B) @kernel(matmul) {\n    for i in 0..M, j in 0..N:\n        var s = 0.0\n"
    text += "        for k in 0..K: s += A[i, k] * B[k, j]\n        out[i, j] = s\n}\nprintln(C.min(), C.max(), C.shape())\n"
    program = tmp_path / "ones.zynml"
    program.write_text(text)
    command = [sys.executable, "-m", "zyntax", "run", str(program), "--device", "cuda:0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "200.0 200.0 [300, 100]\n"
