"""Pairs of f32 narrowed to 16 bits at once. One by one they go through the unit that exponentials are made in, four times slower."""


from compiler.backends.llvm.bundle import Bundle, is_simd, points
from compiler.backends.llvm.types import I32
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Cast, Pack2, dtype_of
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
