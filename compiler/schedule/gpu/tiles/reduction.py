"""One value a thread joined over a block: within each warp by shuffles, then through a slot of shared memory a warp. The order depends on
the size of the block alone, and every thread gets the same bits: what a lane has joined is taken from lane 0."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Combine, dtype_of
from compiler.hir.gpu import SharedAlloc, Shuffle, SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space, is_float
from runtime.records import frozen


def combined(b: Builder, monoid: str, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    """Two elements of a monoid made one; the elements of `argmin` and `argmax` are pairs."""
    if monoid in ("argmin", "argmax"):
        return b.emit(Combine(monoid=monoid, operands_=(*first, *second))).results
    return [b.op(monoid, first[0], second[0], flags=flags_of(monoid) if is_float(dtype_of(first[0])) else ())]


def flags_of(monoid: str) -> tuple[str, ...]:
    """Of operations that join floats."""
    return ("reassoc",) if monoid in ("add", "mul") else ()


def identities(b: Builder, monoid: str, dtypes: Sequence[str]) -> list[Value]:
    return [b.const(number, dtype) for number, dtype in zip(identity_of(monoid, list(dtypes)), dtypes, strict=True)]


def slots(b: Builder, threads: int, dtypes: Sequence[str], warp: int) -> list[Value]:
    """The shared memories that a reduction goes through: none when the block is one warp, of so many lanes."""
    count = -(-threads // warp)
    if count == 1:
        return []
    return [b.emit(SharedAlloc(type=Mem(dtype, (count,), space=Space.SHARED)), "slots").result for dtype in dtypes]


def block_reduced(
    b: Builder, monoid: str, values: Sequence[Value], thread: Value, threads: int, through: Sequence[Value], lanes: int
) -> list[Value]:
    """In all threads, what the values of all threads make together, in warps of `lanes`. All of them must come here, and none may still
    read the slots (`through`) from before: a barrier stands in the middle only."""
    count = -(-threads // lanes)
    whole = threads % lanes == 0
    partial = None if whole else _Partial(thread, threads, lanes)
    values = over_lanes(b, monoid, values, min(threads, lanes), partial)
    if count == 1:
        b.emit(SyncThreads())
        return of_first_lane(b, values)
    lane = b.op("rem", thread, b.const(lanes, "index"), name="lane")
    warp = b.op("div", thread, b.const(lanes, "index"), name="warp")
    with b.when(b.op("eq", lane, b.const(0, "index"))) as inner:
        for slot, value in zip(through, values, strict=True):
            inner.store(slot, value, [warp.name])
    b.emit(SyncThreads())
    if not whole or count > lanes:
        return _one_by_one(b, monoid, through, count)
    inside = b.op("lt", lane, b.const(count, "index"))
    position = b.op("min", lane, b.const(count - 1, "index"))
    nothing = identities(b, monoid, [dtype_of(value) for value in values])
    parts = [b.select(inside, b.load(slot, [position.name]), none) for slot, none in zip(through, nothing, strict=True)]
    return of_first_lane(b, over_lanes(b, monoid, parts, 1 << (count - 1).bit_length()))


@frozen
class _Partial:
    """Blocks whose last warp lacks lanes: the thread's number, how many there are, and the lanes of a whole warp."""

    thread: Value
    threads: int
    lanes: int


def over_lanes(b: Builder, monoid: str, values: Sequence[Value], lanes: int, partial: "_Partial | None" = None) -> list[Value]:
    """The values of the first `lanes` lanes of each warp, joined, in lane 0; those of each group of so many, in its first lane, since its
    partner of each step is the first lane of the other half. `partial`: where the last warp lacks lanes, which count for nothing."""
    distance = 1
    while distance < lanes:
        others = [exchanged(b, value, distance) for value in values] if partial is None else _there(b, monoid, values, distance, partial)
        values = combined(b, monoid, values, others)
        distance *= 2
    return list(values)


def of_first_lane(b: Builder, values: Sequence[Value]) -> list[Value]:
    first = b.const(0, "i32")
    return [b.emit(Shuffle(mode="idx", value=value, lane=first)).result for value in values]


def exchanged(b: Builder, value: Value, distance: int) -> Value:
    """The value of the lane whose number differs in the bit `distance`."""
    return b.emit(Shuffle(mode="xor", value=value, lane=b.const(distance, "i32"))).result


def _there(b: Builder, monoid: str, values: Sequence[Value], distance: int, partial: "_Partial") -> list[Value]:
    """The values of that lane, and the identity where there is no such lane."""
    partner = b.op("xor", partial.thread, b.const(distance, "index"))
    there = b.op("lt", partner, b.const(partial.threads, "index"))
    lane = b.cast(b.op("rem", b.select(there, partner, partial.thread), b.const(partial.lanes, "index")), "i32")
    nothing = identities(b, monoid, [dtype_of(value) for value in values])
    read = [b.emit(Shuffle(mode="idx", value=value, lane=lane)).result for value in values]
    return [b.select(there, other, none) for other, none in zip(read, nothing, strict=True)]


def _one_by_one(b: Builder, monoid: str, through: Sequence[Value], count: int) -> list[Value]:
    """The slots joined in order by every thread: for blocks whose last warp lacks lanes, or of more warps than one has lanes."""
    total = [b.load(slot, [0]) for slot in through]
    for warp in range(1, count):
        total = combined(b, monoid, total, [b.load(slot, [Affine((), warp)]) for slot in through])
    return total
