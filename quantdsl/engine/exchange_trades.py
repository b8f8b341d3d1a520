"""What a trade of the data does to our resting orders.

`next`: the first trade after an order became active that suits its limit fills it whole. `touch`: trades of the other side at the limit or
through it, up to their size. `queue`: like `touch`, but at the limit what was displayed before the order goes first, and a trade
through the limit fills it whole. At its limit an iceberg fills no more than it shows; then it shows the next part, behind all others."""

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import goodness, shown
from quantdsl.engine.exchange_orders import LONG, at, discount, fill, order_at, says
from quantdsl.engine.layout import BUY, DESK, FOK, IOC, POST_ONLY, QUEUE, SELL
from quantdsl.engine.reports import ENDED, push_report
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8
from runtime.replay.events import MarketSide
from runtime.replay.outputs.records import OrderState

TRADED: dict[str, HirType] = {"desk": Pointer(DESK), "side": U8, "price": I64, "qty": I64, "beyond": I1}


def define_trades(program: ModuleBuilder) -> None:
    """`exchange.next`, `exchange.meet` (one side's orders, `touch` and `queue`; what is left of the trade)."""
    with program.function("exchange.settle", {"desk": Pointer(DESK), "side": U8}, internal=True, attributes=LONG) as b:
        _settle(b, *b.parameters)
    with program.function("exchange.next", {"desk": Pointer(DESK), "price": I64}, internal=True, attributes=LONG) as b:
        _next(b, *b.parameters)
    with program.function("exchange.meet", TRADED, [I64], internal=True, attributes=LONG) as b:
        _meet(b, *b.parameters)


def meet_both(b: FunctionCode, desk: Value, price: Value, qty: Value, aggressor: Value) -> None:
    """Of a trade: the orders of the side that was hit; where nobody says who was the aggressor, those on both sides that it went beyond."""
    unsaid = b.eq(aggressor, int(MarketSide.NONE))
    left = b.variable(qty)
    for own, hit_by in ((BUY, MarketSide.SELL), (SELL, MarketSide.BUY)):
        count = b.get(desk, "resting", own, "count", proved=True)
        with b.when(b.both(b.ne(count, 0), b.either(unsaid, b.eq(aggressor, int(hit_by))))):
            (rest,) = b.call("exchange.meet", desk, own, price, b.now(left), unsaid)
            b.set(left, rest)


def _next(b: FunctionCode, desk: Value, price: Value) -> None:
    queued = b.at(desk, "resting", BUY, proved=True)
    with b.loop(0, b.get(queued, "count")) as i:
        slot = at(b, queued, i)
        order = order_at(b, desk, slot)
        side, tif = b.get(order, "side"), b.get(order, "tif")
        suits = b.ge(goodness(b, side, b.get(order, "at_limit")), goodness(b, side, price))
        with b.choice(b.either(b.get(order, "at_market"), suits)) as c:
            with c.then():
                fill(b, desk, slot, price, b.get(order, "left"), says(b, order, POST_ONLY))
            with c.otherwise(), b.when(b.either(b.eq(tif, IOC), b.eq(tif, FOK))):
                b.put(order, "left", 0)
                push_report(b, desk, ENDED, slot, state=int(OrderState.CANCELLED))
    b.call("exchange.settle", desk, BUY)


def _meet(b: FunctionCode, desk: Value, side: Value, price: Value, qty: Value, beyond: Value) -> None:
    queued = b.at(desk, "resting", b.cast(side, "i64"), proved=True)
    left, moved = b.variable(qty), b.variable(b.const(False, "i1"))
    queues = b.eq(b.get(desk, "settings", "fills"), QUEUE)
    traded = goodness(b, side, price)
    with b.loop(0, b.get(queued, "count")) as i:
        slot = at(b, queued, i)
        order = order_at(b, desk, slot)
        limit = b.get(order, "at_limit")
        own = goodness(b, side, limit)
        with b.when(b.negate(b.select(beyond, b.gt(own, traded), b.ge(own, traded)))):
            b.leave()
        here, iceberg = b.eq(own, traded), b.gt(b.get(order, "shown"), 0)
        may = b.select(b.both(here, iceberg), b.smaller(b.get(order, "left"), b.get(order, "display")), b.get(order, "left"))
        ahead = b.select(queues, b.get(order, "ahead"), 0)
        behind = b.larger(b.wrapping("sub", b.now(left), ahead), 0)
        free = b.both(queues, b.negate(here))  # the whole level traded, whatever its size
        filled = b.select(free, may, b.smaller(may, behind))
        with b.when(b.both(queues, here)):
            b.put(order, "ahead", b.larger(b.wrapping("sub", ahead, b.now(left)), 0))
        b.set(left, b.select(free, b.now(left), b.wrapping("sub", b.now(left), filled)))
        with b.when(b.gt(filled, 0)):
            fill(b, desk, slot, limit, filled, True)
            with b.when(iceberg):
                hidden = b.wrapping("sub", b.get(order, "display"), filled)
                b.put(order, "display", hidden)
                with b.when(b.both(b.le(hidden, 0), b.gt(b.get(order, "left"), 0))):
                    _show_more(b, desk, order)
                    b.set(moved, True)
    b.call("exchange.settle", desk, side)
    with b.when(b.now(moved)):
        _sort(b, desk, side, queued)
    b.give(b.now(left))


def _show_more(b: FunctionCode, desk: Value, order: Value) -> None:
    """The next part of an iceberg, as if it came now."""
    b.put(order, "display", b.smaller(b.get(order, "shown"), b.get(order, "left")))
    b.put(order, "ahead", shown(b, b.at(desk, "book"), b.get(order, "side"), b.get(order, "at_limit")))
    arrival = b.get(desk, "arrivals")
    b.put(order, "arrival", arrival)
    b.put(desk, "arrivals", b.wrapping("add", arrival, 1))


def _settle(b: FunctionCode, desk: Value, side: Value) -> None:
    """Orders of which nothing is left go out of a list."""
    queued = b.at(desk, "resting", b.cast(side, "i64"), proved=True)
    kept = b.variable(b.const(0, "i64"))
    with b.loop(0, b.get(queued, "count")) as i:
        slot = at(b, queued, i)
        order = order_at(b, desk, slot)
        with b.choice(b.gt(b.get(order, "left"), 0)) as c:
            with c.then():
                b.put(queued, "slots", b.now(kept), slot, proved=True)
                b.set(kept, b.wrapping("add", b.now(kept), 1))
            with c.otherwise():
                discount(b, desk, order)
    b.put(queued, "count", b.now(kept))


def _sort(b: FunctionCode, desk: Value, side: Value, queued: Value) -> None:
    """By price and arrival, as the list was but for a few."""
    with b.loop(1, b.get(queued, "count")) as i:
        slot = at(b, queued, i)
        own = order_at(b, desk, slot)
        limit, arrival = goodness(b, side, b.get(own, "at_limit")), b.get(own, "arrival")
        place = b.variable(i)
        with b.loop(i, 0, -1) as j:
            other_slot = at(b, queued, b.wrapping("sub", j, 1))
            other = order_at(b, desk, other_slot)
            price = goodness(b, side, b.get(other, "at_limit"))
            earlier = b.both(b.eq(price, limit), b.lt(b.get(other, "arrival"), arrival))
            with b.when(b.either(b.gt(price, limit), earlier)):
                b.leave()
            b.put(queued, "slots", j, other_slot, proved=True)
            b.set(place, b.wrapping("sub", j, 1))
        b.put(queued, "slots", b.now(place), slot, proved=True)
