"""What handlers ask about the market: `engine.touch` and its like."""

from collections.abc import Callable

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Optional, Record, all_of, minimum, select
from quantdsl.engine.book_ladder import best, ladder_of, level_at, price_at, price_rank, rank_at, walk
from quantdsl.engine.interface import OF_ENGINE
from quantdsl.engine.layout import BUY, SELL


def define_queries(program: ModuleBuilder) -> None:
    """In the engine's module; they see a suspect book as it stands, orders are refused meanwhile."""
    writers: dict[str, Callable[..., None]] = {
        "engine.touch": _touch,
        "engine.mid": _mid,
        "engine.spread": _spread,
        "engine.microprice": _microprice,
        "engine.imbalance": _imbalance,
        "engine.level": _level,
        "engine.depth_to": _depth_to,
    }
    for name, write in writers.items():
        signature = OF_ENGINE[name]
        with program.function(name, signature.whole(), signature.results) as b:
            engine, _, *given = b.parameters
            write(b, engine.book, *given)


def _own(side: Expr) -> Expr:
    """A side as an index, whatever it was."""
    return side & 1


def _ends(b: FunctionCode, book: Record) -> tuple[Optional, Optional]:
    bid, ask = (best(book, b.const(side, "u8")) for side in (BUY, SELL))
    return bid, ask


def _touch(b: FunctionCode, book: Record, side: Expr) -> None:
    """The best of the other side, where an order of this one trades at once."""
    far = best(book, _own(side) ^ 1)
    b.ret(far.present, select(far.present, far.value, 0))


def _mid(b: FunctionCode, book: Record) -> None:
    """Rounded down to a whole tick: the common bits and half of the others, for a sum may need 65."""
    bid, ask = _ends(b, book)
    there = bid.present & ask.present
    half = (bid.value ^ ask.value) >> 1
    b.ret(there, select(there, (bid.value & ask.value).wrapping_add(half), 0))


def _spread(b: FunctionCode, book: Record) -> None:
    bid, ask = _ends(b, book)
    there = bid.present & ask.present
    b.ret(there, select(there, ask.value.saturating_sub(bid.value), 0))


def _microprice(b: FunctionCode, book: Record) -> None:
    """(bid * ask_qty + ask * bid_qty) / (bid_qty + ask_qty), in ticks."""
    ends, zero = _ends(b, book), b.const(0, "i64")
    with b.when(~all_of(*(end.present for end in ends))):
        b.ret(False, 0.0)
    bid, ask = (end.value.cast("f64") for end in ends)
    tops = (level_at(ladder_of(book, b.const(side, "u8")), zero) for side in (BUY, SELL))
    bid_qty, ask_qty = (top.qty.cast("f64") for top in tops)
    b.ret(True, (bid * ask_qty + ask * bid_qty) / (bid_qty + ask_qty))


def _imbalance(b: FunctionCode, book: Record, levels: Expr) -> None:
    """(bids - asks) / (bids + asks) over the best levels; 0 where there is nothing."""
    bids, asks = (_sum(b, book, b.const(side, "u8"), levels).cast("f64") for side in (BUY, SELL))
    total = bids + asks
    empty = total == 0.0
    b.ret(select(empty, 0.0, (bids - asks) / select(empty, 1.0, total)))


def _sum(b: FunctionCode, book: Record, side: Expr, levels: Expr) -> Expr:
    """At most the largest i64. None is below zero, so a sum that has been too large has once been negative."""
    ladder = ladder_of(book, side)
    total, below = b.variable(0), b.variable(0)
    block, left = b.variable(0), b.variable(minimum(levels, ladder.count))
    with b.repeat():
        now = ladder.blocks.unchecked[block.value]
        some = minimum(left.value, now.size)
        with b.loop(0, some) as i:
            place = now.places.unchecked[i].cast("i64")
            total.value = total.value.wrapping_add(ladder.levels.unchecked[place].qty)
            below.value |= total.value
        left.value = left.value.wrapping_sub(some)
        with b.when(left.value <= 0):
            b.break_()
        block.value = now.after
    return select(below.value < 0, (1 << 63) - 1, total.value)


def _level(b: FunctionCode, book: Record, side: Expr, number: Expr) -> None:
    own = _own(side)
    ladder = ladder_of(book, own)
    there = (number >= 0) & (number < ladder.count)
    at = rank_at(b, ladder, select(there, number, 0))
    price, qty = price_at(ladder, own, at), level_at(ladder, at).qty
    b.ret(there, select(there, price, 0), select(there, qty, 0))


def _depth_to(b: FunctionCode, book: Record, price: Expr) -> None:
    """What is displayed at a price and better: bids down to it, or asks up to it; 0 within the spread."""
    total = b.variable(0)
    for side in (BUY, SELL):
        own = b.const(side, "u8")
        ladder = ladder_of(book, own)
        with walk(b, ladder) as at:
            with b.when(price_rank(own, price_at(ladder, own, at)) < price_rank(own, price)):
                b.break_()
            total.value = total.value.saturating_add(level_at(ladder, at).qty)
    b.ret(total.value)
