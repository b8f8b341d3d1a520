"""A book of displayed quantities, from quotes, levels or single orders. A message after which bids meet asks is taken back whole, or
trimmed; orders that it brought are hidden from then on: their trades are told, and no level shows them.

All zero is an empty book. It is suspect after such a message, a gap or an unknown order, until the next good one; and once something
didn't fit, until both sides are cleared."""

from collections.abc import Callable

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_journal import define_note, define_take_back
from quantdsl.engine.book_ladder import (
    LONG,
    NUMBER_OF_NONE,
    best,
    best_worth,
    define_ladder,
    goodness,
    ladder_of,
    last_at,
    level_at,
    note_level,
    price_at,
    remove,
    reprice,
    walk,
)
from quantdsl.engine.book_orders import (
    NO_ROOM,
    REPEATED,
    count_one,
    define_orders,
    is_shown,
    note_order,
    slot_at,
    slot_of,
    slots,
)
from quantdsl.engine.layout import BOOK, BUY, EVENT, SELL
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8, U64
from quantdsl.native.values import Optional, match, some, write_optional
from runtime.replay.events import EventKind, Flag

ENTERING: dict[str, HirType] = {"book": Pointer(BOOK), "id": U64, "side": U8, "price": I64, "qty": I64}


def define_book(program: ModuleBuilder) -> None:
    """`book.take`, an event of any kind but trades, halts and statuses: whether the book may be looked at (False: it is the last of its
    message, which was refused as a whole), and whether the event spoke of an order that isn't there."""
    define_note(program)
    define_orders(program)
    _define_ladders(program)
    _define_order_events(program)
    _define_quote(program)
    define_take_back(program)
    _define_end(program)
    _define_take(program)


def says(b: FunctionCode, event: Value, flag: Flag) -> Value:
    return b.ne(b.wrapping("and", b.get(event, "flags"), int(flag)), 0)


def side_of(b: FunctionCode, event: Value) -> tuple[Value, Value]:
    """Whether an event has a side, and it, 0 or 1 whatever the record says."""
    side = b.get(event, "side")
    return b.ne(side, 0), b.wrapping("and", b.wrapping("sub", side, 1), 1)


def known_order(b: FunctionCode, book: Value, id: Value) -> tuple[Value, Value, Value, Value]:
    """An order of the data: whether it is there; its side, price and quantity."""
    slot = slot_of(b, book, id)
    there = b.ge(slot, 0)
    order = slot_at(b, book, b.select(there, slot, 0))
    side, price, qty = (b.get(order, name) for name in ("side", "price", "qty"))
    return there, side, price, qty


def mid2(b: FunctionCode, book: Value) -> Optional:
    """The mid in half ticks. Both prices of a book lie on a grid of prices far below 62 bits; what doesn't wraps. Of the worths of a bid
    and an ask (`book_ladder.py`) the difference is the sum of their prices and 1."""
    bid, ask = (best_worth(b, book, b.const(side, "u8")) for side in (BUY, SELL))
    sum = b.wrapping("sub", b.wrapping("sub", bid.value, ask.value), 1)
    return Optional(b.both(bid.present, ask.present), b.cast(sum, "i64"))


# ---- what it is made of ---------------------------------------------------------------------------------------------------------


def _define_ladders(program: ModuleBuilder) -> None:
    define_ladder(program)
    with program.function("book.forget", {"book": Pointer(BOOK), "side": U8}, internal=True, attributes=LONG) as b:
        book, side = b.parameters
        ladder = ladder_of(b, book, side)
        with walk(b, ladder) as at:
            note_level(b, book, side, ladder, at)
        b.call("ladder.clear", ladder)
        with b.when(b.get(ladder, "lost")):
            b.call("book.note", book, 2, side, b.get(ladder, "lost_from"), 1, 0, 0, 0)
            b.put(ladder, "lost", False)
        with b.when(b.ne(b.get(book, "order_count"), 0)), b.loop(0, slots(b, book)) as i, b.repeat():
            order = slot_at(b, book, i)  # taking one out may bring another one here
            with b.when(b.either(b.eq(b.get(order, "used"), 0), b.ne(b.get(order, "side"), side))):
                b.leave()
            note_order(b, book, i)
            b.call("book.vacate", book, i)


