"""The levels of a book. A ladder is a list of blocks, the best first, and each block a sorted list of levels: a level comes or goes
within its block, whatever the depth of the book. A full block is parted in two; one that has become small joins its neighbour.

Levels are sorted by the key of their price (`price_key`), an unsigned number that is larger for the better price of either side. Behind the
last key of a block stand zeros, which are above none, so that a price is found by counting larger keys, without a branch. Which block may
have it, the directory says by the same counting. Where a level stands, `at`, is the number of its block times `STRIDE`, and its place
there; the best of all stands at 0. `side` is 0 or 1 everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Optional, Record, all_of, assign, maximum, minimum, select
from compiler.hir.native_types import I1, I64, U8, U64
from compiler.hir.types import HirType, Pointer
from quantdsl.engine.layout import BOOK, LADDER, LEVELS, SHIFTED, WIDTH

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
CHANGED: dict[str, HirType] = {**OWN, "at": I64, "here": I1, "key": U64, "qty": I64, "taken": I64, "number": I64}


def ladder_of(book: Record, side: Expr) -> Record:
    """The address of a side's ladder."""
    return book.sides.unchecked[side.cast("i64")]


def price_rank(side: Expr, price: Expr) -> Expr:
    """What is larger for the better of two prices of a side, a bid as it is, an ask with all bits turned; its own inverse."""
    return price ^ side.cast("i64").wrapping_neg()


def price_key(side: Expr, price: Expr) -> Expr:
    """The rank as an unsigned number."""
    return price_rank(side, price).cast("u64") ^ (1 << 63)


def price_at(ladder: Record, side: Expr, at: Expr) -> Expr:
    return _price(side, _block_at(ladder, at).keys.unchecked[_place(at)])


def level_at(ladder: Record, at: Expr) -> Record:
    """The address of the rest of a level."""
    place = _block_at(ladder, at).places.unchecked[_place(at)]
    return ladder.levels.unchecked[place.cast("i64")]


def best(book: Record, side: Expr) -> Optional:
    """The best price of a side."""
    key = best_key(book, side)
    return Optional(key.present, _price(side, key.value))


def best_key(book: Record, side: Expr) -> Optional:
    """The key of the best price of a side."""
    ladder = ladder_of(book, side)
    return Optional(ladder.count != 0, ladder.blocks.unchecked[0].keys.unchecked[0])


def last_at(ladder: Record) -> Expr:
    """Where the worst level stands, if there is one."""
    block = ladder.order.unchecked[ladder.more].cast("i64")
    size = ladder.blocks.unchecked[block].size
    return block.wrapping_mul(STRIDE).wrapping_add(size.wrapping_sub(1))


def rank_at(b: FunctionCode, ladder: Record, number: Expr) -> Expr:
    """Where the level stands that has so many better ones; there is one."""
    block, left = b.variable(0), b.variable(number)
    with b.loop(0, ladder.more):
        now = ladder.blocks.unchecked[block.value]
        size = now.size
        with b.when(left.value < size):
            b.break_()
        left.value = left.value.wrapping_sub(size)
        block.value = now.after
    return block.value.wrapping_mul(STRIDE).wrapping_add(left.value)


@contextmanager
def walk(b: FunctionCode, ladder: Record) -> Iterator[Expr]:
    """A loop over all levels, from the best, which mustn't change meanwhile."""
    next = b.variable(0)
    with b.loop(0, ladder.count):
        at = next.value
        block = _block_at(ladder, at)
        along = at.wrapping_add(1)
        within = _place(along) < block.size
        next.value = select(within, along, block.after.wrapping_mul(STRIDE))
        yield at


def find(b: FunctionCode, book: Record, side: Expr, price: Expr) -> tuple[Expr, Expr]:
    """Where a price stands, or would stand, in the ladder, and whether it does."""
    at, here = b.call("ladder.find", ladder_of(book, side), price_key(side, price))
    return at, here


def shown(b: FunctionCode, book: Record, side: Expr, price: Expr) -> Expr:
    """The quantity that the data shows at a price."""
    at, here = find(b, book, side, price)
    return select(here, level_at(ladder_of(book, side), at).qty, 0)


def change(b: FunctionCode, book: Record, side: Expr, price: Expr, qty: Expr, taken: Expr, number: Expr) -> None:
    """The level at a price becomes that, and goes where `qty` is 0; nothing notes it."""
    at, here = find(b, book, side, price)
    with b.when(here | (qty != 0)):
        b.call("ladder.change", ladder_of(book, side), at, here, price_key(side, price), qty, taken, number)


