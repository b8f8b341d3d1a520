"""Results that no cache holds are stored past the caches, where loops fill whole lines of these: else each line would be read before it is
written. Such a loop is in the code twice; the size of the result decides as it runs."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.llvm.bundle import is_simd
from compiler.backends.llvm.types import I64
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For, While
from compiler.hir.core import FLOAT_FUNCTIONS, Const, Index, Unary
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Tile, bytes_of

LINE = 64
"""Bytes of a line of the cache, which one vector fills."""

STREAMED = 24 << 20
"""Bytes of a result from which it is stored past the caches: most of what the last one holds."""

Definitions = Mapping[str, Instruction]


def streamed_by(frame: CpuFrame, loop: For) -> list[Store]:
    """The stores of an innermost loop that fill whole lines of a result."""
    inside = [op for top in loop.body.body for op in top.walk()]
    wide = any("+avx512f" in text for text in frame.kernel.module.attributes)
    # functions take longer than memory, and a store past the caches keeps those behind it waiting
    functions = any(isinstance(op, Unary) and op.operator in FLOAT_FUNCTIONS for op in inside)
    if not wide or functions or loop.carried or any(isinstance(op, For | While) for op in inside):
        return []
    made = {**frame.definitions, **{value.name: op for op in inside for value in op.results}}
    return [op for op in inside if isinstance(op, Store) and fills_lines(frame, op, made)]


def fills_lines(frame: CpuFrame, op: Store, made: Definitions) -> bool:
    """Whether each vector that is stored lies on a line of its own, if the memory begins at one. `made`: instructions by their results."""
    mem, type = mem_of(op.mem), op.value.type
    if op.mem not in frame.kernel.function.parameters or not mem.noalias or op.where is not None or not isinstance(type, Tile):
        return False
    axes = {name: extent.value or 0 for name, extent in type.axes}
    lanes = next((extent for name, extent in axes.items() if is_simd(name)), 0)
    along = [name for name in axes if op.index and op.index[-1].coefficient(name) == 1]
    size = bytes_of(mem.dtype)
    if lanes * size != LINE or len(along) != 1 or axes[along[0]] % lanes or _is_read(frame, op):
        return False
    strides = [stride * size for stride in _strides(mem)]
    own = op.index[-1] - Affine.of(along[0])
    forms = zip((*op.index[:-1], own), strides, strict=True)
    return strides[-1] == size and all(_is_multiple(made, form, stride) for form, stride in forms)


def is_large(frame: CpuFrame, stores: Sequence[Store]) -> LlvmValue:
    """Whether all of the memories are large, and begin at a line."""
    w, held = frame.w, frame.w.true()
    for mem in dict.fromkeys(op.mem for op in stores):
        memory = frame.memories[mem.name]
        size = constant(I64, bytes_of(memory.type.dtype))
        for dim in memory.type.dims:
            size = w.mul(size, frame.affine(dim))
        begin = w.value(I64, f"ptrtoint {memory.pointer} to i64")
        aligned = w.compare("eq", w.binary("and", begin, constant(I64, LINE - 1)), constant(I64, 0))
        held = w.binary("and", held, w.binary("and", aligned, w.compare("sge", size, constant(I64, STREAMED))))
    return held


def _is_read(frame: CpuFrame, store: Store) -> bool:
    ops = (op for top in frame.kernel.function.body.body for op in top.walk())
    return any(isinstance(op, Load) and op.mem is store.mem for op in ops)


def _strides(mem: Mem) -> list[int]:
    """In elements; 0 where a number isn't known."""
    if mem.strides is not None:
        return [stride.value or 0 for stride in mem.strides]
    return [prod(dim.value or 0 for dim in mem.dims[number + 1 :]) for number in range(mem.rank)]


def _is_multiple(made: Definitions, form: Affine, stride: int) -> bool:
    """Whether a form times a stride in bytes is a whole number of lines."""
    if form.value == 0 or (stride and stride % LINE == 0):
        return True
    if not stride or form.constant * stride % LINE:
        return False
    for symbol, coefficient in form.terms:
        step, op = coefficient * stride, made.get(symbol) if isinstance(symbol, str) else None
        named = isinstance(op, Index) and _is_multiple(made, op.of, step)
        number = isinstance(op, Const) and isinstance(op.value, int) and op.value * step % LINE == 0
        if step % LINE and not named and not number:
            return False
    return True
