"""Leaves out the checks of a host function that its writer vouches for (`@unsafe_unchecked`): arithmetic wraps, an index isn't compared
with the length, a float that an int can't hold saturates. What it removed is told, so that a report can name each.

A division or a shift keeps its check: for some operands it has no result at all, not even a wrong one."""

from collections.abc import Iterator

from compiler.hir.core import Binary, Cast
from compiler.hir.host import Checked, Element, Narrow, Quotient
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction
from compiler.passes.prove_checks import Proof

WRAPPING = ("add", "sub", "mul")
"""Operations that have a result for all operands, modulo the type."""


def leave_checks_out(function: HirFunction) -> list[Proof]:
    """Change the function in place; every check that it had, in order, and whether it stays."""
    return list(_region(function.body))


def _region(region: Region) -> Iterator[Proof]:
    for number, op in enumerate(region.body):
        for inner in op.regions:
            yield from _region(inner)
        if not isinstance(op, Checked | Element | Narrow | Quotient) or op.site < 0:
            continue
        cheaper = _without_check(op)
        yield Proof(op.name, op.span, cheaper is None)
        if cheaper is not None:
            cheaper.results, cheaper.span = op.results, op.span
            op.result.source = cheaper
            region.body[number] = cheaper


def _without_check(op: Instruction) -> Instruction | None:
    match op:
        case Checked(operation=operation, left=left, right=right) if operation in WRAPPING:
            return Binary(operator=operation, left=left, right=right)
        case Narrow(value=value, to=to):
            return Cast(value=value, to=to)
        case Element(pointer=pointer, at=at, count=count):
            return Element(pointer=pointer, at=at, count=count, site=-1)
        case _:
            return None
