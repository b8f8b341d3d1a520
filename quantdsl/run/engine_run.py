"""Blocks of events into the engine, records out of it. No Python runs for single events."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from attrs import field

from compiler.backends.native.link import RunOutcome
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.run.crossed import Crossed
from quantdsl.run.desk import Desk
from quantdsl.run.failure import halted, of_engine
from quantdsl.run.log import log_rows
from quantdsl.run.options import RunOptions
from quantdsl.run.program import LinkedStrategy
from runtime.extras import PackageMissing
from runtime.records import define
from runtime.replay.bad_rows import BadRow, CrossedRows
from runtime.replay.batches import DataSource
from runtime.replay.events import EVENT, Events
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.outputs.records import LogRow, Records
from runtime.replay.outputs.summary import Summary, Totals
from runtime.replay.rules import Rules

WORDS = EVENT.itemsize // 8


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


@define
class EngineRun:
    """One passage of data through the engine, to be used once."""

    strategy: LinkedStrategy
    options: RunOptions
    desk: Desk = field(init=False)
    feed: Feed = field(init=False)
    failure: Diagnostic | None = field(init=False, default=None)
    events: int = field(init=False, default=0)
    inside: float = field(init=False, default=0.0)
    """Seconds in the engine."""
    fills: str = field(init=False, default="next")
    crossed: Crossed = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.desk = Desk(self.strategy.facts)
        market, options = self.strategy.facts.market, self.options
        listing = Listing(market.name, _size(market.tick), _size(market.lot))
        sources = [
            DataSource(one.path, stream, (listing,), one.symbol, dict(one.mapped), one.table) for stream, one in enumerate(options.data)
        ]
        window = {name: value for name, value in (("begin", options.begin), ("end", options.end)) if value is not None}
        self.feed = Feed(sources, Rules(reorder=options.reorder, skip=options.skip, **window))
        self.crossed = Crossed(sources)

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
        self.call("engine.begin", int(first["ts"][0]))

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
            done = int(self.call("engine.run", words, events.size, done, around=around).results[0])
            yield
        self.events += events.size

    def call(self, name: str, *arguments: Any, around: Callable[[bool], Any] = lambda inside: None) -> RunOutcome:
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
        self.collect_rows(sink)

    def collect_rows(self, sink: Sink) -> None:
        """Rows that the engine refused, then those that were refused as they were read."""
        for _, records in self.desk.collect("crossed"):
            sink.add_bad_rows(self.crossed.rows(records))
        sink.add_bad_rows(self.feed.found_bad())


def _clock() -> Any:
    from quantdsl.run.clock import clock

    return clock()


def _size(step: tuple[int, int]) -> Decimal:
    return Decimal(step[1]).scaleb(-step[0])
