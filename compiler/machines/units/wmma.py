"""Products of fragments that a warp loads from memory. Operands of f32 are rounded to tf32."""

from compiler.machines.units.unit import Issue, MatrixUnit, Shape

SUMS = {"f16": ("f32", "f16"), "bf16": ("f32",), "f32": ("f32",), "i8": ("i32",), "u8": ("i32",), "f64": ("f64",)}
"""What products of a dtype are summed in."""

_WHOLE: tuple[Shape, ...] = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_QUARTER: tuple[Shape, ...] = ((8, 8, 8),)

FIRST = MatrixUnit(Issue.FRAGMENTS, {"f16": _WHOLE + _QUARTER, "i8": _WHOLE, "u8": _WHOLE})
"""Of sm_75."""

ALL = MatrixUnit(Issue.FRAGMENTS, {**FIRST.shapes, "bf16": _WHOLE + _QUARTER, "f32": ((16, 16, 8),), "f64": ((8, 8, 4),)})
"""From sm_80 on."""
