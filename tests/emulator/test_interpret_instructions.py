"""Every GPU instruction in the emulator: what its cases compute is what NumPy or a closed form says, in order and in random orders."""

import pytest

import tests.emulator_cases
import tests.emulator_hopper_cases  # noqa: F401  (both write their cases down)
from tests.emulated import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_emulator_computes_what_numpy_says(case: Case) -> None:
    launch = case.make()
    present = {op.name for top in launch.function().body.body for op in top.walk()}
    assert set(case.instructions) <= present
    for seed in (None, 1):
        launch.check(seed)
