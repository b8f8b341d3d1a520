"""Runs kernels with the threads of a block in step (`in_step.py`), which is many times faster than one thread after the other, and means
the same as long as all goes well. Anything else (threads that meet at an element of shared memory, a check that fails, an index outside,
a barrier that some miss) is `NotInStep`: the memories are as before, and `threads.py` runs the kernel and tells what is wrong."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import Factory

from compiler.diagnostics import ZyntaxError
from compiler.emulator import arrays
from compiler.emulator.clocks import WARP
from compiler.emulator.execute import finish
from compiler.emulator.fault import KernelFault
from compiler.emulator.in_step import InStep, NotInStep
from compiler.emulator.translate_in_step import InStepTranslator
from compiler.emulator.warps import MEET, matrix_of, tf32
from compiler.hir.gpu import DynamicShared, SharedAlloc
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import Mma, MmaLoad, MmaStore
from compiler.hir.types import Fragment, FragmentRole, Mem, bytes_of
from runtime.records import define

Array = np.ndarray[Any, Any]
Dims = tuple[int, int, int]

LEAST = 16
"""Threads of a block below which nothing is gained."""

_SEVERAL = -2
"""Stands for more than one thread."""


def run_in_step(
    function: HirFunction, arguments: Sequence[Any], module: HirModule | None, blocks: Sequence[Dims], dims: Dims, grid: Dims, shared: int
) -> bool:
    """Run a kernel's blocks one after the other; False, with all memories as they were, where that can't be done."""
    threads = dims[0] * dims[1] * dims[2]
    if threads < LEAST:
        return False
    try:
        made = InStep(function, threads)
        run = finish(InStepTranslator(made, made.run(), module), {})
    except NotInStep:
        return False
    memories = [
        (argument, argument.copy())
        for parameter, argument in zip(function.parameters, arguments, strict=True)
        if isinstance(parameter.type, Mem) and not parameter.type.readonly
    ]
    try:
        with np.errstate(all="ignore"):
            for index in blocks:
                run(*arguments, StepBlock(index, dims, grid, shared))
    except (NotInStep, KernelFault, ZyntaxError):
        for argument, before in memories:
            argument[...] = before
        return False
    return True


@define(eq=False)
class Touched:
    """A shared memory's elements: who has read and who has written them since the last barrier."""

    array: Array
    block: "StepBlock"
    written: Array
    writer: Array
    read_at: Array
    reader: Array
    changed: Array

    @classmethod
    def of(cls, array: Array, block: "StepBlock") -> "Touched":
        never = [np.full(array.size, -1, np.int32) for _ in range(5)]
        return cls(array, block, *never)

    def cells(self, index: tuple[Any, ...], thread: Array, where: Any) -> tuple[Array, Array]:
        """Places of the accesses in memory, and the threads that make them."""
        shape = np.broadcast_shapes(*(np.shape(i) for i in index), thread.shape, np.shape(where if where is not None else 0))
        flat: Any = 0
        taken = np.ones(shape, np.bool_) if where is None else np.broadcast_to(where, shape)
        for i, extent in zip(index, self.array.shape, strict=True):
            flat = flat * extent + i
            taken = taken & (i >= 0) & (i < extent)
        return np.broadcast_to(np.asarray(flat), shape)[taken], np.broadcast_to(thread, shape)[taken]

    def read(self, index: tuple[Any, ...], thread: Array, where: Any) -> None:
        places, threads = self.cells(index, thread, where)
        now = self.block.time
        written = self.written[places]
        if (written < 0).any() or ((written == now) & (self.writer[places] != threads)).any() or (self.changed[places] == now).any():
            raise NotInStep("shared memory")
        others = (self.read_at[places] == now) & (self.reader[places] != threads)
        self.read_at[places] = now
        self.reader[places] = threads
        others |= self.reader[places] != threads
        self.reader[places[others]] = _SEVERAL

    def write(self, index: tuple[Any, ...], thread: Array, where: Any) -> None:
        places, threads = self.cells(index, thread, where)
        now = self.block.time
        met = (self.read_at[places] == now) & (self.reader[places] != threads)
        met |= (self.written[places] == now) & (self.writer[places] != threads)
        self.written[places] = now
        self.writer[places] = threads
        met |= self.writer[places] != threads
        if met.any() or (self.changed[places] == now).any():
            raise NotInStep("shared memory")

    def change(self, index: tuple[Any, ...], thread: Array, where: Any) -> None:
        """An atomic change: it meets what isn't atomic."""
        places, _ = self.cells(index, thread, where)
        now = self.block.time
        if (self.written[places] < 0).any() or (self.written[places] == now).any() or (self.read_at[places] == now).any():
            raise NotInStep("shared memory")
        self.changed[places] = now


