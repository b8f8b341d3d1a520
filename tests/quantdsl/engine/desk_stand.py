"""A compiled desk beside the reference's engine: both get the same events, and a strategy that does one act of a table at each handler."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from attrs import define, frozen

from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import link_modules
from compiler.emulator.execute import finish, prepare
from compiler.emulator.translate import Translator
from compiler.hir.layout import new_memory
from compiler.hir.merge import merged
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import minimum, select
from compiler.hir.native_types import I1, I64, U8, U64, struct
from compiler.hir.types import Array
from quantdsl.engine import layout
from quantdsl.engine.interface import EVENTS, HANDLERS, OF_ENGINE, OF_RUNNER
from quantdsl.engine.layout import ENGINE_STATE
from quantdsl.engine.orders import program_functions
from quantdsl.engine.risk import RiskRules, risk_memory
from quantdsl.native.values import match
from runtime.replay.events import Events
from tests.quantdsl.reference.as_records import as_records
from tests.quantdsl.reference.engine import Engine, Sample, Strategy
from tests.quantdsl.reference.from_events import from_events
from tests.quantdsl.reference.market import Event, Instrument, Side
from tests.quantdsl.reference.numbers import CheckedFailure
from tests.quantdsl.reference.orders import Tif
from tests.quantdsl.reference.risk import Limits
from tests.quantdsl.whole_engine import compiled_engine, whole_engine

NOTHING, ORDER, CANCEL, REPLACE, FLATTEN, CANCEL_ALL, KILL, FAIL = range(8)
ACTS = 64
ACT = struct(
    "act",
    kind=U8,
    side=U8,
    tif=U8,
    limited=I1,
    post_only=I1,
    reduce_only=I1,
    named=I1,
    bad=I1,
    has_stop=I1,
    has_show=I1,
    near=I1,
    qty=I64,
    limit=I64,
    id=U64,
    client=U64,
    stop=I64,
    show=I64,
)
"""One thing to do. `near`: `limit` and `stop` count from where the order would trade at once, `id` back from the last one."""
CALL = struct("call", now=I64, position=I64, answer=I64, event=U8)
CALLS = 4096
ACT_TYPE = np.dtype([(name, "?" if type is I1 else "u1" if type is U8 else "i8" if type is I64 else "u8") for name, type in ACT.fields])
SIDES = (Side.BUY, Side.SELL)
TIFS = (Tif.GTC, Tif.DAY, Tif.IOC, Tif.FOK)


@cache
def acting_module(rules: RiskRules) -> HirModule:
    """Every handler notes that it ran, and does the next act of the table."""
    state = struct(
        "state", risk=risk_memory(rules), acts=Array(ACT, ACTS), count=I64, next=I64, again=I1, calls=I64, log=Array(CALL, CALLS)
    )
    program = ModuleBuilder("acting")
    program_functions(program, rules, state, ("engine.order", "engine.replace", "engine.flatten"))
    for name in ("engine.cancel", "engine.cancel_all", "engine.kill", "engine.touch"):
        program.imported(name, OF_ENGINE[name].whole(state), OF_ENGINE[name].results)
    own = HANDLERS["on.start"].whole(state)
    program.declare("act", {**own, "event": I64}, internal=True, attributes=("noalias", "noinline"))
    with program.define("act") as b:
        _act(b)
    for number, event in enumerate(EVENTS):
        with program.function(f"on.{event}", HANDLERS[f"on.{event}"].whole(state)) as b:
            b.call("act", b.parameters[0], b.parameters[1], number)
    return program.module


def _act(b: FunctionCode) -> None:
    desk, state, event = b.parameters
    calls, next = state.calls, state.next
    call = state.log[minimum(calls, CALLS - 1)]
    for name, value in (
        ("now", desk.now),
        ("position", desk.position.qty),
        ("answer", b.const(0, "i64")),
        ("event", event.cast("u8")),
    ):
        call[name] = value
    state.calls = calls + 1
    with b.when(state.again & (next >= state.count)):
        state.next = 0
    next = state.next
    with b.when(next >= state.count):
        b.ret()
    state.next = next + 1
    act = state.acts[next]
    near = act.near
    far = b.call("engine.touch", desk, state, act.side)
    last = select(desk.last.present, desk.last.value, 0)
    base = select(near, select(far[0], far[1], last), 0)
    id = select(near, desk.submitted.wrapping_sub(act.id), act.id)
    limit, stop = (base + act[name] for name in ("limit", "stop"))

    def of(*names: str) -> list[Any]:
        return [act[name] for name in names]

    def answer(ok: Any, id: Any, mask: Any) -> None:
        call.answer = select(ok, id.cast("i64"), mask.cast("i64").wrapping_neg())

    def order() -> None:
        desk.bad_input = act.bad
        given = [*of("side", "qty", "limited"), limit, *of("tif", "post_only", "reduce_only")]
        rest = [*of("named", "client", "has_stop"), stop, *of("has_show", "show")]
        answer(*b.call("engine.order", desk, state, *given, 0, *rest))
        desk.bad_input = False

    def fail() -> None:
        b.require(b.const(False, "i1"), code="0808", message="it fails")

    match(
        b,
        act.kind,
        {
            ORDER: order,
            CANCEL: lambda: b.call("engine.cancel", desk, state, id) and None,
            REPLACE: lambda: answer(*b.call("engine.replace", desk, state, id, True, *of("qty", "limited"), limit)),
            FLATTEN: lambda: b.call("engine.flatten", desk, state, 1.0) and None,
            CANCEL_ALL: lambda: b.call("engine.cancel_all", desk, state) and None,
            KILL: lambda: b.call("engine.kill", desk, state, 1) and None,
            FAIL: fail,
        },
    )


class Acting(Strategy):
    """The same in Python."""

    def __init__(self, acts: Any, options: "Options") -> None:
        self.acts, self.handles, self.timers, self.again = list(acts), options.handles, options.timers, options.again
        self.calls: list[tuple[int, int, int, str]] = []

    def act(self, engine: Engine, event: str) -> None:
        if not (self.handles >> EVENTS.index(event)) & 1:
            return
        number = len(self.calls)
        self.calls.append((engine.now, engine.position.qty, 0, event))
        if not self.acts:
            return
        a = self.acts.pop(0)
        if self.again:
            self.acts.append(a)
        side = SIDES[a["side"]]
        far = engine.book.best(side.opposite)
        base = (far if far is not None else engine.last or 0) if a["near"] else 0
        id = engine.submitted - int(a["id"]) if a["near"] else int(a["id"])
        answer: Any = 0
        match a["kind"]:
            case 1:
                limit, client = base + int(a["limit"]) if a["limited"] else None, int(a["client"]) if a["named"] else None
                flags = {
                    "post_only": bool(a["post_only"]),
                    "reduce_only": bool(a["reduce_only"]),
                    "client_id": client,
                    "bad": bool(a["bad"]),
                }
                flags |= {"stop": base + int(a["stop"])} if a["has_stop"] else {}
                flags |= {"show": int(a["show"])} if a["has_show"] else {}
                answer = engine.order(side, int(a["qty"]), limit, TIFS[a["tif"]], **flags)
            case 2:
                engine.cancel(id)
            case 3:
                order = engine.orders.get(id)
                if order is None:
                    answer = id
                else:
                    answer = engine.replace(id, int(a["qty"]), base + int(a["limit"]) if a["limited"] else order.limit)
            case 4:
                engine.flatten()
            case 5:
                engine.cancel_all()
            case 6:
                engine.kill("by hand")
            case 7:
                raise CheckedFailure("it fails")
        now, position, _, event = self.calls[number]
        self.calls[number] = (now, position, answer if type(answer) is int else -int(answer), event)

    def on_start(self, engine: Engine) -> None:
        self.act(engine, "start")

    def on_stop(self, engine: Engine) -> None:
        self.act(engine, "stop")

    def on_trade(self, engine: Engine, trade: Any) -> None:
        self.act(engine, "trade")

    def on_quote(self, engine: Engine, quote: Any) -> None:
        self.act(engine, "quote")

    def on_book(self, engine: Engine, book: Any) -> None:
        self.act(engine, "book")

    def on_timer(self, engine: Engine, period: int) -> None:
        self.act(engine, "timer")

    def on_ack(self, engine: Engine, order: Any) -> None:
        self.act(engine, "ack")

    def on_fill(self, engine: Engine, fill: Any) -> None:
        self.act(engine, "fill")

    def on_cancelled(self, engine: Engine, order: Any) -> None:
        self.act(engine, "cancelled")

    def on_reject(self, engine: Engine, order: Any) -> None:
        self.act(engine, "reject")

    def on_gap(self, engine: Engine, gap: Any) -> None:
        self.act(engine, "gap")

    def on_halt(self, engine: Engine, halt: Any) -> None:
        self.act(engine, "halt")


class Watched(Engine):
    """Keeps what a replay writes down of profit and loss: after each fill, and at the end."""

    def run(self, events: Any) -> Engine:
        self.kept: list[Sample] = []
        return super().run(events)

    def _after(self, event: Event | None = None) -> None:
        super()._after(event)
        if event is None:
            self.kept.append(self.samples[-1])


@frozen
class Options:
    fills: str = "touch"
    out: int = 0
    back: int = 0
    accounting: str = "average"
    on_cross: str = "refuse"
    timers: tuple[int, ...] = ()
    handles: int = (1 << len(EVENTS)) - 1
    block: int = 1 << 30
    """Events that are handed over at once."""
    again: bool = False
    """The acts begin anew when they are done."""


@define
class Ran:
    """A run of the compiled desk: its memory, and all records that were collected."""

    desk: Any
    state: Any
    records: dict[str, Any]

    @property
    def calls(self) -> list[tuple[int, int, int, str]]:
        log = self.state["log"][: min(self.state["calls"], CALLS - 1)]
        return [(int(c["now"]), int(c["position"]), int(c["answer"]), EVENTS[c["event"]]) for c in log]


def new_desk(rules: RiskRules, instrument: Instrument, options: Options) -> Any:
    """Memory of a desk with its settings."""
    memory = new_memory(ENGINE_STATE)
    settings = memory[0]["settings"]
    settings["fills"] = ("next", "touch", "queue").index(options.fills)
    settings["accounting"] = ("average", "fifo").index(options.accounting)
    settings["trim"] = options.on_cross == "trim"
    settings["out"], settings["back"], settings["tick_value"] = options.out, options.back, instrument.point
    for name, fee in (("maker", instrument.maker), ("taker", instrument.taker)):
        rate = fee.bps / 10_000
        settings[name] = (rate.numerator, rate.denominator, fee.per_lot)
    settings["handles"], settings["timers"] = options.handles, len(options.timers)
    for path, value in rules.settings().items():
        *outer, last = path.split(".")
        place = settings
        for name in outer:
            place = place[name]
        place[last] = value
    memory[0]["timers"]["period"][: len(options.timers)] = options.timers
    return memory


Run = Callable[[str, Sequence[Any]], tuple[Any, ...]]
"""Calls a function of the engine by name; gives its results."""


@cache
def compiled(rules: RiskRules, level: OptimizationLevel = OptimizationLevel.OLATENCY, of_rules: OptimizationLevel = OptimizationLevel.O0) -> Run:
    """The engine at one level, and the code of the rules and the acts at another."""
    functions = link_modules([compiled_engine(level), compile_module(acting_module(rules), of_rules)])

    def run(name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        outcome = functions[name].run(arguments)
        assert outcome.fault is None, functions.site(outcome.fault)
        return outcome.results

    return run


@cache
def interpreted(rules: RiskRules) -> Run:
    module = merged(whole_engine(), acting_module(rules))
    translated = {name: finish(Translator(module.functions[name], module), {}) for name in OF_RUNNER}

    def run(name: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(translated[name](*prepare(module.functions[name], list(arguments))) or ())

    return run


def run_native(events: Events, acts: Any, rules: RiskRules, instrument: Instrument, options: Options, run: Run | None = None) -> Ran:
    run = run or compiled(rules)
    desk = new_desk(rules, instrument, options)
    state = new_memory(acting_module(rules).functions["act"].parameters[1].type.pointee)  # type: ignore[attr-defined]
    state[0]["acts"][: len(acts)] = [tuple(a) for a in acts]
    state[0]["count"], state[0]["again"] = len(acts), options.again
    ran = Ran(desk[0], state[0], {name: np.zeros(0, desk[0]["out"][name]["records"].dtype) for name in layout.COLLECTED})

    def call(name: str, *arguments: Any) -> Any:
        results = run(name, [desk, state, *arguments])
        collect(ran)
        return results[0] if results else None

    if len(events):
        call("engine.begin", int(events["ts"][0]))
    for begin in range(0, len(events), options.block):
        block, done = np.ascontiguousarray(events[begin : begin + options.block]), 0
        while done < len(block):
            done = call("engine.run", block, len(block), done)
    while not call("engine.end"):
        pass
    return ran


def collect(ran: Ran) -> None:
    out = ran.desk["out"]
    for name in ran.records:
        table = out[name]
        assert table["lost"] == 0
        if count := int(table["count"]):
            ran.records[name] = np.concatenate([ran.records[name], table["records"][:count]])
            table["count"] = 0
    out["full"] = False


def run_reference(events: Events, acts: Any, limits: Limits, instrument: Instrument, options: Options) -> tuple[Watched, Acting]:
    strategy = Acting(acts, options)
    own = Watched(
        strategy,
        limits,
        instrument,
        fills=options.fills,
        out=options.out,
        back=options.back,
        accounting=options.accounting,
        on_cross=options.on_cross,
    )
    own.run(from_events(events))
    return own, strategy


def compare(ran: Ran, own: Watched, strategy: Acting) -> None:
    """Every handler's call and what it saw, all records, and the position to the last unit."""
    assert ran.state["calls"] == len(strategy.calls)
    assert ran.calls == strategy.calls[: CALLS - 1]
    expected = as_records(own)
    for name in ("orders", "fills", "rejects"):
        mine, theirs = ran.records[name], expected[name]
        if name == "orders":
            mine = mine[np.argsort(mine["id"])]
        if name != "fills":
            mine, theirs = mine.copy(), theirs.copy()
        if name == "rejects":
            mine["options"] &= 1
        assert mine.dtype.names == theirs.dtype.names
        assert [tuple(r) for r in mine.tolist()] == [tuple(r) for r in theirs.tolist()], name
    kept = [(s.ts, s.position, s.mark2 or 0, s.realized, s.unrealized, s.fees, s.net, 0, s.mark2 is not None) for s in own.kept]
    assert [tuple(r) for r in ran.records["pnl"].tolist()] == kept
    p, native = own.position, ran.desk["position"]
    for name in ("qty", "cost", "realized", "unrealized", "fees", "net", "max_drawdown", "volume"):
        assert native[name] == getattr(p, name), name
    for name, side in (("open_buys", Side.BUY), ("open_sells", Side.SELL)):
        assert native[name] == sum(o.exposed for o in own.open if o.side is side)
    assert ran.desk["account"]["cash"] == p.cash
    assert (int(ran.desk["trading"]), bool(ran.desk["halted"])) == (int(own.risk.trading), own.halted)
    assert (int(ran.desk["submitted"]), int(ran.desk["illegal"])) == (own.submitted, len(own.illegal))
    assert ran.desk["open_count"] == len(own.open)
    counts = [sum(bool(r.mask & (1 << bit)) for r in own.rejects) for bit in range(12)]
    assert ran.desk["reject_counts"].tolist() == counts
    held = ran.desk["open_notional"]
    assert ((int(held["high"]) << 64) | int(held["low"])) == sum(o.exposed * o.held_at for o in own.open)


