"""Binance's and Hyperliquid's messages against plain readers built on `json` and `decimal`, and a book rebuilt from the events."""

import gzip
import json
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from feeds import BTC, DATA, FINE, read
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import BadData, BadSource, Why
from runtime.replay.decoders import Bytes, FlatFields
from runtime.replay.events import EventKind, Events, Flag, MarketSide
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

BINANCE = DATA / "btcusdt_spot_20240808.jsonl.gz"
HYPERLIQUID = DATA / "btc_hyperliquid_l2book_20250126.jsonl.gz"
COIN = Listing("BTC", "1", "0.00001")
X = Listing("X", "0.01", "1")
SKIP = Rules(skip=True)


def lots(text: str) -> int:
    return int(Decimal(text) * 10**8)


def messages(path: Path) -> list[tuple[int, int, dict]]:  # type: ignore[type-arg]
    with gzip.open(path, "rt") as file:
        return [(row, int(line.partition(" ")[0]), json.loads(line.partition(" ")[2])) for row, line in enumerate(file, 1)]


def test_trades_and_quotes() -> None:
    events, tally, bad = read(BINANCE, FINE)
    assert (tally.rows, tally.used, bad) == (41_249, 41_249, [])
    trades, quotes = [], []
    for row, ts, message in messages(BINANCE):
        data = message.get("data", {})
        if data.get("e") == "trade":
            trades.append((ts, row, 2 if data["m"] else 1, data["t"], int(Decimal(data["p"]) * 100), lots(data["q"])))
        elif "A" in data:
            bid, ask = (int(Decimal(data[key]) * 100) for key in "ba")
            quotes.append((ts, row, data["u"], bid, lots(data["B"]), ask, lots(data["A"])))
    found = events[events["kind"] == EventKind.TRADE]
    assert found[["ts", "row", "side", "id", "price", "qty"]].tolist() == trades
    found = events[events["kind"] == EventKind.QUOTE]
    assert found[["ts", "row", "id", "price", "qty", "price2", "qty2"]].tolist() == quotes
    assert (len(trades), len(quotes)) == (9_757, 28_040)


def rebuilt(events: Events) -> tuple[dict[int, int], dict[int, int]]:
    """The book that the events leave behind."""
    sides: dict[int, dict[int, int]] = {MarketSide.BUY: {}, MarketSide.SELL: {}}
    for kind, side, price, qty in events[["kind", "side", "price", "qty"]].tolist():
        if kind == EventKind.BOOK_CLEAR:
            sides = {MarketSide.BUY: {}, MarketSide.SELL: {}}
        elif kind == EventKind.BOOK_LEVEL:
            if qty:
                sides[side][price] = qty
            else:
                sides[side].pop(price, None)
    return sides[MarketSide.BUY], sides[MarketSide.SELL]


def test_the_book_is_the_snapshot_and_all_differences_after_it() -> None:
    """The snapshot of this file came later than some differences that it lacks."""
    events, _, _ = read(BINANCE, FINE)
    bids: dict[int, int] = {}
    asks: dict[int, int] = {}
    everything = [message for _, _, message in messages(BINANCE)]
    snapshot = next(message for message in everything if "lastUpdateId" in message)
    differences = [m["data"] for m in everything if m.get("data", {}).get("e") == "depthUpdate"]
    newer = [one for one in differences if one["u"] > snapshot["lastUpdateId"]]
    assert len(newer) < len(differences)
    for book, first, key in ((bids, "bids", "b"), (asks, "asks", "a")):
        for price, qty in snapshot[first] + [level for one in newer for level in one[key]]:
            book[int(Decimal(price) * 100)] = lots(qty)
            if not lots(qty):
                del book[int(Decimal(price) * 100)]
    assert rebuilt(events) == (bids, asks)
    gaps = events[events["kind"] == EventKind.GAP]
    assert gaps[["row", "flags"]].tolist() == [(1, Flag.LAST | Flag.SUSPECT)]


SEPARATORS = [(",", ":"), (", ", ": ")]
"""Messages without spaces are taken many at once, others one by one."""


