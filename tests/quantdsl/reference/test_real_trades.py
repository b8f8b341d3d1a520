"""The cross on the BTCUSDT trades, by the reference engine and by a loop of a page that shares nothing with it."""

import csv
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from tests.quantdsl.reference.ema_cross import EmaCross
from tests.quantdsl.reference.engine import Engine
from tests.quantdsl.reference.market import Fee, Instrument, Side, Trade
from tests.quantdsl.reference.risk import Limits

TRADES = Path(__file__).parents[3] / "programs" / "data" / "btcusdt_spot_20240808_trades.csv"
TICK, LOT = Decimal("0.01"), Decimal("0.00001")
POINT = 10  # 0.01 * 0.00001 USDT at scale 8
FAST, SLOW, CLIP, LIMIT = 12, 26, 1000, 1000


def trades() -> list[Trade]:
    sides = {"B": Side.BUY, "S": Side.SELL}
    with TRADES.open() as file:
        return [
            Trade(int(r["ts_ns"]), int(Decimal(r["price"]) / TICK), int(Decimal(r["qty"]) / LOT), sides[r["side"]])
            for r in csv.DictReader(file)
        ]


def test_the_engine_agrees_with_a_plain_loop() -> None:
    data = trades()
    limits = Limits(max_order_qty=CLIP, max_position=LIMIT, rate=(1, 5 * 10**9))
    engine = Engine(EmaCross(FAST, SLOW, CLIP, 0.01), limits, Instrument(POINT, taker=Fee(2)), fills="next").run(data)

    fast = slow = data[0].price * 0.01
    want = pending = position = cost = realized = fees = 0
    accepted: list[int] = []
    fills: list[tuple[int, int, int]] = []
    refused = 0
    for number, trade in enumerate(data):
        if pending:
            fills.append((trade.ts, trade.price, pending))
            value = trade.price * CLIP * POINT
            fees += math.ceil(Fraction(value * 2, 10_000))
            if position * pending < 0:
                realized += -pending // CLIP * value - cost
                cost = 0
            else:
                cost += pending // CLIP * value
            position += pending
            pending = 0
        x = trade.price * 0.01
        was = fast, slow
        if number:
            fast += 2.0 / (FAST + 1) * (x - fast)
            slow += 2.0 / (SLOW + 1) * (x - slow)
            if was[0] <= was[1] and fast > slow:
                want = 1
            if was[0] >= was[1] and fast < slow:
                want = -1
        if want and position * want < CLIP:
            recent = [ts for ts in accepted if ts > trade.ts - 5 * 10**9]
            if abs(position + want * CLIP) > LIMIT or len(recent) >= 1:
                refused += 1
            else:
                accepted.append(trade.ts)
                pending, want = want * CLIP, 0

    assert len(fills) > 40 and refused > 40
    assert [(f.ts, f.price, f.qty * f.side) for f in engine.fills] == fills
    assert len(engine.rejects) == refused
    p, last = engine.position, data[-1].price
    assert (p.qty, p.cost, p.realized, p.fees) == (position, cost, realized, fees)
    assert p.unrealized == position * last * POINT - cost
    assert p.realized + p.unrealized == sum(-qty * price * POINT for _, price, qty in fills) + position * last * POINT
