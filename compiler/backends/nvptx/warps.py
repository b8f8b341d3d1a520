"""The exchange of values within a warp: shuffles, votes, matches, reductions. All lanes take part."""

from collections.abc import Callable

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.arithmetic import to_memory
from compiler.backends.llvm.bundle import Bundle, scalar_bundle
from compiler.backends.llvm.types import I1, I32, I64
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.faults import special
from compiler.backends.nvptx.frame import ALL_LANES, NvptxFrame
from compiler.hir.gpu import Elect, MatchLanes, Redux, Shuffle, Vote
from compiler.machines.gpu import Feature

_MODES = {"idx": "idx", "up": "up", "down": "down", "xor": "bfly"}
_REDUX = {"add": "add", "and": "and", "or": "or", "xor": "xor"}


def _words(w: FunctionWriter, value: LlvmValue, make: Callable[[LlvmValue], LlvmValue]) -> LlvmValue:
    """`make` of each 32-bit word of a value of any type, and the value of the results."""
    type = value.type
    if type.lanes:
        result = value
        for lane in range(type.lanes):
            result = w.insert(result, _words(w, w.extract(value, lane), make), lane)
        return result
    if type.bits == 64:
        bits = w.convert("bitcast", value, "i64") if type.is_float else value
        low = make(w.convert("trunc", bits, "i32"))
        high = make(w.convert("trunc", w.binary("lshr", bits, constant(I64, 32)), "i32"))
        shifted = w.binary("shl", w.convert("zext", high, "i64"), constant(I64, 32))
        bits = w.binary("or", shifted, w.convert("zext", low, "i64"))
        return w.convert("bitcast", bits, type.element) if type.is_float else bits
    if type.is_float:
        return w.convert("bitcast", make(w.convert("bitcast", value, "i32")), type.element)
    if type.bits < 32:
        return w.convert("trunc", make(w.convert("zext", value, "i32")), type.element)
    return make(value)


def _exchange(w: FunctionWriter, mode: str, value: LlvmValue, lane: LlvmValue, width: int) -> LlvmValue:
    """The clamp word: where groups of lanes end, and in its low part the last lane that may be read (the first, for `up`)."""
    clamp = constant(I32, (32 - width) << 8 | (0 if mode == "up" else 31))
    name = f"llvm.nvvm.shfl.sync.{_MODES[mode]}.i32"
    return _words(w, value, lambda word: w.call(name, I32, ALL_LANES, word, lane, clamp))


def shuffle(frame: NvptxFrame, op: Shuffle) -> None:
    """Narrow floats are f32 in registers and travel so."""
    w, held, lane = frame.w, frame.values[op.value.name], frame.values[op.lane.name].scalar
    items = tuple(_exchange(w, op.mode, item, lane, op.width) for item in held.items)
    if op.mode == "xor" and op.width < 32:
        # The hardware stops lanes at the upper end of their group only: from the upper groups it reads into the lower ones.
        inside = w.compare("ult", lane, constant(I32, op.width))
        items = tuple(w.select(inside, other, own) for other, own in zip(items, held.items, strict=True))
    frame.define(op, Bundle(held.dtype, held.axes, held.simd, held.lanes, items))


def vote(frame: NvptxFrame, op: Vote) -> None:
    ballot = op.operation == "ballot"
    predicate = frame.values[op.predicate.name].scalar
    answer = frame.w.call(f"llvm.nvvm.vote.{op.operation}.sync", I32 if ballot else I1, ALL_LANES, predicate)
    frame.define(op, scalar_bundle("i32" if ballot else "i1", answer))


def match(frame: NvptxFrame, op: MatchLanes) -> None:
    """Compared are the bits, as memory would hold them."""
    w, held = frame.w, frame.values[op.value.name]
    bits = to_memory(w, held.scalar, held.dtype)
    if bits.type.is_float:
        bits = w.convert("bitcast", bits, f"i{bits.type.bits}")
    elif bits.type.bits < 32:
        bits = w.convert("zext", bits, "i32")
    if op.mode == "any":
        lanes = w.call(f"llvm.nvvm.match.any.sync.i{bits.type.bits}", I32, ALL_LANES, bits)
    else:
        name = f"llvm.nvvm.match.all.sync.i{bits.type.bits}p"
        lanes = w.parts([I32, I1], lambda type: f"call {type} @{name}({ALL_LANES}, {bits})")[0]
    frame.define(op, scalar_bundle("i32", lanes))


def elect(frame: NvptxFrame, op: Elect) -> None:
    """The first lane, where there is no instruction for it."""
    w = frame.w
    if frame.has(Feature.ELECTION):
        chosen = w.parts([I32, I1], lambda type: f"call {type} @llvm.nvvm.elect.sync({ALL_LANES})")[1]
    else:
        chosen = w.compare("eq", special(w, "laneid"), constant(I64, 0))
    frame.define(op, scalar_bundle("i1", chosen))


def redux(frame: NvptxFrame, op: Redux) -> None:
    """One instruction from sm_80 on; before, five exchanges."""
    w, held = frame.w, frame.values[op.value.name]
    value = held.scalar
    if frame.has(Feature.WARP_REDUCTIONS):
        word = _REDUX.get(op.operation) or ("u" if held.dtype == "u32" else "") + op.operation
        value = w.call(f"llvm.nvvm.redux.sync.{word}", I32, value, ALL_LANES)
    else:
        for bit in (16, 8, 4, 2, 1):
            other = _exchange(w, "xor", value, constant(I32, bit), 32)
            value = arithmetic.binary(w, op.operation, held.dtype, value, other)
    frame.define(op, scalar_bundle(held.dtype, value))
