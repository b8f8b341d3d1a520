"""The runner around the engine: what goes in, what comes out, in whatever form and pieces; and what it does when something fails."""

import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from attrs import evolve
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from compiler.diagnostics import ZyntaxError
from quantdsl.engine.interface import EVENTS
from quantdsl.engine.layout import COLLECTED
from quantdsl.engine.risk import RiskRules
from quantdsl.metadata import Market, StateShape, StrategyMetadata
from quantdsl.run.engine_state import EngineState
from quantdsl.run.options import Input, RunOptions, inputs
from quantdsl.run.replay import Ending, Replay, ReplayProgress
from quantdsl.run.shapes import said
from quantdsl.run.totals import run_of
from runtime.replay.events import Events
from runtime.replay.feed import Feed
from runtime.replay.outputs.folder import Outputs
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.outputs.records import LAYOUTS
from tests.quantdsl.engine import desk_stand as stand
from tests.quantdsl.engine.test_desk import limits_of
from tests.quantdsl.golden.programs import DATA
from tests.quantdsl.reference.as_records import as_records
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.run.acting import acts, order, put_acts, strategy
from tests.replay.feeds import read

TRADES = DATA / "btcusdt_spot_20240808_trades.csv"
RULES = RiskRules(tick_value=10, max_position=1000, max_order_qty=700)
INSTRUMENT = Instrument(10, maker=Fee(1), taker=Fee(2))
ACTS = acts(order(0, 500), order(0, 600), order(1, 800), order(1, 300, 6_183_000), {}, order(1, 100), order(1, 100, 7_000_000))


def replay(options: RunOptions, rows: Any = ACTS, timers: tuple[int, ...] = (), **changes: Any) -> tuple[Ending, KeptRecords, Replay]:
    made = Replay(evolve(strategy(RULES, INSTRUMENT, timers, **changes)), options)
    put_acts(made.engine.state, RULES, rows)
    sinks: list[KeptRecords] = []

    def sink(about: Any) -> KeptRecords:
        sinks.append(KeptRecords(about))
        return sinks[0]

    return made.run(sink), sinks[0], made


def few(count: int = 1000, path: Path = TRADES) -> pa.Table:
    return arrow_csv.read_csv(
        path, convert_options=arrow_csv.ConvertOptions(column_types={"price": pa.string(), "qty": pa.string()})
    ).slice(0, count)


def of(table: Any) -> RunOptions:
    return RunOptions((Input(Path("data"), None, table),))


def test_records_are_those_of_the_reference() -> None:
    events, _, _ = read(TRADES)
    ending, kept, _ = replay(evolve(of(few(3000)), pnl_every=0), timers=(10**9,))
    options = stand.Options(fills="next", timers=(10**9,))
    reference, _ = stand.run_reference(events[:3000], list(ACTS), limits_of(RULES), INSTRUMENT, options)
    expected = as_records(reference)
    for name in ("orders", "fills", "rejects"):
        found = np.sort(kept.records[name], order=["ts", "id"] if name == "orders" else None)
        assert np.array_equal(found, np.sort(expected[name], order=["ts", "id"] if name == "orders" else None)), name
    p, summary = reference.position, ending.summary
    assert summary["pnl"]["USDT"]["net"] == Decimal(p.net).scaleb(-8)
    assert summary["pnl"]["USDT"]["max_drawdown"] == Decimal(p.max_drawdown).scaleb(-8)
    assert summary["positions"]["BTCUSDT"]["qty"] == Decimal(p.qty).scaleb(-5)
    assert summary["identity"]["cash_flows"] == Decimal(p.cash).scaleb(-8)
    assert (summary["rows_in"], summary["events"]) == (3000, 3000)


