"""The market's side of our orders: how they fill against data that knew nothing of them.

`next`: whole, at the first trade after they became active whose price the limit allows. `touch`: crossing orders take displayed levels;
resting ones fill, up to the trade's size, when the other side trades at or through them. `queue`: like `touch`, but behind what was displayed
as they came: trades at their price eat that first, and a trade through fills them whole.

At its limit a resting iceberg fills no more of a trade than it shows; then it shows the next part, behind all others. An order with a stop
waits until a trade, or where there was none the best price of the other side of a good book, is at its stop or through it; then it acts as
one that comes at that moment, but that one which must not take is cancelled if it would."""

from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.market import Instrument, Side, Trade
from tests.quantdsl.reference.orders import Order, State, Tif


@frozen
class Report:
    order: int


@frozen
class Ack(Report):
    pass


@frozen
class Fill(Report):
    price: int
    qty: int
    maker: bool


@frozen
class Ended(Report):
    """Cancelled, expired, or rejected by the market."""

    state: State


@frozen
class Replaced(Report):
    """Quantity and limit as they now are; those of before where the replace was refused."""

    qty: int
    limit: int | None


@define
class Resting:
    """An order as the market holds it. `ahead`: what stands before it in the queue. `show`: the size of an iceberg's parts, 0 for no
    iceberg; `display`: what is left of the one that is shown."""

    id: int
    side: Side
    limit: int | None
    qty: int
    left: int
    tif: Tif
    post_only: bool
    session: int
    stop: int | None = None
    show: int = 0
    ahead: int = 0
    display: int = 0

    @property
    def shown(self) -> int:
        """What a trade at the limit may fill."""
        return min(self.left, self.display) if self.show else self.left


