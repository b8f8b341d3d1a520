"""Arithmetic of whole numbers in the narrowest type that holds all of it: vectors have more lanes. What values can be follows from the
types of memory, from numbers written in the program and from reductions of constantly many terms."""

from math import prod

from compiler.analysis.ranges import Range, combined
from compiler.hir.core import Binary, Cast, Compare, Const, Reduce, Select, Unary, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import DTYPES, Tile, is_float

TYPES = ("i8", "i16", "i32")

EXACT = ("add", "sub", "mul", "min", "max")


def narrow_ints(field: HirFunction) -> HirFunction:
    """The field (form F) with all wider numbers in one narrower type; itself where that can't be, or where results are wider."""
    values = [value for op in field.body.body for value in op.results if isinstance(value.type, Tile) and dtype_of(value) != "i1"]
    if any(is_float(dtype_of(value)) for value in values):
        return field
    ranges: dict[Value, Range] = {}
    for op in field.body.body:
        for value in op.results:
            if value in values and dtype_of(value) != "index":
                ranges[value] = _within(_computed(op, ranges, field), limits(dtype_of(value)))
    for narrow in TYPES:
        wide = {value for value in ranges if DTYPES[dtype_of(value)] > DTYPES[narrow]}
        low, high = limits(narrow)
        if not any(isinstance(value.type, Tile) and value.type.axes for value in wide):
            return field
        if all(low <= ranges[value][0] and ranges[value][1] <= high for value in wide) and _can_be(field, wide):
            return _narrowed(field, wide, narrow)
    return field


def _within(range_: Range | None, whole: Range) -> Range:
    """What was computed where the type holds it; what wraps may be anything."""
    return range_ if range_ is not None and whole[0] <= range_[0] and range_[1] <= whole[1] else whole


def _computed(op: Instruction, ranges: dict[Value, Range], field: HirFunction) -> Range | None:
    """What the exact operation can give; None where no rule says."""
    known = [ranges[value] for value in op.operand_values if value in ranges]
    match op:
        case Const(value=number):
            return int(number), int(number)
        case Cast() if len(known) == 1:
            return known[0]
        case Select() if len(known) == 2:
            return min(low for low, _ in known), max(high for _, high in known)
        case Unary(operator="neg") if len(known) == 1:
            return -known[0][1], -known[0][0]
        case Binary(operator=operator) if operator in EXACT and len(known) == 2:
            return combined(operator, *known)
        case Reduce(monoid="add" | "min" | "max" as monoid, values=(_,)) if len(known) == 1:
            extents = [field.axes[axis].value or 0 for axis in op.over]
            (low, high), count = known[0], prod(extents)
            if count < 1:
                return None
            return (low, high) if monoid != "add" else (min(0, count * low), max(0, count * high))
        case _:
            return None


def _can_be(field: HirFunction, wide: set[Value]) -> bool:
    """Whether every instruction with one of these values can have it in another type."""
    for op in field.body.body:
        if wide.isdisjoint((*op.results, *op.operand_values)):
            continue
        match op:
            case Const() | Cast() | Select() | Compare() | Unary(operator="neg"):
                pass
            case Binary(operator=operator) if operator in EXACT:
                pass
            case Reduce(monoid="add" | "min" | "max", values=(_,)):
                pass
            case _:
                return False
        if any(name == value.name for value in wide for name in op.symbols):
            return False
    return True


def _narrowed(field: HirFunction, wide: set[Value], narrow: str) -> HirFunction:
    out = FieldCopy.whole(field)
    for op in field.body.body:
        match op:
            case Const(value=number) if op.result in wide and isinstance(op.result.type, Tile):
                out.put(op.result, out.body.const(number, Tile(narrow, op.result.type.axes)))
            case Cast(value=value) if op.result in wide:
                inner = out.values[value]
                out.put(op.result, inner if dtype_of(inner) == narrow else out.body.cast(inner, narrow))
            case _:
                out.copy(op)
    return out.finish()
