"""Which checks of host functions are taken away: those that can't fail, and no others."""

import pytest

from compiler.hir.parse import parse_function
from compiler.passes.prove_checks import prove_checks

HEAD = 'func @f(%x: i64, %y: i8, %s: ptr<struct<S; b: array<8 x i64>>>) form=A { site 0806 "s" '


def kept(text: str) -> list[bool]:
    """Of each check of a function, in order, whether it stays."""
    return [proof.kept for proof in prove_checks(parse_function(HEAD + text + " }"))]


@pytest.mark.parametrize(
    ("divisor", "stays"),
    [(0, True), (-1, True), (1, False), (2, False), (-2, False)],
)
def test_a_quotient_is_checked_for_zero_and_for_the_least_int_by_minus_one(divisor: int, stays: bool) -> None:
    assert kept(f"%d = const {divisor} : i64  %r = checked div %x, %d site=0 : i64") == [stays]


def test_a_remainder_by_minus_one_has_a_result() -> None:
    assert kept("%d = const -1 : i64  %r = checked rem %x, %d site=0 : i64") == [False]


def test_a_dividend_that_isnt_the_least_int_divides_by_minus_one() -> None:
    assert kept("%w = cast %y to=i64 : i64  %d = const -1 : i64  %r = checked div %w, %d site=0 : i64") == [False]


@pytest.mark.parametrize(
    ("loop", "stays"), [("0..8", False), ("0..9", True), ("-1..8", True), ("7..-1 step -1", False), ("8..-1 step -1", True)]
)
def test_an_index_is_checked_from_the_first_element_to_the_last(loop: str, stays: bool) -> None:
    text = f"%m = member b %s : ptr<array<8 x i64>> for i in {loop} {{ %k = cast %i to=i64 : i64  %e = element %m, %k site=0 : ptr<i64> }}"
    assert kept(text) == [stays]


@pytest.mark.parametrize(("last", "stays"), [(127, False), (128, True)])
def test_a_narrower_type_is_checked_where_it_doesnt_hold_the_number(last: int, stays: bool) -> None:
    text = f"for i in 0..{last + 1} {{ %k = cast %i to=i64 : i64  %n = narrow %k to=i8 site=0 : i8 }}"
    assert kept(text) == [stays]


@pytest.mark.parametrize(
    ("operator", "number", "stays"), [("sub", 127, False), ("sub", -128, True), ("add", -128, False), ("add", 28, True)]
)
def test_a_sum_is_checked_where_the_type_doesnt_hold_it(operator: str, number: int, stays: bool) -> None:
    """A number and 0 to 100, in a type that holds -128 to 127."""
    text = f"for i in 0..101 {{ %k = cast %i to=i8 : i8  %n = const {number} : i8  %r = checked {operator} %n, %k site=0 : i8 }}"
    assert kept(text) == [stays]
