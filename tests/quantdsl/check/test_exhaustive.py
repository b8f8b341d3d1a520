"""`match` is exhaustive exactly when a brute search over all values says so."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantdsl.check.test_types import messages

HEAD = "enum Mode { Calm, Busy(bool), Closed(Side, bool) }\n"
SIDES, BOOLS = ["Buy", "Sell"], ["true", "false"]
VALUES = ["Calm", *(f"Busy({b})" for b in BOOLS), *(f"Closed({s}, {b})" for s, b in itertools.product(SIDES, BOOLS))]

sides, bools = (st.sampled_from(["_", *found]) for found in (SIDES, BOOLS))
patterns = st.one_of(
    st.just("Calm"),
    st.builds("Busy({})".format, bools),
    st.builds("Closed({}, {})".format, sides, bools),
    st.builds("Closed(Buy | Sell, {})".format, bools),
    st.sampled_from(["_", "x"]),
)


def _covers(pattern: str, value: str) -> bool:
    if pattern in ("_", "x"):
        return True
    return re.fullmatch(re.escape(pattern).replace(r"Buy\ \|\ Sell", r"\w+").replace("_", r"\w+"), value) is not None


@settings(max_examples=150, deadline=None)
@given(st.lists(patterns, min_size=1, max_size=6))
def test_matches_on_an_enum(arms: list[str]) -> None:
    found = messages(f"{HEAD}fn f(m: Mode) -> int {{\n  match m {{\n{''.join(f'    {arm} => 1' + chr(10) for arm in arms)}  }}\n}}")
    missing = [value for value in VALUES if not any(_covers(arm, value) for arm in arms)]
    assert [text[:4] for text in found] == (["0206"] if missing else [])
    if missing:
        example = re.search(r"cover `(.*)`", found[0])
        assert example is not None
        assert any(_covers(example[1], value) for value in missing)


@pytest.mark.parametrize(
    ("subject", "arms", "whole"),
    [
        ("bool", "true => 1, false => 2", True),
        ("bool", "true => 1", False),
        ("int", "0..10 => 1", False),
        ("int", "case 0: 1\n    case _: 2", True),
        ("Side?", "none => 1, some(Buy) => 2, some(Sell) => 3", True),
        ("Side?", "some(_) => 2", False),
        ("Result<bool, Side>", "Ok(_) => 1, Err(Buy) => 2, Err(Sell) => 3", True),
        ("Result<bool, Side>", "Ok(true) => 1, Err(_) => 2", False),
        ("(bool, bool)", "(true, _) => 1, (_, true) => 2, (false, false) => 3", True),
        ("(bool, bool)", "(true, _) => 1, (_, true) => 2", False),
        ("bool", "x if x => 1, _ => 2", True),
        ("bool", "x if x => 1, x if not x => 2", False),
    ],
)
def test_matches_on_other_types(subject: str, arms: str, whole: bool) -> None:
    found = messages(f"fn f(v: {subject}) -> int {{\n  match v {{\n    {arms}\n  }}\n}}")
    assert [text[:4] for text in found] == ([] if whole else ["0206"])


def test_alternatives_in_many_places_are_not_multiplied_out() -> None:
    sides, both = ", ".join(["Side"] * 40), ", ".join(["Buy | Sell"] * 40)
    assert messages(f"fn f(t: ({sides})) -> int {{\n  match t {{ ({both}) => 1 }}\n}}") == []
