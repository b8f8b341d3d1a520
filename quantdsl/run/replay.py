"""The replay: all of the data through the engine, its records into outputs, and in the end a summary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from compiler.backends.native.stopping import stoppable
from compiler.codes.packages import package_missing
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.data_faults import told
from quantdsl.run.audit import Audit
from quantdsl.run.engine_run import EngineRun, Sink
from quantdsl.run.foreign import foreign_notes, require_rows
from quantdsl.run.machine import pinned
from quantdsl.run.options import fills_of
from quantdsl.run.totals import run_of, settings_of, totals_of
from runtime.extras import PackageMissing
from runtime.records import define, field, frozen
from runtime.replay.events import Events
from runtime.replay.outputs.files import OutputFault
from runtime.replay.outputs.records import RunDescription
from runtime.replay.outputs.summary import Summary


@frozen
class ReplayProgress:
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


@define
class Replay(EngineRun):
    """One run of a strategy with its outputs, to be used once."""

    tell: Callable[[ReplayProgress], None] = field(default=lambda progress: None)
    audit: Audit | None = None

    def run(self, make: Callable[[RunDescription], Sink]) -> Ending:
        """Replays everything into what `make` gives. Raises ZyntaxError: for bad data, outputs that can't be written; whatever stops a
        run, its outputs so far are marked partial."""
        started, metadata = perf_counter(), self.strategy.metadata
        with _written():
            sink = make(run_of(self.strategy, self.options))
            try:
                with told(), stoppable(), pinned(metadata.affinity) as not_pinned:
                    opened = self.feed.opened()
                    fills = fills_of(self.options, opened.has_book)
                    self.start(fills, opened.begin)
                    self._replay(opened.blocks, sink, started)
                require_rows(self.feed, self.options, metadata.market.name)
                settings = settings_of(metadata, self.options, fills)
                summary = sink.finish(totals_of(self, settings, self.audit, not_pinned, perf_counter() - started))
            except BaseException as error:
                with suppress(OutputFault, ZyntaxError):
                    self.collect(sink)
                with suppress(OutputFault):
                    sink.stop(_reason(error))
                raise
        notes = (*((not_pinned,) if not_pinned else ()), *foreign_notes(self.feed, metadata.market.name))
        return Ending(summary, self.failure, notes)

    def _replay(self, blocks: Iterator[Events], sink: Sink, started: float) -> None:
        """All blocks through the engine, then the end of the run. Seconds of progress count from `started`."""
        shown = kept = started
        for events in blocks:
            self.take(events, sink)
            # here, and not when it is time to collect: which bad row comes first must not hang on the clock
            self.collect_rows(sink)
            now = perf_counter()
            if now - shown >= self.options.progress_every:
                shown = now
                self.collect(sink)
                self.tell(ReplayProgress(self.events, int(events["ts"][-1]), now - started, self.feed.share))
            if now - kept >= self.options.checkpoint_every:
                self.collect(sink)
                sink.checkpoint()
                kept = perf_counter()
        while self.events and not self.call("engine.end").results[0]:
            self.collect(sink)
        self.collect(sink)


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
