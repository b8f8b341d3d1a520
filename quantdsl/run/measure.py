"""`zyntax bench s.qdsl`: how long a strategy takes for an event, with everything around it: book, orders, fills, accounting, records.

The events are read once and lie in memory; they are repeated, later each time and each time from an empty book, until there are enough.
Means come from whole runs without any timing inside. Percentiles come from a run that is timed from compiled code, batches of 16 events
at a time, and from single handlers, each with the timer's own cost subtracted."""

from statistics import median
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.backends.native import kept
from compiler.backends.native.link import Linked, link_modules
from compiler.hir.native_expressions import minimum
from quantdsl.data_faults import told
from quantdsl.engine.interface import EVENTS, OF_RUNNER
from quantdsl.run.clock import CycleClock, clock
from quantdsl.run.engine_run import EngineRun, feed_of
from quantdsl.run.options import RunOptions, fills_of, refused
from quantdsl.run.program import LinkedStrategy
from runtime.cache.store import store
from runtime.records import evolve, frozen
from runtime.replay.events import EventKind, Events, Flag, empty
from runtime.replay.outputs.records import I64, Records

BATCH = 16
BLOCK = 1 << 20
"""Events that the engine is given at a time."""
PERCENTILES = (50.0, 99.0, 99.9)


@frozen
class MeasuredRun:
    """`events` of one run, which are those of the `sample` repeated; `nanoseconds`: the mean of an event, one for each round; `batches`: of
    an event, one for each batch of 16; `handlers`: by event, one for each call that was sampled."""

    events: int
    sample: int
    rows_per_second: float
    nanoseconds: list[float]
    batches: npt.NDArray[np.float64]
    handlers: dict[str, npt.NDArray[np.float64]]
    fills: str
    clock: CycleClock

    def figures(self) -> dict[str, Any]:
        """All numbers, for JSON: ns, events a second."""
        mean = median(self.nanoseconds)
        return {
            "events": self.events,
            "sample": self.sample,
            "rows_read_per_s": round(self.rows_per_second),
            "ns_per_event": round(mean, 2),
            "ns_per_event_best": round(min(self.nanoseconds), 2),
            "events_per_s": round(1e9 / mean),
            "batches_of_16_ns_per_event": _percentiles(self.batches),
            "handlers_ns_per_call": {event: _percentiles(times) for event, times in self.handlers.items()},
            "timer_subtracted_ns": round(self.clock.cost * self.clock.cycle, 2),
            "timer_resolution_ns": round(self.clock.step * self.clock.cycle, 2),
        }


def measure(strategy: LinkedStrategy, options: RunOptions, least: int, rounds: int) -> MeasuredRun:
    """Raises ZyntaxError for bad data, or none."""
    reading = _read(strategy, options)
    if len(reading.sample) < BLOCK:
        # what reads is compiled by now
        reading = _read(strategy, options)
    if not reading.sample.size:
        raise refused("there is nothing to measure: the data has no events")
    events = repeated(reading.sample, least)
    plain = evolve(options, fills=reading.fills, sample=0, data=())
    _round(strategy, plain, events[: min(len(events), 1 << 16)])
    means = [_round(strategy, plain, events)[0] * 1e9 / len(events) for _ in range(rounds)]
    handlers = _round(strategy, evolve(plain, sample=64), events)[1]
    batches = _batches(strategy, plain, events)
    return MeasuredRun(
        events=len(events),
        sample=len(reading.sample),
        rows_per_second=reading.rows / max(reading.seconds, 1e-9),
        nanoseconds=means,
        batches=batches,
        handlers=handlers,
        fills=reading.fills,
        clock=clock(),
    )


@frozen
class _Reading:
    """All events of the data, the rows that they stood in, how orders fill on them, and the seconds of the processor that reading took."""

    sample: Events
    rows: int
    fills: str
    seconds: float


def _read(strategy: LinkedStrategy, options: RunOptions) -> _Reading:
    feed = feed_of(strategy.metadata.market, options)
    started = process_time()
    with told():
        opened = feed.opened()
        blocks = list(opened.blocks)
    return _Reading(
        sample=np.concatenate([empty(0), *blocks]),
        rows=sum(tally.rows for tally in feed.tallies),
        fills=fills_of(options, opened.has_book),
        seconds=process_time() - started,
    )


