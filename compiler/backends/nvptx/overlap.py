"""Kernels of sm_90 and later begin while the kernel before them on the stream still ends (programmatic dependent launch): blocks are
started, tensor maps fetched, barriers made and indices computed in the meantime. Before anything that memory could tell, all threads
wait until that kernel is complete and what it wrote can be seen. It had waited for its own, so it suffices to wait for one.

No kernel says before its end that the next may come (`griddepcontrol.launch_dependents`): its last blocks are what that waits for,
and measured no faster."""

import re

from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.control import Return
from compiler.hir.gpu import GridSync
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Check
from compiler.hir.types import Mem, Space
from compiler.machines.gpu import Feature

WAIT = "griddepcontrol.wait;"
_KERNEL = re.compile(r"(?ms)^\.visible \.entry (\w+)\(.*?^\}")
_ACCESS = re.compile(r"\b(?:ld|st|atom|red|cp)\.[\w.:]*\bglobal\b")


def body(frame: NvptxFrame, region: Region) -> None:
    """A kernel's instructions, with the wait before the first of them that needs what came before."""
    overlapping = frame.has(Feature.EARLY_LAUNCHES)
    waited = not overlapping
    for op in region.body:
        if not waited and _needs_others(op):
            frame.w.assembly(WAIT, [], "", [])
            waited = True
        frame.emit(op)
    if not waited:
        # the next kernel takes this one's end for that of all before it
        frame.w.assembly(WAIT, [], "", [])
    frame.kernel.early = overlapping and not frame.kernel.cooperative


def _needs_others(op: Instruction) -> bool:
    """Whether memory outside of the block is touched anywhere in it, or the kernel left."""
    return any(isinstance(inner, Check | GridSync | Return) or any(map(_outside, inner.operand_values)) for inner in op.walk())


def _outside(value: Value) -> bool:
    return isinstance(value.type, Mem) and value.type.space in (Space.GLOBAL, Space.GENERIC)


def moved_ahead(ptx: str) -> str | None:
    """A kernel of this text in which an access stands before the wait; LLVM promises little about reads of memory that nobody writes."""
    for kernel in _KERNEL.finditer(ptx):
        before, wait, _ = kernel.group().partition(WAIT)
        if wait and _ACCESS.search(before):
            return kernel.group(1)
    return None
