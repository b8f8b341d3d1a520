"""What a trade of the data does to our resting orders.

`next`: the first trade after an order became active that suits its limit fills it whole. `touch`: trades of the other side at the limit or
through it, up to their size. `queue`: like `touch`, but at the limit what was displayed before the order goes first, and a trade
through the limit fills it whole. At its limit an iceberg fills no more than it shows; then it shows the next part, behind all others."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, maximum, minimum, select
from compiler.hir.native_types import I1, I64, U8
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import price_rank, shown
from quantdsl.engine.exchange_orders import LONG, at, discount, fill, order_at, says
from quantdsl.engine.layout import BUY, ENGINE_STATE, FOK, IOC, POST_ONLY, QUEUE, SELL
from runtime.replay.events import MarketSide
from runtime.replay.outputs.records import OrderState

TRADED: dict[str, HirType] = {"engine": Pointer(ENGINE_STATE), "side": U8, "price": I64, "qty": I64, "beyond": I1}


def define_trades(program: ModuleBuilder) -> None:
    """`exchange.next`, `exchange.meet` (one side's orders, `touch` and `queue`; what is left of the trade)."""
    with program.function("exchange.settle", {"engine": Pointer(ENGINE_STATE), "side": U8}, internal=True, attributes=LONG) as b:
        _settle(b, *b.parameters)
    with program.function("exchange.next", {"engine": Pointer(ENGINE_STATE), "price": I64}, internal=True, attributes=LONG) as b:
        _next(b, *b.parameters)
    with program.function("exchange.meet", TRADED, [I64], internal=True, attributes=LONG) as b:
        _meet(b, *b.parameters)


def meet_both(b: FunctionCode, engine: Record, price: Expr, qty: Expr, aggressor: Expr) -> None:
    """Of a trade: the orders of the side that was hit; where nobody says who was the aggressor, those on both sides that it went beyond."""
    unsaid = aggressor == int(MarketSide.NONE)
    left = b.variable(qty)
    for own, hit_by in ((BUY, MarketSide.SELL), (SELL, MarketSide.BUY)):
        count = engine.resting.unchecked[own].count
        with b.when((count != 0) & (unsaid | (aggressor == int(hit_by)))):
            (rest,) = b.call("exchange.meet", engine, own, price, left.value, unsaid)
            left.value = rest


def _next(b: FunctionCode, engine: Record, price: Expr) -> None:
    queued = engine.resting.unchecked[BUY]
    with b.loop(0, queued.count) as i:
        slot = at(queued, i)
        order = order_at(engine, slot)
        side, tif = order.side, order.tif
        suits = price_rank(side, order.exchange.limit) >= price_rank(side, price)
        with b.when(order.exchange.at_market | suits):
            fill(b, engine, slot, price, order.exchange.left, says(order, POST_ONLY))
        with b.otherwise(), b.when((tif == IOC) | (tif == FOK)):
            order.exchange.left = 0
            b.call("reports.end", engine, slot, int(OrderState.CANCELLED))
    b.call("exchange.settle", engine, BUY)


def _meet(b: FunctionCode, engine: Record, side: Expr, price: Expr, qty: Expr, beyond: Expr) -> None:
    queued = engine.resting.unchecked[side.cast("i64")]
    left, moved = b.variable(qty), b.variable(False)
    queues = engine.settings.fills == QUEUE
    traded = price_rank(side, price)
    with b.loop(0, queued.count) as i:
        slot = at(queued, i)
        order = order_at(engine, slot)
        limit = order.exchange.limit
        own = price_rank(side, limit)
        with b.when(~select(beyond, own > traded, own >= traded)):
            b.break_()
        here, iceberg = own == traded, order.shown > 0
        may = select(here & iceberg, minimum(order.exchange.left, order.exchange.display), order.exchange.left)
        ahead = select(queues, order.exchange.ahead, 0)
        behind = maximum(left.value.wrapping_sub(ahead), 0)
        free = queues & ~here  # the whole level traded, whatever its size
        filled = select(free, may, minimum(may, behind))
        with b.when(queues & here):
            order.exchange.ahead = maximum(ahead.wrapping_sub(left.value), 0)
        left.value = select(free, left.value, left.value.wrapping_sub(filled))
        with b.when(filled > 0):
            fill(b, engine, slot, limit, filled, True)
            with b.when(iceberg):
                hidden = order.exchange.display.wrapping_sub(filled)
                order.exchange.display = hidden
                with b.when((hidden <= 0) & (order.exchange.left > 0)):
                    _show_more(b, engine, order)
                    moved.value = True
    b.call("exchange.settle", engine, side)
    with b.when(moved.value):
        _sort(b, engine, side, queued)
    b.ret(left.value)


def _show_more(b: FunctionCode, engine: Record, order: Record) -> None:
    """The next part of an iceberg, as if it came now."""
    order.exchange.display = minimum(order.shown, order.exchange.left)
    order.exchange.ahead = shown(b, engine.book, order.side, order.exchange.limit)
    arrival = engine.arrivals
    order.exchange.arrival = arrival
    engine.arrivals = arrival.wrapping_add(1)


def _settle(b: FunctionCode, engine: Record, side: Expr) -> None:
    """Orders of which nothing is left go out of a list."""
    queued = engine.resting.unchecked[side.cast("i64")]
    kept = b.variable(0)
    with b.loop(0, queued.count) as i:
        slot = at(queued, i)
        order = order_at(engine, slot)
        with b.when(order.exchange.left > 0):
            queued.slots.unchecked[kept.value] = slot
            kept.value = kept.value.wrapping_add(1)
        with b.otherwise():
            discount(b, engine, order)
    queued.count = kept.value


def _sort(b: FunctionCode, engine: Record, side: Expr, queued: Record) -> None:
    """By price and arrival, as the list was but for a few."""
    with b.loop(1, queued.count) as i:
        slot = at(queued, i)
        own = order_at(engine, slot)
        limit, arrival = price_rank(side, own.exchange.limit), own.exchange.arrival
        place = b.variable(i)
        with b.loop(i, 0, -1) as j:
            other_slot = at(queued, j.wrapping_sub(1))
            other = order_at(engine, other_slot)
            price = price_rank(side, other.exchange.limit)
            earlier = (price == limit) & (other.exchange.arrival < arrival)
            with b.when((price > limit) | earlier):
                b.break_()
            queued.slots.unchecked[j] = other_slot
            place.value = j.wrapping_sub(1)
        queued.slots.unchecked[place.value] = slot
