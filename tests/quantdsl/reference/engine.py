"""A replay of one strategy on one instrument: slow, plain, meant to be obviously right. The native engine is tested against it.

What is due at or before the time of a row of data happens before that row: orders that arrive, then reports, then timers, by time. A row
first changes book and resting orders; then reports that are due come in; then its own handlers run. A strategy knows its fills from
reports, and so do its risk rules; what the market did by the end of the data is accounted in any case."""

import copy
import heapq
from collections.abc import Callable, Iterable
from typing import Any

from attrs import frozen

from tests.quantdsl.reference.accounting import Position
from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.exchange import Ack, Ended, Exchange, Fill, Replaced, Report
from tests.quantdsl.reference.market import Event, Execute, Gap, Halt, Instrument, Quote, Reduce, Side, Swap, Trade
from tests.quantdsl.reference.numbers import CheckedFailure
from tests.quantdsl.reference.orders import Order, State, Tif
from tests.quantdsl.reference.risk import Limits, Mask, Risk, Trading, View

ARRIVAL, REPORT, TIMER = range(3)
"""The order of what is due at the same time."""


class Strategy:
    """Handlers do nothing unless they are overridden. `timers`: periods in ns."""

    timers: tuple[int, ...] = ()

    def on_start(self, engine: "Engine") -> None: ...
    def on_stop(self, engine: "Engine") -> None: ...
    def on_trade(self, engine: "Engine", trade: Trade) -> None: ...
    def on_quote(self, engine: "Engine", quote: Quote) -> None: ...
    def on_book(self, engine: "Engine", book: Book) -> None: ...
    def on_timer(self, engine: "Engine", period: int) -> None: ...
    def on_ack(self, engine: "Engine", order: Order) -> None: ...
    def on_fill(self, engine: "Engine", fill: Fill) -> None: ...
    def on_cancelled(self, engine: "Engine", order: Order) -> None: ...
    def on_reject(self, engine: "Engine", order: Order) -> None: ...
    def on_gap(self, engine: "Engine", gap: Event) -> None: ...
    def on_halt(self, engine: "Engine", halt: Halt) -> None: ...


@frozen
class Filled:
    """A fill as accounted: with its fee, and the position after it."""

    ts: int
    order: int
    side: Side
    price: int
    qty: int
    maker: bool
    fee: int
    realized: int
    position: int


@frozen
class Refused:
    """An order that its risk block refused, with all reasons."""

    ts: int
    order: int
    side: Side
    qty: int
    limit: int | None
    mask: Mask


@frozen
class Sample:
    """Profit and loss after an event."""

    ts: int
    position: int
    mark2: int | None
    realized: int
    unrealized: int
    fees: int
    net: int


