"""Whole strategies of `programs/quantdsl` over events in memory, beside the same in hftbacktest where it is installed.

    python -m bench.strategies [--events 5000000] [--rounds 7] [--peer PYTHON] [--json FILE]

The samples are repeated, later each time, until there are enough events. Both sides run in turn, one core each, and take everything with
them: book, strategy, risk (ours alone has any), orders, fills, accounting, records of orders and fills. Reading files isn't part of it and
is timed apart, and so is compiling. Times are of the processor. `--peer`: an interpreter that has hftbacktest; without one the peer is left
out."""

import argparse
import json
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

import quantdsl
from bench.replay import without_limits
from quantdsl.readers.decoders import NativeDecoders
from quantdsl.run.options import RunOptions
from quantdsl.run.replay import Replay
from quantdsl.run.totals import run_of
from runtime.replay.batches import DataSource
from runtime.replay.events import EventKind, Events, Flag, empty
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.rules import Rules

ROOT = Path(__file__).parents[1]
BTCUSDT = Listing("BTCUSDT", "0.01", "0.00001")
BLOCK = 1 << 16
"""Events that the engine is given at a time."""


@frozen
class Case:
    """`without`: kinds of events that are left out, since the peer has nothing like them."""

    name: str
    program: str
    data: str
    fills: str
    peer: str
    without: tuple[EventKind, ...] = ()


CASES = (
    Case("EMA cross, trades", "ema_cross", "btcusdt_spot_20240808_trades.csv", "next", "cross"),
    Case("market maker, trades and levels", "market_maker", "btcusdt_spot_20240808.jsonl.gz", "queue", "maker", (EventKind.QUOTE,)),
)


def source_of(case: Case) -> DataSource:
    return DataSource(ROOT / "programs" / "data" / case.data, 0, (BTCUSDT,), "BTCUSDT")


def read(case: Case) -> tuple[Events, float]:
    """The sample, and the seconds that reading took."""
    started = time.perf_counter()
    events = np.concatenate(list(Feed([source_of(case)], NativeDecoders(), Rules(skip=True)).events()))
    seconds = time.perf_counter() - started
    return events[~np.isin(events["kind"], case.without)], seconds


def repeated(events: Events, least: int) -> Events:
    """Again and again, later each time, each time from an empty book."""
    clear = empty(1)
    clear["ts"], clear["kind"], clear["flags"] = events["ts"][0], EventKind.BOOK_CLEAR, Flag.LAST
    one = np.concatenate([clear, events]) if (events["kind"] != EventKind.TRADE).any() else events
    turns = -(-least // len(one))
    made = np.tile(one, turns)
    length = int(one["ts"][-1] - one["ts"][0]) + 1_000_000
    made["ts"] += np.repeat(np.arange(turns) * length, len(one))
    return made


def ours(strategy: Any, case: Case, events: Events) -> dict[str, Any]:
    """One run: seconds with the collecting of records, and how many orders there were."""
    options = RunOptions(data=(), fills=case.fills)
    replay = Replay(strategy, options)
    replay.crossed.sources = [source_of(case)]  # whose rows the events are
    sink = KeptRecords(run_of(strategy, options))
    started = time.process_time()
    replay.start(case.fills, int(events["ts"][0]))
    for first in range(0, len(events), BLOCK):
        replay.take(events[first : first + BLOCK], sink)
    replay.collect(sink)
    seconds = time.process_time() - started
    return {"seconds": seconds, "inside": replay.inside, "sent": int(replay.engine["submitted"])}


@contextmanager
def peer(python: str | None, case: Case, events: Events, folder: Path) -> Iterator[Any]:
    """Answers each call with a run of the peer."""
    if python is None:
        yield None
        return
    path = folder / f"{case.peer}.npy"
    np.save(path, events)
    command = [python, str(ROOT / "bench" / "peers" / "hftbacktest_replay.py"), str(path), case.peer]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask() -> dict[str, Any]:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            found: dict[str, Any] = json.loads(process.stdout.readline())
            return found

        yield ask
        process.stdin.close()


def measure(case: Case, least: int, rounds: int, python: str | None, folder: Path) -> dict[str, Any]:
    sample, seconds = read(case)
    events = repeated(sample, least)
    strategy = without_limits(quantdsl.compile(ROOT / "programs" / "quantdsl" / f"{case.program}.qdsl").strategy)
    own: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with peer(python, case, events, folder) as ask:
        ours(strategy, case, events[:BLOCK])
        for _ in range(rounds):
            own.append(ours(strategy, case, events))
            if ask is not None:
                theirs.append(ask())
    row: dict[str, Any] = {"case": case.name, "events": len(events), "sent": own[0]["sent"], "read_per_second": len(sample) / seconds}
    row["million_per_second"] = len(events) / statistics.median(one["seconds"] for one in own) / 1e6
    row["million_per_second_inside"] = len(events) / statistics.median(one["inside"] for one in own) / 1e6
    if theirs:
        row["peer_sent"] = theirs[0]["sent"]
        row["peer_million_per_second"] = len(events) / statistics.median(one["seconds"] for one in theirs) / 1e6
        row["ratio"] = statistics.median(b["seconds"] / a["seconds"] for a, b in zip(own, theirs, strict=True))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--only", choices=[case.peer for case in CASES])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if options.only in (None, case.peer):
                rows.append(measure(case, options.events, options.rounds, options.peer, Path(folder)))
                print(json.dumps({name: round(value, 3) if isinstance(value, float) else value for name, value in rows[-1].items()}))
    if options.json is not None:
        held = {"machine": platform.processor() or platform.machine(), "rows": rows}
        options.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