@pytest.fixture(autouse=True, params=SEPARATORS, ids=["compact", "spaced"])
def _form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json.dumps, "__kwdefaults__", {**json.dumps.__kwdefaults__, "separators": request.param})


def write(folder: Path, *lines: object) -> Path:
    path = folder / "m.jsonl"
    path.write_text("".join((line if isinstance(line, str) else f"{number} {json.dumps(line)}") + "\n" for number, line in enumerate(lines, 1)))
    return path


class OneByOne(NativeDecoders):
    """Finds no message that is simple."""

    def flat_fields(self, text: Bytes, keys: str, lines: int) -> FlatFields:
        return evolve(super().flat_fields(text, keys, lines), simple=np.zeros(lines, np.bool_))


def test_messages_one_by_one_give_the_same_as_many_at_once() -> None:
    events, tally, _ = read(BINANCE, FINE)
    others, other_tally, _ = read(BINANCE, FINE, decoders=OneByOne())
    assert events.tobytes() == others.tobytes() and tally == other_tally


ODD = [
    '{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":true}', '{"e":"trade","s":"X","t":7,"p":1.5,"q":2,"m":false}',
    '{"stream":"x","data":{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":true}}', '{"stream":"x","data":{"u":1,"s":"X","b":"1","B":"2","a":"3","A":"4"}}',
    '{"e":"bookTicker","u":1,"s":"X","b":"1","B":"2","a":"3","A":"4","T":5,"E":6}', '{"data":{"e":"aggTrade","s":"X","a":7,"p":"1","q":"1","m":true},"z":1}',
    '{"t":9,"data":{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":true}}', '{"data":{"data":{"e":"trade"}}}', '{"more":{"e":"trade","s":"X"}}',
    '{"e":"trade","s":"X","t":"7","p":"1","q":"1","m":true}', '{"e":"trade","s":"X","t":7.0,"p":"1","q":"1","m":true}', '{"u":-1,"s":"X","b":"1","B":"2","a":"3","A":"4"}',
    '{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":"true"}', '{"e":"trade","s":"X","t":7,"p":"1e0","q":"1","m":true}', '{"e":"trade","s":"X","t":7,"p":"1","q":"-1","m":true}',
    '{"e":"trade","s":"X","t":7,"p":"\\u0031","q":"1","m":true}', '{"e":"trade","s":"LONGSYMBOL","t":7,"p":"1","q":"1","m":true}', '{"e":"trade","s":"Y","t":7,"p":"x"}',
    '{"e":"trade","s":"X","t":18446744073709551615,"p":"1","q":"1","m":true}', '{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":true}}', '{"e":"trade","s":"X"', '{}', '[]', '', '"x"',
    '{"result":null,"id":1}', '{"e":"trade","s":"X","t":7,"t":8,"p":"1","q":"1","m":true}', '{"e":"trade","s":"X","t":7,"p":"1","q":"1","m":true,}', '{,}', '{"e":,"s":"X"}',
]  # fmt: skip


@example([(ODD[4], "5 ", 54, " ")])
@example([(ODD[0].replace("trade", "Trade"), "5 ", 0, " ")])
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(ODD), st.sampled_from(("5 ", "6 ", "", " ", "x ")), st.integers(0, 60), st.sampled_from(' "{}:,0a')), max_size=8))
def test_odd_messages_one_by_one_and_many_at_once(lines: list[tuple[str, str, int, str]]) -> None:
    """One line in three has a letter changed."""
    texts = [GOOD] + [
        time + (text[: place - 40] + letter + text[place - 39 :] if 40 <= place < 40 + len(text) else text) for text, time, place, letter in lines
    ]
    path = Path(tempfile.mkdtemp()) / "m.jsonl"
    path.write_text("\n".join(texts) + "\n")
    found = []
    for decoders in (NativeDecoders(), OneByOne()):
        events, tally, bad = read(path, X, rules=SKIP, decoders=decoders)
        found.append((events.tolist(), tally, [(one.row, one.why) for one in bad]))
    shutil.rmtree(path.parent)
    assert found[0] == found[1]


