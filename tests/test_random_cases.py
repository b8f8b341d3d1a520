"""Some random cases of every kernel kind on the emulator, as GPUs of three generations, assembled for them; `python -m tests.random_cases`
runs more."""

from functools import partial

import pytest

from compiler.backends.nvptx.assemble import can_assemble
from tests.random_cases.case import TARGETS, Case, run
from tests.random_cases.phases import phases
from tests.random_cases.running import KINDS, random_case
from tests.random_nests.running import assembled, recording
from tests.shrinking import require_passing

CASES, BATCH = 60, 6


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_cases_are_right_on_the_emulator_and_assemble(first: int) -> None:
    for seed in range(first, first + BATCH):
        require_passing(partial(random_case, seed, True), partial(emulate, TARGETS[seed % len(TARGETS)]), (Exception,))


@pytest.mark.parametrize(("device", "first"), [*(("emulator", first) for first in range(0, 48, 12)), *(("cpu", first) for first in range(100, 124, 12))])
def test_several_reductions_of_one_window_or_row(device: str, first: int) -> None:
    for seed in range(first, first + 12):
        place = f"emulator:{TARGETS[seed % len(TARGETS)]}" if device == "emulator" else device
        require_passing(partial(random_case, seed, True, made=phases), partial(run, device=place), (Exception,))


def emulate(target: str, case: Case) -> None:
    with recording() as launched:
        run(case, f"emulator:{target}")
    if can_assemble():
        assert len(assembled(launched, target)) == len(launched) > 0 or case.inputs[0].size == 0


def test_the_cases_are_of_every_kind() -> None:
    assert {random_case(seed, tiny=True).kind for seed in range(CASES)} == {made.__name__.rstrip("_") for _, made in KINDS}


def test_cases_of_a_seed_are_the_same() -> None:
    assert [random_case(seed).source for seed in range(30)] == [random_case(seed).source for seed in range(30)]