def remove(b: FunctionCode, book: Record, side: Expr, at: Expr) -> None:
    ladder, zero = ladder_of(book, side), b.const(0, "i64")
    b.call("ladder.change", ladder, at, True, price_key(side, price_at(ladder, side, at)), zero, zero, zero)


def reprice(b: FunctionCode, book: Record, side: Expr, price: Expr, qty: Expr) -> None:
    """A level at another price takes the place of the only one."""
    ladder, at = ladder_of(book, side), b.const(0, "i64")
    note_level(b, book, side, ladder, at)
    b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
    best_block = _block_at(ladder, at)
    best_block.keys.unchecked[0] = price_key(side, price)
    _write(level_at(ladder, at), qty, b.const(0, "i64"), _next_number(book))


def note_level(b: FunctionCode, book: Record, side: Expr, ladder: Record, at: Expr) -> None:
    """The journal keeps what stands there now."""
    level = level_at(ladder, at)
    b.call("book.note", book, 0, side, price_at(ladder, side, at), *(level[name] for name in ("qty", "taken", "number")), 0)


def define_ladder(program: ModuleBuilder) -> None:
    """`ladder.find`, `ladder.change`, `ladder.clear`; `book.level`, the quantity that now stands at a price, `book.best`, where
    none is better; `book.shift`, by how much it changes."""
    with program.function("ladder.rank", {**OWN, "key": U64}, [I64], internal=True) as b:
        _rank(b, *b.parameters)
    with program.function("ladder.find", {**OWN, "key": U64}, [I64, I1], internal=True) as b:
        _find(b, *b.parameters)
    with program.function("ladder.part", {**OWN, "at": I64, "key": U64}, [I64], internal=True, attributes=COLD) as b:
        _part(b, *b.parameters)
    with program.function("ladder.join", {**OWN, "key": U64}, internal=True, attributes=COLD) as b:
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
        _become(b, book, side, price, at, here, maximum(qty, 0))
    with program.function("book.best", {**PLACE, "qty": I64}, internal=True) as b:
        book, side, price, qty = b.parameters
        top = best(book, side)
        here = top.present & (top.value == price)
        _become(b, book, side, price, b.const(0, "i64"), here, maximum(qty, 0))
    with program.function("book.shift", {**PLACE, "by": I64}, internal=True) as b:
        book, side, price, by = b.parameters
        at, here = find(b, book, side, price)
        level = level_at(ladder_of(book, side), at)
        sum = select(here, level.qty, 0).wrapping_add(by)
        wrong = (by > 0) & (sum < 0)
        with b.when(wrong):
            book.incomplete = True
            book.left_out = book.left_out.wrapping_add(1)
        _become(b, book, side, price, at, here, select(wrong, HIGHEST, maximum(sum, 0)))


# ---- one change ---------------------------------------------------------------------------------------------------------------


def _become(b: FunctionCode, book: Record, side: Expr, price: Expr, at: Expr, here: Expr, qty: Expr) -> None:
    """A level whose quantity stays as it was shows nothing new, so what we took of it stays taken."""
    ladder = ladder_of(book, side)
    number = _next_number(book)
    level = level_at(ladder, at)
    before = select(here, level.qty, 0)
    with b.when(qty == before):
        with b.when(here):
            level.number = number
        b.ret()
    with b.when(~here & (ladder.count == LEVELS)):
        b.call("book.crowded", book, side, price, qty)
        b.ret()
    taken, numbered = select(here, level.taken, 0), select(here, level.number, NUMBER_OF_NONE)
    b.call("book.note", book, 0, side, price, before, taken, numbered, 0)
    b.call("ladder.change", ladder, at, here, price_key(side, price), qty, 0, number)


