"""What a message of the data changed, so that it can be taken back whole."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, select
from compiler.hir.native_types import I64, U8, U64
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.book_ladder import change, ladder_of
from quantdsl.engine.book_orders import COLD, REFUSED, count_one, slot_at, slot_of
from quantdsl.engine.layout import BOOK, JOURNAL
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
        count = book.changes
        book.changes = count.wrapping_add(1)
        with b.when(count < JOURNAL):
            entry = book.journal.unchecked[count]
            for name, value in zip(CHANGE_PARAMETERS, values, strict=True):
                entry[name] = value


def define_take_back(program: ModuleBuilder) -> None:
    """`book.take_back`: the book as it was before the message, whose orders stay in the table, hidden. One too long for that empties the
    book, which is incomplete then."""
    with program.function("book.take_back", {"book": Pointer(BOOK)}, internal=True, attributes=COLD) as b:
        (book,) = b.parameters
        count = book.changes
        with b.when(count <= JOURNAL), b.loop(count.wrapping_sub(1), -1, -1) as i:
            _undo(b, book, i)
        with b.otherwise():
            for side in (0, 1):
                b.call("book.forget", book, b.const(side, "u8"))
            book.incomplete = True
            book.left_out = book.left_out.wrapping_add(1)
        book.unseen = True  # an order may have come within the message
        book.changes = 0


def _undo(b: FunctionCode, book: Record, i: Expr) -> None:
    entry = book.journal.unchecked[i]
    what, side, price, qty, taken, number, id = (entry[name] for name in CHANGE_PARAMETERS)
    ladder = ladder_of(book, side)

    def level() -> None:
        change(b, book, side, price, select(number < 0, 0, qty), taken, number)

    def order() -> None:
        with b.when(number < 0):
            slot = slot_of(b, book, id)
            with b.when(slot >= 0):
                slot_at(book, slot).hidden = 1
                count_one(b, book, "adds_refused", REFUSED)
        with b.otherwise():
            slot, _ = b.call("book.seat", book, id)
            with b.when(slot >= 0):
                for name, value in (("price", price), ("qty", qty), ("side", side), ("hidden", 0)):
                    slot_at(book, slot)[name] = value

    def lost() -> None:
        ladder.lost = qty != 0
        ladder.lost_from = price

    def incomplete() -> None:
        book.incomplete = qty != 0

    match(b, what, {0: level, 1: order, 2: lost}, incomplete)
