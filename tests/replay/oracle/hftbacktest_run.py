"""Requests on data by hftbacktest, in an interpreter that has it.

    python hftbacktest_run.py EVENTS.npy REQUESTS.npy

Prints JSON: the version, and `fills`, a list for each moment of an order at which it filled. Nothing of this repository is imported."""

import json
import sys
from importlib.metadata import version

import numpy as np
from hftbacktest import (
    BUY_EVENT,
    DEPTH_EVENT,
    EXCH_EVENT,
    GTC,
    GTX,
    LIMIT,
    LOCAL_EVENT,
    MARKET,
    SELL_EVENT,
    TRADE_EVENT,
    BacktestAsset,
    HashMapMarketDepthBacktest,
    event_dtype,
)
from hftbacktest.order import FOK, IOC, NEW, PARTIALLY_FILLED

TICK, LOT = 0.01, 0.00001
MAKER, TAKER = -0.00005, 0.0002
TRADE = 1
"""Of an event's kinds; the others here are levels of the book."""
END = 1
"""What hftbacktest answers at the end of the data."""


def converted(events):
    """Trades and levels as hftbacktest has them; the last one again, much later, so that the data doesn't end before the last request."""
    made = np.zeros(len(events) + 1, event_dtype)
    what = np.where(events["kind"] == TRADE, TRADE_EVENT, DEPTH_EVENT)
    made["ev"][:-1] = EXCH_EVENT | LOCAL_EVENT | np.where(events["side"] == 1, BUY_EVENT, SELL_EVENT) | what
    made["exch_ts"][:-1] = made["local_ts"][:-1] = events["ts"]
    made["px"][:-1], made["qty"][:-1] = events["price"] * TICK, events["qty"] * LOT
    levels = made[:-1][events["kind"] != TRADE]
    made[-1] = levels[-1]
    made["exch_ts"][-1] = made["local_ts"][-1] = events["ts"][-1] + 10**12
    return made


def send(hbt, request, number):
    if request["cancel"]:
        return hbt.cancel(0, int(request["cancel"]), False)
    tif = GTX if request["post_only"] else {"GTC": GTC, "IOC": IOC, "FOK": FOK}[str(request["tif"])]
    submit = hbt.submit_buy_order if request["side"] > 0 else hbt.submit_sell_order
    return submit(0, number, request["limit"] * TICK, request["qty"] * LOT, tif, MARKET if request["market"] else LIMIT, False)


def main():
    events, requests = (np.load(path) for path in sys.argv[1:])
    data = converted(events)  # hftbacktest reads it where it lies, and doesn't keep it
    asset = BacktestAsset().data([data]).linear_asset(1.0).constant_order_latency(0, 0).risk_adverse_queue_model()
    asset = asset.partial_fill_exchange().trading_value_fee_model(MAKER, TAKER).tick_size(TICK).lot_size(LOT)
    hbt = HashMapMarketDepthBacktest([asset])
    sent, left, fills, number = {int(request["ts"]): request for request in requests}, {}, [], 0
    assert not set(sent) & set(events["ts"].tolist()), "a request and an event at one moment have no order"
    hbt.elapse(1)
    for ts in sorted({*events["ts"].tolist(), *sent})[1:]:
        if not left and ts not in sent:
            continue
        answer = hbt.elapse(ts - hbt.current_timestamp)
        if ts in sent:
            if not sent[ts]["cancel"]:
                number += 1
                left[number] = int(sent[ts]["qty"])
            send(hbt, sent[ts], number)
            answer = hbt.elapse(1)
        assert answer == 0, f"hftbacktest answers {answer} at {ts}"
        for watched, before in list(left.items()):
            order = hbt.orders(0).get(watched).arr[0]
            now = round(float(order["leaves_qty"]) / LOT)
            left[watched] = now
            if order["status"] not in (NEW, PARTIALLY_FILLED):
                del left[watched]
            if now != before:
                fills.append(
                    {
                        "ts": ts,
                        "order": watched,
                        "qty": before - now,
                        "last_price": int(order["exec_price_tick"]),
                        "last_qty": round(float(order["exec_qty"]) / LOT),
                        "maker": bool(order["maker"]),
                        "whole": now == 0,
                        "fees": float(hbt.state_values(0).fee),
                    }
                )
    hbt.close()
    print(json.dumps({"package": "hftbacktest", "version": version("hftbacktest"), "fills": fills}))


main()
