"""Sorting as launches of threads: stable merges of runs of 1, 2, 4, ... elements, each element finding its place in the neighbouring
run by bisection (the rank-based merge of Cole and others, without splitters). n log^2 n comparisons, all of a pass independent."""

from collections.abc import Sequence

from compiler.hir.build import Builder
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import is_float


def merge_pass(
    b: Builder, position: Value, width: Value, sources: Sequence[Value], targets: Sequence[Value], axis: int, descending: bool
) -> None:
    """One thread's part of a pass: the element number `position` (row-major) of the keys `sources[0]`, sorted in runs of `width` along
    `axis`, goes to its place in runs of twice the width in `targets`; the payloads `sources[1:]` go along."""
    dims = [b.index(dim) for dim in mem_of(sources[0]).dims]
    coordinates: list[Value] = []
    rest = position
    for dim in reversed(dims):
        coordinates.insert(0, b.op("rem", rest, dim))
        rest = b.op("div", rest, dim)
    mine = coordinates[axis]
    key = b.load(sources[0], [c.name for c in coordinates])
    start, middle, end = _runs(b, mine, width, dims[axis])
    left = b.op("lt", mine, middle)
    low = b.slot(b.select(left, middle, start), "low")
    high = b.slot(b.select(left, end, middle), "high")
    with b.repeat() as (before, body):
        before.condition(before.op("lt", before.get(low), before.get(high)))
        half = body.op("div", body.add(body.get(low), body.get(high)), body.const(2, "index"))
        other = body.load(sources[0], [half.name if number == axis else c.name for number, c in enumerate(coordinates)])
        # Equal keys keep their order: those of the left run stand before those of the right one.
        ahead = body.select(left, _before(body, other, key, descending), body.op("not", _before(body, key, other, descending)))
        with body.branch(ahead) as (yes, no, _):
            yes.set(low, yes.add(half, yes.const(1, "index")))
            no.set(high, half)
    taken = b.get(low)
    passed = b.sub(taken, b.select(left, middle, start))
    own = b.sub(mine, b.select(left, start, middle))
    goes = b.add(b.add(start, own), passed)
    index = [goes.name if number == axis else c.name for number, c in enumerate(coordinates)]
    for source, target in zip(sources, targets, strict=True):
        b.store(target, b.load(source, [c.name for c in coordinates]), index)


def _runs(b: Builder, mine: Value, width: Value, extent: Value) -> tuple[Value, Value, Value]:
    """Where the pair of runs that an element is in starts, changes over and ends."""
    pair = b.add(width, width)
    start = b.mul(b.op("div", mine, pair), pair)
    middle = b.op("min", b.add(start, width), extent)
    return start, middle, b.op("min", b.add(start, pair), extent)


def _before(b: Builder, first: Value, second: Value, descending: bool) -> Value:
    """Whether the first key must stand before the second; NaN stands last in either direction."""
    if dtype_of(first) == "i1":
        first, second = b.cast(first, "i32"), b.cast(second, "i32")
    less = b.op("gt" if descending else "lt", first, second)
    if not is_float(dtype_of(first)):
        return less
    return b.op("or", less, b.op("and", b.isnan(second), b.op("not", b.isnan(first))))


def passes(extent: int) -> list[tuple[int, int]]:
    """Widths of the passes, in pairs that go to the other memory and back."""
    widths, width = [], 1
    while width < extent:
        widths.append((width, 2 * width))
        width *= 4
    return widths
