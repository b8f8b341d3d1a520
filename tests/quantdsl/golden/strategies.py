"""The programs of `programs/quantdsl` once more, in plain Python, for the reference engine."""

from typing import Any

from attrs import evolve, frozen

from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.exchange import Fill
from tests.quantdsl.reference.market import Side, Trade
from tests.quantdsl.reference.orders import Order, Tif
from tests.quantdsl.reference.risk import Mask


class Ema:
    """p + 2 / (n + 1) * (x - p), beginning with the first x."""

    value: float | None = None

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, x: float) -> float:
        self.value = x if self.value is None else self.value + 2.0 / (self.n + 1) * (x - self.value)
        return self.value


class Cross(Strategy):
    """`ema_cross.qdsl`. Prices are in ticks of 0.01."""

    def __init__(self, fast: int = 12, slow: int = 26, clip: int = 1000, slack: int = 5) -> None:
        self.fast, self.slow, self.clip, self.slack = Ema(fast), Ema(slow), clip, slack
        self.before: tuple[float, float] | None = None

    def on_trade(self, engine: Engine, trade: Trade) -> None:
        f, s = self.fast(trade.price / 100), self.slow(trade.price / 100)
        side = None
        if self.before is not None and self.before[0] <= self.before[1] and f > s:
            side = Side.BUY
        if self.before is not None and self.before[0] >= self.before[1] and f < s:
            side = Side.SELL
        self.before = f, s
        if side is not None:
            missing = self.clip - engine.position.qty * side
            if missing > 0:
                engine.order(side, missing, trade.price + self.slack * side, Tif.IOC)


@frozen
class Quoted:
    id: int
    at: int
    left: int
    leaving: bool = False


class Maker(Strategy):
    """`market_maker.qdsl`."""

    def __init__(self, clip: int = 500, most: int = 2000, pause: int = 100 * 10**6) -> None:
        self.clip, self.most, self.pause = clip, most, pause
        self.resumes, self.stopped = 0, False
        self.mine: dict[Side, Quoted | None] = {Side.BUY: None, Side.SELL: None}

    def on_book(self, engine: Engine, book: Book) -> None:
        for side in (Side.BUY, Side.SELL):
            best, mine = book.best(side), self.mine[side]
            if best is None:
                continue
            if mine is not None:
                if mine.at != best and not mine.leaving:
                    engine.cancel(mine.id)
                    self.mine[side] = evolve(mine, leaving=True)
            elif not self.stopped and engine.now >= self.resumes and engine.position.qty * side < self.most:
                made = engine.order(side, self.clip, best, post_only=True)
                if not isinstance(made, Mask):
                    self.mine[side] = Quoted(made, best, self.clip)
                    continue
                self.resumes = engine.now + self.pause
                if made & (Mask.KILL | Mask.MAX_LOSS):
                    self.stopped = True
                    engine.cancel_all()

    def _less(self, side: Side, id: int, by: int) -> None:
        mine = self.mine[side]
        if mine is not None and mine.id == id:
            self.mine[side] = evolve(mine, left=mine.left - by) if mine.left > by else None

    def on_cancelled(self, engine: Engine, order: Order) -> None:
        for side in self.mine:
            self._less(side, order.id, self.clip)

    def on_fill(self, engine: Engine, fill: Fill) -> None:
        self._less(engine.orders[fill.order].side, fill.order, fill.qty)

    def on_reject(self, engine: Engine, order: Order) -> None:
        self.mine[order.side] = None

    def on_gap(self, engine: Engine, gap: Any) -> None:
        engine.cancel_all()

    def on_stop(self, engine: Engine) -> None:
        engine.cancel_all()


class Imbalance(Strategy):
    """`itch_imbalance.qdsl`."""

    timers = (10**9,)

    def __init__(self, levels: int = 5, heavy: float = 0.6, light: float = 0.1, clip: int = 100) -> None:
        self.levels, self.heavy, self.light, self.clip = levels, heavy, light, clip

    def tilt(self, book: Book) -> float:
        bids, asks = (sum(level.qty for _, level in book.ladder(side)[: self.levels]) for side in (Side.BUY, Side.SELL))
        return (bids - asks) / (bids + asks) if bids + asks else 0.0

    def on_book(self, engine: Engine, book: Book) -> None:
        tilt = self.tilt(book)
        for side in (Side.BUY, Side.SELL):
            price = book.best(side.opposite)
            if tilt * side > self.heavy and price is not None:
                engine.order(side, self.clip, price, Tif.IOC)

    def on_timer(self, engine: Engine, period: int) -> None:
        if abs(self.tilt(engine.book)) < self.light:
            engine.flatten()

    def on_gap(self, engine: Engine, gap: Any) -> None:
        engine.cancel_all()
