"""The twelve rules of a risk block as code of the program: what isn't written costs nothing. All are looked at for every order, and all
that it breaks come as one mask."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Number, Optional, Record, any_of, maximum, select
from compiler.hir.native_types import I1, I64, U8, U64, struct
from compiler.hir.types import HirType, Struct
from quantdsl.engine import queues
from quantdsl.engine.book import mid2
from quantdsl.engine.book_ladder import best
from quantdsl.engine.exchange_orders import order_at
from quantdsl.engine.interface import OF_PROGRAM
from quantdsl.engine.layout import BUY, KILLED, NS_OF_DAY, OPEN, REDUCING, REQUESTS, RESERVED, SELL
from quantdsl.native.ring import NativeRing
from quantdsl.native.table import NativeTable
from quantdsl.native.values import read_optional
from runtime.records import frozen
from runtime.replay.outputs.records import RiskRule

Reference = Literal["mid", "last"] | int
SelfTrade = Literal["reject", "cancel_resting", "cancel_both"]


@frozen
class Collar:
    """So many bps, or ticks, around the mid, the last trade or a price in ticks."""

    bps: Fraction | None = None
    ticks: int | None = None
    of: Reference = "mid"


@frozen
class Loss:
    """Money; `session`: since the session began, else since the run did; `kills`, else it reduces."""

    limit: int
    session: bool = False
    kills: bool = True


@frozen
class RiskRules:
    """A risk block on its instrument in exact numbers: lots, money units, ns. A rule that isn't written is None. `tick_value`: money
    of one lot and one tick. `session`: begin and end, ns since midnight UTC."""

    tick_value: int = 1
    session: tuple[int, int] | None = None
    max_order_qty: int | None = None
    max_notional: int | None = None
    price_collar: Collar | None = None
    max_position: int | None = None
    max_open_orders: int | None = None
    max_open_notional: int | None = None
    rate: tuple[int, int] | None = None
    rate_all: bool = False
    max_loss: Loss | None = None
    max_drawdown: Loss | None = None
    stale_data: int | None = None
    duplicate_id: int | None = None
    self_trade: SelfTrade | None = None

    @property
    def priced(self) -> bool:
        """Whether some rule needs a price to judge by."""
        return any(rule is not None for rule in (self.max_notional, self.max_open_notional, self.price_collar))

    @property
    def losses(self) -> tuple[tuple[str, Loss], ...]:
        rules = (("max_loss", self.max_loss), ("max_drawdown", self.max_drawdown))
        return tuple((name, rule) for name, rule in rules if rule is not None)

    def settings(self) -> dict[str, int | bool]:
        """What the engine has to know of them: fields of `layout.SETTINGS` by path."""
        settings: dict[str, int | bool] = {"rate_all": self.rate_all and self.rate is not None, "has_session": self.session is not None}
        if self.session is not None:
            settings["session_begin"], settings["session_end"] = self.session
        for name, rule in self.losses:
            settings |= {f"{name}.present": True, f"{name}.value": rule.limit, f"{name}_session": rule.session, f"{name}_kills": rule.kills}
        return settings


@frozen
class _Memory:
    """What the rules remember: times of accepted orders, and client ids, in a ring to forget the oldest.

    Mostly each id is above all before it, and so need not be looked for. The ring keeps the `top` of all up to each, which is sorted, so
    that such ids are found by halves; the few others stand in a table beside it."""

    rules: RiskRules

    @property
    def times(self) -> NativeRing | None:
        return None if self.rules.rate is None else NativeRing(I64, max(1, self.rules.rate[0]))

    @property
    def ids(self) -> NativeRing | None:
        return None if self.rules.duplicate_id is None else NativeRing(struct("client", id=U64, top=U64, other=I1), self.rules.duplicate_id)

    @property
    def others(self) -> NativeTable | None:
        return None if self.rules.duplicate_id is None else NativeTable(U64, U8, self.rules.duplicate_id + 1)

    @property
    def type(self) -> Struct:
        parts = {"times": self.times, "ids": self.ids, "others": self.others}
        fields: dict[str, HirType] = {name: part.type for name, part in parts.items() if part is not None}
        return struct("risk", **(fields or {"unused": U8}))


def risk_memory(rules: RiskRules) -> Struct:
    """The memory of a risk block, all zero at first. It is the field `risk` of the program's state."""
    return _Memory(rules).type


