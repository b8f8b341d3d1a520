"""Positions and what they earned, in whole money units. `realized + unrealized == cash + value` holds by construction of the cost parts and
is asserted all the same."""

from collections import deque
from fractions import Fraction

from tests.quantdsl.reference.market import Instrument, Side
from tests.quantdsl.reference.numbers import half_even, money, up


class Position:
    """One instrument's. `cost` is what the open part was bought for, negative when short; `mark2` is the mark in half ticks."""

    def __init__(self, instrument: Instrument, method: str = "average") -> None:
        assert method in ("average", "fifo")
        self.instrument, self.method = instrument, method
        self.qty = self.cost = self.realized = self.fees = self.cash = self.volume = 0
        self.mark2: int | None = None
        self.peak = self.max_drawdown = 0
        self.lots: deque[list[int]] = deque()
        """For fifo: signed quantity and price of each open fill, oldest first."""

    def fill(self, side: Side, price: int, qty: int, *, maker: bool) -> int:
        """Closes, then opens the rest on the other side; gives the fee."""
        point = self.instrument.point
        closing = min(qty, abs(self.qty)) if self.qty * side < 0 else 0
        if closing:
            part = self._cost_part(closing)
            self.realized = money(self.realized - side * closing * price * point - part)
            self.cost -= part
            self.qty += side * closing
        opening = qty - closing
        if opening:
            self.qty = money(self.qty + side * opening)
            self.cost = money(self.cost + side * opening * price * point)
            self.lots.append([side * opening, price])
        self.cash = money(self.cash - side * qty * price * point)
        self.volume += qty
        fee = self.fee(price, qty, maker=maker)
        self.fees = money(self.fees + fee)
        return fee

    def _cost_part(self, closing: int) -> int:
        if self.method == "average":
            return half_even(self.cost * closing, abs(self.qty))
        part = 0
        while closing:
            oldest = self.lots[0]
            taken = min(closing, abs(oldest[0]))
            signed = taken if oldest[0] > 0 else -taken
            part += signed * oldest[1] * self.instrument.point
            oldest[0] -= signed
            closing -= taken
            if oldest[0] == 0:
                self.lots.popleft()
        return part

    def fee(self, price: int, qty: int, *, maker: bool) -> int:
        """Rounded against the trader: a fee up, a rebate down."""
        rate = self.instrument.maker if maker else self.instrument.taker
        return up(Fraction(price * qty * self.instrument.point) * rate.bps / 10_000) + rate.per_lot * qty

    @property
    def value(self) -> int:
        """What the position is worth at the mark; a mark of half a tick may need rounding, halves to even."""
        return 0 if self.mark2 is None else half_even(self.qty * self.mark2 * self.instrument.point, 2)

    @property
    def unrealized(self) -> int:
        return 0 if self.mark2 is None else self.value - self.cost

    @property
    def net(self) -> int:
        return self.realized + self.unrealized - self.fees

    def mark(self, mark2: int | None) -> None:
        """A new mark, None: as before. Notes the highest net so far and the deepest fall from it."""
        if mark2 is not None:
            self.mark2 = mark2
        self.peak = max(self.peak, self.net)
        self.max_drawdown = max(self.max_drawdown, self.peak - self.net)

    def assert_identity(self) -> None:
        if self.mark2 is None:
            assert self.realized - self.cost == self.cash
        else:
            assert self.realized + self.unrealized == self.cash + self.value
        assert self.qty or not self.cost
        if self.method == "fifo":
            assert sum(lot for lot, _ in self.lots) == self.qty