def _change(b: FunctionCode, ladder: Record, position: Expr, here: Expr, key: Expr, qty: Expr, taken: Expr, number: Expr) -> None:
    """A level comes, goes, or becomes another, all on one way, for nobody could foresee which. `free` lists the places that no level has
    from number `count` on, each with the bits of its own number turned, so that memory of zeros lists all of them."""
    new, gone = ~here, qty == 0
    spot = b.variable(position)
    with b.when(new & (_block_at(ladder, position).size == WIDTH)):
        (parted,) = b.call("ladder.part", ladder, position, key)
        spot.value = parted
    at = spot.value
    block, place = _block_at(ladder, at), _place(at)
    more, less = (truth.cast("i64") for truth in (new, gone))
    count = ladder.count
    entry = count.wrapping_sub(less)
    mask = entry.cast("u16")
    fresh = ladder.free.unchecked[select(new, entry, 0)] ^ mask
    kept = select(here, block.places.unchecked[place], fresh)
    level = ladder.levels.unchecked[kept.cast("i64")]
    _write(level, qty, taken, number)
    with b.when(~(new | gone)):
        b.ret()
    ladder.free.unchecked[entry] = kept ^ mask
    ladder.count = entry.wrapping_add(more)
    size = block.size.wrapping_add(more).wrapping_sub(less)
    block.size = size
    written = select(new, place, SPARE)
    for part, value in (("keys", key), ("places", kept)):
        _move(b, block, part, place.wrapping_add(less), place.wrapping_add(more))
        block[part].unchecked[written] = value
    with b.when(all_of(gone, size <= SMALL, ladder.more != 0)):
        b.call("ladder.join", ladder, key)


def _write(level: Record, qty: Expr, taken: Expr, number: Expr) -> None:
    assign(level, qty=qty, taken=taken, number=number)


def _next_number(book: Record) -> Expr:
    """Of an update."""
    number = book.number.wrapping_add(1)
    book.number = number
    return number


def _move(b: FunctionCode, block: Record, part: str, source: Expr, to: Expr) -> None:
    """So many that all behind are among them; what follows those is zero, or seen by nobody."""
    held = b.local(SHIFTED[part])
    with b.loop(0, WIDTH) as i:
        held.items.unchecked[i] = block[part].unchecked[source.wrapping_add(i)]
    with b.loop(0, WIDTH) as i:
        at = to.wrapping_add(i)
        block[part].unchecked[at] = held.items.unchecked[i]


def _crowded(b: FunctionCode, book: Record, side: Expr, price: Expr, qty: Expr) -> None:
    """A new level for a full ladder, whose worst one is dropped, or which is itself the worst."""
    ladder = ladder_of(book, side)
    worst = last_at(ladder)
    least = price_at(ladder, side, worst)
    outside = price_rank(side, price) < price_rank(side, least)
    dropped = select(outside, price, least)
    lost, lost_from = ladder.lost, ladder.lost_from
    b.call("book.note", book, 2, side, lost_from, lost.cast("i64"), 0, 0, 0)
    better = maximum(price_rank(side, lost_from), price_rank(side, dropped))
    ladder.lost_from = select(lost, price_rank(side, better), dropped)
    ladder.lost = True
    with b.when(~outside):
        note_level(b, book, side, ladder, worst)
        b.call("book.note", book, 0, side, price, 0, 0, NUMBER_OF_NONE, 0)
        remove(b, book, side, worst)
        change(b, book, side, price, qty, b.const(0, "i64"), book.number)


# ---- blocks -------------------------------------------------------------------------------------------------------------------


def _block_at(ladder: Record, at: Expr) -> Record:
    return ladder.blocks.unchecked[at >> (STRIDE.bit_length() - 1)]


def _place(at: Expr) -> Expr:
    return at & (STRIDE - 1)


def _price(side: Expr, key: Expr) -> Expr:
    return price_rank(side, (key ^ (1 << 63)).cast("i64"))


def _block_of(ladder: Record, rank: Expr) -> Expr:
    """The number of the block that has a rank."""
    return ladder.order.unchecked[rank].cast("i64")


def _count(b: FunctionCode, numbers: Record, name: str, size: Expr, step: int, suits: str, wanted: Expr) -> Expr:
    """How many numbers of a list compare so; behind the `size` first ones are zeros, up to a multiple of the step."""
    total = b.variable(0)
    with b.loop(0, size.wrapping_add(step - 1) & -step) as i:
        truth = b.compare(suits, numbers[name].unchecked[i], wanted)
        total.value = total.value.wrapping_add(truth.cast("i64"))
    return total.value


def _rank(b: FunctionCode, ladder: Record, wanted: Expr) -> None:
    """Of the block that has a level of such a key, or would have it: most often that of the price before."""
    more, last = ladder.more, ladder.last
    begin = ladder.begins.unchecked[maximum(last.wrapping_sub(1), 0)]
    with b.when(((last == 0) | (begin >= wanted)) & (ladder.begins.unchecked[last] < wanted)):
        b.ret(last)
    rank = minimum(_count(b, ladder, "begins", more, STEP, "ge", wanted), more)
    ladder.last = rank
    b.ret(rank)


