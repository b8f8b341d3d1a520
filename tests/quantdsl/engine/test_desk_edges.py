"""What a desk does beside what the reference says: bars, linked orders, parts of a position, warm-up, full tables, and its limits."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import HostFunction, RunOutcome, link_modules
from compiler.hir.layout import new_memory
from compiler.hir.module import OptimizationLevel
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_types import F64, I64, struct
from compiler.hir.types import Array
from quantdsl.engine import layout
from quantdsl.engine.interface import EVENTS, HANDLERS, OF_ENGINE, ORDER_PARAMETERS
from quantdsl.engine.layout import COLLECTED, GTC, RECORDS
from quantdsl.engine.orders import program_functions
from quantdsl.engine.risk import Loss, RiskRules, risk_memory
from runtime.replay.batches import NOBODY
from runtime.replay.events import EVENT, EventKind, Flag
from tests.quantdsl.engine.desk_stand import Options, new_desk
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.whole_engine import compiled_engine

BUY, SELL = 0, 1
LIVE, PART_FILLED, FILLED, CANCELLED = 2, 3, 4, 5
FREE = RiskRules()
Handler = Callable[[FunctionCode, Any, Any, Any], None]
"""Writes a handler from the desk, the state and the number of a bar or timer."""


class Desk:
    """A program of a few handlers, linked with the engine, and its memory. `state` holds what the handlers noted."""

    def __init__(
        self, rules: RiskRules = FREE, instrument: Instrument | None = None, options: Options | None = None, **handlers: Handler
    ) -> None:
        state = struct("state", risk=risk_memory(rules), count=I64, notes=Array(I64, 4096), part=F64)
        program = ModuleBuilder("few")
        program_functions(program, rules, state, ("engine.order", "engine.replace", "engine.flatten"))
        for name in ("engine.cancel", "engine.kill", "engine.link"):
            program.imported(name, OF_ENGINE[name].whole(state), OF_ENGINE[name].results)
        for event in EVENTS:
            with program.function(f"on.{event}", HANDLERS[f"on.{event}"].whole(state)) as b:
                if event in handlers:
                    desk, own, *number = b.parameters
                    handlers[event](b, desk, own, number[0] if number else None)
        self.linked = link_modules([compiled_engine(OptimizationLevel.OLATENCY), compile_module(program.module, OptimizationLevel.O0)])
        handles = sum(1 << EVENTS.index(event) for event in handlers)
        options = options or Options(fills="next")
        self.memory = new_desk(rules, instrument or Instrument(), options)
        self.memory[0]["settings"]["handles"] = handles
        self.state_memory = new_memory(state)
        self.records: dict[str, list[Any]] = {name: [] for name in COLLECTED}
        self.stops = 0

    @property
    def at(self) -> Any:
        return self.memory[0]

    @property
    def notes(self) -> list[int]:
        own = self.state_memory[0]
        return [int(note) for note in own["notes"][: own["count"]]]

    def call(self, name: str, *arguments: Any) -> RunOutcome:
        function: HostFunction = self.linked[name]
        outcome = function.run([self.memory, self.state_memory, *arguments])
        out = self.at["out"]
        for table, records in self.records.items():
            records += out[table]["records"][: out[table]["count"]].tolist()
            assert out[table]["lost"] == 0
            out[table]["count"] = 0
        out["full"] = False
        return outcome

    def run(self, events: Any, end: bool = True) -> "Desk":
        assert self.call("engine.begin", int(events["ts"][0])).fault is None
        done = 0
        while done < len(events):
            outcome = self.call("engine.run", events, len(events), done)
            assert outcome.fault is None, self.words(outcome)
            done = int(outcome.results[0])
            self.stops += done < len(events)
        while end:
            outcome = self.call("engine.end")
            assert outcome.fault is None, self.words(outcome)
            if outcome.results[0]:
                break
            self.stops += 1
        return self

    def words(self, outcome: RunOutcome) -> tuple[str, str]:
        """Code and message of what stopped a call."""
        fault = outcome.fault or outcome.caught
        assert fault is not None
        site = self.linked.site(fault)
        assert site is not None
        return site.code, site.message.format(*fault.values)


def trades(*rows: tuple[int, int, int]) -> Any:
    """Of (ts, price, qty), by buyers."""
    made = np.zeros(len(rows), EVENT)
    made["kind"], made["side"], made["flags"] = EventKind.TRADE, 1, Flag.LAST
    for number, (ts, price, qty) in enumerate(rows):
        made[number]["ts"], made[number]["price"], made[number]["qty"], made[number]["row"] = ts, price, qty, number + 1
    return made


def note(b: FunctionCode, state: Any, *values: Any) -> None:
    for value in values:
        count = state.count
        state.notes[count] = value
        state.count = count + 1


def order(
    b: FunctionCode, desk: Any, state: Any, side: int, qty: Any, limit: int | None = None, tif: int = GTC, stop: int | None = None
) -> list[Any]:
    given = [side, qty, limit is not None, limit or 0, tif, False, False, 0, False, 0, stop is not None, stop or 0, False, 0]
    made = [b.const(v, t.dtype) if isinstance(v, int) else v for v, t in zip(given, ORDER_TYPES, strict=True)]
    return b.call("engine.order", desk, state, *made)


ORDER_TYPES: list[Any] = list(ORDER_PARAMETERS.values())


def at_time(b: FunctionCode, desk: Any, ts: int) -> Any:
    return b.when(desk.now == ts)


# ---- bars ------------------------------------------------------------------------------------------------------------------


def bars(*kinds: tuple[int, int]) -> Desk:
    """Notes of each bar: its number, when its handler ran, and what is in it."""

    def on_bar(b: FunctionCode, desk: Any, state: Any, number: Any) -> None:
        note(
            b,
            state,
            number,
            desk.now,
            *[desk.bar[name] for name in ("ts", "open", "high", "low", "close", "volume", "trades")],
        )

    made = Desk(bar=on_bar)
    made.at["settings"]["bars"] = len(kinds)
    for builder, (kind, size) in zip(made.at["bars"], kinds, strict=False):
        builder["kind"], builder["size"] = kind, size
    return made


def rows(values: list[int], width: int) -> list[tuple[int, ...]]:
    return [tuple(values[i : i + width]) for i in range(0, len(values), width)]


def test_bars_of_a_duration_close_at_their_end_and_empty_ones_are_left_out() -> None:
    data = trades((103, 50, 1), (105, 53, 2), (109, 49, 3), (110, 51, 4), (135, 52, 5), (139, 40, 6))
    desk = bars((0, 10)).run(data)
    assert rows(desk.notes, 9) == [(0, 110, 110, 50, 53, 49, 49, 6, 3), (0, 120, 120, 51, 51, 51, 51, 4, 1)]
    assert desk.at["bars"][0]["started"], "the last one isn't over as the data ends"


def test_bars_of_trades_and_of_volume_close_with_the_trade_that_fills_them() -> None:
    data = trades((1, 50, 1), (2, 53, 2), (3, 49, 9), (4, 51, 1), (5, 52, 3), (6, 40, 1))
    desk = bars((1, 2), (2, 5)).run(data)
    assert rows(desk.notes, 9) == [
        (0, 2, 2, 50, 53, 50, 53, 3, 2),
        (1, 3, 3, 50, 53, 49, 49, 12, 3),
        (0, 4, 4, 49, 51, 49, 51, 10, 2),
        (0, 6, 6, 52, 52, 40, 40, 4, 2),
        (1, 6, 6, 51, 52, 40, 40, 5, 3),
    ]


def test_bars_before_1970_are_aligned_too() -> None:
    assert rows(bars((0, 10)).run(trades((-13, 5, 1), (-1, 6, 1))).notes, 9) == [(0, -10, -10, 5, 5, 5, 5, 1, 1)]


@pytest.mark.parametrize("size", [1, 7, 60])
def test_bars_of_random_trades(size: int) -> None:
    rng = np.random.default_rng(size)
    ts = np.cumsum(rng.integers(0, 20, 200)) + 1000
    price, qty = rng.integers(90, 110, 200), rng.integers(1, 9, 200)
    desk = bars((0, size)).run(trades(*zip(ts.tolist(), price.tolist(), qty.tolist(), strict=True)))
    expected = []
    for number in np.unique(ts // size):
        inside = ts // size == number
        p, end = price[inside], int((number + 1) * size)
        if end <= ts[-1]:
            expected.append((0, end, end, int(p[0]), int(p.max()), int(p.min()), int(p[-1]), int(qty[inside].sum()), int(inside.sum())))
    assert rows(desk.notes, 9) == expected


# ---- timers, rows, warm-up ---------------------------------------------------------------------------------------------------


def test_of_two_timers_at_one_moment_the_one_set_first_runs_first() -> None:
    def on_timer(b: FunctionCode, desk: Any, state: Any, number: Any) -> None:
        note(b, state, desk.now, number)

    desk = Desk(options=Options(timers=(30, 10, 15)), timer=on_timer)
    desk.run(trades((100, 1, 1), (131, 1, 1)))
    assert rows(desk.notes, 2) == [(110, 1), (115, 2), (120, 1), (130, 0), (130, 2), (130, 1)]


def test_warm_up_builds_the_book_and_no_handler_sees_it() -> None:
    def start(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        note(b, state, desk.now, desk.last.value, desk.book.sides[0].count)

    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        note(b, state, desk.now, desk.trade.price, -1)

    data = trades((100, 7, 1), (105, 6, 1), (200, 8, 1))
    data["kind"][1] = EventKind.BOOK_LEVEL
    data["flags"][:2] = int(Flag.LAST | Flag.WARM_UP)
    desk = Desk(options=Options(timers=(10,)), start=start, trade=on_trade).run(data)
    assert rows(desk.notes, 3) == [(200, 7, 1), (200, 8, -1)]
    assert desk.at["timers"][0]["due"] == 210


def test_rows_of_another_instrument_are_passed_over_and_gaps_of_nobody_concern_all() -> None:
    def on(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        note(b, state, desk.row)

    data = trades((1, 7, 1), (2, 8, 1), (3, 9, 1))
    data["instrument"] = (3, 2, NOBODY)
    data["kind"][2] = EventKind.GAP
    desk = Desk(trade=on, gap=on)
    desk.at["settings"]["instrument"] = 2
    assert (desk.run(data).notes, int(desk.at["last"]["value"]), int(desk.at["events"])) == ([2, 3], 8, 2)


# ---- orders ---------------------------------------------------------------------------------------------------------------------


def linking(first: tuple[int, int, int], second: tuple[int, int, int], cancel_at: int = -1) -> Desk:
    """A strategy that sends two orders (side, qty, limit) and links them; it cancels the first at a time."""

    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 1):
            for given in (first, second):
                order(b, desk, state, *given)
            note(b, state, *[b.call("engine.link", desk, state, *pair)[0].cast("i64") for pair in ((1, 2), (1, 3), (2, 2))])
        with at_time(b, desk, cancel_at):
            b.call("engine.cancel", desk, state, 1)

    return Desk(options=Options(fills="touch"), trade=on_trade)


@pytest.mark.parametrize(
    ("rows_", "cancel_at", "ends"),
    [
        ([(2, 110, 9)], -1, {1: (0, CANCELLED), 2: (2, FILLED)}),
        ([(2, 90, 9)], -1, {1: (2, FILLED), 2: (0, CANCELLED)}),
        ([(2, 110, 1)], -1, {1: (0, CANCELLED), 2: (1, PART_FILLED)}),
        ([(2, 100, 1)], 2, {1: (0, CANCELLED), 2: (0, CANCELLED)}),
        ([(2, 100, 1)], -1, {1: (0, LIVE), 2: (0, LIVE)}),
    ],
)
def test_of_two_linked_orders_the_other_one_goes_when_one_fills_or_ends(
    rows_: list[tuple[int, int, int]], cancel_at: int, ends: dict[int, tuple[int, int]]
) -> None:
    desk, names = linking((BUY, 2, 90), (SELL, 2, 110), cancel_at), columns("orders")
    data = trades((1, 100, 1), *rows_, (3, 100, 1))
    data["side"][1] = 2 if rows_[0][1] == 90 else 1
    desk.run(data)
    assert desk.notes == [1, 0, 0]
    assert {row[0]: (row[names["filled"]], row[names["state"]]) for row in desk.records["orders"]} == ends


def columns(table: str) -> dict[str, int]:
    return {name: number for number, (name, _) in enumerate(COLLECTED[table].fields)}


@pytest.mark.parametrize(
    ("held", "part", "sold"), [(7, 0.5, 4), (7, 1.0, 7), (7, 0.0, 0), (7, -1.0, 0), (7, 3.0, 7), (5, 0.1, 1), (4, 0.1, 0)]
)
def test_a_part_of_a_position_is_closed_to_the_nearest_lot(held: int, part: float, sold: int) -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 1):
            order(b, desk, state, BUY, held)
        with at_time(b, desk, 2):
            b.call("engine.flatten", desk, state, state.part)

    desk = Desk(trade=on_trade)
    desk.state_memory[0]["part"] = part
    desk.run(trades((1, 100, 1), (2, 100, 1), (3, 100, 1)))
    assert desk.at["position"]["qty"] == held - sold
    assert len(desk.records["orders"]) == 1 + (sold > 0)


def test_a_part_that_is_no_number_is_refused() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 1):
            order(b, desk, state, BUY, 3)
        with at_time(b, desk, 2):
            b.call("engine.flatten", desk, state, float("nan"))
            note(b, state, order(b, desk, state, SELL, 1)[0].cast("i64"))

    desk = Desk(trade=on_trade).run(trades((1, 100, 1), (2, 100, 1), (3, 100, 1)))
    assert [row[columns("rejects")["mask"]] for row in desk.records["rejects"]] == [2048]
    assert (desk.at["position"]["qty"], desk.notes) == (2, [1])


def test_the_first_reason_to_kill_stays() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        b.call("engine.kill", desk, state, desk.now)

    desk = Desk(trade=on_trade).run(trades((3, 100, 1), (4, 100, 1)))
    assert (int(desk.at["killed_by"]), int(desk.at["trading"])) == (3, 2)


def test_fills_larger_than_money_stop_the_run() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        order(b, desk, state, BUY, 1 << 40)

    desk = Desk(trade=on_trade)
    data = trades((1, 1 << 30, 1), (2, 1 << 30, 1))
    desk.call("engine.begin", 1)
    assert desk.words(desk.call("engine.run", data, 2, 0)) == ("0806", f"{1 << 30} * {1 << 40} does not fit in i64")


# ---- money -----------------------------------------------------------------------------------------------------------------------


def test_profit_and_loss_is_written_at_fills_at_intervals_and_at_the_end() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 10):
            order(b, desk, state, BUY, 2)

    desk = Desk(instrument=Instrument(3, taker=Fee(Fraction(100), 1)), trade=on_trade)
    desk.at["settings"]["pnl_every"] = 100
    desk.run(trades((10, 100, 1), (20, 100, 1), (30, 101, 1), (119, 102, 1), (120, 103, 1), (500, 103, 1), (501, 90, 1), (502, 91, 1)))
    fees = 2 * 100 * 3 // 100 + 2
    written = [(row[0], row[2], row[6]) for row in desk.records["pnl"]]
    assert written == [
        (20, 200, -fees),
        (120, 206, 18 - fees),
        (501, 180, -60 - fees),
        (502, 182, -54 - fees),
    ]
    assert desk.at["position"]["max_drawdown"] == 78
    assert (bool(desk.at["position"]["avg_price"]["present"]), int(desk.at["position"]["avg_price"]["value"])) == (True, 100)


def test_handlers_of_data_are_timed_one_in_so_many() -> None:
    desk = Desk(trade=lambda b, desk, state, _: note(b, state, 1))
    desk.at["settings"]["sample"] = 3
    desk.run(trades(*[(t, 100, 1) for t in range(10)]))
    names = columns("latency")
    assert [row[names["row"]] for row in desk.records["latency"]] == [1, 4, 7, 10]
    assert all(row[names["ns"]] > 0 and row[names["handler"]] == EVENTS.index("trade") for row in desk.records["latency"])


# ---- limits ----------------------------------------------------------------------------------------------------------------------


def refusing(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
    """An order of no lots, which is refused."""
    state.count += order(b, desk, state, BUY, 0)[2].cast("i64")


def test_the_loop_stops_between_events_and_between_timers_for_full_tables() -> None:
    many = RECORDS * 5 // 4
    desk = Desk(options=Options(timers=(1,)), timer=refusing).run(trades((0, 1, 1), (many, 1, 1)))
    assert desk.stops >= 2
    assert [row[0] for row in desk.records["rejects"]] == list(range(1, many + 1))
    assert desk.at["reject_counts"].tolist() == [0, many] + [0] * 10
    desk = Desk(trade=refusing).run(trades(*[(t, 1, 1) for t in range(many)]))
    assert desk.stops == 2 and [row[0] for row in desk.records["rejects"]] == list(range(many))


def test_more_open_orders_than_there_are_places_are_refused() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with b.loop(0, 1030) as i:
            ok, _, mask = order(b, desk, state, BUY, 1, 5)
            with b.when(~ok):
                note(b, state, i, mask.cast("i64"))

    desk = Desk(trade=on_trade).run(trades((0, 10, 1)))
    assert rows(desk.notes, 2) == [(i, 512) for i in range(1024, 1030)]
    assert len(desk.records["orders"]) == 1024


def test_a_strategy_that_answers_itself_without_end_is_stopped() -> None:
    def answering(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        order(b, desk, state, BUY, 1, 5)
        b.call("engine.cancel", desk, state, desk.submitted)

    desk = Desk(trade=answering, cancelled=answering)
    desk.call("engine.begin", 7)
    assert desk.call("engine.run", trades((7, 10, 1)), 1, 0).results == (1,)
    for _ in range(1000):
        outcome = desk.call("engine.end")
        if outcome.fault is not None:
            break
    assert desk.words(outcome) == ("0812", "time stands still at 7 ns")


def test_more_reports_than_are_kept_stop_the_run() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 0):
            order(b, desk, state, BUY, 100_000, 5)

    desk = Desk(options=Options(fills="touch", back=10**9), trade=on_trade)
    data = trades(*[(t, 5, 1) for t in range(9000)])
    data["side"] = 2
    desk.call("engine.begin", 0)
    assert desk.words(desk.call("engine.run", data, len(data), 0)) == ("0812", "more than 8192 reports are on their way at once")


def test_more_requests_than_are_kept_fail_the_handler() -> None:
    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        order(b, desk, state, BUY, 1, 5)
        with b.loop(0, 7000):
            b.call("engine.cancel", desk, state, 1)

    desk = Desk(options=Options(fills="next", out=10), trade=on_trade)
    desk.call("engine.begin", 0)
    outcome = desk.call("engine.run", trades((0, 10, 1)), 1, 0)
    assert outcome.fault is None and desk.words(outcome) == ("0812", "more than 6144 requests are on their way at once")
    assert (bool(desk.at["halted"]), int(desk.at["killed_by"]), int(desk.at["submitted"])) == (True, -2, 0)
    assert (int(desk.at["open_count"]), int(desk.at["requests"]["next"])) == (0, 0)


@pytest.mark.parametrize("side", [BUY, SELL])
@pytest.mark.parametrize("prices", [(101, 102), (100, 101), (100, 101, 101), (100, 100, 101), (7, 8, 10, 11), (100, 103, 103, 103)])
def test_the_average_price_is_the_nearest_tick_and_the_even_one_of_two(prices: tuple[int, ...], side: int) -> None:
    desk = Desk(trade=lambda b, desk, state, _: order(b, desk, state, side, 1))
    desk.run(trades((1, 90, 1), *((number, price, 1) for number, price in enumerate(prices, 2))))
    p = desk.at["position"]
    assert (int(p["qty"]), int(p["avg_price"]["value"])) == (
        len(prices) * (1 if side == BUY else -1),
        round(Fraction(sum(prices), len(prices))),
    )


@pytest.mark.parametrize(("session", "killed"), [(False, True), (True, False)])
def test_a_drawdown_counts_from_the_peak_of_the_run_or_of_the_day(session: bool, killed: bool) -> None:
    """One lot from 100, at 150 on the first day and at 85 on the second: 65 below the peak of the run, 20 below that of the day."""

    def on_trade(b: FunctionCode, desk: Any, state: Any, _: Any) -> None:
        with at_time(b, desk, 1):
            order(b, desk, state, BUY, 1)

    day = 86_400_000_000_000
    desk = Desk(RiskRules(max_drawdown=Loss(60, session=session)), trade=on_trade)
    desk.run(trades((1, 100, 1), (2, 100, 1), (3, 150, 1), (4, 105, 1), (day + 1, 105, 1), (day + 2, 85, 1), (day + 3, 85, 1)))
    assert (int(desk.at["trading"]) == layout.KILLED) == killed
