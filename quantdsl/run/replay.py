"""The replay: blocks of events into the engine, records out of it, and in the end a summary. No Python runs for single events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen

from compiler.backends.native.link import Outcome
from compiler.backends.native.stopping import stoppable
from compiler.codes.packages import package_missing, pictures_left_out
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.data_faults import told
from quantdsl.run.audit import Audit
from quantdsl.run.crossed import Crossed
from quantdsl.run.desk import Desk
from quantdsl.run.failure import halted, of_engine
from quantdsl.run.foreign import foreign_notes, require_rows
from quantdsl.run.log import log_rows
from quantdsl.run.machine import pinned
from quantdsl.run.options import RunOptions
from quantdsl.run.program import Strategy
from quantdsl.run.totals import run_of, totals_of
from runtime.extras import PackageMissing
from runtime.replay.bad_rows import BadRow, CrossedRows
from runtime.replay.batches import Source
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.outputs.files import OutputFault
from runtime.replay.outputs.records import LogRow, Records, Run
from runtime.replay.outputs.summary import Summary, Totals
from runtime.replay.rules import Rules

WORDS = EVENT.itemsize // 8
TOLD, KEPT = 0.1, 2.0
"""Seconds between two words of progress, and between two checkpoints of the outputs."""


class Sink(Protocol):
    """Where records go: a folder, or memory."""

    def add(self, table: str, records: Records) -> None: ...
    def add_bad_rows(self, rows: list[BadRow] | CrossedRows) -> None: ...
    def add_log(self, rows: list[LogRow]) -> None: ...
    def checkpoint(self) -> None: ...
    def finish(self, totals: Totals) -> Summary: ...
    @property
    def without_pictures(self) -> PackageMissing | None: ...
    def stop(self, reason: str) -> None: ...


@frozen
class Progress:
    """So far: events, the time of the last one (ns), seconds. `share`: of the data, None where that isn't known."""

    events: int
    now: int
    seconds: float
    share: float | None = None


@frozen
class Ending:
    """`failure`: why the strategy was halted by a checked failure; its data was accounted to the end all the same. `notes`: what else
    is to be said of the run."""

    summary: Summary
    failure: Diagnostic | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[Diagnostic, ...] = ()
    """Notes on outputs that a package is missing for."""


