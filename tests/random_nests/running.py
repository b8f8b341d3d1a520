"""Runs random programs every way there is, and compares."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import evolve, frozen

import zynml
from compiler.backends.nvptx.assemble import Cubin, assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.diagnostics import ZyntaxError
from compiler.launch import emulator as device_kernels
from compiler.launch.kernels import BuiltKernel
from compiler.launch.thread_kernels import ThreadKernel
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.facts import Facts
from compiler.typed_ast import nodes
from tests.kernels import checks
from tests.random_nests.writer import RandomProgram
from zynml import ZynMLError

REFUSALS = {"ZYN0403", "ZYN0404", "ZYN0405", "ZYN0406"}
"""What may be said of nests whose iterations meet."""

PLAIN_PYTHON = ("f32", "f64", "i32", "i64")
"""Types whose numbers stay so small here that Python's own agree."""

TARGETS = ("sm_75", "sm_90a")
"""GPUs for which launches are assembled: programs take turns."""

FAULTS = (AssertionError, ZynMLError, ZyntaxError, ValueError, IndexError, KeyError, TypeError)
"""What a program that goes wrong raises."""


def run(program: RandomProgram) -> None:
    """Runs the program on the CPU every way there is. Raises AssertionError where two disagree, ZynMLError where it isn't accepted."""
    try:
        fast = checks.launched_with(zynml.compile(program.text), *program.values())
    except ZynMLError as error:
        if _may_refuse(program, error):
            return
        raise
    plain = zynml.compile(program.text, opt="0", threads=1).f(*program.values())
    _same(program, fast, plain, "O3 and O0")
    _as_python_says(program, fast)


@frozen
class Launched:
    """A block that the emulator has launched, and for which facts."""

    built: BuiltKernel
    compute: nodes.Compute
    facts: Facts

    def kernel_for(self, target: str) -> ThreadKernel:
        """What a GPU of this target launches for the same facts."""
        return device_kernels.thread_kernel(self.built, self.compute, evolve(self.facts, machine=MACHINES[target]))


def run_on(device: str, program: RandomProgram) -> list[Launched]:
    """Runs the program on a device and on the CPU, which must agree with each other and with Python. Gives what the emulator has
    launched, nothing for programs that are refused. Raises as `run` does."""
    try:
        plain = zynml.compile(program.text, opt="0", threads=1).f(*program.values())
    except ZynMLError as error:
        if _may_refuse(program, error):
            return []
        raise
    with recording() as launched:
        got = zynml.compile(program.text, device=device).f(*program.values())
    _same(program, got, plain, f"{device} and CPU")
    _as_python_says(program, got)
    return launched


@contextmanager
def recording() -> Iterator[list[Launched]]:
    """The launches that are made while this lasts."""
    original, made = device_kernels.thread_kernel, []

    def recorded(built: BuiltKernel, compute: nodes.Compute, facts: Facts) -> ThreadKernel:
        made.append(Launched(built, compute, facts))
        return original(built, compute, facts)

    device_kernels.thread_kernel = recorded
    try:
        yield made
    finally:
        device_kernels.thread_kernel = original


def assembled(launched: list[Launched], target: str) -> list[Cubin]:
    """Machine code of what a target launches, a cubin a block."""
    return [assemble(compile_kernels(one.kernel_for(target).functions, gpu_target(target))) for one in launched]


def expected(program: RandomProgram) -> list[dict[tuple[int, ...], float]]:
    """What Python computes: the elements that are written, for each result."""
    names: dict[str, Any] = {**program.sizes, **program.arrays, "math": math, **{name: {} for name in ("out", "y", "z", "w", "rows")}}
    exec(compile(program.python, "<random program>", "exec"), names)
    if program.results == ("y", "(z, w)"):
        return [names["y"], names["z"], names["w"]]
    return [names["y"], names["z"]] if program.results == ("y", "z") else [names["out"]]


def _may_refuse(program: RandomProgram, error: ZynMLError) -> bool:
    return program.may_refuse and set(error.codes) <= REFUSALS


def _as_python_says(program: RandomProgram, got: Any) -> None:
    if program.dtype in PLAIN_PYTHON or program.exact_sums:
        for value, want in zip(_flat(got), expected(program), strict=True):
            _equal(program, value, want)


def _flat(value: Any) -> list[Any]:
    return [part for one in value for part in _flat(one)] if isinstance(value, tuple) else [value]


def _same(program: RandomProgram, one: Any, other: Any, what: str) -> None:
    if isinstance(one, tuple):
        for a, b in zip(one, other, strict=True):
            _same(program, a, b, what)
        return
    a, b = np.asarray(one).astype(np.float64), np.asarray(other).astype(np.float64)
    assert a.shape == b.shape, what
    if program.exact:
        np.testing.assert_array_equal(a, b, what)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(b).max(initial=1), err_msg=what)


def _equal(program: RandomProgram, got: Any, want: dict[tuple[int, ...], float]) -> None:
    array = np.asarray(got).astype(np.float64)
    full = np.zeros(array.shape)
    if program.results[0].startswith("copy of"):
        full[...] = program.arrays[program.results[0].removeprefix("copy of ")]
    for index, value in want.items():
        full[index] = value
    if program.exact:
        np.testing.assert_array_equal(array, full, "the result and Python")
    else:
        np.testing.assert_allclose(array, full, rtol=1e-5, atol=1e-5 * np.abs(full).max(initial=1), err_msg="the result and Python")
