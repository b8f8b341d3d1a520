"""What handlers ask about the market: `desk.touch` and its like."""

from collections.abc import Callable

from compiler.hir.instruction import Value
from quantdsl.engine.book_ladder import best, goodness, ladder_of, level_at, price_at, rank_at, walk
from quantdsl.engine.interface import OF_ENGINE
from quantdsl.engine.layout import BUY, SELL
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.values import Optional


def define_queries(program: ModuleBuilder) -> None:
    """In the engine's module; they see a suspect book as it stands, orders are refused meanwhile."""
    made: dict[str, Callable[..., None]] = {
        "desk.touch": _touch,
        "desk.mid": _mid,
        "desk.spread": _spread,
        "desk.microprice": _microprice,
        "desk.imbalance": _imbalance,
        "desk.level": _level,
        "desk.depth_to": _depth_to,
    }
    for name, write in made.items():
        signature = OF_ENGINE[name]
        with program.function(name, signature.whole(), signature.results) as b:
            desk, _, *given = b.parameters
            write(b, b.at(desk, "book"), *given)


def _own(b: FunctionCode, side: Value) -> Value:
    """A side as an index, whatever it was."""
    return b.wrapping("and", side, 1)


def _ends(b: FunctionCode, book: Value) -> tuple[Optional, Optional]:
    bid, ask = (best(b, book, b.const(side, "u8")) for side in (BUY, SELL))
    return bid, ask


def _touch(b: FunctionCode, book: Value, side: Value) -> None:
    """The best of the other side, where an order of this one trades at once."""
    found = best(b, book, b.wrapping("xor", _own(b, side), 1))
    b.give(found.present, b.select(found.present, found.value, 0))


def _mid(b: FunctionCode, book: Value) -> None:
    """Rounded down to a whole tick: the common bits and half of the others, for a sum may need 65."""
    bid, ask = _ends(b, book)
    there = b.both(bid.present, ask.present)
    half = b.wrapping("shr", b.wrapping("xor", bid.value, ask.value), 1)
    b.give(there, b.select(there, b.wrapping("add", b.wrapping("and", bid.value, ask.value), half), 0))


def _spread(b: FunctionCode, book: Value) -> None:
    bid, ask = _ends(b, book)
    there = b.both(bid.present, ask.present)
    b.give(there, b.select(there, b.saturating("sub", ask.value, bid.value), 0))


def _microprice(b: FunctionCode, book: Value) -> None:
    """(bid * ask_qty + ask * bid_qty) / (bid_qty + ask_qty), in ticks."""
    ends, zero = _ends(b, book), b.const(0, "i64")
    with b.when(b.negate(b.both(*(end.present for end in ends)))):
        b.give(False, 0.0)
    bid, ask = (b.cast(end.value, "f64") for end in ends)
    tops = (level_at(b, ladder_of(b, book, b.const(side, "u8")), zero) for side in (BUY, SELL))
    bid_qty, ask_qty = (b.cast(b.get(top, "qty"), "f64") for top in tops)
    b.give(True, b.div(b.add(b.mul(bid, ask_qty), b.mul(ask, bid_qty)), b.add(bid_qty, ask_qty)))


def _imbalance(b: FunctionCode, book: Value, levels: Value) -> None:
    """(bids - asks) / (bids + asks) over the best levels; 0 where there is nothing."""
    bids, asks = (b.cast(_sum(b, book, b.const(side, "u8"), levels), "f64") for side in (BUY, SELL))
    total = b.add(bids, asks)
    empty = b.eq(total, 0.0)
    b.give(b.select(empty, 0.0, b.div(b.sub(bids, asks), b.select(empty, 1.0, total))))


def _sum(b: FunctionCode, book: Value, side: Value, levels: Value) -> Value:
    """At most the largest i64. None is below zero, so a sum that has been too large has once been negative."""
    ladder = ladder_of(b, book, side)
    total, below = b.variable(b.const(0, "i64")), b.variable(b.const(0, "i64"))
    block, left = b.variable(b.const(0, "i64")), b.variable(b.smaller(levels, b.get(ladder, "count")))
    with b.repeat():
        now = b.at(ladder, "blocks", b.now(block), proved=True)
        some = b.smaller(b.now(left), b.get(now, "size"))
        with b.loop(0, some) as i:
            place = b.cast(b.get(now, "places", i, proved=True), "i64")
            b.set(total, b.wrapping("add", b.now(total), b.get(ladder, "levels", place, "qty", proved=True)))
            b.set(below, b.wrapping("or", b.now(below), b.now(total)))
        b.set(left, b.wrapping("sub", b.now(left), some))
        with b.when(b.le(b.now(left), 0)):
            b.leave()
        b.set(block, b.get(now, "after"))
    return b.select(b.lt(b.now(below), 0), (1 << 63) - 1, b.now(total))


def _level(b: FunctionCode, book: Value, side: Value, number: Value) -> None:
    own = _own(b, side)
    ladder = ladder_of(b, book, own)
    there = b.both(b.ge(number, 0), b.lt(number, b.get(ladder, "count")))
    at = rank_at(b, ladder, b.select(there, number, 0))
    price, qty = price_at(b, ladder, own, at), b.get(level_at(b, ladder, at), "qty")
    b.give(there, b.select(there, price, 0), b.select(there, qty, 0))


def _depth_to(b: FunctionCode, book: Value, price: Value) -> None:
    """What is displayed at a price and better: bids down to it, or asks up to it; 0 within the spread."""
    total = b.variable(b.const(0, "i64"))
    for side in (BUY, SELL):
        own = b.const(side, "u8")
        ladder = ladder_of(b, book, own)
        with walk(b, ladder) as at:
            with b.when(b.lt(goodness(b, own, price_at(b, ladder, own, at)), goodness(b, own, price))):
                b.leave()
            b.set(total, b.saturating("add", b.now(total), b.get(level_at(b, ladder, at), "qty")))
    b.give(b.now(total))
