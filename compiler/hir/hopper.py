"""What sm_90a adds: barriers in shared memory that count bytes, bulk copies of tensor boxes, products of a warpgroup, and
registers handed from role to role. Operands are views of shared memory; backends encode descriptors. Form C."""

import re
from collections.abc import Iterator
from itertools import product

from compiler.hir.affine import Affine
from compiler.hir.gpu import one_of
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
    optional_operand,
)
from compiler.hir.memory import mem_of
from compiler.hir.types import I1, I32, Barrier, HirType, Mem, Space, Tile, bytes_of, is_float
from runtime.records import frozen
from runtime.tuples import as_tuple


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def _barrier_fault(barrier: Value, index: tuple[Affine, ...]) -> Iterator[str]:
    if not isinstance(barrier.type, Barrier):
        yield f"{barrier} is {barrier.type}, not a barrier"
    elif len(index) != 1:
        yield "a barrier has one index"
    elif index[0].value is not None and not 0 <= index[0].value < barrier.type.count:
        yield f"barrier {index[0].value} of {barrier.type.count}"


BARRIER_SCOPES = {"block": "cta", "cluster": "cluster"}
"""As the hardware calls them."""


# ---- barriers ----------------------------------------------------------------------------------------------------


@instruction("mbar.make", InstructionFamily.HOPPER, Effect.WRITE)
class BarrierMake(Instruction):
    """`%full = mbar.make : barrier<4>`: barriers in shared memory, to be initialised by one thread."""

    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]


@instruction("mbar.init", InstructionFamily.HOPPER, Effect.SYNC)
class BarrierInit(Instruction):
    """`mbar.init %full[0] count=1`: each phase ends when `count` arrivals and all expected bytes have come. Bulk copies and other blocks
    know of it from here on; with `known=false` from the thread's next one on that has it true."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    count: int = attribute(1)
    known: bool = attribute(True)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("mbar.arrive", InstructionFamily.HOPPER, Effect.SYNC)
class BarrierArrive(Instruction):
    """`mbar.arrive %empty[s] rank=%r scope=cluster`: one arrival; with `rank` (i32) at the same barrier of that block of the cluster.
    `scope`: who sees what the thread wrote before, when it waits for the phase in that scope: the block or the cluster."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    rank: Value | None = optional_operand()
    scope: str = attribute("block")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)
        yield from one_of(self.scope, BARRIER_SCOPES, "scope")
        if self.rank is not None and self.rank.type != I32:
            yield f"a rank of type {self.rank.type}: i32 is wanted"


@instruction("mbar.expect", InstructionFamily.HOPPER, Effect.SYNC)
class BarrierExpect(Instruction):
    """`mbar.expect %full[s] bytes=16384`: one arrival, and this many bytes to wait for."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    bytes: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)


@instruction("mbar.wait", InstructionFamily.HOPPER, Effect.SYNC)
class BarrierWait(Instruction):
    """`mbar.wait %full[s], %parity scope=cluster`: until the phase of that parity (i32, 0 first) has ended. `scope`: whose writes before
    their arrivals are seen then, the block's or the cluster's. Bytes of bulk copies are seen in either."""

    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    parity: Value = operand()
    scope: str = attribute("block")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _barrier_fault(self.barrier, self.barrier_index)
        yield from one_of(self.scope, BARRIER_SCOPES, "scope")
        if self.parity.type != I32:
            yield f"a parity of type {self.parity.type}: i32 is wanted"


# ---- bulk copies -------------------------------------------------------------------------------------------------


SWIZZLES = {"128B": 128, "64B": 64, "32B": 32}
"""How boxes can lie in shared memory, and the bytes of a row that is swizzled so: 16-byte pieces of rows are exchanged, so that a
column's lie in different banks."""

_MOST = 256
"""Elements of a box along a dim."""

MOST_STEP = 8
"""From one element of a box to the next."""