def define_risk(program: ModuleBuilder, rules: RiskRules, names: Sequence[str]) -> None:
    """Those of `risk.judge`, `risk.accept` and `risk.asked` that are among the names; they must be declared."""
    if "risk.judge" in names and rules.duplicate_id is not None:
        own = {"state": program.module.functions["risk.judge"].parameters[1].type, "client": U64}
        with program.function("risk.is_known", own, [I1], internal=True, attributes=("noalias", "noinline")) as b:
            _is_known(b, rules)
    if "risk.judge" in names:
        with program.define("risk.judge") as b:
            _JudgeWriter(b, rules).write()
    if "risk.accept" in names:
        with program.define("risk.accept") as b:
            _accept(b, rules)
    if "risk.asked" in names:
        with program.define("risk.asked") as b:
            if rules.rate is not None and rules.rate_all:
                _note_time(b, rules)


def _note_time(b: FunctionCode, rules: RiskRules) -> None:
    engine, state = b.parameters[:2]
    times = _Memory(rules).times
    assert times is not None
    times.push(b, state.risk.times, engine.now)


def _accept(b: FunctionCode, rules: RiskRules) -> None:
    _, state, named, client = b.parameters
    if rules.rate is not None:
        _note_time(b, rules)
    ids, others = _Memory(rules).ids, _Memory(rules).others
    if ids is None or others is None:
        return
    with b.when(named):
        ring, table = state.risk.ids, state.risk.others
        rises, top = _rises(ids, ring, client)
        slot, full = ids.advance(b, ring)
        oldest = slot.id
        with b.when(full & slot.other):
            others.remove(b, table, oldest)
        slot.id = client
        slot.top = select(rises, client, top)
        slot.other = ~rises
        with b.when(~rises):
            others.insert(b, table, client)


def _rises(ids: NativeRing, ring: Record, client: Expr) -> tuple[Expr, Expr]:
    """Whether an id is above all that are remembered, and the highest of these."""
    next = ring.next
    newest = select(next == 0, ids.capacity, next).wrapping_sub(1)
    top = ring.items.unchecked[newest].top
    return (ring.count == 0) | (client > top), top


def _is_known(b: FunctionCode, rules: RiskRules) -> None:
    """Of an id that isn't above all others: one of the few, or that of the oldest place whose top is not below it."""
    state, client = b.parameters
    ids, others = _Memory(rules).ids, _Memory(rules).others
    assert ids is not None and others is not None
    with b.when(others.find(b, state.risk.others, client) >= 0):
        b.ret(True)
    ring = state.risk.ids
    low, high = b.variable(0), b.variable(ids.count(b, ring).wrapping_sub(1))
    with b.repeat():
        with b.when(low.value >= high.value):
            b.break_()
        middle = low.value.wrapping_add(high.value).wrapping_add(1) >> 1
        with b.when(ids.slot(b, ring, middle).top >= client):
            low.value = middle
        with b.otherwise():
            high.value = middle.wrapping_sub(1)
    b.ret(ids.slot(b, ring, low.value).id == client)


