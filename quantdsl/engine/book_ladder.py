"""The levels of a book. A ladder is a list of blocks, the best first, and each block a sorted list of levels: a level comes or goes
within its block, whatever the depth of the book. A full block is parted in two; one that has become small joins its neighbour.

Levels are sorted by the `worth` of their price, an unsigned number that is larger for the better price of either side; the 0 behind the
last of a block is worth no more than any, so that looking for a price is counting those worth more, without a branch. Which block may have
it, the directory says by the same counting. Where a level stands, `at`, is the number of its block times `STRIDE`, and its place there;
the best of all stands at 0. `side` is 0 or 1 everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.hir.instruction import Value
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.layout import BOOK, LADDER, LEVELS, SHIFTED, WIDTH
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import I1, I64, U8, U64
from quantdsl.native.values import Optional

STRIDE = 64
"""More than there are places in a block."""
SMALL, MEDIUM = WIDTH // 4, WIDTH * 3 // 4
"""A block with no more levels than that looks for a neighbour with which it makes no more than that. So of two neighbours one has more than
`SMALL`, and the blocks suffice for any ladder."""
STEP = 16
"""As many numbers of the directory are compared at once; of a block always all."""
SPARE = 2 * WIDTH
"""The place of a block that nobody looks at."""
NUMBER_OF_NONE = -1
HIGHEST = (1 << 63) - 1
LONG = ("noalias", "noinline")
COLD = ("noalias", "cold", "noinline")
PLACE: dict[str, HirType] = {"book": Pointer(BOOK), "side": U8, "price": I64}
OWN: dict[str, HirType] = {"ladder": Pointer(LADDER)}
CHANGED: dict[str, HirType] = {**OWN, "at": I64, "here": I1, "worth": U64, "qty": I64, "taken": I64, "number": I64}


def ladder_of(b: FunctionCode, book: Value, side: Value) -> Value:
    """The address of a side's ladder."""
    return b.at(book, "sides", b.cast(side, "i64"), proved=True)


def goodness(b: FunctionCode, side: Value, price: Value) -> Value:
    """What is larger for the better of two prices of a side, a bid as it is, an ask with all bits turned; its own inverse."""
    return b.wrapping("xor", price, b.wrapping("sub", 0, b.cast(side, "i64")))


def worth(b: FunctionCode, side: Value, price: Value) -> Value:
    """The same as an unsigned number."""
    return b.wrapping("xor", b.cast(goodness(b, side, price), "u64"), 1 << 63)


def price_at(b: FunctionCode, ladder: Value, side: Value, at: Value) -> Value:
    return _price(b, side, b.get(_block_at(b, ladder, at), "keys", _place(b, at), proved=True))


def level_at(b: FunctionCode, ladder: Value, at: Value) -> Value:
    """The address of the rest of a level."""
    place = b.get(_block_at(b, ladder, at), "places", _place(b, at), proved=True)
    return b.at(ladder, "levels", b.cast(place, "i64"), proved=True)


def best(b: FunctionCode, book: Value, side: Value) -> Optional:
    """The best price of a side."""
    found = best_worth(b, book, side)
    return Optional(found.present, _price(b, side, found.value))


def best_worth(b: FunctionCode, book: Value, side: Value) -> Optional:
    """The worth of the best price of a side."""
    ladder = ladder_of(b, book, side)
    return Optional(b.ne(b.get(ladder, "count"), 0), b.get(ladder, "blocks", 0, "keys", 0, proved=True))


def last_at(b: FunctionCode, ladder: Value) -> Value:
    """Where the worst level stands, if there is one."""
    block = b.cast(b.get(ladder, "order", b.get(ladder, "more"), proved=True), "i64")
    size = b.get(ladder, "blocks", block, "size", proved=True)
    return b.wrapping("add", b.wrapping("mul", block, STRIDE), b.wrapping("sub", size, 1))


def rank_at(b: FunctionCode, ladder: Value, number: Value) -> Value:
    """Where the level stands that has so many better ones; there is one."""
    block, left = b.variable(b.const(0, "i64")), b.variable(number)
    with b.loop(0, b.get(ladder, "more")):
        now = b.at(ladder, "blocks", b.now(block), proved=True)
        size = b.get(now, "size")
        with b.when(b.lt(b.now(left), size)):
            b.leave()
        b.set(left, b.wrapping("sub", b.now(left), size))
        b.set(block, b.get(now, "after"))
    return b.wrapping("add", b.wrapping("mul", b.now(block), STRIDE), b.now(left))


