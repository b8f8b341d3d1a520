"""The strategies of `bench/strategies.py` written for hftbacktest, in an interpreter of its own (it needs numba).

    python hftbacktest_replay.py EVENTS.npy cross|maker

EVENTS.npy holds records of `runtime.replay.events`. Each line on standard input is answered by one of JSON: the seconds (of processor
time) of a run of the compiled strategy over all events (setting up isn't part of it), the feeds that it saw, the orders that it sent."""

import json
import sys
import time

import numpy as np
from hftbacktest import (
    BUY_EVENT,
    DEPTH_EVENT,
    EXCH_EVENT,
    GTC,
    GTX,
    LIMIT,
    LOCAL_EVENT,
    SELL_EVENT,
    TRADE_EVENT,
    BacktestAsset,
    ROIVectorMarketDepthBacktest,
    event_dtype,
)
from numba import njit

TICK, LOT = 0.01, 0.00001
TRADE, BOOK_LEVEL = 1, 3
FEED, OVER = 2, 1


def converted(events):
    """Trades and levels as hftbacktest has them."""
    kept = events[(events["kind"] == TRADE) | (events["kind"] == BOOK_LEVEL)]
    made = np.zeros(len(kept), event_dtype)
    side = np.where(kept["side"] == 1, BUY_EVENT, SELL_EVENT)
    what = np.where(kept["kind"] == TRADE, TRADE_EVENT, DEPTH_EVENT)
    made["ev"] = EXCH_EVENT | LOCAL_EVENT | side | what
    made["exch_ts"] = made["local_ts"] = kept["ts"]
    made["px"], made["qty"] = kept["price"] * TICK, kept["qty"] * LOT
    return made


@njit
def cross(hbt, fast, slow, clip, slack):
    """Two averages of the trades' prices; after a crossing orders until the position has the wanted side."""
    fast_weight, slow_weight = 2.0 / (fast + 1), 2.0 / (slow + 1)
    f = s = before_f = before_s = 0.0
    begun, want, feeds, sent, waiting = False, 0, 0, 0, 0
    while hbt.wait_next_feed(False, 10**18) == FEED:
        for trade in hbt.last_trades(0):
            feeds += 1
            price = trade.px
            if not begun:
                f = s = price
                begun = True
            else:
                f += fast_weight * (price - f)
                s += slow_weight * (price - s)
                if before_f <= before_s and f > s:
                    want = 1
                if before_f >= before_s and f < s:
                    want = -1
            before_f, before_s = f, s
            if want != 0:
                missing = clip - hbt.position(0) * want
                if missing <= LOT / 2:
                    want = 0
                elif waiting == 0 or waiting not in hbt.orders(0):
                    sent += 1
                    waiting = sent
                    if want == 1:
                        hbt.submit_buy_order(0, sent, price + slack * TICK, missing, GTC, LIMIT, False)
                    else:
                        hbt.submit_sell_order(0, sent, price - slack * TICK, missing, GTC, LIMIT, False)
        hbt.clear_last_trades(0)
        hbt.clear_inactive_orders(0)
    return feeds, sent


@njit
def maker(hbt, clip, most):
    """A bid and an offer at the best prices, moved with them."""
    feeds = sent = 0
    bid = ask = 0
    while hbt.wait_next_feed(False, 10**18) == FEED:
        feeds += 1
        hbt.clear_inactive_orders(0)
        depth, orders = hbt.depth(0), hbt.orders(0)
        if depth.best_bid_tick < 0 or depth.best_ask_tick > 10**9:
            continue
        if bid in orders:
            if orders.get(bid).price_tick != depth.best_bid_tick and orders.get(bid).cancellable:
                hbt.cancel(0, bid, False)
        elif hbt.position(0) < most:
            sent += 1
            bid = sent
            hbt.submit_buy_order(0, bid, depth.best_bid, clip, GTX, LIMIT, False)
        if ask in orders:
            if orders.get(ask).price_tick != depth.best_ask_tick and orders.get(ask).cancellable:
                hbt.cancel(0, ask, False)
        elif hbt.position(0) > -most:
            sent += 1
            ask = sent
            hbt.submit_sell_order(0, ask, depth.best_ask, clip, GTX, LIMIT, False)
        hbt.clear_last_trades(0)
    return feeds, sent


def replay(data):
    asset = BacktestAsset().data([data]).linear_asset(1.0).constant_order_latency(0, 0).risk_adverse_queue_model()
    asset = asset.no_partial_fill_exchange().trading_value_fee_model(0.0, 0.0002).tick_size(TICK).lot_size(LOT)
    return ROIVectorMarketDepthBacktest([asset.last_trades_capacity(1000).roi_lb(0.0).roi_ub(200_000.0)])


def main():
    data = converted(np.load(sys.argv[1]))
    run = {"cross": lambda hbt: cross(hbt, 12, 26, 0.01, 5), "maker": lambda hbt: maker(hbt, 0.005, 0.02)}[sys.argv[2]]
    run(replay(data[:1000]))
    for _ in sys.stdin:
        hbt = replay(data)
        started = time.process_time()
        feeds, sent = run(hbt)
        seconds = time.process_time() - started
        hbt.close()
        print(json.dumps({"seconds": seconds, "feeds": int(feeds), "sent": int(sent)}), flush=True)


main()
