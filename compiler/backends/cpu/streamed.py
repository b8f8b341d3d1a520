"""Results that no cache holds are stored past the caches, where loops fill whole lines of these: else each line would be read before it is
written. Such a loop is in the code twice; the size of the result decides as it runs."""

from collections.abc import Collection, Mapping, Sequence

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.llvm.bundle import is_simd
from compiler.backends.llvm.types import I64
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For, While
from compiler.hir.core import FLOAT_FUNCTIONS, Binary, Const, Index, Unary
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Mem, Tile, bytes_of

LINE = 64
"""Bytes of a line of the cache, which one vector fills."""

STREAMED = 12 << 20
"""Bytes of a result from which it is stored past the caches: with what is read beside it, more than the last one holds."""

FAR_ROWS, PAGE = 1 << 20, 4096
"""Bytes of a result from which it is stored past the caches where the rows of a square that is turned lie a multiple of so many apart:
their lines have few places in each cache, and leave it one for the other."""

LEAST_ROW = 1024
"""Bytes of a row from which that is worth it where other loops run between rows, as sums of rows do: each row begins anew to fill lines."""

Definitions = Mapping[str, Instruction]


def streamed_by(frame: CpuFrame, loop: For) -> list[Store]:
    """The stores of an innermost loop that fill whole lines of a result."""
    inside = [op for top in loop.body.body for op in top.walk()]
    wide = any("+avx512f" in text for text in frame.kernel.module.attributes)
    # functions take longer than memory, and a store past the caches keeps those behind it waiting
    functions = any(isinstance(op, Unary) and op.operator in FLOAT_FUNCTIONS for op in inside)
    if not wide or functions or loop.carried or any(isinstance(op, For | While) for op in inside):
        return []
    made = made_in(frame, loop)
    return [op for op in inside if isinstance(op, Store) and fills_lines(frame, op, made)]


def made_in(frame: CpuFrame, loop: For) -> Definitions:
    """Instructions by their results, those of a loop too."""
    return {**frame.definitions, **{value.name: op for top in loop.body.body for op in top.walk() for value in op.results}}


def fills_lines(frame: CpuFrame, op: Store, made: Definitions) -> bool:
    """Whether each vector that is stored lies on a line of its own, or on one with those beside it, if the memory begins at a line and the
    sizes are as `_whole_lines` asks. `made`: instructions by their results."""
    return _whole_lines(frame, op, made) is not None


def _whole_lines(frame: CpuFrame, op: Store, made: Definitions) -> list[Affine] | None:
    """The numbers of bytes that must be whole lines for that; None where nothing makes sure of it."""
    mem, type = mem_of(op.mem), op.value.type
    if op.mem not in frame.kernel.function.parameters or not mem.noalias or op.where is not None or not isinstance(type, Tile):
        return None
    axes = {name: extent.value or 0 for name, extent in type.axes}
    lanes = next((extent for name, extent in axes.items() if is_simd(name)), 0)
    along = [name for name in axes if op.index and op.index[-1].coefficient(name) == 1]
    size = bytes_of(mem.dtype)
    if len(along) != 1 or axes[along[0]] % max(lanes, 1) or _is_read(frame, op):
        return None
    # squares beside each other fill a line together
    if not lanes or axes[along[0]] * size % LINE or (is_simd(along[0]) and lanes * size != LINE):
        return None
    strides = _strides(mem)
    if strides[-1].value != 1:
        return None
    sizes = {parameter.name for parameter in frame.kernel.function.parameters}
    asked: list[Affine] = []
    for form, stride in zip((*op.index[:-1], op.index[-1] - Affine.of(along[0])), strides, strict=True):
        more = _asked(made, sizes, form, stride * size)
        if more is None:
            return None
        asked += more
    return asked


