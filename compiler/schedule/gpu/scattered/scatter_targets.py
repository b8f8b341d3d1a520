"""Memories that threads change by atomics, one monoid each, and the copies of small ones that a block has in its shared memory: the order
in which threads come is of no consequence, as the monoids are exact."""

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import Atomic, DynamicShared, SharedAlloc, SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.schedule.gpu.facts import MAGNITUDES, Facts
from compiler.schedule.launches import SHARED_ALIGN, LaunchSizedShared
from compiler.schedule.stages import Start
from runtime.records import evolve, frozen

STAGED_BYTES = 32 << 10
"""Of shared memory for copies of small memories."""
WORTH = 2
"""Iterations that a block should have for each element of its copy of a larger memory, or of its range of one."""
RANGES = 4
"""Ranges of a memory for each target, at most, of which each block has a copy of one: all iterations are then gone through for each
range, which takes as long as so many changes of what isn't in shared memory."""
COPIES = 32
"""Of a small memory in a block, at most: each lane of a warp has its own, so that no two meet."""


@frozen(eq=False)
class ScatterTarget:
    """What updates of `mem` change: itself, or a memory `apart`, of `dtype`, with as many elements. `narrow`: the type in which the sum
    ends. `copies`: of it in a block's shared memory, 0 for none."""

    mem: Value
    monoid: str
    dtype: str
    narrow: str
    apart: Value | None
    copies: int = 0
    capacity: int | None = None
    """Elements of a copy, where that is of a range of the memory."""
    kept: str = ""
    """The narrow type in which a block keeps what a launch before has found, for the next one."""

    @property
    def cells(self) -> tuple[Affine, ...]:
        return mem_of(self.mem).dims

    @property
    def nothing(self) -> float | int:
        """What changes nothing."""
        (identity,) = identity_of(self.monoid, [self.narrow])
        return identity


def apart_from(mem: Value, name: str, monoid: str, dtype: str, narrow: str = "", kept: str = "") -> ScatterTarget:
    """A memory beside `mem`, of another type."""
    beside = Value(f"{mem.name}_{name}", Mem(dtype, mem_of(mem).dims, align=64))
    return ScatterTarget(mem, monoid, dtype, narrow or dtype, beside, kept=kept)


