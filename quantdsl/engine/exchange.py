"""The market's side of our orders: how they fill against data that knew nothing of them.

An order that comes takes what is displayed as far as its limit goes (`next` waits for a trade instead), and what is left of it rests. One
with a stop first waits until a trade, or where there are none the best price of the other side, is at its stop or through it."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Optional, Record, all_of, any_of, minimum, select
from quantdsl.engine.book_ladder import best, ladder_of, level_at, price_at, price_rank, shown, walk
from quantdsl.engine.exchange_orders import (
    LONG,
    SLOT,
    at,
    define_lists,
    end,
    fill,
    in_market,
    is_next,
    order_at,
    says,
    session_end,
)
from quantdsl.engine.exchange_trades import define_trades, meet_both
from quantdsl.engine.inside import MARKET as CALLED
from quantdsl.engine.inside import declare
from quantdsl.engine.layout import BUY, DAY, FOK, IOC, MARKET, POST_ONLY, QUEUE, SELL
from runtime.replay.outputs.records import OrderState

FEW = 8
"""Changes of a message that are compared with each order; of more, each order looks into the book instead."""


def define_exchange(program: ModuleBuilder) -> None:
    """All that `inside.MARKET` names, in a program that has a book."""
    declare(program, CALLED)
    define_lists(program)
    define_trades(program)
    with program.function("exchange.place", SLOT, internal=True) as b:
        _place(b, *b.parameters)
    with program.function("exchange.trigger", {"engine": SLOT["engine"]}, internal=True, attributes=LONG) as b:
        _trigger(b, *b.parameters)
    for name, write in (
        ("exchange.trade", _trade),
        ("exchange.book_changed", _book_changed),
        ("exchange.expire", _expire),
        ("exchange.arrive", _arrive),
        ("exchange.cancel", _cancel),
        ("exchange.replace", _replace),
    ):
        with program.define(name) as b:
            write(b, *b.parameters)


# ---- requests -----------------------------------------------------------------------------------------------------------------


def _arrive(b: FunctionCode, engine: Record, slot: Expr) -> None:
    order = order_at(engine, slot)
    qty = order.qty
    own = order.exchange
    own.limit = order.limit
    own.qty = qty
    own.left = qty
    own.at_market = says(order, MARKET)
    with b.when(order.tif == DAY):
        own.session = session_end(engine)
    stops = order.has_stop
    too_late = all_of(says(order, POST_ONLY), ~stops, _crosses(engine, order, own.limit, own.at_market))
    with b.when(engine.market_halted | too_late):
        end(b, engine, slot, int(OrderState.REJECTED))
        b.ret()
    b.call("reports.acknowledge", engine, slot)
    with b.when(stops):
        seen = _price_of_stops(engine, order.side)
        with b.when(~(seen.present & _is_at_stop(order, seen.value))):
            b.call("exchange.wait", engine, slot)
            b.ret()
        _act(b, engine, slot)
        b.ret()
    b.call("exchange.place", engine, slot)


def _cancel(b: FunctionCode, engine: Record, slot: Expr) -> None:
    """An order that isn't there any more stays as it ended."""
    with b.when(in_market(order_at(engine, slot))):
        end(b, engine, slot, int(OrderState.CANCELLED))


