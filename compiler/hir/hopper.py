"""What sm_90a adds: barriers in shared memory that count bytes, bulk copies of tensor boxes, products of a warpgroup, and
registers handed from role to role. Operands are views of shared memory; backends encode descriptors. Form C."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.gpu import one_of
from compiler.hir.instruction import Effect, Family, Instruction, Scope, Value, attribute, instruction, operand, operands
from compiler.hir.memory import mem_of
from compiler.hir.types import I1, I32, Barrier, HirType, Mem, Space
from compiler.tuples import as_tuple


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def _barrier_fault(barrier: Value, index: tuple[Affine, ...]) -> Iterator[str]:
    if not isinstance(barrier.type, Barrier):
        yield f"{barrier} is {barrier.type}, not a barrier"
    elif len(index) != 1:
        yield "a barrier has one index"
    elif index[0].value is not None and not 0 <= index[0].value < barrier.type.count:
        yield f"barrier {index[0].value} of {barrier.type.count}"


# ---- barriers ----------------------------------------------------------------------------------------------------


@instruction("mbar.make", Family.HOPPER, Effect.WRITE)
class BarrierMake(Instruction):
    """`%full = mbar.make : barrier<4>`: barriers in shared memory, to be initialised by one thread."""

    type: HirType = attribute()

    def result_types(self, scope: Scope) -> list[HirType]:
        return [self.type]


@instruction("mbar.init", Family.HOPPER, Effect.SYNC)
class BarrierInit(Instruction):
    """`mbar.init %full[0] count=1`: each phase ends when `count` arrivals and all expected bytes have come."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    count: int = attribute(1)

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("mbar.arrive", Family.HOPPER, Effect.SYNC)
class BarrierArrive(Instruction):
    """`mbar.arrive %empty[s]`: one arrival."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("mbar.expect", Family.HOPPER, Effect.SYNC)
class BarrierExpect(Instruction):
    """`mbar.expect %full[s] bytes=16384`: one arrival, and this many bytes to wait for."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    bytes: int = attribute()

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("mbar.wait", Family.HOPPER, Effect.SYNC)
class BarrierWait(Instruction):
    """`mbar.wait %full[s], %parity`: until the phase of that parity (i32, 0 first) has ended."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    parity: Value = operand()

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)
        if self.parity.type != I32:
            yield f"a parity of type {self.parity.type}: i32 is wanted"


# ---- bulk copies -------------------------------------------------------------------------------------------------


def _box_fault(shared: Value, tensor: Value, tensor_index: tuple[Affine, ...], box: tuple[int, ...]) -> Iterator[str]:
    if mem_of(shared).space is not Space.SHARED:
        yield f"{mem_of(shared)} is not in shared memory"
    if not len(tensor_index) == len(box) == mem_of(tensor).rank:
        yield f"{len(tensor_index)} coordinates and a box of {len(box)} for a tensor of rank {mem_of(tensor).rank}"
    if mem_of(shared).dtype != mem_of(tensor).dtype:
        yield f"between {mem_of(tensor).dtype} and {mem_of(shared).dtype}"


@instruction("bulk_copy.g2s", Family.HOPPER, Effect.READ | Effect.WRITE)
class BulkLoad(Instruction):
    """`bulk_copy.g2s %s[0, 0], %A[i, k], %full[s] box=[128, 64]`: the box of the tensor at these coordinates to shared memory,
    zeros outside; its bytes are counted by the barrier. `offsets` (im2col) move the window of a convolution; `multicast` is a
    mask of the cluster's blocks."""

    shared: Value = operand()
    shared_index: tuple[Affine, ...] = attribute(converter=_forms)
    tensor: Value = operand()
    tensor_index: tuple[Affine, ...] = attribute(converter=_forms)
    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    box: tuple[int, ...] = attribute(converter=as_tuple)
    offsets: tuple[int, ...] = attribute((), tuple)
    multicast: int = attribute(0)

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _box_fault(self.shared, self.tensor, self.tensor_index, self.box)
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("bulk_copy.s2g", Family.HOPPER, Effect.READ | Effect.WRITE)
class BulkStore(Instruction):
    """`bulk_copy.s2g %s[0, 0], %C[i, j] box=[128, 64]`: from shared memory to the box of the tensor, clipped at its end; complete
    at `bulk_wait`."""

    shared: Value = operand()
    shared_index: tuple[Affine, ...] = attribute(converter=_forms)
    tensor: Value = operand()
    tensor_index: tuple[Affine, ...] = attribute(converter=_forms)
    box: tuple[int, ...] = attribute(converter=as_tuple)

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from _box_fault(self.shared, self.tensor, self.tensor_index, self.box)


