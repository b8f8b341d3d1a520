"""What tests of data share: a feed of some files, its events at once, and the real files."""

from pathlib import Path

import numpy as np
import pytest

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import BadData, BadRow
from runtime.replay.batches import DataSource
from runtime.replay.decoders import Decoders
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules, Tally

NATIVE = NativeDecoders()
DATA = Path(__file__).parents[2] / "programs" / "data"
BTC = Listing("BTCUSDT", "0.01", "0.00001")
FINE = Listing("BTCUSDT", "0.01", "0.00000001")


def read(
    path: Path, *listings: Listing, bound: str | None = None, rules: Rules | None = None, decoders: Decoders = NATIVE, **mapped: str
) -> tuple[Events, Tally, list[BadRow]]:
    """All events of a file, its tally and its bad rows. `bound`: the symbol in front of its path. Rows in are always rows used, bad and left
    out, and each bad one is counted under what is wrong with it."""
    feed = Feed([DataSource(path, 0, listings or (BTC,), bound, mapped)], decoders, rules or Rules())
    blocks = list(feed.events())
    events = np.concatenate([np.empty(0, EVENT), *blocks])
    bad = feed.found_bad()
    tally = feed.tallies[0]
    assert tally.bad == len(bad) == tally.reasons.total()
    assert tally.rows == tally.used + tally.bad + tally.left_out
    assert (np.diff(events["ts"]) >= 0).all()
    return events, tally, bad


def stopped(*sources: DataSource, rules: Rules | None = None) -> tuple[Events, BadData, Feed]:
    """What is replayed before the data stops the run, and why it does."""
    feed, blocks = Feed(sources, NATIVE, rules or Rules()), []
    with pytest.raises(BadData) as raised:
        for block in feed.events():
            blocks.append(block)
    return np.concatenate([np.empty(0, EVENT), *blocks]), raised.value, feed
