"""Products of f64 are whole ones from sm_90 on."""

import pytest
from gpu_case import Kernel
from kernels import lines
from matrix_cases import register_product

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target


@pytest.mark.parametrize(("depth", "a", "b"), [(4, 2, 1), (8, 4, 2), (16, 8, 4)])
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100", "sm_120"])
def test_sixteen_rows_at_once(depth: int, a: int, b: int, arch: str) -> None:
    kernel = Kernel("f")
    register_product(kernel, "f64", (32, 16, depth))
    module = compile_kernels(kernel.finish(), gpu_target(arch))
    sums, of_a, of_b = ("{" + ", ".join(["%rd"] * count) + "}" for count in (4, a, b))
    line = f"mma.sync.aligned.m16n8k{depth}.row.col.f64.f64.f64.f64 {sums}, {of_a}, {of_b}, {sums};"
    assert lines(module.text).count(line) == 4
    assert assemble(module).spills == 0
