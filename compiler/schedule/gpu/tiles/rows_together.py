"""Rows of results that a thread has whole: `out[i, 0..9]`, stored element by element, would leave parts of sectors to the second cache. A
block puts its rows side by side in shared memory and stores them in the order of memory.

    store %out[i, 0], %a ... store %out[i, 8], %i
    =>  store %rows[t, 0], %a ...   sync_threads   store %out[128*block+f/9, f%9], %rows[f/9, f%9] for f in t, t+128, ..."""

from collections.abc import Sequence
from math import prod

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.build import Builder
from compiler.hir.control import If
from compiler.hir.core import Binary, Cast, Const, Index
from compiler.hir.gpu import GridIndex, SharedAlloc, SyncThreads
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Space, bytes_of
from compiler.passes.rewrite import Rebuild
from compiler.schedule.gpu.facts import ALIGNMENT
from compiler.schedule.gpu.nests.nest_units import BESIDE
from compiler.schedule.launches import Launch
from runtime.records import define, evolve, field

MOST_BYTES = 32 * 1024
"""Of the rows of a block, all results together."""

MOST_ELEMENTS = 64
"""Of a row: each is an access of its own."""


def rows_together(launch: Launch) -> Launch:
    """The launch with such rows stored by all threads of a block; itself where it has none."""
    rows = _rows_of(launch)
    return launch if not rows else evolve(launch, function=_Together(launch.function, rows, launch.block[0]).run())


def _rows_of(launch: Launch) -> dict[Value, list[Store]]:
    """The memories of which each thread stores one row, with the stores."""
    function, block = launch.function, launch.block
    top = function.body.body
    inner = top[-1] if top and isinstance(top[-1], If) else None
    if block[1:] != (1, 1) or (inner is not None and (inner.otherwise is not None or inner.results)):
        return {}
    ops = [*top[:-1], *inner.then.body] if inner is not None else top
    if any(not (op.effects is Effect.PURE or isinstance(op, Load | Store)) or op.regions for op in ops):
        return {}
    defined = {result.name: result for op in ops for result in op.results}
    thread = Affine.of("thread") + Affine.of("block") * block[0]
    stores: dict[Value, list[Store]] = {}
    for op in ops:
        if isinstance(op, Store):
            stores.setdefault(op.mem, []).append(op)
    read = {op.mem for op in ops if isinstance(op, Load)}
    found: dict[Value, list[Store]] = {}
    left = MOST_BYTES
    for mem, group in stores.items():
        type, width = mem_of(mem), len(group)
        size = bytes_of(type.dtype)
        if mem in read or type.strides is not None or not _is_a_row(group) or not width * size > ALIGNMENT or width > MOST_ELEMENTS:
            continue
        bytes_ = block[0] * _padded(mem, width) * size
        if bytes_ <= left and size >= 4 and _place(group[0].index[0], defined) == thread:
            found[mem], left = group, left - bytes_
    return found


def _lanes(mem: Value) -> int:
    """Elements that are stored at once."""
    type = mem_of(mem)
    lanes = ALIGNMENT // bytes_of(type.dtype)
    return lanes if type.align % ALIGNMENT == 0 and (type.dims[-1].value or 1) % lanes == 0 else 1


def _padded(mem: Value, width: int) -> int:
    """Elements between rows in shared memory, so that threads write to different banks."""
    return width | 1 if _lanes(mem) == 1 else width + _lanes(mem)


def _is_a_row(stores: Sequence[Store]) -> bool:
    """Whether the stores are those of all elements of one row, each once."""
    first = stores[0].index[0]
    dims = [dim.value for dim in mem_of(stores[0].mem).dims[1:]]
    if not dims or any(dim is None for dim in dims) or any(op.where is not None or op.index[0] != first for op in stores):
        return False
    columns = {tuple(form.value for form in op.index[1:]) for op in stores}
    return len(columns) == len(stores) == prod(dim or 0 for dim in dims) and all(None not in column for column in columns)