def repeated(events: Events, least: int) -> Events:
    """At least so many, the sample again and again."""
    clear = empty(1)
    clear["ts"], clear["kind"], clear["flags"] = events["ts"][0], EventKind.BOOK_CLEAR, Flag.LAST
    one = np.concatenate([clear, events]) if (events["kind"] != EventKind.TRADE).any() else events
    turns = max(1, -(-least // len(one)))
    made = np.tile(one, turns)
    made["ts"] += np.repeat(np.arange(turns) * (int(one["ts"][-1] - one["ts"][0]) + 1_000_000), len(one))
    return made


def _round(strategy: LinkedStrategy, options: RunOptions, events: Events) -> tuple[float, dict[str, npt.NDArray[np.float64]]]:
    """Seconds of the processor, and what handlers took where they are sampled, by event."""
    replay = _prepared(strategy, options, events)
    found: list[Records] = []
    started = process_time()
    for first in range(0, len(events), BLOCK):
        for _ in replay.block(events[first : first + BLOCK]):
            for name, records in replay.engine.collect():
                if name == "latency":
                    found.append(records[["handler", "ns"]].copy())
    seconds = process_time() - started
    sampled = np.concatenate(found) if found else np.empty(0, [("handler", np.uint32), ("ns", np.float64)])
    of = {number: clock().nanoseconds(sampled["ns"][sampled["handler"] == number]) for number in np.unique(sampled["handler"])}
    return seconds, {EVENTS[number]: times for number, times in of.items()}


def _prepared(strategy: LinkedStrategy, options: RunOptions, events: Events) -> EngineRun:
    """`options`: without data, and with a way of filling."""
    replay = EngineRun(strategy, options)
    replay.start(fills_of(options, has_book=False), int(events["ts"][0]))
    return replay


# ---- batches, timed from compiled code ----


def _batches(strategy: LinkedStrategy, options: RunOptions, events: Events) -> npt.NDArray[np.float64]:
    """Of an event, one for each whole batch of 16."""
    replay, timed = _prepared(strategy, options, events), _timed(strategy)
    cycles: I64 = np.zeros(len(events) // BATCH + 1, np.int64)
    whole = np.ascontiguousarray(events)
    done = number = 0
    while done < len(events):
        held = [replay.engine.memory, replay.engine.state, whole, len(events), done, cycles, cycles.size, number]
        done, number = (int(found) for found in timed["measure.batches"].run(held).results)
        for _ in replay.engine.collect():
            pass
    found: npt.NDArray[np.float64] = clock().nanoseconds(cycles[:number]) / BATCH
    return found


def _timed(strategy: LinkedStrategy) -> Linked:
    """The strategy's code and the engine's, with the function that times them."""
    cache, key = store(), kept.key("measure")
    found = kept.found(cache, key)
    if found is None:
        from compiler.backends.native.compile import compile_module

        found = kept.keep(cache, key, compile_module(_program()))
    return link_modules([*strategy.modules, found])


def _program() -> Any:
    """`measure.batches` runs batches until the engine stops for records: gives how many events are done and how many batches timed."""
    from compiler.hir.native_build import ModuleBuilder
    from compiler.hir.native_types import I64 as WORD
    from compiler.hir.types import Array, Pointer

    program, run = ModuleBuilder("measure"), OF_RUNNER["engine.run"]
    program.imported("engine.run", run.whole(), run.results)
    own = {"cycles": Pointer(Array(WORD, None)), "room": WORD, "number": WORD}
    with program.function("measure.batches", {**run.whole(), **own}, [WORD, WORD]) as b:
        engine, state, events, count, first, cycles, room, before = b.parameters
        at, number = b.variable(first), b.variable(before)
        with b.repeat():
            begin = at.value
            with b.when(begin >= count):
                b.break_()
            end = minimum(begin.wrapping_add(BATCH), count)
            started = b.cycles()
            (done,) = b.call("engine.run", engine, state, events, end, begin)
            took = b.cycles().wrapping_sub(started)
            at.value = done
            with b.when(done < end):
                b.break_()
            with b.when(end.wrapping_sub(begin) == BATCH):
                b.store(b.row(cycles, number.value, room), took.cast("i64"))
                number.value = number.value.wrapping_add(1)
        b.ret(at.value, number.value)
    return program.module


def _percentiles(values: npt.NDArray[np.float64]) -> dict[str, float] | None:
    """Values that were there: the least that so many don't exceed."""
    if not values.size:
        return None
    found = np.percentile(values, PERCENTILES, method="inverted_cdf")
    named = {f"p{share:g}": round(float(value), 2) for share, value in zip(PERCENTILES, found, strict=True)}
    return {**named, "max": round(float(values.max()), 2)}