@define(eq=False)
class StepBlock:
    """A block while its threads run in step. `time` counts barriers."""

    index: Dims
    dim: Dims
    grid: Dims
    shared_bytes: int
    time: int = 0
    allocated: dict[int, tuple[Array, Touched]] = Factory(dict)
    dynamic: Array | None = None
    numbers: Array = Factory(lambda self: np.arange(self.dim[0] * self.dim[1] * self.dim[2], dtype=np.int64), takes_self=True)

    @property
    def places(self) -> dict[str, tuple[Any, ...]]:
        x, y, _ = self.dim
        thread = (self.numbers % x, self.numbers // x % y, self.numbers // (x * y))
        return {"thread_idx": thread, "block_idx": self.index, "block_dim": self.dim, "grid_dim": self.grid}

    @property
    def lane(self) -> Array:
        return self.numbers % WARP

    @property
    def warp(self) -> Array:
        return self.numbers // WARP

    @property
    def cluster_rank(self) -> int:
        return 0

    @property
    def warps(self) -> int:
        return -(-len(self.numbers) // WARP)

    # ---- shared memory ----

    def shared(self, op: SharedAlloc, dims: tuple[int, ...]) -> tuple[Array, Touched]:
        if id(op) not in self.allocated:
            array = arrays.new_memory(op.type.dtype, dims)
            self.allocated[id(op)] = array, Touched.of(array, self)
        return self.allocated[id(op)]

    def dynamic_view(self, op: DynamicShared, offset: int, dims: tuple[int, ...]) -> Array:
        size = int(np.prod(dims, dtype=np.int64)) * bytes_of(op.type.dtype)
        if offset < 0 or offset + size > self.shared_bytes:
            raise NotInStep("more shared memory than there is")
        if self.dynamic is None:
            self.dynamic = np.zeros(self.shared_bytes, np.uint8)
        view: Array = self.dynamic[offset : offset + size].view(arrays.STORED[op.type.dtype]).reshape(dims)
        return view

    def barrier(self, mask: Array | None) -> None:
        self.together(mask)
        self.time += 1

    def together(self, mask: Array | None) -> None:
        """All threads are here."""
        if mask is not None and not mask.all():
            raise NotInStep("some threads meet")

    def whole_warps(self, mask: Array | None) -> list[int]:
        """Warps of which all lanes are here; none may be here in part."""
        if mask is None:
            return list(range(self.warps))
        found = []
        for warp in range(self.warps):
            here = mask[warp * WARP : warp * WARP + WARP]
            if here.all():
                found.append(warp)
            elif here.any():
                raise NotInStep("some lanes meet")
        return found

    # ---- warps ----

    def shuffle(self, value: Any, by: Any, mode: str, width: int, mask: Array | None) -> Any:
        if mask is not None:
            self.whole_warps(mask)
        count, lane = len(self.numbers), self.numbers % WARP
        first = lane - lane % width
        match mode:
            case "idx":
                source = first + by % width
                inside = True
            case "up":
                source = lane - by
                inside = (first <= source) & (source <= lane)
            case "down":
                source = lane + by
                inside = (lane <= source) & (source < first + width)
            case _:
                source = lane ^ by
                inside = (first <= source) & (source < first + width)
        there = self.numbers - lane + source
        there = np.where(inside & (there < count), there, self.numbers)
        return np.broadcast_to(value, (count, *np.shape(value)[1:]))[there]

    def meet(self, op: Instruction, values: tuple[Any, ...], mask: Array | None, dtype: str) -> Array:
        """What each lane gets, warp by warp."""
        count = len(self.numbers)
        held = [np.broadcast_to(value, (count,)).tolist() for value in values]
        made = np.zeros(count, arrays.NUMPY[dtype])
        for warp in self.whole_warps(mask):
            lanes = range(warp * WARP, min(count, warp * WARP + WARP))
            made[lanes.start : lanes.stop] = MEET[type(op)](op, [n % WARP for n in lanes], [tuple(v[n] for v in held) for n in lanes])
        return made

    def atomic(
        self,
        memory: Array,
        dtype: str,
        index: tuple[Any, ...],
        value: Any,
        compare: Any,
        mask: Array | None,
        track: Touched | None,
        new: Callable[..., Any],
    ) -> Array:
        """Each thread's change, one after the other; what each has found."""
        count = len(self.numbers)
        if track is not None:
            track.change(index, self.numbers, mask)
        places = [np.broadcast_to(i, (count,)).tolist() for i in index]
        held = np.broadcast_to(value, (count,)).tolist()
        wanted = np.broadcast_to(compare, (count,)).tolist() if compare is not None else [None] * count
        seen = memory.view(arrays.NUMPY[dtype])
        found = np.zeros(count, arrays.NUMPY[dtype])
        for thread in range(count) if mask is None else np.flatnonzero(mask).tolist():
            place = tuple(p[thread] for p in places)
            if not all(0 <= p < extent for p, extent in zip(place, memory.shape, strict=True)):
                raise NotInStep("an index outside")
            old = seen[place].item()
            found[thread] = old
            seen[place] = new(old, held[thread], wanted[thread])
        return found

    # ---- tensor cores: an array of matrices, one a warp ----

    def fragments(self, shape: tuple[int, int], value: float) -> Array:
        return np.full((self.warps, *shape), value)

    def multiply(self, op: Mma, a: Array, b: Array, c: Array, mask: Array | None) -> Array:
        self.together(mask)
        assert isinstance(op.c.type, Fragment)
        return arrays.round_array(a @ b + c, op.c.type.dtype).astype(np.float64)

    def matrices(self, index: tuple[Any, ...]) -> list[tuple[int, ...]]:
        count = len(self.numbers)
        each = [np.broadcast_to(i, (count,))[::WARP].tolist() for i in index]
        return [tuple(place[warp] for place in each) for warp in range(self.warps)]

    def load_fragments(self, op: MmaLoad, memory: Array, index: tuple[Any, ...], track: Touched | None, mask: Array | None) -> Array:
        self.together(mask)
        assert isinstance(op.type, Fragment)
        found = []
        for warp, place in enumerate(self.matrices(index)):
            matrix = matrix_of(op, op.type, memory, place).view(arrays.NUMPY[op.type.dtype])
            if op.type.dtype == "f32" and op.type.role is not FragmentRole.ACCUMULATOR:
                matrix = tf32(matrix)
            found.append(matrix.astype(np.float64))
            if track is not None:
                track.read(*self.elements(op, op.type, place, warp), None)
        return np.stack(found)

    def store_fragments(
        self, op: MmaStore, memory: Array, index: tuple[Any, ...], held: Array, track: Touched | None, mask: Array | None
    ) -> None:
        self.together(mask)
        fragment = op.fragment.type
        assert isinstance(fragment, Fragment)
        for warp, place in enumerate(self.matrices(index)):
            view = matrix_of(op, fragment, memory, place)
            if track is not None:
                track.write(*self.elements(op, fragment, place, warp), None)
            view[...] = arrays.round_array(held[warp], fragment.dtype).view(view.dtype)

    def elements(self, op: MmaLoad | MmaStore, fragment: Fragment, place: tuple[int, ...], warp: int) -> tuple[tuple[Any, ...], Array]:
        """The places of a matrix's elements, and the lanes that have them: told in turn, since which has which is not defined."""
        rows, columns = fragment.shape if op.layout == "row" else fragment.shape[::-1]
        down, across = np.indices((rows, columns))
        lanes = warp * WARP + (np.arange(rows * columns) % WARP).reshape(rows, columns)
        return (*place[:-2], place[-2] + down, place[-1] + across), lanes
