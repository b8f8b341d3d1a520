"""Launches that aren't well formed are refused on the emulator and on the way to PTX. The planted fault was made once by a rewrite that gave
axes other names: an `if` said the old one of its results. The interpreter took the elements in their order and was right; PTX
stored each of them for each index, so that the last one was in all places."""

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.hir.control import If
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.launch import emulator
from compiler.launch.thread_kernels import ThreadKernel
from runtime.records import evolve

TEXT = """def f(x: tensor[N, K, f16], y: tensor[K, M, f16]) {
    compute(x, y) { for n in 0..N, m in 0..M:
        var s = 0.0
        for k in 0..K: s += abs(x[n, k] - y[k, m])
        out[n, m] = s }
}"""
SHAPES = ((256, 64), (64, 256))
"""Of which a block has tiles in registers. Elements of 16 bits pass through registers to shared memory, the first ones behind an `if`."""


def with_the_old_name(function: HirFunction) -> str | None:
    """Let the first `if` with tiles say that its results vary along an axis with another name. Gives the message that this deserves."""
    for op in (inner for outer in function.body.body for inner in outer.walk()):
        if isinstance(op, If) and (tile := next((t for t in op.types if isinstance(t, Tile) and t.axes), None)) is not None:
            ((_, extent), *more) = tile.axes
            function.axes["old"] = extent
            op.types = tuple(evolve(t, axes=(("old", extent), *more)) if t == tile else t for t in op.types)
            for result, type_ in zip(op.results, op.types, strict=True):
                result.type = type_
            said, meant = (", ".join(str(t) for t in types) for types in (op.types, [v.type for v in op.then.body[-1].operand_values]))
            return f"in @{function.name}: `if`: yields {meant} where {said} is carried"
    return None


def test_the_emulator_refuses_launches_that_are_not_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, functions = list[str](), list[HirFunction]()
    made = emulator.thread_kernel

    def planted(*call: object) -> ThreadKernel:
        kernel = made(*call)  # type: ignore[arg-type]
        functions.extend(kernel.functions)
        wanted.extend(filter(None, map(with_the_old_name, kernel.functions)))
        return kernel

    monkeypatch.setattr(emulator, "thread_kernel", planted)
    with pytest.raises(zynml.ZynMLError) as refused:
        zynml.compile(TEXT, device="emulator:sm_90a").f(*(np.ones(shape, "f2") for shape in SHAPES))
    assert wanted
    assert str(refused.value).startswith(f"error[ZYN0901]: {wanted[0]}\n")
    with pytest.raises(ZyntaxError) as missed:
        compile_kernels(functions, gpu_target("sm_90a"))
    assert missed.value.diagnostics[0].message == wanted[0]
