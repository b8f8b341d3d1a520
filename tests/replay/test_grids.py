"""Decimals on grids: the compiled reader against `decimal` and `fractions`, which also say what the exact Python reader must give."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import Why
from runtime.replay.columns import TextColumn, settled
from runtime.replay.grids import GridStep

TICKS = ("0.01", "0.25", "1", "5", "0.03125", "1e-8", "0.00001", "2.5", "100", "3")


def column(texts: list[str]) -> TextColumn:
    raw = [text.encode() for text in texts]
    lengths = np.array([len(one) for one in raw], np.int64)
    return TextColumn(np.frombuffer(b"".join(raw) or b"\0", np.uint8), np.cumsum(lengths) - lengths, lengths, NativeDecoders())


def expected(text: str, tick: str) -> int | None:
    """None where the text is no decimal, off the grid or out of 64 bits."""
    steps = Fraction(Decimal(text)) / Fraction(Decimal(tick))
    return int(steps) if steps.denominator == 1 and -(2**63) <= steps < 2**63 else None


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20)


@settings(max_examples=150, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=20), st.sampled_from(TICKS), st.sampled_from(("f", "e")))
def test_decimals_are_exact_or_refused(numbers: list[Decimal], tick: str, form: str) -> None:
    texts = [format(number, form) for number in numbers]
    values, wrong = settled(column(texts), GridStep.of(Decimal(tick)))
    for row, text in enumerate(texts):
        want = expected(text, tick)
        if want is None:
            assert wrong[row] in (Why.OFF_GRID, Why.OUT_OF_RANGE)
        else:
            assert (row not in wrong, int(values[row])) == (True, want)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20), st.sampled_from(TICKS))
def test_points_of_the_grid_come_back(steps: list[int], tick: str) -> None:
    step = GridStep.of(Decimal(tick))
    texts = [f"{Decimal(one * step.divisor).scaleb(-step.digits):f}" if abs(one) * step.divisor < 10**27 else "0" for one in steps]
    values, wrong = settled(column(texts), step)
    assert not wrong
    assert [int(value) for value in values] == [0 if text == "0" else one for one, text in zip(steps, texts, strict=True)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", Why.EMPTY),
        ("  ", Why.EMPTY),
        ("nan", Why.NOT_FINITE),
        ("-Inf", Why.NOT_FINITE),
        ("infinity", Why.NOT_FINITE),
        ("12.3x", Why.UNREADABLE),
        ("1,5", Why.UNREADABLE),
        ("1_000", Why.UNREADABLE),
        ("--1", Why.UNREADABLE),
        ("+", Why.UNREADABLE),
        (".", Why.UNREADABLE),
        ("1.2.3", Why.UNREADABLE),
        ("0x10", Why.UNREADABLE),
        ("1e", Why.UNREADABLE),
        ("٣", Why.UNREADABLE),
        ("0.005", Why.OFF_GRID),
        ("1e-999999999", Why.OFF_GRID),
        ("9223372036854775808", Why.OUT_OF_RANGE),
        ("1e999999999", Why.OUT_OF_RANGE),
        ("99999999999999999999999", Why.OUT_OF_RANGE),
    ],
)
def test_what_is_wrong_with_a_field(text: str, why: Why) -> None:
    assert settled(column(["1", text, "2"]), GridStep.of(Decimal("0.01")))[1] == {1: why}


@pytest.mark.parametrize(
    ("text", "steps"), [("1.", 100), (".5", 50), ("+0.010000000000000000000000", 1), (" 7\t", 700), ("-0", 0), ("5e-2", 5), ("1E2", 10000)]
)
def test_plain_and_odd_forms(text: str, steps: int) -> None:
    values, wrong = settled(column([text]), GridStep.of(Decimal("0.01")))
    assert (values.tolist(), wrong) == ([steps], {})


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=10), st.integers(0, 12), st.sampled_from(TICKS))
def test_integers_of_a_power_of_ten(numbers: list[int], power: int, tick: str) -> None:
    values, good = GridStep.of(Decimal(tick)).of_integers(np.array(numbers, np.int64), power)
    for number, value, fits in zip(numbers, values.tolist(), good.tolist(), strict=True):
        steps = Fraction(number, 10**power) / Fraction(Decimal(tick))
        # one step at either end of 64 bits may be refused
        if steps.denominator == 1 and abs(steps) < 2**62:
            assert (fits, value) == (True, steps)
        elif steps.denominator != 1 or not -(2**63) <= steps < 2**63:
            assert not fits


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=10), st.sampled_from(TICKS[:8]))
def test_doubles_are_the_nearest_to_a_point_or_refused(numbers: list[int], tick: str) -> None:
    step = GridStep.of(Decimal(tick))
    points = np.array([float(one * step.size) for one in numbers])
    values, good = step.of_floats(points)
    assert good.all() and values.tolist() == numbers
    beside = np.nextafter(points, np.inf)
    assert not step.of_floats(beside)[1].any()
    assert not step.of_floats(np.array([np.nan, np.inf, -np.inf, 1e300]))[1].any()


@pytest.mark.parametrize("size", ["0", "-1", "nan", "inf"])
def test_no_step_of_nothing(size: str) -> None:
    with pytest.raises(ValueError, match="no step"):
        GridStep.of(Decimal(size))


def test_words_are_packed_in_lower_case() -> None:
    found = NativeDecoders().words(*(lambda c: (c.bytes, c.starts, c.lengths))(column(["Buy", " s ", "", "abcdefgh", "abcdefghi"])))
    assert found.tolist() == [int.from_bytes(w, "little") for w in (b"buy", b"s", b"", b"abcdefgh")] + [2**64 - 1]