def _define_order_events(program: ModuleBuilder) -> None:
    """`book.enter`: an order comes, False where its number is taken; `book.lose`: one loses so much, all of it where `qty` is below 0."""
    with program.function("book.enter", ENTERING, [I1], internal=True) as b:
        book, id, side, price, qty = b.parameters
        slot, new = b.call("book.seat", book, id)
        with b.when(b.lt(slot, 0)):
            b.put(book, "incomplete", True)
            b.put(book, "left_out", b.wrapping("add", b.get(book, "left_out"), 1))
            count_one(b, book, "adds_refused", NO_ROOM)
            b.give(False)
        with b.when(b.negate(new)):
            count_one(b, book, "adds_refused", REPEATED)
            b.give(False)
        b.call("book.note", book, 1, side, price, 0, 0, NUMBER_OF_NONE, id)
        order = slot_at(b, book, slot)
        for name, value in (("price", price), ("qty", qty), ("side", side)):
            b.put(order, name, value)
        b.call("book.shift", book, side, price, qty)
        b.give(True)
    with program.function("book.lose", {"book": Pointer(BOOK), "slot": I64, "qty": I64}, internal=True) as b:
        book, slot, qty = b.parameters
        order = slot_at(b, book, slot)
        side, price, resting = (b.get(order, name) for name in ("side", "price", "qty"))
        shown = is_shown(b, book, slot)
        note_order(b, book, slot)
        lost = b.select(b.lt(qty, 0), resting, b.smaller(qty, resting))
        with b.choice(b.lt(lost, resting)) as c:
            with c.then():
                b.put(order, "qty", b.wrapping("sub", resting, lost))
            with c.otherwise():
                b.call("book.vacate", book, slot)
        with b.when(shown):
            b.call("book.shift", book, side, price, b.wrapping("sub", 0, lost))


