"""The life of an order."""

from enum import Enum

from attrs import define

from tests.quantdsl.reference.market import Side


class State(Enum):
    NEW = "new"
    PENDING = "pending"
    LIVE = "live"
    PART_FILLED = "part_filled"
    FILLED = "filled"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"

    @property
    def open(self) -> bool:
        return self in (State.NEW, State.PENDING, State.LIVE, State.PART_FILLED)


_ENDS = {State.FILLED, State.CANCELLED, State.EXPIRED}
LEGAL: dict[State, set[State]] = {
    State.NEW: {State.PENDING, State.REJECTED},
    State.PENDING: {State.LIVE, State.REJECTED, State.CANCELLED},
    State.LIVE: {State.PART_FILLED, *_ENDS},
    State.PART_FILLED: {State.PART_FILLED, *_ENDS},
}
"""An order that the market rejects, or that is withdrawn while on its way, never was live; every other one was before it ended."""


class Tif(Enum):
    GTC = "gtc"
    DAY = "day"
    IOC = "ioc"
    FOK = "fok"


@define
class Order:
    """As the strategy knows it. `limit` None: at the market. `held_at`: what it counts for in open notional, ticks. `stop`: the price that it
    waits for; `show`: an iceberg's part that is displayed, 0 for all of it."""

    id: int
    side: Side
    qty: int
    limit: int | None = None
    tif: Tif = Tif.GTC
    post_only: bool = False
    reduce_only: bool = False
    client_id: int | None = None
    ts: int = 0
    held_at: int = 0
    filled: int = 0
    state: State = State.NEW
    done: int | None = None
    asked_qty: int = 0
    """The quantity of a replace that is on its way, 0 without one."""
    stop: int | None = None
    show: int = 0

    @property
    def remaining(self) -> int:
        return self.qty - self.filled

    @property
    def exposed(self) -> int:
        """The most that may still be filled."""
        return max(self.qty, self.asked_qty) - self.filled

    def become(self, state: State, ts: int) -> bool:
        """False, and nothing happens, when an order can't get from its state to that one."""
        if state not in LEGAL.get(self.state, set()):
            return False
        self.state = state
        if not state.open:
            self.done = ts
        return True
