"""Runs strategies over events written by hand: compiled for latency and at O0, linked with the engine, and on request in the interpreter;
all must leave the same memory and the same records."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import link_modules
from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.layout import new_memory
from compiler.hir.merge import merged
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.verify import verify
from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.elaborate.strategies import elaborate_strategy
from quantdsl.engine.layout import COLLECTED
from quantdsl.metadata import StrategyMetadata
from quantdsl.parse import parse_source
from quantdsl.run.engine_state import EngineState
from quantdsl.run.options import RunOptions
from runtime.replay.events import EventKind, Events, Flag, MarketSide, empty
from tests.quantdsl.whole_engine import compiled_engine, whole_engine

ES = """currency USD { scale 8 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50 }
risk Desk for ES { max_position 1000lots }
"""
SECOND = 10**9
LEVELS = (OptimizationLevel.OLATENCY, OptimizationLevel.O0)
SIDES = {"buy": MarketSide.BUY, "sell": MarketSide.SELL, None: MarketSide.NONE}
Row = dict[str, Any]


def trade(ts: int, price: int, qty: int = 1, side: str | None = None, id: int = 0) -> Row:
    return {"ts": ts, "kind": EventKind.TRADE, "price": price, "qty": qty, "side": SIDES[side], "id": id}


def quote(ts: int, bid: int, ask: int, bid_qty: int = 10, ask_qty: int = 10) -> Row:
    return {"ts": ts, "kind": EventKind.QUOTE, "price": bid, "qty": bid_qty, "price2": ask, "qty2": ask_qty}


def level(ts: int, side: str, price: int, qty: int, last: bool = True) -> Row:
    return {"ts": ts, "kind": EventKind.BOOK_LEVEL, "side": SIDES[side], "price": price, "qty": qty, "flags": Flag.LAST if last else 0}


def events(rows: Iterable[Row]) -> Events:
    made = list(rows)
    found = empty(len(made))
    found["flags"] = Flag.LAST
    for number, row in enumerate(made):
        found[number]["row"] = number + 1
        for name, value in row.items():
            found[number][name] = value
    return found


def elaborated(text: str, name: str | None = None) -> tuple[HirModule, StrategyMetadata]:
    source = Source("p.qdsl", text)
    checked = check_program(parse_source(source))
    checked.diagnostics.raise_errors()
    module, metadata = elaborate_strategy(checked, name, source)
    verify(module)
    return module, metadata


class Ran:
    """What a run left: states by name, the desk, all records; `caught`: what a handler failed with."""

    def __init__(self, desk: EngineState, state: Any, records: dict[str, list[Any]], caught: Any) -> None:
        self.desk, self.state, self.records, self.caught = desk, state, records, caught

    def __getitem__(self, name: str) -> Any:
        """A state: None for none, a tuple for what has parts."""
        return _plain(self.state[f"state.{name}"])


def _plain(value: Any) -> Any:
    names = getattr(getattr(value, "dtype", None), "names", None)
    if names == ("present", "value"):
        return _plain(value["value"]) if value["present"] else None
    if names is not None:
        return tuple(_plain(value[name]) for name in names)
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


class Stand:
    """A strategy, compiled."""

    def __init__(self, text: str, interpret: bool = False) -> None:
        self.module, self.metadata = elaborated(text)
        self.linked = [link_modules([compiled_engine(one), compile_module(self.module, one)]) for one in LEVELS]
        self.interpreted = merged(whole_engine(), self.module) if interpret else None
        self.translated: dict[str, Callable[..., Any]] = {}
        self.failed: list[Any] = []

    def __call__(self, rows: Sequence[Row], **options: Any) -> Ran:
        first, *others = [self._run(linked, rows, options) for linked in (*self.linked, *([None] if self.interpreted else []))]
        for other in others:
            assert first.state.tobytes() == other.state.tobytes()
            assert first.records == other.records
            assert first.desk["position"].tobytes() == other.desk["position"].tobytes()
            assert first.caught == other.caught
        return first

    def _run(self, linked: Any, rows: Sequence[Row], options: dict[str, Any]) -> Ran:
        desk = EngineState(self.metadata)
        options = dict(options)
        fills = options.pop("fills", "touch")
        desk.set_up(RunOptions(data=(), **options), fills)
        state = new_memory(self.module.functions["on.start"].parameters[1].type.pointee)  # type: ignore[attr-defined]
        records: dict[str, list[Any]] = {name: [] for name in COLLECTED}
        caught: list[Any] = []

        def call(name: str, *arguments: Any) -> Any:
            given = [desk.memory, state, *arguments]
            if linked is None:
                assert self.interpreted is not None
                function = self.interpreted.functions[name]
                if name not in self.translated:
                    self.translated[name] = finish(Translator(function, self.interpreted), {}, {"caught": self.failed})
                self.failed.clear()
                results = self.translated[name](*prepare(function, given))
                caught.extend((f.code, f.values) for f in self.failed)
                results = tuple(results or ())
            else:
                outcome = linked[name].run(given)
                assert outcome.fault is None, linked.site(outcome.fault)
                results = outcome.results
                if outcome.caught is not None:
                    caught.append((outcome.caught.code, outcome.caught.values))
            for table, found in desk.collect():
                if table != "latency":
                    records[table] += [tuple(map(_plain, row)) for row in found.tolist()]
            return results[0] if results else None

        block = events(rows)
        call("engine.begin", int(block["ts"][0]))
        words, done = block.view(np.uint64).reshape(-1), 0
        while done < len(block):
            done = call("engine.run", words, len(block), done)
        while not call("engine.end"):
            pass
        return Ran(desk, state[0], records, caught)
