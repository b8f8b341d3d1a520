"""What the strategy asks of the market, on its way there: pushed by orders, cancels and replaces, handed over when due."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, Record
from quantdsl.engine.layout import OPEN, REQUEST, REQUESTS
from quantdsl.engine.queues import Queue

NEW, CANCEL, REPLACE = range(3)
"""Kinds of requests."""

QUEUE = Queue(REQUEST, REQUESTS, "requests are on their way")
RESERVED = 2 * OPEN
"""Places kept for the cancels of a `kill`."""


def push_request(
    b: FunctionCode,
    engine: Record,
    kind: int,
    slot: Expr,
    id: Expr,
    *,
    qty: Number = 0,
    limit: Number = 0,
    at_market: Number = False,
    before: Number = 0,
) -> None:
    """Ask something of the order in a slot, `settings.out` from now. REPLACE: the whole `qty`, and the `limit` or `at_market`; `before` is
    the order's `asked` until now."""
    request = QUEUE.push(b, engine.requests)
    request.due = engine.now + engine.settings.out
    request.kind = kind
    request.slot = slot
    request.id = id
    request.qty = qty
    request.limit = limit
    request.at_market = at_market
    request.before = before


def has_room(engine: Record) -> Expr:
    """Whether the strategy may ask for more; the market is never asked for so much that a `kill` couldn't cancel."""
    return QUEUE.count(engine.requests) < REQUESTS - RESERVED
