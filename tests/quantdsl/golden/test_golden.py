"""The programs of `programs/quantdsl`, compiled, against the same strategies in plain Python on the reference engine: orders, fills, refusals
and the summary are equal; so are runs without optimisation, and interpreted ones."""

from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import quantdsl
from compiler.backends.native.link import RunOutcome
from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.merge import merged
from compiler.hir.module import HirModule
from compiler.source import Sources
from compiler.syntax.read import read_source
from quantdsl.engine.interface import OF_RUNNER
from quantdsl.readers.decoders import NativeDecoders
from quantdsl.run.open import CompileRequest, elaborated
from quantdsl.run.options import Input, RunOptions
from quantdsl.run.replay import Replay
from runtime.replay.batches import DataSource
from runtime.replay.feed import Feed
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.outputs.records import OrderOption
from runtime.replay.rules import Rules
from tests.quantdsl.golden.programs import DATA, GOLDEN
from tests.quantdsl.reference.as_records import as_records
from tests.quantdsl.reference.engine import Engine
from tests.quantdsl.whole_engine import whole_engine


@cache
def expected(name: str) -> tuple[Engine, Feed]:
    return GOLDEN[name].expected()


@cache
def compiled(name: str, level: str = "latency") -> Any:
    golden = GOLDEN[name]
    return quantdsl.compile(golden.path, level=level, **golden.settings).run(DATA / golden.data, end=golden.end, **golden.options)


@pytest.mark.parametrize("name", GOLDEN)
def test_orders_fills_and_refusals_are_the_references(name: str) -> None:
    engine, _ = expected(name)
    records, found = as_records(engine), compiled(name)
    assert found.failure is None
    assert len(records["fills"]) > 20
    for table in ("orders", "fills", "rejects"):
        mine, theirs = found.records(table), records[table]
        if table == "orders":
            mine, theirs = np.sort(mine, order="id"), np.sort(theirs, order="id")
        if table == "rejects":
            mine = mine.copy()
            mine["options"] &= np.uint8(OrderOption.MARKET)  # the reference notes no others
        assert np.array_equal(mine, theirs), table


@pytest.mark.parametrize("name", GOLDEN)
def test_the_summary_is_the_references(name: str) -> None:
    engine, feed = expected(name)
    summary, golden = compiled(name).summary, GOLDEN[name]
    p, scale, (tally,) = engine.position, 8 if golden.listing.name == "BTCUSDT" else 4, feed.tallies
    (pnl,), (position,) = summary["pnl"].values(), summary["positions"].values()
    for word, value in (("realized", p.realized), ("unrealized", p.unrealized), ("fees", p.fees), ("net", p.net)):
        assert pnl[word] == position[word] == Decimal(value).scaleb(-scale), word
    assert pnl["max_drawdown"] == Decimal(p.max_drawdown).scaleb(-scale)
    assert position["qty"] == p.qty * Decimal(golden.listing.lot.divisor).scaleb(-golden.listing.lot.digits)
    assert {word: summary[word] for word in engine.counts()} == engine.counts()
    assert summary["identity"]["cash_flows"] == Decimal(p.cash).scaleb(-scale)
    assert pnl["realized"] + pnl["unrealized"] == sum(summary["identity"].values())
    assert (summary["rows_in"], summary["rows_bad"]) == (tally.rows - tally.left_out, tally.bad + (engine.book.crossed if engine.book.on_cross == "refuse" else 0))
    assert summary["rows_in"] == summary["rows_used"] + summary["rows_bad"]
    assert (summary["books_refused"], summary["illegal_transitions"]) == (engine.book.crossed, 0)
    assert summary["outside_calls"]["system"] == summary["outside_calls"]["allocator"] == 0


@pytest.mark.parametrize("level", ["0", "3"])
@pytest.mark.parametrize("name", ["cross-late", "maker-queue", "imbalance"])
def test_optimisation_changes_nothing(name: str, level: str) -> None:
    assert compiled(name, level).summary["hash"] == compiled(name).summary["hash"]


class Interpreted:
    """Program and engine in the interpreter of HIR, as a linked strategy."""

    def __init__(self, module: HirModule) -> None:
        self.module = merged(whole_engine(), module)
        self.functions = {name: finish(Translator(self.module.functions[name], self.module), {}) for name in OF_RUNNER}

    def __getitem__(self, name: str) -> Any:
        def run(arguments: Any) -> RunOutcome:
            return RunOutcome(tuple(self.functions[name](*prepare(self.module.functions[name], list(arguments))) or ()))

        return SimpleNamespace(run=run)


@pytest.mark.parametrize(("name", "first", "count"), [("cross", 0, 1200), ("maker-queue", 0, 3000), ("imbalance", 600, 1200)])
def test_interpreted_runs_are_the_same(name: str, first: int, count: int) -> None:
    golden = GOLDEN[name]
    program = quantdsl.compile(golden.path)
    feed = Feed([DataSource(DATA / golden.data, 0, (golden.listing,), golden.listing.name)], NativeDecoders(), Rules(skip=True))
    events = np.concatenate(list(feed.events()))[first : first + count]
    options = RunOptions((Input(Path("events"), None, events),), fills=golden.fills, trim=golden.on_cross == "trim", sample=0)
    source = read_source(golden.path)
    module, _ = elaborated(source, CompileRequest(), Sources(source), lambda warning: None, lambda activity: None)
    own = Replay(program.strategy, options).run(KeptRecords).summary
    theirs = Replay(evolve(program.strategy, linked=Interpreted(module)), options).run(KeptRecords).summary
    assert own["submitted"] > 10 and own["fills"] > 0
    assert theirs["hash"] == own["hash"]
