"""What is traded, and what happens there: the instrument, and the events of its data. Prices are ticks, quantities lots, times ns."""

from enum import IntEnum
from fractions import Fraction

from attrs import field, frozen

DAY = 86_400_000_000_000


class Side(IntEnum):
    """The value is the sign: of a position that the side makes, and of a buyer's or bid's."""

    NONE = 0
    BUY = 1
    SELL = -1

    @property
    def opposite(self) -> "Side":
        return Side(-self)


@frozen
class Fee:
    """`bps` of a fill's value, and money for each lot. A negative fee is paid to the trader."""

    bps: Fraction = field(default=Fraction(0), converter=Fraction)
    per_lot: int = 0


@frozen
class Instrument:
    """`point`: money units that one lot gains as the price rises one tick (tick * lot * multiplier, at the currency's scale)."""

    point: int = 1
    maker: Fee = Fee()
    taker: Fee = Fee()
    session: tuple[int, int] | None = None
    """Open and close, ns since midnight UTC, the close itself outside. A close before the open is on the next day."""

    def in_session(self, ts: int) -> bool:
        if self.session is None:
            return True
        begin, end = self.session
        return (ts - begin) % DAY < (end - begin) % DAY

    def session_of(self, ts: int) -> int:
        """The number of the session, or of the day where there are none. Between two sessions, that of the one before."""
        return (ts - (self.session[0] if self.session else 0)) // DAY


@frozen
class Event:
    """`more`: the next event belongs to the same message, the book is looked at after that. `suspect`: the data itself doubts this."""

    ts: int
    more: bool = field(default=False, kw_only=True)
    suspect: bool = field(default=False, kw_only=True)


@frozen
class Trade(Event):
    """`side`: the aggressor's, NONE where the data doesn't say."""

    price: int
    qty: int
    side: Side = Side.NONE


@frozen
class Quote(Event):
    """The best of both sides; quantity 0: that side is empty."""

    bid: int
    bid_qty: int
    ask: int
    ask_qty: int


@frozen
class Level(Event):
    """The quantity at a price is now this one."""

    side: Side
    price: int
    qty: int


@frozen
class Clear(Event):
    """All levels and orders of a side are gone, of both where it is NONE."""

    side: Side = Side.NONE


@frozen
class Add(Event):
    id: int
    side: Side
    price: int
    qty: int


@frozen
class Execute(Event):
    """A resting order of the data trades; the aggressor is the other side. `price`: where it isn't the order's own. `printed`: no other event
    of the data reports the trade."""

    id: int
    qty: int
    price: int | None = None
    printed: bool = True


@frozen
class Reduce(Event):
    """A resting order of the data loses so much, all of it where `qty` is None."""

    id: int
    qty: int | None = None


@frozen
class Swap(Event):
    """A resting order of the data leaves, another one takes its side."""

    id: int
    new_id: int
    price: int
    qty: int


@frozen
class Gap(Event):
    """Something of the data is missing here. `lost`: the book can't be trusted for it."""

    lost: bool = True


@frozen
class Halt(Event):
    """Trading stops, or goes on."""

    on: bool = True
