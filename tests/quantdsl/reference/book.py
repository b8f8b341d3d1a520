"""A book of displayed quantities, from quotes, levels or single orders. An update after which bids meet asks is refused."""

import copy
from typing import Any

from attrs import define

from tests.quantdsl.reference.market import Add, Clear, Event, Execute, Gap, Level, Quote, Reduce, Side


@define
class Shown:
    """One level: what the data shows, what of it our own simulated orders took, when it was last set."""

    qty: int
    taken: int = 0
    number: int = 0

    @property
    def available(self) -> int:
        return self.qty - self.taken


class Book:
    """`updated`: the time of the last good update. `suspect`: after a refused update, a gap or an unknown order, until the next good one."""

    def __init__(self, on_cross: str = "refuse") -> None:
        assert on_cross in ("refuse", "trim")
        self.on_cross = on_cross
        self.sides: dict[Side, dict[int, Shown]] = {Side.BUY: {}, Side.SELL: {}}
        self.orders: dict[int, list[Any]] = {}
        self.updated: int | None = None
        self.suspect = False
        self.crossed = 0
        """Refused or trimmed updates."""
        self._before: tuple[Any, Any] | None = None
        self._number = 0

    def best(self, side: Side) -> int | None:
        prices = self.sides[side]
        if not prices:
            return None
        return max(prices) if side is Side.BUY else min(prices)

    @property
    def both(self) -> bool:
        return bool(self.sides[Side.BUY] and self.sides[Side.SELL])

    @property
    def mid2(self) -> int | None:
        """The mid in half ticks."""
        bid, ask = self.best(Side.BUY), self.best(Side.SELL)
        return None if bid is None or ask is None else bid + ask

    def shown(self, side: Side, price: int) -> int:
        level = self.sides[side].get(price)
        return level.qty if level else 0

    def ladder(self, side: Side) -> list[tuple[int, Shown]]:
        """The levels of a side, best first."""
        return sorted(self.sides[side].items(), key=lambda item: -side * item[0])

    def apply(self, event: Event) -> bool:
        """Takes an event of the data. False: it is the last of its message and the whole message was refused."""
        if isinstance(event, Gap):
            self.suspect = True
            return True
        if self._before is None:
            sides = {side: {price: copy.copy(level) for price, level in levels.items()} for side, levels in self.sides.items()}
            self._before = sides, {id: list(order) for id, order in self.orders.items()}
        known = self._change(event)
        if getattr(event, "more", False):
            return True
        before, self._before = self._before, None
        bid, ask = self.best(Side.BUY), self.best(Side.SELL)
        if known and bid is not None and ask is not None and bid >= ask:
            self.crossed += 1
            if self.on_cross == "refuse":
                self.sides, self.orders = before
                self.suspect = True
                return False
            self._trim()
        self.suspect = not known
        if known:
            self.updated = event.ts
        return True

    def _change(self, event: Event) -> bool:
        match event:
            case Quote():
                for side, price, qty in ((Side.BUY, event.bid, event.bid_qty), (Side.SELL, event.ask, event.ask_qty)):
                    kept = self.sides[side].get(price)
                    self.sides[side] = {price: kept} if kept and qty else {}
                    self._set(side, price, qty)
            case Level():
                self._set(event.side, event.price, event.qty)
            case Clear():
                self.sides = {Side.BUY: {}, Side.SELL: {}}
                self.orders = {}
            case Add():
                self.orders[event.id] = [event.side, event.price, event.qty]
                self._set(event.side, event.price, self.shown(event.side, event.price) + event.qty)
            case Execute() | Reduce():
                order = self.orders.get(event.id)
                if order is None:
                    return False
                side, price, resting = order
                lost = resting if event.qty is None else min(event.qty, resting)
                order[2] -= lost
                if order[2] == 0:
                    del self.orders[event.id]
                self._set(side, price, self.shown(side, price) - lost)
        return True

    def _set(self, side: Side, price: int, qty: int) -> None:
        """A level whose quantity stays as it was shows nothing new, so what we took of it stays taken."""
        self._number += 1
        level = self.sides[side].get(price)
        if qty == 0:
            self.sides[side].pop(price, None)
        elif level is None or level.qty != qty:
            self.sides[side][price] = Shown(qty, 0, self._number)
        else:
            level.number = self._number

    def _trim(self) -> None:
        """Drops the older of the two best levels while they meet."""
        while (bid := self.best(Side.BUY)) is not None and (ask := self.best(Side.SELL)) is not None and bid >= ask:
            bid_level, ask_level = self.sides[Side.BUY][bid], self.sides[Side.SELL][ask]
            older, price = (Side.BUY, bid) if bid_level.number < ask_level.number else (Side.SELL, ask)
            del self.sides[older][price]
