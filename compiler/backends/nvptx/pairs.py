"""Pairs of f32 narrowed to 16 bits at once. One by one they go through the unit that exponentials are made in, four times slower. Pairs of
whole numbers of a few bits are the fraction of a power of two, which one FMA takes away again."""


import struct

from compiler.backends.llvm.bundle import Bundle, is_simd, points
from compiler.backends.llvm.types import I32
from compiler.backends.llvm.writer import constant
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Binary, Cast, Const, Pack2, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import DTYPES
from compiler.machines.gpu import Feature

_NARROWED = {"bf16": "cvt.rn.bf16x2.f32", "f16": "cvt.rn.f16x2.f32"}
_FRACTION = {"bf16": (7, 0x4300, 0x3F80), "f16": (10, 0x6400, 0x3C00)}
"""Bits of the fraction; the power of two whose last bit is 1; and 1."""


def narrows(frame: NvptxFrame, op: Pack2) -> bool:
    """Whether the pairs were f32 before."""
    cast = op.value.source
    if not isinstance(cast, Cast) or cast.to not in _NARROWED or dtype_of(cast.value) != "f32" or not frame.has(Feature.NARROW_FLOATS):
        return False
    if (few := _fraction(op)) is not None:
        held = frame.values[few[0].name]
        return DTYPES[dtype_of(few[0])] == 32 and not is_simd(op.over) and held.simd is None and op.over in dict(held.axes)
    return not is_simd(op.over) and frame.values[cast.value.name].simd is None and op.over in dict(frame.values[cast.value.name].axes)


def _fraction(op: Pack2) -> tuple[Value, int] | None:
    """The ints of a few bits that a pair is, and what is added to them."""
    match op.value.source:
        case Cast(to=to, value=Value(source=Binary(operator="add", left=Value(source=Cast(value=bits)), right=further))):
            match bits.source, further.source:
                case Binary(operator="and", right=Value(source=Const(value=mask))), Const(value=number) if mask < 1 << _FRACTION[to][0]:
                    return bits, int(number)
    return None


def pack(frame: NvptxFrame, op: Pack2) -> None:
    """As memory holds them, the first in the low half."""
    cast, w = op.value.source, frame.w
    assert isinstance(cast, Cast)
    few = _fraction(op)
    source = frame.values[(cast.value if few is None else few[0]).name]
    rest = tuple(axis for axis in source.axes if axis[0] != op.over)
    words = []
    for point in points(rest):
        low, high = (source.at({**point, op.over: number}) for number in (0, 1))
        if few is None:
            words += w.assembly(f"{_NARROWED[cast.to]} $0, $1, $2;", [I32], "f,f", [high, low], pure=True)
        else:
            bits, power, one = _FRACTION[cast.to]
            word = w.binary("or", w.binary("or", low, w.binary("shl", high, constant(I32, 16))), constant(I32, power << 16 | power))
            back = _bits(few[1] - (1 << bits), cast.to)
            factors = [word, constant(I32, one << 16 | one), constant(I32, back << 16 | back)]
            words += w.assembly(f"fma.rn.{cast.to}x2 $0, $1, $2, $3;", [I32], "r,r,r", factors, pure=True)
    frame.define(op, Bundle("u32", rest, None, 0, tuple(words)))


def _bits(number: int, dtype: str) -> int:
    """A whole number as a float of 16 bits."""
    return int.from_bytes(struct.pack("<e", number) if dtype == "f16" else struct.pack("<f", number)[2:], "little")
