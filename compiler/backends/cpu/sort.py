"""Stable sorting of the lines of a memory, written as a HIR nest of its own and emitted in place; lines are spread over threads.

Keys that carry payloads are sorted by digits. Keys alone show their order only where equal ones differ: NaNs, and zeros of both signs.
Those are put aside in their order while the others are sorted, which may then be done in any way."""

from collections.abc import Sequence
from contextlib import ExitStack

from compiler.backends.cpu.frame import CpuFrame, alias_notes
from compiler.backends.cpu.sort_across import LONGEST, LinesAcross
from compiler.backends.cpu.sort_by_digits import DigitSort, bits_of
from compiler.backends.cpu.sort_keys import KeySort
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.types import I1, I64
from compiler.backends.llvm.writer import constant
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Instruction, Value, ValueScope, attribute, operand
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc
from compiler.hir.types import INDEX, HirType, Mem, Space, Tile, bytes_of, is_float
from runtime.records import define

WORK = 8
"""Inner steps that sorting takes for an element."""


@define(eq=False, kw_only=True)
class LineSort(Instruction):
    """The `count` contiguous keys at an index of a memory, none of them NaN or -0.0, in order; `spare` is room for as many."""

    keys: Value = operand()
    spare: Value = operand()
    count: Value = operand()
    index: tuple[Affine, ...] = attribute()
    dtype: str = attribute()
    descending: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@define(eq=False, kw_only=True)
class LinesSort(Instruction):
    """`lines` neighbours of short lines from one on, whose keys begin at an index of a memory, in order, unless one holds a NaN or -0.0:
    whether it was done. Lines follow each other along the dimension `beside`."""

    keys: Value = operand()
    lines: Value = operand()
    count: Value = operand()
    index: tuple[Affine, ...] = attribute()
    axis: int = attribute()
    beside: int = attribute()
    dtype: str = attribute()
    descending: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i1")]


def emit_lines_sort(frame: CpuFrame, op: LinesSort) -> None:
    function = LinesAcross(frame.w.module, op.dtype, op.descending).function()
    indexing = Indexing(frame, frame.memories[op.keys.name], op.index, None, 0)
    lines, count = (frame.values[value.name].scalar for value in (op.lines, op.count))
    steps = indexing.strides[op.beside], indexing.strides[op.axis]
    frame.define(op, scalar_bundle("i1", frame.w.call(function, I1, indexing.base, *steps, lines, count)))


def emit_line_sort(frame: CpuFrame, op: LineSort) -> None:
    line = KeySort(frame.w.module, op.dtype, op.descending).line()
    threads = frame.threads if frame.kernel.parallel == "team" else constant(I64, 1)
    start = Indexing(frame, frame.memories[op.keys.name], op.index, None, 0).base
    spare = frame.memories[op.spare.name].pointer
    frame.w.call_void(line, start, spare, frame.values[op.count.name].scalar, constant(I1, 0), constant(I64, 0), threads)


def emit_sort(frame: CpuFrame, op: Sort) -> None:
    owner = FunctionBuilder("sort")
    for name in (*frame.values, *frame.memories, *frame.slots, *frame.kernel.function.axes):
        owner.fresh(name)
        if name in frame.values:
            owner.scope.types[name] = INDEX
    outer = frame.values, frame.memories, frame.slots, frame.definitions
    frame.values, frame.memories = dict(frame.values), dict(frame.memories)
    frame.slots, frame.definitions = dict(frame.slots), dict(frame.definitions)
    views = [_as_bits(frame, owner, value) for value in (op.keys, *op.payload)]
    dtype = frame.memories[op.keys.name].type.dtype
    lanes = KeySort(frame.kernel.module, dtype, op.descending).network.lanes
    _Lines(owner, views, dtype, op.axis, op.descending, lanes).write()
    region = owner.function.body
    local = [inner.result.name for top in region.body for inner in top.walk() if isinstance(inner, Alloc)]
    notes = alias_notes([*[view.name for view in views], *local], frame.kernel.module)
    for view in views:
        memory = frame.memories[view.name]
        frame.memories[view.name] = AddressedMemory(memory.pointer, memory.type, notes[view.name])
    frame.kernel.aliases.update({name: notes[name] for name in local})
    frame.region(region)
    frame.values, frame.memories, frame.slots, frame.definitions = outer


