"""Accesses that happen only where a condition holds, and the passed checks that are such conditions."""

from collections.abc import Iterator, Sequence

from compiler.backends.llvm.arithmetic import from_memory
from compiler.backends.llvm.frame import FunctionFrame, Guard
from compiler.backends.llvm.types import memory_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue
from compiler.hir.affine import Affine
from compiler.hir.types import bytes_of


def guards_of(frame: FunctionFrame, index: Sequence[Affine]) -> Iterator[Guard]:
    """The passed checks that speak of an access with this index."""
    for guard in frame.guards:
        if not guard.forms or any(form in guard.forms for form in index):
            yield guard


def is_guarded(frame: FunctionFrame, index: Sequence[Affine]) -> bool:
    return any(True for _ in guards_of(frame, index))


def load_where(
    w: FunctionWriter, pointer: LlvmValue, mask: LlvmValue | None, dtype: str, pad: LlvmValue, notes: str = "", align: int = 0
) -> LlvmValue:
    """The element at an address, `pad` where the mask is false; where `pad` is a vector, as many elements side by side, whose first
    is at a multiple of `align` bytes."""
    type, align = memory_type(dtype, pad.type.lanes), align or bytes_of(dtype)
    if mask is None:
        return from_memory(w, w.load(type, pointer, align, notes), dtype)
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(mask, inside, after)
    w.start(inside)
    loaded = from_memory(w, w.load(type, pointer, align, notes), dtype)
    end = w.block
    w.start(after)
    return w.phi(loaded.type, [(loaded, end), (pad, before)])