GOOD = '1 {"e":"trade","s":"X","t":1,"p":"1","q":"1","m":true}'


def depth(first: int, last: int, *bids: tuple[str, str], symbol: str = "X", **more: object) -> dict[str, object]:
    return {"e": "depthUpdate", "E": 1, "s": symbol, "U": first, "u": last, "b": bids, "a": [], **more}


def test_numbers_that_are_missing_make_a_gap(tmp_path: Path) -> None:
    path = write(tmp_path, depth(1, 3, ("1", "1")), depth(4, 5, ("1", "2")), depth(8, 9, ("1", "3")), depth(6, 7, ("1", "4")))
    events, tally, _ = read(path, X, snapshot="none")
    assert events[["kind", "qty", "id", "id2"]].tolist() == [(3, 1, 3, 0), (3, 2, 5, 0), (10, 0, 6, 8), (3, 3, 9, 0)]
    # the last came too late to tell anything
    assert tally.left_out == 1


def test_futures_name_the_difference_before(tmp_path: Path) -> None:
    path = write(tmp_path, depth(1, 3, ("1", "1"), pu=0), depth(7, 9, ("1", "2"), pu=3), depth(12, 13, ("1", "3"), pu=10))
    events, _, _ = read(path, X, snapshot="none")
    assert events["kind"].tolist() == [3, 3, 10, 3]


def test_a_snapshot_that_differences_do_not_reach_leaves_a_gap(tmp_path: Path) -> None:
    path = write(tmp_path, depth(10, 12, ("1", "1")), {"lastUpdateId": 5, "bids": [["2", "7"]], "asks": []}, depth(13, 13, ("3", "1")))
    events, _, _ = read(path, X)
    assert events[["kind", "price", "id", "id2"]].tolist() == [
        (10, 0, 0, 10), (3, 100, 12, 0), (4, 0, 5, 0), (3, 200, 5, 0), (10, 0, 6, 10), (3, 100, 12, 0), (3, 300, 13, 0),
    ]  # fmt: skip


def test_the_last_level_of_an_update_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, depth(1, 1, ("1", "1"), ("2", "1"), ("3", "1")))
    assert read(path, X, snapshot="none")[0]["flags"].tolist() == [0, 0, Flag.LAST]


@pytest.mark.parametrize(
    ("line", "column", "why"),
    [
        ("1 {", "", Why.UNREADABLE),
        ("[1, 2]", "", Why.UNREADABLE),
        ("1 " + "[" * 100_000, "", Why.UNREADABLE),
        ("99999999999999999999 {}", "time of receipt", Why.OUT_OF_RANGE),
        ({"e": "trade", "s": "X", "t": 1, "p": "1", "q": "1"}, "m", Why.EMPTY),
        ({"e": "trade", "s": "X", "t": 1, "p": "nan", "q": "1", "m": True}, "price", Why.NOT_FINITE),
        ({"e": "trade", "s": "X", "t": 1, "p": "1", "q": "-1", "m": True}, "qty", Why.NEGATIVE),
        ({"e": "trade", "s": "X", "t": 1, "p": "1.005", "q": "1", "m": True}, "price", Why.OFF_GRID),
        ({"e": "trade", "s": "X", "t": -1, "p": "1", "q": "1", "m": True}, "id", Why.NEGATIVE),
        ({"e": "trade", "s": "X", "t": 1.5, "p": "1", "q": "1", "m": True}, "t", Why.UNREADABLE),
        ({"e": "trade", "s": "X", "t": 1, "p": [], "q": "1", "m": True}, "p", Why.UNREADABLE),
        ({"e": "trade", "s": "X", "t": 1, "p": "", "q": "1", "m": True}, "p", Why.EMPTY),
        ({"e": "depthUpdate", "s": "X", "U": 1, "u": 2, "b": [["1"]], "a": []}, "b", Why.UNREADABLE),
        ({"e": "depthUpdate", "s": "X", "U": 1, "u": 2, "b": [["1", "x"]], "a": []}, "qty", Why.UNREADABLE),
        ({"e": "depthUpdate", "s": "X", "u": 2, "b": [], "a": []}, "U", Why.EMPTY),
    ],
)
def test_messages_that_can_not_be_used(tmp_path: Path, line: object, column: str, why: Why) -> None:
    good = {"e": "trade", "s": "X", "t": 7, "p": 1.25, "q": 1, "m": True}
    path = write(tmp_path, good, line)
    with pytest.raises(BadData):
        read(path, X)
    events, tally, bad = read(path, X, rules=SKIP)
    assert [(one.row, one.column, one.why) for one in bad] == [(2, column, why)]
    assert (tally.rows, tally.used) == (2, 1)
    assert events[events["kind"] == EventKind.TRADE]["price"].tolist() == [125]


