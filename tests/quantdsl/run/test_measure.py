"""`zyntax bench` on strategies: the figures are there and about what they say they are about."""

import json

import numpy as np

from quantdsl.run.measure import repeated
from runtime.replay.events import EventKind
from tests.quantdsl.golden.programs import DATA, PROGRAMS
from tests.quantdsl.run.conftest import Zyntax
from tests.replay.feeds import read

CROSS, TRADES = PROGRAMS / "ema_cross.qdsl", DATA / "btcusdt_spot_20240808_trades.csv"


def test_figures(zyntax: Zyntax) -> None:
    done = zyntax("bench", CROSS, "--data", TRADES, "--events", "30000", "--rounds", "2", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert (found["sample"], found["events"], found["fills"]) == (9757, 4 * 9757, "next")
    assert found["ns_per_event_best"] <= found["ns_per_event"]
    assert list(found["handlers_ns_per_call"]) == ["trade"]
    for shares in (found["batches_of_16_ns_per_event"], found["handlers_ns_per_call"]["trade"]):
        assert shares["p50"] <= shares["p99"] <= shares["p99.9"] <= shares["max"]
    text = zyntax("bench", CROSS, "--data", TRADES, "--events", "10000", "--rounds", "1").out
    assert [line.split()[0] for line in text.splitlines()] == ["program", "data", "events", "batches", "on", "timer", "target"]


def test_repeated_events_go_on_in_time_from_an_empty_book() -> None:
    trades, _, _ = read(TRADES)
    made = repeated(trades[:100], 250)
    assert len(made) == 300 and (np.diff(made["ts"]) >= 0).all() and np.array_equal(made["price"][:100], made["price"][200:])
    quotes = trades[:10].copy()
    quotes["kind"] = EventKind.QUOTE
    made = repeated(quotes, 15)
    assert np.flatnonzero(made["kind"] == EventKind.BOOK_CLEAR).tolist() == [0, 11]


def test_what_cant_be_measured(zyntax: Zyntax) -> None:
    done = zyntax("bench", CROSS)
    assert done.code == 2 and "a strategy runs on market data" in done.err
    done = zyntax("bench", "launch", "--data", TRADES)
    assert done.code == 2 and "`--data` goes with" in done.err
    done = zyntax("bench", "lunch")
    assert done.code == 2 and "`zyntax bench` doesn't measure `lunch`" in done.err
