"""A book of displayed quantities, from quotes, levels or single orders. An update after which bids meet asks is refused."""

from collections.abc import Callable
from typing import Any

from attrs import define

from tests.quantdsl.reference.market import Add, Clear, Event, Execute, Gap, Level, Quote, Reduce, Side, Swap


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
        self.orders: dict[int, tuple[Side, int, int]] = {}
        self.hidden: set[int] = set()
        """Orders of refused updates: no level shows them."""
        self.updated: int | None = None
        self.suspect = False
        self.crossed = 0
        """Refused or trimmed updates."""
        self._undo: list[Callable[[], Any]] = []
        self._known = True
        self._deep = False
        """Levels or orders came since both sides were cleared, so a quote isn't all there is."""
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
            self.suspect |= event.lost
            return True
        self._known &= self._change(event)
        if event.more:
            return True
        undo, self._undo = self._undo, []
        known, self._known = self._known, True
        bid, ask = self.best(Side.BUY), self.best(Side.SELL)
        if known and bid is not None and ask is not None and bid >= ask:
            self.crossed += 1
            if self.on_cross == "refuse":
                for restore in reversed(undo):
                    restore()
                self.suspect = True
                return False
            self._trim()
        self.suspect = not known or event.suspect
        if not self.suspect:
            self.updated = event.ts
        return True

    def _change(self, event: Event) -> bool:
        """False: it speaks of an order that isn't there."""
        match event:
            case Quote():
                for side, price, qty in ((Side.BUY, event.bid, event.bid_qty), (Side.SELL, event.ask, event.ask_qty)):
                    for other in [p for p in self.sides[side] if p != price]:
                        if side * (other - price) > 0 or not self._deep or not qty:
                            self._set(side, other, 0)
                    self._set(side, price, qty)
            case Level():
                self._deep = True
                self._set(event.side, event.price, event.qty)
            case Clear():
                self._deep &= bool(event.side)
                for side in [event.side] if event.side else list(self.sides):
                    for price in list(self.sides[side]):
                        self._set(side, price, 0)
                    for id in [id for id, (of, _, _) in self.orders.items() if of is side]:
                        self._order(id, None)
            case Add():
                self._deep = True
                return self._enter(event.id, event.side, event.price, event.qty)
            case Execute() | Reduce():
                return self._leave(event.id, event.qty) is not None
            case Swap():
                side = self._leave(event.id, None)
                if side is None:
                    return False
                return self._enter(event.new_id, side, event.price, event.qty)
        return True

    def _enter(self, id: int, side: Side, price: int, qty: int) -> bool:
        """False: there is an order of that number, and it stays as it is."""
        if id in self.orders:
            return False
        self._order(id, (side, price, qty))
        self._set(side, price, self.shown(side, price) + qty)
        return True

    def _leave(self, id: int, qty: int | None) -> Side | None:
        """With so much of its quantity, all of it where that is None. The order's side, if it is there."""
        if id not in self.orders:
            return None
        side, price, resting = self.orders[id]
        lost = resting if qty is None else min(qty, resting)
        hidden = id in self.hidden
        self._order(id, (side, price, resting - lost) if resting > lost else None)
        if not hidden:
            self._set(side, price, max(0, self.shown(side, price) - lost))
        return side

    def _order(self, id: int, now: tuple[Side, int, int] | None) -> None:
        """What becomes of an order that isn't shown is never taken back; one that a refused update brought isn't shown."""
        before = self.orders.get(id)
        if id not in self.hidden:
            self._undo.append(lambda: self._hide(id) if before is None else self._show(id, before))
        if now is None:
            del self.orders[id]
            self.hidden.discard(id)
        else:
            self.orders[id] = now

    def _hide(self, id: int) -> None:
        if id in self.orders:
            self.hidden.add(id)

    def _show(self, id: int, order: tuple[Side, int, int]) -> None:
        self.orders[id] = order
        self.hidden.discard(id)

    def _set(self, side: Side, price: int, qty: int) -> None:
        """A level whose quantity stays as it was shows nothing new, so what we took of it stays taken."""
        self._number += 1
        level = self.sides[side].get(price)
        if level is not None and level.qty == qty:
            level.number = self._number
            return
        self._note(self.sides[side], price)
        if qty == 0:
            self.sides[side].pop(price, None)
        else:
            self.sides[side][price] = Shown(qty, 0, self._number)

    def _note(self, of: dict[int, Any], key: int) -> None:
        """How to bring back what stands there now."""
        missing = object()
        before = of.get(key, missing)
        self._undo.append(lambda: of.pop(key, None) if before is missing else of.__setitem__(key, before))

    def _trim(self) -> None:
        """Drops the older of the two best levels while they meet."""
        while (bid := self.best(Side.BUY)) is not None and (ask := self.best(Side.SELL)) is not None and bid >= ask:
            bid_level, ask_level = self.sides[Side.BUY][bid], self.sides[Side.SELL][ask]
            older, price = (Side.BUY, bid) if bid_level.number < ask_level.number else (Side.SELL, ask)
            del self.sides[older][price]
