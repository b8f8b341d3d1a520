"""What the desk looks at in the market: the best prices, and the mark that they give."""

from compiler.hir.instruction import Value
from compiler.native.build import Body
from compiler.native.values import Optional


def best(b: Body, desk: Value, ladder: str) -> Optional:
    """The best price of `bids` or `asks`, which stands last."""
    side = b.at(desk, "book", ladder)
    count = b.get(side, "count")
    there = b.gt(count, 0)
    at = b.select(there, b.wrapping("sub", count, 1), 0)
    return Optional(there, b.get(side, "levels", at, "price", proved=True))


def good_mark(b: Body, desk: Value) -> Optional:
    """The mid of a good book with both sides, in half ticks."""
    bid, ask = best(b, desk, "bids"), best(b, desk, "asks")
    good = b.both(b.negate(b.get(desk, "book", "suspect")), bid.present, ask.present)
    return Optional(good, b.wrapping("add", bid.value, ask.value))