@contextmanager
def walk(b: FunctionCode, ladder: Value) -> Iterator[Value]:
    """A loop over all levels, from the best, which mustn't change meanwhile."""
    next = b.variable(b.const(0, "i64"))
    with b.loop(0, b.get(ladder, "count")):
        at = b.now(next)
        block = _block_at(b, ladder, at)
        along = b.wrapping("add", at, 1)
        within = b.lt(_place(b, along), b.get(block, "size"))
        b.set(next, b.select(within, along, b.wrapping("mul", b.get(block, "after"), STRIDE)))
        yield at


def find(b: FunctionCode, book: Value, side: Value, price: Value) -> tuple[Value, Value]:
    """Where a price stands, or would stand, in the ladder, and whether it does."""
    at, here = b.call("ladder.find", ladder_of(b, book, side), worth(b, side, price))
    return at, here


def shown(b: FunctionCode, book: Value, side: Value, price: Value) -> Value:
    """The quantity that the data shows at a price."""
    at, here = find(b, book, side, price)
    return b.select(here, b.get(level_at(b, ladder_of(b, book, side), at), "qty"), 0)


def change(b: FunctionCode, book: Value, side: Value, price: Value, qty: Value, taken: Value, number: Value) -> None:
    """The level at a price becomes that, and goes where `qty` is 0; nothing notes it."""
    at, here = find(b, book, side, price)
    with b.when(b.either(here, b.ne(qty, 0))):
        b.call("ladder.change", ladder_of(b, book, side), at, here, worth(b, side, price), qty, taken, number)


def remove(b: FunctionCode, book: Value, side: Value, at: Value) -> None:
    ladder, zero = ladder_of(b, book, side), b.const(0, "i64")
    b.call("ladder.change", ladder, at, True, worth(b, side, price_at(b, ladder, side, at)), zero, zero, zero)


def reprice(b: FunctionCode, book: Value, side: Value, price: Value, qty: Value) -> None:
    """A level at another price takes the place of the only one."""
    ladder, at = ladder_of(b, book, side), b.const(0, "i64")
    note_level(b, book, side, ladder, at)
    b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
    b.put(_block_at(b, ladder, at), "keys", 0, worth(b, side, price), proved=True)
    _write(b, level_at(b, ladder, at), qty, b.const(0, "i64"), _next_number(b, book))


def note_level(b: FunctionCode, book: Value, side: Value, ladder: Value, at: Value) -> None:
    """The journal keeps what stands there now."""
    level = level_at(b, ladder, at)
    b.call("book.note", book, 0, side, price_at(b, ladder, side, at), *(b.get(level, name) for name in ("qty", "taken", "number")), 0)


