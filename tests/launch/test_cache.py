"""The levels of caches between a call and its code: what they are known by, what they hold, and what makes way."""

import numpy as np
import pytest

import zynml
from compiler.launch import block, cache
from compiler.launch.cache import ABSENT, Cache, CacheLevel, RecentCache, StoredLevel
from runtime.tensor import Tensor

LEVELS = [level for level in vars(cache).values() if isinstance(level, CacheLevel | StoredLevel)]
THREE = CacheLevel("numbers", "their names", 3)


def test_every_level_says_what_it_holds_and_by_what_it_is_known() -> None:
    assert len({level.holds for level in LEVELS}) == len(LEVELS) > 15
    assert all(level.key for level in LEVELS)


def test_all_make_way_where_one_more_comes_than_the_bound() -> None:
    numbers = Cache(THREE)
    for number in range(3):
        assert numbers.keep(number, -number) == -number
    assert dict(numbers) == {0: 0, 1: -1, 2: -2}
    numbers.keep(3, -3)
    assert dict(numbers) == {3: -3}


def test_an_entry_is_made_once_also_if_it_is_none() -> None:
    made: list[int] = []
    numbers: Cache[str, None] = Cache(THREE)
    for _ in range(3):
        assert numbers.of("a", lambda: made.append(1)) is None
    assert made == [1]


def test_of_recent_entries_the_one_makes_way_that_was_not_asked_for_the_longest() -> None:
    numbers = RecentCache(THREE)
    for number in range(3):
        numbers.keep(number, str(number))
    assert numbers.recall(0) == "0"
    numbers.keep(3, "3")
    assert sorted(numbers) == [0, 2, 3]
    assert numbers.recall(1) is ABSENT
    numbers.keep(2, "two")
    assert dict(numbers) == {0: "0", 3: "3", 2: "two"}


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The plans of calls that are made."""
    made: list[object] = []
    planned = block.planned
    monkeypatch.setattr(block, "planned", lambda *given: made.append(given) or planned(*given))
    return made


def test_a_call_is_planned_once_for_a_layout_and_a_size(plans: list[object]) -> None:
    program = zynml.compile("def f(x, n: int) { compute(x, n) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] * n } }", device="cpu")
    function = program._session.host.functions["f"]  # machine code answers Python's own calls that come again
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    other, wide = np.ascontiguousarray(x.T), x.astype(np.float64)
    for given, n, count in [(x, 2, 1), (x + 1, 2, 1), (x, 3, 2), (x[:2], 3, 3), (x.T, 3, 4), (other, 3, 5), (wide, 3, 6), (x, 2, 6)]:
        np.testing.assert_array_equal(function(Tensor(given), n).array, given * n)
        assert len(plans) == count
