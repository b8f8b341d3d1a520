"""Loops that are left to LLVM, in which it may take the program's liberties. Only there, and only of what such a loop reduces, an extreme
of floats is told it by name: it then joins terms in any order. Others are compared and chosen, which takes three instructions, and fewer
on the way from one turn to the next."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.llvm.plain import emit_plain
from compiler.hir.control import For, While
from compiler.hir.core import Binary, dtype_of
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Store
from compiler.hir.types import is_float


@contextmanager
def liberties(frame: CpuFrame, loop: For | While) -> Iterator[None]:
    """What is emitted meanwhile, the loop, has the flags of the program's liberties."""
    frame.w.module.liberties = True
    if isinstance(loop, For):
        frame.late = {value.name for value in loop.body.parameters[1:]}
        inside = [op for top in loop.body.body for op in top.walk()]
        frame.reduced = set() if any(isinstance(op, Store) for op in inside) else set(frame.late)
        for op in inside:
            if not frame.late.isdisjoint(value.name for value in op.operand_values):
                frame.late.update(value.name for value in op.results)
    yield
    frame.w.module.liberties = False
    frame.late, frame.reduced = set(), set()


def is_extreme(op: Instruction) -> bool:
    return isinstance(op, Binary) and op.operator in ("min", "max") and is_float(dtype_of(op.result))


def emit_extreme(frame: CpuFrame, op: Binary) -> None:
    """An extreme of floats. Its first operand is asked whether it is NaN: one that doesn't wait for the turn before."""
    module = frame.w.module
    module.reorders = not frame.reduced.isdisjoint((op.left.name, op.right.name))
    if module.reorders:
        frame.reduced.add(op.result.name)
    if op.left.name in frame.late and op.right.name not in frame.late:
        turned = Binary(operator=op.operator, left=op.right, right=op.left, flags=op.flags)
        turned.results, op = op.results, turned
    emit_plain(frame, op)
    module.reorders = False
