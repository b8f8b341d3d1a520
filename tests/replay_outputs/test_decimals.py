"""Steps as decimals, against Python's own."""

from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.replay.grids import GridStep
from runtime.replay.outputs.decimals import Scale

TICKS = st.decimals(min_value="1e-30", max_value="1e6", allow_nan=False, places=12).filter(lambda d: d > 0)
UNITS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(TICKS, min_size=1, max_size=4), st.lists(st.tuples(UNITS, st.integers(0, 3)), max_size=20))
def test_columns_are_units_times_step(ticks: list[Decimal], rows: list[tuple[int, int]]) -> None:
    rows = [(units, one % len(ticks)) for units, one in rows]
    scale = Scale.of([GridStep.of(tick) for tick in ticks])
    column = scale.column(np.array([u for u, _ in rows], np.int64), np.array([i for _, i in rows], np.uint32))
    column.validate(full=True)
    assert column.to_pylist() == [product(units, ticks[i]) for units, i in rows]
    assert [scale.value(units, i) for units, i in rows] == column.to_pylist()


def product(units: int, tick: Decimal) -> Decimal:
    return Context(prec=200).multiply(Decimal(units), tick)


@pytest.mark.parametrize("tick", ["0.25", "1e-19", "1e-40", "5e3"])
def test_steps_of_any_size_keep_their_digits(tick: str) -> None:
    scale = Scale.of([GridStep.of(Decimal(tick))])
    ends = np.array([-(2**63), -1, 0, 1, 2**63 - 1], np.int64)
    column = scale.column(ends, np.zeros(5, np.uint32))
    assert column.to_pylist() == [product(int(end), Decimal(tick)) for end in ends]


def test_what_is_not_there_is_null() -> None:
    column = Scale.of([GridStep(2, 25)]).column(np.arange(10), np.zeros(10, np.uint32), np.arange(10) % 3 == 0)
    assert column.to_pylist() == [Decimal(n) / 4 if n % 3 == 0 else None for n in range(10)]


def test_no_rows_and_no_instruments() -> None:
    assert Scale.of([]).column(np.empty(0, np.int64), np.empty(0, np.uint32)).to_pylist() == []
