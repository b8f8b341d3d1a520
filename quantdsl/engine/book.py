"""A book of displayed quantities, from quotes, levels or single orders. A message after which bids meet asks is taken back whole, or
trimmed; orders that it brought are hidden from then on: their trades are told, and no level shows them.

All zero is an empty book. It is suspect after such a message, a gap or an unknown order, until the next good one; and once something
didn't fit, until both sides are cleared."""

from collections.abc import Callable

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Optional, Record, all_of, any_of, assign, maximum, minimum, select
from compiler.hir.native_types import I1, I64, U8, U64
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_journal import define_note, define_take_back
from quantdsl.engine.book_ladder import (
    LONG,
    NUMBER_OF_NONE,
    best,
    best_key,
    define_ladder,
    ladder_of,
    last_at,
    level_at,
    note_level,
    price_at,
    price_rank,
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
from quantdsl.native.values import match, some
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


def says(event: Record, flag: Flag) -> Expr:
    return (event.flags & int(flag)) != 0


def side_of(event: Record) -> tuple[Expr, Expr]:
    """Whether an event has a side, and it, 0 or 1 whatever the record says."""
    side = event.side
    return side != 0, side.wrapping_sub(1) & 1


def known_order(b: FunctionCode, book: Record, id: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """An order of the data: whether it is there; its side, price and quantity."""
    slot = slot_of(b, book, id)
    there = slot >= 0
    order = slot_at(book, select(there, slot, 0))
    side, price, qty = (order[name] for name in ("side", "price", "qty"))
    return there, side, price, qty


def mid2(b: FunctionCode, book: Record) -> Optional:
    """The mid in half ticks. Both prices of a book lie on a grid of prices far below 62 bits; what doesn't wraps. Of the keys of a bid
    and an ask (`price_key`) the difference is the sum of their prices and 1."""
    bid, ask = (best_key(book, b.const(side, "u8")) for side in (BUY, SELL))
    sum = bid.value.wrapping_sub(ask.value).wrapping_sub(1)
    return Optional(bid.present & ask.present, sum.cast("i64"))


# ---- what it is made of ---------------------------------------------------------------------------------------------------------


def _define_ladders(program: ModuleBuilder) -> None:
    define_ladder(program)
    with program.function("book.forget", {"book": Pointer(BOOK), "side": U8}, internal=True, attributes=LONG) as b:
        book, side = b.parameters
        ladder = ladder_of(book, side)
        with walk(b, ladder) as at:
            note_level(b, book, side, ladder, at)
        b.call("ladder.clear", ladder)
        with b.when(ladder.lost):
            b.call("book.note", book, 2, side, ladder.lost_from, 1, 0, 0, 0)
            ladder.lost = False
        with b.when(book.order_count != 0), b.loop(0, slots(b, book)) as i, b.repeat():
            order = slot_at(book, i)  # taking one out may bring another one here
            with b.when((order.used == 0) | (order.side != side)):
                b.break_()
            note_order(b, book, i)
            b.call("book.vacate", book, i)


def _define_order_events(program: ModuleBuilder) -> None:
    """`book.enter`: an order comes, False where its number is taken; `book.lose`: one loses so much, all of it where `qty` is below 0."""
    with program.function("book.enter", ENTERING, [I1], internal=True) as b:
        book, id, side, price, qty = b.parameters
        slot, new = b.call("book.seat", book, id)
        with b.when(slot < 0):
            book.incomplete = True
            book.left_out = book.left_out.wrapping_add(1)
            count_one(b, book, "adds_refused", NO_ROOM)
            b.ret(False)
        with b.when(~new):
            count_one(b, book, "adds_refused", REPEATED)
            b.ret(False)
        b.call("book.note", book, 1, side, price, 0, 0, NUMBER_OF_NONE, id)
        order = slot_at(book, slot)
        assign(order, price=price, qty=qty, side=side)
        b.call("book.shift", book, side, price, qty)
        b.ret(True)
    with program.function("book.lose", {"book": Pointer(BOOK), "slot": I64, "qty": I64}, internal=True) as b:
        book, slot, qty = b.parameters
        order = slot_at(book, slot)
        side, price, resting = (order[name] for name in ("side", "price", "qty"))
        shown = is_shown(book, slot)
        note_order(b, book, slot)
        lost = select(qty < 0, resting, minimum(qty, resting))
        with b.when(lost < resting):
            order.qty = resting.wrapping_sub(lost)
        with b.otherwise():
            b.call("book.vacate", book, slot)
        with b.when(shown):
            b.call("book.shift", book, side, price, lost.wrapping_neg())


def _define_quote(program: ModuleBuilder) -> None:
    """`book.top`: the best level of a side, or none. Better ones are gone, and all others too where quotes are all that is known."""
    with program.function("book.top", {"book": Pointer(BOOK), "side": U8, "price": I64, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        ladder = ladder_of(book, side)

        def drop(compare: str, end: Callable[[], Expr]) -> None:
            """Those at one end that compare so with the quote's."""
            with b.loop(0, ladder.count):
                at = end()
                with b.when(~b.compare(compare, price_rank(side, price_at(ladder, side, at)), price_rank(side, price))):
                    b.break_()
                note_level(b, book, side, ladder, at)
                remove(b, book, side, at)

        deep = book.deep & (qty > 0)
        top = best(book, side)
        gone = ~deep | (price_rank(side, top.value) > price_rank(side, price))
        with b.when(all_of(ladder.count == 1, gone, qty > 0, top.value != price)):
            reprice(b, book, side, price, qty)
            b.ret()
        drop("gt", lambda: b.const(0, "i64"))
        with b.when(~deep):
            drop("lt", lambda: last_at(ladder))
        b.call("book.best", book, side, price, qty)


def _define_end(program: ModuleBuilder) -> None:
    """`book.end` of a message: False where it is refused."""
    with program.function("book.end", {"book": Pointer(BOOK), "trim": I1, "ts": I64, "suspect": I1}, [I1], internal=True) as b:
        book, trim, ts, suspect = b.parameters
        with b.when(book.known & _meet(b, book)):
            book.crossed = book.crossed.wrapping_add(1)
            with b.when(~trim):
                b.call("book.take_back", book)
                book.suspect = True
                b.ret(False)
            book.unseen = True
            with b.repeat():
                with b.when(~_meet(b, book)):
                    b.break_()
                _drop_older(b, book)
        doubt = any_of(~book.known, suspect, book.incomplete, *(_worn(b, book, side) for side in (BUY, SELL)))
        book.suspect = doubt
        with b.when(~doubt):
            book.updated = some(ts)
        b.ret(True)


def _meet(b: FunctionCode, book: Record) -> Expr:
    bid, ask = (best(book, b.const(side, "u8")) for side in (BUY, SELL))
    return all_of(bid.present, ask.present, bid.value >= ask.value)


def _drop_older(b: FunctionCode, book: Record) -> None:
    """Of the two best levels the one that was set before the other."""
    sides, best_at = [b.const(side, "u8") for side in (BUY, SELL)], b.const(0, "i64")
    bid, ask = (level_at(ladder_of(book, side), best_at).number for side in sides)
    for side, older in zip(sides, (bid < ask, bid >= ask), strict=True):
        with b.when(older):
            remove(b, book, side, best_at)


def _worn(b: FunctionCode, book: Record, side: int) -> Expr:
    """Whether all that is left of a ladder lies where levels were dropped, so that the best one may be among those."""
    own = b.const(side, "u8")
    ladder, top = ladder_of(book, own), best(book, own)
    beyond = price_rank(own, top.value) <= price_rank(own, ladder.lost_from)
    return ladder.lost & (~top.present | beyond)


def _define_take(program: ModuleBuilder) -> None:
    parameters: dict[str, HirType] = {"book": Pointer(BOOK), "event": Pointer(EVENT), "trim": I1}
    with program.function("book.take", parameters, [I1, I1], internal=True) as b:
        book, event, trim = b.parameters
        kind, price, qty, id = (event[name] for name in ("kind", "price", "qty", "id"))
        last, suspect = (says(event, flag) for flag in (Flag.LAST, Flag.SUSPECT))
        has_side, side = side_of(event)
        with b.when(kind == int(EventKind.GAP)):
            book.suspect |= suspect
            b.ret(True, False)
        with b.when(~book.within):
            _begin(book)
        unknown = b.variable(False)

        def quote() -> None:
            b.call("book.top", book, BUY, price, qty)
            b.call("book.top", book, SELL, event.price2, event.qty2)

        def level() -> None:
            book.deep = True
            b.call("book.level", book, side, price, qty)

        def clear() -> None:
            for own in (BUY, SELL):
                with b.when(~has_side | (side == own)):
                    b.call("book.forget", book, own)
            with b.when(~has_side):
                b.call("book.note", book, 3, 0, 0, book.incomplete.cast("i64"), 0, 0, 0)
                book.incomplete = False
                book.deep = False

        def add() -> None:
            book.deep = True
            (entered,) = b.call("book.enter", book, id, side, price, qty)
            with b.when(~entered):
                book.known = False

        def resting() -> None:
            with b.when((kind >= int(EventKind.EXECUTE)) & (kind <= int(EventKind.REPLACE))):
                of_order()

        def of_order() -> None:
            slot = slot_of(b, book, id)
            with b.when(slot < 0):
                unknown.value = True
                book.known = False
                count_one(b, book, "unknown", kind.wrapping_sub(int(EventKind.EXECUTE)).cast("i64"))
            with b.otherwise():
                own = slot_at(book, slot).side
                some_of_it = (kind == int(EventKind.EXECUTE)) | (kind == int(EventKind.CANCEL))
                b.call("book.lose", book, slot, select(some_of_it, maximum(qty, 0), -1))
                with b.when(kind == int(EventKind.REPLACE)):
                    (entered,) = b.call("book.enter", book, event.id2, own, price, qty)
                    with b.when(~entered):
                        book.known = False

        kinds = {EventKind.BOOK_LEVEL: level, EventKind.ADD: add, EventKind.QUOTE: quote, EventKind.BOOK_CLEAR: clear}
        match(b, kind, {int(kind): write for kind, write in kinds.items()}, resting)
        book.within = ~last
        with b.when(~last):
            b.ret(True, unknown.value)
        (good,) = b.call("book.end", book, trim, event.ts, suspect)
        b.ret(good, unknown.value)


def _begin(book: Record) -> None:
    """A new message; what own orders haven't looked at of the one before is no longer told."""
    book.unseen |= book.changes != 0
    book.changes = 0
    book.known = True