class Engine:
    """`out` and `back`: ns that an order needs to the market, and a report from it."""

    def __init__(
        self,
        strategy: Strategy,
        limits: Limits | None = None,
        instrument: Instrument | None = None,
        *,
        fills: str = "touch",
        out: int = 0,
        back: int = 0,
        accounting: str = "average",
        on_cross: str = "refuse",
    ) -> None:
        self.strategy, self.instrument = strategy, instrument or Instrument()
        self.book = Book(on_cross)
        self.position = Position(self.instrument, accounting)
        self.risk = Risk(limits or Limits(), self.instrument)
        self.exchange = Exchange(fills, self.instrument, self.book, self._reported)
        self.out, self.back = out, back
        self.now = 0
        self.last: int | None = None
        self.last_ts: int | None = None
        self.orders: dict[int, Order] = {}
        self._open: dict[int, Order] = {}
        self.submitted = 0
        self.fills: list[Filled] = []
        self.rejects: list[Refused] = []
        self.samples: list[Sample] = []
        self.illegal: list[tuple[int, State]] = []
        """Reports that an order's state didn't allow, which were ignored."""
        self.halted = False
        """By a checked failure: no handler runs any more."""
        self.why: str | None = None
        self._due: list[tuple[int, int, int, Callable[[], None]]] = []
        self._number = 0
        self._staged: list[Callable[[], None]] = []

    # What a handler may do.

    def order(
        self,
        side: Side,
        qty: int,
        limit: int | None = None,
        tif: Tif = Tif.GTC,
        *,
        post_only: bool = False,
        reduce_only: bool = False,
        client_id: int | None = None,
        stop: int | None = None,
        show: int = 0,
        bad: bool = False,
    ) -> int | Mask:
        """The id, or the mask of the rules that refuse it."""
        self.submitted += 1
        order = Order(self.submitted, side, qty, limit, tif, post_only, reduce_only, client_id, self.now, stop=stop, show=show)
        view = self._view(bad)
        order.held_at = limit if limit is not None else (view.ask if side is Side.BUY else view.bid) or self.last or 0
        mask = self.risk.evaluate(order, self.position, self.open, view)
        met = self.risk.met(order, self.open)
        policy = self.risk.limits.self_trade
        if (policy == "cancel_resting" and not mask) or (policy == "cancel_both" and mask == Mask.SELF_TRADE):
            for resting in met:
                self.cancel(resting.id)
        if mask:
            self.rejects.append(Refused(self.now, order.id, side, qty, limit, mask))
            return mask
        self.risk.accept(order, self.now)
        self.orders[order.id] = self._open[order.id] = order
        self._stage(lambda: self._send(order))
        return order.id

    def cancel(self, id: int) -> None:
        order = self.orders.get(id)
        if order is not None and order.state.open:
            self.risk.count_request(self.now)
            self._stage(lambda: self._arrive(lambda: self.exchange.cancel(id)))

    def cancel_all(self) -> None:
        for order in self.open:
            self.cancel(order.id)

    def replace(self, id: int, qty: int, limit: int | None) -> int | Mask:
        """Passes the same rules as a new order beside all others; only counts for the rate, and is refused for it, where that says `all`."""
        old = self.orders[id]
        if not old.state.open:
            return id
        new = Order(id, old.side, qty - old.filled, limit, old.tif, old.post_only, old.reduce_only)
        mask = self.risk.evaluate(new, self.position, [o for o in self.open if o is not old], self._view(False))
        if not self.risk.limits.rate_all:
            mask &= ~Mask.RATE
        if mask:
            return mask
        self.risk.count_request(self.now)
        old.asked_qty = qty
        self._stage(lambda: self._arrive(lambda: self.exchange.replace(id, qty, limit)))
        return id

    def flatten(self) -> int | Mask | None:
        """Closes the position at the market."""
        q = self.position.qty
        return self.order(Side.SELL if q > 0 else Side.BUY, abs(q), reduce_only=True) if q else None

    def kill(self, why: str) -> None:
        """No more orders; what is open is cancelled."""
        self.risk.trading, self.why = Trading.KILLED, self.why or why
        self.cancel_all()

    @property
    def open(self) -> list[Order]:
        return list(self._open.values())

    # The loop.

    def run(self, events: Iterable[Event]) -> "Engine":
        for number, event in enumerate(events):
            if number == 0:
                self._begin(event.ts)
            self._until(event.ts)
            self._row(event)
        self._until(self.now)
        self._call(self.strategy.on_stop)
        self._until(self.now)
        self.halted, halted = True, self.halted
        for _, kind, _, action in sorted(self._due, key=lambda due: due[:3]):
            if kind == REPORT:
                action()
        self.halted = halted
        self._after()
        return self

    def _begin(self, ts: int) -> None:
        self.now = ts
        self._call(self.strategy.on_start)
        for period in self.strategy.timers:
            self._at(ts + period, TIMER, lambda period=period: self._timer(period))

    def _row(self, event: Event) -> None:
        self.now = event.ts
        self.exchange.expire(self.now)
        handlers: list[Callable[[], None]] = []
        match event:
            case Trade():
                self._traded(event, handlers)
            case Halt():
                self.exchange.halted = event.on
                handlers.append(lambda: self._call(self.strategy.on_halt, event))
            case _:
                self._book_row(event, handlers)
        self._after(event)
        self._until(self.now)
        for handler in handlers:
            handler()

    def _traded(self, trade: Trade, handlers: list[Callable[[], None]]) -> None:
        self.last, self.last_ts = trade.price, trade.ts
        self.exchange.trade(trade)
        handlers.append(lambda: self._call(self.strategy.on_trade, trade))

    def _book_row(self, event: Event, handlers: list[Callable[[], None]]) -> None:
        if isinstance(event, Execute) and event.id in self.book.orders:
            side, price, resting = self.book.orders[event.id]
            if event.printed:
                own = price if event.price is None else event.price
                self._traded(Trade(event.ts, own, min(event.qty, resting), side.opposite), handlers)
        missing = isinstance(event, Gap) or (isinstance(event, Execute | Reduce | Swap) and event.id not in self.book.orders)
        good = self.book.apply(event)
        if missing:
            handlers.append(lambda: self._call(self.strategy.on_gap, event))
        elif good and not event.more:
            self.exchange.book_changed()
            if isinstance(event, Quote):
                handlers.append(lambda: self._call(self.strategy.on_quote, event))
            handlers.append(lambda: self._call(self.strategy.on_book, self.book))

    def _after(self, event: Event | None = None) -> None:
        """Marks at the mid of a good book, else at a trade, else as before; then looks at the losses."""
        between = event is not None and event.more
        if not self.book.suspect and self.book.both and not between:
            self.position.mark(self.book.mid2)
        else:
            self.position.mark(2 * event.price if isinstance(event, Trade) else None)
        self.position.assert_identity()
        p = self.position
        self.samples.append(Sample(self.now, p.qty, p.mark2, p.realized, p.unrealized, p.fees, p.net))
        if self.risk.watch(self.now, p):
            self.kill("loss")

    # Time.

    def _at(self, due: int, kind: int, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._due, (due, kind, self._number, action))

    def _until(self, ts: int) -> None:
        """Does what is due by then."""
        while self._due and self._due[0][0] <= ts:
            due, _, _, action = heapq.heappop(self._due)
            self.now = max(self.now, due)
            action()

    def _timer(self, period: int) -> None:
        self._at(self.now + period, TIMER, lambda: self._timer(period))
        self._call(self.strategy.on_timer, period)

    def _arrive(self, action: Callable[[], None]) -> None:
        self._at(self.now + self.out, ARRIVAL, action)

    def _send(self, order: Order) -> None:
        order.become(State.PENDING, self.now)
        sent = copy.copy(order)
        self._arrive(lambda: self.exchange.arrive(sent, self.now))

    # Handlers and reports.

    def _stage(self, action: Callable[[], None]) -> None:
        """Within a handler, until it has ended well; else at once."""
        self._staged.append(action)
        if not self._handling:
            self._commit()

    def _commit(self) -> None:
        staged, self._staged = self._staged, []
        for action in staged:
            action()

    _handling = False

    def _call(self, handler: Callable[..., None], *arguments: Any) -> None:
        if self.halted:
            return
        risk, submitted, rejected, asked = self.risk.copy(), self.submitted, len(self.rejects), [(o, o.asked_qty) for o in self.open]
        self._handling = True
        try:
            handler(self, *arguments)
        except CheckedFailure as failure:
            for id in range(submitted + 1, self.submitted + 1):
                self.orders.pop(id, None)
                self._open.pop(id, None)
            for order, quantity in asked:
                order.asked_qty = quantity
            self.risk, self.submitted, self._staged, self._handling = risk, submitted, [], False
            del self.rejects[rejected:]
            self.halted = True
            self.kill(str(failure))
        self._handling = False
        self._commit()

    def _reported(self, report: Report) -> None:
        self._at(self.now + self.back, REPORT, lambda: self._deliver(report))

    def _deliver(self, report: Report) -> None:
        order = self.orders[report.order]
        match report:
            case Ack():
                if self._become(order, State.LIVE):
                    self._call(self.strategy.on_ack, order)
            case Replaced():
                order.qty, order.limit, order.asked_qty = report.qty, report.limit, 0
                order.held_at = report.limit if report.limit is not None else order.held_at
                self._call(self.strategy.on_ack, order)
            case Ended():
                if self._become(order, report.state):
                    rejected = report.state is State.REJECTED
                    self._call(self.strategy.on_reject if rejected else self.strategy.on_cancelled, order)
            case Fill():
                whole = order.filled + report.qty == order.qty
                if self._become(order, State.FILLED if whole else State.PART_FILLED):
                    self._fill(order, report)

    def _become(self, order: Order, state: State) -> bool:
        legal = order.become(state, self.now)
        if not legal:
            self.illegal.append((order.id, state))
        if not order.state.open:
            self._open.pop(order.id, None)
        return legal

    def _fill(self, order: Order, fill: Fill) -> None:
        order.filled += fill.qty
        p = self.position
        fee = p.fill(order.side, fill.price, fill.qty, maker=fill.maker)
        self.fills.append(Filled(self.now, order.id, order.side, fill.price, fill.qty, fill.maker, fee, p.realized, p.qty))
        self._after()
        self._call(self.strategy.on_fill, fill)

    def _view(self, bad: bool) -> View:
        book = self.book
        return View(
            now=self.now,
            bid=book.best(Side.BUY),
            ask=book.best(Side.SELL),
            last=self.last,
            book_updated=book.updated,
            last_updated=self.last_ts,
            suspect=book.suspect,
            halted=self.exchange.halted,
            bad=bad,
            has_book=book.updated is not None,
        )

    # What came of it.

    def counts(self) -> dict[str, int]:
        """`submitted` is the sum of the others: an expired order counts as cancelled, one that the market refused as rejected."""
        ends = [o.state for o in self.orders.values()]
        return {
            "submitted": self.submitted,
            "filled": ends.count(State.FILLED),
            "cancelled": ends.count(State.CANCELLED) + ends.count(State.EXPIRED),
            "rejected": len(self.rejects) + ends.count(State.REJECTED),
            "open": sum(state.open for state in ends),
        }
