"""Kernels for warpgroups as the scheduler makes them for sm_90a, at sizes that an interpreter can watch: a matrix product, two products
gated, and attention."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
from attrs import evolve, frozen

import zynml
from compiler.emulator.fault import ThreadFinding
from compiler.emulator.findings import ThreadFindings
from compiler.emulator.interpret import interpret
from compiler.emulator.sanitize import Watch
from compiler.fusion.program_kernels import kernels
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.launch.cpu import numpy_dtype
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.products import copied_operands
from compiler.schedule.gpu.products.boxed_product import boxed_product
from compiler.schedule.gpu.products.tiling import Tiling
from runtime.records import define
from tests.attentions import CASES, source

PRODUCT = """
def f(A: tensor[M, K, bf16], W: tensor[K, N, bf16]) {
    compute(A, W) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var sum = 0.0
            for k in 0..K: sum += A[i, k] * W[k, j]
            out[i, j] = sum as bf16
    }
}"""
GATED = """
def f(A: tensor[M, K, bf16], V: tensor[K, N, bf16], W: tensor[K, N, bf16]) {
    compute(A, V, W) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var gate = 0.0
            var value = 0.0
            for k in 0..K:
                gate += A[i, k] * V[k, j]
                value += A[i, k] * W[k, j]
            out[i, j] = (max(gate, 0.0) * value) as bf16
    }
}"""
Change = Callable[[HirFunction], None]


class Enough(Exception):
    """The finding that a test looks for is there. A kernel with a fault finds more until its end, thousands of times the same."""


@define(eq=False)
class FindingsUntil(ThreadFindings):
    """Findings that end the run at the first one with a code."""

    code: str = ""

    def add(self, finding: ThreadFinding, *places: Instruction) -> None:
        super().add(finding, *places)
        if finding.code == self.code:
            raise Enough


@frozen
class WarpgroupKernel:
    """The launches of a block: their functions and numbers of blocks, and what all are given."""

    launches: Sequence[tuple[HirFunction, int]]
    arguments: Sequence[Any]

    def findings(self, change: Change | None = None, seed: int | None = None, until: str = "") -> list[ThreadFinding]:
        """What the sanitizer finds of the kernel, its last launch changed so, up to the first finding with the code `until`."""
        watch = Watch(FindingsUntil(collecting=True, code=until))
        arguments = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in self.arguments]
        with suppress(Enough):
            for number, (function, blocks) in enumerate(self.launches, 1):
                changed = parse_function(print_function(function))
                if change is not None and number == len(self.launches):
                    change(changed)
                interpret(changed, arguments, grid=(blocks, 1, 1), watch=watch, seed=seed)
        return list(watch.findings)


def _kernel(
    text: str, arrays: dict[str, tuple[int, ...]], sizes: dict[str, int], scalars: dict[str, float], processors: int = 2, **tiling: int
) -> WarpgroupKernel:
    ((_, kernel),) = kernels(zynml.compile(text)._session)
    field, names = kernel.field, [parameter.name for parameter in kernel.nest.parameters]
    assert field is not None
    known = facts_of({name: sizes[name] for name in names if name in sizes}, names, MACHINES["sm_90a"], processors)
    if tiling:
        place, _, about = specialised(field, known)
        product = boxed_product(place, about)
        assert product is not None
        known = evolve(known, tiling=Tiling(product.a.axes, (tiling.pop("rows"),), **tiling))
    launches = launches_for(kernel.nest, field, known)
    chance = np.random.default_rng(5)
    held = {name: (chance.integers(-8, 9, shape) / 8).astype(ml_dtypes.bfloat16) for name, shape in arrays.items()}
    given = {**sizes, **scalars, **held}
    arguments, counted = launches.counted([given[name] for name in names], {name: given[name] for name in names if name in sizes})
    shared = [np.zeros([dim.evaluate(counted.__getitem__) for dim in mem.dims], numpy_dtype(mem.dtype)) for mem in launches.workspaces]
    functions = [(launch.function, launch.blocks(counted)) for launch in launches.launches]
    assert any(isinstance(op, WarpgroupMma) for op in functions[-1][0].body.body for op in op.walk())
    return WarpgroupKernel(functions, [*arguments, *shared])


@cache
def kernel(name: str) -> WarpgroupKernel:
    """The kernel of this name, with rings of several stages that are gone round more than once."""
    match name:
        case "product":
            arrays = {"A": (192, 256), "W": (256, 64), "out": (192, 64)}
            return _kernel(PRODUCT, arrays, {"M": 192, "N": 64, "K": 256}, {}, rows=64, columns=64, groups=1, blocks=1, stages=3)
        case "two warpgroups":
            arrays = {"A": (128, 256), "W": (256, 64), "out": (128, 64)}
            return _kernel(PRODUCT, arrays, {"M": 128, "N": 64, "K": 256}, {}, rows=128, columns=64, groups=2, blocks=1, stages=2)
        case "gated":
            with patch.object(copied_operands, "WORTH", 0):
                arrays = {"A": (128, 640), "V": (640, 64), "W": (640, 64), "out": (128, 64)}
                return _kernel(GATED, arrays, {"M": 128, "N": 64, "K": 640}, {})
        case _:
            sizes = {"B": 1, "H": 3, "M": 64, "N": 256, "D": 64, "C": 64, "G": 1}
            arrays = {"Q": (1, 3, 64, 64), "K": (1, 3, 256, 64), "V": (1, 3, 256, 64), "out": (1, 3, 64, 64)}
            text = source("two passes", CASES["full"], "bf16", "heads outside", "h")
            return _kernel(text, arrays, sizes, {"scale": 0.125}, processors=1)
