"""How many candidates a run's seconds are enough for."""

import pytest

from compiler.devices.tuning.tuner import affordable
from compiler.schedule.gpu.choose import LaunchChoice
from compiler.schedule.gpu.facts import NOTHING


@pytest.mark.parametrize(
    ("milliseconds", "seconds", "count"),
    [
        ([1, 1, 1, 1, 1, 1], 2.0, 6),
        ([20, 20, 21, 22, 22, 23], 2.0, 6),
        ([40, 40, 41, 42], 2.0, 3),  # 7 launches of each in a second
        ([100, 101], 2.0, 1),
        ([100, 101], 20.0, 2),
        ([5000, 5001], 2.0, 1),
    ],
)
def test_what_is_long_leaves_room_for_fewer(milliseconds: list[float], seconds: float, count: int) -> None:
    choices = tuple(LaunchChoice(NOTHING, 1e6 * each) for each in milliseconds)
    assert affordable(choices, seconds) == choices[:count]
