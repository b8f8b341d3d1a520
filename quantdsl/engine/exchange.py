"""The market's side of our orders: how they fill against data that knew nothing of them.

An order that comes takes what is displayed as far as its limit goes (`next` waits for a trade instead), and what is left of it rests. One
with a stop first waits until a trade, or where there are none the best price of the other side, is at its stop or through it."""

from compiler.hir.instruction import Value
from quantdsl.engine.book_ladder import best, goodness, ladder_of, level_at, price_at, shown, walk
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
from quantdsl.engine.reports import ACK, REPLACED, push_report
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.values import Optional
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
    with program.function("exchange.trigger", {"desk": SLOT["desk"]}, internal=True, attributes=LONG) as b:
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


def _arrive(b: FunctionCode, desk: Value, slot: Value) -> None:
    order = order_at(b, desk, slot)
    qty = b.get(order, "qty")
    for name, value in (("at_limit", b.get(order, "limit")), ("at_qty", qty), ("left", qty)):
        b.put(order, name, value)
    b.put(order, "at_market", says(b, order, MARKET))
    with b.when(b.eq(b.get(order, "tif"), DAY)):
        b.put(order, "session", session_end(b, desk))
    stops = b.get(order, "has_stop")
    too_late = b.both(
        says(b, order, POST_ONLY), b.negate(stops), _crosses(b, desk, order, b.get(order, "at_limit"), b.get(order, "at_market"))
    )
    with b.when(b.either(b.get(desk, "market_halted"), too_late)):
        end(b, desk, slot, int(OrderState.REJECTED))
        b.give()
    push_report(b, desk, ACK, slot)
    with b.when(stops):
        seen = _price_of_stops(b, desk, b.get(order, "side"))
        with b.when(b.negate(b.both(seen.present, _is_at_stop(b, order, seen.value)))):
            b.call("exchange.wait", desk, slot)
            b.give()
        _act(b, desk, slot)
        b.give()
    b.call("exchange.place", desk, slot)


def _cancel(b: FunctionCode, desk: Value, slot: Value) -> None:
    """An order that isn't there any more stays as it ended."""
    with b.when(in_market(b, order_at(b, desk, slot))):
        end(b, desk, slot, int(OrderState.CANCELLED))


def _replace(b: FunctionCode, desk: Value, slot: Value, qty: Value, limit: Value, at_market: Value) -> None:
    """A new whole quantity and limit. The place in the queue is kept only by less quantity at the same limit."""
    order = order_at(b, desk, slot)
    with b.when(b.negate(in_market(b, order))):
        b.give()
    before, old_limit, old_market = (b.get(order, name) for name in ("at_qty", "at_limit", "at_market"))
    waits = b.get(order, "waiting")
    too_late = b.both(says(b, order, POST_ONLY), b.negate(waits), _crosses(b, desk, order, limit, at_market))
    with b.when(b.either(b.get(desk, "market_halted"), too_late)):
        push_report(b, desk, REPLACED, slot, price=old_limit, qty=before, at_market=old_market)
        b.give()
    left = b.wrapping("sub", qty, b.wrapping("sub", before, b.get(order, "left")))
    with b.when(b.le(left, 0)):
        end(b, desk, slot, int(OrderState.CANCELLED))
        b.give()
    same_limit = b.both(b.eq(at_market, old_market), b.either(at_market, b.eq(limit, old_limit)))
    stays = b.either(waits, b.both(same_limit, b.le(qty, before)))
    with b.when(b.negate(stays)):
        b.call("exchange.leave", desk, slot)
    for name, value in (("at_qty", qty), ("left", left), ("at_limit", limit), ("at_market", at_market)):
        b.put(order, name, value)
    b.put(order, "display", b.smaller(b.get(order, "display"), left))
    push_report(b, desk, REPLACED, slot, price=limit, qty=qty, at_market=at_market)
    with b.when(b.negate(stays)):
        b.call("exchange.place", desk, slot)


def _crosses(b: FunctionCode, desk: Value, order: Value, limit: Value, at_market: Value) -> Value:
    """Whether the order would trade with what is displayed."""
    side = b.get(order, "side")
    far = best(b, b.at(desk, "book"), b.wrapping("xor", side, 1))
    suits = b.ge(goodness(b, side, limit), goodness(b, side, far.value))
    return b.both(b.negate(is_next(b, desk)), far.present, b.either(at_market, suits))