@instruction("bulk_commit", Family.HOPPER, Effect.SYNC)
class BulkCommit(Instruction):
    """`bulk_commit`: the thread's bulk stores since the last commit become a group."""

    def result_types(self, scope: Scope) -> list[HirType]:
        return []


@instruction("bulk_wait", Family.HOPPER, Effect.SYNC)
class BulkWait(Instruction):
    """`bulk_wait count=1 read=true`: until at most `count` groups are on their way; with `read` it is enough that they have read
    their source."""

    count: int = attribute(0)
    read: bool = attribute(False)

    def result_types(self, scope: Scope) -> list[HirType]:
        return []


# ---- warpgroup products ------------------------------------------------------------------------------------------


@instruction("wgmma.fence", Family.HOPPER, Effect.SYNC)
class WarpgroupFence(Instruction):
    """`wgmma.fence`: registers written before it are seen by the products after it."""

    def result_types(self, scope: Scope) -> list[HirType]:
        return []


@instruction("wgmma.mma", Family.HOPPER, Effect.READ | Effect.SYNC)
class WarpgroupMma(Instruction):
    """`%n = wgmma.mma %acc, %a[0, 0], %b[0, 0], %go shape=[64, 256, 16] : tile<...>`: acc + a * b begun by four warps, or a * b
    where `keep` (i1) is false. `a` is a view of shared memory, or a tile of registers (then without indices). The result is there
    after `wgmma.wait`."""

    accumulator: Value = operand()
    a: Value = operand()
    a_index: tuple[Affine, ...] = attribute((), _forms)
    b: Value = operand()
    b_index: tuple[Affine, ...] = attribute((), _forms)
    keep: Value = operand()
    shape: tuple[int, ...] = attribute(converter=as_tuple)
    transpose_a: bool = attribute(False)
    transpose_b: bool = attribute(False)

    def result_types(self, scope: Scope) -> list[HirType]:
        return [self.accumulator.type]

    def check(self, scope: Scope) -> Iterator[str]:
        if len(self.shape) != 3 or self.shape[0] != 64 or self.shape[1] % 8 or not 8 <= self.shape[1] <= 256:
            yield f"a product of shape {self.shape}: 64 rows, 8 to 256 columns by 8"
        if self.keep.type != I1:
            yield f"`keep` of type {self.keep.type}: i1 is wanted"
        for value, index in ((self.a, self.a_index), (self.b, self.b_index)):
            if isinstance(value.type, Mem) and len(index) != value.type.rank:
                yield f"{len(index)} indices for {value} of rank {value.type.rank}"
        if not isinstance(self.b.type, Mem) or self.b.type.space is not Space.SHARED:
            yield f"{self.b} is not in shared memory"


@instruction("wgmma.commit", Family.HOPPER, Effect.SYNC)
class WarpgroupCommit(Instruction):
    """`wgmma.commit`: the products since the last commit become a group."""

    def result_types(self, scope: Scope) -> list[HirType]:
        return []


@instruction("wgmma.wait", Family.HOPPER, Effect.SYNC)
class WarpgroupWait(Instruction):
    """`%n = wgmma.wait %m count=1 : tile<...>`: until at most `count` groups are under way. The accumulators pass through, so
    that no reader comes before it."""

    values: tuple[Value, ...] = operands()
    count: int = attribute(0)

    def result_types(self, scope: Scope) -> list[HirType]:
        return [value.type for value in self.values]


@instruction("setmaxnreg", Family.HOPPER, Effect.SYNC)
class SetMaxRegisters(Instruction):
    """`setmaxnreg inc registers=232`: the warpgroup takes (`inc`) or gives back (`dec`) registers until each thread has this many."""

    direction: str = attribute()
    registers: int = attribute()

    def result_types(self, scope: Scope) -> list[HirType]:
        return []

    def check(self, scope: Scope) -> Iterator[str]:
        yield from one_of(self.direction, ("inc", "dec"), "direction")
        if not 24 <= self.registers <= 256 or self.registers % 8:
            yield f"{self.registers} registers: 24 to 256 by 8"
