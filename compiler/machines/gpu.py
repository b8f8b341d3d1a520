"""The facts of a GPU's architecture."""

from enum import Enum
from functools import cache

from compiler.hir.lane_maps import WarpKind
from compiler.machines.units.unit import Issue, MatrixUnit
from runtime.records import evolve, frozen


class Feature(Enum):
    """What an architecture can do beyond what all of them can."""

    BLOCK_ORDER = "blocks of a launch that see, behind a fence, what those wrote that began before them"
    ASYNC_COPIES = "copies from global to shared memory that go on beside the computation (cp.async)"
    BULK_COPIES = "copies of whole boxes, and barriers that count their bytes (TMA, mbarrier)"
    CLUSTERS = "blocks that read each other's shared memory"
    EARLY_LAUNCHES = "kernels that begin while the one before them on the stream still ends"
    NARROW_FLOATS = "rounding of f32 to f16 and bf16, in pairs, and arithmetic in bf16"
    BYTE_FLOATS = "rounding of f32 to floats of 8 bits, and back"
    BFLOAT_ATOMICS = "atomic sums in bf16"
    WARP_REDUCTIONS = "reductions of a warp's ints in one instruction (redux)"
    ELECTION = "one lane of a warp picked in one instruction (elect)"
    STORE_MATRIX = "fragments stored to shared memory in one instruction (stmatrix)"
    REGISTER_TRANSFER = "registers handed from warpgroup to warpgroup (setmaxnreg)"


@frozen(eq=False)
class GpuMachine:
    """What a multiprocessor holds, what a block can have of it, and what both can do. Memory in bytes. Compared by identity: there is one
    value of each."""

    name: str
    capability: tuple[int, int]
    """As devices report it."""
    warps: int
    blocks: int
    shared: int
    block_shared: int
    stage_shared: int
    """What copies ahead of a block's computation may take of its shared memory."""
    registers: int = 65536
    lanes: int = 32
    """Of a warp."""
    features: frozenset[Feature] = frozenset()
    units: tuple[MatrixUnit, ...] = ()
    cluster: int = 1
    """Blocks of a cluster that every device has room for, as far as is known."""
    scan_words: int = 32
    """Registers of 32 bits that a thread best keeps elements of a scan in."""
    general: "GpuMachine | None" = None
    """The architecture that this one is, but for what later ones don't have (the `a` of sm_90a)."""

    @cache  # noqa: B019  # of the few sizes that programs name
    def sharing(self, most: int) -> "GpuMachine":
        """The machine for blocks that have so much shared memory at most."""
        return evolve(self, block_shared=min(self.block_shared, most), stage_shared=min(self.stage_shared, most))

    def has(self, feature: Feature) -> bool:
        return feature in self.features

    def unit(self, issue: Issue) -> MatrixUnit | None:
        return next((unit for unit in self.units if unit.issue is issue), None)

    def multiplies(self, issue: Issue, dtype: str) -> bool:
        """Whether products that are issued so can have operands of this dtype."""
        unit = self.unit(issue)
        return unit is not None and unit.multiplies(dtype)

    def warp_kind(self, dtype: str) -> WarpKind | None:
        """How its warps hold operands of this dtype and their sums in registers; None where they don't multiply such."""
        unit = self.unit(Issue.REGISTERS)
        kind = unit.kind(dtype) if unit is not None else None
        return kind if kind is None or kind.lanes == self.lanes else None

    @property
    def threads(self) -> int:
        """That a multiprocessor holds."""
        return self.warps * self.lanes

    def resident_blocks(self, threads: int, registers: int, shared: int) -> int:
        """Blocks that a multiprocessor can hold at once, each of so many threads with so many registers, and so much shared memory a
        block. Registers are given to warps in units of 256, a quarter of the warps to each of four schedulers; shared memory to blocks in
        units of 128 bytes, 1 KiB of it to the system where a block can't have all."""
        warps = -(-threads // self.lanes)
        for_warp = -(-registers * self.lanes // 256) * 256
        by_registers = 4 * (self.registers // 4 // for_warp) // warps if registers else self.blocks
        system = 1024 if self.block_shared < self.shared else 0
        each = -(-(shared + system) // 128) * 128
        by_shared = self.shared // each if each else self.blocks
        return min(self.blocks, self.warps // warps, by_registers, by_shared)

    def __str__(self) -> str:
        return self.name
