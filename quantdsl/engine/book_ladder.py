"""The levels of a book. A ladder is sorted, the worst level first; looking begins at the best.

Prices are compared so that the better one is larger on either side: a bid as it is, an ask with all bits turned (`-1 - p`), which needs no
branch on the side. `side` is 0 or 1 everywhere."""

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from compiler.native.build import Body, Program
from compiler.native.types import I1, I64, U8
from compiler.native.values import Optional
from quantdsl.engine.layout import BLOCK, BOOK, LADDER, LEVELS

NEAR = 12
"""Levels looked at one by one, from the best; the others are found in steps that divide by `WAYS`."""
WAYS = 8
"""Into how many parts one step divides what is left; a power of it is the number of levels."""
NUMBER_OF_NONE = -1
HIGHEST = (1 << 63) - 1
LONG = ("noalias", "noinline")
PLACE: dict[str, HirType] = {"book": Pointer(BOOK), "side": U8, "price": I64}


def ladder_of(b: Body, book: Value, side: Value) -> Value:
    """The address of a side's ladder."""
    return b.at(book, "sides", b.cast(side, "i64"), proved=True)


def goodness(b: Body, side: Value, price: Value) -> Value:
    """What is larger for the better of two prices of a side; its own inverse."""
    return b.wrapping("xor", price, b.wrapping("sub", 0, b.cast(side, "i64")))


def price_at(b: Body, ladder: Value, at: Value) -> Value:
    return b.get(ladder, "prices", at, proved=True)


def level_at(b: Body, ladder: Value, at: Value) -> Value:
    """The address of the rest of a level."""
    place = b.cast(b.get(ladder, "places", at, proved=True), "i64")
    return b.at(ladder, "levels", place, proved=True)


def best(b: Body, book: Value, side: Value) -> Optional:
    """The best price of a side."""
    ladder = ladder_of(b, book, side)
    count = b.get(ladder, "count")
    there = b.ne(count, 0)
    return Optional(there, price_at(b, ladder, b.select(there, b.wrapping("sub", count, 1), 0)))


def find(b: Body, book: Value, side: Value, price: Value) -> tuple[Value, Value]:
    """Where a price stands, or would stand, in the ladder, and whether it does."""
    at, here = b.call("book.find", book, side, price)
    return at, here


def shown(b: Body, book: Value, side: Value, price: Value) -> Value:
    """The quantity that the data shows at a price."""
    at, here = find(b, book, side, price)
    ladder = ladder_of(b, book, side)
    return b.select(here, b.get(level_at(b, ladder, b.select(here, at, 0)), "qty"), 0)


def insert(b: Body, ladder: Value, at: Value, price: Value, qty: Value, taken: Value, number: Value) -> None:
    """A new level; there is room for it."""
    (place,) = b.call("ladder.insert", ladder, at, price)
    write(b, b.at(ladder, "levels", place, proved=True), qty, taken, number)


def remove(b: Body, ladder: Value, at: Value) -> None:
    b.call("ladder.remove", ladder, at)


