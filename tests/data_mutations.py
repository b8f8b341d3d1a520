"""Broken market data, by the thousand: `python -m tests.data_mutations 2000 [SEED]` spoils real files of every format and replays each, with
bad rows skipped and without. Every outcome must be a run whose rows are all accounted for, used or bad under some reason, or a coded
message about the data: no other exception, no internal fault."""

import gzip
import random
import shutil
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import Factory, define, frozen

import quantdsl
from quantdsl.readers.decoders import NativeDecoders
from runtime.replay.bad_rows import Why
from runtime.replay.batches import DataSource
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing

ROOT = Path(__file__).parents[1]
DATA = ROOT / "programs" / "data"
LONGEST = 40_000
"""Unpacked bytes of a file that is spoilt."""
PROGRAM = """
currency USD {{ scale 10 }}
instrument {name} : USD {{ tick {tick} lot {lot} }}
risk Desk for {name} {{ max_position 1_000_000_000lots }}
strategy Watch on {name} {{
  risk Desk
  state seen = 0
  on trade(t) {{ seen +%= t.qty.lots }}
  on gap(g) {{ seen +%= 1 }}
  on book(b) {{ seen +%= 1 }}
}}
"""
REASONS = {why.reason for why in Why}


@frozen
class Sample:
    """A file: what it holds unpacked, its name, the instrument in it, whether its rows are lines."""

    name: str
    content: bytes
    instrument: tuple[str, str, str]
    lines: bool = True