def test_times_without_receipt(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"e":"trade","E":1700000000001,"T":1700000000000,"s":"X","t":7,"p":"1","q":"1","m":false}\n')
    assert read(path, X)[0][["ts", "side"]].tolist() == [(1_700_000_000_001_000_000, MarketSide.BUY)]
    path.write_text('{"u":1,"s":"X","b":"1","B":"1","a":"2","A":"1"}\n')
    assert [(one.column, one.why) for one in read(path, X, rules=SKIP)[2]] == [("E", Why.EMPTY)]


def test_several_symbols(tmp_path: Path) -> None:
    path = write(tmp_path, *[{"u": n, "s": s, "b": "1", "B": "1", "a": "2", "A": "1"} for n, s in enumerate(("X", "Y", "Z", "y"), 1)])
    events, tally, _ = read(path, X, Listing("Y", "1", "1"))
    assert events[["instrument", "price2"]].tolist() == [(0, 200), (1, 2), (1, 2)]
    assert tally.left_out == 1
    with pytest.raises(BadSource, match="the file is about `X` and `Y`"):
        read(path, X, bound="X")
    assert read(path, X, bound="X", symbol="Z")[0]["row"].tolist() == [3]


def test_single_trades_and_their_sums_are_not_counted_twice(tmp_path: Path) -> None:
    one = {"s": "X", "p": "1", "q": "1", "m": True}
    path = write(tmp_path, {"e": "aggTrade", "a": 5, **one}, {"e": "trade", "t": 5, **one}, {"e": "aggTrade", "a": 6, **one})
    events, tally, _ = read(path, X)
    assert (events["id"].tolist(), tally.left_out) == ([5, 6], 1)


def test_hyperliquid() -> None:
    events, tally, bad = read(HYPERLIQUID, COIN)
    everything = messages(HYPERLIQUID)
    books = [message for _, _, message in everything if message["channel"] == "l2Book"]
    last = books[-1]["data"]["levels"]
    want = [{int(Decimal(level["px"])): int(Decimal(level["sz"]) * 10**5) for level in side} for side in last]
    assert list(rebuilt(events)) == want
    assert (events["kind"] == EventKind.BOOK_CLEAR).sum() == len(books) == 46
    ids: set[int] = set()
    trades = []
    for row, ts, message in everything:
        if message["channel"] == "trades" and not ids & {one["tid"] for one in message["data"]}:
            ids |= {one["tid"] for one in message["data"]}
            for one in message["data"]:
                price, qty = int(Decimal(one["px"])), int(Decimal(one["sz"]) * 10**5)
                trades.append((ts, row, {"B": 1, "A": 2}[one["side"]], price, qty, one["tid"]))
    assert events[events["kind"] == EventKind.TRADE][["ts", "row", "side", "price", "qty", "id"]].tolist() == trades
    assert {one.why for one in bad} <= {Why.REPEATED_TRADE}
    assert tally.rows == len(everything)


def test_a_lot_that_is_too_coarse_for_the_real_file() -> None:
    with pytest.raises(BadData, match=r"row 1886, column `qty`: `25\.42618900` is off the instrument's grid"):
        read(BINANCE, BTC)