def _box_fault(shared: Value, tensor: Value, tensor_index: tuple[Affine, ...], box: tuple[int, ...]) -> Iterator[str]:
    if mem_of(shared).space is not Space.SHARED:
        yield f"{mem_of(shared)} is not in shared memory"
    if not len(tensor_index) == len(box) == mem_of(tensor).rank:
        yield f"{len(tensor_index)} coordinates and a box of {len(box)} for a tensor of rank {mem_of(tensor).rank}"
    if mem_of(shared).dtype != mem_of(tensor).dtype:
        yield f"between {mem_of(tensor).dtype} and {mem_of(shared).dtype}"
    if not 1 <= len(box) <= 5:
        yield f"a box of {len(box)} dims: 1 to 5"
        return
    if any(not 1 <= extent <= _MOST for extent in box):
        yield f"a box of {box}: 1 to {_MOST} elements along each dim"
    swizzle, row = mem_of(shared).swizzle, box[-1] * bytes_of(mem_of(shared).dtype)
    if row % 16:
        yield f"rows of {row} bytes: a multiple of 16"
    if swizzle is not None and swizzle not in SWIZZLES:
        yield f"the swizzle {swizzle}: not one of {', '.join(SWIZZLES)}"
    elif swizzle is not None and row != SWIZZLES[swizzle]:
        yield f"rows of {row} bytes: the swizzle {swizzle} takes {SWIZZLES[swizzle]}"


def _step_fault(op: "BulkLoad | BulkStore") -> Iterator[str]:
    """A box that leaves elements out has a number for each dim, and reaches no further than another."""
    if len(op.step) != len(op.box) or not all(1 <= step <= MOST_STEP for step in op.step) or op.step[-1] != 1:
        yield f"steps of {op.step} for a box of {len(op.box)} dims: 1 to {MOST_STEP} along each, 1 along the last"
    elif any(extent * step > _MOST for extent, step in zip(op.box, op.step, strict=True)):
        yield f"a box of {op.box} in steps of {op.step}: it reaches over {_MOST} elements at most along each dim"
    if isinstance(op, BulkLoad) and op.offsets:
        yield "steps and a window: boxes have one or the other"


def _window_fault(op: "BulkLoad") -> Iterator[str]:
    """An im2col copy has a corner, from both ends, and an offset for each dim between the first and the last."""
    spatial = len(op.box) - 2
    if not 1 <= spatial <= 3:
        yield f"a window over a tensor of rank {len(op.box)}: 3 to 5"
    elif not len(op.offsets) == len(op.lower) == len(op.upper) == spatial:
        yield f"{len(op.offsets)} offsets, {len(op.lower)} lower and {len(op.upper)} upper corners for {spatial} dims of the window"
    elif any(extent != 1 for extent in op.box[:-2]):
        yield f"a box of {op.box}: the pixels and channels of a window are its last two, the others are 1"


@instruction("bulk_copy.g2s", InstructionFamily.HOPPER, Effect.READ | Effect.WRITE)
class BulkLoad(Instruction):
    """`bulk_copy.g2s %s[0, 0], %A[i, k], %full[s] box=[128, 64]`: the box of the tensor at these coordinates to shared memory,
    zeros outside; its bytes are counted by the barrier. The last coordinate is a multiple of 16 bytes.
    `multicast` is a mask of the cluster's blocks that all get it. With `step=[1, 2, 2, 1]` the box's elements lie so far apart along
    each dim, the last always 1. With `rounded` elements of f32 are rounded to tf32 on the way, to nearest.

    With `offsets` (im2col) the tensor is N, spatial dims, C, and the box is pixels by channels of a convolution: pixels are taken
    row after row from the coordinates on, each from `lower` to its extent - 1 + `upper`, and `offsets` are added to each place."""

    shared: Value = operand()
    shared_index: tuple[Affine, ...] = attribute(converter=_forms)
    tensor: Value = operand()
    tensor_index: tuple[Affine, ...] = attribute(converter=_forms)
    barrier: Value = operand()
    barrier_index: tuple[Affine, ...] = attribute(converter=_forms)
    box: tuple[int, ...] = attribute(converter=as_tuple)
    offsets: tuple[Affine, ...] = attribute((), _forms)
    lower: tuple[int, ...] = attribute((), as_tuple)
    upper: tuple[int, ...] = attribute((), as_tuple)
    multicast: int = attribute(0)
    step: tuple[int, ...] = attribute((), as_tuple)
    rounded: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _box_fault(self.shared, self.tensor, self.tensor_index, self.box)
        yield from _barrier_fault(self.barrier, self.barrier_index)
        if self.step:
            yield from _step_fault(self)
        if self.rounded and mem_of(self.shared).dtype != "f32":
            yield f"{mem_of(self.shared).dtype} rounded to tf32: f32 is"
        if self.offsets or self.lower or self.upper:
            yield from _window_fault(self)
        if not 0 <= self.multicast < 1 << 16:
            yield f"a multicast mask of {self.multicast}: 16 bits"


