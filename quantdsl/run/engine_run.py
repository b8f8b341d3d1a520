"""Blocks of events into the engine, records out of it. No Python runs for single events."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from compiler.backends.native.link import RunOutcome
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.metadata import Market
from quantdsl.readers.decoders import NativeDecoders
from quantdsl.run.crossed import Crossed
from quantdsl.run.engine_state import EngineState
from quantdsl.run.failure import halted, of_engine
from quantdsl.run.log import log_rows
from quantdsl.run.options import RunOptions
from quantdsl.run.program import LinkedStrategy
from runtime.records import define, field
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
    def stop(self, reason: str) -> None: ...


@define
class EngineRun:
    """One passage of data through the engine, to be used once."""

    strategy: LinkedStrategy
    options: RunOptions
    engine: EngineState = field(init=False)
    feed: Feed = field(init=False)
    failure: Diagnostic | None = field(init=False, default=None)
    events: int = field(init=False, default=0)
    inside: float = field(init=False, default=0.0)
    """Seconds in the engine."""
    crossed: Crossed = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.engine = EngineState(self.strategy.metadata)
        self.feed = feed_of(self.strategy.metadata.market, self.options)
        self.crossed = Crossed(self.feed.sources)

    def start(self, fills: str, begin: int | None) -> None:
        """Before the first block: writes all settings (orders fill as `fills` says) and tells the engine the time of the first event, if
        there are events."""
        self.engine.set_up(self.options, fills)
        if begin is not None:
            self.call("engine.begin", begin)

    def take(self, events: Events, sink: Sink) -> None:
        """A block, its records collected only where there are many, which costs less than few at a time."""
        for _ in self.block(events):
            if self.engine["out"]["full"]:
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
        outcome = function.run([self.engine.memory, self.engine.state, *arguments])
        around(False)
        self.inside += perf_counter() - started
        if outcome.fault is not None:
            raise ZyntaxError(of_engine(outcome.fault, self.strategy.linked))
        if outcome.caught is not None and self.failure is None and self.engine["halted"]:
            files = [source.name for source in self.feed.sources]
            self.failure = halted(outcome.caught, self.strategy.linked, self.engine, files)
        return outcome

    def collect(self, sink: Sink) -> None:
        """What was recorded and found bad since the last time."""
        for name, records in self.engine.collect():
            if name == "latency":
                records["ns"] = _clock().nanoseconds(records["ns"])
            if name == "crossed":
                sink.add_bad_rows(self.crossed.rows(records))
            elif name == "log":
                sink.add_log(log_rows(records, self.strategy.metadata))
            else:
                sink.add(name, records)
        if lost := self.engine.lost():
            counts = ", ".join(f"{count} {name}" for name, count in lost.items())
            hint = "send fewer orders in one handler"
            message = f"one event made more records than are kept for it: {counts} are lost"
            raise ZyntaxError(Diagnostic("0812", message, hint=hint))
        self.collect_rows(sink)

    def collect_rows(self, sink: Sink) -> None:
        """Rows that the engine refused, then those that were refused as they were read."""
        for _, records in self.engine.collect("crossed"):
            sink.add_bad_rows(self.crossed.rows(records))
        sink.add_bad_rows(self.feed.found_bad())


def feed_of(market: Market, options: RunOptions) -> Feed:
    """The data of a run, of which nothing is read yet."""
    listing = Listing(market.name, _size(market.tick), _size(market.lot))
    sources = [
        DataSource(file.path, stream, (listing,), file.symbol, dict(file.mapped), file.table) for stream, file in enumerate(options.data)
    ]
    window = {name: value for name, value in (("begin", options.begin), ("end", options.end)) if value is not None}
    return Feed(sources, NativeDecoders(), Rules(reorder=options.reorder, skip=options.skip, **window))


def _clock() -> Any:
    from quantdsl.run.clock import clock

    return clock()


def _size(step: tuple[int, int]) -> Decimal:
    return Decimal(step[1]).scaleb(-step[0])
