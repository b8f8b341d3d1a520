"""`--sanitize`: functions of form C, run so that every access to memory that threads share is watched, and all that is found is
collected. What goes wrong does no harm: a read outside gives 0, a write outside is dropped, and the thread goes on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from compiler.emulator.block import EmulatedLaunch, Lanes, SegmentedKernel
from compiler.emulator.clocks import TimedAccess
from compiler.emulator.fault import ThreadFinding
from compiler.emulator.findings import ThreadFindings, outside, thread_words
from compiler.emulator.lane_memory import each, late_copies
from compiler.emulator.screen import Elements, Order, Screened, Unsure
from compiler.emulator.segments import SegmentTranslator, kernel_of
from compiler.emulator.tile_memory import carried
from compiler.emulator.translate_threads import LANES
from compiler.emulator.warpgroups import settled_sums
from compiler.emulator.watch import Shadow, Watched
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.clone import rebuilt
from compiler.hir.gpu import Atomic, DynamicShared, SharedAlloc
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import FaultSite, HirFunction, HirModule
from compiler.hir.types import Mem, Tile, bytes_of
from compiler.hir.words import WORD, LoadWords, StoreWords
from runtime.records import Factory, define

Array = np.ndarray[Any, Any]


@define(eq=False)
class Watch:
    """What the launches of a program find. `blank`: the identities of arrays that hold nothing until a thread writes them, with which
    elements have been written so far."""

    findings: ThreadFindings = Factory(lambda: ThreadFindings(collecting=True))
    blank: dict[int, Array] = Factory(dict)

    def memories(
        self, function: HirFunction, prepared: Sequence[Any], given: Sequence[Any], order: Order | None
    ) -> dict[int, Watched | Screened]:
        """The memories that a launch is given, of whose elements nobody has touched any: launches come one after another."""
        out: dict[int, Watched | Screened] = {}
        for parameter, array, original in zip(function.parameters, prepared, given, strict=True):
            if isinstance(parameter.type, Mem) and id(array) not in out:
                written = self.blank.get(id(original))
                if order is None:
                    out[id(array)] = Watched(Shadow(parameter.name, False, self.findings, written), array.shape)
                else:
                    filled = written.reshape(-1).copy() if written is not None else None
                    out[id(array)] = Screened(Elements(order, array.size, filled, False), array.shape, left=written)
        return out

    def kernel(self, function: HirFunction, module: HirModule | None, arguments: list[Any], launch: EmulatedLaunch) -> SegmentedKernel:
        return kernel_of(WatchedTranslator(function, module), arguments, launch, ENVIRONMENT)


class WatchedTranslator(SegmentTranslator):
    """Tells every access to shared and global memory, and keeps those outside from happening."""

    own_loads = True

    def __init__(self, function: HirFunction, module: HirModule | None = None) -> None:
        super().__init__(function, module)
        self.followed = {p.name for p in function.parameters if isinstance(p.type, Mem)}
        """Names of memories that several threads see."""
        changed = {value.name for top in function.body.body for op in top.walk() for value in _changed(op)}
        self.unchanged = {p.name for p in function.parameters} - changed

    def derived(self, text: str, names: Iterable[str], run: str) -> list[str]:
        lines = super().derived(text, names, run)
        for parameter in self.function.parameters:
            watch = f"{self.names[parameter.name]}_w"
            if parameter.name in self.unchanged and any(watch in line for line in lines):
                # nothing can go wrong with what is only read, if there was something to read
                lines.append(f" if {watch}.given: {watch} = None")
        return lines

    def of(self, value: Value) -> str:
        return f"settled_sums(g, {self.name(value)})" if value.name in self.varying.late else self.name(value)

    def shared(self, op: SharedAlloc | DynamicShared, indent: int) -> None:
        super().shared(op, indent)
        self.watched.discard(op.result.name)
        self.followed.add(op.result.name)

    dynamic = "dynamic_shared"

    def statement(self, op: Instruction, indent: int) -> None:
        if isinstance(op, Check) and op.code == "0801":
            values = "".join(self.of(v) + ", " for v in op.values)
            site = self.constant(self.function.sites[op.site])
            if set(self.axes(op.condition)) <= {LANES}:
                self.write(indent, f"failed(g, {self.site(op)}, {site}, {self.of(op.condition)}, ({values}))")
                return
        super().statement(op, indent)

    # ---- accesses ----

    def watch_of(self, mem: Value) -> str:
        return f"{self.name(mem)}_w" if mem.name in self.followed else "None"

    def load(self, op: Load, indent: int) -> None:
        super().load(_where(op, self.inside(op, "read", op.where, self.axes(op.result), indent)), indent)

    def store(self, op: Store, indent: int) -> None:
        super().store(_where(op, self.inside(op, "write", op.where, self.store_axes(op), indent)), indent)

    def atomic(self, op: Atomic, indent: int, where: str = "True") -> None:
        super().atomic(op, indent, self.name(self.inside(op, "atomic", None, (LANES,), indent)))

    def inside(self, op: Load | Store | Atomic, kind: str, where: Value | None, names: tuple[str, ...], indent: int) -> Value:
        """The elements that are inside, of those wanted, as a value; they are told."""
        extents = {axis: extent for axis, extent in self.extents(op) if axis in names and axis != LANES}
        inside = Value(f"!inside {len(self.names)}", Tile("i1", tuple(extents.items())))
        self.varying.names.add(inside.name)
        axes = self.axes(inside)  # in the type's own order
        name = self.bind(inside)
        index = "".join(self.affine(form, axes) + ", " for form in op.index)
        wanted = "None" if where is None else self.see(where, axes)
        value = self.see(op.value, axes) if isinstance(op, Store) else "None"
        padded = isinstance(op, Load) and (op.pad is not None or op.align is not None)
        shape = f"{self.of(op.mem)}.shape{'[1:]' if op.mem.name in self.private else ''}"
        given = f"{self.watch_of(op.mem)}, {op.mem.name!r}, {shape}, ({index}), {wanted}, {self.shape(inside)}"
        self.write(indent, f"{name} = accessed(g, {given}, {self.site(op)}, {kind!r}, {padded}, {value})")
        return inside

    def extents(self, op: Load | Store | Atomic) -> Iterator[tuple[str, Affine]]:
        """All axes of the instruction with their extents."""
        for value in (*op.operand_values, *op.results):
            yield from getattr(value.type, "axes", ())
        for name in op.symbols:
            if name in self.types:
                yield from getattr(self.types[name], "axes", ())
        yield from self.function.axes.items()

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        ends = f"{self.of(op.destination)}, {self.indices(op.destination_index)}, {self.of(op.source)}, {self.indices(op.source_index)}"
        where = "True" if op.where is None else self.of(op.where)
        watches = f"{self.watch_of(op.destination)}, {self.watch_of(op.source)}"
        self.write(indent, f"tell_copy(g, {self.site(op)}, {watches}, {ends}, {count}, {where})")

    def load_words(self, op: LoadWords, valid: str, indent: int) -> None:
        super().load_words(op, self.told_words(op, op.count, valid, "read"), indent)

    def store_words(self, op: StoreWords, indent: int) -> None:
        super().store_words(op, indent)
        self.write(indent, self.told_words(op, len(op.values), "None", "write"))

    def told_words(self, op: LoadWords | StoreWords, count: int, valid: str, kind: str) -> str:
        elements = WORD * count // bytes_of(mem_of(op.mem).dtype)
        given = f"{self.watch_of(op.mem)}, {self.of(op.mem)}, {self.indices(op.index)}, {elements}, {valid}, {kind!r}"
        return f"tell_words(g, {self.site(op)}, {given})"


_A = TypeVar("_A", Load, Store)


def _where(op: _A, where: Value) -> _A:
    """The access, only where a condition holds."""
    access = rebuilt(op, lambda value: value, where=where)
    access.results = op.results
    assert isinstance(access, type(op))
    return access


def _changed(op: Instruction) -> Iterator[Value]:
    """Memories that the instruction may change: all that it is given, unless it only reads."""
    if op.effects is not Effect.PURE and not isinstance(op, Load):
        yield from (value for value in op.operand_values if isinstance(value.type, Mem))


# ---- what the written source calls -------------------------------------------------------------------------------------


def _leave(lanes: Lanes, number: int, name: str, index: tuple[int, ...], shape: tuple[int, ...], op: Instruction, kind: str) -> None:
    """An access outside that no check has told."""
    block, failed = lanes.block, lanes.block.thread(number).failed
    reported = op.span is not None and any(s is not None and op.span.start <= s.start and s.end <= op.span.end for s in failed)
    if not reported:
        block.run.findings.add(outside(name, index, shape, op, block.clocks[number], kind))


def _failed(lanes: Lanes, op: Check, site: FaultSite, condition: Any, values: tuple[Any, ...]) -> None:
    """A check that fails: told once for each place, and the thread goes on."""
    holds = each(len(lanes), condition)
    if holds.all():
        return
    columns = [each(len(lanes), value).tolist() for value in values]

    def tell(lane: int) -> None:
        if holds[lane]:
            return
        number = int(lanes.numbers[lane])
        words, given = thread_words(lanes.block.clocks[number]), [column[lane] for column in columns]
        label = site.label.format(*given)
        lanes.block.thread(number).failed.add(site.span)
        lanes.block.run.findings.add(
            ThreadFinding(
                site.code,
                site.message.format(*given),
                op,
                f"{label}; {words}" if label else f"in {words}",
                hint=site.hint,
                span=site.span,
                more="threads or elements",
            )
        )

    lanes.block.later(lanes.numbers, tell)


def _accessed(
    lanes: Lanes,
    watch: Watched | Screened | None,
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
    """Which elements lie inside, of those that `where` wants; each is told."""
    wanted = np.ones(extents, np.bool_) if where is None else np.broadcast_to(where, extents)
    index = carried(index, shape) if isinstance(op, Load | Store) and op.align is not None else index
    places = [np.broadcast_to(part, extents) for part in index]
    inside = wanted.copy()
    for part, extent in zip(places, shape, strict=True):
        inside &= (part >= 0) & (part < extent)
    beyond = wanted & ~inside
    if not padded and beyond.any():

        def tell(lane: int) -> None:
            if beyond[lane].any():
                first = (lane, *np.argwhere(beyond[lane])[0])
                _leave(lanes, int(lanes.numbers[lane]), name, tuple(int(part[first]) for part in places), shape, op, kind)

        lanes.block.later(lanes.numbers, tell)
    if watch is not None:
        watch.tell(kind, op, lanes, tuple(places), inside, value)
    return inside


def _words(
    lanes: Lanes,
    op: LoadWords | StoreWords,
    watch: Watched | Screened | None,
    memory: Array,
    index: tuple[Any, ...],
    elements: int,
    valid: Any,
    kind: str,
) -> Array:
    """How many of the wanted elements lie inside; each is told."""
    count = len(lanes)
    wanted = np.full(count, elements) if valid is None else np.clip(each(count, valid), 0, elements)
    parts = [each(count, part) for part in index]
    starts: Any = True
    for part, extent in zip(parts, memory.shape, strict=True):
        starts = starts & (part >= 0) & (part < extent)
    inside = np.where(starts, np.minimum(wanted, memory.shape[-1] - parts[-1]), 0)

    def tell(lane: int) -> None:
        if inside[lane] < wanted[lane]:
            first = (*(int(part[lane]) for part in parts[:-1]), int(parts[-1][lane] + inside[lane]))
            _leave(lanes, int(lanes.numbers[lane]), op.mem.name, first, memory.shape, op, kind)

    if (inside < wanted).any():
        lanes.block.later(lanes.numbers, tell)
    if watch is not None:
        column = np.arange(elements)
        places = _columns(parts, elements)
        safe = tuple(np.clip(part, 0, max(extent - 1, 0)) for part, extent in zip(places, memory.shape, strict=True))
        watch.tell(kind, op, lanes, places, column < inside[:, None], memory[safe] if memory.size else 0)
    return inside


def _copy(
    lanes: Lanes,
    op: AsyncCopy,
    to_watch: Watched | Screened | None,
    source_watch: Watched | Screened | None,
    to: Array,
    to_index: tuple[Any, ...],
    source: Array,
    source_index: tuple[Any, ...],
    count: int,
    where: Any,
) -> None:
    """Asynchronous copies: their sources are read now; their destinations are written until the threads have waited."""
    lanes_count = len(lanes)
    to_parts, source_parts = ([each(lanes_count, part) for part in index] for index in (to_index, source_index))
    taken = each(lanes_count, where).astype(np.bool_)
    dropped = np.zeros(lanes_count, np.bool_)
    for memory, parts, wanted in ((to, to_parts, True), (source, source_parts, taken)):
        for part, extent, last in zip(parts, memory.shape, [*[0] * (memory.ndim - 1), count - 1], strict=True):
            dropped |= wanted & ((part < 0) | (part + last >= extent))

    copied = np.flatnonzero(~dropped)
    ends = to, tuple(part[copied] for part in to_parts), source, tuple(part[copied] for part in source_parts)
    copies = late_copies(len(copied), *ends, count, taken[copied])
    if lanes.block.run.order is not None:
        if dropped.any():
            raise Unsure
        _screened_copy(lanes, op, to_watch, source_watch, _columns(to_parts, count), _columns(source_parts, count), taken, copies)
        return
    under_way: dict[int, TimedAccess] = {}

    def outside_of(number: int, lane: int) -> None:
        ends = [(to, to_parts, op.destination, "write"), *([(source, source_parts, op.source, "read")] if taken[lane] else [])]
        for memory, parts, value, kind in ends:
            first = tuple(int(part[lane]) for part in parts)
            for at in (first, (*first[:-1], first[-1] + count - 1)):
                if not all(0 <= part < extent for part, extent in zip(at, memory.shape, strict=True)):
                    _leave(lanes, number, value.name, at, memory.shape, op, kind)
                    return

    def tell(lane: int) -> None:
        number = int(lanes.numbers[lane])
        if dropped[lane]:
            outside_of(number, lane)
            return
        clock = lanes.block.clocks[number]
        if taken[lane] and isinstance(source_watch, Watched):
            *rows, first_column = (int(part[lane]) for part in source_parts)
            source_watch.read(((*rows, first_column + column) for column in range(count)), op, clock)
        if isinstance(to_watch, Watched):
            first = tuple(int(part[lane]) for part in to_parts)
            under_way[number] = to_watch.copy(((*first[:-1], first[-1] + column) for column in range(count)), op, clock)

    def land(landing: Array) -> None:
        copies(landing)
        landed = lanes.numbers[copied][landing].tolist()
        lanes.block.later(np.array(landed), lambda lane: under_way[landed[lane]].arrive() if landed[lane] in under_way else None)

    lanes.block.later(lanes.numbers, tell)
    lanes.block.copy(lanes.numbers[copied], land)


def _columns(parts: Sequence[Array], count: int) -> tuple[Array, ...]:
    """The indices of so many neighbouring elements of each lane."""
    return (*(part[:, None] for part in parts[:-1]), parts[-1][:, None] + np.arange(count))


def _screened_copy(
    lanes: Lanes,
    op: AsyncCopy,
    to_watch: Watched | Screened | None,
    source_watch: Watched | Screened | None,
    to: tuple[Array, ...],
    source: tuple[Array, ...],
    taken: Array,
    copies: Callable[[Array], None],
) -> None:
    """Asynchronous copies at a first look, of whole indices."""
    if source_watch is not None:
        source_watch.tell("read", op, lanes, source, taken[:, None])
    if to_watch is not None:
        to_watch.tell("copy", op, lanes, to)

    def land(landing: Array) -> None:
        copies(landing)
        if to_watch is not None:
            to_watch.tell("arrive", op, lanes, to, landing[:, None])

    lanes.block.copy(lanes.numbers, land)


ENVIRONMENT: dict[str, Callable[..., Any]] = {
    "accessed": _accessed,
    "failed": _failed,
    "settled_sums": settled_sums,
    "tell_copy": _copy,
    "tell_words": _words,
}
"""What the written source may call besides."""
