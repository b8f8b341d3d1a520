"""What every file must keep to, whatever its format: times that never go back, trades that come once, the window that was asked for."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from runtime.records import define, field, frozen
from runtime.replay.bad_rows import BadData, BadRow, Why
from runtime.replay.batches import NOBODY, Batch, DataSource, refuse
from runtime.replay.content import Content
from runtime.replay.events import EVENT, EventKind, Events, Flag, empty
from runtime.replay.trade_ids import Trades

_NEVER = -(2**63)


@frozen
class Rules:
    """`reorder`: ns within which rows may stand in any order; `begin`, `end`: ns since 1970, the end excluded; `skip`: bad rows are
    listed, and the run goes on."""

    reorder: int = 0
    begin: int = _NEVER
    end: int = 2**63 - 1
    skip: bool = False


@define
class Tally:
    """Rows of one file: in = used + bad + left out. `reasons`: the bad ones by what is wrong, `gaps` by what is missing; a file that breaks
    off, or was given before, is one bad row. `strangers`: symbols of a file that has none of the program's; `begin`, `end`: its first and
    last time, in the window or not."""

    rows: int = 0
    bad: int = 0
    reasons: Counter[Why] = field(factory=Counter)
    gaps: Counter[str] = field(factory=Counter)
    left_out: int = 0
    strangers: tuple[str, ...] = ()
    begin: int | None = None
    end: int | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the file names instruments, and none of the program's. Its rows that name none are used."""
        return bool(self.strangers)

    @property
    def used(self) -> int:
        return self.rows - self.bad - self.left_out


def ruled(
    batches: Iterator[Batch], content: Content, source: DataSource, rules: Rules, tally: Tally, trades: Trades | None = None
) -> Iterator[Batch]:
    """Batches whose rows keep to the rules. Raises BadData for the first row that doesn't, behind what stands in front of it, unless bad
    rows are to be skipped."""
    order, trades, torn = Order(rules.reorder), trades or Trades(), False
    for batch in _with_end(batches, content, source):
        trades.check(batch, source)
        order.check(batch, source)
        stop = _stop(batch) if not rules.skip else None
        _count(batch, tally)
        torn = torn or any(bad.why is Why.TRUNCATED for bad in batch.bad)
        if batch.book:
            tell_gaps(batch, source)
        order.sort(batch)
        _span(batch, tally)
        past = batch.events.size > 0 and bool((batch.events["ts"] >= rules.end).all())
        tally.left_out += window(batch, rules)
        _count_gaps(batch, tally)
        yield batch
        if stop is not None:
            rest = order.rest()
            window(rest, rules)
            yield rest
            raise BadData(stop)
        if past:
            return
    rest = order.rest()
    if torn:
        rest.events = np.concatenate((rest.events, _end(content, source, order)))
    tally.left_out += window(rest, rules)
    _count_gaps(rest, tally)
    yield rest


def _with_end(batches: Iterator[Batch], content: Content, source: DataSource) -> Iterator[Batch]:
    """The batches, and behind them a bad row where the packing breaks off and no row has said so."""
    torn = False
    for batch in batches:
        torn = torn or any(bad.why is Why.TRUNCATED for bad in batch.bad)
        yield batch
    if content.broken and not torn:
        bad = source.bad(content.unpacked, "", "", Why.TRUNCATED, content.broken, binary=True)
        yield Batch(empty(0), 1, [bad], binary=True)


def _end(content: Content, source: DataSource, order: "Order") -> Events:
    """The gap behind a file that breaks off."""
    gap = empty(1)
    gap["ts"], gap["stream"], gap["instrument"], gap["kind"] = max(order.latest, 0), source.stream, NOBODY, EventKind.GAP
    gap["id"], gap["row"], gap["flags"] = content.unpacked, content.unpacked, Flag.LAST | Flag.SUSPECT | Flag.TRUNCATED
    return gap


def _stop(batch: Batch) -> BadRow | None:
    """The first row that ends the run. Of its batch there is then nothing behind it."""
    batch.bad.sort(key=lambda bad: bad.row)
    first = next((bad for bad in batch.bad if bad.why.stops), None)
    if first is not None:
        batch.bad = batch.bad[: batch.bad.index(first) + 1]
        batch.events = batch.events[batch.events["row"] < first.row]
        batch.rows, batch.left_out = np.unique(batch.events["row"]).size + len(batch.bad), 0
        batch.book = False
    return first