def acts_of(rng: np.random.Generator, count: int, kinds: dict[int, float]) -> Any:
    made = np.zeros(count, ACT_TYPE)
    weights = np.array(list(kinds.values()))
    made["kind"] = rng.choice(list(kinds), count, p=weights / weights.sum())
    made["side"] = rng.integers(0, 2, count)
    made["tif"] = rng.choice([layout.IOC, layout.FOK, layout.GTC, layout.GTC, layout.GTC, layout.DAY], count)
    for name, share in (
        ("limited", 0.8),
        ("post_only", 0.15),
        ("reduce_only", 0.1),
        ("named", 0.5),
        ("bad", 0.03),
        ("has_stop", 0.15),
        ("has_show", 0.15),
    ):
        made[name] = rng.random(count) < share
    made["qty"] = rng.integers(0, 9, count)
    made["limit"] = 100 + rng.integers(-8, 9, count)
    made["limit"][rng.random(count) < 0.02] = 0
    made["stop"], made["show"] = 100 + rng.integers(-4, 5, count), rng.integers(1, 4, count)
    made["stop"][rng.random(count) < 0.03], made["show"][rng.random(count) < 0.03] = 0, -1
    made["id"], made["client"] = rng.integers(1, 12, count), rng.integers(0, 5, count)
    return made
