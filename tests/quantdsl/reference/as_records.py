"""A reference run as the records that an engine hands to the outputs."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from runtime.replay.events import MarketSide as RecordSide
from runtime.replay.outputs.records import LAYOUTS, OrderOption, OrderState, Records, Tif
from tests.quantdsl.reference.engine import Engine
from tests.quantdsl.reference.market import Side
from tests.quantdsl.reference.orders import Order

SIDES = {Side.BUY: RecordSide.BUY, Side.SELL: RecordSide.SELL}


def as_records(engine: Engine) -> dict[str, Records]:
    """Of instrument 0; `limit` is 0 where an order is at the market."""
    return {
        "orders": _filled("orders", map(_order, engine.orders.values())),
        "fills": _filled(
            "fills", ((f.ts, f.order, f.price, f.qty, f.fee, f.realized, f.position, 0, SIDES[f.side], f.maker, 0) for f in engine.fills)
        ),
        "rejects": _filled(
            "rejects", ((r.ts, r.order, r.qty, r.limit or 0, 0, r.mask, SIDES[r.side], _market(r.limit)) for r in engine.rejects)
        ),
        "pnl": _filled("pnl", ((s.ts, s.position, s.mark2 or 0, s.realized, s.unrealized, s.fees, s.net, 0, s.mark2 is not None) for s in engine.samples)),
    }


def _order(o: Order) -> tuple[Any, ...]:
    options = _market(o.limit) | OrderOption.POST_ONLY * o.post_only | OrderOption.REDUCE_ONLY * o.reduce_only
    return o.id, o.ts, o.done or 0, o.qty, o.limit or 0, o.filled, 0, SIDES[o.side], Tif[o.tif.name], OrderState[o.state.name], options


def _market(limit: int | None) -> int:
    return OrderOption.MARKET if limit is None else 0


def _filled(table: str, rows: Iterable[tuple[Any, ...]]) -> Records:
    return np.array([tuple(map(int, row)) for row in rows], LAYOUTS[table])