def _find(b: FunctionCode, ladder: Record, wanted: Expr) -> None:
    (rank,) = b.call("ladder.rank", ladder, wanted)
    number = _block_of(ladder, rank)
    block = ladder.blocks.unchecked[number]
    size = block.size
    place = _count(b, block, "keys", size, WIDTH, "gt", wanted)
    here = (place < size) & (block.keys.unchecked[place] == wanted)
    b.ret(number.wrapping_mul(STRIDE).wrapping_add(place), here)


def _part(b: FunctionCode, ladder: Record, at: Expr, wanted: Expr) -> None:
    """The worse half of a full block becomes one of its own; where the wanted price would stand then. `order` has the numbers of blocks
    by rank, behind them those no longer used; a 0 there is one never used."""
    block, more = _block_at(ladder, at), ladder.more.wrapping_add(1)
    (rank,) = b.call("ladder.rank", ladder, wanted)
    left = _block_of(ladder, more)
    number = select(left == 0, more, left)
    new = ladder.blocks.unchecked[number]
    with b.loop(more.wrapping_sub(1), rank, -1) as other:
        behind = other.wrapping_add(1)
        ladder.order.unchecked[behind] = ladder.order.unchecked[other]
        ladder.begins.unchecked[other] = ladder.begins.unchecked[other.wrapping_sub(1)]
    ladder.more = more
    new_rank = rank.wrapping_add(1)
    ladder.order.unchecked[new_rank] = number.cast("u16")
    half = WIDTH // 2
    ladder.begins.unchecked[rank] = block.keys.unchecked[half]
    with b.loop(0, half) as i:
        _carry(block, i.wrapping_add(half), new, i)
    for each in (block, new):
        each.size = half
    new.after = block.after
    block.after = number
    position, _ = b.call("ladder.find", ladder, wanted)
    b.ret(position)


def _carry(block: Record, at: Expr, to: Record, place: Expr) -> None:
    for part in ("keys", "places"):
        to[part].unchecked[place] = block[part].unchecked[at]
    block.keys.unchecked[at] = 0


def _join(b: FunctionCode, ladder: Record, wanted: Expr) -> None:
    """A small block and the one behind it become one, or the one before it, where that isn't too much; one without levels always goes."""
    (rank,) = b.call("ladder.rank", ladder, wanted)
    size = ladder.blocks.unchecked[_block_of(ladder, rank)].size
    more = ladder.more
    for first, there in ((rank, rank < more), (rank.wrapping_sub(1), rank > 0)):
        low = select(there, first, 0)
        other = low.wrapping_add((first == rank).cast("i64"))
        sum = size.wrapping_add(ladder.blocks.unchecked[_block_of(ladder, other)].size)
        with b.when(there & ((size == 0) | (sum <= MEDIUM))):
            _unite(b, ladder, first)
            b.ret()


def _unite(b: FunctionCode, ladder: Record, rank: Expr) -> None:
    """The block of a rank and the one behind it."""
    second = rank.wrapping_add(1)
    number, more = _block_of(ladder, second), ladder.more
    block, gone = ladder.blocks.unchecked[_block_of(ladder, rank)], ladder.blocks.unchecked[number]
    size, also = block.size, gone.size
    with b.loop(0, also) as i:
        _carry(gone, i, block, size.wrapping_add(i))
    block.size = size.wrapping_add(also)
    block.after = gone.after
    gone.size = 0
    with b.loop(second, more) as other:
        ladder.order.unchecked[other] = ladder.order.unchecked[other.wrapping_add(1)]
        before = other.wrapping_sub(1)
        ladder.begins.unchecked[before] = ladder.begins.unchecked[other]
    ladder.order.unchecked[more] = number.cast("u16")
    ladder.begins.unchecked[more.wrapping_sub(1)] = 0
    ladder.more = more.wrapping_sub(1)


def _clear(b: FunctionCode, ladder: Record) -> None:
    """Only what was used is written."""
    before = b.variable(0)
    with b.loop(0, ladder.more.wrapping_add(1)) as rank:
        block = ladder.blocks.unchecked[_block_of(ladder, rank)]
        size, first = block.size, before.value
        with b.loop(0, size) as i:
            entry = first.wrapping_add(i)
            place = block.places.unchecked[i]
            ladder.free.unchecked[entry] = place ^ entry.cast("u16")
        with b.loop(0, size) as i:
            block.keys.unchecked[i] = 0
        before.value = first.wrapping_add(size)
        block.size = 0
        ladder.begins.unchecked[rank] = 0
    for name in ("count", "more"):
        ladder[name] = 0
