"""The moving-average cross of QuantDSL's first example, in Python, at the market."""

from tests.quantdsl.reference.engine import Engine, Strategy
from tests.quantdsl.reference.market import Side, Trade


class Ema:
    """p + 2 / (n + 1) * (x - p), beginning with the first x."""

    def __init__(self, n: int) -> None:
        self.weight, self.value = 2.0 / (n + 1), None

    value: float | None

    def __call__(self, x: float) -> float:
        self.value = x if self.value is None else self.value + self.weight * (x - self.value)
        return self.value


class EmaCross(Strategy):
    """Wants to be long after the fast average crossed the slow one upwards, short after it crossed downwards; `clip` lots an order, until the
    position has that many on the wanted side. `tick`: what prices are multiplied with before they are averaged."""

    def __init__(self, fast: int, slow: int, clip: int, tick: float) -> None:
        self.fast, self.slow, self.clip, self.tick = Ema(fast), Ema(slow), clip, tick
        self.before: tuple[float, float] | None = None
        self.want: Side | None = None

    def on_trade(self, engine: Engine, trade: Trade) -> None:
        f, s = self.fast(trade.price * self.tick), self.slow(trade.price * self.tick)
        if self.before is not None and self.before[0] <= self.before[1] and f > s:
            self.want = Side.BUY
        if self.before is not None and self.before[0] >= self.before[1] and f < s:
            self.want = Side.SELL
        self.before = f, s
        if self.want is not None and engine.position.qty * self.want < self.clip:
            answer = engine.order(self.want, self.clip)
            if type(answer) is int:
                self.want = None
