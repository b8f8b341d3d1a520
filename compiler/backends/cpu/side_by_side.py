"""Functions of several vectors, two at a time: as one vector of twice the lanes, which LLVM gives back as two chains of instructions that
go side by side and share their constants. One vector after the other, a processor would have to look past all of a function's instructions
for the next ones that need not wait."""

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.trigonometry import OF_ANGLES
from compiler.backends.llvm.types import is_narrow_float
from compiler.backends.llvm.writer import LlvmValue
from compiler.hir.core import FLOAT_FUNCTIONS, Unary

SIDE_BY_SIDE = FLOAT_FUNCTIONS - {"sqrt", "rsqrt"} - OF_ANGLES
"""All but few instructions, and those of which f32 is computed in twice as many registers and large angles take a branch."""


def goes_in_pairs(frame: CpuFrame, op: Unary) -> bool:
    bundle = frame.values[op.value.name]
    return op.operator in SIDE_BY_SIDE and bundle.lanes > 1 and len(bundle.items) > 1


def in_pairs(frame: CpuFrame, op: Unary) -> None:
    w, bundle = frame.w, frame.values[op.value.name]
    lanes, items = bundle.lanes, bundle.items

    def of(value: LlvmValue) -> LlvmValue:
        return arithmetic.unary(w, op.operator, "f32" if is_narrow_float(bundle.dtype) else bundle.dtype, value)

    results: list[LlvmValue] = []
    for first, second in zip(items[::2], items[1::2], strict=False):
        both = of(w.shuffle(first, second, range(2 * lanes)))
        results += [w.shuffle(both, None, range(start, start + lanes)) for start in (0, lanes)]
    results += [of(item) for item in items[len(results) :]]
    # each by itself, so that what is stored is known to be rounded
    rounded = [arithmetic.rounded(w, result, bundle.dtype) for result in results]
    frame.define(op, Bundle(bundle.dtype, bundle.axes, bundle.simd, lanes, tuple(rounded)))