def define_ladder(program: ModuleBuilder) -> None:
    """`ladder.find`, `ladder.change`, `ladder.clear`; `book.level`, the quantity that now stands at a price, `book.best`, where
    none is better; `book.shift`, by how much it changes."""
    with program.function("ladder.rank", {**OWN, "worth": U64}, [I64], internal=True) as b:
        _rank(b, *b.parameters)
    with program.function("ladder.find", {**OWN, "worth": U64}, [I64, I1], internal=True) as b:
        _find(b, *b.parameters)
    with program.function("ladder.part", {**OWN, "at": I64, "worth": U64}, [I64], internal=True, attributes=COLD) as b:
        _part(b, *b.parameters)
    with program.function("ladder.join", {**OWN, "worth": U64}, internal=True, attributes=COLD) as b:
        _join(b, *b.parameters)
    with program.function("ladder.change", CHANGED, internal=True) as b:
        _change(b, *b.parameters)
    with program.function("ladder.clear", OWN, internal=True, attributes=LONG) as b:
        (ladder,) = b.parameters
        _clear(b, ladder)
    with program.function("book.crowded", {**PLACE, "qty": I64}, internal=True, attributes=COLD) as b:
        _crowded(b, *b.parameters)
    with program.function("book.level", {**PLACE, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        at, here = find(b, book, side, price)
        _become(b, book, side, price, at, here, b.larger(qty, 0))
    with program.function("book.best", {**PLACE, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        top = best(b, book, side)
        here = b.both(top.present, b.eq(top.value, price))
        _become(b, book, side, price, b.const(0, "i64"), here, b.larger(qty, 0))
    with program.function("book.shift", {**PLACE, "by": I64}, internal=True) as b:
        book, side, price, by = b.parameters
        at, here = find(b, book, side, price)
        level = level_at(b, ladder_of(b, book, side), at)
        sum = b.wrapping("add", b.select(here, b.get(level, "qty"), 0), by)
        wrong = b.both(b.gt(by, 0), b.lt(sum, 0))
        with b.when(wrong):
            b.put(book, "incomplete", True)
            b.put(book, "left_out", b.wrapping("add", b.get(book, "left_out"), 1))
        _become(b, book, side, price, at, here, b.select(wrong, HIGHEST, b.larger(sum, 0)))


# ---- one change ---------------------------------------------------------------------------------------------------------------


def _become(b: FunctionCode, book: Value, side: Value, price: Value, at: Value, here: Value, qty: Value) -> None:
    """A level whose quantity stays as it was shows nothing new, so what we took of it stays taken."""
    ladder = ladder_of(b, book, side)
    number = _next_number(b, book)
    level = level_at(b, ladder, at)
    before = b.select(here, b.get(level, "qty"), 0)
    with b.when(b.eq(qty, before)):
        with b.when(here):
            b.put(level, "number", number)
        b.give()
    with b.when(b.both(b.negate(here), b.eq(b.get(ladder, "count"), LEVELS))):
        b.call("book.crowded", book, side, price, qty)
        b.give()
    taken, numbered = b.select(here, b.get(level, "taken"), 0), b.select(here, b.get(level, "number"), NUMBER_OF_NONE)
    b.call("book.note", book, 0, side, price, before, taken, numbered, 0)
    b.call("ladder.change", ladder, at, here, worth(b, side, price), qty, 0, number)


def _change(b: FunctionCode, ladder: Value, found: Value, here: Value, worth: Value, qty: Value, taken: Value, number: Value) -> None:
    """A level comes, goes, or becomes another, all on one way, for nobody could foresee which. `free` lists the places that no level has
    from number `count` on, each with the bits of its own number turned, so that memory of zeros lists all of them."""
    new, gone = b.negate(here), b.eq(qty, 0)
    spot = b.variable(found)
    with b.when(b.both(new, b.eq(b.get(_block_at(b, ladder, found), "size"), WIDTH))):
        (parted,) = b.call("ladder.part", ladder, found, worth)
        b.set(spot, parted)
    at = b.now(spot)
    block, place = _block_at(b, ladder, at), _place(b, at)
    more, less = (b.cast(truth, "i64") for truth in (new, gone))
    count = b.get(ladder, "count")
    entry = b.wrapping("sub", count, less)
    mask = b.cast(entry, "u16")
    fresh = b.wrapping("xor", b.get(ladder, "free", b.select(new, entry, 0), proved=True), mask)
    kept = b.select(here, b.get(block, "places", place, proved=True), fresh)
    level = b.at(ladder, "levels", b.cast(kept, "i64"), proved=True)
    _write(b, level, qty, taken, number)
    with b.when(b.negate(b.either(new, gone))):
        b.give()
    b.put(ladder, "free", entry, b.wrapping("xor", kept, mask), proved=True)
    b.put(ladder, "count", b.wrapping("add", entry, more))
    size = b.wrapping("sub", b.wrapping("add", b.get(block, "size"), more), less)
    b.put(block, "size", size)
    written = b.select(new, place, SPARE)
    for part, value in (("keys", worth), ("places", kept)):
        _move(b, block, part, b.wrapping("add", place, less), b.wrapping("add", place, more))
        b.put(block, part, written, value, proved=True)
    with b.when(b.both(gone, b.le(size, SMALL), b.ne(b.get(ladder, "more"), 0))):
        b.call("ladder.join", ladder, worth)


def _write(b: FunctionCode, level: Value, qty: Value, taken: Value, number: Value) -> None:
    for name, value in (("qty", qty), ("taken", taken), ("number", number)):
        b.put(level, name, value)


def _next_number(b: FunctionCode, book: Value) -> Value:
    """Of an update."""
    number = b.wrapping("add", b.get(book, "number"), 1)
    b.put(book, "number", number)
    return number


def _move(b: FunctionCode, block: Value, part: str, source: Value, to: Value) -> None:
    """So many that all behind are among them; what follows those is zero, or seen by nobody."""
    held = b.local(SHIFTED[part])
    with b.loop(0, WIDTH) as i:
        b.put(held, "items", i, b.get(block, part, b.wrapping("add", source, i), proved=True), proved=True)
    with b.loop(0, WIDTH) as i:
        b.put(block, part, b.wrapping("add", to, i), b.get(held, "items", i, proved=True), proved=True)


def _crowded(b: FunctionCode, book: Value, side: Value, price: Value, qty: Value) -> None:
    """A new level for a full ladder, whose worst one is dropped, or which is itself the worst."""
    ladder = ladder_of(b, book, side)
    worst = last_at(b, ladder)
    least = price_at(b, ladder, side, worst)
    outside = b.lt(goodness(b, side, price), goodness(b, side, least))
    dropped = b.select(outside, price, least)
    lost, lost_from = b.get(ladder, "lost"), b.get(ladder, "lost_from")
    b.call("book.note", book, 2, side, lost_from, b.cast(lost, "i64"), 0, 0, 0)
    better = b.larger(goodness(b, side, lost_from), goodness(b, side, dropped))
    b.put(ladder, "lost_from", b.select(lost, goodness(b, side, better), dropped))
    b.put(ladder, "lost", True)
    with b.when(b.negate(outside)):
        note_level(b, book, side, ladder, worst)
        b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
        remove(b, book, side, worst)
        change(b, book, side, price, qty, b.const(0, "i64"), b.get(book, "number"))


# ---- blocks -------------------------------------------------------------------------------------------------------------------


def _block_at(b: FunctionCode, ladder: Value, at: Value) -> Value:
    return b.at(ladder, "blocks", b.wrapping("shr", at, STRIDE.bit_length() - 1), proved=True)


def _place(b: FunctionCode, at: Value) -> Value:
    return b.wrapping("and", at, STRIDE - 1)


def _price(b: FunctionCode, side: Value, worth: Value) -> Value:
    return goodness(b, side, b.cast(b.wrapping("xor", worth, 1 << 63), "i64"))


def _block_of(b: FunctionCode, ladder: Value, rank: Value) -> Value:
    """The number of the block that has a rank."""
    return b.cast(b.get(ladder, "order", rank, proved=True), "i64")


def _count(b: FunctionCode, numbers: Value, name: str, size: Value, step: int, suits: str, wanted: Value) -> Value:
    """How many numbers of a list compare so; behind the `size` first ones are zeros, up to a multiple of the step."""
    total = b.variable(b.const(0, "i64"))
    with b.loop(0, b.wrapping("and", b.wrapping("add", size, step - 1), -step)) as i:
        truth = b.compare(suits, b.get(numbers, name, i, proved=True), wanted)
        b.set(total, b.wrapping("add", b.now(total), b.cast(truth, "i64")))
    return b.now(total)


def _rank(b: FunctionCode, ladder: Value, wanted: Value) -> None:
    """Of the block that has a level of such worth, or would have it: most often that of the price before."""
    more, last = b.get(ladder, "more"), b.get(ladder, "last")
    begin = b.get(ladder, "begins", b.larger(b.wrapping("sub", last, 1), 0), proved=True)
    with b.when(b.both(b.either(b.eq(last, 0), b.ge(begin, wanted)), b.lt(b.get(ladder, "begins", last, proved=True), wanted))):
        b.give(last)
    rank = b.smaller(_count(b, ladder, "begins", more, STEP, "ge", wanted), more)
    b.put(ladder, "last", rank)
    b.give(rank)


def _find(b: FunctionCode, ladder: Value, wanted: Value) -> None:
    (rank,) = b.call("ladder.rank", ladder, wanted)
    number = _block_of(b, ladder, rank)
    block = b.at(ladder, "blocks", number, proved=True)
    size = b.get(block, "size")
    place = _count(b, block, "keys", size, WIDTH, "gt", wanted)
    here = b.both(b.lt(place, size), b.eq(b.get(block, "keys", place, proved=True), wanted))
    b.give(b.wrapping("add", b.wrapping("mul", number, STRIDE), place), here)


def _part(b: FunctionCode, ladder: Value, at: Value, wanted: Value) -> None:
    """The worse half of a full block becomes one of its own; where the wanted price would stand then. `order` has the numbers of blocks
    by rank, behind them those no longer used; a 0 there is one never used."""
    block, more = _block_at(b, ladder, at), b.wrapping("add", b.get(ladder, "more"), 1)
    (rank,) = b.call("ladder.rank", ladder, wanted)
    left = _block_of(b, ladder, more)
    number = b.select(b.eq(left, 0), more, left)
    new = b.at(ladder, "blocks", number, proved=True)
    with b.loop(b.wrapping("sub", more, 1), rank, -1) as other:
        b.put(ladder, "order", b.wrapping("add", other, 1), b.get(ladder, "order", other, proved=True), proved=True)
        b.put(ladder, "begins", other, b.get(ladder, "begins", b.wrapping("sub", other, 1), proved=True), proved=True)
    b.put(ladder, "more", more)
    b.put(ladder, "order", b.wrapping("add", rank, 1), b.cast(number, "u16"), proved=True)
    half = WIDTH // 2
    b.put(ladder, "begins", rank, b.get(block, "keys", half, proved=True), proved=True)
    with b.loop(0, half) as i:
        _carry(b, block, b.wrapping("add", i, half), new, i)
    for one in (block, new):
        b.put(one, "size", half)
    b.put(new, "after", b.get(block, "after"))
    b.put(block, "after", number)
    found, _ = b.call("ladder.find", ladder, wanted)
    b.give(found)


def _carry(b: FunctionCode, block: Value, at: Value, to: Value, place: Value) -> None:
    for part in ("keys", "places"):
        b.put(to, part, place, b.get(block, part, at, proved=True), proved=True)
    b.put(block, "keys", at, 0, proved=True)


def _join(b: FunctionCode, ladder: Value, wanted: Value) -> None:
    """A small block and the one behind it become one, or the one before it, where that isn't too much; one without levels always goes."""
    (rank,) = b.call("ladder.rank", ladder, wanted)
    size = b.get(ladder, "blocks", _block_of(b, ladder, rank), "size", proved=True)
    more = b.get(ladder, "more")
    for first, there in ((rank, b.lt(rank, more)), (b.wrapping("sub", rank, 1), b.gt(rank, 0))):
        low = b.select(there, first, 0)
        other = b.wrapping("add", low, b.cast(b.eq(first, rank), "i64"))
        sum = b.wrapping("add", size, b.get(ladder, "blocks", _block_of(b, ladder, other), "size", proved=True))
        with b.when(b.both(there, b.either(b.eq(size, 0), b.le(sum, MEDIUM)))):
            _unite(b, ladder, first)
            b.give()


def _unite(b: FunctionCode, ladder: Value, rank: Value) -> None:
    """The block of a rank and the one behind it."""
    second = b.wrapping("add", rank, 1)
    number, more = _block_of(b, ladder, second), b.get(ladder, "more")
    block, gone = b.at(ladder, "blocks", _block_of(b, ladder, rank), proved=True), b.at(ladder, "blocks", number, proved=True)
    size, also = b.get(block, "size"), b.get(gone, "size")
    with b.loop(0, also) as i:
        _carry(b, gone, i, block, b.wrapping("add", size, i))
    b.put(block, "size", b.wrapping("add", size, also))
    b.put(block, "after", b.get(gone, "after"))
    b.put(gone, "size", 0)
    with b.loop(second, more) as other:
        b.put(ladder, "order", other, b.get(ladder, "order", b.wrapping("add", other, 1), proved=True), proved=True)
        b.put(ladder, "begins", b.wrapping("sub", other, 1), b.get(ladder, "begins", other, proved=True), proved=True)
    b.put(ladder, "order", more, b.cast(number, "u16"), proved=True)
    b.put(ladder, "begins", b.wrapping("sub", more, 1), 0, proved=True)
    b.put(ladder, "more", b.wrapping("sub", more, 1))


def _clear(b: FunctionCode, ladder: Value) -> None:
    """Only what was used is written."""
    before = b.variable(b.const(0, "i64"))
    with b.loop(0, b.wrapping("add", b.get(ladder, "more"), 1)) as rank:
        block = b.at(ladder, "blocks", _block_of(b, ladder, rank), proved=True)
        size, first = b.get(block, "size"), b.now(before)
        with b.loop(0, size) as i:
            entry = b.wrapping("add", first, i)
            place = b.get(block, "places", i, proved=True)
            b.put(ladder, "free", entry, b.wrapping("xor", place, b.cast(entry, "u16")), proved=True)
        with b.loop(0, size) as i:
            b.put(block, "keys", i, 0, proved=True)
        b.set(before, b.wrapping("add", first, size))
        b.put(block, "size", 0)
        b.put(ladder, "begins", rank, 0, proved=True)
    for name in ("count", "more"):
        b.put(ladder, name, 0)
