"""The orders of the data by their numbers: open addressing with linear probes in a table that doubles where it lies, as long as it has to,
so that a small book stays in the cache.

Slots are found by Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); a removed order leaves no hole (algorithm R there)."""

from compiler.hir.instruction import Value
from compiler.hir.types import Pointer
from quantdsl.engine.layout import BOOK, BOOK_ORDER, BOOK_ORDERS
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.table import FIBONACCI
from quantdsl.native.types import I1, I64, U64

FIRST_BITS = 12
"""Log of the slots of a table that has never grown."""
MOST_GROWTH = (2 * BOOK_ORDERS).bit_length() - 1 - FIRST_BITS
FREE, TAKEN, UNMOVED = range(3)
COLD = ("noalias", "cold", "noinline")
REFUSED, REPEATED, NO_ROOM = range(3)
"""Why an order isn't shown or isn't known, as `BOOK` counts them."""


def count_one(b: FunctionCode, book: Value, counts: str, which: Value | int) -> None:
    place = which if isinstance(which, Value) else b.const(which, "i64")
    counted = b.get(book, counts, place)
    b.put(book, counts, place, b.wrapping("add", counted, 1))


def slot_at(b: FunctionCode, book: Value, slot: Value) -> Value:
    return b.at(book, "orders", slot, proved=True)


def slot_of(b: FunctionCode, book: Value, id: Value) -> Value:
    """The order's slot, or -1."""
    (slot,) = b.call("book.slot", book, id)
    return slot


def is_shown(b: FunctionCode, book: Value, slot: Value) -> Value:
    return b.eq(b.get(slot_at(b, book, slot), "hidden"), 0)


def note_order(b: FunctionCode, book: Value, slot: Value) -> None:
    """The journal keeps what the order is now; of a hidden one nothing is ever taken back."""
    order = slot_at(b, book, slot)
    price, qty, side, id = (b.get(order, name) for name in ("price", "qty", "side", "id"))
    with b.when(is_shown(b, book, slot)):
        b.call("book.note", book, 1, side, price, qty, 0, 0, id)


def define_orders(program: ModuleBuilder) -> None:
    """`book.slot` of a number; `book.seat`, a slot for it, whether new (-1 when all are taken); `book.vacate` a slot."""
    with program.function("book.slot", {"book": Pointer(BOOK), "id": U64}, [I64], internal=True) as b:
        book, id = b.parameters
        slot = _probe(b, book, id, _home(b, book, id))
        b.give(b.select(b.eq(b.get(slot_at(b, book, slot), "used"), FREE), -1, slot))
    with program.function("book.grow", {"book": Pointer(BOOK)}, internal=True, attributes=COLD) as b:
        _grow(b, *b.parameters)
    with program.function("book.seat", {"book": Pointer(BOOK), "id": U64}, [I64, I1], internal=True) as b:
        _seat(b, *b.parameters)
    with program.function("book.vacate", {"book": Pointer(BOOK), "slot": I64}, internal=True) as b:
        _vacate(b, *b.parameters)


def slots(b: FunctionCode, book: Value) -> Value:
    return b.wrapping("shl", b.const(1 << FIRST_BITS, "i64"), b.get(book, "grown"))


def _home(b: FunctionCode, book: Value, id: Value) -> Value:
    mixed = b.wrapping("mul", id, FIBONACCI)
    return b.cast(b.wrapping("shr", mixed, b.cast(b.wrapping("sub", 64 - FIRST_BITS, b.get(book, "grown")), "u64")), "i64")


def _following(b: FunctionCode, book: Value, slot: Value) -> Value:
    return b.wrapping("and", b.wrapping("add", slot, 1), b.wrapping("sub", slots(b, book), 1))


def _probe(b: FunctionCode, book: Value, id: Value, home: Value) -> Value:
    """The slot where the order is, or the first free one; at least half of them are."""
    slot = b.variable(home)
    with b.loop(0, slots(b, book)):
        order = slot_at(b, book, b.now(slot))
        with b.when(b.either(b.eq(b.get(order, "used"), FREE), b.eq(b.get(order, "id"), id))):
            b.leave()
        b.set(slot, _following(b, book, b.now(slot)))
    return b.now(slot)


def _seat(b: FunctionCode, book: Value, id: Value) -> None:
    count = b.get(book, "order_count")
    with b.when(b.both(b.ge(b.wrapping("shl", count, 1), slots(b, book)), b.lt(b.get(book, "grown"), MOST_GROWTH))):
        b.call("book.grow", book)
    slot = _probe(b, book, id, _home(b, book, id))
    order = slot_at(b, book, slot)
    with b.when(b.ne(b.get(order, "used"), FREE)):
        b.give(slot, False)
    with b.when(b.ge(count, BOOK_ORDERS)):
        b.give(-1, False)
    b.put(book, "order_count", b.wrapping("add", count, 1))
    b.put(order, "used", TAKEN)
    b.put(order, "hidden", 0)
    b.put(order, "id", id)
    b.give(slot, True)


def _vacate(b: FunctionCode, book: Value, removed: Value) -> None:
    mask = b.wrapping("sub", slots(b, book), 1)
    hole, slot = b.variable(removed), b.variable(removed)
    with b.loop(0, slots(b, book)):
        b.set(slot, _following(b, book, b.now(slot)))
        order = slot_at(b, book, b.now(slot))
        with b.when(b.eq(b.get(order, "used"), FREE)):
            b.leave()
        from_home = b.wrapping("and", b.wrapping("sub", b.now(slot), _home(b, book, b.get(order, "id"))), mask)
        from_hole = b.wrapping("and", b.wrapping("sub", b.now(slot), b.now(hole)), mask)
        with b.when(b.ge(from_home, from_hole)):
            b.copy(slot_at(b, book, b.now(hole)), order)
            b.set(hole, b.now(slot))
    b.put(slot_at(b, book, b.now(hole)), "used", FREE)
    b.put(book, "order_count", b.wrapping("sub", b.get(book, "order_count"), 1))


def _grow(b: FunctionCode, book: Value) -> None:
    """Twice as many slots. Each order goes to its new place; what hasn't moved and stands there is the next to go."""
    before = slots(b, book)
    with b.loop(0, before) as i, b.when(b.eq(b.get(slot_at(b, book, i), "used"), TAKEN)):
        b.put(slot_at(b, book, i), "used", UNMOVED)
    b.put(book, "grown", b.wrapping("add", b.get(book, "grown"), 1))
    going, met = b.local(BOOK_ORDER), b.local(BOOK_ORDER)
    with b.loop(0, before) as i, b.when(b.eq(b.get(slot_at(b, book, i), "used"), UNMOVED)):
        b.copy(going, slot_at(b, book, i))
        b.put(slot_at(b, book, i), "used", FREE)
        with b.loop(0, before):  # no more of them than there were slots
            slot = b.variable(_home(b, book, b.get(going, "id")))
            with b.loop(0, slots(b, book)):
                with b.when(b.ne(b.get(slot_at(b, book, b.now(slot)), "used"), TAKEN)):
                    b.leave()
                b.set(slot, _following(b, book, b.now(slot)))
            place = slot_at(b, book, b.now(slot))
            b.copy(met, place)
            b.copy(place, going)
            b.put(place, "used", TAKEN)
            with b.when(b.eq(b.get(met, "used"), FREE)):
                b.leave()
            b.copy(going, met)
