"""The first two hundred random programs on the CPU, and some on the emulator, assembled for GPUs; `python -m tests.random_nests 2000`
runs more."""

from functools import partial

import pytest

from compiler.backends.nvptx.assemble import can_assemble
from tests.random_nests.families import FAMILIES, random_program
from tests.random_nests.running import FAULTS, TARGETS, Launched, assembled, run, run_on
from tests.random_nests.writer import RandomProgram
from tests.shrinking import require_passing

BATCH = 10
EMULATED = 100


@pytest.mark.parametrize("first", range(0, 200, BATCH))
def test_python_interpreter_and_native_code_agree(first: int) -> None:
    for seed in range(first, first + BATCH):
        require_passing(partial(random_program, seed, None), run, FAULTS)


@pytest.mark.parametrize("first", range(1000, 1000 + EMULATED, BATCH))
def test_emulator_cpu_and_python_agree_and_the_launches_assemble(first: int) -> None:
    launched: list[Launched] = []

    def emulate(program: RandomProgram) -> None:
        kernels = run_on("emulator", program)
        launched.extend(kernels)
        if can_assemble():
            assembled(kernels, TARGETS[program.seed % len(TARGETS)])

    for seed in range(first, first + BATCH):
        require_passing(partial(random_program, seed, None), emulate, FAULTS)
    assert len(launched) >= BATCH // 2


def test_the_emulated_programs_are_of_every_family() -> None:
    assert {random_program(seed).family for seed in range(1000, 1000 + EMULATED)} == set(FAMILIES)


def test_programs_of_a_seed_are_the_same() -> None:
    assert [str(random_program(seed)) for seed in range(20)] == [str(random_program(seed)) for seed in range(20)]
