"""Kernels of sm_90 and later begin while the kernel before them on the stream still ends (programmatic dependent launch): blocks are
started, tensor maps fetched, barriers made and indices computed in the meantime. Before anything that memory could tell, all threads
wait until that kernel is complete and what it wrote can be seen. It had waited for its own, so it suffices to wait for one."""

from compiler.backends.nvptx.frame import Frame
from compiler.hir.control import Return
from compiler.hir.gpu import GridSync
from compiler.hir.instruction import Instruction, Region
from compiler.hir.memory import Check
from compiler.hir.types import Mem, Space

OVERLAPPING = 90
"""The architecture from which on kernels can begin early."""


def body(frame: Frame, region: Region) -> None:
    """A kernel's instructions, with the wait before the first of them that needs what came before."""
    waited = frame.target.number < OVERLAPPING
    for op in region.body:
        if not waited and _needs_others(op):
            _wait(frame)
            waited = True
        frame.emit(op)
    if not waited:
        # the next kernel takes this one's end for that of all before it
        _wait(frame)
    frame.kernel.early = frame.target.number >= OVERLAPPING and not frame.kernel.cooperative and __import__("os").environ.get("ZYN_PDL") != "off"


def _needs_others(op: Instruction) -> bool:
    """Whether memory outside of the block is touched anywhere in it, or the kernel left."""
    return any(isinstance(inner, Check | GridSync | Return) or any(map(_outside, inner.operand_values)) for inner in op.walk())


def _outside(value: object) -> bool:
    type = getattr(value, "type", None)
    return isinstance(type, Mem) and type.space in (Space.GLOBAL, Space.GENERIC)


def _wait(frame: Frame) -> None:
    import os
    how = os.environ.get("ZYN_PDL", "after")
    if how == "off":
        return
    if how == "before":
        frame.w.assembly("griddepcontrol.launch_dependents;", [], "", [])
    frame.w.assembly("griddepcontrol.wait;", [], "", [])
    if how == "after":
        frame.w.assembly("griddepcontrol.launch_dependents;", [], "", [])
