"""Which thread, warp or lane computes something, and numbers of tiles taken apart into indices along several axes."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import GridIndex, WarpIndex
from compiler.hir.instruction import Value


def thread_index(b: Builder) -> Value:
    """The thread's number in its block."""
    return b.emit(GridIndex(operator="thread_idx", dim="x")).result


def warp_index(b: Builder) -> Affine:
    """The warp's number in its block."""
    return Affine.of(b.emit(WarpIndex(operator="warp")).result.name)


def lane_index(b: Builder) -> Affine:
    """The thread's number in its warp."""
    return Affine.of(b.emit(WarpIndex(operator="lane")).result.name)


def lane_digits(b: Builder) -> tuple[Affine, Affine, Affine]:
    """The thread's place in a warpgroup, as the maps of `compiler.hir.lane_maps` count: in a row of four, the row, the warp."""
    lane = lane_index(b)
    return lane % 4, lane.floordiv(4), warp_index(b) % 4


def small(b: Builder, operator: str, left: Value, right: Value) -> Value:
    """A quotient or remainder of numbers below 2^32. Divisions of 64 bits are calls, and a function with calls has its products one
    after the other."""
    return b.cast(b.op(operator, b.cast(left, "u32"), b.cast(right, "u32")), "index")


def small_digits(b: Builder, number: Value, counts: Sequence[Value]) -> list[Value]:
    """`Builder.digits` of a number below 2^32."""
    digits: list[Value] = []
    for count in reversed(counts):
        digits.insert(0, small(b, "rem", number, count))
        number = small(b, "div", number, count)
    return [number, *digits]


def banded(b: Builder, number: Value, down: Value, across: Value, rows: int) -> tuple[Value, Value]:
    """Row and column of a tile in a matrix of `down` by `across` tiles that are taken in bands of so many rows, each column by column: what
    is taken at a time reads rows and columns that are in the cache."""
    band = b.mul(across, b.const(rows, "index"))
    above = b.mul(small(b, "div", number, band), b.const(rows, "index"))
    within = small(b, "rem", number, band)
    height = b.op("min", b.sub(down, above), b.const(rows, "index"))
    return b.add(above, small(b, "rem", within, height)), small(b, "div", within, height)


def counted_on(b: Builder, places: Sequence[Value], counts: Sequence[Value]) -> list[Value]:
    """The places one further, the last one fastest."""
    return further(b, places, [*[b.const(0, "index")] * (len(places) - 1), b.const(1, "index")], counts)


def further(b: Builder, digits: Sequence[Value], step: Sequence[Value], counts: Sequence[Value]) -> list[Value]:
    """The digits of a number and those of a step, added: without the divisions again, which would take longer than what waits for them."""
    added: list[Value] = []
    carry: Value | None = None
    for digit, other, count in zip(reversed(digits[1:]), reversed(step[1:]), reversed(counts[1:]), strict=True):
        total = b.add(digit, other) if carry is None else b.add(b.add(digit, other), carry)
        over = b.op("le", count, total)
        added.insert(0, b.select(over, b.sub(total, count), total))
        carry = b.select(over, b.const(1, "index"), b.const(0, "index"))
    first = b.add(digits[0], step[0])
    return [first if carry is None else b.add(first, carry), *added]
