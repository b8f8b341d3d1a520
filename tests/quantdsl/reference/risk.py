"""The twelve rules, each written as QuantDSL's reference states it, all looked at for every order."""

import copy
from collections import deque
from enum import IntEnum, IntFlag
from fractions import Fraction

from attrs import define, field, frozen

from tests.quantdsl.reference.accounting import Position
from tests.quantdsl.reference.market import Instrument, Side
from tests.quantdsl.reference.orders import Order


class Mask(IntFlag):
    KILL = 1
    MAX_ORDER_QTY = 2
    MAX_NOTIONAL = 4
    PRICE_COLLAR = 8
    MAX_POSITION = 16
    RATE = 32
    DUPLICATE_ID = 64
    SELF_TRADE = 128
    STALE_DATA = 256
    MAX_OPEN_ORDERS = 512
    MAX_LOSS = 1024
    BAD_INPUT = 2048


@frozen
class Collar:
    """So many bps, or ticks, around the mid, the last trade or a price."""

    bps: Fraction | None = field(default=None, converter=lambda b: None if b is None else Fraction(b))
    ticks: int | None = None
    of: str | int = "mid"


@frozen
class Loss:
    """`per`: `session`, or `run`. `then`: `kill`, or `reducing`."""

    limit: int
    per: str = "run"
    then: str = "kill"


@frozen
class Limits:
    """A risk block; a rule that isn't written is None."""

    max_order_qty: int | None = None
    max_notional: int | None = None
    price_collar: Collar | None = None
    max_position: int | None = None
    max_open_orders: int | None = None
    max_open_notional: int | None = None
    rate: tuple[int, int] | None = None
    """So many in a window of ns."""
    rate_all: bool = False
    max_loss: Loss | None = None
    max_drawdown: Loss | None = None
    stale_data: int | None = None
    duplicate_id: int | None = None
    """Among the last so many accepted ids."""
    self_trade: str | None = None


class Trading(IntEnum):
    ACTIVE = 0
    REDUCING = 1
    KILLED = 2


@define
class View:
    """What the rules look at besides the order."""

    now: int
    bid: int | None = None
    ask: int | None = None
    last: int | None = None
    book_updated: int | None = None
    last_updated: int | None = None
    suspect: bool = False
    halted: bool = False
    bad: bool = False
    """A NaN or a none upstream made this order's numbers."""
    has_book: bool = False

    @property
    def mid2(self) -> int | None:
        return None if self.bid is None or self.ask is None else self.bid + self.ask


