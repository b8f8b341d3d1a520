"""How long an event takes in a replay: the book alone, the whole loop without handlers, with a small strategy's handlers, and with a
program of `programs/quantdsl` that trades, where there is one for the data.

    python -m bench.replay [--only book|loop|watch|program] [--data NAME ...] [--events 2000000] [--rounds 7] [--json FILE]

Nanoseconds of processor time an event: the median of the rounds and the fastest one. A round is one call of compiled code
over the events in memory, from an empty book; files are repeated, with their book cleared between, until there are enough. Reading files
isn't part of it."""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import link_modules
from compiler.hir.layout import new_memory
from compiler.hir.module import HirModule
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import F64, I1, I64, struct
from compiler.hir.types import Array, Pointer
from compiler.source import Sources
from quantdsl.engine.book import define_book
from quantdsl.engine.build import engine_module
from quantdsl.engine.interface import EVENTS, HANDLERS, OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import BOOK, ENGINE_STATE, EVENT
from quantdsl.readers.decoders import NativeDecoders
from quantdsl.run.engine_state import EngineState
from quantdsl.run.open import CompileRequest, open_strategy
from quantdsl.run.options import RunOptions
from quantdsl.run.program import LinkedStrategy
from runtime.replay.batches import DataSource
from runtime.replay.events import EVENT as RECORD
from runtime.replay.events import EventKind, Events, Flag
from runtime.replay.feed import Feed
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

FILES = {
    "binance depth": ("btcusdt_spot_20240808.jsonl.gz", Listing("BTCUSDT", "0.01", "0.00001")),
    "binance trades": ("btcusdt_spot_20240808_trades.csv", Listing("BTCUSDT", "0.01", "0.00001")),
    "itch": ("sim_20101224.itch50.gz", Listing("ALC", "0.0001", "1")),
    "hyperliquid": ("btc_hyperliquid_l2book_20250126.jsonl.gz", Listing("BTC", "1", "0.00001")),
}
PROGRAMS = Path(__file__).parents[1] / "programs" / "quantdsl"
DATA = PROGRAMS.parent / "data"
PARTS = ("book", "loop", "watch", "program")
TRADING = {"binance depth": ("market_maker", "queue"), "binance trades": ("ema_cross", "next")}
"""Programs, and how their orders fill."""


# ---- what is replayed -----------------------------------------------------------------------------------------------------------


def of_file(name: str) -> Events:
    file, listing = FILES[name]
    return np.concatenate(list(Feed([DataSource(DATA / file, 0, (listing,), listing.name)], NativeDecoders(), Rules(skip=True)).events()))


def trades(count: int, rng: np.random.Generator) -> Events:
    made = _events(count, rng, EventKind.TRADE)
    made["price"] = 1_000_000 + np.cumsum(rng.integers(-2, 3, count))
    made["qty"], made["side"] = rng.integers(1, 1000, count), rng.integers(1, 3, count)
    return made


def quotes(count: int, rng: np.random.Generator) -> Events:
    made = _events(count, rng, EventKind.QUOTE)
    made["price"] = 1_000_000 + np.cumsum(rng.integers(-1, 2, count))
    made["price2"] = made["price"] + rng.integers(1, 4, count)
    made["qty"], made["qty2"] = rng.integers(1, 1000, (2, count))
    return made


def levels(count: int, rng: np.random.Generator) -> Events:
    """Updates of a book of 20 levels a side around a price that wanders, most of them near the best."""
    made = _events(count, rng, EventKind.BOOK_LEVEL)
    mid = 1_000_000 + np.cumsum(rng.random(count) < 0.01) * 2 - np.cumsum(rng.random(count) < 0.01) * 2
    away = np.minimum(rng.geometric(0.2, count), 20)
    made["side"] = rng.integers(1, 3, count)
    made["price"] = np.where(made["side"] == 1, mid - away, mid + away)
    made["qty"] = np.where(rng.random(count) < 0.3, 0, rng.integers(1, 1000, count))
    return made


