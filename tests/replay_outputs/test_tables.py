"""What stands in the Parquet files, against the records they are of."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from runtime.replay.grids import GridStep
from runtime.replay.outputs.records import LAYOUTS, OrderOption, RunDescription, TradedInstrument
from runtime.replay.outputs.tables import NAMES, Tables, mask_text
from tests.replay_outputs.samples import Sample

SIDES = {1: "buy", 2: "sell"}


def read(folder: Path, name: str) -> pa.Table:
    return parquet.read_table(folder / f"{name}.parquet")


def column(folder: Path, table: str, name: str) -> list[object]:
    return read(folder, table)[name].to_pylist()


def test_every_table_is_there_and_says_that_it_is_whole(folder: Path) -> None:
    for name in NAMES:
        metadata = read(folder, name).schema.metadata
        assert metadata[b"partial"] == b"false"
        assert metadata[b"currency of ES"] == b"USD"
    assert not list(folder.glob("*.partial-*")) and not list(folder.glob("*.unfinished"))


def test_fills_in_prices_and_money(folder: Path, swing: Sample) -> None:
    r = swing.records["fills"]
    assert column(folder, "fills", "price") == [Decimal(int(p)) * Decimal("0.25") for p in r["price"]]
    assert column(folder, "fills", "fee") == [Decimal(int(f)).scaleb(-8) for f in r["fee"]]
    assert column(folder, "fills", "realized") == [Decimal(int(f)).scaleb(-8) for f in r["realized"]]
    assert column(folder, "fills", "position") == [Decimal(int(q)) for q in r["position"]]
    assert column(folder, "fills", "side") == [SIDES[int(s)] for s in r["side"]]
    assert column(folder, "fills", "liquidity") == ["maker" if m else "taker" for m in r["maker"]]
    assert read(folder, "fills")["ts"].cast(pa.int64()).to_pylist() == r["ts"].tolist()


def test_orders_with_their_ends(folder: Path, swing: Sample) -> None:
    r, found = swing.records["orders"], read(folder, "orders")
    open_ones = [state in ("new", "pending", "live", "part_filled") for state in found["state"].to_pylist()]
    assert found["done"].is_null().to_pylist() == open_ones
    assert sum(open_ones) == 2
    assert found["id"].to_pylist() == r["id"].tolist()
    assert found["limit"].to_pylist() == [Decimal(int(p)) * Decimal("0.25") for p in r["limit"]]


def test_rejects_name_all_their_rules(folder: Path, swing: Sample) -> None:
    names = {2: "max_order_qty", 8: "price_collar", 16: "max_position"}
    expected = [", ".join(name for bit, name in names.items() if mask & bit) for mask in swing.records["rejects"]["mask"].tolist()]
    assert column(folder, "rejects", "rules") == expected
    assert mask_text(4095).count(",") == 11 and mask_text(0) == ""


def test_bad_rows_say_where(folder: Path) -> None:
    rows = read(folder, "bad_rows").to_pylist()
    assert [(r["file"], r["row"], r["byte"], r["column"], r["text"], r["why"]) for r in rows] == [
        ("ticks.csv", 17, None, "price", "nan", "is not finite"),
        ("ticks.csv", 40, None, None, "<b>&,", "has another number of fields than the header"),
        ("feed.itch", None, 4096, None, "", "is damaged"),
    ]


def test_a_mark_between_two_ticks_keeps_its_half() -> None:
    run = RunDescription(
        "p",
        [TradedInstrument("A", GridStep(2, 25), GridStep(0, 1), "USD", 2), TradedInstrument("B", GridStep(0, 1), GridStep(3, 1), "JPY", 0)],
    )
    rows = np.zeros(2, LAYOUTS["pnl"])
    rows["mark2"], rows["instrument"], rows["net"], rows["position"] = [3, 7], [0, 1], [150, 150], [2, 2500]
    assert Tables(run).of_records("pnl", rows)["mark"].to_pylist() == [None, None], "there was no price yet"
    rows["marked"] = 1
    found = Tables(run).of_records("pnl", rows)
    assert found["mark"].to_pylist() == [Decimal("0.375"), Decimal("3.5")]
    assert found["net"].to_pylist() == [Decimal("1.5"), Decimal(150)]
    assert found["position"].to_pylist() == [Decimal(2), Decimal("2.5")]


@pytest.mark.parametrize("name", LAYOUTS)
def test_no_rows_have_the_columns_of_many(name: str, swing: Sample) -> None:
    tables = Tables(swing.run)
    many = tables.of_records(name, swing.records[name])
    none = tables.of_records(name, np.empty(0, LAYOUTS[name]))
    assert none.schema == many.schema and none.num_rows == 0


def test_a_market_order_has_no_limit(swing: Sample) -> None:
    rows = np.zeros(2, LAYOUTS["orders"])
    rows["options"], rows["limit"] = [OrderOption.MARKET, OrderOption.POST_ONLY], 5
    found = Tables(swing.run).of_records("orders", rows)
    assert found["limit"].to_pylist() == [None, Decimal("1.25")]
    assert found["post_only"].to_pylist() == [False, True]


@pytest.mark.parametrize("layout", LAYOUTS.values())
def test_layouts_have_no_holes_and_natural_places(layout: np.dtype) -> None:
    fields = layout.fields or {}
    assert layout.itemsize == sum(kind.itemsize for kind, _ in fields.values())
    assert layout.itemsize % 8 == 0
    assert all(place % kind.itemsize == 0 for kind, place in fields.values())
