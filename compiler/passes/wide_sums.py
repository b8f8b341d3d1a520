"""Sums of floats of fewer than 32 bits are added up in f32 and rounded once: what may be added in any order has no order's roundings to
keep. `out[i, j] += A[i, k] * B[k, j]` is then the product that tensor cores make, whatever the type of `out` is."""

from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Const, Contract, Reduce, Select, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of, is_float

WIDE = "f32"


def wide_sums(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums in f32; itself where it has none."""
    if not any(map(_is_narrow, field.body.body)):
        return field
    out = FunctionBuilder(field.name, field.form)
    for name, extent in field.axes.items():
        out.axis(name, extent)
    values: dict[Value, Value] = {parameter: out.parameter(parameter.name, parameter.type) for parameter in field.parameters}
    for op in field.body.body:
        if _is_narrow(op):
            values[op.results[0]] = out.body.cast(_wide(out, op, values), dtype_of(op.results[0]))
        else:
            copy = out.body.emit(rebuilt(op, values.__getitem__), op.results[0].name if op.results else "")
            values.update(zip(op.results, copy.results, strict=True))
    new = out.finish()
    new.stands_for(field)
    return new


def _is_narrow(op: Instruction) -> bool:
    match op:
        case Contract() | Reduce(monoid="add", values=(_,)):
            dtype = dtype_of(op.results[0])
            return is_float(dtype) and bytes_of(dtype) < 4 and "reassoc" in op.flags
        case _:
            return False


def _wide(out: FunctionBuilder, op: Instruction, values: dict[Value, Value]) -> Value:
    b = out.body
    match op:
        case Contract(accumulator=accumulator):
            copy = rebuilt(op, values.__getitem__, to=WIDE)
            if accumulator is not None:
                copy = rebuilt(op, values.__getitem__, to=WIDE, accumulator=b.cast(values[accumulator], WIDE))
            return b.emit(copy).result
        case Reduce(values=(value,)):
            return b.emit(rebuilt(op, values.__getitem__, values=(_term(out, value, values),))).result
        case _:
            raise AssertionError(f"{op.name} is no sum")


def _term(out: FunctionBuilder, value: Value, values: dict[Value, Value]) -> Value:
    """What is added up, in f32: a product isn't rounded before it is, nor one that a condition leaves out."""
    b = out.body
    match value.source:
        case Binary(operator="mul", left=left, right=right, flags=flags) if "contract" in flags:
            return b.mul(b.cast(values[left], WIDE), b.cast(values[right], WIDE), flags=flags)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return b.select(values[condition], _term(out, then, values), _term(out, otherwise, values))
        case Const(value=number):
            return b.const(number, WIDE)
        case _:
            return b.cast(values[value], WIDE)
