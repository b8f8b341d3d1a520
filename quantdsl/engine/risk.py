"""The twelve rules of a risk block as code of the program: what isn't written costs nothing. All are looked at for every order, and all
that it breaks come as one mask."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Struct
from quantdsl.engine import requests
from quantdsl.engine.account import DAY
from quantdsl.engine.book import mid2
from quantdsl.engine.book_ladder import best
from quantdsl.engine.interface import OF_PROGRAM
from quantdsl.engine.layout import BUY, KILLED, OPEN, REDUCING, SELL
from quantdsl.engine.open_orders import exposed, order_at
from quantdsl.native.build import FunctionCode, ModuleBuilder, Number
from quantdsl.native.ring import NativeRing
from quantdsl.native.table import NativeTable
from quantdsl.native.types import I1, I64, U8, U64, struct
from quantdsl.native.values import Optional, read_optional
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
    """A risk block on its instrument in exact numbers: lots, money units, ns. A rule that isn't written is None. `point`: money units of
    one lot and one tick. `session`: begin and end, ns since midnight UTC."""

    point: int = 1
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
        found: dict[str, int | bool] = {"rate_all": self.rate_all and self.rate is not None, "has_session": self.session is not None}
        if self.session is not None:
            found["session_begin"], found["session_end"] = self.session
        for name, rule in self.losses:
            found |= {f"{name}.present": True, f"{name}.value": rule.limit, f"{name}_session": rule.session, f"{name}_kills": rule.kills}
        return found


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
    desk, state = b.parameters[:2]
    times = _Memory(rules).times
    assert times is not None
    times.push(b, b.at(state, "risk", "times"), b.get(desk, "now"))


def _accept(b: FunctionCode, rules: RiskRules) -> None:
    _, state, named, client = b.parameters
    if rules.rate is not None:
        _note_time(b, rules)
    ids, others = _Memory(rules).ids, _Memory(rules).others
    if ids is None or others is None:
        return
    with b.when(named):
        ring, table = b.at(state, "risk", "ids"), b.at(state, "risk", "others")
        rises, top = _rises(b, ids, ring, client)
        slot, full = ids.advance(b, ring)
        oldest = b.get(slot, "id")
        with b.when(b.both(full, b.get(slot, "other"))):
            others.remove(b, table, oldest)
        b.put(slot, "id", client)
        b.put(slot, "top", b.select(rises, client, top))
        b.put(slot, "other", b.negate(rises))
        with b.when(b.negate(rises)):
            others.insert(b, table, client)


def _rises(b: FunctionCode, ids: NativeRing, ring: Value, client: Value) -> tuple[Value, Value]:
    """Whether an id is above all that are remembered, and the highest of these."""
    next = b.get(ring, "next")
    newest = b.wrapping("sub", b.select(b.eq(next, 0), ids.capacity, next), 1)
    top = b.get(ring, "items", newest, "top", proved=True)
    return b.either(b.eq(b.get(ring, "count"), 0), b.gt(client, top)), top


def _is_known(b: FunctionCode, rules: RiskRules) -> None:
    """Of an id that isn't above all others: one of the few, or that of the oldest place whose top is not below it."""
    state, client = b.parameters
    ids, others = _Memory(rules).ids, _Memory(rules).others
    assert ids is not None and others is not None
    with b.when(b.ge(others.find(b, b.at(state, "risk", "others"), client), 0)):
        b.give(True)
    ring = b.at(state, "risk", "ids")
    low, high = b.variable(b.const(0, "i64")), b.variable(b.wrapping("sub", ids.count(b, ring), 1))
    with b.repeat():
        with b.when(b.ge(b.now(low), b.now(high))):
            b.leave()
        middle = b.wrapping("shr", b.wrapping("add", b.wrapping("add", b.now(low), b.now(high)), 1), 1)
        with b.choice(b.ge(b.get(ids.slot(b, ring, middle), "top"), client)) as half:
            with half.then():
                b.set(low, middle)
            with half.otherwise():
                b.set(high, b.wrapping("sub", middle, 1))
    b.give(b.eq(b.get(ids.slot(b, ring, b.now(low)), "id"), client))


