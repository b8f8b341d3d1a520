"""The compiled market's side of orders beside the reference's: the same requests and the same data, reports and places compared."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from compiler.backends.native.compile import HostModule, compile_module
from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.layout import new_memory
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import I1
from compiler.hir.types import Pointer
from quantdsl.elaborate.engine_sources import define_source
from quantdsl.engine.book import define_book
from quantdsl.engine.exchange import define_exchange
from quantdsl.engine.inside import MARKET
from quantdsl.engine.layout import ACKED, CHANGED, ENDED, ENGINE_STATE, EVENT, POST_ONLY, REPORTS, TRADED
from quantdsl.engine.layout import MARKET as AT_MARKET
from quantdsl.engine.queries import define_queries
from runtime.replay.events import EVENT as RECORD
from runtime.replay.events import Events
from runtime.replay.outputs.records import OrderState as RecordState
from tests.quantdsl.engine.book_stand import clear as clear_book
from tests.quantdsl.engine.book_stand import reference_state, state_of
from tests.quantdsl.reference import exchange as plain
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.from_events import SIDES, from_events
from tests.quantdsl.reference.market import Execute, Gap, Instrument, Reduce, Side, Swap, Trade
from tests.quantdsl.reference.orders import Order, State, Tif

MODES = ("next", "touch", "queue")
TIFS = (Tif.GTC, Tif.DAY, Tif.IOC, Tif.FOK)
EVENT_SIDES = {side: int(number) for number, side in SIDES.items()}


@cache
def market_module() -> HirModule:
    """Book, exchange and queries, with an entry `do.name` for each function of the market's side."""
    program = ModuleBuilder("market")
    define_book(program)
    define_source(program, "reports")
    define_exchange(program)
    define_queries(program)
    for name, inner in MARKET.items():
        with program.function(f"do.{name}", {"engine": Pointer(ENGINE_STATE), **inner.parameters}, inner.results) as b:
            b.ret(*b.call(name, *b.parameters))
    with program.function("do.take", {"engine": Pointer(ENGINE_STATE), "event": Pointer(EVENT)}, [I1, I1]) as b:
        desk, event = b.parameters
        b.ret(*b.call("book.take", desk.book, event, desk.settings.trim))
    return program.module


@cache
def compiled(level: OptimizationLevel) -> HostModule:
    return compile_module(market_module(), level)


def native(level: OptimizationLevel = OptimizationLevel.OLATENCY) -> Callable[..., tuple[Any, ...]]:
    """Runs a function of the module by its name."""

    def run(name: str, *arguments: Any) -> tuple[Any, ...]:
        outcome = compiled(level)[name].run(arguments)
        assert outcome.fault is None, outcome.fault
        return outcome.results

    return run


def interpreted(name: str, *arguments: Any) -> tuple[Any, ...]:
    found = _translated(name)(*prepare(market_module().functions[name], arguments))
    return tuple(found or ())


@cache
def _translated(name: str) -> Callable[..., Any]:
    return finish(Translator(market_module().functions[name], market_module()), {})


