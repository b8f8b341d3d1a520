"""Which ways to cut a product are tried on a device."""

import pytest
from attrs import evolve

from compiler.schedule.gpu.products.candidates import LEAST, MOST, NEAR, candidates, left_open
from compiler.schedule.gpu.products.tiling import Estimated, ProductWork, TileRequests, Tiling, ranked

TILING = Tiling(("i",), (128,), 256, 2, 1, 4)
LONG = 10 * LEAST


def ways(*times: float, **more: list[int]) -> list[Estimated]:
    """Ways that take so many times as long as the first, each of another width unless `more` says what differs."""
    fields = more or {"columns": [256 - 8 * number for number in range(len(times))]}
    kinds = [evolve(TILING, **{name: values[number] for name, values in fields.items()}) for number in range(len(times))]
    return [Estimated(tiling, LONG * time) for tiling, time in zip(kinds, times, strict=True)]


def test_what_is_near_the_first_is_tried() -> None:
    given = ways(1.0, 1.05, NEAR - 0.001, NEAR + 0.001, 2.0)
    assert candidates(given) == (*given[:3],)


def test_one_that_stands_clear_is_alone() -> None:
    given = ways(1.0, NEAR + 0.001)
    assert candidates(given) == (given[0],) and [*left_open(given)] == []


def test_not_all_are_tried() -> None:
    given = ways(*(1 + number / 1000 for number in range(3 * MOST)))
    assert candidates(given) == (*given[:MOST],)
    assert next(left_open(given)).startswith(f"{MOST - 1} other ways are estimated to be as fast within 15%: ")


def test_other_shapes_come_before_other_warpgroups() -> None:
    given = ways(1.0, 1.01, 1.02, columns=[256, 256, 128], groups=[2, 1, 2])
    assert candidates(given) == (given[0], given[2], given[1])


def test_what_is_as_long_as_its_launch_is_not_tried() -> None:
    short = [evolve(way, nanoseconds=way.nanoseconds * 0.9 * LEAST / LONG) for way in ways(1.0, 1.01)]
    assert candidates(short) == (short[0],)


def test_nothing_is_left_open_where_the_way_was_given() -> None:
    assert [*left_open(())] == []


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (16, 14336, 4096), (1000, 1016, 1000)], ids=str)
def test_of_the_model_the_first_is_its_choice(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    given = ranked(ProductWork(("i",), 1, (n,), m, -(-k // 64), 132), lambda rows: (rows,), TileRequests())
    found = candidates(given)
    assert found[0] == given[0] and len(set(found)) == len(found) <= MOST