def define_moves(program: Program) -> None:
    """`ladder.insert`: a price; the place of its level. `ladder.remove`."""
    own: dict[str, HirType] = {"ladder": Pointer(LADDER), "at": I64}
    with program.function("ladder.insert", {**own, "price": I64}, [I64], internal=True, attributes=LONG) as b:
        ladder, at, price = b.parameters
        count, free, most = (b.get(ladder, name) for name in ("count", "free_count", "most"))
        again = b.gt(free, 0)
        left = b.select(again, b.wrapping("sub", free, 1), 0)
        place = b.select(again, b.get(ladder, "free", left, proved=True), b.cast(most, "u32"))
        b.put(ladder, "free_count", left)
        b.put(ladder, "most", b.select(again, most, b.wrapping("add", most, 1)))
        b.put(ladder, "count", b.wrapping("add", count, 1))
        for part in ("prices", "places"):
            with b.loop(b.wrapping("sub", _blocks(b, at, count), 1), -1, -1) as block:
                _move(b, ladder, part, b.wrapping("add", at, b.wrapping("mul", block, BLOCK)), 0, 1)
        b.put(ladder, "prices", at, price, proved=True)
        b.put(ladder, "places", at, place, proved=True)
        b.give(b.cast(place, "i64"))
    with program.function("ladder.remove", own, internal=True, attributes=LONG) as b:
        ladder, at = b.parameters
        last, free = b.wrapping("sub", b.get(ladder, "count"), 1), b.get(ladder, "free_count")
        place = b.get(ladder, "places", at, proved=True)
        b.put(ladder, "free", free, place, proved=True)
        b.put(ladder, "free_count", b.wrapping("add", free, 1))
        b.put(ladder, "count", last)
        for part in ("prices", "places"):
            with b.loop(0, _blocks(b, at, last)) as block:
                _move(b, ladder, part, b.wrapping("add", at, b.wrapping("mul", block, BLOCK)), 1, 0)


def _blocks(b: Body, low: Value, high: Value) -> Value:
    """How many cover the levels from one number to another. Whole ones are moved, as many as there are, so that the few levels that most
    updates move take no branch that nobody can foresee."""
    return b.wrapping("shr", b.wrapping("add", b.wrapping("sub", high, low), BLOCK - 1), BLOCK.bit_length() - 1)


def _move(b: Body, ladder: Value, part: str, first: Value, source: int, to: int) -> None:
    """All of a block is read before it is written."""
    read = [b.get(ladder, part, b.wrapping("add", first, i + source), proved=True) for i in range(BLOCK)]
    for i, value in enumerate(read):
        b.put(ladder, part, b.wrapping("add", first, i + to), value, proved=True)


def write(b: Body, level: Value, qty: Value, taken: Value, number: Value) -> None:
    for name, value in (("qty", qty), ("taken", taken), ("number", number)):
        b.put(level, name, value)


def note_level(b: Body, book: Value, side: Value, ladder: Value, at: Value) -> None:
    """The journal keeps what stands there now."""
    level = level_at(b, ladder, at)
    b.call("book.note", book, 0, side, price_at(b, ladder, at), *(b.get(level, name) for name in ("qty", "taken", "number")), 0)