def orders(count: int, rng: np.random.Generator) -> Events:
    """Single orders, some 5000 of them at a time: they come near the best, and leave by a cancel, an execution or a replacement."""
    made = _events(count, rng, EventKind.ADD)
    sides, away, choices = rng.integers(1, 3, count).tolist(), rng.geometric(0.1, count).tolist(), rng.random((count, 2)).tolist()
    known: list[int] = []
    for number in range(count):
        record, (choice, which) = made[number], choices[number]
        if len(known) < 5000 or choice < 0.4:
            price = 1_000_000 - away[number] if sides[number] == 1 else 1_000_000 + away[number]
            record["side"], record["price"], record["qty"], record["id"] = sides[number], price, 100, number + 1
            known.append(number + 1)
            continue
        place = int(which * len(known))
        known[place], known[-1] = known[-1], known[place]
        record["id"] = known.pop()
        record["kind"] = EventKind.DELETE if choice < 0.8 else EventKind.EXECUTE
        record["qty"] = 100
    return made


def _events(count: int, rng: np.random.Generator, kind: EventKind) -> Events:
    made = np.zeros(count, RECORD)
    made["kind"], made["flags"] = kind, Flag.LAST
    made["ts"] = 1_700_000_000_000_000_000 + np.cumsum(rng.integers(100, 20_000, count))
    return made


SYNTHETIC = {"trades": trades, "quotes": quotes, "levels": levels, "orders": orders}