class Market:
    """One desk whose orders are the test's. Slots are ids less 1."""

    memory: Any = None

    def __init__(self, fills: str, instrument: Instrument, run: Callable[..., tuple[Any, ...]], trim: bool = False) -> None:
        if Market.memory is None:
            Market.memory = new_memory(ENGINE_STATE)
        self.raw, self.run = Market.memory, run
        self.desk = d = self.raw[0]
        clear_book(d["book"])
        for name, _ in ENGINE_STATE.fields:
            if name not in ("book", "out", "account"):
                d[name] = 0
        d["settings"]["fills"], d["settings"]["trim"] = MODES.index(fills), trim
        if instrument.session is not None:
            d["settings"]["has_session"] = True
            d["settings"]["session_begin"], d["settings"]["session_end"] = instrument.session
        self.book = Book("trim" if trim else "refuse")
        self.reports: list[plain.Report] = []
        self.plain = plain.Exchange(fills, instrument, self.book, self.reports.append)
        self.now = 0
        self.count = 0
        self.looks = True
        """Whether both are compared after each step."""

    # What happens to both.

    def order(
        self,
        side: Side,
        qty: int,
        limit: int | None = None,
        tif: Tif = Tif.GTC,
        *,
        post_only: bool = False,
        stop: int | None = None,
        show: int = 0,
    ) -> int:
        """One arrives; its id."""
        slot = self.count
        self.count += 1
        order = self.desk["slots"]["items"][slot]
        order["id"], order["qty"], order["limit"], order["side"], order["tif"] = (
            slot + 1,
            qty,
            limit or 0,
            side is Side.SELL,
            TIFS.index(tif),
        )
        order["options"] = (AT_MARKET * (limit is None)) | (POST_ONLY * post_only)
        order["has_stop"], order["stop"], order["shown"] = stop is not None, stop or 0, show
        self.desk["open"][self.desk["open_count"]] = slot
        self.desk["open_count"] += 1
        self.run("do.exchange.arrive", self.raw, slot)
        self.plain.arrive(Order(slot + 1, side, qty, limit, tif, post_only, stop=stop, show=show), self.now)
        self.compare()
        return slot + 1

    def cancel(self, id: int) -> None:
        self.run("do.exchange.cancel", self.raw, id - 1)
        self.plain.cancel(id)
        self.compare()

    def replace(self, id: int, qty: int, limit: int | None) -> None:
        self.run("do.exchange.replace", self.raw, id - 1, qty, limit or 0, limit is None)
        self.plain.replace(id, qty, limit)
        self.compare()

    def halt(self, on: bool) -> None:
        self.desk["market_halted"] = self.plain.halted = on

    def take(self, records: Events) -> None:
        """Data, as the loops do it."""
        for number in range(len(records)):
            record = records[number : number + 1]
            (event,) = from_events(record)
            self.now = self.desk["now"] = event.ts
            self.run("do.exchange.expire", self.raw)
            self.plain.expire(self.now)
            if isinstance(event, Trade):
                self._trade(event)
            elif isinstance(event, Execute) and event.printed and event.id in self.book.orders:
                side, price, resting = self.book.orders[event.id]
                self._trade(Trade(event.ts, price if event.price is None else event.price, min(event.qty, resting), side.opposite))
            if not isinstance(event, Trade):
                good, unknown = self.run("do.take", self.raw, record)
                assert unknown == (isinstance(event, Execute | Reduce | Swap) and event.id not in self.book.orders)
                assert good == self.book.apply(event)
                if good and not unknown and not event.more and not isinstance(event, Gap):
                    self.run("do.exchange.book_changed", self.raw)
                    self.plain.book_changed()
            self.compare()

    def _trade(self, trade: Trade) -> None:
        self.desk["last"]["present"], self.desk["last"]["value"] = True, trade.price
        self.run("do.exchange.trade", self.raw, trade.price, trade.qty, EVENT_SIDES[trade.side])
        self.plain.trade(trade)

    # What is compared.

    def compare(self) -> None:
        if not self.looks:
            return
        found = self._reports()
        assert found == self.reports
        self.reports.clear()
        assert state_of(self.desk["book"]) == reference_state(self.book)
        places = {o.id: (o.limit, o.qty, o.left, *self._queue(o)) for o in self.plain.resting}
        assert self._places("resting") == places
        assert set(self._places("waiting")) == {o.id for o in self.plain.waiting}

    def _queue(self, order: plain.Resting) -> tuple[int, int]:
        return (order.ahead if self.plain.fills == "queue" else 0), order.display

    def _places(self, where: str) -> dict[int, tuple[Any, ...]]:
        lists = [self.desk["waiting"]] if where == "waiting" else list(self.desk["resting"])
        found = {}
        for listed in lists:
            for slot in listed["slots"][: listed["count"]]:
                o = self.desk["slots"]["items"][slot]
                own = o["exchange"]
                assert own[where] and not own["waiting" if where == "resting" else "resting"]
                ahead = int(own["ahead"]) if self.plain.fills == "queue" else 0
                limit = None if own["at_market"] else int(own["limit"])
                found[int(o["id"])] = (limit, int(own["qty"]), int(own["left"]), ahead, int(own["display"]))
        return found

    def _reports(self) -> list[plain.Report]:
        queue, made = self.desk["reports"], []
        for number in range(int(queue["first"]), int(queue["next"])):
            r = queue["items"][number % REPORTS]
            made.append(_report(r))
            order = self.desk["slots"]["items"][r["slot"]]
            if r["kind"] == ENDED or (r["kind"] == TRADED and order["exchange"]["left"] == 0):
                still = [slot for slot in self.desk["open"][: self.desk["open_count"]] if slot != r["slot"]]
                self.desk["open"][: len(still)] = still
                self.desk["open_count"] = len(still)
        queue["first"] = queue["next"]
        return made


def _report(r: Any) -> plain.Report:
    id = int(r["id"])
    assert id == int(r["slot"]) + 1
    match int(r["kind"]):
        case k if k == ACKED:
            return plain.Ack(id)
        case k if k == TRADED:
            return plain.Fill(id, int(r["price"]), int(r["qty"]), bool(r["maker"]))
        case k if k == CHANGED:
            return plain.Replaced(id, int(r["qty"]), None if r["at_market"] else int(r["price"]))
        case _:
            return plain.Ended(id, State[RecordState(int(r["state"])).name])


def records(*rows: dict[str, Any]) -> Events:
    """Records of data, each with these fields."""
    made = np.zeros(len(rows), RECORD)
    for record, row in zip(made, rows, strict=True):
        for name, value in row.items():
            record[name] = value
    return made
