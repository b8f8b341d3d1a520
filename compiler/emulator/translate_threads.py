"""Translates functions of form C: what only threads have, beside what `translate.py` writes for all. A thread becomes a Python
generator; where it meets others it yields the instruction and what it brings."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.emulator.clocks import WARP
from compiler.emulator.expressions import binary, decoded, encoded
from compiler.emulator.fault import fault
from compiler.emulator.translate import Translator, axes_of
from compiler.emulator.translate_hopper import CALLS, hopper_statement
from compiler.emulator.words import read_words, write_words
from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.gpu import (
    Atomic,
    ClusterStore,
    ClusterSync,
    DynamicShared,
    Elect,
    Fence,
    FenceAsync,
    GridIndex,
    GridSync,
    Match,
    Redux,
    SharedAlloc,
    Shuffle,
    SyncThreads,
    Uniform,
    Vote,
    WarpIndex,
    WarpSync,
)
from compiler.hir.hopper import BulkStore, WarpgroupMma
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix, WarpMma
from compiler.hir.types import bytes_of
from compiler.hir.words import LoadWords, StoreWords
from runtime.records import define

Array = np.ndarray[Any, Any]


@define(eq=False)
class Meeting:
    """What a thread yields: an instruction at which threads meet, and what it brings."""

    op: Instruction
    values: tuple[Any, ...] = ()


class ThreadTranslator(Translator):
    """Adds to the translation what only threads have. Accesses to a shared memory `name` are told to `name_w`."""

    def __init__(self, function: HirFunction, module: HirModule | None = None, generator: bool = True) -> None:
        super().__init__(function, module, generator)
        self.tracked: set[str] = set()
        self.marked: set[str] = set()
        every = (op for top in function.body.body for op in top.walk())
        self.past_stores = any(isinstance(op, BulkStore | WarpgroupMma) for op in every)
        """Whether something reads shared memory by a way that doesn't see ordinary stores before `fence_async`."""

    def meet(self, op: Instruction, *values: str) -> str:
        return f"(yield Meeting({self.constant(op)}, ({''.join(v + ', ' for v in values)})))"

    def other(self, op: Instruction, indent: int) -> None:
        match op:
            case GridIndex():
                self.result(op, f"thread.position({op.operator!r}, {op.dim!r})", indent)
            case WarpIndex():
                text = {"lane": f"thread.number % {WARP}", "warp": f"thread.number // {WARP}"}
                self.result(op, text.get(op.operator, "thread.block.engines.rank"), indent)
            case Uniform():
                self.result(op, self.of(op.value), indent)
            case ClusterSync(part="arrive"):
                pass
            case ClusterStore():
                self.cluster_store(op, indent)
            case SyncThreads() | ClusterSync() | GridSync():
                self.write(indent, self.meet(op))
            case WarpSync():
                self.write(indent, self.meet(op, *([self.of(op.mask)] if op.mask is not None else [])))
            case Fence():
                self.write(indent, f"thread.clock.fence({op.scope!r})")
            case FenceAsync():
                self.write(indent, "thread.block.engines.fence(thread.clock)")
            case SharedAlloc():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name}, {name}_w = thread.block.shared({self.constant(op)}, ({dims}))")
                self.memory(name, op.type, indent)
                self.tracked.add(op.result.name)
                if self.past_stores:
                    self.marked.add(op.result.name)
                    self.write(indent, f"{name}_u = thread.block.engines.marks({name})")
            case DynamicShared():
                name = self.bind(op.result)
                dims = "".join(f"{self.affine(d)}, " for d in op.type.dims)
                self.write(indent, f"{name} = thread.block.dynamic_view({self.constant(op)}, {self.affine(op.offset)}, ({dims}))")
                self.memory(name, op.type, indent)
            case Atomic():
                self.atomic(op, indent)
            case Shuffle():
                self.result(op, self.meet(op, self.of(op.value), self.of(op.lane)), indent)
            case Vote():
                self.result(op, self.meet(op, self.of(op.predicate)), indent)
            case Match() | Redux():
                self.result(op, self.meet(op, self.of(op.value)), indent)
            case Elect():
                self.result(op, self.meet(op), indent)
            case MmaLoad():
                self.result(op, self.meet(op, self.of(op.mem), self.place_of(op)), indent)
            case Mma():
                self.result(op, self.meet(op, *map(self.of, (op.a, op.b, op.c))), indent)
            case MmaStore():
                self.write(indent, self.meet(op, self.of(op.mem), self.place_of(op), self.of(op.fragment)))
            case LoadMatrix():
                names = "".join(self.bind(r) + ", " for r in op.results)
                self.write(indent, f"{names}= {self.meet(op, self.of(op.mem), self.place_of(op))}")
            case StoreMatrix():
                self.write(indent, self.meet(op, self.of(op.mem), self.place_of(op), *map(self.of, op.values)))
            case WarpMma():
                self.result(op, self.meet(op, self.of(op.accumulator), *map(self.of, op.values)), indent)
            case LoadWords():
                self.load_words(op, "None" if op.valid is None else self.of(op.valid), indent)
            case StoreWords():
                self.store_words(op, indent)
            case AsyncCopy():
                self.copy(op, indent)
            case AsyncCommit():
                self.write(indent, "thread.commit()")
            case AsyncWait():
                self.write(indent, f"thread.wait({op.count})")
            case _ if not hopper_statement(self, op, indent):
                super().other(op, indent)

    def result(self, op: Instruction, text: str, indent: int) -> None:
        self.write(indent, f"{self.bind(op.result)} = {text}")

    def place_of(self, op: ClusterStore | MmaLoad | MmaStore | LoadMatrix | StoreMatrix | LoadWords | StoreWords) -> str:
        return f"({''.join(self.affine(form) + ', ' for form in op.index)})"

    # ---- shared memory ----

    def load(self, op: Load, indent: int) -> None:
        super().load(op, indent)
        if op.mem.name in self.tracked and not self.varies(*op.index) and op.where is None and op.pad is None:
            self.tell("read", op, op.mem, op.index, "", indent)

    def store(self, op: Store, indent: int) -> None:
        tracked = op.mem.name in self.tracked
        tile = bool(self.varies(*op.index) or getattr(op.value.type, "axes", ()))
        if tracked and not tile:
            if op.where is not None:
                self.write(indent, f"if {self.of(op.where)}:")
            self.tell("write", op, op.mem, op.index, f", {self.of(op.value)}", indent + 1 if op.where is not None else indent)
        super().store(op, indent)
        if tracked and tile:
            self.write(indent, f"{self.of(op.mem)}_w.shadow.filled = None")
        if op.mem.name in self.marked:
            self.mark(op, indent)

    def mark(self, op: Store, indent: int) -> None:
        """Who has stored an element, for copies and products that read past stores."""
        number = f"thread.block.engines.mark({self.site(op)}, thread.clock)"
        axes = tuple(dict.fromkeys((*self.varies(*op.index), *axes_of(op.value.type), *(axes_of(op.where.type) if op.where else ()))))
        if axes:
            index = "".join(self.affine(form, axes) + ", " for form in op.index)
            where = self.see(op.where, axes) if op.where is not None else "None"
            self.write(indent, f"tile_store({self.of(op.mem)}_u, 'i32', ({index}), {number}, {where}, {self.site(op)})")
            return
        if op.where is not None:
            self.write(indent, f"if {self.of(op.where)}:")
            indent += 1
        place, _ = self.place(op.index, self.of(op.mem), indent)
        self.write(indent, f"{self.of(op.mem)}_u[{place}] = {number}")

    def cluster_store(self, op: ClusterStore, indent: int) -> None:
        if op.where is not None:
            self.write(indent, f"if {self.of(op.where)}:")
            indent += 1
        place, value = self.place_of(op), encoded(self.of(op.value), mem_of(op.mem).dtype)
        self.write(indent, f"cluster_store({self.site(op)}, thread, {self.of(op.mem)}, {place}, {value}, {self.of(op.rank)})")

    def tell(self, what: str, op: Instruction, mem: Value, index: tuple[Affine, ...], value: str, indent: int) -> None:
        """An access to a shared memory, told to who watches it."""
        place, _ = self.place(index, self.of(mem), indent)
        self.write(indent, f"{self.of(mem)}_w.{what}(({place}), {self.site(op)}, thread.clock{value})")

    def atomic(self, op: Atomic, indent: int) -> None:
        memory, dtype = self.of(op.mem), mem_of(op.mem).dtype
        index, inside = self.place(op.index, memory, indent)
        self.write(indent, f"if not ({inside}): outside({self.site(op)}, ({index}), {memory}.shape)")
        old, value = self.bind(op.result), self.of(op.value)
        self.write(indent, f"{old} = {decoded(f'{memory}_m[{index}]', dtype)}")
        match op.operation:
            case "exchange":
                new = value
            case "cas":
                assert op.compare is not None
                new = f"({value} if {old} == {self.of(op.compare)} else {old})"
            case "inc":
                new = f"(0 if {old} >= {value} else {old} + 1)"
            case "dec":
                new = f"({value} if {old} == 0 or {old} > {value} else {old} - 1)"
            case operator:
                new = binary(operator, dtype, old, value)
        changed = self.temporary()
        self.write(indent, f"{changed} = {new}")
        if op.mem.name in self.tracked:
            self.tell("atomic", op, op.mem, op.index, "", indent)
        self.write(indent, f"{memory}_m[{index}] = {encoded(changed, dtype)}")

    def load_words(self, op: LoadWords, valid: str, indent: int) -> None:
        names = "".join(self.bind(r) + ", " for r in op.results)
        self.write(indent, f"{names}= read_words({self.of(op.mem)}, {self.place_of(op)}, {op.count}, {valid})")

    def store_words(self, op: StoreWords, indent: int) -> None:
        values = "".join(self.of(value) + ", " for value in op.values)
        self.write(indent, f"write_words({self.of(op.mem)}, {self.place_of(op)}, ({values}))")
        if op.mem.name in self.tracked:
            self.write(indent, f"{self.of(op.mem)}_w.shadow.filled = None")

    def copy(self, op: AsyncCopy, indent: int) -> None:
        count = op.bytes // bytes_of(mem_of(op.source).dtype)
        to = "".join(self.affine(form) + ", " for form in op.destination_index)
        source = "".join(self.affine(form) + ", " for form in op.source_index)
        where = "True" if op.where is None else self.of(op.where)
        target = self.of(op.destination)
        self.write(indent, f"thread.copy(late_copy({target}, ({to}), {self.of(op.source)}, ({source}), {count}, {where}))")
        if op.destination.name in self.tracked:
            self.write(indent, f"{target}_w.shadow.filled = None")


def late_copy(
    to: Array, to_index: tuple[int, ...], source: Array, source_index: tuple[int, ...], count: int, where: bool
) -> Callable[[], None]:
    """The copy as an action for later; both ends are contiguous in the last dim."""

    def copy() -> None:
        here = to[to_index[:-1]][to_index[-1] : to_index[-1] + count]
        there: Any = 0
        if where:
            inside = all(0 <= place < extent for place, extent in zip(source_index, source.shape, strict=True))
            there = source[source_index[:-1]][source_index[-1] : source_index[-1] + count] if inside else here[:0]
        if here.shape != (count,) or (where and there.shape != (count,)):
            raise fault(f"a copy of {count} elements from {source_index} to {to_index} leaves its memory")
        here[:] = there

    return copy


ENVIRONMENT: dict[str, Any] = {"Meeting": Meeting, "late_copy": late_copy, "read_words": read_words, "write_words": write_words, **CALLS}
"""What the written source of threads may call besides."""
