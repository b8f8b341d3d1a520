"""Records of readers as events of the reference, one instrument's."""

from collections.abc import Iterator

from runtime.replay.events import EventKind, Events, Flag
from runtime.replay.events import MarketSide as RecordSide
from tests.quantdsl.reference.market import Add, Clear, Event, Execute, Gap, Halt, Level, Quote, Reduce, Side, Swap, Trade

SIDES = {RecordSide.NONE: Side.NONE, RecordSide.BUY: Side.BUY, RecordSide.SELL: Side.SELL}


def from_events(records: Events) -> Iterator[Event]:
    for r in records:
        flags = Flag(int(r["flags"]))
        ts, side, price, qty, id = int(r["ts"]), SIDES[RecordSide(int(r["side"]))], int(r["price"]), int(r["qty"]), int(r["id"])
        said = {"more": Flag.LAST not in flags, "suspect": Flag.SUSPECT in flags}
        match EventKind(int(r["kind"])):
            case EventKind.TRADE:
                yield Trade(ts, price, qty, side)
            case EventKind.QUOTE:
                yield Quote(ts, price, qty, int(r["price2"]), int(r["qty2"]), **said)
            case EventKind.BOOK_LEVEL:
                yield Level(ts, side, price, qty, **said)
            case EventKind.BOOK_CLEAR:
                yield Clear(ts, side, **said)
            case EventKind.ADD:
                yield Add(ts, id, side, price, qty, **said)
            case EventKind.EXECUTE:
                yield Execute(ts, id, qty, price if Flag.OWN_PRICE in flags else None, Flag.NOT_PRINTED not in flags, **said)
            case EventKind.CANCEL:
                yield Reduce(ts, id, qty, **said)
            case EventKind.DELETE:
                yield Reduce(ts, id, **said)
            case EventKind.REPLACE:
                yield Swap(ts, id, int(r["id2"]), price, qty, **said)
            case EventKind.GAP:
                yield Gap(ts, Flag.SUSPECT in flags)
            case EventKind.HALT | EventKind.STATUS as kind:
                yield Halt(ts, kind is EventKind.HALT)
