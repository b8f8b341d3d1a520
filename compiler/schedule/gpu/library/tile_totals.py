"""What stands before each tile of a scan, left by two launches before that of the tiles: in the first each tile leaves what its own
elements make, in the second a thread for each scan walks along its tiles. Memory is read once more than by look-back, and no block
waits for another."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Scan, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, is_float
from compiler.schedule.gpu.indices import thread_index
from runtime.records import frozen

CLEARING = 256
"""Threads of a block, of launches with a thread for each scan or tile."""


@frozen
class TileTotals:
    """`memory`: a number for each tile; its dims are those of independent scans, then tiles."""

    scan: Scan
    memory: Value

    @staticmethod
    def made(b: Builder, scan: Scan, around: Sequence[Affine], tiles: Affine) -> "TileTotals":
        return TileTotals(scan, b.alloc(Mem(dtype_of(scan.value), (*around, tiles), align=64), "totals"))

    def leave(self, b: Builder, around: Sequence[str], tile: Value, total: Value, where: Value | None) -> None:
        b.store(self.memory, total, [*around, tile.name], where)

    def run(self, b: Builder, around: Sequence[Value], tiles: Affine) -> None:
        """What stands before each tile of a scan, in place of what the tile makes: one thread's part."""
        dtype = dtype_of(self.scan.value)
        (number,) = identity_of(self.scan.monoid, [dtype])
        flags = self.scan.flags if is_float(dtype) else ()
        with b.loop("tile", 0, tiles, carried=[b.const(number, dtype)]) as (body, loop):
            (before,), index = loop.carried, [*(axis.name for axis in around), loop.variable.name]
            own = body.load(self.memory, index)
            body.store(self.memory, before, index)
            body.yield_(body.op(self.scan.monoid, before, own, flags=flags))

    def before(self, b: Builder, around: Sequence[str], tile: Value) -> Value:
        return b.load(self.memory, [*around, tile.name])


@contextmanager
def for_each(b: Builder, extents: Sequence[Affine], once: Callable[[Builder], None] | None = None) -> Iterator[tuple[Builder, list[Value]]]:
    """`with for_each(b, extents) as (inner, places):` a launch with a thread for each index of these extents. `once`:
    what the first thread does besides."""
    counts = [b.count(extent) for extent in extents]
    total = b.product(counts) if counts else b.const(1, "index")
    width = b.const(CLEARING, "index")
    blocks = b.op("div", b.add(total, b.const(CLEARING - 1, "index")), width)
    with b.loop("block", 0, blocks.name, place="block", threads=CLEARING) as (body, loop):
        number = body.index(Affine.of(loop.variable.name) * CLEARING + thread_index(body).name)
        if once is not None:
            with body.when(body.op("eq", number, body.const(0, "index"))) as first:
                once(first)
        with body.when(body.op("lt", number, total)) as inner:
            yield inner, inner.digits(number, counts[1:]) if counts else []
