"""A machine unlike any that the compiler knows, added by values alone: warps of 16 lanes, no matrix unit, little shared memory, and blocks that
don't see what other blocks of their launch write. Every program of the gallery runs on it, and nowhere else."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.cpu.native import NativeKernel
from compiler.emulator.interpret import interpret
from compiler.launch import emulator
from compiler.launch.emulator import EmulatedBlock
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import MACHINES
from compiler.targets import nvidia
from compiler.targets.registry import TARGETS
from compiler.targets.target import Target
from tests.programs.on_devices import PROGRAMS, ROOT, beside_the_cpu, emulator_command
from zyntax.main import cli

KIB = 1024
TOY = GpuMachine("toy", (0, 1), warps=32, blocks=8, shared=16 * KIB, block_shared=16 * KIB, stage_shared=8 * KIB, registers=8192, lanes=16)
SUM = "fn total(x: tensor[N, f32]) { return compute(x) -> f32 { var s = 0.0f32\nfor i in 0..N: s += x[i]\nyield s } }"
SCAN = "fn running(x: tensor[N, i32]) { return compute(x) @kernel(scan, +) { for i in 0..N: yield x[i] } }"

by_name = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The target, and the lanes of the warps of each launch that ran."""
    monkeypatch.setitem(MACHINES, "toy", TOY)
    target = Target("toy", TOY, nvidia.PASSES, (), lambda program, stage: "", "emulator:toy")
    monkeypatch.setitem(TARGETS, "toy", lambda: target)
    launched: list[int] = []

    def noted(*given: Any, lanes: int, **launch: Any) -> Any:
        launched.append(lanes)
        return interpret(*given, lanes=lanes, **launch)

    monkeypatch.setattr(emulator, "interpret", noted)
    return launched


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """No kernel runs on the CPU, except while what this gives lasts."""
    run = NativeKernel.run
    monkeypatch.setattr(NativeKernel, "run", lambda *call: pytest.fail("a kernel ran on the CPU"))

    @contextmanager
    def allowed() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(NativeKernel, "run", run)
            yield

    return allowed


@by_name
def test_a_program_of_the_gallery_runs_on_it_and_nowhere_else_and_agrees_with_the_cpu(
    program: Path, tmp_path: Path, toy: list[int], monkeypatch: pytest.MonkeyPatch, beside: Callable[[], AbstractContextManager[None]]
) -> None:
    """By the command of the program's head, which states what is printed."""
    monkeypatch.chdir(ROOT)
    command = [TARGETS["toy"]().executor if word == "emulator" else word for word in emulator_command(program)]
    with beside_the_cpu(EmulatedBlock, beside) as blocks:
        assert not cli.main(args=[*command, "--render-dir", str(tmp_path)], prog_name="zyntax", standalone_mode=False)
    assert blocks
    assert set(toy) == {16}


@pytest.mark.parametrize("size", (0, 1, 15, 16, 17, 1000, 4097))
@pytest.mark.usefixtures("beside")
def test_whole_sums_take_one_launch_and_scans_few(size: int, toy: list[int]) -> None:
    x = np.arange(size) % 7 - 3
    assert zynml.compile(SUM, device="emulator:toy").total(x.astype(np.float32)) == x.sum()
    assert len(toy) == 1
    toy.clear()
    running = zynml.compile(SCAN, device="emulator:toy").running(x.astype(np.int32))
    assert np.array_equal(np.asarray(running), np.cumsum(x))
    assert len(toy) == (3 if size > 4096 else min(size, 1))
