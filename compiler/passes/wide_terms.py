"""Sums of 16-bit floats that are written out term by term are computed in f32 with their products, and rounded where something else reads
them, as sums that loops write are. For machines whose arithmetic is that of f32: each rounding in between takes several instructions."""

from compiler.hir.core import Binary, Select, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction

NARROW = ("f16", "bf16")
WIDE = "f32"


def wide_terms(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums in f32; itself where it has none."""
    if not any(isinstance(op, Binary) and _is_sum(op) for op in field.body.body):
        return field
    out, wide = FieldCopy.whole(field), dict[Value, Value]()

    def term(value: Value) -> Value:
        if value not in wide:
            wide[value] = out.body.cast(out.values[value], WIDE)
        return wide[value]

    for op in field.body.body:
        instead = None
        match op:
            case Binary(operator="mul", left=left, right=right) if _is_open(op):
                # its own factors are rounded
                left, right = (out.body.cast(out.values[value], WIDE) for value in (left, right))
                instead = out.body.mul(left, right, flags=op.flags)
            case Binary(left=left, right=right) if _is_sum(op):
                instead = out.body.op(op.operator, term(left), term(right), flags=op.flags)
            case Select(then=then, otherwise=otherwise) if then in wide or otherwise in wide:
                instead = out.body.select(out.values[op.condition], term(then), term(otherwise))
            case _:
                out.copy(op)
        if instead is not None:
            wide[op.results[0]] = instead
            out.put(op.results[0], out.body.cast(instead, dtype_of(op.results[0])))
    return out.finish()


def _is_open(op: Instruction) -> bool:
    return isinstance(op, Binary) and "contract" in op.flags and dtype_of(op.result) in NARROW


def _is_sum(op: Instruction) -> bool:
    return isinstance(op, Binary) and op.operator in ("add", "sub") and _is_open(op)
