"""Products of a warp from registers. `compiler.hir.lane_maps` says how operands and sums lie there."""

from compiler.hir.lane_maps import MMA_SYNC
from compiler.machines.units.unit import Issue, MatrixUnit

FIRST = MatrixUnit(Issue.REGISTERS, {"f16": ((16, 8, 8),), "i8": ((8, 8, 16),), "u8": ((8, 8, 16),)}, MMA_SYNC)
"""Of sm_75."""

SECOND = MatrixUnit(
    Issue.REGISTERS,
    {
        "f16": ((16, 8, 16), (16, 8, 8)),
        "bf16": ((16, 8, 16), (16, 8, 8)),
        "i8": ((16, 8, 32), (16, 8, 16), (8, 8, 16)),
        "u8": ((16, 8, 32), (16, 8, 16), (8, 8, 16)),
        "f32": ((16, 8, 8), (16, 8, 4)),
        "f64": ((8, 8, 4),),
    },
    MMA_SYNC,
)
"""From sm_80 on."""

THIRD = MatrixUnit(Issue.REGISTERS, {**SECOND.shapes, "f64": ((16, 8, 16), (16, 8, 8), (16, 8, 4), (8, 8, 4))}, MMA_SYNC)
"""From sm_90 on."""