class Risk:
    """A risk block's memory. An order that is refused leaves no trace in it."""

    def __init__(self, limits: Limits, instrument: Instrument) -> None:
        self.limits, self.instrument = limits, instrument
        self.trading = Trading.ACTIVE
        self.accepted: deque[int] = deque()
        """Times of what counts for the rate."""
        self.ids: deque[int] = deque(maxlen=limits.duplicate_id)
        self.session: int | None = None
        self.session_net = self.session_peak = self.run_peak = 0

    def copy(self) -> "Risk":
        other = copy.copy(self)
        other.accepted, other.ids = self.accepted.copy(), self.ids.copy()
        return other

    def watch(self, ts: int, position: Position) -> bool:
        """After each event: looks at the losses, and gives whether that killed."""
        session = self.instrument.session_of(ts)
        if session != self.session:
            self.session, self.session_net, self.session_peak = session, position.net, position.net
        self.session_peak = max(self.session_peak, position.net)
        self.run_peak = max(self.run_peak, position.net)
        killed = False
        for rule, fall in self._falls(position):
            if fall >= rule.limit:
                killed |= rule.then == "kill" and self.trading is not Trading.KILLED
                self.trading = max(self.trading, Trading.KILLED if rule.then == "kill" else Trading.REDUCING)
        return killed

    def _falls(self, position: Position) -> list[tuple[Loss, int]]:
        found = []
        if (loss := self.limits.max_loss) is not None:
            found.append((loss, (self.session_net if loss.per == "session" else 0) - position.net))
        if (fall := self.limits.max_drawdown) is not None:
            found.append((fall, (self.session_peak if fall.per == "session" else self.run_peak) - position.net))
        return found

    def evaluate(self, order: Order, position: Position, resting: list[Order], view: View) -> Mask:
        """All rules that the order breaks. `resting`: the strategy's open orders, those on their way among them."""
        limits, point, mask = self.limits, self.instrument.point, Mask(0)
        far = view.ask if order.side is Side.BUY else view.bid
        price = order.limit if order.limit is not None else far if view.has_book else view.last
        same = [o for o in resting if o.side is order.side]
        closing = position.qty * order.side < 0
        reduces = closing and order.qty <= abs(position.qty) - sum(o.exposed for o in same)

        if self.trading is Trading.KILLED:
            mask |= Mask.KILL
        if order.qty < 1 or (limits.max_order_qty is not None and order.qty > limits.max_order_qty):
            mask |= Mask.MAX_ORDER_QTY
        if price is not None and limits.max_notional is not None and price * order.qty * point > limits.max_notional:
            mask |= Mask.MAX_NOTIONAL

        collar, reference2, seen = limits.price_collar, None, max_known(view.book_updated, view.last_updated)
        if collar is not None:
            match collar.of:
                case "mid":
                    reference2, seen = view.mid2, view.book_updated
                case "last":
                    reference2, seen = None if view.last is None else 2 * view.last, view.last_updated
                case fixed:
                    reference2 = 2 * int(fixed)
            if price is not None and reference2 is not None:
                away2 = abs(2 * price - reference2)
                if collar.bps is not None and away2 * 10_000 > collar.bps * reference2:
                    mask |= Mask.PRICE_COLLAR
                if collar.ticks is not None and away2 > 2 * collar.ticks:
                    mask |= Mask.PRICE_COLLAR

        worst = order.side * position.qty + sum(o.exposed for o in same) + order.qty
        if limits.max_position is not None and worst > limits.max_position:
            mask |= Mask.MAX_POSITION
        if order.reduce_only and not reduces:
            mask |= Mask.MAX_POSITION

        if limits.rate is not None and self._in_window(view.now) >= limits.rate[0]:
            mask |= Mask.RATE
        if limits.duplicate_id is not None and order.client_id is not None and order.client_id in self.ids:
            mask |= Mask.DUPLICATE_ID
        if limits.self_trade in ("reject", "cancel_both") and self.met(order, resting):
            mask |= Mask.SELF_TRADE

        unpriced = price is None and (limits.max_notional is not None or limits.max_open_notional is not None or collar is not None)
        unreferenced = collar is not None and reference2 is None
        old = limits.stale_data is not None and (seen is None or view.now - seen > limits.stale_data)
        if view.suspect or unpriced or unreferenced or old:
            mask |= Mask.STALE_DATA

        if limits.max_open_orders is not None and len(resting) + 1 > limits.max_open_orders:
            mask |= Mask.MAX_OPEN_ORDERS
        if limits.max_open_notional is not None and price is not None:
            held = sum(o.exposed * o.held_at * point for o in resting)
            if held + price * order.qty * point > limits.max_open_notional:
                mask |= Mask.MAX_OPEN_ORDERS

        breached = [rule for rule, fall in self._falls(position) if fall >= rule.limit]
        if any(rule.then == "kill" for rule in breached) or ((breached or self.trading is Trading.REDUCING) and not reduces):
            mask |= Mask.MAX_LOSS

        priced_badly = any(price is not None and price <= 0 for price in (order.limit, order.stop)) or order.show < 0
        if priced_badly or view.bad or view.halted or not self.instrument.in_session(view.now):
            mask |= Mask.BAD_INPUT
        return mask

    def _in_window(self, now: int) -> int:
        """How many stand in (now - window, now]."""
        assert self.limits.rate is not None
        while self.accepted and self.accepted[0] <= now - self.limits.rate[1]:
            self.accepted.popleft()
        return len(self.accepted)

    def met(self, order: Order, resting: list[Order]) -> list[Order]:
        """Own orders of the other side that this one would trade with; an order at the market meets every one."""
        return [
            o
            for o in resting
            if o.side is order.side.opposite and (o.limit is None or order.limit is None or order.side * (order.limit - o.limit) >= 0)
        ]

    def accept(self, order: Order, now: int) -> None:
        if self.limits.rate is not None:
            self.accepted.append(now)
        if order.client_id is not None:
            self.ids.append(order.client_id)

    def count_request(self, now: int) -> None:
        """A cancel or a replace: counts, and is never refused for it, where the rule says `all`."""
        if self.limits.rate is not None and self.limits.rate_all:
            self.accepted.append(now)


def max_known(*times: int | None) -> int | None:
    return max((t for t in times if t is not None), default=None)
