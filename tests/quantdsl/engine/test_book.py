"""The compiled book is the reference's, record by record."""

import numpy as np
import pytest

from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel
from quantdsl.engine.layout import BOOK
from tests.quantdsl.engine.book_stand import SIDES, NativeBook, book_module, reference_state, reference_take, state_of
from tests.quantdsl.engine.random_events import KINDS, random_events
from tests.quantdsl.reference.book import Book


@pytest.mark.parametrize("trim", [False, True], ids=["refuse", "trim"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_records(kind: str, trim: bool) -> None:
    rng = np.random.default_rng(sum(map(ord, kind)) + trim)
    for case in range(60):
        native, book = NativeBook(trim), Book("trim" if trim else "refuse")
        events = random_events(rng, KINDS[kind], int(rng.integers(1, 60)), width=int(rng.integers(1, 40)), ids=int(rng.integers(1, 40)))
        for number in range(len(events)):
            now = events[number : number + 1]
            good, _ = native.take(now)
            assert good == reference_take(book, now), f"case {case}, event {number}"
            assert native.state() == reference_state(book), f"case {case}, event {number}: {now}"
            if rng.random() < 0.3:
                _take_away(rng, native, book)


def _take_away(rng: np.random.Generator, native: NativeBook, book: Book) -> None:
    """Our own orders take some of a level."""
    name = list(SIDES)[int(rng.integers(2))]
    ladder = book.ladder(SIDES[name])
    if ladder:
        price, level = ladder[int(rng.integers(len(ladder)))]
        qty = int(rng.integers(0, level.available + 1))
        level.taken += qty
        native.take_away(name, price, qty)


@pytest.mark.parametrize("trim", [False, True], ids=["refuse", "trim"])
def test_interpreted_and_without_optimisation(trim: bool) -> None:
    rng = np.random.default_rng(5)
    run = finish(Translator(book_module().functions["feed"], book_module()), {})
    memory = new_memory(BOOK)
    for kind in KINDS:
        events = random_events(rng, KINDS[kind], 120)
        memory["orders"][0][:4096] = 0
        for name in ("sides", "updated", "suspect", "within", "incomplete", "crossed", "changes", "order_count", "number"):
            memory[name] = 0
        interpreted = tuple(run(*prepare(book_module().functions["feed"], [memory, events, len(events), trim])))
        book = Book("trim" if trim else "refuse")
        assert interpreted[0] == reference_take(book, events)
        for level in (OptimizationLevel.O0, OptimizationLevel.OLATENCY):
            native = NativeBook(trim, level)
            assert native.take(events) == interpreted
            assert native.state() == state_of(memory[0]) == reference_state(book)