def repeated(events: Events, least: int) -> Events:
    """Again and again, later each time, from an empty book."""
    clear = np.zeros(1, RECORD)
    clear["kind"], clear["flags"] = EventKind.BOOK_CLEAR, Flag.LAST
    parts, length = [], int(events["ts"][-1] - events["ts"][0]) + 1
    for turn in range(-(-least // len(events))):
        clear["ts"] = events["ts"][0] + turn * length
        later = events.copy()
        later["ts"] += turn * length
        parts += [clear.copy(), later]
    return np.concatenate(parts)


# ---- what runs ----------------------------------------------------------------------------------------------------------------------

STATE = struct("watching", fast=F64, slow=F64, crossed=I64, above=I1, pressure=F64)


def book_module() -> HirModule:
    program = ModuleBuilder("book")
    define_book(program)
    with program.function("feed", {"book": Pointer(BOOK), "events": Pointer(Array(EVENT, None)), "count": I64}) as b:
        book, events, count = b.parameters
        with b.loop(0, count) as i:
            event = b.row(events, i, count)
            kind = event.kind
            with b.when((kind >= int(EventKind.QUOTE)) & (kind <= int(EventKind.GAP))):
                b.call("book.take", book, event, False)
    return program.module


def watching_module() -> HirModule:
    """Two averages of trades and their crossings; of books the mid and the imbalance of five levels."""
    program = ModuleBuilder("watching")
    for name in ("engine.mid", "engine.imbalance"):
        program.imported(name, OF_ENGINE[name].whole(STATE), OF_ENGINE[name].results)
    asked = OF_PROGRAM["risk.asked"]
    with program.function("risk.asked", asked.whole(STATE), asked.results):
        pass
    for name, signature in HANDLERS.items():
        with program.function(name, signature.whole(STATE)) as b:
            if name == "on.trade":
                desk, state = b.parameters[:2]
                _cross(state, desk.trade.price.cast("f64"))
            elif name == "on.book":
                desk, state = b.parameters[:2]
                there, mid = b.call("engine.mid", desk, state)
                (pressure,) = b.call("engine.imbalance", desk, state, 5)
                with b.when(there):
                    _cross(state, mid.cast("f64"))
                    state.pressure += pressure
    return program.module


def _cross(state: Any, x: Any) -> None:
    for name, weight in (("fast", 2 / 13), ("slow", 2 / 27)):
        held = state[name]
        state[name] = held + (x - held) * weight
    above = state.fast > state.slow
    state.crossed += (above & ~state.above).cast("i64")
    state.above = above


Run = Callable[[Events], Iterator[None]]
"""Sets up, gives back where timing begins, and runs to its end."""


def book_run() -> Run:
    feed = compile_module(book_module())["feed"]

    def run(events: Events) -> Iterator[None]:
        book = new_memory(BOOK)
        yield
        assert feed.run([book, events, len(events)]).fault is None

    return run


def engine_run(handles: tuple[str, ...]) -> Run:
    functions = link_modules([compile_module(engine_module()), compile_module(watching_module())])

    def run(events: Events) -> Iterator[None]:
        desk, state = new_memory(ENGINE_STATE), new_memory(STATE)
        settings = desk[0]["settings"]
        settings["fills"], settings["tick_value"] = 1, 1
        settings["handles"] = sum(1 << EVENTS.index(name) for name in handles)
        for side in ("maker", "taker"):
            settings[side]["denominator"] = 1
        assert functions["engine.begin"].run([desk, state, int(events["ts"][0])]).fault is None
        yield
        outcome = functions["engine.run"].run([desk, state, events, len(events), 0])
        assert outcome.fault is None and outcome.results == (len(events),)

    return run


def without_limits(strategy: LinkedStrategy) -> LinkedStrategy:
    """Data that is repeated meets the limits of a strategy's losses, and from then on all its orders would be refused."""
    settings = strategy.metadata.settings
    high = {f"{rule}.value": 1 << 62 for rule in ("max_loss", "max_drawdown") if f"{rule}.value" in settings}
    return evolve(strategy, metadata=evolve(strategy.metadata, settings={**settings, **high}))


def program_run(name: str, fills: str) -> Run:
    """Records are taken out as the command does, but not written."""
    strategy = without_limits(open_strategy(str(PROGRAMS / f"{name}.qdsl"), CompileRequest(), Sources()))

    def run(events: Events) -> Iterator[None]:
        desk, done = EngineState(strategy.metadata), 0
        desk.set_up(RunOptions(()), fills)
        assert strategy.linked["engine.begin"].run([desk.memory, desk.state, int(events["ts"][0])]).fault is None
        yield
        while done < len(events):
            outcome = strategy.linked["engine.run"].run([desk.memory, desk.state, events, len(events), done])
            assert outcome.fault is None and outcome.caught is None
            done = int(outcome.results[0])
            for _ in desk.collect():
                pass

    return run


def measure(run: Run, events: Events, rounds: int) -> list[float]:
    """Nanoseconds an event, of each round."""
    found = []
    for turn in range(rounds + 1):
        steps = run(events)
        next(steps)
        begin = time.thread_time_ns()
        for _ in steps:
            pass
        took = time.thread_time_ns() - begin
        if turn:  # the first one also meets its code and its memory
            found.append(took / len(events))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--data", nargs="*", default=[*SYNTHETIC, *FILES])
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    runs: dict[str, Callable[[], Run]] = {"book": book_run, "loop": lambda: engine_run(()), "watch": lambda: engine_run(("trade", "book"))}
    chosen = {name: make() for name, make in runs.items() if options.only in (None, name)}
    programs = options.only in (None, "program")
    rows: list[dict[str, Any]] = []
    print(f"{'data':<16}{'part':<8}{'events':>10}{'ns':>8}{'fastest':>9}{'M/s':>8}")
    for name in options.data:
        made = SYNTHETIC[name](min(options.events, 400_000), np.random.default_rng(1)) if name in SYNTHETIC else of_file(name)
        events = repeated(made, options.events)
        trading = {"program": program_run(*TRADING[name])} if programs and name in TRADING else {}
        for part, run in {**chosen, **trading}.items():
            times = measure(run, events, options.rounds)
            ns, fastest = statistics.median(times), min(times)
            print(f"{name:<16}{part:<8}{len(events):>10}{ns:>8.1f}{fastest:>9.1f}{1000 / ns:>8.1f}")
            rows.append({"data": name, "part": part, "events": len(events), "ns": round(ns, 2), "fastest": round(fastest, 2)})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