def test_rows_in_any_form_give_the_same_run() -> None:
    table = few()
    numbers = {name: table[name].to_numpy() for name in ("ts_ns", "trade_id")}
    floats = {name: table[name].to_numpy(zero_copy_only=False).astype(float) for name in ("price", "qty")}
    columns = {**numbers, **floats, "side": table["side"].to_numpy(zero_copy_only=False)}
    structured = np.empty(len(table), [(name, column.dtype if column.dtype != object else "U1") for name, column in columns.items()])
    for name, column in columns.items():
        structured[name] = column
    events, _, _ = read(TRADES)
    hashes = {replay(of(form))[0].summary["hash"] for form in (table, columns, structured, events[:1000], table.to_batches()[0])}
    assert len(hashes) == 1


def test_two_runs_are_the_same_and_another_setting_isnt() -> None:
    hashes = [replay(evolve(of(few()), **change))[0].summary["hash"] for change in ({}, {}, {"out": 1000})]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_window_is_seen_alone() -> None:
    stamps = few()["ts_ns"].to_numpy()
    begin, end = int(stamps[100]), int(stamps[200])
    ending, kept, _ = replay(evolve(of(few()), begin=begin, end=end))
    inside = ((stamps >= begin) & (stamps < end)).sum()
    assert (ending.summary["rows_in"], ending.summary["rows_used"], ending.summary["rows_left_out"]) == (inside, inside, 1000 - inside)
    assert begin <= int(kept.records["orders"]["ts"].min()) and int(kept.records["pnl"]["ts"].max()) < end


def test_data_that_is_empty_gives_an_empty_run() -> None:
    ending, kept, _ = replay(of(few(0)))
    assert (ending.summary["rows_in"], ending.summary["submitted"], ending.summary["fills"], ending.failure) == (0, 0, 0, None)
    assert all(not records.size for records in kept.records.values())


def test_how_orders_fill_follows_from_the_data() -> None:
    quotes = pa.table({"ts_ns": [1723161254000000000], "bid": ["1.00"], "bid_qty": ["1"], "ask": ["1.01"], "ask_qty": ["1"]})
    assert replay(of(few(10)))[0].summary["settings"]["fills"] == "next"
    assert replay(of(quotes))[0].summary["settings"]["fills"] == "touch"
    both = RunOptions((Input(Path("trades"), None, few(10)), Input(Path("quotes"), None, quotes)))
    assert replay(both)[0].summary["settings"]["fills"] == "touch"
    assert replay(evolve(both, fills="queue"))[0].summary["settings"]["fills"] == "queue"


def test_progress_is_told_block_by_block() -> None:
    told: list[ReplayProgress] = []
    made = Replay(
        strategy(RULES, INSTRUMENT),
        RunOptions(tuple(Input(Path("data"), None, few(100).slice(part * 50, 50)) for part in (0, 1)), progress_every=0.0),
        told.append,
    )
    made.run(KeptRecords)
    stamps = few(100)["ts_ns"].to_numpy()
    assert [progress.events for progress in told] == sorted({progress.events for progress in told})
    assert (told[-1].events, told[-1].now) == (100, stamps[-1]) and told[-1].seconds > 0


def test_records_are_the_same_whenever_they_are_collected() -> None:
    parts = RunOptions(tuple(Input(Path("data"), None, few(3000).slice(begin, 100)) for begin in range(0, 3000, 100)))
    found = [replay(evolve(parts, progress_every=seconds)) for seconds in (0.0, 1e9)]
    (often, many, desk), (once, few_times, _) = ((ending.summary, kept.records, made.engine) for ending, kept, made in found)
    assert often["hash"] == once["hash"]
    assert many["fills"]["qty"].sum() == desk["position"]["volume"] > 0
    for name, records in many.items():
        assert name == "latency" or np.array_equal(records, few_times[name]), name


