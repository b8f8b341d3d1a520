"""Orders in the market: the lists of those that rest and of those that wait for their stop, and what becomes of one.

Where orders rest in `next`, all stand in the first list, by arrival; else bids and asks have one each, better prices first, earlier ones
first among equals. `arrival` counts on with each place taken, so that it tells who came first in any list."""

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import goodness
from quantdsl.engine.layout import BUY, DAY, DESK, NEXT, QUEUED
from quantdsl.engine.reports import ENDED, FILLED, push_report
from quantdsl.native.build import FunctionCode, ModuleBuilder, Number
from quantdsl.native.types import I64, U8

SLOT: dict[str, HirType] = {"desk": Pointer(DESK), "slot": I64}
LONG = ("noalias", "noinline")
NS_OF_DAY = 86_400_000_000_000


def order_at(b: FunctionCode, desk: Value, slot: Value) -> Value:
    return b.at(desk, "slots", "items", slot, proved=True)


def says(b: FunctionCode, order: Value, option: int) -> Value:
    return b.ne(b.wrapping("and", b.get(order, "options"), option), 0)


def is_next(b: FunctionCode, desk: Value) -> Value:
    return b.eq(b.get(desk, "settings", "fills"), NEXT)


def in_market(b: FunctionCode, order: Value) -> Value:
    return b.either(b.get(order, "resting"), b.get(order, "waiting"))


def list_of(b: FunctionCode, desk: Value, order: Value) -> Value:
    """The address of the list where an order rests, by its side and the mode."""
    side = b.select(is_next(b, desk), b.const(BUY, "u8"), b.get(order, "side"))
    return b.at(desk, "resting", b.cast(side, "i64"), proved=True)


def at(b: FunctionCode, listed: Value, number: Value) -> Value:
    return b.get(listed, "slots", number, proved=True)


def fill(b: FunctionCode, desk: Value, slot: Value, price: Number, qty: Value, maker: Number) -> None:
    """So much of an order trades; whoever calls takes it out of its list when nothing is left."""
    order = order_at(b, desk, slot)
    b.put(order, "left", b.wrapping("sub", b.get(order, "left"), qty))
    push_report(b, desk, FILLED, slot, price=price, qty=qty, maker=maker)


def end(b: FunctionCode, desk: Value, slot: Value, state: int) -> None:
    b.call("exchange.end", desk, slot, state)


def define_lists(program: ModuleBuilder) -> None:
    """`exchange.rest`, `exchange.wait`: an order takes its place. `exchange.leave`: it is in no list any more. `exchange.end`: it is
    over."""
    with program.function("queued.insert", {"queued": Pointer(QUEUED), "at": I64, "slot": I64}, internal=True) as b:
        queued, place, slot = b.parameters
        count = b.get(queued, "count")
        with b.loop(count, place, -1) as i:
            b.put(queued, "slots", i, at(b, queued, b.wrapping("sub", i, 1)), proved=True)
        b.put(queued, "slots", place, slot, proved=True)
        b.put(queued, "count", b.wrapping("add", count, 1))
    with program.function("queued.remove", {"queued": Pointer(QUEUED), "slot": I64}, internal=True) as b:
        _remove(b, *b.parameters)
    with program.function("exchange.rest", SLOT, internal=True, attributes=LONG) as b:
        _rest(b, *b.parameters)
    with program.function("exchange.wait", SLOT, internal=True, attributes=LONG) as b:
        desk, slot = b.parameters
        waiting = b.at(desk, "waiting")
        _count(b, desk, slot, "waiting")
        b.call("queued.insert", waiting, b.get(waiting, "count"), slot)
    with program.function("exchange.leave", SLOT, internal=True, attributes=LONG) as b:
        desk, slot = b.parameters
        order = order_at(b, desk, slot)
        with b.when(b.get(order, "resting")):
            b.call("queued.remove", list_of(b, desk, order), slot)
        with b.when(b.get(order, "waiting")):
            b.call("queued.remove", b.at(desk, "waiting"), slot)
        with b.when(in_market(b, order)):
            discount(b, desk, order)
    with program.function("exchange.end", {**SLOT, "state": U8}, internal=True, attributes=LONG) as b:
        desk, slot, state = b.parameters
        b.call("exchange.leave", desk, slot)
        b.put(order_at(b, desk, slot), "left", 0)
        push_report(b, desk, ENDED, slot, state=state)


def _remove(b: FunctionCode, queued: Value, slot: Value) -> None:
    last = b.wrapping("sub", b.get(queued, "count"), 1)
    found = b.variable(last)
    with b.loop(0, last) as i, b.when(b.eq(at(b, queued, i), slot)):
        b.set(found, i)
        b.leave()
    with b.loop(b.now(found), last) as i:
        b.put(queued, "slots", i, at(b, queued, b.wrapping("add", i, 1)), proved=True)
    b.put(queued, "count", last)


def _count(b: FunctionCode, desk: Value, slot: Value, where: str) -> None:
    order = order_at(b, desk, slot)
    b.put(order, where, True)
    arrival = b.get(desk, "arrivals")
    b.put(order, "arrival", arrival)
    b.put(desk, "arrivals", b.wrapping("add", arrival, 1))
    with b.when(b.eq(b.get(order, "tif"), DAY)):
        days, ends = b.get(desk, "day_orders"), b.get(order, "session")
        b.put(desk, "day_end", b.select(b.eq(days, 0), ends, b.smaller(b.get(desk, "day_end"), ends)))
        b.put(desk, "day_orders", b.wrapping("add", days, 1))


def discount(b: FunctionCode, desk: Value, order: Value) -> None:
    """It has left its list."""
    b.put(order, "resting", False)
    b.put(order, "waiting", False)
    with b.when(b.eq(b.get(order, "tif"), DAY)):
        b.put(desk, "day_orders", b.wrapping("sub", b.get(desk, "day_orders"), 1))


def _rest(b: FunctionCode, desk: Value, slot: Value) -> None:
    order = order_at(b, desk, slot)
    _count(b, desk, slot, "resting")
    queued, side = list_of(b, desk, order), b.get(order, "side")
    own = goodness(b, side, b.get(order, "at_limit"))
    place = b.variable(b.get(queued, "count"))
    with b.when(b.negate(is_next(b, desk))), b.loop(b.now(place), 0, -1) as i:
        before = order_at(b, desk, at(b, queued, b.wrapping("sub", i, 1)))
        with b.when(b.ge(goodness(b, side, b.get(before, "at_limit")), own)):
            b.leave()
        b.set(place, b.wrapping("sub", i, 1))
    b.call("queued.insert", queued, b.now(place), slot)


def session_end(b: FunctionCode, desk: Value) -> Value:
    """When an order for the day that comes now ends: with the session, or the UTC day where there are none; outside of them, at once."""
    settings, now = b.at(desk, "settings"), b.get(desk, "now")
    has, begin = b.get(settings, "has_session"), b.get(settings, "session_begin")
    start = b.select(has, begin, 0)
    length = b.select(has, _of_day(b, b.wrapping("sub", b.get(settings, "session_end"), begin)), NS_OF_DAY)
    since = _of_day(b, b.wrapping("sub", now, start))
    closes = b.saturating("add", b.wrapping("sub", now, since), length)
    return b.select(b.lt(since, length), closes, now)


def _of_day(b: FunctionCode, ns: Value) -> Value:
    """ns modulo a day, never below 0."""
    rest = b.rem(ns, NS_OF_DAY)
    return b.select(b.lt(rest, 0), b.wrapping("add", rest, NS_OF_DAY), rest)