def _place(form: Affine, defined: dict[str, Value]) -> Affine | None:
    """A form over the thread's and the block's number, where it is one; the last row where threads past it have that, too."""
    total = Affine((), form.constant)
    for symbol, coefficient in form.terms:
        part = _place_of(defined[symbol], defined) if isinstance(symbol, str) and symbol in defined else None
        if part is None:
            return None
        total = total + part * coefficient
    return total


def _place_of(value: Value, defined: dict[str, Value]) -> Affine | None:
    match value.source:
        case GridIndex(operator="thread_idx" | "block_idx" as operator, dim="x"):
            return Affine.of(operator.removesuffix("_idx"))
        case Index(of=form):
            return _place(form, defined)
        case Cast(value=inner, to="u32" | "index" | "i64"):
            return _place_of(inner, defined)
        case Const(value=number):
            return Affine((), int(number))
        case Binary(operator="min", left=left, right=Value(source=Const())):
            return _place_of(left, defined)
        case Binary(operator="add" | "mul" as operator, left=left, right=right):
            a, b = _place_of(left, defined), _place_of(right, defined)
            if a is None or b is None:
                return None
            if operator == "add":
                return a + b
            return b * a.value if a.value is not None else a * b.value if b.value is not None else None
        case _:
            return None


@define(eq=False)
class _Together(Rebuild):
    rows: dict[Value, list[Store]] = field(factory=dict)
    threads: int = 0
    memories: dict[Value, Value] = field(factory=dict, init=False)
    thread: list[Value] = field(factory=list, init=False)

    def region(self, region: object, into: Builder) -> None:
        first = not self.memories
        if first:
            for mem, stores in self.rows.items():
                type = Mem(mem_of(mem).dtype, (self.threads, _padded(mem, len(stores))), space=Space.SHARED, align=ALIGNMENT)
                self.memories[mem] = into.emit(SharedAlloc(type=type), "rows").result
            self.thread = [into.emit(GridIndex(operator=f"{name}_idx", dim="x")).result for name in ("thread", "block")]
        super().region(region, into)  # type: ignore[arg-type]
        if first:
            into.emit(SyncThreads())
            for mem, stores in self.rows.items():
                self.store_rows(mem, len(stores), into)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, Store) and op.mem in self.memories:
            into.store(self.memories[op.mem], self.values[op.value], [self.thread[0].name, self.column(op)])
            return []
        return self.copy(op, into)

    def column(self, op: Store) -> int:
        column = 0
        for form, dim in zip(op.index[1:], mem_of(op.mem).dims[1:], strict=True):
            column = column * (dim.value or 0) + (form.value or 0)
        return column

    def store_rows(self, mem: Value, width: int, b: Builder) -> None:
        """Each thread's share of the block's rows: neighbouring threads have neighbouring elements."""
        thread, block = self.thread
        target = self.values[mem]
        type, lanes = mem_of(target), _lanes(mem)
        beside = Affine.of(self.owner.axis(BESIDE, lanes)) if lanes > 1 else Affine()
        *outer, last = (dim.value or 1 for dim in type.dims[1:])
        number, across = b.cast(thread, "u32"), b.const(width // lanes, "u32")
        for turn in range(width // lanes):
            place = b.op("add", number, b.const(turn * self.threads, "u32"))
            row, rest = b.cast(b.op("div", place, across), "index"), b.op("rem", place, across)
            column = b.cast(rest, "index")
            digits: list[AffineLike] = []
            for extent in (last // lanes, *reversed(outer[1:])) if outer else ():
                digits.insert(0, b.cast(b.op("rem", rest, b.const(extent, "u32")), "index").name)
                rest = b.op("div", rest, b.const(extent, "u32"))
            digits.insert(0, b.cast(rest, "index").name)
            digits[-1] = Affine.of(digits[-1]) * lanes + beside
            position = b.index(Affine.of(row.name) + Affine.of(block.name) * self.threads)
            inside = b.inbounds(position.name, type.dims[0])
            value = b.load(self.memories[mem], [row.name, Affine.of(column.name) * lanes + beside], inside)
            b.store(target, value, [position.name, *digits], inside)
