"""The compiled desk against the reference: orders, fills, refusals, profit and loss, and every call of a handler are the same."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.hir.module import OptimizationLevel
from quantdsl.engine.layout import DAY, GTC
from quantdsl.engine.risk import Collar, Loss, RiskRules
from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.events import EventKind
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules
from tests.quantdsl.engine.desk_stand import (
    CANCEL,
    CANCEL_ALL,
    FAIL,
    FLATTEN,
    KILL,
    NOTHING,
    ORDER,
    REPLACE,
    Options,
    acts_of,
    compare,
    compiled,
    interpreted,
    run_native,
    run_reference,
)
from tests.quantdsl.engine.random_events import ALL, LEVELS, ORDERS, QUOTES, TRADED, random_events
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.reference.risk import Collar as ReferenceCollar
from tests.quantdsl.reference.risk import Limits
from tests.quantdsl.reference.risk import Loss as ReferenceLoss

DATA = Path(__file__).parents[3] / "programs" / "data"
INSTRUMENT = Instrument(point=7, maker=Fee(-1, 1), taker=Fee(Fraction(5, 2), 2))
USUAL = {NOTHING: 4.0, ORDER: 12.0, CANCEL: 3.0, REPLACE: 3.0, FLATTEN: 1.0, CANCEL_ALL: 0.5}
ROUGH = {**USUAL, KILL: 0.4, FAIL: 0.4}


def limits_of(rules: RiskRules) -> Limits:
    """The same rules for the reference."""
    plain = {
        name: getattr(rules, name) for name in ("max_order_qty", "max_notional", "max_position", "max_open_orders", "max_open_notional")
    }
    plain |= {name: getattr(rules, name) for name in ("rate", "rate_all", "stale_data", "duplicate_id", "self_trade")}
    collar = rules.price_collar
    if collar is not None:
        plain["price_collar"] = ReferenceCollar(bps=collar.bps, ticks=collar.ticks, of=collar.of)
    for name, rule in rules.losses:
        plain[name] = ReferenceLoss(rule.limit, "session" if rule.session else "run", "kill" if rule.kills else "reducing")
    return Limits(**plain)


def check(events: Any, acts: Any, rules: RiskRules, options: Options, instrument: Instrument = INSTRUMENT) -> None:
    ran = run_native(events, acts, rules, instrument, options)
    compare(ran, *run_reference(events, acts, limits_of(rules), instrument, options))


def test_trades_alone() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        events = random_events(rng, {EventKind.TRADE: 1}, 40)
        check(events, acts_of(rng, 30, {ORDER: 1.0}), RiskRules(tick_value=7), Options(fills="next"))


KINDS = {
    "trades": {EventKind.TRADE: 1},
    "quotes": {**QUOTES, **TRADED},
    "levels": {**LEVELS, **TRADED},
    "orders": {**ORDERS, **TRADED},
    "all": {**ALL, **TRADED},
}


def options_of(rng: np.random.Generator) -> Options:
    slow = rng.random() < 0.6
    return Options(
        fills=str(rng.choice(["next", "touch", "queue"])),
        out=int(rng.integers(0, 8)) if slow else 0,
        back=int(rng.integers(0, 8)) if slow else 0,
        accounting=str(rng.choice(["average", "fifo"])),
        on_cross=str(rng.choice(["refuse", "trim"])),
        timers=tuple(int(t) for t in rng.integers(1, 30, rng.integers(0, 4))),
        block=int(rng.choice([1, 7, 1 << 30])),
    )


@pytest.mark.parametrize("data", list(KINDS))
def test_random_strategies_on_random_data(data: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(80):
        events = random_events(rng, KINDS[data], 60)
        check(events, acts_of(rng, 50, ROUGH), RiskRules(tick_value=7), options_of(rng))


RULES = {
    "sizes": RiskRules(7, max_order_qty=6, max_notional=7 * 100 * 4, max_position=9),
    "collar in bps of the mid": RiskRules(7, price_collar=Collar(bps=Fraction(325)), max_position=30),
    "collar in ticks of the last trade": RiskRules(7, price_collar=Collar(ticks=3, of="last"), stale_data=4),
    "collar around a price": RiskRules(7, price_collar=Collar(bps=Fraction(1000, 3), of=101), stale_data=2),
    "open orders": RiskRules(7, max_open_orders=3, max_open_notional=7 * 100 * 9),
    "rate": RiskRules(7, rate=(2, 9)),
    "rate of all": RiskRules(7, rate=(3, 12), rate_all=True, self_trade="cancel_resting"),
    "ids": RiskRules(7, duplicate_id=3, stale_data=6),
    "self trade": RiskRules(7, self_trade="reject"),
    "self trade, both cancelled": RiskRules(7, self_trade="cancel_both", max_position=12),
    "a loss kills": RiskRules(7, max_loss=Loss(60), max_position=40),
    "a loss reduces": RiskRules(7, max_loss=Loss(40, kills=False), max_drawdown=Loss(400)),
    "a drawdown reduces": RiskRules(7, max_drawdown=Loss(50, kills=False), rate=(5, 9)),
    "all": RiskRules(
        7,
        max_order_qty=7,
        max_notional=7 * 100 * 7,
        price_collar=Collar(bps=Fraction(700), ticks=None),
        max_position=10,
        max_open_orders=6,
        max_open_notional=7 * 100 * 20,
        rate=(9, 30),
        rate_all=True,
        max_loss=Loss(300),
        max_drawdown=Loss(200, kills=False),
        stale_data=12,
        duplicate_id=8,
        self_trade="reject",
    ),
}


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_on_random_strategies(name: str) -> None:
    """All of them at once with all passes, each alone without any."""
    rng = np.random.default_rng(3)
    run = compiled(RULES[name], of_rules=OptimizationLevel.OLATENCY if name == "all" else OptimizationLevel.O0)
    refused = 0
    for number in range(40):
        events = random_events(rng, KINDS[list(KINDS)[number % len(KINDS)]], 50)
        acts, options = acts_of(rng, 50, USUAL), options_of(rng)
        ran = run_native(events, acts, RULES[name], INSTRUMENT, options, run)
        compare(ran, *run_reference(events, acts, limits_of(RULES[name]), INSTRUMENT, options))
        refused += len(ran.records["rejects"])
    assert refused > 100


SECOND = 10**9
HOURS = {"by day": (8 * 3600 * SECOND, 20 * 3600 * SECOND), "over midnight": (22 * 3600 * SECOND, 6 * 3600 * SECOND), "none": None}


@pytest.mark.parametrize("hours", list(HOURS))
def test_sessions(hours: str) -> None:
    """Orders outside of a session, orders for the day, losses since the session began."""
    rng = np.random.default_rng(4)
    session = HOURS[hours]
    instrument = Instrument(point=7, session=session)
    losses = {"max_loss": Loss(70, session=True), "max_drawdown": Loss(40, session=True, kills=False)}
    rules = RiskRules(7, session, max_position=20, **losses)  # type: ignore[arg-type]
    for number in range(60):
        events = random_events(rng, KINDS[list(KINDS)[number % len(KINDS)]], 60)
        events["ts"] = events["ts"] * 1800 * SECOND + int(rng.integers(0, 86_400)) * SECOND
        acts = acts_of(rng, 60, USUAL)
        acts["tif"] = rng.choice([GTC, DAY], len(acts))
        check(events, acts, rules, Options(fills=options_of(rng).fills, out=int(rng.integers(0, 3600 * SECOND))), instrument)


def test_without_optimisation_and_in_the_interpreter() -> None:
    rng = np.random.default_rng(5)
    rules = RULES["all"]
    runs = [compiled(rules, OptimizationLevel.O0), interpreted(rules)]
    for number in range(12):
        events = random_events(rng, KINDS[list(KINDS)[number % len(KINDS)]], 40)
        acts, options = acts_of(rng, 40, ROUGH), options_of(rng)
        reference = run_reference(events, acts, limits_of(rules), INSTRUMENT, options)
        for run in runs:
            compare(run_native(events, acts, rules, INSTRUMENT, options, run), *reference)


REAL_DATA = {
    "trades": ("btcusdt_spot_20240808_trades.csv", Listing("BTCUSDT", "0.01", "0.00001"), 50),
    "binance": ("btcusdt_spot_20240808.jsonl.gz", Listing("BTCUSDT", "0.01", "0.00001"), 400),
    "itch": ("sim_20101224.itch50.gz", Listing("ALC", "0.0001", "1"), 300),
    "hyperliquid": ("btc_hyperliquid_l2book_20250126.jsonl.gz", Listing("BTC", "1", "0.00001"), 20),
}
EVERY = {NOTHING: 20.0, ORDER: 12.0, CANCEL: 5.0, REPLACE: 4.0, FLATTEN: 0.5, CANCEL_ALL: 0.2}


@pytest.mark.parametrize("name", list(REAL_DATA))
def test_a_strategy_on_real_data(name: str) -> None:
    file, listing, width = REAL_DATA[name]
    feed = Feed([DataSource(DATA / file, 0, (listing,), listing.name)], NativeDecoders(), Rules(skip=True))
    events = np.concatenate([block.copy() for block in feed.events()])[:8000]
    rng = np.random.default_rng(6)
    acts = acts_of(rng, 64, EVERY)
    acts["near"] = True
    acts["limit"], acts["stop"] = rng.integers(-width, width, 64), rng.integers(-width, width, 64)
    acts["qty"], acts["show"], acts["id"] = rng.integers(1, 2000, 64), rng.integers(100, 1000, 64), rng.integers(0, 6, 64)
    rules = RiskRules(
        7, max_position=9000, max_open_orders=12, price_collar=Collar(bps=Fraction(300), of="last"), self_trade="cancel_resting"
    )
    fills = "next" if name == "trades" else "queue"
    options = Options(fills=fills, out=50_000, back=20_000, accounting="fifo", timers=(10**9,), on_cross="trim", again=True, block=1000)
    ran = run_native(events, acts, rules, INSTRUMENT, options)
    compare(ran, *run_reference(events, acts, limits_of(rules), INSTRUMENT, options))
    assert len(ran.records["fills"]) > 20
