"""A matrix unit unlike any that the compiler knows, added by tables alone: products of 4x4x2 by warps of four lanes, of which each has
two terms of a row (or column) of both operands, and a square of two rows and columns of the sums."""

from typing import Any

import numpy as np
import pytest

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.lane_maps import REGISTER_UNITS, LaneMap, WarpKind
from compiler.hir.tensor_core import WarpMma
from compiler.launch import emulator
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import MACHINES
from compiler.machines.units.unit import Issue, MatrixUnit
from compiler.targets import nvidia
from compiler.targets.registry import TARGETS
from compiler.targets.target import Target

KIB = 1024
OPERAND = LaneMap(lanes=((4, 1, 0),), registers=((2, 0, 1),))
SUMS = LaneMap(lanes=((2, 0, 2), (2, 2, 0)), registers=((2, 1, 0), (2, 0, 1)))
KINDS = {dtype: WarpKind(dtype, dtype, (2,), OPERAND, OPERAND, SUMS, by_matrix=False) for dtype in ("f32", "f64")}
UNIT = MatrixUnit(Issue.REGISTERS, dict.fromkeys(KINDS, ((4, 4, 2),)), "toy")
TOY = GpuMachine("toy", (0, 1), 32, 8, shared=64 * KIB, block_shared=64 * KIB, stage_shared=64 * KIB, lanes=4, units=(UNIT,))
PROGRAM = """
def f(A: tensor[{a}, TYPE], B: tensor[{b}, TYPE]) {{
    compute(A, B) -> tensor[M, N, TYPE] {{
        for i in 0..M, j in 0..N:
            var s: TYPE = 0.0
            for k in 0..K: s += A[{i}] * B[{j}]
            out[i, j] = s
    }}
}}"""


@pytest.mark.parametrize("sizes", [(33, 67, 19), (16, 17, 33), (20, 36, 0)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_products_are_made_of_its_blocks(dtype: str, turned: bool, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    units: set[tuple[str, tuple[int, ...]]] = set()

    def noted(function: Any, *given: Any, **launch: Any) -> Any:
        multiplied = [op for top in function.body.body for op in top.walk() if isinstance(op, WarpMma)]
        units.update((op.unit, op.kind.total.shape) for op in multiplied)
        return interpret(function, *given, **launch)

    monkeypatch.setattr(emulator, "interpret", noted)
    monkeypatch.setitem(REGISTER_UNITS, "toy", KINDS)
    monkeypatch.setitem(MACHINES, "toy", TOY)
    monkeypatch.setitem(TARGETS, "toy", lambda: Target("toy", TOY, nvidia.PASSES, (), lambda program, stage: "", "emulator:toy"))
    m, n, k = sizes
    a, b = (np.random.default_rng(k).integers(-4, 5, shape).astype(dtype.replace("f", "float")) for shape in ((m, k), (k, n)))
    lies = {"a": "K, M", "b": "N, K", "i": "k, i", "j": "j, k"} if turned else {"a": "M, K", "b": "K, N", "i": "i, k", "j": "k, j"}
    given = (np.ascontiguousarray(side.T) if turned else side for side in (a, b))
    made = zynml.compile(PROGRAM.format(**lies).replace("TYPE", dtype), device="emulator:toy").f(*given)
    np.testing.assert_array_equal(np.asarray(made), a @ b)
    assert units == ({("toy", (4, 4))} if min(sizes) >= 16 else units)
