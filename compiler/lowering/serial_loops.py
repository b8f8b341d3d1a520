"""Loops that the program marks as serial: what their turns add up keeps the written order."""

from compiler.hir.control import For
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import GetSlot, Load, MakeSlot, SetSlot, Store
from compiler.hir.module import HirFunction


def keep_written_order(function: HirFunction) -> None:
    """Takes the liberty to reassociate from operations by which turns of serial loops go on from one another."""
    for op in (inner for top in function.body.body for inner in top.walk()):
        if isinstance(op, For) and op.mark("serial"):
            _keep(op)


def _keep(loop: For) -> None:
    inside = list(loop.walk())
    own = {op.result for op in inside if isinstance(op, MakeSlot)}
    cells = {op.slot for op in inside if isinstance(op, SetSlot)} - own
    stored = {op.mem for op in inside if isinstance(op, Store)}
    handed: set[Value] = set(loop.body.parameters[1:])
    before = -1
    while before != len(handed) + len(cells):
        before = len(handed) + len(cells)
        for op in inside:
            if _goes_on(op, loop, cells, stored) or handed.intersection(op.operand_values):
                handed.update(op.results)
                if isinstance(op, SetSlot):
                    cells.add(op.slot)
    for op in inside:
        if "reassoc" in getattr(op, "flags", ()) and handed.intersection(op.operand_values):
            op.flags = tuple(flag for flag in op.flags if flag != "reassoc")  # type: ignore[attr-defined]


def _goes_on(op: Instruction, loop: For, cells: set[Value], stored: set[Value]) -> bool:
    """Whether it reads what another turn may have left."""
    if isinstance(op, GetSlot):
        return op.slot in cells
    return isinstance(op, Load) and op.mem in stored and not any(loop.variable.name in form.names for form in op.index)