def _place(b: FunctionCode, desk: Value, slot: Value) -> None:
    """An active order: what it can take, and where the rest of it stands."""
    order = order_at(b, desk, slot)
    with b.when(is_next(b, desk)):
        b.call("exchange.rest", desk, slot)
        b.give()
    side, tif, limit, at_market = (b.get(order, name) for name in ("side", "tif", "at_limit", "at_market"))
    other = b.wrapping("xor", side, 1)
    far = ladder_of(b, b.at(desk, "book"), other)
    whole = b.eq(tif, FOK)
    with b.when(whole):
        needed = b.variable(b.get(order, "left"))
        with walk(b, far) as place:
            with b.when(b.either(b.le(b.now(needed), 0), b.negate(_allows(b, side, limit, at_market, price_at(b, far, other, place))))):
                b.leave()
            b.set(needed, b.wrapping("sub", b.now(needed), _available(b, level_at(b, far, place))))
        with b.when(b.gt(b.now(needed), 0)):
            end(b, desk, slot, int(OrderState.CANCELLED))
            b.give()
    with walk(b, far) as place:
        price, left = price_at(b, far, other, place), b.get(order, "left")
        with b.when(b.either(b.le(left, 0), b.negate(_allows(b, side, limit, at_market, price)))):
            b.leave()
        level = level_at(b, far, place)
        taken = b.smaller(left, _available(b, level))
        with b.when(b.gt(taken, 0)):
            b.put(level, "taken", b.wrapping("add", b.get(level, "taken"), taken))
            fill(b, desk, slot, price, taken, False)
    with b.when(b.le(b.get(order, "left"), 0)):
        b.give()
    with b.when(b.either(at_market, b.eq(tif, IOC), whole)):
        end(b, desk, slot, int(OrderState.CANCELLED))
        b.give()
    b.put(order, "ahead", shown(b, b.at(desk, "book"), side, limit))
    b.put(order, "display", b.smaller(b.get(order, "shown"), b.get(order, "left")))
    b.call("exchange.rest", desk, slot)


def _allows(b: FunctionCode, side: Value, limit: Value, at_market: Value, price: Value) -> Value:
    return b.either(at_market, b.ge(goodness(b, side, limit), goodness(b, side, price)))


def _available(b: FunctionCode, level: Value) -> Value:
    return b.wrapping("sub", b.get(level, "qty"), b.get(level, "taken"))


# ---- stops --------------------------------------------------------------------------------------------------------------------


def _price_of_stops(b: FunctionCode, desk: Value, side: Value) -> Optional:
    """What stops look at: the last trade; where there was none, the best price of the other side of a good book."""
    book = b.at(desk, "book")
    far = best(b, book, b.wrapping("xor", side, 1))
    traded = b.get(desk, "last", "present")
    there = b.either(traded, b.both(far.present, b.negate(b.get(book, "suspect"))))
    return Optional(there, b.select(traded, b.get(desk, "last", "value"), far.value))


def _is_at_stop(b: FunctionCode, order: Value, price: Value) -> Value:
    """A buy's stop is reached from below, a sell's from above."""
    side = b.get(order, "side")
    return b.ge(goodness(b, side, price), goodness(b, side, b.get(order, "stop")))


def _act(b: FunctionCode, desk: Value, slot: Value) -> None:
    """The stop is reached: from now on the order is one at the market or at its limit. One that must not take is cancelled if it would."""
    order = order_at(b, desk, slot)
    crosses = _crosses(b, desk, order, b.get(order, "at_limit"), b.get(order, "at_market"))
    with b.choice(b.both(says(b, order, POST_ONLY), crosses)) as c:
        with c.then():
            end(b, desk, slot, int(OrderState.CANCELLED))
        with c.otherwise():
            b.call("exchange.place", desk, slot)