@cache
def samples() -> tuple[Sample, ...]:
    """Of every format, the real files shortened to whole rows."""
    btc, fine = ("BTCUSDT", "0.01", "0.00001"), ("BTCUSDT", "0.01", "0.00000001")
    es, coin, stock = ("ESH1", "0.25", "1"), ("BTC", "1", "0.00001"), ("BOB", "0.0001", "1")
    trades = _lines((DATA / "btcusdt_spot_20240808_trades.csv").read_bytes())
    found = [Sample("t.csv", trades, btc), Sample("t.csv.gz", trades, btc), Sample("t.csv.zst", trades, btc)]
    found.append(Sample("q.csv", b"ts,bid,bid_qty,ask,ask_qty\n" + b"".join(_quote(n) for n in range(300)), btc))
    for name, grid in (("btcusdt_spot_20240808", fine), ("btc_hyperliquid_l2book_20250126", coin)):
        messages = _lines(gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()))
        found += [Sample(f"{name}.jsonl", messages, grid), Sample(f"{name}.jsonl.gz", messages, grid)]
    sums = b"".join(b'{"e":"aggTrade","E":%d,"s":"BTCUSDT","a":%d,"p":"1.5","q":"2","m":true}\n' % (10**12 + n, n + 1) for n in range(200))
    found.append(Sample("sums.jsonl", sums, fine))
    itch = gzip.decompress((DATA / "sim_20101224.itch50.gz").read_bytes())
    itch = itch[: _messages(itch)]
    found += [Sample("20101224.itch50", itch, stock, False), Sample("20101224.itch50.gz", itch, stock, False)]
    found += [Sample(name, _unpacked(DATA / name), es, False) for name in sorted(path.name for path in DATA.glob("*.dbn*"))]
    orders = b"".join(b"%d.5,%d,%d,10,%d,%d\n" % (34_200 + n, 1 + 3 * (n % 2), n // 2 + 1, 1_000_000 - 100 * (n // 2), 1) for n in range(200))
    found.append(Sample("A_2012-06-21_message_10.csv", orders, ("A", "0.01", "1")))
    found.append(Sample("t.parquet", _parquet(), btc, False))
    return tuple(found)


def _lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n", 0, LONGEST) + 1]


def _quote(n: int) -> bytes:
    return b"%d,%d.00,1,%d.01,1\n" % (1_723_161_254_000_000_000 + n, 100 + n % 7, 100 + n % 7)


def _messages(data: bytes) -> int:
    """Where the last whole message within `LONGEST` ends."""
    at = 0
    while at + 2 + int.from_bytes(data[at : at + 2]) <= LONGEST:
        at += 2 + int.from_bytes(data[at : at + 2])
    return at


def _unpacked(path: Path) -> bytes:
    if path.suffix != ".zst":
        return path.read_bytes()
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd") as file:
        return bytes(file.read())


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink, count = pa.BufferOutputStream(), 500
    columns = {"ts_ns": 10**18 + np.arange(count), "trade_id": 1 + np.arange(count), "price": 1 + np.arange(count) / 100, "qty": np.ones(count)}
    parquet.write_table(pa.table(columns), sink, row_group_size=100, write_page_checksum=True)
    return bytes(sink.getvalue().to_pybytes())


def packed(name: str, content: bytes) -> bytes:
    if name.endswith(".gz"):
        return gzip.compress(content, 1, mtime=0)
    if name.endswith(".zst"):
        import pyarrow

        return bytes(pyarrow.compress(content, codec="zstd", asbytes=True))
    return content


@frozen
class Case:
    """Files, what to call them, and the options of a run."""

    files: tuple[tuple[str, bytes], ...]
    instrument: tuple[str, str, str]
    options: dict[str, Any]
    how: str


def case(choose: random.Random) -> Case:
    """A spoilt file, or several that share rows."""
    sample = choose.choice(samples())
    content, how = sample.content, []
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        word, content = _spoilt(choose, sample, content)
        how.append(word)
    data = packed(sample.name, content)
    if choose.random() < 0.25:
        word, data = _in_bytes(choose, data)
        how.append(f"{word} of the packed file")
    files = [(sample.name, data)]
    if choose.random() < 0.2:
        how.append("given twice")
        files.append((f"again_{sample.name}", choose.choice((data, packed(sample.name, sample.content)))))
    options = {"reorder": choose.choice((0, 0, "1s")), "on_cross": choose.choice(("refuse", "refuse", "trim"))}
    return Case(tuple(files), sample.instrument, options, f"{sample.name}: {', '.join(how)}")


def _spoilt(choose: random.Random, sample: Sample, content: bytes) -> tuple[str, bytes]:
    if choose.random() < 0.4 or len(content) < 4:
        return _in_bytes(choose, content)
    rows = _rows(sample, content)
    if len(rows) < 3:
        return _in_bytes(choose, content)
    at, other = choose.randrange(1, len(rows)), choose.randrange(1, len(rows))
    word = choose.choice(("repeated", "swapped", "deleted", "moved", "several repeated", "field"))
    match word:
        case "repeated":
            rows.insert(at, rows[at])
        case "swapped":
            rows[at], rows[other] = rows[other], rows[at]
        case "deleted":
            del rows[at : at + choose.choice((1, 5))]
        case "moved":
            rows.insert(other, rows.pop(at))
        case "several repeated":
            rows[at:at] = rows[max(1, at - 30) : at]
        case _ if sample.lines:
            fields = rows[at].split(b",")
            texts = (b"", b"-1", b"0", b"nan", b"-inf", b"1e400", b"0x1F", b"9" * 40, b"x", b"\xff", b'"', b"1.23456789012", b"1_0", b" 7 ", b"null")
            fields[choose.randrange(len(fields))] = choose.choice(texts)
            rows[at] = b",".join(fields)
    return f"a row {word}", b"".join(rows)


def _rows(sample: Sample, content: bytes) -> list[bytes]:
    if sample.lines:
        return content.splitlines(keepends=True)
    if "itch" in sample.name:
        rows, at = [], 0
        while at < len(content):
            end = at + 2 + int.from_bytes(content[at : at + 2])
            rows.append(content[at:end])
            at = end
        return rows
    return [content]


def _in_bytes(choose: random.Random, content: bytes) -> tuple[str, bytes]:
    data = bytearray(content)
    at = choose.randrange(len(data) + 1)
    word = choose.choice(("cut", "cut near its end", "bits flipped", "bytes lost", "bytes put in", "zeros", "noise", "emptied", "repeated whole"))
    match word:
        case "cut":
            del data[at:]
        case "cut near its end":
            del data[max(0, len(data) - choose.randrange(1, 60)) :]
        case "bits flipped":
            for _ in range(choose.choice((1, 1, 8)) if data else 0):
                data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        case "bytes lost":
            del data[at : at + choose.choice((1, 2, 50))]
        case "bytes put in":
            data[at:at] = choose.randbytes(choose.choice((1, 2, 50)))
        case "zeros":
            data[at : at + choose.choice((1, 64, 5000))] = bytes(choose.choice((1, 64, 5000)))
        case "noise":
            data = bytearray(choose.randbytes(choose.choice((1, 100, 5000))))
        case "emptied" if choose.random() < 0.1:
            data.clear()
        case _:
            data = data * 2
    return word, bytes(data)


@cache
def _program(instrument: tuple[str, str, str]) -> quantdsl.Program:
    name, tick, lot = instrument
    return quantdsl.compile(PROGRAM.format(name=name, tick=tick, lot=lot))


@define
class Tally:
    """What became of the cases: how runs ended, what was counted, faults of our own."""

    count: int = 0
    ends: Counter[str] = Factory(Counter)
    reasons: Counter[str] = Factory(Counter)
    faults: list[tuple[str, Case]] = Factory(list)

    def add(self, spoilt: Case, folder: Path) -> None:
        self.count += 1
        try:
            for on_bad in ("stop", "skip"):
                self.ends[f"{on_bad}: {self._run(spoilt, folder, on_bad)}"] += 1
        except Exception as error:
            import traceback

            place = traceback.extract_tb(error.__traceback__)[-1]
            self.faults.append((f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})", spoilt))

    def _run(self, spoilt: Case, folder: Path, on_bad: str) -> str:
        """How it ended. Raises AssertionError where rows are lost without a count."""
        shutil.rmtree(folder)
        folder.mkdir()
        paths = [folder / name for name, _ in spoilt.files]
        for path, (_, data) in zip(paths, spoilt.files, strict=True):
            path.write_bytes(data)
        try:
            result = _program(spoilt.instrument).run([str(path) for path in paths], on_bad=on_bad, **spoilt.options)
        except quantdsl.QuantError as error:
            assert set(error.codes) == {"ZYN0807"} and error.bad_data, error
            return "stopped"
        found = result.summary
        by_reason = found["rows_bad_by_reason"]
        assert found["rows_in"] == found["rows_used"] + sum(by_reason.values()), "rows are lost"
        assert found["rows_bad"] == sum(by_reason.values()) == result.table("bad_rows").num_rows, "bad rows are lost"
        assert found["rows_used"] >= 0 and set(by_reason) <= REASONS, by_reason
        assert on_bad == "skip" or set(by_reason) <= {"crossed"}, "bad rows that didn't stop the run"
        assert result.failure is None, result.failure
        if on_bad == "skip":
            self.reasons.update(by_reason)
            _compare(spoilt, paths, found)
        return "ran"

    @property
    def summary(self) -> str:
        ends = ", ".join(f"{end} {count}" for end, count in sorted(self.ends.items()))
        reasons = ", ".join(f"{name} {count}" for name, count in self.reasons.most_common())
        return f"{self.count} cases: {ends}; {reasons}; {len(self.faults)} faults of our own"


def _compare(spoilt: Case, paths: list[Path], found: dict[str, Any]) -> None:
    """Rows of text that were read against the lines that are there."""
    name, tick, lot = spoilt.instrument
    if len(paths) > 1 or not paths[0].name.endswith(".csv"):
        return
    from runtime.replay.rules import Rules

    feed = Feed([DataSource(paths[0], 0, (Listing(name, tick, lot),))], NativeDecoders(), Rules(skip=True))
    blocks: list[Events] = [np.empty(0, EVENT), *feed.events()]
    lines = spoilt.files[0][1].count(b"\n") + 2
    assert np.concatenate(blocks).size <= lines and found["rows_in"] + found["rows_left_out"] <= lines, "rows that no line has"


def tally(count: int, seed: int) -> Tally:
    """The outcome of so many spoilt files; the same for the same seed."""
    made, choose = Tally(), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "data"
        inside.mkdir()
        for _ in range(count):
            made.add(case(choose), inside)
    return made


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    found = tally(count, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for what, spoilt in found.faults:
        print(f"--- {spoilt.how} {spoilt.options}\n{what}")
    print(found.summary)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