class _JudgeWriter:
    """Writes `risk.judge`."""

    def __init__(self, b: FunctionCode, rules: RiskRules) -> None:
        self.b, self.rules = b, rules
        self.desk, self.state, *rest = b.parameters
        given = dict(zip(list(OF_PROGRAM["risk.judge"].parameters), rest, strict=True))
        self.side, self.qty = given["side"], given["qty"]
        self.limit = Optional(given["limit.present"], given["limit"])
        self.reduce_only, self.instead_of = given["reduce_only"], given["instead_of"]
        self.client = Optional(given["client.present"], given["client"])
        self.buys = b.eq(self.side, BUY)
        self.now = b.get(self.desk, "now")
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
        b.give(self.mask, self.held_at)

    def broken(self, condition: Value, rule: RiskRule) -> None:
        b = self.b
        self.mask = b.wrapping("or", self.mask, b.select(condition, b.const(int(rule), "u32"), b.const(0, "u32")))

    def wide(self, a: Value, c: Number) -> Value:
        """A product of 128 bits."""
        b = self.b
        return b.wrapping("mul", b.cast(a, "i128"), b.cast(c, "i128") if isinstance(c, Value) else c)

    def _see(self) -> None:
        """The price to judge by, if there is one, and the price that the order counts with."""
        b, desk = self.b, self.desk
        book = b.at(desk, "book")
        bid, ask = (best(b, book, b.const(side, "u8")) for side in (BUY, SELL))
        far = Optional(b.select(self.buys, ask.present, bid.present), b.select(self.buys, ask.value, bid.value))
        self.last = read_optional(b, desk, "last")
        has_book = b.get(book, "updated", "present")
        market = Optional(b.select(has_book, far.present, self.last.present), b.select(has_book, far.value, self.last.value))
        self.price = Optional(b.either(self.limit.present, market.present), b.select(self.limit.present, self.limit.value, market.value))
        known = b.both(far.present, b.ne(far.value, 0))
        fallback = b.select(known, far.value, b.select(self.last.present, self.last.value, 0))
        self.held_at = b.select(self.limit.present, self.limit.value, fallback)

    def _others(self) -> None:
        """What the other open orders may fill on the same side, how many they are, and what they count for, in ticks * lots."""
        b, desk = self.b, self.desk
        p = b.at(desk, "position")
        same, count = b.variable(b.select(self.buys, b.get(p, "open_buys"), b.get(p, "open_sells"))), b.variable(b.get(desk, "open_count"))
        notional = b.variable(b.get(desk, "open_notional")) if self.rules.max_open_notional is not None else None
        with b.when(b.ge(self.instead_of, 0)):
            order = order_at(b, desk, self.instead_of)
            own = exposed(b, order)
            b.set(same, b.sub(b.now(same), own))
            b.set(count, b.wrapping("sub", b.now(count), 1))
            if notional is not None:
                b.set(notional, b.wrapping("sub", b.now(notional), self.wide(own, b.get(order, "held_at"))))
        self.same, self.count = b.now(same), b.now(count)
        self.notional = None if notional is None else b.now(notional)
        held = b.get(p, "qty")
        self.held = b.select(self.buys, held, b.saturating("sub", b.const(0, "i64"), held))
        left = b.saturating("sub", b.saturating("sub", b.const(0, "i64"), self.held), self.same)
        self.reduces = b.both(b.lt(self.held, 0), b.le(self.qty, left))

    def _state_of_trading(self) -> None:
        self.broken(self.b.eq(self.b.get(self.desk, "trading"), KILLED), RiskRule.KILL)

    def _sizes(self) -> None:
        b, rules = self.b, self.rules
        small = b.lt(self.qty, 1)
        self.broken(small if rules.max_order_qty is None else b.either(small, b.gt(self.qty, rules.max_order_qty)), RiskRule.MAX_ORDER_QTY)
        if rules.max_notional is not None:
            worth = self.wide(self.price.value, self.qty)
            self.broken(b.both(self.price.present, b.gt(worth, rules.max_notional // rules.point)), RiskRule.MAX_NOTIONAL)
        opens = b.both(self.reduce_only, b.negate(self.reduces))
        if rules.max_position is not None:
            worst = b.saturating("add", b.saturating("add", self.held, self.same), self.qty)
            opens = b.either(opens, b.gt(worst, rules.max_position))
        self.broken(opens, RiskRule.MAX_POSITION)

    def _collar(self) -> tuple[Value | None, Optional | None]:
        """Whether there is something to refer to, and when it was seen; None where no rule asks."""
        b, desk, collar = self.b, self.desk, self.rules.price_collar
        updated, last_ts = (read_optional(b, desk, *path) for path in (("book", "updated"), ("last_ts",)))
        newer = b.both(updated.present, b.either(b.negate(last_ts.present), b.gt(updated.value, last_ts.value)))
        later = b.select(newer, updated.value, last_ts.value)
        seen: Optional = Optional(b.either(updated.present, last_ts.present), later)
        if collar is None:
            return None, seen
        if collar.of == "mid":
            mid = mid2(b, b.at(desk, "book"))
            there, reference2, seen = mid.present, b.cast(mid.value, "i128"), updated
        elif collar.of == "last":
            there, reference2, seen = self.last.present, self.wide(self.last.value, 2), last_ts
        else:
            there, reference2 = b.const(True, "i1"), b.const(2 * collar.of, "i128")
        away2 = b.here.op("abs", b.wrapping("sub", self.wide(self.price.value, 2), reference2))
        known = b.both(self.price.present, there)
        if collar.bps is not None:
            ratio = collar.bps / 10_000
            too_far = b.gt(b.wrapping("mul", away2, ratio.denominator), b.wrapping("mul", reference2, ratio.numerator))
            self.broken(b.both(known, too_far), RiskRule.PRICE_COLLAR)
        if collar.ticks is not None:
            self.broken(b.both(known, b.gt(away2, 2 * collar.ticks)), RiskRule.PRICE_COLLAR)
        return there, seen

    def _staleness(self, reference: Value | None, seen: Optional | None) -> None:
        b, rules = self.b, self.rules
        stale = b.get(self.desk, "book", "suspect")
        if rules.priced:
            stale = b.either(stale, b.negate(self.price.present))
        if reference is not None:
            stale = b.either(stale, b.negate(reference))
        if rules.stale_data is not None and seen is not None:
            age = b.saturating("sub", self.now, seen.value)
            stale = b.either(stale, b.negate(seen.present), b.gt(age, rules.stale_data))
        self.broken(stale, RiskRule.STALE_DATA)

    def _memory(self) -> None:
        b, rules, memory = self.b, self.rules, _Memory(self.rules)
        if rules.rate is not None and memory.times is not None:
            limit, window = rules.rate
            times = b.at(self.state, "risk", "times")
            oldest = b.get(times, "items", b.get(times, "next"), proved=True)
            inside = b.gt(oldest, b.saturating("sub", self.now, window))
            full = b.both(b.eq(b.get(times, "count"), limit), inside) if limit > 0 else b.const(True, "i1")
            if not rules.rate_all:
                full = b.both(full, b.lt(self.instead_of, 0))
            self.broken(full, RiskRule.RATE)
        if memory.ids is not None:
            known = b.variable(b.const(False, "i1"))
            rises, _ = _rises(b, memory.ids, b.at(self.state, "risk", "ids"), self.client.value)
            with b.when(b.both(self.client.present, b.negate(rises))):
                b.set(known, b.call("risk.is_known", self.state, self.client.value)[0])
            self.broken(b.now(known), RiskRule.DUPLICATE_ID)
        if rules.self_trade in ("reject", "cancel_both"):
            (met,) = b.call("orders.meets", self.desk, self.state, self.side, *self.limit.parts, self.instead_of)
            self.broken(met, RiskRule.SELF_TRADE)

    def _open_orders(self) -> None:
        """There is always a limit: the places for orders, and for requests on their way."""
        b, rules = self.b, self.rules
        most = OPEN if rules.max_open_orders is None else min(OPEN, rules.max_open_orders)
        many = b.either(b.ge(self.count, most), b.negate(requests.has_room(b, self.desk)))
        if self.notional is not None and rules.max_open_notional is not None:
            worth = b.wrapping("add", self.notional, self.wide(self.price.value, self.qty))
            many = b.either(many, b.both(self.price.present, b.gt(worth, rules.max_open_notional // rules.point)))
        self.broken(many, RiskRule.MAX_OPEN_ORDERS)

    def _losses(self) -> None:
        b, rules = self.b, self.rules
        if not rules.losses:
            return
        account, net = b.at(self.desk, "account"), b.get(self.desk, "position", "net")
        deadly, reducing = b.const(False, "i1"), b.eq(b.get(self.desk, "trading"), REDUCING)
        for name, rule in rules.losses:
            held = {"max_loss": "session_net" if rule.session else None, "max_drawdown": "session_peak" if rule.session else "run_peak"}[
                name
            ]
            top = b.const(0, "i64") if held is None else b.get(account, held)
            reached = b.ge(b.saturating("sub", top, net), rule.limit)
            deadly, reducing = (b.either(deadly, reached), reducing) if rule.kills else (deadly, b.either(reducing, reached))
        self.broken(b.either(deadly, b.both(reducing, b.negate(self.reduces))), RiskRule.MAX_LOSS)

    def _input(self) -> None:
        b, desk = self.b, self.desk
        bad = b.either(b.both(self.limit.present, b.le(self.limit.value, 0)), b.get(desk, "bad_input"), b.get(desk, "market_halted"))
        if self.rules.session is not None:
            begin, end = self.rules.session
            since = b.wrapping("sub", self.now, begin)
            of_day = b.wrapping("sub", since, b.wrapping("mul", b.quotient(since, DAY, "floor"), DAY))
            bad = b.either(bad, b.ge(of_day, (end - begin) % DAY))
        self.broken(bad, RiskRule.BAD_INPUT)
