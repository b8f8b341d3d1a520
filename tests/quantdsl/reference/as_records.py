"""A reference run as the records that an engine hands to the outputs."""

from collections.abc import Iterable

import numpy as np

from runtime.replay.events import MarketSide as RecordSide
from runtime.replay.outputs.records import LAYOUTS, OrderOption, OrderState, Records, Tif
from tests.quantdsl.reference.engine import Engine, Filled, Refused, Sample
from tests.quantdsl.reference.market import Side
from tests.quantdsl.reference.orders import Order

SIDES = {Side.BUY: RecordSide.BUY, Side.SELL: RecordSide.SELL}


def as_records(engine: Engine) -> dict[str, Records]:
    """Of instrument 0; `limit` is 0 where an order is at the market."""
    return {
        "orders": _filled("orders", map(_order, engine.orders.values())),
        "fills": _filled("fills", map(_fill, engine.fills)),
        "rejects": _filled("rejects", map(_reject, engine.rejects)),
        "pnl": _filled("pnl", map(_pnl, engine.samples)),
    }


def _order(o: Order) -> dict[str, int]:
    return {
        "id": o.id,
        "ts": o.ts,
        "done": o.done or 0,
        "qty": o.qty,
        "limit": o.limit or 0,
        "filled": o.filled,
        "side": SIDES[o.side],
        "tif": Tif[o.tif.name],
        "state": OrderState[o.state.name],
        "options": _market(o.limit) | OrderOption.POST_ONLY * o.post_only | OrderOption.REDUCE_ONLY * o.reduce_only,
    }


def _fill(f: Filled) -> dict[str, int]:
    same = {name: getattr(f, name) for name in ("ts", "order", "price", "qty", "fee", "realized", "position", "maker")}
    return {**same, "side": SIDES[f.side]}


def _reject(r: Refused) -> dict[str, int]:
    return {
        "ts": r.ts,
        "order": r.order,
        "qty": r.qty,
        "limit": r.limit or 0,
        "mask": r.mask,
        "side": SIDES[r.side],
        "options": _market(r.limit),
    }


def _pnl(s: Sample) -> dict[str, int]:
    same = {name: getattr(s, name) for name in ("ts", "position", "realized", "unrealized", "fees", "net")}
    return {**same, "mark2": s.mark2 or 0, "marked": s.mark2 is not None}


def _market(limit: int | None) -> int:
    return OrderOption.MARKET if limit is None else 0


def _filled(table: str, rows: Iterable[dict[str, int]]) -> Records:
    """A field that a row doesn't have is 0."""
    listed = list(rows)
    records = np.zeros(len(listed), LAYOUTS[table])
    for record, row in zip(records, listed, strict=True):
        for name, value in row.items():
            record[name] = value
    return records