def test_what_was_recorded_before_a_stop_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    of_data = Feed.events

    def events(self: Feed) -> Iterator[Events]:
        yield from of_data(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(Feed, "events", events)
    made = Replay(strategy(RULES, INSTRUMENT), of(few(100)))
    put_acts(made.engine.state, RULES, ACTS)
    kept = KeptRecords(run_of(made.strategy, made.options))
    with pytest.raises(KeyboardInterrupt):
        made.run(lambda about: kept)
    assert (made.events, kept.partial) == (100, "stopped by hand")
    assert kept.records["fills"]["qty"].sum() == made.engine["position"]["volume"] > 0


# ---- failures ----------------------------------------------------------------------------------------------------------------


def test_a_checked_failure_halts_the_strategy_and_the_data_is_accounted_all_the_same() -> None:
    rows = acts({}, order(0, 500), {}, {}, {}, order(0, 100), {"kind": stand.FAIL})
    ending, kept, made = replay(of(few()), rows)
    failure = ending.failure
    assert failure is not None and (failure.code, failure.message) == ("0808", "it fails")
    row = int(made.engine["failed"]["row"])
    stamp = int(few()["ts_ns"][row - 1].as_py())
    assert int(made.engine["failed"]["ts"]) == stamp
    assert failure.notes[0].startswith(f"in `on {EVENTS[made.engine['failed']['handler']]}`, at data: row {row}, 2024-08-08 23:54:")
    assert EVENTS[made.engine["failed"]["handler"]] in ("trade", "ack", "fill")
    assert failure.notes[1] == "`state next` is 7"
    summary = ending.summary
    assert (summary["halted"], summary["trading"], summary["complete"]) == ("it fails", "killed", True)
    assert summary["rows_used"] == 1000
    assert kept.records["pnl"]["ts"][-1] == few()["ts_ns"][-1].as_py()
    last = Decimal(few()["price"][-1].as_py())
    assert summary["positions"]["BTCUSDT"]["mark"] == last


def test_a_failure_names_the_file_of_its_row() -> None:
    table = few(20)
    both = RunOptions((Input(Path("first"), None, table.slice(0, 10)), Input(Path("second"), None, table.slice(10, 10))))
    ending, _, _ = replay(both, acts(*[{}] * 15, {"kind": stand.FAIL}))
    assert ending.failure is not None
    assert ending.failure.notes[0].startswith("in `on trade`, at second: row 5, "), "the handler of the start comes first"


def test_kill_is_told_and_no_failure() -> None:
    ending, _, _ = replay(of(few(50)), acts({}, {"kind": stand.KILL}))
    assert ending.failure is None
    assert (ending.summary["halted"], ending.summary["trading"]) == ("kill: by hand", "killed")


def test_bad_data_stops_with_partial_outputs(tmp_path: Path) -> None:
    lines = TRADES.read_text().splitlines()
    lines[5000] = lines[5000].replace(".", ".x", 1)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines) + "\n")
    made = Replay(strategy(RULES, INSTRUMENT), RunOptions(inputs([str(bad)])))
    with pytest.raises(ZyntaxError) as raised:
        made.run(lambda about: Outputs(tmp_path / "out", about))
    (found,) = raised.value.diagnostics
    assert found.data and found.message.startswith(f"{bad}: row 5001, column `price`: `")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["complete"] is False and summary["partial"] == found.message
    for name in (*LAYOUTS, "bad_rows"):
        assert parquet.read_schema(tmp_path / "out" / f"{name}.parquet").metadata[b"partial"] == b"true"


def test_more_records_than_there_is_room_for_are_never_left_out_in_silence() -> None:
    made = Replay(strategy(RULES, INSTRUMENT), of(few(10)))
    made.engine["out"]["rejects"]["lost"] = 3
    with pytest.raises(ZyntaxError, match="ZYN0812: one event made more records than are kept for it: 3 rejects are lost"):
        made.run(KeptRecords)


def test_the_loop_is_on_the_core_that_is_asked_for_or_says_why_not() -> None:
    before = os.sched_getaffinity(0)
    for core, pinned in ((min(before), True), (4095, False)):
        own = strategy(RULES, INSTRUMENT)
        made = Replay(evolve(own, metadata=evolve(own.metadata, affinity=core)), of(few(10)))
        ending = made.run(KeptRecords)
        assert (ending.notes == ()) is pinned
        assert ending.summary["latency_ns"]["core"] == (core if pinned else None)
    assert ending.notes[0].startswith("the loop isn't pinned to core 4095: ")
    assert os.sched_getaffinity(0) == before


