"""The replay: all of the data through the engine, its records into outputs, and in the end a summary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from attrs import field

from compiler.backends.native.stopping import stoppable
from compiler.codes.packages import package_missing, pictures_left_out
from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.data_faults import told
from quantdsl.run.audit import Audit
from quantdsl.run.engine_run import EngineRun, Sink
from quantdsl.run.foreign import foreign_notes, require_rows
from quantdsl.run.machine import pinned
from quantdsl.run.totals import run_of, totals_of
from runtime.extras import PackageMissing
from runtime.records import define, frozen
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
    left_out: tuple[Diagnostic, ...] = ()
    """Notes on outputs that a package is missing for."""


@define
class Replay(EngineRun):
    """One run of a strategy with its outputs, to be used once."""

    tell: Callable[[ReplayProgress], None] = field(default=lambda progress: None)
    audit: Audit | None = None
    not_pinned: str | None = field(init=False, default=None)
    """Why the thread isn't on the core that the program asks for."""

    def run(self, make: Callable[[RunDescription], Sink]) -> Ending:
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
                summary = sink.finish(totals_of(self, self.audit, self.not_pinned, perf_counter() - started))
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

    def _all(self, sink: Sink, about: RunDescription, started: float) -> None:
        blocks = self.blocks()
        first = next(blocks, None)
        about.settings["fills"] = self.fills
        if first is not None:
            self.begin(first)
        shown = kept = started
        while first is not None:
            self.take(first, sink)
            # here, and not when it is time to collect: which bad row comes first must not hang on the clock
            self.collect_rows(sink)
            now = perf_counter()
            if now - shown >= self.options.progress_every:
                shown = now
                self.collect(sink)
                self.tell(ReplayProgress(self.events, int(first["ts"][-1]), now - started, self.feed.share))
            if now - kept >= self.options.checkpoint_every:
                self.collect(sink)
                sink.checkpoint()
                kept = perf_counter()
            first = next(blocks, None)
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
