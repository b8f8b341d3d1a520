"""Every planted fault is found, and the message names the lines that it is about."""

from functools import cache

import pytest

import zynml
from compiler.diagnostics import Diagnostic
from tests.sanitize.plants import PLANTS, Plant

FEWEST = 60
FEWEST_AT_RUN_TIME = 55


@cache
def findings(text: str) -> tuple[Diagnostic, ...]:
    try:
        zynml.compile(text, sanitize=True).run()
    except zynml.ZynMLError as error:
        return error.diagnostics
    return ()


def lines_of(found: Diagnostic, text: str) -> set[int]:
    spans = [found.span, *(other.span for other in found.others)]
    return {text.count("\n", 0, span.start) for span in spans if span is not None}


def marked(text: str) -> set[int]:
    return {number for number, line in enumerate(text.split("\n")) if "//!" in line}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_a_planted_fault_is_found(plant: Plant) -> None:
    found = findings(plant.text)
    places = {d.code: [lines_of(one, plant.text) for one in found if one.code == d.code] for d in found}
    assert marked(plant.text) in places.get(plant.code, []), places
    assert all("thread" in f"{one.message} {one.label}" for one in found if one.running)


def test_there_are_enough_of_them_and_most_show_only_as_they_run() -> None:
    assert len(PLANTS) >= FEWEST
    assert len({plant.name for plant in PLANTS}) == len({plant.text for plant in PLANTS}) == len(PLANTS)
    found = [findings(plant.text) for plant in PLANTS]
    assert sum(all(one.running or one.at_run_time for one in several) for several in found) >= FEWEST_AT_RUN_TIME