class _JudgeWriter:
    """Writes `risk.judge`."""

    def __init__(self, b: FunctionCode, rules: RiskRules) -> None:
        self.b, self.rules = b, rules
        self.engine, self.state, *rest = b.parameters
        given = dict(zip(list(OF_PROGRAM["risk.judge"].parameters), rest, strict=True))
        self.side, self.qty = given["side"], given["qty"]
        self.limit = Optional(given["limit.present"], given["limit"])
        self.reduce_only, self.instead_of = given["reduce_only"], given["instead_of"]
        self.client = Optional(given["client.present"], given["client"])
        self.buys = self.side == BUY
        self.now = self.engine.now
        self.mask = b.const(0, "u32")

    def write(self) -> None:
        b = self.b
        self._see()
        self._others()
        self._state_of_trading()
        self._sizes()
        reference, seen = self._collar()
        self._staleness(reference, seen)
        self._memory()
        self._open_orders()
        self._losses()
        self._input()
        b.ret(self.mask, self.held_at)

    def broken(self, condition: Expr, rule: RiskRule) -> None:
        b = self.b
        self.mask = self.mask | select(condition, b.const(int(rule), "u32"), b.const(0, "u32"))

    def wide(self, a: Expr, c: Number) -> Expr:
        """A product of 128 bits."""
        return a.cast("i128").wrapping_mul(c.cast("i128") if isinstance(c, Expr) else c)

    def _see(self) -> None:
        """The price to judge by, if there is one, and the price that the order counts with."""
        b, engine = self.b, self.engine
        book = engine.book
        bid, ask = (best(book, b.const(side, "u8")) for side in (BUY, SELL))
        far = Optional(select(self.buys, ask.present, bid.present), select(self.buys, ask.value, bid.value))
        self.last = read_optional(engine.last)
        has_book = book.updated.present
        market = Optional(select(has_book, far.present, self.last.present), select(has_book, far.value, self.last.value))
        self.price = Optional(self.limit.present | market.present, select(self.limit.present, self.limit.value, market.value))
        known = far.present & (far.value != 0)
        fallback = select(known, far.value, select(self.last.present, self.last.value, 0))
        self.held_at = select(self.limit.present, self.limit.value, fallback)

    def _others(self) -> None:
        """What the other open orders may fill on the same side, how many they are, and what they count for, in ticks * lots."""
        b, engine = self.b, self.engine
        p = engine.position
        same = b.variable(select(self.buys, p.open_buys, p.open_sells))
        count = b.variable(engine.open_count)
        notional = b.variable(engine.open_notional) if self.rules.max_open_notional is not None else None
        with b.when(self.instead_of >= 0):
            order = order_at(engine, self.instead_of)
            own = maximum(order.qty, order.asked) - order.filled
            same.value -= own
            count.value = count.value.wrapping_sub(1)
            if notional is not None:
                notional.value = notional.value.wrapping_sub(self.wide(own, order.held_at))
        self.same, self.count = same.value, count.value
        self.notional = None if notional is None else notional.value
        held = p.qty
        self.held = select(self.buys, held, b.const(0, "i64").saturating_sub(held))
        left = b.const(0, "i64").saturating_sub(self.held).saturating_sub(self.same)
        self.reduces = (self.held < 0) & (self.qty <= left)

    def _state_of_trading(self) -> None:
        self.broken(self.engine.trading == KILLED, RiskRule.KILL)

    def _sizes(self) -> None:
        rules = self.rules
        small = self.qty < 1
        self.broken(small if rules.max_order_qty is None else small | (self.qty > rules.max_order_qty), RiskRule.MAX_ORDER_QTY)
        if rules.max_notional is not None:
            worth = self.wide(self.price.value, self.qty)
            self.broken(self.price.present & (worth > rules.max_notional // rules.tick_value), RiskRule.MAX_NOTIONAL)
        opens = self.reduce_only & ~self.reduces
        if rules.max_position is not None:
            worst = self.held.saturating_add(self.same).saturating_add(self.qty)
            opens = opens | (worst > rules.max_position)
        self.broken(opens, RiskRule.MAX_POSITION)

    def _collar(self) -> tuple[Expr | None, Optional | None]:
        """Whether there is something to refer to, and when it was seen; None where no rule asks."""
        b, engine, collar = self.b, self.engine, self.rules.price_collar
        updated, last_ts = read_optional(engine.book.updated), read_optional(engine.last_ts)
        newer = updated.present & (~last_ts.present | (updated.value > last_ts.value))
        later = select(newer, updated.value, last_ts.value)
        seen: Optional = Optional(updated.present | last_ts.present, later)
        if collar is None:
            return None, seen
        if collar.of == "mid":
            mid = mid2(b, engine.book)
            there, reference2, seen = mid.present, mid.value.cast("i128"), updated
        elif collar.of == "last":
            there, reference2, seen = self.last.present, self.wide(self.last.value, 2), last_ts
        else:
            there, reference2 = b.const(True, "i1"), b.const(2 * collar.of, "i128")
        away2 = b.op("abs", self.wide(self.price.value, 2).wrapping_sub(reference2))
        known = self.price.present & there
        if collar.bps is not None:
            ratio = collar.bps / 10_000
            too_far = away2.wrapping_mul(ratio.denominator) > reference2.wrapping_mul(ratio.numerator)
            self.broken(known & too_far, RiskRule.PRICE_COLLAR)
        if collar.ticks is not None:
            self.broken(known & (away2 > 2 * collar.ticks), RiskRule.PRICE_COLLAR)
        return there, seen

    def _staleness(self, reference: Expr | None, seen: Optional | None) -> None:
        rules = self.rules
        stale: Expr = self.engine.book.suspect
        if rules.priced:
            stale = stale | ~self.price.present
        if reference is not None:
            stale = stale | ~reference
        if rules.stale_data is not None and seen is not None:
            age = self.now.saturating_sub(seen.value)
            stale = any_of(stale, ~seen.present, age > rules.stale_data)
        self.broken(stale, RiskRule.STALE_DATA)

    def _memory(self) -> None:
        b, rules, memory = self.b, self.rules, _Memory(self.rules)
        if rules.rate is not None and memory.times is not None:
            limit, window = rules.rate
            times = self.state.risk.times
            oldest = times.items.unchecked[times.next]
            inside = oldest > self.now.saturating_sub(window)
            full = (times.count == limit) & inside if limit > 0 else b.const(True, "i1")
            if not rules.rate_all:
                full = full & (self.instead_of < 0)
            self.broken(full, RiskRule.RATE)
        if memory.ids is not None:
            known = b.variable(False)
            rises, _ = _rises(memory.ids, self.state.risk.ids, self.client.value)
            with b.when(self.client.present & ~rises):
                known.value = b.call("risk.is_known", self.state, self.client.value)[0]
            self.broken(known.value, RiskRule.DUPLICATE_ID)
        if rules.self_trade in ("reject", "cancel_both"):
            (met,) = b.call("orders.meets", self.engine, self.state, self.side, *self.limit.parts, self.instead_of)
            self.broken(met, RiskRule.SELF_TRADE)

    def _open_orders(self) -> None:
        """There is always a limit: the places for orders, and for requests on their way."""
        rules = self.rules
        most = OPEN if rules.max_open_orders is None else min(OPEN, rules.max_open_orders)
        many = (self.count >= most) | ~(queues.count(self.engine.requests) < REQUESTS - RESERVED)
        if self.notional is not None and rules.max_open_notional is not None:
            worth = self.notional.wrapping_add(self.wide(self.price.value, self.qty))
            many = many | (self.price.present & (worth > rules.max_open_notional // rules.tick_value))
        self.broken(many, RiskRule.MAX_OPEN_ORDERS)

    def _losses(self) -> None:
        b, rules = self.b, self.rules
        if not rules.losses:
            return
        account, net = self.engine.account, self.engine.position.net
        deadly, reducing = b.const(False, "i1"), self.engine.trading == REDUCING
        for name, rule in rules.losses:
            held = {"max_loss": "session_net" if rule.session else None, "max_drawdown": "session_peak" if rule.session else "run_peak"}[
                name
            ]
            top = b.const(0, "i64") if held is None else account[held]
            reached = top.saturating_sub(net) >= rule.limit
            deadly, reducing = (deadly | reached, reducing) if rule.kills else (deadly, reducing | reached)
        self.broken(deadly | (reducing & ~self.reduces), RiskRule.MAX_LOSS)

    def _input(self) -> None:
        engine = self.engine
        bad = any_of(self.limit.present & (self.limit.value <= 0), engine.bad_input, engine.market_halted)
        if self.rules.session is not None:
            begin, end = self.rules.session
            since = self.now.wrapping_sub(begin)
            of_day = since.wrapping_sub(since.quotient(NS_OF_DAY, "floor").wrapping_mul(NS_OF_DAY))
            bad = bad | (of_day >= (end - begin) % NS_OF_DAY)
        self.broken(bad, RiskRule.BAD_INPUT)