def _replace(b: FunctionCode, engine: Record, slot: Expr, qty: Expr, limit: Expr, at_market: Expr) -> None:
    """A new whole quantity and limit. The place in the queue is kept only by less quantity at the same limit."""
    order = order_at(engine, slot)
    with b.when(~in_market(order)):
        b.ret()
    before, old_limit, old_market = (order.exchange[name] for name in ("qty", "limit", "at_market"))
    waits = order.exchange.waiting
    too_late = all_of(says(order, POST_ONLY), ~waits, _crosses(engine, order, limit, at_market))
    with b.when(engine.market_halted | too_late):
        b.call("reports.replace", engine, slot, old_limit, before, old_market)
        b.ret()
    left = qty.wrapping_sub(before.wrapping_sub(order.exchange.left))
    with b.when(left <= 0):
        end(b, engine, slot, int(OrderState.CANCELLED))
        b.ret()
    same_limit = (at_market == old_market) & (at_market | (limit == old_limit))
    stays = waits | (same_limit & (qty <= before))
    with b.when(~stays):
        b.call("exchange.leave", engine, slot)
    own = order.exchange
    own.qty = qty
    own.left = left
    own.limit = limit
    own.at_market = at_market
    own.display = minimum(own.display, left)
    b.call("reports.replace", engine, slot, limit, qty, at_market)
    with b.when(~stays):
        b.call("exchange.place", engine, slot)


def _crosses(engine: Record, order: Record, limit: Expr, at_market: Expr) -> Expr:
    """Whether the order would trade with what is displayed."""
    side = order.side
    far = best(engine.book, side ^ 1)
    suits = price_rank(side, limit) >= price_rank(side, far.value)
    return all_of(~is_next(engine), far.present, at_market | suits)


def _place(b: FunctionCode, engine: Record, slot: Expr) -> None:
    """An active order: what it can take, and where the rest of it stands."""
    order = order_at(engine, slot)
    with b.when(is_next(engine)):
        b.call("exchange.rest", engine, slot)
        b.ret()
    side, tif, limit, at_market = order.side, order.tif, order.exchange.limit, order.exchange.at_market
    other = side ^ 1
    far = ladder_of(engine.book, other)
    whole = tif == FOK
    with b.when(whole):
        needed = b.variable(order.exchange.left)
        with walk(b, far) as place:
            with b.when((needed.value <= 0) | ~_allows(side, limit, at_market, price_at(far, other, place))):
                b.break_()
            needed.value = needed.value.wrapping_sub(_available(level_at(far, place)))
        with b.when(needed.value > 0):
            end(b, engine, slot, int(OrderState.CANCELLED))
            b.ret()
    with walk(b, far) as place:
        price, left = price_at(far, other, place), order.exchange.left
        with b.when((left <= 0) | ~_allows(side, limit, at_market, price)):
            b.break_()
        level = level_at(far, place)
        taken = minimum(left, _available(level))
        with b.when(taken > 0):
            level.taken = level.taken.wrapping_add(taken)
            fill(b, engine, slot, price, taken, False)
    with b.when(order.exchange.left <= 0):
        b.ret()
    with b.when(any_of(at_market, tif == IOC, whole)):
        end(b, engine, slot, int(OrderState.CANCELLED))
        b.ret()
    order.exchange.ahead = shown(b, engine.book, side, limit)
    order.exchange.display = minimum(order.shown, order.exchange.left)
    b.call("exchange.rest", engine, slot)


def _allows(side: Expr, limit: Expr, at_market: Expr, price: Expr) -> Expr:
    return at_market | (price_rank(side, limit) >= price_rank(side, price))


def _available(level: Record) -> Expr:
    return level.qty.wrapping_sub(level.taken)


# ---- stops --------------------------------------------------------------------------------------------------------------------


def _price_of_stops(engine: Record, side: Expr) -> Optional:
    """What stops look at: the last trade; where there was none, the best price of the other side of a good book."""
    book = engine.book
    far = best(book, side ^ 1)
    traded = engine.last.present
    there = traded | (far.present & ~book.suspect)
    return Optional(there, select(traded, engine.last.value, far.value))


def _is_at_stop(order: Record, price: Expr) -> Expr:
    """A buy's stop is reached from below, a sell's from above."""
    side = order.side
    return price_rank(side, price) >= price_rank(side, order.stop)


