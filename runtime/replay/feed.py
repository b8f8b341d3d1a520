"""All files of a run as one stream of events, with what is known of each."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import chain

from runtime.records import Factory, define, field, frozen
from runtime.replay.bad_rows import BadData, BadRow, BadSource, Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.content import Content
from runtime.replay.decoders import Decoders
from runtime.replay.events import OF_BOOK, Events
from runtime.replay.merge import merged
from runtime.replay.repeated_files import given_before
from runtime.replay.rules import Rules, Tally, ruled
from runtime.replay.trade_ids import Trades

FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (".csv", ".csv.gz", ".csv.zst"),
    "parquet": (".parquet",),
    "json_lines": (".jsonl", ".jsonl.gz", ".jsonl.zst"),
    "itch": (".itch50", ".itch50.gz"),
    "dbn": (".dbn", ".dbn.zst"),
}
"""Readers by the ends of file names."""

Read = Callable[[Content, DataSource, Decoders], Iterator[Batch]]


def reader(source: DataSource) -> Read:
    """What reads a file. Raises BadSource for a name of no known format, and for a file that isn't there."""
    if source.table is not None:
        return _of("memory")
    name = source.path.name.lower()
    form = next((form for form, ends in FORMATS.items() if name.endswith(ends)), None)
    if form is None:
        known = ", ".join(end for ends in FORMATS.values() for end in ends)
        raise BadSource(f"{source.path}: no data format has this ending", f"known ones are {known}")
    if form == "csv" and "_message_" in name:
        form = "lobster"
    if not source.path.is_file():
        raise BadSource(f"{source.path}: there is no such file")
    return _of(form)


def _of(form: str) -> Read:
    read: Read = import_module(f"runtime.replay.readers.{form}").read
    return read


@frozen
class OpenedFeed:
    """A feed whose beginning is read. `begin`: the time of its first event, None where it has no events; `has_book`: whether any of its
    files begins with something other than trades; `blocks`: all events, those at the beginning included."""

    begin: int | None
    has_book: bool
    blocks: Iterator[Events]


@define
class Feed:
    """The events of some files, each of which counts once. `tallies` and what `found_bad` gives grow as they are read."""

    sources: Sequence[DataSource]
    decoders: Decoders
    rules: Rules = Factory(Rules)
    tallies: list[Tally] = field(init=False)
    _has_book: bool = field(init=False, default=False)
    _bad: list[BadRow] = field(init=False, factory=list)
    _contents: list[Content] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        self.tallies = [Tally() for _ in self.sources]

    def opened(self) -> OpenedFeed:
        """Reads the beginning of every file. Raises what `events` raises."""
        blocks = self.events()
        first = next(blocks, None)
        if first is None:
            return OpenedFeed(begin=None, has_book=self._has_book, blocks=blocks)
        return OpenedFeed(begin=int(first["ts"][0]), has_book=self._has_book, blocks=chain((first,), blocks))

    def events(self) -> Iterator[Events]:
        """Blocks in the order of (time, place on the command line). Raises BadSource, and BadData unless bad rows are skipped."""
        reads = [reader(source) for source in self.sources]
        trades = [Trades(source.name) for source in self.sources]
        streams = []
        for read, source, tally, own in zip(reads, self.sources, self.tallies, trades, strict=True):
            before = given_before(source, self.sources)
            if before is None:
                own.others = tuple(other for other in trades if other is not own)
                streams.append(self._one(read, source, tally, own))
            else:
                self._refuse(source, tally, before)
        return merged(streams)

    def _refuse(self, source: DataSource, tally: Tally, before: DataSource) -> None:
        """A file that was given before: one bad row."""
        bad = source.bad(0, "", "", Why.REPEATED_FILE, f"as {before.name}" if before.name != source.name else "")
        self._bad.append(bad)
        tally.rows, tally.bad = 1, 1
        tally.reasons[bad.why] += 1
        if not self.rules.skip:
            raise BadData(bad)

    @property
    def share(self) -> float | None:
        """How much of the files is read, from 0 to 1; None where that isn't known: of tables in memory, and of formats read by columns."""
        if len(self._contents) < len(self.sources) or not all(content.read for content in self._contents):
            return None
        whole = sum(content.path.stat().st_size for content in self._contents)
        return min(1.0, sum(content.read for content in self._contents) / max(1, whole))

    def found_bad(self) -> list[BadRow]:
        """Bad rows since the last call."""
        rows, self._bad = self._bad, []
        return rows

    def _one(self, read: Read, source: DataSource, tally: Tally, trades: Trades) -> Iterator[Events]:
        content = Content(source.path)
        self._contents.append(content)
        for batch in ruled(read(content, source, self.decoders), content, source, self.rules, tally, trades):
            self._bad += batch.bad
            self._has_book = self._has_book or bool(OF_BOOK[batch.events["kind"]].any())
            yield batch.events