@instruction("bulk_copy.s2g", InstructionFamily.HOPPER, Effect.READ | Effect.WRITE)
class BulkStore(Instruction):
    """`bulk_copy.s2g %s[0, 0], %C[i, j] box=[128, 64]`: from shared memory to the box of the tensor, clipped at its end; complete
    at `bulk_wait`. No coordinate is below 0, and the last is a multiple of 16 bytes. With `step=[1, 2, 2, 1]` the box's elements are
    stored so far apart along each dim, the last always 1."""

    shared: Value = operand()
    shared_index: tuple[Affine, ...] = attribute(converter=_forms)
    tensor: Value = operand()
    tensor_index: tuple[Affine, ...] = attribute(converter=_forms)
    box: tuple[int, ...] = attribute(converter=as_tuple)
    step: tuple[int, ...] = attribute((), as_tuple)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _box_fault(self.shared, self.tensor, self.tensor_index, self.box)
        if self.step:
            yield from _step_fault(self)


@instruction("bulk_commit", InstructionFamily.HOPPER, Effect.SYNC)
class BulkCommit(Instruction):
    """`bulk_commit`: the thread's bulk stores since the last commit become a group."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("bulk_wait", InstructionFamily.HOPPER, Effect.SYNC)
class BulkWait(Instruction):
    """`bulk_wait count=1 read=true`: until at most `count` groups are on their way; with `read` it is enough that they have read
    their source."""

    count: int = attribute(0)
    read: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


# ---- warpgroup products ------------------------------------------------------------------------------------------


@frozen
class WarpgroupKind:
    """What a warpgroup multiplies: the hardware's name of the operands' type, the depth of one product, the type of sums."""

    word: str
    depth: int
    sums: str


WARPGROUP_KINDS = {
    "f16": WarpgroupKind("f16", 16, "f32"),
    "bf16": WarpgroupKind("bf16", 16, "f32"),
    "f32": WarpgroupKind("tf32", 8, "f32"),
    "f8e4m3": WarpgroupKind("e4m3", 32, "f32"),
    "f8e5m2": WarpgroupKind("e5m2", 32, "f32"),
    "i8": WarpgroupKind("s8", 32, "i32"),
    "u8": WarpgroupKind("u8", 32, "i32"),
}
"""By the dtype of operands in shared memory."""


def kind_of(left: str, right: str) -> WarpgroupKind | None:
    """How a warpgroup multiplies operands of these dtypes; None where it doesn't. Those of one byte needn't be alike."""
    first, second = WARPGROUP_KINDS.get(left), WARPGROUP_KINDS.get(right)
    if first is None or second is None or (first.depth, first.sums) != (second.depth, second.sums):
        return None
    return second if left == right or bytes_of(left) == 1 else None


def register_points(axes: tuple[tuple[str, int], ...]) -> list[dict[str, int]] | None:
    """The points of an accumulator's axes in the order of the hardware's registers; None when the axes don't tell.

    With one axis, that is the order. With three, they are told apart by their names' letters: the two of one letter are columns (the
    higher number the groups of 8 columns, the lower the two neighbours), the third is the pair of rows 8 apart: thread and register of
    `tile<j2:N/8, i1:2, j0:2>` as the hardware has them."""
    sizes = dict(axes)
    if len(sizes) == 1:
        ((name, size),) = sizes.items()
        return [{name: number} for number in range(size)]
    letters: dict[str, list[str]] = {}
    for name in sizes:
        letters.setdefault(name.rstrip("0123456789"), []).append(name)
    columns = next((names for names in letters.values() if len(names) == 2), None)
    rows = next((names[0] for names in letters.values() if len(names) == 1), None)
    if len(sizes) != 3 or columns is None or rows is None:
        return None
    low, high = sorted(columns, key=lambda name: int(re.sub(r"\D", "", name) or 0))
    places = product(range(sizes[high]), range(sizes[rows]), range(sizes[low]))
    return [{high: group, rows: half, low: pair} for group, half, pair in places]


@instruction("wgmma.fence", InstructionFamily.HOPPER, Effect.SYNC)
class WarpgroupFence(Instruction):
    """`wgmma.fence`: registers written before it are seen by the products after it."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("wgmma.mma", InstructionFamily.HOPPER, Effect.READ | Effect.SYNC)