def staged(
    targets: Sequence[ScatterTarget], iterations: int | None, divisible: bool, facts: Facts, kept: int = 0
) -> tuple[ScatterTarget, ...]:
    """The targets of one launch, with copies in shared memory where all of them fit; one copy of a larger memory, or of a range of it,
    where there is so much to add up that it is worth being cleared and added up itself. `divisible`: whether iterations may be done
    again for each range; `kept`: bytes that a block keeps beside, for an element of each."""
    elements = [most_elements(target.cells, facts) for target in targets]
    total = sum((most or 0) * bytes_of(target.dtype) for most, target in zip(elements, targets, strict=True))
    if None in elements or not targets:
        return tuple(targets)
    copies = COPIES
    while copies > 1 and copies * total > STAGED_BYTES:
        copies //= 2
    if total <= STAGED_BYTES:
        return tuple(evolve(target, copies=copies) for target in targets)
    room = facts.machine.block_shared - 3 * SHARED_ALIGN * len(targets)
    capacity = room // (sum(bytes_of(target.dtype) for target in targets) + kept)
    ranges = 1 if total + kept * max(most or 0 for most in elements) <= room else -(-(elements[0] or 0) // capacity)
    # sums of f64 are two whole numbers, of which shared memory has four words: their ranges are no faster than changes elsewhere
    turns = 1 if any(mem_of(target.mem).dtype == "f64" for target in targets) else ranges
    if iterations is None or iterations * turns < WORTH * sum(most or 0 for most in elements) * facts.processors:
        return tuple(targets)
    if ranges == 1:
        return tuple(evolve(target, copies=1) for target in targets)
    if not divisible or len({target.cells for target in targets}) > 1 or ranges > RANGES * len(targets):
        return tuple(targets)
    return tuple(evolve(target, copies=1, capacity=capacity) for target in targets)


def most_elements(dims: Sequence[Affine], facts: Facts) -> int | None:
    """Elements at most; None where nothing is known of an extent."""
    known = {name: most for name, most in facts.magnitudes if most < MAGNITUDES[-1]}
    if any(factor < 0 or symbol not in known for dim in dims for symbol, factor in dim.terms):
        return None
    return prod(max(0, dim.evaluate(known.__getitem__)) for dim in dims)


class ScatterLaunch:
    """The targets in one launch: where they are, and what a thread does to them. `dynamic`: memories whose size the launch decides."""

    def __init__(self, start: Start, targets: Sequence[ScatterTarget], facts: Facts) -> None:
        b = start.out.body
        self.start, self.targets, self.facts = start, targets, facts
        self.thread = b.index(start.thread, "thread")
        self.dynamic: list[LaunchSizedShared] = []
        self.range: Value | None = None
        """The number of the block's range, where each has one."""
        self.boxes: dict[ScatterTarget, list[Value]] = {}
        self.found: dict[Value | None, tuple[ScatterTarget, Value]] = {}

    def begin(self, range: Value | None, found: Sequence[ScatterTarget] = ()) -> None:
        """The block's copies are ready, of what is `found` too; `range`: which it has, of memories that are too large for one."""
        b, self.range = self.start.out.body, range
        self.boxes = {target: self._boxes(target, b) for target in self.targets if target.copies}
        self.found = {target.apart: (target, self._kept(target, b)) for target in found}
        if self.boxes:
            b.emit(SyncThreads())

    def change(self, b: Builder, target: ScatterTarget, index: Sequence[Affine], value: Value) -> None:
        """Changes an element by a value of the target's type, where the block puts changes together."""
        if target not in self.boxes:
            b.emit(Atomic(operation=target.monoid, mem=memory_of(target, self.start), index=tuple(index), value=value))
            return
        cell, inside = self._cell(b, target, index)
        with b.when(inside) if inside is not None else nullcontext(b) as inner:
            self._change(inner, target, cell, value)

    def before(self, b: Builder, target: ScatterTarget, index: Sequence[Affine], where: Value | None) -> Value:
        """What a launch before has found of an element; anything where it is outside of the block's range."""
        if target.apart not in self.found:
            return b.load(memory_of(target, self.start), index, where)
        kept, box = self.found[target.apart]
        cell, inside = self._cell(b, kept, index)
        return b.cast(b.load(box, [cell.name], where if inside is None else b.both(where, inside)), target.dtype)

    def _cell(self, b: Builder, target: ScatterTarget, index: Sequence[Affine]) -> tuple[Value, Value | None]:
        """The number of an element among those of which the block has a copy, and whether it is one where it has but a range."""
        cell, *further = (b.index(form) for form in index)
        for form, dim in zip(further, target.cells[1:], strict=True):
            cell = b.add(b.mul(cell, b.index(self.start.copy.form(dim))), form)
        if target.capacity is None:
            return cell, None
        cell = b.sub(cell, self._first(target, b))
        return cell, b.op("lt", b.cast(cell, "u64"), b.const(target.capacity, "u64"))

    def _change(self, b: Builder, target: ScatterTarget, cell: Value, value: Value) -> None:
        boxes = self.boxes[target]
        copy = b.op("and", self.thread, b.const(target.copies - 1, "index"))
        position = (Affine.of(cell.name), Affine.of(copy.name))
        if len(boxes) == 1:
            b.emit(Atomic(operation=target.monoid, mem=boxes[0], index=position, value=value, scope="block"))
            return
        bits = b.cast(value, "u64")
        low, high = (b.cast(half, "u32") for half in (bits, b.op("shr", bits, b.const(32, "u64"))))
        old = b.emit(Atomic(operation="add", mem=boxes[0], index=position, value=low, scope="block")).result
        carried = b.cast(b.op("lt", b.add(old, low), low), "u32")
        with b.when(b.op("ne", b.add(high, carried), b.const(0, "u32"))) as some:
            some.emit(Atomic(operation="add", mem=boxes[1], index=position, value=some.add(high, carried), scope="block"))

    def seen(self, b: Builder, target: ScatterTarget, index: Sequence[Affine]) -> Value | None:
        """What an element held a moment ago: a read is cheaper than a change that changes nothing. None where it isn't."""
        if target.copies:
            return None
        nothing = b.const(0, target.dtype)
        return b.emit(Atomic(operation="add", mem=memory_of(target, self.start), index=tuple(index), value=nothing)).result

    def _first(self, target: ScatterTarget, b: Builder) -> Value:
        """The first element of the block's range."""
        assert self.range is not None
        return b.mul(self.range, b.const(target.capacity or 0, "index"))

    def _count(self, target: ScatterTarget, b: Builder) -> Value:
        """Elements that the block has a copy of."""
        cells = b.product([b.index(self.start.copy.form(dim)) for dim in target.cells])
        if target.capacity is None:
            return cells
        return b.op("min", b.sub(cells, self._first(target, b)), b.const(target.capacity, "index"))

    def finish(self) -> None:
        """What the block has put together goes to the memories of all."""
        b = self.start.out.body
        if self.boxes:
            b.emit(SyncThreads())
        for target in self.boxes:
            self._flush(target, b)

    def _boxes(self, target: ScatterTarget, b: Builder) -> list[Value]:
        """A block's copies of a small memory, with nothing in them yet: of 64-bit sums, for which shared memory has no atomics, the halves
        apart."""
        most = target.capacity or most_elements(target.cells, self.facts) or 1
        halves = target.monoid == "add" and target.dtype in ("i64", "u64")
        types = [Mem("u32" if halves else target.dtype, (most, target.copies), space=Space.SHARED, align=16)] * (2 if halves else 1)
        boxes = [self._memory(type_, b) for type_ in types]
        words = b.mul(self._count(target, b), b.const(target.copies, "index"))
        with b.loop("word", self.thread.name, words.name, self.start.threads) as (inner, loop):
            cell, copy = inner.digits(loop.variable, [inner.const(target.copies, "index")])
            for box in boxes:
                inner.store(box, inner.const(target.nothing, mem_of(box).dtype), [cell.name, copy.name])
        return boxes

    def _kept(self, target: ScatterTarget, b: Builder) -> Value:
        """The block's copy of what a launch before has found, in a narrow type."""
        most = target.capacity or most_elements(target.cells, self.facts) or 1
        box = self._memory(Mem(target.kept, (most,), space=Space.SHARED, align=16), b)
        dims = [b.index(self.start.copy.form(dim)) for dim in target.cells]
        with b.loop("cell", self.thread.name, self._count(target, b).name, self.start.threads) as (inner, loop):
            cell = loop.variable if target.capacity is None else inner.add(loop.variable, self._first(target, inner))
            index = [digit.name for digit in inner.digits(cell, dims[1:])]
            inner.store(box, inner.cast(inner.load(memory_of(target, self.start), index), target.kept), [loop.variable.name])
        return box

    def _memory(self, type_: Mem, b: Builder) -> Value:
        size = prod(dim.value or 1 for dim in type_.dims) * bytes_of(type_.dtype)
        if size <= STAGED_BYTES and not self.dynamic:
            return b.emit(SharedAlloc(type=type_), "copies").result
        behind = sum(-(-prod(dim.value or 1 for dim in use.dims) * use.width // SHARED_ALIGN) * SHARED_ALIGN for use in self.dynamic)
        self.dynamic.append(LaunchSizedShared("copies", type_.dims, bytes_of(type_.dtype)))
        return b.emit(DynamicShared(offset=Affine((), behind), type=type_), "copies").result

    def _flush(self, target: ScatterTarget, b: Builder) -> None:
        boxes, nothing = self.boxes[target], b.const(target.nothing, target.dtype)
        dims = [b.index(self.start.copy.form(dim)) for dim in target.cells]
        with b.loop("cell", self.thread.name, self._count(target, b).name, self.start.threads) as (inner, loop):
            with inner.loop("copy", 0, target.copies, carried=[nothing]) as (deep, copies):
                copy = deep.op("and", deep.add(copies.variable, self.thread), deep.const(target.copies - 1, "index"))
                read = [deep.load(box, [loop.variable.name, copy.name]) for box in boxes]
                value = read[0]
                if len(read) > 1:
                    low, high = (deep.cast(half, "u64") for half in read)
                    value = deep.cast(deep.op("or", deep.op("shl", high, deep.const(32, "u64")), low), target.dtype)
                deep.yield_(deep.op(target.monoid, copies.carried[0], value))
            with inner.when(inner.op("ne", copies.results[0], nothing)) as some:
                cell = loop.variable if target.capacity is None else some.add(loop.variable, self._first(target, some))
                index = tuple(Affine.of(digit.name) for digit in some.digits(cell, dims[1:]))
                some.emit(Atomic(operation=target.monoid, mem=memory_of(target, self.start), index=index, value=copies.results[0]))


def memory_of(target: ScatterTarget, start: Start) -> Value:
    return start.values[target.mem] if target.apart is None else start.workspaces[start.around.others[target.apart]]
