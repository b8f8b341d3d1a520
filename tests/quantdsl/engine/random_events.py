"""Random records of data: books that lock, cross, lose orders and doubt themselves more often than any real one."""

from typing import Any

import numpy as np

from runtime.replay.events import EVENT, EventKind, Events, Flag

QUOTES = {EventKind.QUOTE: 30, EventKind.GAP: 1}
LEVELS = {EventKind.BOOK_LEVEL: 60, EventKind.BOOK_CLEAR: 1, EventKind.GAP: 1}
ORDERS = {
    EventKind.ADD: 30,
    EventKind.EXECUTE: 8,
    EventKind.CANCEL: 8,
    EventKind.DELETE: 8,
    EventKind.REPLACE: 8,
    EventKind.BOOK_CLEAR: 1,
    EventKind.GAP: 1,
}
ALL = {**LEVELS, **ORDERS, EventKind.QUOTE: 2}
TRADED = {EventKind.TRADE: 30, EventKind.HALT: 1, EventKind.STATUS: 2}
KINDS = {"quotes": QUOTES, "levels": LEVELS, "orders": ORDERS, "all": ALL}


def random_events(
    rng: np.random.Generator, kinds: dict[EventKind, int], count: int, width: int = 12, ids: int = 30, whole: float = 0.7
) -> Events:
    """`width`: prices around 100, bids tend to be below it; `whole`: how often a record ends its message."""
    made = np.zeros(count, EVENT)
    weights = np.array(list(kinds.values()), float)
    made["kind"] = rng.choice([int(kind) for kind in kinds], count, p=weights / weights.sum())
    made["ts"] = np.cumsum(rng.integers(0, 3, count))
    made["side"] = rng.integers(1, 3, count)
    is_clear = made["kind"] == EventKind.BOOK_CLEAR
    made["side"][is_clear] = rng.integers(0, 3, is_clear.sum())
    is_trade = made["kind"] == EventKind.TRADE
    made["side"][is_trade] = rng.integers(0, 3, is_trade.sum())
    away = rng.integers(-2, width, count)
    made["price"] = 100 + np.where(made["side"] == 1, -away, away)
    made["price"][is_trade] = 100 + rng.integers(-3, 4, is_trade.sum())
    made["qty"] = rng.integers(0, 6, count)
    is_quote = made["kind"] == EventKind.QUOTE
    made["price"][is_quote] = 100 - rng.integers(-1, 4, is_quote.sum())
    made["price2"], made["qty2"] = 100 + rng.integers(0, 4, count), rng.integers(0, 6, count)
    needs_size = made["kind"] == EventKind.TRADE
    made["qty"][needs_size] += 1
    scale = np.uint64(rng.choice([1, 4096, 0x9E3779B97F4A7C15]))  # numbers that follow each other, that meet, that lie anywhere
    for name in ("id", "id2"):
        made[name] = rng.integers(0, ids, count).astype(np.uint64) * scale
    flags: Any = np.where(rng.random(count) < whole, int(Flag.LAST), 0)
    flags |= np.where(rng.random(count) < 0.04, int(Flag.SUSPECT), 0)
    flags |= np.where(rng.random(count) < 0.2, int(Flag.OWN_PRICE), 0)
    flags |= np.where(rng.random(count) < 0.3, int(Flag.NOT_PRINTED), 0)
    made["flags"] = flags
    return made
