"""QuantDSL from Python."""

import pickle
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import quantdsl
import quantdsl.api
from quantdsl.engine.delivery import AT_ONE_MOMENT
from quantdsl.run.measure import repeated
from tests.quantdsl.golden.programs import DATA, PROGRAMS
from tests.replay.feeds import read

CROSS, TRADES = PROGRAMS / "ema_cross.qdsl", DATA / "btcusdt_spot_20240808_trades.csv"


@pytest.fixture(scope="module")
def cross() -> quantdsl.Program:
    return quantdsl.compile(CROSS)


def test_a_program_runs_any_number_of_times(cross: quantdsl.Program) -> None:
    first, second = cross.run(TRADES), cross.run(str(TRADES))
    assert first.summary["hash"] == second.summary["hash"]
    assert first.summary["pnl"]["USDT"]["net"] == Decimal("-7.35021980")
    fills = first.table("fills")
    assert fills.num_rows == 57 and fills.schema.field("price").type == pa.decimal128(38, 2)
    assert first.records("fills")["qty"].dtype == np.int64 and first.table("bad_rows").num_rows == 0


def test_what_a_run_leaves_has_names(cross: quantdsl.Program) -> None:
    result = cross.run(TRADES)
    names = "`orders`, `fills`, `rejects`, `pnl`, `latency`"
    with pytest.raises(ValueError, match=f"^a run leaves no `log` here, but {names}$"):
        result.records("log")
    with pytest.raises(ValueError, match=f"^a run leaves no `trades` here, but {names}, `bad_rows`, `log`$"):
        result.table("trades")


def test_arrays_and_tables_go_in(cross: quantdsl.Program) -> None:
    events, _, _ = read(TRADES)
    columns = {"ts": events["ts"], "price": events["price"] / 100, "qty": events["qty"] / 100_000, "id": events["id"].astype(np.int64)}
    want = cross.run(TRADES).records("fills")
    for data in (events, columns, pa.table(columns), {"BTCUSDT": columns}, [pa.table(columns)]):
        assert np.array_equal(cross.run(data).records("fills"), want)


def test_parameters_are_keywords(cross: quantdsl.Program) -> None:
    other = quantdsl.compile(CROSS, fast=5, slow=40)
    assert other.metadata.parameters["fast"] == 5
    assert other.run(TRADES).summary["hash"] != cross.run(TRADES).summary["hash"]


def test_outputs_can_be_written_too(cross: quantdsl.Program, tmp_path: Path) -> None:
    result = cross.run(TRADES, out=tmp_path / "out", latency=(50_000, 80_000))
    assert f'"hash": "{result.summary["hash"]}"' in (tmp_path / "out" / "summary.json").read_text()
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".json", ".html", ".parquet"}


def test_a_text_is_a_program_too() -> None:
    text = CROSS.read_text()
    assert quantdsl.compile(text).run(TRADES).summary["fills"] == 57


def test_a_program_and_its_result_show_what_they_are(cross: quantdsl.Program) -> None:
    assert repr(cross).startswith("<quantdsl.Program ") and " strategy Cross on BTCUSDT, fast=12, slow=26, " in repr(cross)
    assert cross._repr_html_().startswith("<code>&lt;quantdsl.Program ")
    assert re.fullmatch(r"<quantdsl.Result: \d+ orders, 57 fills, \d+ rejects, \d+ pnl, \d+ latency>", repr(cross.run(TRADES)))


def test_programs_results_and_errors_are_pickled(cross: quantdsl.Program, monkeypatch: pytest.MonkeyPatch) -> None:
    other = pickle.loads(pickle.dumps(quantdsl.compile(CROSS, fast=5, level=2)))
    result = other.run(TRADES)
    again = pickle.loads(pickle.dumps(result))
    assert other.metadata.parameters["fast"] == 5 and again.summary == result.summary and again.table("fills") == result.table("fills")
    with pytest.raises(quantdsl.QuantError) as raised:
        cross.run("nowhere.csv")
    error = pickle.loads(pickle.dumps(raised.value))
    assert (str(error), error.codes, error.bad_data) == (str(raised.value), raised.value.codes, True)
    monkeypatch.setattr(quantdsl.api, "version", lambda: "0.0.7")
    with pytest.raises(pickle.UnpicklingError, match=r"was pickled by zyntax 0\.0\.7, and this is zyntax "):
        pickle.loads(pickle.dumps(cross))


def test_messages_name_keywords_and_not_flags(cross: quantdsl.Program) -> None:
    with pytest.raises(quantdsl.QuantError) as raised:
        quantdsl.compile(CROSS, fastt=3)
    assert str(raised.value) == "error[ZYN0201]: fastt: the program has no `param fastt`\nhint: did you mean `fast`?"
    with pytest.raises(quantdsl.QuantError) as raised:
        quantdsl.compile(CROSS, fast="x")
    assert str(raised.value) == "error[ZYN0201]: `x` is not defined\n --> fast:1:1\n  |\n1 | x\n  | ^ not found"
    for latency, message in ("5", "latency: `5` is no duration"), (5, "latency is 5"):
        with pytest.raises(quantdsl.QuantError) as raised:
            cross.run(TRADES, latency=latency)
        assert str(raised.value).splitlines()[0] == f"error[ZYN0505]: {message}"
    with pytest.raises(ValueError, match=r"^level=9: levels are 0, 1, 2, 3, s, latency$"):
        quantdsl.compile(CROSS, level=9)


def test_what_is_wrong_is_one_kind_of_error(cross: quantdsl.Program, tmp_path: Path) -> None:
    with pytest.raises(quantdsl.QuantError, match="ZYN0201") as raised:
        quantdsl.compile("strategy S on X { }\n")
    assert not raised.value.bad_data and raised.value.codes == ("ZYN0201",)
    with pytest.raises(quantdsl.QuantError, match="there is no such file") as raised:
        cross.run("nowhere.csv")
    assert raised.value.bad_data
    for options in ({"fills": "always"}, {"latency": "1"}, {"begin": "noon"}, {"on_bad": "ignore"}):
        with pytest.raises(quantdsl.QuantError, match="ZYN0505"):
            cross.run(TRADES, **options)
    with pytest.raises(quantdsl.QuantError, match="int is no table"):
        cross.run(3)


def test_orders_at_each_of_a_million_moments_are_no_standstill() -> None:
    """Without latency all that happens is due at the moment of some event: time goes on as the data does."""
    market = "currency USDT { scale 8 }\ninstrument BTCUSDT : USDT { tick 0.01  lot 0.00001 }\n"
    rules = "risk Desk for BTCUSDT { max_position 10lots }\n"
    handler = "on trade(t) {\n    _ = order(if position.qty > 0lots { Sell } else { Buy }, 1lots)\n  }"
    program = quantdsl.compile(f"{market}{rules}strategy S on BTCUSDT {{\n  risk Desk\n  {handler}\n}}\n")
    events = repeated(read(TRADES)[0], 360_000)
    events["id"] = np.arange(len(events))
    summary = program.run(events).summary
    assert 3 * summary["submitted"] > AT_ONE_MOMENT and summary["submitted"] == len(events) and summary["fills"] == len(events) - 1
