"""`--sanitize`: functions of form C, run so that every access to memory that threads share is watched, and all that is found is
collected. What goes wrong does no harm: a read outside gives 0, a write outside is dropped, and the thread goes on."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import Factory

from compiler.emulator.findings import Finding, Findings, outside, thread_words
from compiler.emulator.threads import Thread
from compiler.emulator.translate import axes_of
from compiler.emulator.translate_threads import ThreadTranslator, late_copy
from compiler.emulator.watch import Shadow, Watched
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.clone import rebuilt
from compiler.hir.gpu import Atomic, DynamicShared, SharedAlloc
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import FaultSite, HirFunction, HirModule
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.hir.words import WORD, LoadWords, StoreWords
from runtime.records import define

Array = np.ndarray[Any, Any]


@define(eq=False)
class Watch:
    """What the launches of a program find. `blank`: the identities of arrays that hold nothing until a thread writes them, with what
    has been written so far."""

    findings: Findings = Factory(lambda: Findings(collecting=True))
    blank: dict[int, set[Any]] = Factory(dict)

    @property
    def translator(self) -> type[ThreadTranslator]:
        return WatchedTranslator

    def memories(self, function: HirFunction, prepared: Sequence[Any], given: Sequence[Any]) -> dict[int, Watched]:
        """The memories that a launch is given, each with a new shadow: launches come one after another."""
        out: dict[int, Watched] = {}
        for parameter, array, original in zip(function.parameters, prepared, given, strict=True):
            if isinstance(parameter.type, Mem) and id(array) not in out:
                shadow = Shadow(parameter.name, False, self.findings, self.blank.get(id(original)))
                out[id(array)] = Watched(shadow, array.shape)
        return out


class WatchedTranslator(ThreadTranslator):
    """Tells every access to shared and global memory before it happens, and keeps those outside from happening. A memory `name` is
    watched by `name_w`."""

    def __init__(self, function: HirFunction, module: HirModule | None = None, generator: bool = True) -> None:
        super().__init__(function, module, generator)
        self.watched: set[str] = set()
        """Names of memories that several threads see."""
        changed = {value.name for top in function.body.body for op in top.walk() for value in _changed(op)}
        self.unchanged = {p.name for p in function.parameters} - changed
        self.constants.update(leave=_leave, failed=_failed, tell_tile=_tile, tell_copy=_copy, tell_words=_words)

    def memory(self, name: str, type_: Mem, indent: int) -> None:
        super().memory(name, type_, indent)
        value = next(value for value, bound in self.names.items() if bound == name)
        if self.generator and any(value == parameter.name for parameter in self.function.parameters):
            self.write(indent, f"{name}_w = thread.watched({name})")
            if value in self.unchanged:  # nothing can go wrong with what is only read, if there was something to read
                self.write(indent, f"if {name}_w.shadow.filled is None: {name}_w = None")
            self.watched.add(value)

    def other(self, op: Instruction, indent: int) -> None:
        match op:
            case DynamicShared():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                text = f"thread.block.dynamic_shared({self.constant(op)}, {self.affine(op.offset)}, ({dims}))"
                self.write(indent, f"{name}, {name}_w = {text}")
                self.memory(name, op.type, indent)
                self.watched.add(op.result.name)
            case SharedAlloc():
                super().other(op, indent)
                self.tracked.discard(op.result.name)
                self.watched.add(op.result.name)
            case _:
                super().other(op, indent)

    def statement(self, op: Instruction, indent: int) -> None:
        if isinstance(op, Check) and op.code == "0801" and self.generator and not axes_of(op.condition.type):
            values = "".join(self.of(v) + ", " for v in op.values)
            site = self.constant(self.function.sites[op.site])
            self.write(indent, f"if not {self.of(op.condition)}: failed(thread, {self.site(op)}, {site}, ({values}))")
        else:
            super().statement(op, indent)

    # ---- accesses ----

    def load(self, op: Load, indent: int) -> None:
        axes = axes_of(op.result.type)
        if not self.generator:
            super().load(op, indent)
        elif axes:
            super().load(_where(op, self.tile(op, "read", axes, indent)), indent)
        elif op.pad is not None:
            place, inside = self.place(op.index, self.of(op.mem), indent)
            self.tell_if(inside if op.where is None else f"{self.of(op.where)} and {inside}", "read", op, place, "", indent)
            super().load(op, indent)
        else:
            self.start("read", op, op.where, "", indent)
            super().load(op, indent + 1)
            self.write(indent, f"else: {self.of(op.result)} = {'0.0' if is_float(mem_of(op.mem).dtype) else '0'}")

    def store(self, op: Store, indent: int) -> None:
        where = axes_of(op.where.type) if op.where is not None else ()
        axes = tuple(dict.fromkeys((*self.varies(*op.index), *axes_of(op.value.type), *where)))
        if not self.generator:
            super().store(op, indent)
        elif axes:
            super().store(_where(op, self.tile(op, "write", axes, indent)), indent)
        else:
            self.start("write", op, op.where, f", {self.of(op.value)}", indent)
            super().store(op, indent + 1)

    def atomic(self, op: Atomic, indent: int) -> None:
        if not self.generator:
            super().atomic(op, indent)
            return
        self.start("atomic", op, None, "", indent)
        super().atomic(op, indent + 1)
        self.write(indent, f"else: {self.of(op.result)} = {'0.0' if is_float(mem_of(op.mem).dtype) else '0'}")

    def start(self, kind: str, op: Load | Store | Atomic, where: Value | None, value: str, indent: int) -> None:
        """An `if` that holds for the access at one element when it is inside; there it is told."""
        place, inside = self.place(op.index, self.of(op.mem), indent)
        wanted = f"{self.of(where)} and " if where is not None else ""
        shape = f"{self.of(op.mem)}.shape"
        self.write(indent, f"if {wanted}not ({inside}): leave(thread, {op.mem.name!r}, ({place}), {shape}, {self.site(op)}, {kind!r})")
        self.tell_if(f"{wanted}{inside}", kind, op, place, value, indent)

    def tell_if(self, condition: str, kind: str, op: Load | Store | Atomic, place: str, value: str, indent: int) -> None:
        self.write(indent, f"if {condition}:")
        watch = f"{self.of(op.mem)}_w"
        text = f"{watch}.{kind}(({place}), {self.site(op)}, thread.clock{value})" if op.mem.name in self.watched else "pass"
        self.write(indent + 1, f"if {watch} is not None: {text}" if op.mem.name in self.unchanged else text)

    def tile(self, op: Load | Store, kind: str, names: tuple[str, ...], indent: int) -> Value:
        """The elements of the tile that are inside, as a value; they are told."""
        extents = {axis: extent for axis, extent in self.extents(op) if axis in names}
        inside = Value(f"inside of {len(self.names)}", Tile("i1", tuple(extents.items())))
        axes = axes_of(inside.type)  # in the type's own order
        name = self.bind(inside)
        index = "".join(self.affine(form, axes) + ", " for form in op.index)
        wanted = "None" if op.where is None else self.see(op.where, axes)
        value = self.see(op.value, axes) if isinstance(op, Store) else "None"
        padded = isinstance(op, Load) and op.pad is not None
        watch = f"{self.of(op.mem)}_w" if op.mem.name in self.watched else "None"
        memory, shape = f"{op.mem.name!r}, {self.of(op.mem)}.shape", self.shape(inside.type)
        text = f"tell_tile(thread, {watch}, {memory}, ({index}), {wanted}, {shape}, {self.site(op)}, {kind!r}, {padded}, {value})"
        self.write(indent, f"{name} = {text}")
        return inside

    def extents(self, op: Load | Store) -> Iterator[tuple[str, Affine]]:
        """All axes of the instruction with their extents."""
        for value in (*op.operand_values, *op.results):
            yield from getattr(value.type, "axes", ())
        for name in op.symbols:
            if name in self.types:
                yield from getattr(self.types[name], "axes", ())
        yield from self.function.axes.items()

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        to = "".join(self.affine(form) + ", " for form in op.destination_index)
        source = "".join(self.affine(form) + ", " for form in op.source_index)
        where = "True" if op.where is None else self.of(op.where)
        ends = f"{self.of(op.destination)}, ({to}), {self.of(op.source)}, ({source}), {count}, {where}"
        watches = ", ".join(f"{self.of(v)}_w" if v.name in self.watched else "None" for v in (op.destination, op.source))
        self.write(indent, f"tell_copy(thread, {self.site(op)}, {watches}, {ends})")

    def load_words(self, op: LoadWords, valid: str, indent: int) -> None:
        super().load_words(op, self.told_words(op, op.count, valid, "read"), indent)

    def store_words(self, op: StoreWords, indent: int) -> None:
        super().store_words(op, indent)
        self.write(indent, self.told_words(op, len(op.values), "None", "write"))

    def told_words(self, op: LoadWords | StoreWords, count: int, valid: str, kind: str) -> str:
        watch = f"{self.of(op.mem)}_w" if op.mem.name in self.watched else "None"
        elements = WORD * count // bytes_of(mem_of(op.mem).dtype)
        return f"tell_words(thread, {self.site(op)}, {watch}, {self.of(op.mem)}, {self.place_of(op)}, {elements}, {valid}, {kind!r})"


_A = TypeVar("_A", Load, Store)


def _where(op: _A, where: Value) -> _A:
    """The access, only where a condition holds."""
    made = rebuilt(op, lambda value: value, where=where)
    made.results = op.results
    assert isinstance(made, type(op))
    return made


def _changed(op: Instruction) -> Iterator[Value]:
    """Memories that the instruction may change: all that it is given, unless it only reads."""
    if op.effects is not Effect.PURE and not isinstance(op, Load):
        yield from (value for value in op.operand_values if isinstance(value.type, Mem))


# ---- what the written source calls -------------------------------------------------------------------------------------


def _leave(thread: Thread, name: str, index: tuple[int, ...], shape: tuple[int, ...], op: Instruction, kind: str) -> None:
    """An access outside that no check has told."""
    told = op.span is not None and any(s is not None and op.span.start <= s.start and s.end <= op.span.end for s in thread.failed)
    if not told:
        thread.block.run.findings.add(outside(name, tuple(map(int, index)), shape, op, thread.clock, kind))


def _failed(thread: Thread, op: Check, site: FaultSite, values: tuple[Any, ...]) -> None:
    """A check that fails: told once for each place, and the thread goes on."""
    label = site.label.format(*values)
    found = Finding(
        site.code,
        site.message.format(*values),
        op,
        f"{label}; {thread_words(thread.clock)}" if label else f"in {thread_words(thread.clock)}",
        hint=site.hint,
        span=site.span,
        more="threads or elements",
    )
    thread.failed.add(site.span)
    thread.block.run.findings.add(found)


def _tile(
    thread: Thread,
    watch: Watched | None,
    name: str,
    shape: tuple[int, ...],
    index: tuple[Any, ...],
    where: Any,
    extents: tuple[int, ...],
    op: Instruction,
    kind: str,
    padded: bool,
    value: Any,
) -> Array:
    """Which elements of a tile lie inside, of those that `where` wants; each is told."""
    wanted = np.ones(extents, np.bool_) if where is None else np.broadcast_to(where, extents)
    places = [np.broadcast_to(part, extents) for part in index]
    inside = wanted.copy()
    for part, extent in zip(places, shape, strict=True):
        inside &= (part >= 0) & (part < extent)
    beyond = wanted & ~inside
    if not padded and beyond.any():
        first = tuple(np.argwhere(beyond)[0])
        _leave(thread, name, tuple(int(part[first]) for part in places), shape, op, kind)
    if watch is not None:
        values = np.broadcast_to(value, extents)[inside].tolist() if kind == "write" else itertools.repeat(None)
        for cell, one in zip(zip(*(part[inside].tolist() for part in places), strict=True), values, strict=False):
            if kind == "write":
                watch.write(cell, op, thread.clock, one)
            else:
                watch.read(cell, op, thread.clock)
    return inside


def _words(
    thread: Thread,
    op: LoadWords | StoreWords,
    watch: Watched | None,
    memory: Array,
    index: tuple[int, ...],
    elements: int,
    valid: int | None,
    kind: str,
) -> int:
    """How many of the wanted elements lie inside; each is told."""
    wanted = elements if valid is None else max(0, min(elements, valid))
    if not wanted:
        return 0
    starts = all(0 <= part < extent for part, extent in zip(index, memory.shape, strict=True))
    inside = min(wanted, memory.shape[-1] - index[-1]) if starts else 0
    if inside < wanted:
        _leave(thread, op.mem.name, (*index[:-1], index[-1] + inside), memory.shape, op, kind)
    for number in range(inside if watch is not None else 0):
        place = (*index[:-1], index[-1] + number)
        assert watch is not None
        if kind == "write":
            watch.write(place, op, thread.clock, memory[place])
        else:
            watch.read(place, op, thread.clock)
    return inside


def _copy(
    thread: Thread,
    op: AsyncCopy,
    to_watch: Watched | None,
    source_watch: Watched | None,
    to: Array,
    to_index: tuple[int, ...],
    source: Array,
    source_index: tuple[int, ...],
    count: int,
    where: bool,
) -> None:
    """An asynchronous copy: its source is read now; its destination is written until the thread has waited."""
    ends = [(to, to_index, op.destination, "write"), *([(source, source_index, op.source, "read")] if where else [])]
    for memory, index, value, kind in ends:
        for place in (index, (*index[:-1], index[-1] + count - 1)):
            if not all(0 <= part < extent for part, extent in zip(place, memory.shape, strict=True)):
                _leave(thread, value.name, place, memory.shape, op, kind)
                return
    if where and source_watch is not None:
        for number in range(count):
            source_watch.read((*source_index[:-1], source_index[-1] + number), op, thread.clock)
    under_way = None
    if to_watch is not None:
        places = ((*to_index[:-1], to_index[-1] + number) for number in range(count))
        under_way = to_watch.copy(places, op, thread.clock)
    thread.copy(late_copy(to, to_index, source, source_index, count, where), under_way)