class Exchange:
    def __init__(self, fills: str, instrument: Instrument, book: Book, report: Callable[[Report], None]) -> None:
        assert fills in ("next", "touch", "queue")
        self.fills, self.instrument, self.book, self.report = fills, instrument, book, report
        self.resting: list[Resting] = []
        """In the order of their arrival."""
        self.waiting: list[Resting] = []
        """For their stop, in the order of their arrival."""
        self.halted = False
        self.last: int | None = None

    def arrive(self, order: Order, now: int) -> None:
        session = self.instrument.session_of(now)
        came = Resting(order.id, order.side, order.limit, order.qty, order.qty, order.tif, order.post_only, session, order.stop, order.show)
        if self.halted or (order.post_only and order.stop is None and self._crosses(came.side, came.limit)):
            self.report(Ended(order.id, State.REJECTED))
            return
        self.report(Ack(order.id))
        if order.stop is None:
            self._place(came)
        else:
            self.waiting.append(came)
            self._look_at_stops([came])

    def cancel(self, id: int) -> None:
        """An order that isn't there any more stays as it ended."""
        for order in [o for o in [*self.resting, *self.waiting] if o.id == id]:
            self._end(order, State.CANCELLED)

    def replace(self, id: int, qty: int, limit: int | None) -> None:
        """A new whole quantity and limit. The place in the queue is kept only by less quantity at the same limit."""
        order = next((o for o in [*self.resting, *self.waiting] if o.id == id), None)
        if order is None:
            return
        waits = order in self.waiting
        if self.halted or (order.post_only and not waits and self._crosses(order.side, limit)):
            self.report(Replaced(id, order.qty, order.limit))
            return
        left = qty - (order.qty - order.left)
        if left <= 0:
            self._end(order, State.CANCELLED)
            return
        stays = waits or (limit == order.limit and qty <= order.qty)
        order.qty, order.left, order.limit = qty, left, limit
        order.display = min(order.display, left)
        self.report(Replaced(id, qty, limit))
        if not stays:
            self.resting = [o for o in self.resting if o is not order]
            self._place(order)

    def trade(self, trade: Trade) -> None:
        {"next": self._next, "touch": self._touch, "queue": self._queue}[self.fills](trade)
        self.resting = [o for o in self.resting if o.left]
        self.last = trade.price
        self._look_at_stops(list(self.waiting))

    def book_changed(self) -> None:
        """The queue before an order is never longer than what is displayed there."""
        for order in self.resting:
            if order.limit is not None:
                order.ahead = min(order.ahead, self.book.shown(order.side, order.limit))
        if self.last is None:
            self._look_at_stops(list(self.waiting))

    def expire(self, now: int) -> None:
        """Orders for the day end with their session."""
        for order in [*self.resting, *self.waiting]:
            if order.tif is Tif.DAY and not (self.instrument.in_session(now) and order.session == self.instrument.session_of(now)):
                self._end(order, State.EXPIRED)

    def _place(self, order: Resting) -> None:
        if self.fills == "next":
            self.resting.append(order)
            return
        reachable = [
            (price, level)
            for price, level in self.book.ladder(order.side.opposite)
            if level.available and (order.limit is None or order.side * (order.limit - price) >= 0)
        ]
        if order.tif is Tif.FOK and sum(level.available for _, level in reachable) < order.left:
            self._end(order, State.CANCELLED)
            return
        for price, level in reachable:
            taken = min(order.left, level.available)
            if taken:
                level.taken += taken
                self._fill(order, price, taken, maker=False)
        if order.left and (order.limit is None or order.tif in (Tif.IOC, Tif.FOK)):
            self._end(order, State.CANCELLED)
        elif order.left:
            self._stand(order)

    def _stand(self, order: Resting) -> None:
        """Behind all others."""
        assert order.limit is not None
        order.ahead, order.display = self.book.shown(order.side, order.limit), min(order.show, order.left)
        self.resting.append(order)

    def _look_at_stops(self, orders: list[Resting]) -> None:
        """Nothing happens while trading is halted."""
        for order in orders if not self.halted else []:
            price = self.last
            if price is None and not self.book.suspect:
                price = self.book.best(order.side.opposite)
            assert order.stop is not None
            if price is not None and order.side * (price - order.stop) >= 0:
                self.waiting = [o for o in self.waiting if o is not order]
                if order.post_only and self._crosses(order.side, order.limit):
                    self._end(order, State.CANCELLED)
                else:
                    self._place(order)

    def _crosses(self, side: Side, limit: int | None) -> bool:
        far = self.book.best(side.opposite)
        return self.fills != "next" and far is not None and (limit is None or side * (limit - far) >= 0)

    def _next(self, trade: Trade) -> None:
        for order in list(self.resting):
            if order.limit is None or order.side * (order.limit - trade.price) >= 0:
                self._fill(order, trade.price, order.left, maker=order.post_only)
            elif order.tif in (Tif.IOC, Tif.FOK):
                self._end(order, State.CANCELLED)

    def _touch(self, trade: Trade) -> None:
        volume = trade.qty
        for order in self._by_priority():
            if self._reached(order, trade):
                filled = min(order.shown if order.limit == trade.price else order.left, volume)
                volume -= filled
                self._fill_resting(order, filled)

    def _queue(self, trade: Trade) -> None:
        volume = trade.qty
        for order in self._by_priority():
            if not self._reached(order, trade):
                continue
            filled = order.left
            if order.limit == trade.price:
                filled = min(order.shown, max(0, volume - order.ahead))
                order.ahead = max(0, order.ahead - volume)
                volume -= filled
            self._fill_resting(order, filled)

    def _fill_resting(self, order: Resting, qty: int) -> None:
        if qty:
            self._fill(order, order.limit, qty, maker=True)
            order.display -= qty if order.show else 0
            if order.show and order.left and order.display <= 0:
                self.resting = [o for o in self.resting if o is not order]
                self._stand(order)

    def _reached(self, order: Resting, trade: Trade) -> bool:
        """The other side traded at the limit or through it; where the data doesn't say who did, it must be through."""
        assert order.limit is not None
        through = order.side * (order.limit - trade.price)
        return through > 0 if trade.side is Side.NONE else trade.side is order.side.opposite and through >= 0

    def _by_priority(self) -> list[Resting]:
        """Better prices first, earlier ones first among equals."""
        return sorted(self.resting, key=lambda o: -o.side * (o.limit or 0))

    def _fill(self, order: Resting, price: Any, qty: int, *, maker: bool) -> None:
        order.left -= qty
        self.report(Fill(order.id, price, qty, maker))

    def _end(self, order: Resting, state: State) -> None:
        order.left = 0
        self.resting = [o for o in self.resting if o is not order]
        self.waiting = [o for o in self.waiting if o is not order]
        self.report(Ended(order.id, state))
