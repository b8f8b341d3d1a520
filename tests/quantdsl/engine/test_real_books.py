"""The books of the files in `programs/data`, beside the reference's."""

import numpy as np
import pytest

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.events import EventKind, Events
from runtime.replay.feed import Feed
from runtime.replay.rules import Rules
from tests.quantdsl.engine.book_stand import NativeBook, reference_state, reference_take
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.test_real_books import DATA, FILES


def events(name: str) -> Events:
    file, listing, most = FILES[name]
    feed = Feed([DataSource(DATA / file, 0, (listing,), listing.name)], NativeDecoders(), Rules(skip=True))
    return np.concatenate(list(feed.events()))[:most]


@pytest.mark.parametrize("trim", [False, True], ids=["refuse", "trim"])
@pytest.mark.parametrize("name", FILES)
def test_a_real_book(name: str, trim: bool) -> None:
    found = events(name)
    of_book = found[(found["kind"] >= EventKind.QUOTE) & (found["kind"] <= EventKind.GAP)][:6000]
    native, book = NativeBook(trim), Book("trim" if trim else "refuse")
    for part in np.array_split(of_book, 60):
        good, _ = native.take(part)
        assert good == reference_take(book, part)
        assert native.state() == reference_state(book)
    assert len(of_book) > 500
