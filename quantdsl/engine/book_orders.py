"""The orders of the data by their numbers: open addressing with linear probes in a table that doubles where it lies, as long as it has to,
so that a small book stays in the cache.

Slots are found by Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); a removed order leaves no hole (algorithm R there)."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, select
from compiler.hir.native_types import I1, I64, U64
from compiler.hir.types import Pointer
from quantdsl.engine.layout import BOOK, BOOK_ORDER, BOOK_ORDERS
from quantdsl.native.table import FIBONACCI

FIRST_BITS = 12
"""Log of the slots of a table that has never grown."""
MOST_GROWTH = (2 * BOOK_ORDERS).bit_length() - 1 - FIRST_BITS
FREE, TAKEN, UNMOVED = range(3)
COLD = ("noalias", "cold", "noinline")
REFUSED, REPEATED, NO_ROOM = range(3)
"""Why an order isn't shown or isn't known, as `BOOK` counts them."""


def count_one(b: FunctionCode, book: Record, counts: str, which: Expr | int) -> None:
    place = which if isinstance(which, Expr) else b.const(which, "i64")
    counted = book[counts][place]
    book[counts][place] = counted.wrapping_add(1)


def slot_at(book: Record, slot: Expr) -> Record:
    return book.orders.unchecked[slot]


def slot_of(b: FunctionCode, book: Record, id: Expr) -> Expr:
    """The order's slot, or -1."""
    (slot,) = b.call("book.slot", book, id)
    return slot


def is_shown(book: Record, slot: Expr) -> Expr:
    return slot_at(book, slot).hidden == 0


def note_order(b: FunctionCode, book: Record, slot: Expr) -> None:
    """The journal keeps what the order is now; of a hidden one nothing is ever taken back."""
    order = slot_at(book, slot)
    price, qty, side, id = (order[name] for name in ("price", "qty", "side", "id"))
    with b.when(is_shown(book, slot)):
        b.call("book.note", book, 1, side, price, qty, 0, 0, id)


def define_orders(program: ModuleBuilder) -> None:
    """`book.slot` of a number; `book.seat`, a slot for it, whether new (-1 when all are taken); `book.vacate` a slot."""
    with program.function("book.slot", {"book": Pointer(BOOK), "id": U64}, [I64], internal=True) as b:
        book, id = b.parameters
        slot = _probe(b, book, id, _home(b, book, id))
        b.ret(select(slot_at(book, slot).used == FREE, -1, slot))
    with program.function("book.grow", {"book": Pointer(BOOK)}, internal=True, attributes=COLD) as b:
        _grow(b, *b.parameters)
    with program.function("book.seat", {"book": Pointer(BOOK), "id": U64}, [I64, I1], internal=True) as b:
        _seat(b, *b.parameters)
    with program.function("book.vacate", {"book": Pointer(BOOK), "slot": I64}, internal=True) as b:
        _vacate(b, *b.parameters)


def slots(b: FunctionCode, book: Record) -> Expr:
    return b.const(1 << FIRST_BITS, "i64") << book.grown


def _home(b: FunctionCode, book: Record, id: Expr) -> Expr:
    mixed = id.wrapping_mul(FIBONACCI)
    return (mixed >> b.wrapping("sub", 64 - FIRST_BITS, book.grown).cast("u64")).cast("i64")


def _following(b: FunctionCode, book: Record, slot: Expr) -> Expr:
    return slot.wrapping_add(1) & slots(b, book).wrapping_sub(1)


def _probe(b: FunctionCode, book: Record, id: Expr, home: Expr) -> Expr:
    """The slot where the order is, or the first free one; at least half of them are."""
    slot = b.variable(home)
    with b.loop(0, slots(b, book)):
        order = slot_at(book, slot.value)
        with b.when((order.used == FREE) | (order.id == id)):
            b.break_()
        slot.value = _following(b, book, slot.value)
    return slot.value


def _seat(b: FunctionCode, book: Record, id: Expr) -> None:
    count = book.order_count
    with b.when(((count << 1) >= slots(b, book)) & (book.grown < MOST_GROWTH)):
        b.call("book.grow", book)
    slot = _probe(b, book, id, _home(b, book, id))
    order = slot_at(book, slot)
    with b.when(order.used != FREE):
        b.ret(slot, False)
    with b.when(count >= BOOK_ORDERS):
        b.ret(-1, False)
    book.order_count = count.wrapping_add(1)
    order.used = TAKEN
    order.hidden = 0
    order.id = id
    b.ret(slot, True)


def _vacate(b: FunctionCode, book: Record, removed: Expr) -> None:
    mask = slots(b, book).wrapping_sub(1)
    hole, slot = b.variable(removed), b.variable(removed)
    with b.loop(0, slots(b, book)):
        slot.value = _following(b, book, slot.value)
        order = slot_at(book, slot.value)
        with b.when(order.used == FREE):
            b.break_()
        from_home = slot.value.wrapping_sub(_home(b, book, order.id)) & mask
        from_hole = slot.value.wrapping_sub(hole.value) & mask
        with b.when(from_home >= from_hole):
            b.copy(slot_at(book, hole.value), order)
            hole.value = slot.value
    slot_at(book, hole.value).used = FREE
    book.order_count = book.order_count.wrapping_sub(1)


def _grow(b: FunctionCode, book: Record) -> None:
    """Twice as many slots. Each order goes to its new place; what hasn't moved and stands there is the next to go."""
    before = slots(b, book)
    with b.loop(0, before) as i, b.when(slot_at(book, i).used == TAKEN):
        slot_at(book, i).used = UNMOVED
    book.grown = book.grown.wrapping_add(1)
    going, met = b.local(BOOK_ORDER), b.local(BOOK_ORDER)
    with b.loop(0, before) as i, b.when(slot_at(book, i).used == UNMOVED):
        b.copy(going, slot_at(book, i))
        slot_at(book, i).used = FREE
        with b.loop(0, before):  # no more of them than there were slots
            slot = b.variable(_home(b, book, going.id))
            with b.loop(0, slots(b, book)):
                with b.when(slot_at(book, slot.value).used != TAKEN):
                    b.break_()
                slot.value = _following(b, book, slot.value)
            place = slot_at(book, slot.value)
            b.copy(met, place)
            b.copy(place, going)
            place.used = TAKEN
            with b.when(met.used == FREE):
                b.break_()
            b.copy(going, met)
