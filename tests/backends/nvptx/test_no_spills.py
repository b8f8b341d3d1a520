"""The kernels of the bench, for sizes that people use, keep what they need in registers."""

import pytest

import zynml
from bench.gpu import sources
from compiler.backends.nvptx.assemble import assemble, can_assemble, toolkit
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.fusion.program_kernels import kernels
from compiler.hir.types import INDEX, Mem
from compiler.launch.thread_kernels import thread_kernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import facts_of

SQUARE = {"M": 4096, "N": 4096, "K": 4096, "B": 512}
WINDOW = {"N": 32, "H": 56, "W": 56, "Y": 56, "Z": 56, "C": 256, "K": 256, "R": 3, "S": 3, "G": 32}
HEADS = {"B": 4, "H": 16, "M": 4096, "N": 4096, "D": 128}
LONG = {"N": 1 << 28, "M": 8192}
AXES = {"A": 64, "B": 128, "C": 128, "D": 64}
MATRIX = {"M": 8192, "N": 8192}

SUITE = {
    **{f"product {layout}": (sources.product(a, b, "bf16", shapes), SQUARE) for layout, (a, b, shapes) in sources.LAYOUTS.items()},
    "product of few rows": (sources.product(), {**SQUARE, "M": 16}),
    "whole product": (sources.product(*sources.LAYOUTS["B as [N, K]"][:2], "i8", "M, K|N, K"), SQUARE),
    "f32 product": (sources.product(types="f32"), SQUARE),
    "f64 product": (sources.product(types="f64"), SQUARE),
    "bias and gelu": (sources.BIAS_GELU, SQUARE),
    "batched": (sources.BATCHED, {"B": 512, "M": 128, "N": 128, "K": 128}),
    "window": (sources.convolution(1, 1), WINDOW),
    "depthwise": (sources.DEPTHWISE, WINDOW),
    "attention": (sources.attention(), HEADS),
    "attention, narrow heads": (sources.attention(), {**HEADS, "D": 64}),
    "causal attention": (sources.attention(causal=True), HEADS),
    "gelu": (sources.gelu("bf16"), LONG),
    "total": (sources.TOTAL, LONG),
    "row sums": (sources.ROW_SUMS, MATRIX),
    "column sums": (sources.COLUMN_SUMS, MATRIX),
    "argmax": (sources.ARGMAX, MATRIX),
    "transpose": (sources.TRANSPOSE, MATRIX),
    "permute": (sources.permute_inside("bf16"), AXES),
    **{name: (sources.rows(name, "bf16"), MATRIX) for name in sources.ROWS},
    "scan": (sources.SCAN, LONG),
    "sort": (sources.sort("i32"), LONG),
    "pairs": (sources.SORT_PAIRS, LONG),
}
OLDER = ("product ", "whole product", "f64 product", "window", "attention", "softmax", "scan", "sort")


@pytest.mark.skipif(not can_assemble(), reason="the extra `compute` isn't installed")
@pytest.mark.parametrize(("name", "target"), [*((name, "sm_90a") for name in SUITE), *((name, target) for name in OLDER for target in ("sm_80", "sm_75"))])
def test_nothing_is_spilled(name: str, target: str) -> None:
    text, sizes = SUITE[name]
    ((compute, built),) = kernels(zynml.compile(text)._session)
    numbers = [one for one in built.nest.parameters if not isinstance(one.type, Mem) and one.type == INDEX]
    known = {one.name: sizes.get(one.name, 256) for one in numbers}
    memories = [one.name for one in built.nest.parameters if isinstance(one.type, Mem)]
    module = compile_kernels(thread_kernel(built, compute, facts_of(known, memories, MACHINES[target])).functions, gpu_target(target))
    if module.hands_registers and toolkit() is None:
        pytest.skip("only the toolkit's assembler knows registers that roles hand to each other")
    assert {symbol: use.spills for symbol, use in assemble(module).kernels.items() if use.spills} == {}