# ---- memory --------------------------------------------------------------------------------------------------------------------


def test_records_of_the_engine_lie_as_the_outputs_expect_them() -> None:
    desk = EngineState(strategy(RULES, INSTRUMENT).metadata)
    assert set(COLLECTED) - {"log", "crossed"} == set(LAYOUTS)
    for name, layout in LAYOUTS.items():
        assert desk["out"][name]["records"].dtype == layout, name


def test_facts_survive_json() -> None:
    metadata = strategy(RULES, INSTRUMENT, (5, 7), 500.0).metadata
    assert StrategyMetadata(**json.loads(json.dumps(metadata.plain()))) == metadata


MARKET = Market("ES", "USD", 2, (2, 25), (0, 1), 1250)


@pytest.mark.parametrize(
    ("shape", "held", "expected"),
    [
        (StateShape("a", "int"), np.int64(-3), "-3"),
        (StateShape("a", "bool", size=1), np.bool_(True), "true"),
        (StateShape("a", "price"), np.int64(7), "1.75"),
        (StateShape("a", "qty"), np.int64(-2), "-2lots"),
        (StateShape("a", "money"), np.int64(-205), "-2.05 USD"),
        (StateShape("a", "ratio"), np.float64(0.005), "50bps"),
        (StateShape("a", "float", size=4), np.float32(0.5), "0.5"),
        (StateShape("a", "side", size=1), np.uint8(1), "Sell"),
        (StateShape("a", "timestamp"), np.int64(1_500_000_000), "1970-01-01 00:00:01.5"),
        (StateShape("a", "id"), np.uint64(2**63), "9223372036854775808"),
    ],
)
def test_values_are_said_as_a_program_writes_them(shape: StateShape, held: Any, expected: str) -> None:
    assert said(shape, np.frombuffer(held.tobytes(), np.uint8), MARKET) == expected


def test_values_with_parts_are_said() -> None:
    optional = StateShape("o", "optional", 8, 16, (StateShape("present", "bool", 0, 1), StateShape("value", "qty", 8)))
    pair = StateShape("p", "struct", 0, 24, (StateShape("n", "int"), optional))
    assert said(pair, np.array([4, 1, 9], np.int64).view(np.uint8), MARKET) == "{ n: 4, o: 9lots }"
    assert said(pair, np.array([4, 0, 9], np.int64).view(np.uint8), MARKET) == "{ n: 4, o: none }"
    ring = StateShape("r", "ring", 0, 40, (StateShape("count", "int"), StateShape("next", "int", 8), StateShape("", "int", 16)), 3)
    assert said(ring, np.array([2, 1, 5, 6, 7], np.int64).view(np.uint8), MARKET) == "[5, 7]"
    table = StateShape("t", "table", 0, 40, (StateShape("used", "bool", 0, 1), StateShape("", "int", 8), StateShape("", "qty", 24)), 2)
    slots = np.array([0x0101, 9, 3, 5, 7], np.int64)
    assert said(table, slots.view(np.uint8), MARKET) == "{3: 7lots, 9: 5lots}"
    slots[0] = 0x0001
    assert said(table, slots.view(np.uint8), MARKET) == "{9: 5lots}"
    cases = StateShape(
        "e", "enum", 0, 16, (StateShape("Wait", "tuple"), StateShape("Enter", "tuple", 0, 16, (StateShape("0", "price", 8),)))
    )
    assert said(cases, np.array([0, 4], np.int64).view(np.uint8), MARKET) == "Wait"
    assert said(cases, np.array([1, 4], np.int64).view(np.uint8), MARKET) == "Enter(1.00)"
