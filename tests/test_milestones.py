"""The milestone kernels on the emulator, and as machine code for every target."""

from typing import Any

import pytest

from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.module import HirFunction
from tests import milestone_kernels as milestones


def emulate(function: HirFunction, arguments: list[Any], grid: tuple[int, int, int]) -> None:
    interpret(function, arguments, grid=grid)


@pytest.mark.parametrize("n", [1, 31, 256, 1000])
def test_arithmetic(n: int) -> None:
    milestones.arithmetic(emulate, n)


@pytest.mark.parametrize("n", [1, 33, 1000, 2049])
def test_a_reduction_through_shuffles_and_shared_memory(n: int) -> None:
    milestones.reduction(emulate, n)


@pytest.mark.parametrize("n", [32, 96])
def test_a_product_on_tensor_cores(n: int) -> None:
    milestones.tensor_core_product(emulate, n)


@pytest.mark.skipif(not can_assemble(), reason="the assembler of the extra isn't installed: pip install 'zyntax-lang[compute]'")
@pytest.mark.parametrize("arch", PTX_VERSIONS)
def test_they_assemble_without_spills(arch: str) -> None:
    cubin = assemble(compile_kernels(list(milestones.kernels().values()), gpu_target(arch)))
    assert set(cubin.kernels) == {"arithmetic", "sums", "product"}
    assert cubin.spills == 0
