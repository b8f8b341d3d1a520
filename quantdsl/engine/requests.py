"""What the strategy asks of the market, on its way there: pushed by orders, cancels and replaces, handed over when due."""

from compiler.hir.instruction import Value
from quantdsl.engine.layout import OPEN, REQUEST, REQUESTS
from quantdsl.engine.queues import Queue
from quantdsl.native.build import FunctionCode, Number

NEW, CANCEL, REPLACE = range(3)
"""Kinds of requests."""

QUEUE = Queue(REQUEST, REQUESTS, "requests are on their way")
RESERVED = 2 * OPEN
"""Places kept for the cancels of a `kill`."""


def push_request(
    b: FunctionCode,
    desk: Value,
    kind: int,
    slot: Value,
    id: Value,
    *,
    qty: Number = 0,
    limit: Number = 0,
    at_market: Number = False,
    before: Number = 0,
) -> None:
    """Ask something of the order in a slot, `settings.out` from now. REPLACE: the whole `qty`, and the `limit` or `at_market`; `before` is
    the order's `asked` until now."""
    request = QUEUE.push(b, b.at(desk, "requests"))
    b.put(request, "due", b.add(b.get(desk, "now"), b.get(desk, "settings", "out")))
    b.put(request, "kind", kind)
    b.put(request, "slot", slot)
    b.put(request, "id", id)
    b.put(request, "qty", qty)
    b.put(request, "limit", limit)
    b.put(request, "at_market", at_market)
    b.put(request, "before", before)


def has_room(b: FunctionCode, desk: Value) -> Value:
    """Whether the strategy may ask for more; the market is never asked for so much that a `kill` couldn't cancel."""
    return b.lt(QUEUE.count(b, b.at(desk, "requests")), REQUESTS - RESERVED)