def _act(b: FunctionCode, engine: Record, slot: Expr) -> None:
    """The stop is reached: from now on the order is one at the market or at its limit. One that must not take is cancelled if it would."""
    order = order_at(engine, slot)
    crosses = _crosses(engine, order, order.exchange.limit, order.exchange.at_market)
    with b.when(says(order, POST_ONLY) & crosses):
        end(b, engine, slot, int(OrderState.CANCELLED))
    with b.otherwise():
        b.call("exchange.place", engine, slot)


def _trigger(b: FunctionCode, engine: Record) -> None:
    """All whose stop is reached act, in the order in which they came; none while trading is halted."""
    with b.when(engine.market_halted):
        b.ret()
    waiting = engine.waiting
    number = b.variable(0)
    with b.repeat():
        with b.when(number.value >= waiting.count):
            b.break_()
        slot = at(waiting, number.value)
        order = order_at(engine, slot)
        seen = _price_of_stops(engine, order.side)
        with b.when(seen.present & _is_at_stop(order, seen.value)):
            b.call("exchange.leave", engine, slot)
            _act(b, engine, slot)
        with b.otherwise():
            number.value = number.value.wrapping_add(1)


# ---- what the data brings -----------------------------------------------------------------------------------------------------


def _trade(b: FunctionCode, engine: Record, price: Expr, qty: Expr, aggressor: Expr) -> None:
    with b.when(is_next(engine)), b.when(engine.resting.unchecked[BUY].count != 0):
        b.call("exchange.next", engine, price)
    with b.otherwise():
        meet_both(b, engine, price, qty, aggressor)
    with b.when(engine.waiting.count != 0):
        b.call("exchange.trigger", engine)


def _book_changed(b: FunctionCode, engine: Record) -> None:
    """The queue before an order is never longer than what is displayed there."""
    book = engine.book
    changes = book.changes
    with b.when(engine.settings.fills == QUEUE):
        in_doubt = book.unseen | (changes > FEW)
        for side in (BUY, SELL):
            queued = engine.resting.unchecked[side]
            with b.loop(0, queued.count) as i:
                order = order_at(engine, at(queued, i))
                with b.when(in_doubt | _has_changed(b, book, changes, side, order.exchange.limit)):
                    now = shown(b, book, b.const(side, "u8"), order.exchange.limit)
                    order.exchange.ahead = minimum(order.exchange.ahead, now)
    book.unseen = False
    book.changes = select(book.within, changes, 0)
    with b.when((engine.waiting.count != 0) & ~engine.last.present):
        b.call("exchange.trigger", engine)


def _has_changed(b: FunctionCode, book: Record, changes: Expr, side: int, price: Expr) -> Expr:
    """Whether one of the few changes of the message is at a level."""
    changed = b.variable(False)
    with b.loop(0, minimum(changes, FEW)) as i:
        change = book.journal.unchecked[i]
        here = (change.price == price) & (change.side == side)
        changed.value |= here
    return changed.value


def _expire(b: FunctionCode, engine: Record) -> None:
    """Orders for the day end with their session."""
    now = engine.now
    with b.when((engine.day_orders == 0) | (now < engine.day_end)):
        b.ret()
    for where in ("resting", "waiting"):
        with b.repeat():
            oldest = b.variable(-1)
            first = b.variable(0)
            with b.loop(0, engine.open_count) as i:
                slot = engine.open.unchecked[i]
                order = order_at(engine, slot)
                over = all_of(order.exchange[where], order.tif == DAY, order.exchange.session <= now)
                arrival = order.exchange.arrival
                with b.when(over & ((oldest.value < 0) | (arrival < first.value))):
                    oldest.value = slot
                    first.value = arrival
            with b.when(oldest.value < 0):
                b.break_()
            end(b, engine, oldest.value, int(OrderState.EXPIRED))
    earliest = b.variable((1 << 63) - 1)
    with b.loop(0, engine.open_count) as i:
        order = order_at(engine, engine.open.unchecked[i])
        with b.when(in_market(order) & (order.tif == DAY)):
            earliest.value = minimum(earliest.value, order.exchange.session)
    engine.day_end = earliest.value