def _define_quote(program: ModuleBuilder) -> None:
    """`book.top`: the best level of a side, or none. Better ones are gone, and all others too where quotes are all that is known."""
    with program.function("book.top", {"book": Pointer(BOOK), "side": U8, "price": I64, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        ladder = ladder_of(b, book, side)

        def drop(compare: str, end: Callable[[], Value]) -> None:
            """Those at one end that compare so with the quote's."""
            with b.loop(0, b.get(ladder, "count")):
                at = end()
                with b.when(b.negate(b.compare(compare, goodness(b, side, price_at(b, ladder, side, at)), goodness(b, side, price)))):
                    b.leave()
                note_level(b, book, side, ladder, at)
                remove(b, book, side, at)

        deep = b.both(b.get(book, "deep"), b.gt(qty, 0))
        top = best(b, book, side)
        gone = b.either(b.negate(deep), b.gt(goodness(b, side, top.value), goodness(b, side, price)))
        with b.when(b.both(b.eq(b.get(ladder, "count"), 1), gone, b.gt(qty, 0), b.ne(top.value, price))):
            reprice(b, book, side, price, qty)
            b.give()
        drop("gt", lambda: b.const(0, "i64"))
        with b.when(b.negate(deep)):
            drop("lt", lambda: last_at(b, ladder))
        b.call("book.best", book, side, price, qty)


def _define_end(program: ModuleBuilder) -> None:
    """`book.end` of a message: False where it is refused."""
    with program.function("book.end", {"book": Pointer(BOOK), "trim": I1, "ts": I64, "suspect": I1}, [I1], internal=True) as b:
        book, trim, ts, suspect = b.parameters
        with b.when(b.both(b.get(book, "known"), _meet(b, book))):
            b.put(book, "crossed", b.wrapping("add", b.get(book, "crossed"), 1))
            with b.when(b.negate(trim)):
                b.call("book.take_back", book)
                b.put(book, "suspect", True)
                b.give(False)
            b.put(book, "unseen", True)
            with b.repeat():
                with b.when(b.negate(_meet(b, book))):
                    b.leave()
                _drop_older(b, book)
        doubt = b.either(
            b.negate(b.get(book, "known")), suspect, b.get(book, "incomplete"), *(_worn(b, book, side) for side in (BUY, SELL))
        )
        b.put(book, "suspect", doubt)
        with b.when(b.negate(doubt)):
            write_optional(b, book, "updated", value=some(b, ts))
        b.give(True)


def _meet(b: FunctionCode, book: Value) -> Value:
    bid, ask = (best(b, book, b.const(side, "u8")) for side in (BUY, SELL))
    return b.both(bid.present, ask.present, b.ge(bid.value, ask.value))


def _drop_older(b: FunctionCode, book: Value) -> None:
    """Of the two best levels the one that was set before the other."""
    sides, best_at = [b.const(side, "u8") for side in (BUY, SELL)], b.const(0, "i64")
    bid, ask = (b.get(level_at(b, ladder_of(b, book, side), best_at), "number") for side in sides)
    for side, older in zip(sides, (b.lt(bid, ask), b.ge(bid, ask)), strict=True):
        with b.when(older):
            remove(b, book, side, best_at)


def _worn(b: FunctionCode, book: Value, side: int) -> Value:
    """Whether all that is left of a ladder lies where levels were dropped, so that the best one may be among those."""
    own = b.const(side, "u8")
    ladder, top = ladder_of(b, book, own), best(b, book, own)
    beyond = b.le(goodness(b, own, top.value), goodness(b, own, b.get(ladder, "lost_from")))
    return b.both(b.get(ladder, "lost"), b.either(b.negate(top.present), beyond))


def _define_take(program: ModuleBuilder) -> None:
    parameters: dict[str, HirType] = {"book": Pointer(BOOK), "event": Pointer(EVENT), "trim": I1}
    with program.function("book.take", parameters, [I1, I1], internal=True) as b:
        book, event, trim = b.parameters
        kind, price, qty, id = (b.get(event, name) for name in ("kind", "price", "qty", "id"))
        last, suspect = (says(b, event, flag) for flag in (Flag.LAST, Flag.SUSPECT))
        has_side, side = side_of(b, event)
        with b.when(b.eq(kind, int(EventKind.GAP))):
            b.put(book, "suspect", b.either(b.get(book, "suspect"), suspect))
            b.give(True, False)
        with b.when(b.negate(b.get(book, "within"))):
            _begin(b, book)
        unknown = b.variable(b.const(False, "i1"))

        def quote() -> None:
            b.call("book.top", book, BUY, price, qty)
            b.call("book.top", book, SELL, b.get(event, "price2"), b.get(event, "qty2"))

        def level() -> None:
            b.put(book, "deep", True)
            b.call("book.level", book, side, price, qty)

        def clear() -> None:
            for own in (BUY, SELL):
                with b.when(b.either(b.negate(has_side), b.eq(side, own))):
                    b.call("book.forget", book, own)
            with b.when(b.negate(has_side)):
                b.call("book.note", book, 3, 0, 0, b.cast(b.get(book, "incomplete"), "i64"), 0, 0, 0)
                b.put(book, "incomplete", False)
                b.put(book, "deep", False)

        def add() -> None:
            b.put(book, "deep", True)
            (entered,) = b.call("book.enter", book, id, side, price, qty)
            with b.when(b.negate(entered)):
                b.put(book, "known", False)

        def resting() -> None:
            with b.when(b.both(b.ge(kind, int(EventKind.EXECUTE)), b.le(kind, int(EventKind.REPLACE)))):
                of_order()

        def of_order() -> None:
            slot = slot_of(b, book, id)
            with b.choice(b.lt(slot, 0)) as c:
                with c.then():
                    b.set(unknown, True)
                    b.put(book, "known", False)
                    count_one(b, book, "unknown", b.cast(b.wrapping("sub", kind, int(EventKind.EXECUTE)), "i64"))
                with c.otherwise():
                    own = b.get(slot_at(b, book, slot), "side")
                    some_of_it = b.either(b.eq(kind, int(EventKind.EXECUTE)), b.eq(kind, int(EventKind.CANCEL)))
                    b.call("book.lose", book, slot, b.select(some_of_it, b.larger(qty, 0), -1))
                    with b.when(b.eq(kind, int(EventKind.REPLACE))):
                        (entered,) = b.call("book.enter", book, b.get(event, "id2"), own, price, qty)
                        with b.when(b.negate(entered)):
                            b.put(book, "known", False)

        kinds = {EventKind.BOOK_LEVEL: level, EventKind.ADD: add, EventKind.QUOTE: quote, EventKind.BOOK_CLEAR: clear}
        match(b, kind, {int(kind): write for kind, write in kinds.items()}, resting)
        b.put(book, "within", b.negate(last))
        with b.when(b.negate(last)):
            b.give(True, b.now(unknown))
        (good,) = b.call("book.end", book, trim, b.get(event, "ts"), suspect)
        b.give(good, b.now(unknown))


def _begin(b: FunctionCode, book: Value) -> None:
    """A new message; what own orders haven't looked at of the one before is no longer told."""
    b.put(book, "unseen", b.either(b.get(book, "unseen"), b.ne(b.get(book, "changes"), 0)))
    b.put(book, "changes", 0)
    b.put(book, "known", True)
