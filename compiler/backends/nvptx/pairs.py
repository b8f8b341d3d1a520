"""Pairs of floats of 16 bits. f32 are narrowed two at once: one by one they go through the unit that exponentials are made in, four times
slower. Arithmetic takes two at once, in half the instructions that it takes in f32, and needs no rounding behind it."""

from compiler.backends.llvm.bundle import Bundle, is_simd, points, static_axes
from compiler.backends.llvm.narrow import to_bits
from compiler.backends.llvm.types import I32, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant, poison
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Binary, Cast, Pack2, dtype_of
from compiler.hir.types import Tile
from compiler.machines.gpu import Feature

_NARROWED = {"bf16": "cvt.rn.bf16x2.f32", "f16": "cvt.rn.f16x2.f32"}


def narrows(frame: NvptxFrame, op: Pack2) -> bool:
    """Whether the pairs were f32 before."""
    cast = op.value.source
    if not isinstance(cast, Cast) or cast.to not in _NARROWED or dtype_of(cast.value) != "f32" or not frame.has(Feature.NARROW_FLOATS):
        return False
    return not is_simd(op.over) and frame.values[cast.value.name].simd is None and op.over in dict(frame.values[cast.value.name].axes)


def pack(frame: NvptxFrame, op: Pack2) -> None:
    """As memory holds them, the first in the low half."""
    cast = op.value.source
    assert isinstance(cast, Cast)
    source = frame.values[cast.value.name]
    rest = tuple(axis for axis in source.axes if axis[0] != op.over)
    words = []
    for point in points(rest):
        low, high = (source.at({**point, op.over: number}) for number in (0, 1))
        words += frame.w.assembly(f"{_NARROWED[cast.to]} $0, $1, $2;", [I32], "f,f", [high, low], pure=True)
    frame.define(op, Bundle("u32", rest, None, 0, tuple(words)))


_OPERATIONS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "min": "minimum", "max": "maximum"}
_ELEMENTS = {"f16": "half", "bf16": "bfloat"}


def computes(frame: NvptxFrame, op: Binary) -> bool:
    """Whether all elements of the result have a neighbour, along its lanes or some axis."""
    type = op.result.type
    if not isinstance(type, Tile) or type.dtype not in _ELEMENTS or op.operator not in _OPERATIONS or not frame.has(Feature.NARROW_FLOATS):
        return False
    axes, _, lanes = static_axes(type, frame.w.module.backend)
    return lanes % 2 == 0 if lanes else any(size % 2 == 0 for _, size in axes)


def compute(frame: NvptxFrame, op: Binary) -> None:
    """Each result is rounded once, as from f32: that has more than twice the bits."""
    w, type = frame.w, op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, w.module.backend)
    sources, element = [frame.values[value.name] for value in op.operand_values], _ELEMENTS[type.dtype]

    def combined(a: LlvmValue, b: LlvmValue) -> LlvmValue:
        a, b = (w.convert("bitcast", _bits(w, value, type.dtype), element) for value in (a, b))
        name = _OPERATIONS[op.operator]
        result = w.intrinsic(name, a, b) if op.operator in ("min", "max") else w.binary(name, a, b)
        return _halves_of_words(w, result) if type.dtype == "bf16" else w.convert("fpext", result, "float")

    if simd is not None:
        items = [combined(*(w.splat(source.at(point), lanes) for source in sources)) for point in points(axes)]
    else:
        along = next(name for name, size in reversed(axes) if size % 2 == 0)
        made: dict[tuple[int, ...], LlvmValue] = {}
        for first in points(axes):
            if first[along] % 2:
                continue
            second, two = {**first, along: first[along] + 1}, []
            for source in sources:
                low, high = source.at(first), source.at(second)
                vector = low.type.with_lanes(2)
                two.append(w.splat(low, 2) if low is high else w.insert(w.insert(poison(vector), low, 0), high, 1))
            pair = combined(*two)
            made |= {(*point.values(),): w.same_number(w.extract(pair, lane), pair) for lane, point in enumerate((first, second))}
        items = [made[*point.values(),] for point in points(axes)]
    frame.define(op, Bundle(type.dtype, axes, simd, lanes, tuple(items)))


def _bits(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """Of what was rounded where it was made."""
    if dtype == "f16" or not value.text.startswith("%"):
        return to_bits(w, value, dtype)
    bits = w.convert("bitcast", value, "i32")
    return w.convert("trunc", w.binary("lshr", bits, constant(bits.type, 16)), "i16")


def _halves_of_words(w: FunctionWriter, pairs: LlvmValue) -> LlvmValue:
    """The f32 of an even number of bf16: an instruction each, which shifts the lower half of a word up, or leaves the upper one."""
    type = vector("float", pairs.type.lanes)
    words, result = w.value(vector("i32", type.lanes // 2), f"bitcast {pairs} to <{type.lanes // 2} x i32>"), poison(type)
    for number in range(type.lanes // 2):
        word = w.extract(words, number)
        for half, bits in enumerate((w.binary("shl", word, constant(I32, 16)), w.binary("and", word, constant(I32, 0xFFFF0000)))):
            result = w.insert(result, w.convert("bitcast", bits, "float"), 2 * number + half)
    w.known_bf16.add(result.text)
    return result
