"""Takes away the checks of host functions that can't fail, as the ranges of their operands show, and says which stay.

for i in 0..8 { %x = cast %i to=i64   %e = element %cells, %x site=0   ... }      // cells: array<8 x i64>
=>  %e = element %cells, %x site=-1"""

from compiler.analysis.ranges import Range, Ranges, combined
from compiler.hir.core import Binary, Cast, dtype_of
from compiler.hir.host import Checked, Element, Narrow, Quotient, pointee
from compiler.hir.instruction import Instruction, Region
from compiler.hir.memory import Check
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import DTYPES, Array, is_float
from compiler.source import Span
from runtime.records import frozen


@frozen
class Proof:
    """A check of a function: the instruction, where it comes from, and whether it had to stay."""

    instruction: str
    span: Span | None
    kept: bool


def prove_checks(function: HirFunction) -> list[Proof]:
    """Change the function in place; every check that it had, in order."""
    proofs: list[Proof] = []
    _region(function.body, Ranges(function), proofs)
    return proofs


def _region(region: Region, ranges: Ranges, proofs: list[Proof]) -> None:
    for number, op in enumerate(tuple(region.body)):
        for inner in op.regions:
            _region(inner, ranges, proofs)
        if isinstance(op, Check):
            proofs.append(Proof(op.name, op.span, ranges.outcome(op.condition) is not True))
        if not isinstance(op, Checked | Element | Narrow | Quotient) or op.site < 0:
            continue
        cheaper = _without_check(op, ranges)
        proofs.append(Proof(op.name, op.span, cheaper is None))
        if cheaper is not None:
            cheaper.results, cheaper.span = op.results, op.span
            op.result.source = cheaper
            region.body[number] = cheaper
    region.body[:] = [op for op in region.body if not isinstance(op, Check) or ranges.outcome(op.condition) is not True]


def _without_check(op: Instruction, ranges: Ranges) -> Instruction | None:
    """The same without a check; None where it may fail."""
    match op:
        case Checked(operation=operation, left=left, right=right):
            holds = _defined(operation, ranges.of(left), ranges.of(right), dtype_of(left))
            return Binary(operator=operation, left=left, right=right) if holds else None
        case Quotient(left=left, right=right):
            holds = _defined("div", ranges.of(left), ranges.of(right), dtype_of(left))
            return Quotient(left=left, right=right, rounding=op.rounding, site=-1) if holds else None
        case Narrow(value=value, to=to) if not is_float(dtype_of(value)):
            return Cast(value=value, to=to) if _within(ranges.of(value), limits(to)) else None
        case Element(pointer=pointer, at=at, count=None):
            array = pointee(pointer)
            assert isinstance(array, Array) and array.count is not None
            return Element(pointer=pointer, at=at, site=-1) if _within(ranges.of(at), (0, array.count - 1)) else None
        case _:
            return None


def _defined(operation: str, a: Range, b: Range, dtype: str) -> bool:
    """Whether the operation has a result in its type for all numbers of the ranges."""
    low, high = limits(dtype)
    match operation:
        case "add" | "sub" | "mul":
            exact = combined(operation, a, b)
            return exact is not None and _within(exact, (low, high))
        case "div":
            return not _holds(b, 0) and not (low < 0 and _holds(a, low) and _holds(b, -1))
        case "rem":
            return not _holds(b, 0)
        case "shr":
            return _within(b, (0, DTYPES[dtype] - 1))
        case "shl":
            return _within(b, (0, DTYPES[dtype] - 1)) and _within((min(a[0] << b[1], a[0]), max(a[1] << b[1], a[1])), (low, high))
        case _:
            return False


def _within(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _holds(range_: Range, number: int) -> bool:
    return range_[0] <= number <= range_[1]
