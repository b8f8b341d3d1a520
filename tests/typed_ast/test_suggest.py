"""Nearest names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.lowering import suggest as kernels
from compiler.typed_ast import suggest
from compiler.typed_ast.suggest import LONGEST_NAME, did_you_mean, edit_distance, nearest


@pytest.mark.parametrize(
    ("a", "b", "distance"), [("", "", 0), ("abc", "abc", 0), ("abc", "ab", 1), ("abc", "acb", 1), ("kitten", "sitting", 3), ("", "abc", 3)]
)
def test_distance(a: str, b: str, distance: int) -> None:
    assert edit_distance(a, b) == distance


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_distance_is_symmetric_and_bounded(a: str, b: str) -> None:
    found = edit_distance(a, b)
    assert found == edit_distance(b, a)
    assert abs(len(a) - len(b)) <= found <= max(len(a), len(b))


def test_the_nearest_come_first() -> None:
    assert nearest("wieght", ["width", "weight", "freight"]) == ("weight",)
    assert nearest("wieght", ["weights", "weight", "width"]) == ("weight", "weights")
    assert nearest("Zeros", ["zeros", "ones"]) == ("zeros",)


def test_short_names_are_near_in_another_case_only() -> None:
    assert nearest("x", ["y", "X", "xs"]) == ("X",)


def test_nothing_is_near() -> None:
    assert did_you_mean("frobnicate", ["zeros", "ones"]) is None


def test_a_hint_names_what_is_near() -> None:
    assert did_you_mean("lenght", ["length", "print"]) == "did you mean `length`?"


def test_a_long_name_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []
    monkeypatch.setattr(suggest, "edit_distance", lambda a, b: compared.append((a, b)) or edit_distance(a, b))
    name = "n" * LONGEST_NAME
    assert nearest(name, [name[1:], "short"]) == (name[1:],)
    assert len(compared) == 1
    long = "n" * 8000
    assert nearest(long, [long[1:], long[2:]]) == ()
    assert kernels.nearest(long, [long[1:], long[2:]]) == ""
    assert did_you_mean(long, [long + "m"]) is None
    assert len(compared) == 1


def test_candidates_of_another_length_are_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    monkeypatch.setattr(suggest, "edit_distance", lambda a, b: lengths.append(len(a) * len(b)) or 0)
    nearest("n" * LONGEST_NAME, ["n" * length for length in range(1, 8000, 7)])
    assert lengths
    assert max(lengths) <= LONGEST_NAME * (LONGEST_NAME + LONGEST_NAME // 3)
