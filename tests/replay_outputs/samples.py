"""A run to write down: an average-cost strategy that buys and sells on seeded prices, by the reference engine."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from runtime.replay.bad_rows import BadRow, Why
from runtime.replay.grids import GridStep
from runtime.replay.outputs.folder import OutputOptions, Outputs
from runtime.replay.outputs.records import LATENCY, Records, RunDescription, TradedInstrument
from runtime.replay.outputs.summary import Totals
from tests.quantdsl.reference.as_records import as_records
from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.market import Fee, Instrument, Side, Trade
from tests.quantdsl.reference.risk import Collar, Limits

ES = TradedInstrument("ES", GridStep.of(Decimal("0.25")), GridStep.of(Decimal(1)), "USD", 8)
POINT = 1_250_000_000  # 0.25 * 50 USD at scale 8
BEGIN = 1_700_000_000 * 10**9


class Swing(Strategy):
    """Buys after a fall, sells after a rise."""

    def on_trade(self, engine: Engine, trade: Trade) -> None:
        before, self.before = getattr(self, "before", trade.price), trade.price
        if trade.price != before:
            engine.order(Side.BUY if trade.price < before else Side.SELL, 1 + trade.price % 3, trade.price + (before - trade.price) * 2)


@frozen
class Sample:
    run: RunDescription
    records: dict[str, Records]
    bad: list[BadRow]
    totals: Totals


def sample() -> Sample:
    random = np.random.default_rng(7)
    prices = 18_000 + np.cumsum(random.integers(-3, 4, 500))
    events = [Trade(BEGIN + 200_000_000 * n, int(price), 1) for n, price in enumerate(prices)]
    limits = Limits(max_position=10, price_collar=Collar(ticks=4, of="last"), max_order_qty=2)
    instrument = Instrument(POINT, maker=Fee("-0.5"), taker=Fee("0.2"))
    engine = Engine(Swing(), limits, instrument, fills="next").run(events)
    records = as_records(engine)
    latency = np.zeros(2000, LATENCY)
    latency["ts"], latency["calls"] = BEGIN + np.arange(2000), 1
    latency["ns"] = np.round(np.exp(random.normal(4.5, 0.6, 2000))) * 10
    records["latency"] = latency
    bad = [
        BadRow("ticks.csv", 0, 17, "price", "nan", Why.NOT_FINITE),
        BadRow("ticks.csv", 0, 40, "", "<b>&,", Why.FIELDS, "3, not 5"),
        BadRow("feed.itch", 1, 4096, "", "", Why.DAMAGED, binary=True),
    ]
    run = RunDescription("swing.qdsl", [ES], data=["ticks.csv", "feed.itch"], handlers=["on trade"], target_ns=5000.0)
    totals = Totals(
        rows_in=503, rows_used=500, rows_bad=3, submitted=engine.submitted, settings={"fast": 12, "seed": 0}, machine={"cpu": "a test"}
    )
    return Sample(run, records, bad, totals)


def pieces(records: Records, size: int) -> list[Records]:
    return [records[start : start + size] for start in range(0, len(records), size)]


def write(folder: Path, swing: Sample, size: int = 10**9, checkpoints: bool = False, options: OutputOptions | None = None) -> dict[str, Any]:
    """All of the sample's outputs, its records handed over in pieces of some size."""
    with Outputs(folder, swing.run, options) as out:
        for name, records in swing.records.items():
            for piece in pieces(records, size):
                out.add(name, piece)
                if checkpoints:
                    out.checkpoint()
        out.add_bad_rows(swing.bad)
        return out.finish(swing.totals)
