"""What the programs of `programs/quantdsl` are compared in: their data, and the same market, risk and strategy in plain Python."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import Factory, evolve, frozen

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules
from tests.quantdsl.golden.strategies import Cross, Imbalance, Maker
from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.from_events import from_events
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.reference.risk import Collar, Limits, Loss

ROOT = Path(__file__).parents[3]
PROGRAMS, DATA = ROOT / "programs" / "quantdsl", ROOT / "programs" / "data"
HOUR = 3600 * 10**9


@frozen
class Golden:
    """One program with one set of options: `settings` of its parameters, `options` of `quantdsl.Program.run`."""

    program: str
    data: str
    listing: Listing
    strategy: Callable[[], Strategy]
    limits: Limits
    instrument: Instrument
    fills: str
    out: int = 0
    back: int = 0
    on_cross: str = "refuse"
    end: int | None = None
    settings: Mapping[str, Any] = Factory(dict)
    options: Mapping[str, Any] = Factory(dict)

    @property
    def path(self) -> Path:
        return PROGRAMS / self.program

    def expected(self) -> tuple[Engine, Feed]:
        """The reference's run over the same rows."""
        window = {} if self.end is None else {"end": self.end}
        feed = Feed([DataSource(DATA / self.data, 0, (self.listing,), self.listing.name)], NativeDecoders(), Rules(skip=True, **window))
        engine = Engine(
            self.strategy(), self.limits, self.instrument, fills=self.fills, out=self.out, back=self.back, on_cross=self.on_cross
        )
        return engine.run(event for events in feed.events() for event in from_events(events)), feed


USDT, USD = 10**8, 10**4
BTC = Listing("BTCUSDT", "0.01", "0.00001")
CROSS: dict[str, Any] = {
    "program": "ema_cross.qdsl",
    "data": "btcusdt_spot_20240808_trades.csv",
    "listing": BTC,
    "limits": Limits(
        max_order_qty=200_000,
        max_notional=5_000 * USDT,
        max_position=100_000,
        price_collar=Collar(bps=Fraction(10), of="last"),
        stale_data=5 * 10**9,
        max_open_orders=1,
        rate=(5, 10**9),
        max_loss=Loss(50 * USDT),
    ),
    "instrument": Instrument(10, maker=Fee(0), taker=Fee(2)),
    "fills": "next",
}
MAKER: dict[str, Any] = {
    "program": "market_maker.qdsl",
    "end": 1_723_161_290 * 10**9,
    "data": "btcusdt_spot_20240808.jsonl.gz",
    "listing": BTC,
    "limits": Limits(
        max_order_qty=100_000,
        max_position=1_000_000,
        max_open_orders=4,
        price_collar=Collar(bps=Fraction(20), of="mid"),
        rate=(200, 10**9),
        rate_all=True,
        stale_data=2 * 10**9,
        self_trade="reject",
        max_drawdown=Loss(100 * USDT, then="reducing"),
    ),
    "instrument": Instrument(10, maker=Fee("-0.5"), taker=Fee(2)),
}
IMBALANCE: dict[str, Any] = {
    "program": "itch_imbalance.qdsl",
    "data": "sim_20101224.itch50.gz",
    "listing": Listing("ALC", "0.0001", "1"),
    "strategy": Imbalance,
    "limits": Limits(
        max_order_qty=10_000,
        max_position=300,
        max_open_orders=4,
        price_collar=Collar(bps=Fraction(500), of="mid"),
        rate=(10, 10**9),
        max_loss=Loss(10_000 * USD, per="session"),
    ),
    "instrument": Instrument(1, maker=Fee(per_lot=-20), taker=Fee(per_lot=30), session=(14 * HOUR + HOUR // 2, 21 * HOUR)),
    "fills": "touch",
    "on_cross": "trim",
}
SLOW = {"out": 50_000, "back": 80_000}
SKIP, TRIM, LATE, QUEUE = {"on_bad": "skip"}, {"on_cross": "trim"}, {"latency": "50us/80us"}, {"fills": "queue"}
LARGE = {"clip": "5000lots", "most": "20_000lots", "limit": "4USDT"}
STOPPED = {**MAKER, "end": 1_723_161_311 * 10**9, "limits": evolve(MAKER["limits"], max_drawdown=Loss(4 * USDT, then="reducing"))}
OTHER = {"fast": 5, "slow": 40, "clip": "2000lots", "slack": 0}
GOLDEN = {
    "cross": Golden(**CROSS, strategy=Cross),
    "cross-late": Golden(**CROSS, strategy=Cross, **SLOW, options=LATE),
    "cross-set": Golden(**CROSS, strategy=lambda: Cross(5, 40, 2000, 0), settings=OTHER),
    "maker-touch": Golden(**MAKER, strategy=Maker, fills="touch", options=SKIP),
    "maker-queue": Golden(**MAKER, strategy=Maker, fills="queue", **SLOW, options={**SKIP, **LATE, **QUEUE}),
    "maker-stopped": Golden(**STOPPED, strategy=lambda: Maker(5000, 20_000), fills="touch", settings=LARGE, options=SKIP),
    "imbalance": Golden(**IMBALANCE, options=TRIM),
    "imbalance-late": Golden(**IMBALANCE, **SLOW, options={**TRIM, **LATE}),
}