def _count(batch: Batch, tally: Tally) -> None:
    batch.bad.sort(key=lambda bad: bad.row)
    tally.rows += batch.rows
    tally.bad += len(batch.bad)
    tally.reasons.update(bad.why for bad in batch.bad)
    tally.left_out += batch.left_out
    if batch.rows > len(batch.bad):
        tally.strangers = batch.strangers


def _count_gaps(batch: Batch, tally: Tally) -> None:
    gaps = batch.events[batch.events["kind"] == EventKind.GAP]
    if gaps.size:
        lost, torn = ((gaps["flags"] & flag) != 0 for flag in (Flag.DAMAGED, Flag.TRUNCATED))
        began = (gaps["id"] == 0) & (gaps["id2"] != 0) & ~lost & ~torn
        counts = {"bad_row": lost, "truncated": torn, "no_snapshot": began, "sequence": ~(lost | torn | began)}
        tally.gaps.update({name: int(which.sum()) for name, which in counts.items() if which.any()})


def _span(batch: Batch, tally: Tally) -> None:
    times = batch.events["ts"]
    if times.size:
        first, last = int(times.min()), int(times.max())
        tally.begin = first if tally.begin is None else min(tally.begin, first)
        tally.end = last if tally.end is None else max(tally.end, last)


@define
class Order:
    """Times never go back; inside the window of `--reorder` they are put in order, and what comes later than that is refused."""

    window: int
    latest: int = _NEVER
    held: Events = field(factory=lambda: np.empty(0, EVENT))

    def check(self, batch: Batch, source: DataSource) -> None:
        times = batch.events["ts"]
        if not times.size:
            return
        latest = np.maximum.accumulate(np.concatenate(([self.latest], times)))
        self.latest = int(latest[-1])
        floor = np.maximum(latest[:-1], _NEVER + self.window) - self.window
        refuse(batch, times < floor, source, batch.time, lambda row: str(times[row]), Why.EARLIER)

    def sort(self, batch: Batch) -> None:
        """Lets go what nothing can come before any more, in order."""
        if not self.window:
            return
        everything = np.concatenate((self.held, batch.events))
        everything = everything[np.argsort(everything["ts"], kind="stable")]
        floor = max(self.latest, _NEVER + self.window) - self.window
        count = int(np.searchsorted(everything["ts"], floor, side="right"))
        batch.events, self.held = everything[:count], everything[count:].copy()

    def rest(self) -> Batch:
        """What is still held at the end."""
        return Batch(self.held, 0)


def tell_gaps(batch: Batch, source: DataSource) -> None:
    """Where a row of a book is lost, the book isn't known any more: a gap stands in the row's place."""
    lost = [bad.row for bad in batch.bad if bad.why not in (Why.REPEATED_TRADE, Why.TRUNCATED)]
    if not lost:
        return
    places = np.searchsorted(batch.events["row"], lost)
    gaps = empty(len(lost))
    gaps["kind"], gaps["flags"] = EventKind.GAP, Flag.LAST | Flag.SUSPECT | Flag.DAMAGED
    gaps["stream"], gaps["instrument"] = source.stream, batch.instrument
    gaps["row"] = lost
    if batch.events.size:
        gaps["ts"] = batch.events["ts"][np.maximum(places - 1, 0)]
        batch.events = np.insert(batch.events, places, gaps)


def window(batch: Batch, rules: Rules) -> int:
    """Takes out what is outside of the time asked for, and counts the rows that are gone. What builds a book stays before it."""
    events = batch.events
    if not events.size or (int(events["ts"].min()) >= rules.begin and int(events["ts"].max()) < rules.end):
        return 0
    early = events["ts"] < rules.begin
    gone = (events["ts"] >= rules.end) | (early & (events["kind"] == EventKind.TRADE))
    events["flags"][early] |= int(Flag.WARM_UP)
    in_place_of_bad = (events["kind"] == EventKind.GAP) & (events["flags"] & (Flag.DAMAGED | Flag.TRUNCATED) != 0)
    lost = np.setdiff1d(events["row"][gone & ~in_place_of_bad], events["row"][~gone]).size
    batch.events = events[~gone]
    return int(lost)
