"""What the market tells of our orders, on its way back: pushed by the market's side, delivered when due.

The market's side (`exchange.py`) says `push_report` and keeps only the fields of an order from `at_limit` on; what the strategy knows of
it, the fields before, changes as reports are delivered. An order's place in the slab is given back with the report of its end, so the
market's side may name orders by their slot as long as it holds them."""

from compiler.hir.instruction import Value
from quantdsl.engine.layout import REPORT, REPORTS
from quantdsl.engine.queues import Queue
from quantdsl.native.build import FunctionCode, Number

ACK, FILLED, ENDED, REPLACED = range(4)
"""Kinds of reports."""

QUEUE = Queue(REPORT, REPORTS, "reports are on their way")


def push_report(
    b: FunctionCode,
    desk: Value,
    kind: int,
    slot: Value,
    *,
    price: Number = 0,
    qty: Number = 0,
    maker: Number = False,
    state: Number = 0,
    at_market: Number = False,
) -> None:
    """Tell the strategy about the order in a slot, `settings.back` from now. FILLED: `price`, `qty`, `maker`. ENDED: `state`, one of
    `outputs.records.State`. REPLACED: the whole `qty`, and the limit `price` or `at_market`, as they are now."""
    report = QUEUE.push(b, b.at(desk, "reports"))
    b.put(report, "due", b.add(b.get(desk, "now"), b.get(desk, "settings", "back")))
    b.put(report, "kind", kind)
    b.put(report, "slot", slot)
    b.put(report, "id", b.get(desk, "slots", "items", slot, "id", proved=True))
    b.put(report, "price", price)
    b.put(report, "qty", qty)
    b.put(report, "maker", maker)
    b.put(report, "state", state)
    b.put(report, "at_market", at_market)
