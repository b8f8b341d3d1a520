"""A compiled book beside the reference's, fed with the same records."""

from functools import cache
from typing import Any

import numpy as np

from compiler.backends.native.compile import HostModule, compile_module
from compiler.hir.layout import new_memory
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.types import Array, Pointer
from compiler.native.build import Program
from compiler.native.types import I1, I64
from quantdsl.engine.book import define_book
from quantdsl.engine.layout import BOOK, EVENT
from runtime.replay.events import Events
from runtime.replay.events import Side as RecordSide
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.from_events import from_events
from tests.quantdsl.reference.market import Side

SIDES = {RecordSide.BUY: Side.BUY, RecordSide.SELL: Side.SELL}


@cache
def book_module() -> HirModule:
    """`feed(book, events, count, trim)`: the sums of what `book.take` said."""
    program = Program("book")
    define_book(program)
    parameters = {"book": Pointer(BOOK), "events": Pointer(Array(EVENT, None)), "count": I64, "trim": I1}
    with program.function("feed", parameters, [I64, I64]) as b:
        book, events, count, trim = b.parameters
        good, unknown = b.variable(b.const(0, "i64")), b.variable(b.const(0, "i64"))
        with b.loop(0, count) as i:
            said = b.call("book.take", book, b.row(events, i, count), trim)
            for total, truth in zip((good, unknown), said, strict=True):
                b.set(total, b.add(b.now(total), b.cast(truth, "i64")))
        b.give(b.now(good), b.now(unknown))
    return program.module


@cache
def compiled(level: OptimizationLevel = OptimizationLevel.OLATENCY) -> HostModule:
    return compile_module(book_module(), level)


class NativeBook:
    """The compiled book, empty."""

    memory: Any = None

    def __init__(self, trim: bool = False, level: OptimizationLevel = OptimizationLevel.OLATENCY) -> None:
        self.trim, self.run = trim, compiled(level)["feed"].run
        if NativeBook.memory is None:
            NativeBook.memory = new_memory(BOOK)
        self.raw = NativeBook.memory
        self.at = self.raw[0]
        clear(self.at)

    def take(self, events: Events) -> tuple[int, int]:
        outcome = self.run([self.raw, events, len(events), self.trim])
        assert outcome.fault is None
        good, unknown = outcome.results
        return int(good), int(unknown)

    def level(self, side: RecordSide, price: int) -> Any:
        own = self.at["sides"][side - 1]
        (at,) = np.flatnonzero(own["prices"][: own["count"]] == price)
        return own["levels"][own["places"][at]]

    def take_away(self, side: RecordSide, price: int, qty: int) -> None:
        self.level(side, price)["taken"] += qty

    def state(self) -> dict[str, Any]:
        return state_of(self.at)


def clear(at: Any) -> None:
    """The book is empty again, without going through all of its memory."""
    at["orders"][: 4096 << int(at["grown"])] = 0
    for name, _ in BOOK.fields:
        if name not in ("journal", "orders", "sides"):
            at[name] = 0
    for name in ("count", "lost", "most", "free_count"):
        at["sides"][name] = 0


def state_of(at: Any) -> dict[str, Any]:
    found: dict[str, Any] = {name: int(at[name]) for name in ("suspect", "crossed", "order_count")}
    found["updated"] = int(at["updated"]["value"]) if at["updated"]["present"] else None
    for side in SIDES:
        own = at["sides"][side - 1]
        prices, places = own["prices"][: own["count"]][::-1], own["places"][: own["count"]][::-1]
        levels = own["levels"][places]
        found[side.name] = list(zip(prices.tolist(), levels["qty"].tolist(), levels["taken"].tolist(), strict=True))
    return found


def reference_state(book: Book) -> dict[str, Any]:
    found: dict[str, Any] = {"suspect": book.suspect, "crossed": book.crossed, "order_count": len(book.orders), "updated": book.updated}
    for name, side in SIDES.items():
        found[name.name] = [(price, level.qty, level.taken) for price, level in book.ladder(side)]
    return found


def reference_take(book: Book, records: Events) -> int:
    """How many of the events were good."""
    return sum(book.apply(event) for event in from_events(records))
