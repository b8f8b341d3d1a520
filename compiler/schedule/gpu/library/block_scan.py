"""A scan over the threads of a block, in pieces: along registers, over the lanes of a warp by shuffles, over warps through shared memory.
Each piece gives what stands before its element, and what all its elements make."""

from collections.abc import Sequence

from compiler.hir.affine import AffineLike
from compiler.hir.build import Builder
from compiler.hir.core import Take, dtype_of
from compiler.hir.gpu import Shuffle, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.types import is_float
from runtime.records import frozen


@frozen
class Joining:
    """Elements of a monoid joined, the earlier on the left, by the code that `b` builds."""

    b: Builder
    monoid: str
    flags: tuple[str, ...] = ()
    lanes: int = 32
    """Of a warp, or of each group of neighbours in it."""

    def __call__(self, left: Value, right: Value) -> Value:
        return self.b.op(self.monoid, left, right, flags=self.flags if is_float(dtype_of(left)) else ())

    # ---- registers ----

    def along(self, axis: str, value: Value, extent: int, exclusive: bool) -> tuple[Value, Value]:
        """The scan along an axis of registers, and the total."""
        through = self._scanned(axis, value, exclusive=False)
        total = self.b.emit(Take(value=through, axis=axis, at=extent - 1)).result
        return (self._scanned(axis, value, exclusive=True) if exclusive else through), total

    def before(self, axis: str, value: Value, extent: int) -> tuple[Value, Value]:
        """What stands before each register along an axis, and the total."""
        before = self._scanned(axis, value, exclusive=True)
        last = [self.b.emit(Take(value=source, axis=axis, at=extent - 1)).result for source in (before, value)]
        return before, self(*last)

    def _scanned(self, axis: str, value: Value, exclusive: bool) -> Value:
        return self.b.scan(self.monoid, value, axis, exclusive=exclusive, flags=self.flags)

    # ---- threads ----

    def over_lanes(self, value: Value, lane: Value, nothing: Value) -> tuple[Value, Value]:
        """What the lanes before this one make, and what all lanes of the warp make."""
        b, distance = self.b, 1
        while distance < self.lanes:
            there = b.op("ge", lane, b.const(distance, "index"))
            value = b.select(there, self(self._lane("up", value, distance), value), value)
            distance *= 2
        first = b.op("eq", lane, b.const(0, "index"))
        return b.select(first, nothing, self._lane("up", value, 1)), self._lane("idx", value, self.lanes - 1)

    def _lane(self, mode: str, value: Value, lane: int) -> Value:
        return self.b.emit(Shuffle(mode=mode, value=value, lane=self.b.const(lane, "i32"), width=self.lanes)).result

    def over_warps(
        self,
        value: Value,
        warp: Value,
        nothing: Value,
        memory: Value,
        count: int,
        inside: Sequence[AffineLike] = (),
        where: Value | None = None,
    ) -> tuple[Value, Value]:
        """What the warps before this one make, and what all `count` make. `memory` is shared: a row a warp, in which the value's place is
        `inside`; `where`: who stores. It is free again when all threads have come through."""
        b = self.b
        b.store(memory, value, [warp.name, *inside], where)
        b.emit(SyncThreads())
        total, passed = nothing, b.load(memory, [0, *inside])
        for number in range(1, count):
            total = b.select(b.op("eq", warp, b.const(number, "index")), passed, total)
            passed = self(passed, b.load(memory, [number, *inside]))
        b.emit(SyncThreads())
        return total, passed
