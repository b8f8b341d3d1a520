"""Orders in the market: the lists of those that rest and of those that wait for their stop, and what becomes of one.

Where orders rest in `next`, all stand in the first list, by arrival; else bids and asks have one each, better prices first, earlier ones
first among equals. `arrival` counts on with each place taken, so that it tells who came first in any list."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Number, Record, minimum, select
from compiler.hir.native_types import I64, U8
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import price_rank
from quantdsl.engine.layout import BUY, DAY, ENGINE_STATE, NEXT, NS_OF_DAY, QUEUED

SLOT: dict[str, HirType] = {"engine": Pointer(ENGINE_STATE), "slot": I64}
LONG = ("noalias", "noinline")


def order_at(engine: Record, slot: Expr) -> Record:
    return engine.slots.items.unchecked[slot]


def says(order: Record, option: int) -> Expr:
    return (order.options & option) != 0


def is_next(engine: Record) -> Expr:
    return engine.settings.fills == NEXT


def in_market(order: Record) -> Expr:
    return order.exchange.resting | order.exchange.waiting


def list_of(b: FunctionCode, engine: Record, order: Record) -> Record:
    """The address of the list where an order rests, by its side and the mode."""
    side = select(is_next(engine), b.const(BUY, "u8"), order.side)
    return engine.resting.unchecked[side.cast("i64")]


def at(listed: Record, number: Expr) -> Expr:
    return listed.slots.unchecked[number]


def fill(b: FunctionCode, engine: Record, slot: Expr, price: Number, qty: Expr, maker: Number) -> None:
    """So much of an order trades; whoever calls takes it out of its list when nothing is left."""
    order = order_at(engine, slot)
    order.exchange.left = order.exchange.left.wrapping_sub(qty)
    b.call("reports.fill", engine, slot, price, qty, maker)


def end(b: FunctionCode, engine: Record, slot: Expr, state: int) -> None:
    b.call("exchange.end", engine, slot, state)


def define_lists(program: ModuleBuilder) -> None:
    """`exchange.rest`, `exchange.wait`: an order takes its place. `exchange.leave`: it is in no list any more. `exchange.end`: it is
    over."""
    with program.function("queued.insert", {"queued": Pointer(QUEUED), "at": I64, "slot": I64}, internal=True) as b:
        queued, place, slot = b.parameters
        count = queued.count
        with b.loop(count, place, -1) as i:
            queued.slots.unchecked[i] = at(queued, i.wrapping_sub(1))
        queued.slots.unchecked[place] = slot
        queued.count = count.wrapping_add(1)
    with program.function("queued.remove", {"queued": Pointer(QUEUED), "slot": I64}, internal=True) as b:
        _remove(b, *b.parameters)
    with program.function("exchange.rest", SLOT, internal=True, attributes=LONG) as b:
        _rest(b, *b.parameters)
    with program.function("exchange.wait", SLOT, internal=True, attributes=LONG) as b:
        engine, slot = b.parameters
        waiting = engine.waiting
        _count(b, engine, slot, "waiting")
        b.call("queued.insert", waiting, waiting.count, slot)
    with program.function("exchange.leave", SLOT, internal=True, attributes=LONG) as b:
        engine, slot = b.parameters
        order = order_at(engine, slot)
        with b.when(order.exchange.resting):
            b.call("queued.remove", list_of(b, engine, order), slot)
        with b.when(order.exchange.waiting):
            b.call("queued.remove", engine.waiting, slot)
        with b.when(in_market(order)):
            discount(b, engine, order)
    with program.function("exchange.end", {**SLOT, "state": U8}, internal=True, attributes=LONG) as b:
        engine, slot, state = b.parameters
        b.call("exchange.leave", engine, slot)
        order_at(engine, slot).exchange.left = 0
        b.call("reports.end", engine, slot, state)


def _remove(b: FunctionCode, queued: Record, slot: Expr) -> None:
    last = queued.count.wrapping_sub(1)
    index = b.variable(last)
    with b.loop(0, last) as i, b.when(at(queued, i) == slot):
        index.value = i
        b.break_()
    with b.loop(index.value, last) as i:
        queued.slots.unchecked[i] = at(queued, i.wrapping_add(1))
    queued.count = last


def _count(b: FunctionCode, engine: Record, slot: Expr, where: str) -> None:
    order = order_at(engine, slot)
    order.exchange[where] = True
    arrival = engine.arrivals
    order.exchange.arrival = arrival
    engine.arrivals = arrival.wrapping_add(1)
    with b.when(order.tif == DAY):
        days, ends = engine.day_orders, order.exchange.session
        engine.day_end = select(days == 0, ends, minimum(engine.day_end, ends))
        engine.day_orders = days.wrapping_add(1)


def discount(b: FunctionCode, engine: Record, order: Record) -> None:
    """It has left its list."""
    order.exchange.resting = False
    order.exchange.waiting = False
    with b.when(order.tif == DAY):
        engine.day_orders = engine.day_orders.wrapping_sub(1)


def _rest(b: FunctionCode, engine: Record, slot: Expr) -> None:
    order = order_at(engine, slot)
    _count(b, engine, slot, "resting")
    queued, side = list_of(b, engine, order), order.side
    own = price_rank(side, order.exchange.limit)
    place = b.variable(queued.count)
    with b.when(~is_next(engine)), b.loop(place.value, 0, -1) as i:
        before = order_at(engine, at(queued, i.wrapping_sub(1)))
        with b.when(price_rank(side, before.exchange.limit) >= own):
            b.break_()
        place.value = i.wrapping_sub(1)
    b.call("queued.insert", queued, place.value, slot)


def session_end(engine: Record) -> Expr:
    """When an order for the day that comes now ends: with the session, or the UTC day where there are none; outside of them, at once."""
    settings, now = engine.settings, engine.now
    has, begin = settings.has_session, settings.session_begin
    start = select(has, begin, 0)
    length = select(has, _of_day(settings.session_end.wrapping_sub(begin)), NS_OF_DAY)
    since = _of_day(now.wrapping_sub(start))
    closes = now.wrapping_sub(since).saturating_add(length)
    return select(since < length, closes, now)


def _of_day(ns: Expr) -> Expr:
    """ns modulo a day, never below 0."""
    rest = ns % NS_OF_DAY
    return select(rest < 0, rest.wrapping_add(NS_OF_DAY), rest)
