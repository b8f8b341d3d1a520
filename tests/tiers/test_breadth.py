"""The table of slow cases names tests that exist, and leaves every test something for the commit tier."""

import itertools
import re

import pytest

from tests.tiers.breadth import ROOT, Breadth, breadth, covering

CASES = {f"{a}-{b}": {"a": a, "b": b} for a, b in itertools.product(range(3), range(4))}
TEST = "tests/some/test_file.py::test_it"


def test_the_table_names_tests_that_exist_each_once() -> None:
    tests = breadth().tests
    missing = []
    for test in tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
        if not re.search(rf"^ *def {re.escape(name)}\(", text, re.MULTILINE):
            missing.append(test)
    assert missing == []


def test_a_product_keeps_each_value_of_each_parameter() -> None:
    kept = covering(CASES)
    assert [{CASES[name][parameter] for name in kept} for parameter in "ab"] == [{0, 1, 2}, {0, 1, 2, 3}]
    assert kept == ["0-0", "1-1", "2-2", "0-3"]


def test_a_test_that_isnt_in_the_table_has_no_slow_case() -> None:
    assert Breadth().slow(TEST, CASES) == set()


def test_slow_cases_of_each_kind_of_entry() -> None:
    assert Breadth(whole=[TEST]).slow(TEST, CASES) == {*CASES}
    assert {*CASES} - Breadth(thinned={TEST: 5}).slow(TEST, CASES) == {"0-0", "1-1", "2-2"}
    assert Breadth(cases={TEST: [re.compile("2-.*"), re.compile(".*-3")]}).slow(TEST, CASES) == {"0-3", "1-3", "2-0", "2-1", "2-2", "2-3"}
    assert {*CASES} - Breadth(products=[TEST], cases={TEST: [re.compile("0-0")]}).slow(TEST, CASES) == {"0-1", "1-0", "2-2", "0-3"}


@pytest.mark.parametrize("number", range(2))
def test_a_slow_case_is_marked(number: int, request: pytest.FixtureRequest) -> None:
    """Its second case is in the table, and so runs in the slow tier alone."""
    assert (request.node.get_closest_marker("slow") is not None) == (number == 1)
