"""What the market tells of our orders, on its way back: pushed by the market's side, delivered when due.

The market's side (`exchange.py`) says `push_report` and keeps only the `exchange` part of an order; what the strategy knows of
it, the fields before, changes as reports are delivered. An order's place in the slab is given back with the report of its end, so the
market's side may name orders by their slot as long as it holds them."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, Record
from quantdsl.engine.layout import REPORT, REPORTS
from quantdsl.engine.queues import Queue

ACK, FILLED, ENDED, REPLACED = range(4)
"""Kinds of reports."""

QUEUE = Queue(REPORT, REPORTS, "reports are on their way")


def push_report(
    b: FunctionCode,
    engine: Record,
    kind: int,
    slot: Expr,
    *,
    price: Number = 0,
    qty: Number = 0,
    maker: Number = False,
    state: Number = 0,
    at_market: Number = False,
) -> None:
    """Tell the strategy about the order in a slot, `settings.back` from now. FILLED: `price`, `qty`, `maker`. ENDED: `state`, one of
    `outputs.records.State`. REPLACED: the whole `qty`, and the limit `price` or `at_market`, as they are now."""
    report = QUEUE.push(b, engine.reports)
    report.due = engine.now + engine.settings.back
    report.kind = kind
    report.slot = slot
    report.id = engine.slots.items.unchecked[slot].id
    report.price = price
    report.qty = qty
    report.maker = maker
    report.state = state
    report.at_market = at_market
