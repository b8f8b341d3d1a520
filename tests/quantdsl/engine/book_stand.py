"""A compiled book beside the reference's, fed with the same records."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from compiler.backends.native.compile import HostModule, compile_module
from compiler.hir.layout import new_memory
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I1, I64
from compiler.hir.types import Array, Pointer
from quantdsl.engine.book import define_book
from quantdsl.engine.layout import BOOK, EVENT, LEVELS, WIDTH
from runtime.replay.events import Events
from runtime.replay.events import MarketSide as RecordSide
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.from_events import from_events
from tests.quantdsl.reference.market import Side

SIDES = {RecordSide.BUY: Side.BUY, RecordSide.SELL: Side.SELL}


@cache
def book_module() -> HirModule:
    """`feed(book, events, count, trim)`: the sums of what `book.take` said."""
    program = ModuleBuilder("book")
    define_book(program)
    parameters = {"book": Pointer(BOOK), "events": Pointer(Array(EVENT, None)), "count": I64, "trim": I1}
    with program.function("feed", parameters, [I64, I64]) as b:
        book, events, count, trim = b.parameters
        good, unknown = b.variable(0), b.variable(0)
        with b.loop(0, count) as i:
            said = b.call("book.take", book, b.row(events, i, count), trim)
            for total, truth in zip((good, unknown), said, strict=True):
                total.value += truth.cast("i64")
        b.ret(good.value, unknown.value)
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
        prices, places = ladder(own, side - 1)
        return own["levels"][places[prices.index(price)]]

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
    for own in at["sides"]:
        own["blocks"][: int(own["order"].max()) + 1] = 0
        own["free"] = own["order"] = own["begins"] = 0
        own["count"] = own["more"] = own["last"] = own["lost"] = 0


def ladder(own: Any, side: int) -> tuple[list[int], list[int]]:
    """Prices and places of one side's levels, after a look at its blocks."""
    numbers = own["order"][: int(own["more"]) + 1].tolist()
    blocks, begins = own["blocks"][numbers], own["begins"]
    sizes = blocks["size"].tolist()
    keys = [block["keys"][:size] for block, size in zip(blocks, sizes, strict=True)]
    places = [place for block, size in zip(blocks, sizes, strict=True) for place in block["places"][:size].tolist()]
    assert sum(sizes) == int(own["count"]) and max(sizes) <= WIDTH and len(set(places)) == len(places)
    assert all(not block["keys"][size : 2 * WIDTH].any() for block, size in zip(blocks, sizes, strict=True))
    assert numbers[0] == 0 and blocks["after"].tolist()[:-1] == numbers[1:] and not begins[len(numbers) - 1 :].any()
    if len(numbers) > 1:
        assert min(sizes) > 0 and all(max(pair) > WIDTH // 4 for pair in pairwise(sizes))
        assert all(key.max() <= begin < before.min() for begin, before, key in zip(begins.tolist(), keys, keys[1:], strict=False))
    count = int(own["count"])
    named = np.concatenate([own["free"][count:] ^ np.arange(count, LEVELS, dtype=np.uint16), np.array(places, np.uint16)])
    assert (np.bincount(named, minlength=LEVELS) == 1).all()
    all_keys = [key for part in keys for key in part.tolist()]
    return [(key - (1 << 63)) ^ -side for key in all_keys], places


def state_of(at: Any) -> dict[str, Any]:
    found: dict[str, Any] = {name: int(at[name]) for name in ("suspect", "crossed", "order_count")}
    found["updated"] = int(at["updated"]["value"]) if at["updated"]["present"] else None
    for side in SIDES:
        own = at["sides"][side - 1]
        prices, places = ladder(own, side - 1)
        levels = own["levels"][places]
        found[side.name] = list(zip(prices, levels["qty"].tolist(), levels["taken"].tolist(), strict=True))
    return found


def reference_state(book: Book) -> dict[str, Any]:
    found: dict[str, Any] = {"suspect": book.suspect, "crossed": book.crossed, "order_count": len(book.orders), "updated": book.updated}
    for name, side in SIDES.items():
        found[name.name] = [(price, level.qty, level.taken) for price, level in book.ladder(side)]
    return found


def reference_take(book: Book, records: Events) -> int:
    """How many of the events were good."""
    return sum(book.apply(event) for event in from_events(records))