@define
class Replay:
    """One run of a strategy, to be used once."""

    strategy: Strategy
    options: RunOptions
    tell: Callable[[Progress], None] = field(default=lambda progress: None)
    audit: Audit | None = None
    desk: Desk = field(init=False)
    feed: Feed = field(init=False)
    failure: Diagnostic | None = field(init=False, default=None)
    events: int = field(init=False, default=0)
    inside: float = field(init=False, default=0.0)
    """Seconds in the engine."""
    fills: str = field(init=False, default="next")
    not_pinned: str | None = field(init=False, default=None)
    """Why the thread isn't on the core that the program asks for."""
    crossed: Crossed = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.desk = Desk(self.strategy.facts)
        market, options = self.strategy.facts.market, self.options
        listing = Listing(market.name, _size(market.tick), _size(market.lot))
        sources = [Source(one.path, stream, (listing,), one.symbol, dict(one.mapped), one.table) for stream, one in enumerate(options.data)]
        window = {name: value for name, value in (("begin", options.begin), ("end", options.end)) if value is not None}
        self.feed = Feed(sources, Rules(reorder=options.reorder, skip=options.skip, **window))
        self.crossed = Crossed(sources)

    def run(self, make: Callable[[Run], Sink]) -> Ending:
        """Replays everything into what `make` gives. Raises ZyntaxError: for bad data, outputs that can't be written; whatever stops a
        run, its outputs so far are marked partial."""
        started = perf_counter()
        about = run_of(self.strategy, self.options)
        with _written():
            sink = make(about)
            try:
                with told(), stoppable(), pinned(self.strategy.facts.affinity) as self.not_pinned:
                    self._all(sink, about, started)
                require_rows(self.feed, self.options, self.strategy.facts.market.name)
                summary = sink.finish(totals_of(self, perf_counter() - started))
            except BaseException as error:
                with suppress(OutputFault, ZyntaxError):
                    self.collect(sink)
                with suppress(OutputFault):
                    sink.stop(_reason(error))
                raise
        pinned_not = (self.not_pinned,) if self.not_pinned else ()
        notes = (*pinned_not, *foreign_notes(self.feed, self.strategy.facts.market.name))
        missing = sink.without_pictures
        return Ending(summary, self.failure, notes, () if missing is None else (pictures_left_out(missing),))

    def _all(self, sink: Sink, about: Run, started: float) -> None:
        blocks = self.blocks()
        first = next(blocks, None)
        about.settings["fills"] = self.fills
        if first is not None:
            self.begin(first)
        shown = kept = started
        while first is not None:
            self.take(first, sink)
            # here, and not when it is time to collect: which bad row comes first must not hang on the clock
            self._collect_rows(sink)
            now = perf_counter()
            if now - shown >= TOLD:
                shown = now
                self.collect(sink)
                self.tell(Progress(self.events, int(first["ts"][-1]), now - started, self.feed.share))
            if now - kept >= KEPT:
                self.collect(sink)
                sink.checkpoint()
                kept = perf_counter()
            first = next(blocks, None)
        while self.events and not self._call("engine.end").results[0]:
            self.collect(sink)
        self.collect(sink)

    def blocks(self) -> Iterator[Events]:
        """The data; with its first block it is known how orders fill."""
        blocks = self.feed.events()
        first = next(blocks, None)
        self.fills = self.options.fills or ("touch" if self.feed.has_book else "next")
        self.desk.set_up(self.options, self.fills)
        if first is not None:
            yield first
            yield from blocks

    def begin(self, first: Events) -> None:
        """The start of the run, before its first block."""
        self._call("engine.begin", int(first["ts"][0]))

    def take(self, events: Events, sink: Sink) -> None:
        """A block, its records collected only where there are many, which costs less than few at a time."""
        for _ in self.block(events):
            if self.desk["out"]["full"]:
                self.collect(sink)

    def block(self, events: Events, around: Callable[[bool], Any] = lambda inside: None) -> Iterator[None]:
        """Hands a block to the engine; gives control back where records must be collected, and at the end. `around` is told when native
        code begins and ends."""
        words = np.ascontiguousarray(events).view(np.uint64).reshape(-1)
        assert words.size == events.size * WORDS
        done = 0
        while done < events.size:
            done = int(self._call("engine.run", words, events.size, done, around=around).results[0])
            yield
        self.events += events.size

    def _call(self, name: str, *arguments: Any, around: Callable[[bool], Any] = lambda inside: None) -> Outcome:
        function = self.strategy.linked[name]
        started = perf_counter()
        around(True)
        outcome = function.run([self.desk.memory, self.desk.state, *arguments])
        around(False)
        self.inside += perf_counter() - started
        if outcome.fault is not None:
            raise ZyntaxError(of_engine(outcome.fault, self.strategy.linked))
        if outcome.caught is not None and self.failure is None and self.desk["halted"]:
            files = [source.name for source in self.feed.sources]
            self.failure = halted(outcome.caught, self.strategy.linked, self.desk, files)
        return outcome

    def collect(self, sink: Sink) -> None:
        """What was recorded and found bad since the last time."""
        for name, records in self.desk.collect():
            if name == "latency":
                records["ns"] = _clock().nanoseconds(records["ns"])
            if name == "crossed":
                sink.add_bad_rows(self.crossed.rows(records))
            elif name == "log":
                sink.add_log(log_rows(records, self.strategy.facts))
            else:
                sink.add(name, records)
        if lost := self.desk.lost():
            counts = ", ".join(f"{count} {name}" for name, count in lost.items())
            hint = "send fewer orders in one handler"
            message = f"one event made more records than are kept for it: {counts} are lost"
            raise ZyntaxError(Diagnostic("0812", message, hint=hint))
        self._collect_rows(sink)

    def _collect_rows(self, sink: Sink) -> None:
        """Rows that the engine refused, then those that were refused as they were read."""
        for _, records in self.desk.collect("crossed"):
            sink.add_bad_rows(self.crossed.rows(records))
        sink.add_bad_rows(self.feed.found_bad())


def _clock() -> Any:
    from quantdsl.run.clock import clock

    return clock()


def _size(step: tuple[int, int]) -> Decimal:
    return Decimal(step[1]).scaleb(-step[0])


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "stopped by hand"
    if isinstance(error, ZyntaxError):
        return error.diagnostics[0].message
    return str(error) or type(error).__name__


@contextmanager
def _written() -> Iterator[None]:
    """Outputs that can't be written, and packages that are missing, become a message."""
    try:
        yield
    except PackageMissing as missing:
        raise ZyntaxError(package_missing(missing)) from None
    except OutputFault as error:
        raise ZyntaxError(Diagnostic("0807", f"`{error.path}` can't be written: {error.reason.lower()}")) from None