def _as_bits(frame: CpuFrame, owner: FunctionBuilder, value: Value) -> Value:
    """The memory seen as unsigned integers."""
    memory = frame.memories[value.name]
    type = memory.type
    bits = Mem(f"u{8 * bytes_of(type.dtype)}", type.dims, type.strides, type.space, type.align)
    view = owner.value(f"{value.name}_bits", bits)
    frame.memories[view.name] = AddressedMemory(memory.pointer, bits)
    return view


class _Lines:
    """The loops over lines; in them, a line is sorted where it is if its keys are contiguous, else in a buffer."""

    def __init__(self, owner: FunctionBuilder, views: Sequence[Value], dtype: str, axis: int, descending: bool, lanes: int) -> None:
        self.owner, self.views, self.dtype, self.descending, self.lanes = owner, views, dtype, descending, lanes
        keys = views[0].type
        assert isinstance(keys, Mem)
        self.keys, self.axis, self.dims = keys, axis % keys.rank, keys.dims
        self.length = keys.dims[self.axis]

    @property
    def is_contiguous(self) -> bool:
        strides = self.keys.strides
        return self.axis == self.keys.rank - 1 and (strides is None or strides[-1].value == 1)

    def write(self) -> None:
        at: list[Affine] = [Affine()] * len(self.dims)
        others = [number for number in range(len(self.dims)) if number != self.axis]
        alone = len(self.views) == 1
        with ExitStack() as stack:
            inside = self.owner.body

            def loop(high: Affine, work: Affine) -> Value:
                nonlocal inside
                kind = "thread" if inside is self.owner.body else "time"
                inside, handle = stack.enter_context(inside.loop(self.owner.fresh("line"), 0, high, place=kind, work=work))
                return handle.variable

            for number in others[:-1] if alone else others:
                at[number] = Affine.of(loop(self.dims[number], self.length * WORK).name)
            if not alone:
                DigitSort(self.owner, self.views, self.dtype, self.descending, self.length, lambda i: self.place(at, i)).line(inside)
            elif not others:
                self.keys_alone(inside, at)
            else:
                body = self.owner.body
                together = self.together(body, self.dims[others[-1]])
                size = body.select(together, body.const(self.lanes, "index"), body.const(1, "index"))
                groups = body.op("div", body.add(body.index(self.dims[others[-1]]), body.sub(size, body.const(1, "index"))), size)
                work = body.named(body.mul(body.index(self.length), size).name) * WORK
                group = loop(body.named(groups.name), work)
                self.group(inside, at, others[-1], group, size, together)

    def together(self, b: Builder, lines: Affine) -> Value:
        """Whether lines are sorted side by side, as many as vectors have lanes: short ones, where there are enough."""
        short = b.op("le", b.index(self.length), b.const(LONGEST, "index"))
        return b.op("and", short, b.op("ge", b.index(lines), b.const(self.lanes // 2, "index")))

    def group(self, b: Builder, at: list[Affine], beside: int, number: Value, size: Value, together: Value) -> None:
        """So many lines along a dimension: together, or one after the other where they aren't sorted so."""
        first = b.mul(number, size)
        lines = b.op("min", size, b.sub(b.index(self.dims[beside]), first))
        at[beside] = Affine.of(first.name)
        start = [Affine() if number == self.axis else form for number, form in enumerate(at)]
        with b.branch(together, [Tile("i1")]) as (then, otherwise, done):
            op = LinesSort(
                keys=self.views[0],
                lines=lines,
                count=then.index(self.length),
                index=tuple(start),
                axis=self.axis,
                beside=beside,
                dtype=self.dtype,
                descending=self.descending,
            )
            then.yield_(then.emit(op).result)
            otherwise.yield_(otherwise.const(False, "i1"))
        behind = b.add(first, lines)
        with b.when(b.op("not", done.results[0])) as c, c.loop(self.owner.fresh("line"), first.name, behind.name) as (d, line):
            at[beside] = Affine.of(line.variable.name)
            self.keys_alone(d, at)

    def place(self, at: list[Affine], index: Value) -> list[Affine]:
        return [Affine.of(index.name) if number == self.axis else form for number, form in enumerate(at)]

    def keys_alone(self, b: Builder, at: list[Affine]) -> None:
        (view,) = self.views
        room = Mem(self.keys.dtype, (self.length,), space=Space.LOCAL)
        spare = b.alloc(room)
        if self.is_contiguous:
            first = [Affine() if number == self.axis else form for number, form in enumerate(at)]
            self.sorted_in(b, view, first, spare)
            return
        line = b.alloc(room)
        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            c.store(line, c.load(view, self.place(at, i.variable)), [i.variable.name])
        self.sorted_in(b, line, [Affine()], spare)
        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            c.store(view, c.load(line, [i.variable.name]), self.place(at, i.variable))

    def sorted_in(self, b: Builder, line: Value, first: list[Affine], spare: Value) -> None:
        """The keys of a memory from a place on, in order."""

        def sort(c: Builder, count: Value) -> None:
            c.emit(LineSort(keys=line, spare=spare, count=count, index=tuple(first), dtype=self.dtype, descending=self.descending))

        if not is_float(self.dtype):
            sort(b, b.index(self.length))
            return
        mask, infinite = (b.const(number, self.keys.dtype) for number in bits_of(self.dtype))
        aside = _Aside(self.owner, line, first, self.length, mask, infinite)
        with b.branch(aside.needed(b)) as (odd, plain, _):
            sort(plain, plain.index(self.length))
            kept, negatives = aside.take(odd)
            sort(odd, kept)
            aside.put_back(odd, kept, odd.sub(kept, negatives) if self.descending else negatives)


class _Aside:
    """NaNs and zeros of a line of floats, which keep their order: they are put aside, and put back where they belong among the others."""

    def __init__(self, owner: FunctionBuilder, line: Value, first: list[Affine], length: Affine, mask: Value, infinite: Value) -> None:
        self.owner, self.line, self.first, self.length, self.mask, self.infinite = owner, line, first, length, mask, infinite

    def at(self, index: Affine) -> list[Affine]:
        return [*self.first[:-1], index]

    def is_nan(self, b: Builder, bits: Value) -> Value:
        return b.op("gt", b.op("and", bits, self.mask), self.infinite)

    def is_negative(self, b: Builder, bits: Value) -> Value:
        return b.op("gt", bits, self.mask)

    def needed(self, b: Builder) -> Value:
        """Whether there is any NaN, or a zero of another sign than the usual one."""
        with b.loop(self.owner.fresh("i"), 0, self.length, carried=[b.const(False, "i1")]) as (c, i):
            bits = c.load(self.line, self.at(Affine.of(i.variable.name)))
            minus_zero = c.op("eq", bits, c.op("add", self.mask, c.const(1, dtype_of(self.mask))))
            c.yield_(c.op("or", i.carried[0], c.op("or", self.is_nan(c, bits), minus_zero)))
        return i.results[0]

    def take(self, b: Builder) -> tuple[Value, Value]:
        """How many others there are, which now stand first, and how many of them are negative."""
        dtype, one = dtype_of(self.mask), b.const(1, "index")
        self.held = b.alloc(Mem(dtype, (self.length,), space=Space.LOCAL))
        kept, negatives, zeros, nans = (b.slot(b.const(0, "index")) for _ in range(4))

        def count(c: Builder, slot: Value) -> None:
            c.set(slot, c.add(c.get(slot), one))

        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            bits = c.load(self.line, self.at(Affine.of(i.variable.name)))
            is_zero = c.op("eq", c.op("and", bits, self.mask), c.const(0, dtype))
            with c.branch(self.is_nan(c, bits)) as (nan, number, _):
                nan.store(self.held, bits, [self.length - 1 - Affine.of(nan.get(nans).name)])
                count(nan, nans)
                with number.branch(is_zero) as (zero, other, _):
                    zero.store(self.held, bits, [zero.get(zeros).name])
                    count(zero, zeros)
                    other.store(self.line, bits, self.at(Affine.of(other.get(kept).name)))
                    count(other, kept)
                    with other.when(self.is_negative(other, bits)) as below:
                        count(below, negatives)
        self.zeros, self.nans = b.named(b.get(zeros).name), b.named(b.get(nans).name)
        return b.get(kept), b.get(negatives)

    def put_back(self, b: Builder, kept: Value, place: Value) -> None:
        """The zeros from a place on, NaNs last."""
        start, end = Affine.of(place.name), Affine.of(kept.name)
        with b.loop(self.owner.fresh("i"), end - 1, start - 1, step=-1) as (c, i):
            at = Affine.of(i.variable.name)
            c.store(self.line, c.load(self.line, self.at(at)), self.at(at + self.zeros))
        with b.loop(self.owner.fresh("i"), 0, self.zeros) as (c, i):
            at = Affine.of(i.variable.name)
            c.store(self.line, c.load(self.held, [at]), self.at(at + start))
        with b.loop(self.owner.fresh("i"), 0, self.nans) as (c, i):
            at = Affine.of(i.variable.name)
            c.store(self.line, c.load(self.held, [self.length - 1 - at]), self.at(at + end + self.zeros))
