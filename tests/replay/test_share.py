"""How much of its files a feed has read."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.events import empty
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing

LISTINGS = (Listing("X", "1", "1"),)


def rows(count: int) -> bytes:
    return b"ts,price,qty\n" + b"".join(b"%d,%d,1\n" % (10**18 + n, 1000 + n % 7) for n in range(count))


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_the_share_grows_to_the_whole(tmp_path: Path, ending: str) -> None:
    text = rows(100_000)
    path = tmp_path / f"trades{ending}"
    path.write_bytes(gzip.compress(text) if ending == ".csv.gz" else text)
    feed = Feed([DataSource(path, 0, LISTINGS)], NativeDecoders())
    assert feed.share is None
    shares = [feed.share for _ in feed.events()]
    assert len(shares) > 1 and None not in shares
    assert shares == sorted(shares, key=float) and 0 < shares[0] < shares[-1]
    assert feed.share == 1.0


def test_tables_in_memory_have_none() -> None:
    events = empty(3)
    events["ts"], events["kind"], events["price"], events["qty"], events["flags"] = np.arange(3), 1, 5, 1, 1
    feed = Feed([DataSource(Path("array"), 0, LISTINGS, table=events)], NativeDecoders())
    assert sum(len(block) for block in feed.events()) == 3
    assert feed.share is None
