"""The engine's fills are those of another replayer, hftbacktest, where both have the same rules (docs/fills.md).

`expected.json` has the oracle's fills, so that the comparison needs nothing; where the oracle is, it is asked again."""

import json
import os
import sys
from collections import defaultdict
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from math import ceil
from typing import Any

import pytest

from tests.replay.oracle.cases import CASES, OracleCase
from tests.replay.oracle.ours import INSTRUMENT, TICK_VALUE, moments_of, records_of
from tests.replay.oracle.renew import EXPECTED, asked

PYTHON = os.environ.get("ZYNTAX_ORACLE_PYTHON") or (sys.executable if find_spec("hftbacktest") else None)
needs_oracle = pytest.mark.skipif(
    PYTHON is None, reason="needs hftbacktest: `pip install hftbacktest==2.4.4`, here or where ZYNTAX_ORACLE_PYTHON names the interpreter"
)
COMPARED = ("ts", "order", "qty", "last_price", "last_qty", "maker", "whole")


@cache
def case_of(name: str) -> OracleCase:
    return CASES[name]()


@cache
def ours(name: str) -> dict[str, Any]:
    return records_of(case_of(name))


@cache
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def expected_fills(name: str) -> list[dict[str, Any]]:
    return [dict(zip(expected()["fields"], row, strict=True)) for row in expected()["cases"][name]]


def compared(fills: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(fill[name] for name in COMPARED) for fill in fills)


@pytest.mark.parametrize("name", CASES)
def test_fills_are_those_of_the_oracle(name: str) -> None:
    fills = expected_fills(name)
    assert len(fills) >= 30
    assert compared(moments_of(ours(name))) == compared(fills)


@pytest.mark.parametrize("name", CASES)
def test_fees_are_those_of_the_oracle_rounded_against_the_trader(name: str) -> None:
    """The oracle adds up, in floats, the fee of each order's last fill; it does so again when a filled order is cancelled, so sums are compared
    up to the first cancel."""
    exact: dict[int, Fraction] = defaultdict(Fraction)
    for fill in moments_of(ours(name)):
        rate = (INSTRUMENT.maker if fill["maker"] else INSTRUMENT.taker).bps / 10_000
        fee = fill["last_price"] * fill["last_qty"] * TICK_VALUE * rate
        assert fill["fee"] == ceil(fee)
        exact[fill["ts"]] += fee if fill["whole"] else 0
    total, theirs = Fraction(0), {fill["ts"]: fill["fees"] for fill in expected_fills(name)}
    requests = case_of(name).requests
    end = min(requests["ts"][requests["cancel"] > 0].tolist(), default=requests["ts"][-1] + 1)
    for ts, fee in sorted((ts, fee) for ts, fee in exact.items() if ts < end):
        total += fee
        assert theirs[ts] == pytest.approx(float(total / 10**8), rel=1e-9, abs=1e-15)


def test_cases_have_orders_of_every_kind_that_the_rules_share() -> None:
    """Counted by the oracle's fills and the requests: by whom and in how many parts orders fill."""
    kinds = set()
    for name in CASES:
        orders = case_of(name).requests[case_of(name).requests["cancel"] == 0]
        for fill in expected_fills(name):
            request = orders[fill["order"] - 1]
            kind = "market" if request["market"] else str(request["tif"])
            kinds.add((kind, "maker" if fill["maker"] else "taker", "whole" if fill["whole"] else "part", fill["qty"] > fill["last_qty"]))
    taken = {(kind, "taker", "whole", levels) for kind in ("market", "IOC", "FOK", "GTC") for levels in (False, True)}
    assert taken | {("market", "taker", "part", True), ("IOC", "taker", "part", True)} <= kinds
    assert {("GTC", "maker", "whole", False), ("GTC", "maker", "part", False)} <= kinds


@needs_oracle
@pytest.mark.parametrize("name", CASES)
def test_the_oracle_still_says_so(name: str) -> None:
    assert PYTHON is not None
    assert asked(PYTHON, case_of(name))["fills"] == expected_fills(name)