def define_ladder(program: Program) -> None:
    """`book.find`; `book.level`, the quantity that now stands at a price; `book.shift`, by how much it changes."""
    with program.function("book.find_far", {**PLACE, "far": I64}, [I64], internal=True, attributes=LONG) as b:
        _find_far(b, *b.parameters)
    with program.function("book.find", PLACE, [I64, I1], internal=True) as b:
        _find(b, *b.parameters)
    with program.function("book.level", {**PLACE, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        at, here = find(b, book, side, price)
        _become(b, book, side, price, at, here, b.larger(qty, 0))
    with program.function("book.shift", {**PLACE, "by": I64}, internal=True) as b:
        book, side, price, by = b.parameters
        at, here = find(b, book, side, price)
        level = level_at(b, ladder_of(b, book, side), b.select(here, at, 0))
        sum = b.wrapping("add", b.select(here, b.get(level, "qty"), 0), by)
        wrong = b.both(b.gt(by, 0), b.lt(sum, 0))
        with b.when(wrong):
            b.put(book, "incomplete", True)
            b.put(book, "left_out", b.wrapping("add", b.get(book, "left_out"), 1))
        _become(b, book, side, price, at, here, b.select(wrong, HIGHEST, b.larger(sum, 0)))


def _find(b: Body, book: Value, side: Value, price: Value) -> None:
    ladder, wanted = ladder_of(b, book, side), goodness(b, side, price)
    count = b.get(ladder, "count")
    far = b.larger(b.wrapping("sub", count, NEAR), 0)
    with b.loop(b.wrapping("sub", count, 1), b.wrapping("sub", far, 1), -1) as i:
        own = goodness(b, side, price_at(b, ladder, i))
        with b.when(b.le(own, wanted)):
            same = b.eq(own, wanted)
            b.give(b.select(same, i, b.wrapping("add", i, 1)), same)
    with b.when(b.eq(far, 0)):
        b.give(0, False)
    (low,) = b.call("book.find_far", book, side, price, far)
    inside = b.lt(low, far)
    b.give(low, b.both(inside, b.eq(price_at(b, ladder, b.select(inside, low, 0)), price)))


def _find_far(b: Body, book: Value, side: Value, price: Value, far: Value) -> None:
    """How many of the `far` worst levels are worse than a price. At each step the prices that part what is left in eight are all looked at
    and those that are worse counted, which takes no branch: nobody could foresee them."""
    ladder, wanted = ladder_of(b, book, side), goodness(b, side, price)
    low, step = b.const(0, "i64"), LEVELS // WAYS
    while step:
        worse: list[Value] = []
        for number in range(1, WAYS):
            at = b.wrapping("add", low, number * step - 1)
            inside = b.lt(at, far)
            own = goodness(b, side, price_at(b, ladder, b.smaller(at, far)))
            worse.append(b.cast(b.both(inside, b.lt(own, wanted)), "i64"))
        while len(worse) > 1:
            worse = [
                b.wrapping("add", *pair) if len(pair) == 2 else pair[0] for pair in (worse[i : i + 2] for i in range(0, len(worse), 2))
            ]
        low = b.wrapping("add", low, b.wrapping("mul", worse[0], step))
        step //= WAYS
    b.give(low)


def _become(b: Body, book: Value, side: Value, price: Value, at: Value, here: Value, qty: Value) -> None:
    """A level whose quantity stays as it was shows nothing new, so what we took of it stays taken."""
    ladder = ladder_of(b, book, side)
    number = b.wrapping("add", b.get(book, "number"), 1)
    b.put(book, "number", number)
    zero = b.const(0, "i64")
    with b.when(here):
        level = level_at(b, ladder, at)
        with b.when(b.eq(qty, b.get(level, "qty"))):
            b.put(level, "number", number)
            b.give()
        note_level(b, book, side, ladder, at)
        with b.choice(b.eq(qty, 0)) as c:
            with c.then():
                remove(b, ladder, at)
            with c.otherwise():
                write(b, level, qty, zero, number)
        b.give()
    with b.when(b.eq(qty, 0)):
        b.give()
    with b.when(b.eq(b.get(ladder, "count"), LEVELS)):
        b.call("book.crowded", book, side, price, at, qty)
        b.give()
    b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
    insert(b, ladder, at, price, qty, zero, number)


def define_crowded(program: Program) -> None:
    """`book.crowded`: a new level for a full ladder, whose worst one is dropped, or which is itself the worst."""
    parameters = {**PLACE, "at": I64, "qty": I64}
    with program.function("book.crowded", parameters, internal=True, attributes=("noalias", "cold", "noinline")) as b:
        book, side, price, at, qty = b.parameters
        ladder = ladder_of(b, book, side)
        worst = b.const(0, "i64")
        dropped = b.select(b.eq(at, 0), price, price_at(b, ladder, worst))
        lost, lost_from = b.get(ladder, "lost"), b.get(ladder, "lost_from")
        b.call("book.note", book, 2, side, lost_from, b.cast(lost, "i64"), 0, 0, 0)
        better = b.larger(goodness(b, side, lost_from), goodness(b, side, dropped))
        b.put(ladder, "lost_from", b.select(lost, goodness(b, side, better), dropped))
        b.put(ladder, "lost", True)
        with b.when(b.ne(at, 0)):
            note_level(b, book, side, ladder, worst)
            b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
            remove(b, ladder, worst)
            insert(b, ladder, b.wrapping("sub", at, 1), price, qty, b.const(0, "i64"), b.get(book, "number"))