class WarpgroupMma(Instruction):
    """`%n = wgmma.mma %acc, %a[0, 0], %b[0, 0], %go shape=[64, 256, 16] : tile<...>`: acc + a * b begun by four warps, or a * b
    where `keep` (i1) is false; `negated`, acc - a * b. `a` is a view of shared memory, or a tile of registers: four of them, or as many
    more as the index, the number of the first group of 8 columns, says are before them. The result is there after `wgmma.wait`."""

    accumulator: Value = operand()
    a: Value = operand()
    a_index: tuple[Affine, ...] = attribute((), _forms)
    b: Value = operand()
    b_index: tuple[Affine, ...] = attribute((), _forms)
    keep: Value = operand()
    shape: tuple[int, ...] = attribute(converter=as_tuple)
    transpose_a: bool = attribute(False)
    transpose_b: bool = attribute(False)
    negated: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.accumulator.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if len(self.shape) != 3 or self.shape[0] != 64 or self.shape[1] % 8 or not 8 <= self.shape[1] <= 256:
            yield f"a product of shape {self.shape}: 64 rows, 8 to 256 columns by 8"
        elif mem_of(self.b).dtype in ("i8", "u8") and self.shape[1] > 32 and self.shape[1] % 16:
            yield f"a product of bytes with {self.shape[1]} columns: 8, 16, 24, or by 16"
        if self.keep.type != I1:
            yield f"`keep` of type {self.keep.type}: i1 is wanted"
        if self.negated and isinstance(self.accumulator.type, Tile) and not is_float(self.accumulator.type.dtype):
            yield f"a negated product summed in {self.accumulator.type.dtype}: only products of floats are negated"
        if not isinstance(self.a.type, Mem) and any(form.value is None for form in self.a_index[:1]) | (len(self.a_index) > 1):
            yield f"registers of {self.a} from a place that isn't one constant"
        for value, index in ((self.a, self.a_index), (self.b, self.b_index)):
            if isinstance(value.type, Mem) and len(index) != value.type.rank:
                yield f"{len(index)} indices for {value} of rank {value.type.rank}"
        if not isinstance(self.b.type, Mem) or self.b.type.space is not Space.SHARED:
            yield f"{self.b} is not in shared memory"


@instruction("wgmma.commit", InstructionFamily.HOPPER, Effect.SYNC)
class WarpgroupCommit(Instruction):
    """`wgmma.commit`: the products since the last commit become a group."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []


@instruction("wgmma.wait", InstructionFamily.HOPPER, Effect.SYNC)
class WarpgroupWait(Instruction):
    """`%n = wgmma.wait %m count=1 : tile<...>`: until at most `count` groups are under way. The accumulators pass through, so
    that no reader comes before it."""

    values: tuple[Value, ...] = operands()
    count: int = attribute(0)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [value.type for value in self.values]


@instruction("setmaxnreg", InstructionFamily.HOPPER, Effect.SYNC)
class SetMaxRegisters(Instruction):
    """`setmaxnreg inc registers=232`: the warpgroup takes (`inc`) or gives back (`dec`) registers until each thread has this many."""

    direction: str = attribute()
    registers: int = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.direction, ("inc", "dec"), "direction")
        if not 24 <= self.registers <= 256 or self.registers % 8:
            yield f"{self.registers} registers: 24 to 256 by 8"
