"""The compiled desk against the reference: orders, fills, refusals, profit and loss, and every call of a handler are the same."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quantdsl.engine.risk import Collar, Loss, RiskRules
from runtime.replay.events import Kind
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
    run_native,
    run_reference,
)
from tests.quantdsl.engine.random_events import ALL, LEVELS, ORDERS, QUOTES, TRADED, random_events
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.reference.risk import Collar as ReferenceCollar
from tests.quantdsl.reference.risk import Limits
from tests.quantdsl.reference.risk import Loss as ReferenceLoss

INSTRUMENT = Instrument(point=7, maker=Fee(-1, 1), taker=Fee(Fraction(5, 2), 2))
USUAL = {NOTHING: 4.0, ORDER: 12.0, CANCEL: 3.0, REPLACE: 3.0, FLATTEN: 1.0, CANCEL_ALL: 0.5}
ROUGH = {**USUAL, KILL: 0.4, FAIL: 0.4}


def limits_of(rules: RiskRules) -> Limits:
    """The same rules for the reference."""
    plain = {name: getattr(rules, name) for name in ("max_order_qty", "max_notional", "max_position", "max_open_orders", "max_open_notional")}
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
        events = random_events(rng, {Kind.TRADE: 1}, 40)
        check(events, acts_of(rng, 30, {ORDER: 1.0}), RiskRules(point=7), Options(fills="next"))


KINDS = {"trades": {Kind.TRADE: 1}, "quotes": {**QUOTES, **TRADED}, "levels": {**LEVELS, **TRADED}, "orders": {**ORDERS, **TRADED}, "all": {**ALL, **TRADED}}


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
        check(events, acts_of(rng, 50, ROUGH), RiskRules(point=7), options_of(rng))
