"""Strategies as somebody writes them who has read the documentation: a grid, bars of three kinds, brackets. They run the same however they
are compiled, and what came of them adds up."""

import csv
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantdsl
from runtime.replay.events import MarketSide
from tests.quantdsl.golden.programs import DATA

PROGRAMS = Path(__file__).parent / "programs"
TRADES, BOOKS = DATA / "btcusdt_spot_20240808_trades.csv", DATA / "btcusdt_spot_20240808.jsonl.gz"
ON = {"grid": TRADES, "bars": TRADES, "oco": BOOKS}


@cache
def ran(name: str, level: str = "latency") -> Any:
    found = quantdsl.compile(PROGRAMS / f"{name}.qdsl", level=level).run(ON[name], on_bad="skip")
    assert found.failure is None
    return found


@pytest.mark.parametrize("name", ON)
def test_optimisation_changes_nothing(name: str) -> None:
    assert ran(name, "0").summary["hash"] == ran(name).summary["hash"]


def test_each_fill_of_the_grid_places_one_order() -> None:
    found = ran("grid")
    fills, orders = found.records("fills"), np.sort(found.records("orders"), order="id")
    assert len(fills) > 10
    assert len(orders) == found.summary["submitted"] == 2 * 4 + len(fills)
    first = next(csv.DictReader(TRADES.open()))
    anchor = int(Decimal(first["price"]) * 100)
    assert sorted(orders["limit"][:8].tolist()) == sorted(anchor + k * 500 for k in range(-4, 5) if k)


def test_every_bracket_closes_what_was_bought() -> None:
    fills = ran("oco").records("fills")
    sign = np.where(fills["side"] == MarketSide.BUY, 1, -1)
    held = np.cumsum(sign * fills["qty"])
    assert len(fills) > 50 and held.min() >= 0 and held[-1] == 0
    assert held.max() <= 200


def test_bars_by_count_hold_so_many_trades() -> None:
    with TRADES.open() as file:
        rows = list(csv.DictReader(file))
    prices = np.array([int(Decimal(row["price"]) * 100) for row in rows])
    lots = np.array([int(Decimal(row["qty"]) * 100_000) for row in rows])
    whole = len(rows) // 100 * 100
    ranges = np.ptp(prices[:whole].reshape(-1, 100), axis=1)
    _, by_count, by_volume = ran("bars").table("log")["text"].to_pylist()
    assert by_count == f"{{ bars: {whole // 100}, volume: {lots[:whole].sum()}lots, range: {ranges.max()}ticks }}"
    assert by_volume != by_count