def is_large(frame: CpuFrame, loop: For, stores: Sequence[Store], made: Definitions) -> LlvmValue:
    """Whether all of the memories are large and begin at a line, and what is stored goes on in whole lines, and, by rows, in long ones."""
    w, held = frame.w, frame.w.true()
    by_rows = _is_beside_others(frame, loop, stores)
    for mem in dict.fromkeys(op.mem for op in stores):
        memory = frame.memories[mem.name]
        size = constant(I64, bytes_of(memory.type.dtype))
        for dim in memory.type.dims:
            size = w.mul(size, frame.affine(dim))
        large = w.compare("sge", size, constant(I64, STREAMED))
        for apart in (_rows_apart(frame, op) for op in stores if op.mem is mem):
            if apart is not None and (apart.number or 0) % PAGE == 0:
                far = w.compare("eq", w.binary("and", apart, constant(I64, PAGE - 1)), constant(I64, 0))
                large = w.binary("or", large, w.binary("and", far, w.compare("sge", size, constant(I64, FAR_ROWS))))
        begin = w.value(I64, f"ptrtoint {memory.pointer} to i64")
        held = w.binary("and", held, w.binary("and", _is_on_line(w, begin), large))
        if by_rows:
            row = w.mul(frame.affine(memory.type.dims[-1]), constant(I64, bytes_of(memory.type.dtype)))
            held = w.binary("and", held, w.compare("sge", row, constant(I64, LEAST_ROW)))
    for form in dict.fromkeys(form for op in stores for form in _whole_lines(frame, op, made) or ()):
        held = w.binary("and", held, _is_on_line(w, frame.affine(form)))
    return held


def _rows_apart(frame: CpuFrame, op: Store) -> LlvmValue | None:
    """The bytes between rows of a square that was turned; None where it is none."""
    mem, type = mem_of(op.mem), op.value.type
    assert isinstance(type, Tile)
    for number, form in enumerate(op.index[:-1]):
        if any(is_simd(name) and form.coefficient(name) == 1 for name in type.axis_names):
            apart = constant(I64, bytes_of(mem.dtype))
            for extent in mem.dims[number + 1 :] if mem.strides is None else [mem.strides[number]]:
                apart = frame.w.mul(apart, frame.affine(extent))
            return apart
    return None


def _is_beside_others(frame: CpuFrame, loop: For, stores: Sequence[Store]) -> bool:
    """Whether loops that store none of these results run in each turn of the loop around."""
    if not (around := loops_around(frame, loop)):
        return False
    memories = {op.mem for op in stores}
    inside = [op for op in around[-1].walk() if isinstance(op, For | While) and op is not loop and op is not around[-1]]
    return any(not any(isinstance(inner, Store) and inner.mem in memories for inner in op.walk()) for op in inside)


def loops_around(frame: CpuFrame, loop: For) -> list[For | While]:
    """From the outermost in."""
    every = [op for top in frame.kernel.function.body.body for op in top.walk() if isinstance(op, For | While)]
    return [op for op in every if op is not loop and any(inner is loop for inner in op.walk())]


def _is_on_line(w: FunctionWriter, number: LlvmValue) -> LlvmValue:
    return w.compare("eq", w.binary("and", number, constant(I64, LINE - 1)), constant(I64, 0))


def _is_read(frame: CpuFrame, store: Store) -> bool:
    ops = (op for top in frame.kernel.function.body.body for op in top.walk())
    return any(isinstance(op, Load) and op.mem is store.mem for op in ops)


def _strides(mem: Mem) -> list[Affine]:
    """In elements. Where dimensions have extents that only a launch knows, a divisor of all strides outside of these."""
    if mem.strides is not None:
        return list(mem.strides)
    strides, stride = list[Affine](), Affine.of(1)
    for dim in reversed(mem.dims):
        strides.append(stride)
        stride = stride * dim.value if dim.value is not None else dim * stride.value if stride.value is not None else stride
    return strides[::-1]


def _asked(made: Definitions, sizes: Collection[str], form: Affine, stride: Affine) -> list[Affine] | None:
    """What must be whole lines, so that a form times a stride in bytes is; None where nothing makes sure of it. `sizes`: names that a
    launch knows."""
    if form.value == 0:
        return []
    if stride.value is None:
        return [stride]
    if form.constant * stride.value % LINE:
        return None
    asked: list[Affine] = []
    for symbol, coefficient in form.terms:
        step, op = stride.value * coefficient, made.get(symbol) if isinstance(symbol, str) else None
        if step % LINE == 0:
            continue
        match op:
            case Index():
                parts = [op.of]
            case Const(value=int(number)):
                parts = [Affine.of(number)]
            case Binary(operator="min" | "max"):
                parts = [Affine.of(value.name) for value in op.operand_values]
            case None if isinstance(symbol, str) and symbol in sizes:
                asked.append(Affine.of(symbol) * step)
                continue
            case _:
                return None
        for part in parts:
            more = _asked(made, sizes, part, Affine.of(step))
            if more is None:
                return None
            asked += more
    return asked
