"""A block is analysed once for all targets, and a target's schedule is made where it runs."""

import numpy as np
import pytest

import zynml
from compiler.launch import kernels as built_kernels
from compiler.passes import analysed as front

TEXT = "def double(x: tensor[N]) { compute(x) { for i in 0..N: out[i] = x[i] + x[i] } }"

X = np.arange(5, dtype=np.float32)


@pytest.fixture
def schedules(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of nests that the CPU's schedule is made for, where no cache on disk has it."""
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    names: list[str] = []

    def noting(kernel, machine):
        names.append(kernel.nest.name)
        return schedule_for_cpu(kernel, machine)

    schedule_for_cpu = built_kernels.schedule_for_cpu
    monkeypatch.setattr(built_kernels, "schedule_for_cpu", noting)
    return names


def test_another_device_takes_no_schedule_of_the_cpu(schedules: list[str]) -> None:
    np.testing.assert_array_equal(zynml.compile(TEXT, device="emulator").double(X), 2 * X)
    assert ".visible .entry double_line1" in zynml.compile(TEXT).emit("ptx", "sm_80")
    assert schedules == []


def test_the_cpu_schedules_a_block_once(schedules: list[str]) -> None:
    program = zynml.compile(TEXT, device="cpu")
    for x in (X, X[:2], X):
        np.testing.assert_array_equal(program.double(x), 2 * x)
    assert len(schedules) == 1


def test_a_block_is_lifted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lifted = []
    lift = front.lift
    monkeypatch.setattr(front, "lift", lambda nest, *rest, **named: lifted.append(nest.name) or lift(nest, *rest, **named))
    program = zynml.compile(TEXT, device="emulator")
    for x in (X, X[:2]):
        np.testing.assert_array_equal(program.double(x), 2 * x)
    assert len(lifted) == 1
