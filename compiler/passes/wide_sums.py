"""Sums of floats of fewer than 32 bits are added up in f32 and rounded once: what may be added in any order has no order's roundings to
keep. `out[i, j] += A[i, k] * B[k, j]` is then the product that tensor cores make, whatever the type of `out` is."""

from compiler.hir.core import Binary, Const, Contract, Reduce, Select, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of, is_float

WIDE = "f32"


def wide_sums(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums in f32; itself where it has none."""
    if not any(map(_is_narrow, field.body.body)):
        return field
    out = FieldCopy.whole(field)
    for op in field.body.body:
        if _is_narrow(op):
            out.put(op.results[0], out.body.cast(_wide(out, op), dtype_of(op.results[0])))
        else:
            out.copy(op)
    return out.finish()


def _is_narrow(op: Instruction) -> bool:
    match op:
        case Contract() | Reduce(monoid="add", values=(_,)):
            dtype = dtype_of(op.results[0])
            return is_float(dtype) and bytes_of(dtype) < 4 and "reassoc" in op.flags
        case _:
            return False


def _wide(out: FieldCopy, op: Instruction) -> Value:
    match op:
        case Contract(accumulator=None):
            wide = out.rebuilt(op, to=WIDE)
        case Contract(accumulator=Value() as accumulator):
            wide = out.rebuilt(op, to=WIDE, accumulator=out.body.cast(out.values[accumulator], WIDE))
        case Reduce(values=(value,)):
            wide = out.rebuilt(op, values=(_term(out, value),))
        case _:
            raise AssertionError(f"{op.name} is no sum")
    return out.body.emit(wide).result


def _term(out: FieldCopy, value: Value) -> Value:
    """What is added up, in f32: a product isn't rounded before it is, nor one that a condition leaves out."""
    b, values = out.body, out.values
    match value.source:
        case Binary(operator="mul", left=left, right=right, flags=flags) if "contract" in flags:
            return b.mul(b.cast(values[left], WIDE), b.cast(values[right], WIDE), flags=flags)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return b.select(values[condition], _term(out, then), _term(out, otherwise))
        case Const(value=number):
            return b.const(number, WIDE)
        case _:
            return b.cast(values[value], WIDE)
