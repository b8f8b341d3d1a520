"""NVIDIA's architectures, by the CUDA programming guide's tables of technical specifications and NVIDIA's PTX ISA."""

from collections.abc import Callable

from compiler.machines.gpu import Feature, GpuMachine
from compiler.machines.units import mma_sync, wgmma, wmma
from runtime.records import evolve

_KIB = 1024

_TURING = frozenset({Feature.BLOCK_ORDER})
_AMPERE = _TURING | {Feature.ASYNC_COPIES, Feature.NARROW_FLOATS, Feature.WARP_REDUCTIONS}
_HOPPER = _AMPERE | {
    Feature.BULK_COPIES,
    Feature.CLUSTERS,
    Feature.EARLY_LAUNCHES,
    Feature.BYTE_FLOATS,
    Feature.BFLOAT_ATOMICS,
    Feature.ELECTION,
    Feature.STORE_MATRIX,
}

SM_75 = GpuMachine("sm_75", (7, 5), 32, 16, 64 * _KIB, 64 * _KIB, 64 * _KIB, features=_TURING, units=(wmma.FIRST, mma_sync.FIRST))
SM_80 = GpuMachine(
    "sm_80", (8, 0), 64, 32, 164 * _KIB, 163 * _KIB, 160 * _KIB, features=_AMPERE, units=(wmma.ALL, mma_sync.SECOND)
)
SM_86 = evolve(
    SM_80,
    name="sm_86",
    capability=(8, 6),
    warps=48,
    blocks=16,
    shared=100 * _KIB,
    block_shared=99 * _KIB,
    stage_shared=98 * _KIB,
)
SM_89 = evolve(SM_86, name="sm_89", capability=(8, 9), blocks=24)
SM_90 = GpuMachine(
    "sm_90",
    (9, 0),
    64,
    32,
    228 * _KIB,
    227 * _KIB,
    224 * _KIB,
    features=_HOPPER,
    units=(wmma.ALL, mma_sync.THIRD),
    cluster=8,
    scan_words=48,
)
SM_90A = evolve(
    SM_90,
    name="sm_90a",
    features=_HOPPER | {Feature.REGISTER_TRANSFER},
    units=(*SM_90.units, wgmma.WARPGROUPS),
    general=SM_90,
)
SM_100 = evolve(SM_90, name="sm_100", capability=(10, 0))
SM_100A = evolve(SM_100, name="sm_100a", features=_HOPPER | {Feature.REGISTER_TRANSFER}, general=SM_100)
SM_120 = evolve(
    SM_90,
    name="sm_120",
    capability=(12, 0),
    warps=48,
    blocks=24,
    shared=100 * _KIB,
    block_shared=99 * _KIB,
    stage_shared=98 * _KIB,
    cluster=1,
)

MACHINES = {machine.name: machine for machine in (SM_75, SM_80, SM_86, SM_89, SM_90, SM_90A, SM_100, SM_100A, SM_120)}

PORTABLE = evolve(SM_75, name="all targets", block_shared=SM_90.block_shared)
"""What is true of every architecture; but a block may have the most shared memory that there is: it isn't known how little."""


def first_with(holds: Callable[[GpuMachine], bool]) -> GpuMachine:
    """The first of these that this holds of."""
    return next(machine for machine in MACHINES.values() if holds(machine))
