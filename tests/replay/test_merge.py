"""Streams into one, against sorting everything; and memory that doesn't grow with files."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from feeds import BTC, DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.batches import DataSource
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.merge import merged

TIMES = st.lists(st.integers(0, 9), max_size=8)


def blocks(times: list[int], cuts: list[int], stream: int) -> Iterator[Events]:
    events = np.zeros(len(times), EVENT)
    events["ts"], events["stream"], events["row"] = sorted(times), stream, np.arange(len(times))
    return iter(np.split(events, sorted(cut % (len(times) + 1) for cut in cuts)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(TIMES, st.lists(st.integers(0, 8), max_size=3)), max_size=4))
def test_time_then_place_on_the_command_line(streams: list[tuple[list[int], list[int]]]) -> None:
    found = [*merged([blocks(times, cuts, place) for place, (times, cuts) in enumerate(streams)])]
    got = [tuple(one) for part in found for one in part[["ts", "stream", "row"]].tolist()]
    assert got == sorted((ts, place, row) for place, (times, _) in enumerate(streams) for row, ts in enumerate(sorted(times)))


def test_two_files(tmp_path: Path) -> None:
    lines = (DATA / "btcusdt_spot_20240808_trades.csv").read_text().splitlines()
    other = tmp_path / "other.csv"
    other.write_text("\n".join([lines[0], *(re.sub(",3", ",7", line, count=1) for line in lines[1:])]))
    sources = [DataSource(DATA / "btcusdt_spot_20240808_trades.csv", 0, (BTC,)), DataSource(other, 1, (BTC,))]
    events = np.concatenate(list(Feed(sources, NativeDecoders()).events()))
    assert events["stream"].tolist() == [0, 1] * 9757
    assert events["row"][0::2].tolist() == list(range(2, 9759))


def test_blocks_stay_small_however_long_the_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    head, _, rows = (DATA / "btcusdt_spot_20240808_trades.csv").read_bytes().partition(b"\n")
    del rows
    path, count = tmp_path / "long.csv", 120_000
    path.write_bytes(head + b"\n" + b"".join(b"%d,%d,1.00000000,2.00000000,B\n" % (10**18 + n, n + 1) for n in range(count)))
    feed = Feed([DataSource(path, 0, (BTC,))], NativeDecoders())
    sizes = [events.size for events in feed.events()]
    assert sum(sizes) == count and len(sizes) > 4
    # a block of a mebibyte holds so many of these rows
    assert max(sizes) <= (1 << 20) // 44 + 1
