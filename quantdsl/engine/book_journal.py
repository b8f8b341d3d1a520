"""What a message of the data changed, so that it can be taken back whole."""

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import change, ladder_of
from quantdsl.engine.book_orders import COLD, REFUSED, count_one, slot_at, slot_of
from quantdsl.engine.layout import BOOK, JOURNAL
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I64, U8, U64
from quantdsl.native.values import match

CHANGE_PARAMETERS: dict[str, HirType] = {
    "what": U8,
    "side": U8,
    "price": I64,
    "qty": I64,
    "taken": I64,
    "number": I64,
    "id": U64,
}


def define_note(program: ModuleBuilder) -> None:
    """`book.note`: one more change; of a message longer than the journal only their number is kept."""
    with program.function("book.note", {"book": Pointer(BOOK), **CHANGE_PARAMETERS}, internal=True) as b:
        book, *values = b.parameters
        count = b.get(book, "changes")
        b.put(book, "changes", b.wrapping("add", count, 1))
        with b.when(b.lt(count, JOURNAL)):
            entry = b.at(book, "journal", count, proved=True)
            for name, value in zip(CHANGE_PARAMETERS, values, strict=True):
                b.put(entry, name, value)


def define_take_back(program: ModuleBuilder) -> None:
    """`book.take_back`: the book as it was before the message, whose orders stay in the table, hidden. One too long for that empties the
    book, which is incomplete then."""
    with program.function("book.take_back", {"book": Pointer(BOOK)}, internal=True, attributes=COLD) as b:
        (book,) = b.parameters
        count = b.get(book, "changes")
        with b.choice(b.le(count, JOURNAL)) as c:
            with c.then(), b.loop(b.wrapping("sub", count, 1), -1, -1) as i:
                _undo(b, book, i)
            with c.otherwise():
                for side in (0, 1):
                    b.call("book.forget", book, b.const(side, "u8"))
                b.put(book, "incomplete", True)
                b.put(book, "left_out", b.wrapping("add", b.get(book, "left_out"), 1))
        b.put(book, "unseen", True)  # an order may have come within the message
        b.put(book, "changes", 0)


def _undo(b: FunctionCode, book: Value, i: Value) -> None:
    entry = b.at(book, "journal", i, proved=True)
    what, side, price, qty, taken, number, id = (b.get(entry, name) for name in CHANGE_PARAMETERS)
    ladder = ladder_of(b, book, side)

    def level() -> None:
        change(b, book, side, price, b.select(b.lt(number, 0), 0, qty), taken, number)

    def order() -> None:
        with b.choice(b.lt(number, 0)) as c:
            with c.then():
                slot = slot_of(b, book, id)
                with b.when(b.ge(slot, 0)):
                    b.put(slot_at(b, book, slot), "hidden", 1)
                    count_one(b, book, "adds_refused", REFUSED)
            with c.otherwise():
                slot, _ = b.call("book.seat", book, id)
                with b.when(b.ge(slot, 0)):
                    for name, value in (("price", price), ("qty", qty), ("side", side), ("hidden", 0)):
                        b.put(slot_at(b, book, slot), name, value)

    def lost() -> None:
        b.put(ladder, "lost", b.ne(qty, 0))
        b.put(ladder, "lost_from", price)

    def incomplete() -> None:
        b.put(book, "incomplete", b.ne(qty, 0))

    match(b, what, {0: level, 1: order, 2: lost}, incomplete)
