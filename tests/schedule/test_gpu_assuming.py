"""Indices that sizes may put outside: without checks for sizes that don't, with them for others."""

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.hir.memory import Check
from compiler.launch.thread_kernels import launch_facts, thread_kernel

TEXT = "def f(x: tensor[N], y: tensor[G]) { compute(x, y) { for i in 0..N: out[i] = x[i] + (if i > 0 { y[i / 4] } else { 0.0 }) } }"


@pytest.mark.parametrize(("size", "groups", "inside"), [(12, 3, True), (13, 3, False), (12, 4, True), (1, 1, True), (8, 1, False)])
def test_sizes_decide(size: int, groups: int, inside: bool) -> None:
    ((compute, kernel),) = kernels(zynml.compile(TEXT)._session)
    facts = launch_facts(kernel, {"N": size, "G": groups}, ["x", "y", "out"])
    assert facts.inside is inside
    functions = thread_kernel(kernel, compute, facts).functions
    checks = [op for one in functions for top in one.body.body for op in top.walk() if isinstance(op, Check)]
    assert bool(checks) is not inside


def test_the_same_answers_and_faults() -> None:
    program = zynml.compile(TEXT, device="emulator")
    x, y = np.arange(13, dtype=np.float32), np.arange(100, 104, dtype=np.float32)
    np.testing.assert_array_equal(program.f(x, y), x + np.where(np.arange(13) > 0, y[np.arange(13) // 4], 0))
    with pytest.raises(zynml.ZynMLError, match=r"index 3 is out of range: axis 0 of `y` has 3 elements"):
        program.f(x, y[:3])


def test_a_size_of_nothing_is_no_fault() -> None:
    program = zynml.compile(TEXT, device="emulator")
    assert program.f(np.zeros(0, np.float32), np.zeros(0, np.float32)).shape == (0,)