def _trigger(b: FunctionCode, desk: Value) -> None:
    """All whose stop is reached act, in the order in which they came; none while trading is halted."""
    with b.when(b.get(desk, "market_halted")):
        b.give()
    waiting = b.at(desk, "waiting")
    number = b.variable(b.const(0, "i64"))
    with b.repeat():
        with b.when(b.ge(b.now(number), b.get(waiting, "count"))):
            b.leave()
        slot = at(b, waiting, b.now(number))
        order = order_at(b, desk, slot)
        seen = _price_of_stops(b, desk, b.get(order, "side"))
        with b.choice(b.both(seen.present, _is_at_stop(b, order, seen.value))) as c:
            with c.then():
                b.call("exchange.leave", desk, slot)
                _act(b, desk, slot)
            with c.otherwise():
                b.set(number, b.wrapping("add", b.now(number), 1))


# ---- what the data brings -----------------------------------------------------------------------------------------------------


def _trade(b: FunctionCode, desk: Value, price: Value, qty: Value, aggressor: Value) -> None:
    with b.choice(is_next(b, desk)) as c:
        with c.then(), b.when(b.ne(b.get(desk, "resting", BUY, "count", proved=True), 0)):
            b.call("exchange.next", desk, price)
        with c.otherwise():
            meet_both(b, desk, price, qty, aggressor)
    with b.when(b.ne(b.get(desk, "waiting", "count"), 0)):
        b.call("exchange.trigger", desk)


def _book_changed(b: FunctionCode, desk: Value) -> None:
    """The queue before an order is never longer than what is displayed there."""
    book = b.at(desk, "book")
    changes = b.get(book, "changes")
    with b.when(b.eq(b.get(desk, "settings", "fills"), QUEUE)):
        in_doubt = b.either(b.get(book, "unseen"), b.gt(changes, FEW))
        for side in (BUY, SELL):
            queued = b.at(desk, "resting", side, proved=True)
            with b.loop(0, b.get(queued, "count")) as i:
                order = order_at(b, desk, at(b, queued, i))
                with b.when(b.either(in_doubt, _is_told_of(b, book, changes, side, b.get(order, "at_limit")))):
                    now = shown(b, book, b.const(side, "u8"), b.get(order, "at_limit"))
                    b.put(order, "ahead", b.smaller(b.get(order, "ahead"), now))
    b.put(book, "unseen", False)
    b.put(book, "changes", b.select(b.get(book, "within"), changes, 0))
    with b.when(b.both(b.ne(b.get(desk, "waiting", "count"), 0), b.negate(b.get(desk, "last", "present")))):
        b.call("exchange.trigger", desk)


def _is_told_of(b: FunctionCode, book: Value, changes: Value, side: int, price: Value) -> Value:
    """Whether one of the few changes of the message is at a level."""
    found = b.variable(b.const(False, "i1"))
    with b.loop(0, b.smaller(changes, FEW)) as i:
        change = b.at(book, "journal", i, proved=True)
        here = b.both(b.eq(b.get(change, "price"), price), b.eq(b.get(change, "side"), side))
        b.set(found, b.either(b.now(found), here))
    return b.now(found)


def _expire(b: FunctionCode, desk: Value) -> None:
    """Orders for the day end with their session."""
    now = b.get(desk, "now")
    with b.when(b.either(b.eq(b.get(desk, "day_orders"), 0), b.lt(now, b.get(desk, "day_end")))):
        b.give()
    for where in ("resting", "waiting"):
        with b.repeat():
            found = b.variable(b.const(-1, "i64"))
            first = b.variable(b.const(0, "i64"))
            with b.loop(0, b.get(desk, "open_count")) as i:
                slot = b.get(desk, "open", i, proved=True)
                order = order_at(b, desk, slot)
                over = b.both(b.get(order, where), b.eq(b.get(order, "tif"), DAY), b.le(b.get(order, "session"), now))
                arrival = b.get(order, "arrival")
                with b.when(b.both(over, b.either(b.lt(b.now(found), 0), b.lt(arrival, b.now(first))))):
                    b.set(found, slot)
                    b.set(first, arrival)
            with b.when(b.lt(b.now(found), 0)):
                b.leave()
            end(b, desk, b.now(found), int(OrderState.EXPIRED))
    earliest = b.variable(b.const((1 << 63) - 1, "i64"))
    with b.loop(0, b.get(desk, "open_count")) as i:
        order = order_at(b, desk, b.get(desk, "open", i, proved=True))
        with b.when(b.both(in_market(b, order), b.eq(b.get(order, "tif"), DAY))):
            b.set(earliest, b.smaller(b.now(earliest), b.get(order, "session")))
    b.put(desk, "day_end", b.now(earliest))
