"""Products of a warpgroup, of operands in shared memory (the first one also from registers), of 8 to 256 columns."""

from compiler.hir.hopper import WARPGROUP_KINDS
from compiler.machines.units.unit import Issue, MatrixUnit

WARPGROUPS = MatrixUnit(Issue.WARPGROUP, {dtype: ((64, 256, kind.depth),) for dtype, kind in WARPGROUP_KINDS.items()})
"""Of sm_90a alone."""
