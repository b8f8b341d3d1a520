"""Functions whose results are only seen after they were rounded to 16 bits or fewer: there the hardware's own, right to some 21 bits, is as
good as one that is right to 24. And extremes of floats of 16 bits, which are found two at once."""

from compiler.hir.build import Builder
from compiler.hir.core import Binary, Cast, Contract, Reduce, Scan, Select, Unary, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES, is_float
from compiler.passes.rewrite import rule

NARROW = 16
"""Bits of a float that hides what the hardware's functions are off by."""

FUNCTIONS = ("exp", "exp2", "tanh", "sqrt", "rsqrt", "div")
"""Those that are right to so many bits wherever they are read. Logarithms near 1 aren't."""


def loosen(field: HirFunction) -> None:
    """Grants approximation (`afn`) to the functions of a field whose values reach nothing but narrow floats. A strict one grants none."""
    if field.is_strict:
        return
    seen: set[Value] = set()
    """What is read by something that sees all of its bits."""
    for op in reversed(field.body.body):
        if isinstance(op, Unary | Binary) and op.operator in FUNCTIONS and _hides(dtype_of(op.result), op.result in seen):
            op.flags = (*op.flags, "afn")
        seen.update(_seen(op, seen))


def _hides(dtype: str, seen: bool) -> bool:
    """Whether a result of this type is rounded at once, or before anything sees its bits."""
    return is_float(dtype) and (DTYPES[dtype] <= NARROW or (dtype == "f32" and not seen))


def _seen(op: Instruction, seen: set[Value]) -> list[Value]:
    """The operands whose bits an instruction shows."""
    if isinstance(op, Cast) and is_float(op.to):
        return [] if DTYPES[op.to] <= NARROW or op.result not in seen else [op.value]
    if isinstance(op, Store) and is_float(mem_of(op.mem).dtype) and DTYPES[mem_of(op.mem).dtype] <= NARROW:
        return []
    if isinstance(op, Unary | Binary | Select | Reduce | Scan | Contract) and seen.isdisjoint(op.results):
        return [op.condition] if isinstance(op, Select) else []
    return list(op.operand_values)


@rule(Binary, Reduce)
def extremes_of_pairs(op: Binary | Reduce, into: Builder) -> Value | None:
    """max(f32(x), f32(y)) => f32(max(x, y)), also of all along an axis."""
    casts = [value.source for value in op.operand_values if isinstance(value.source, Cast) and is_float(value.source.to)]
    kinds, name = {dtype_of(cast.value) for cast in casts}, op.operator if isinstance(op, Binary) else op.monoid
    if len(casts) < len(op.operand_values) or len(kinds) > 1 or not kinds <= {"f16", "bf16"} or name not in ("min", "max"):
        return None
    values = [cast.value for cast in casts]
    narrow = into.op(name, *values) if isinstance(op, Binary) else into.reduce(name, *values, over=op.over)[0]
    return into.cast(narrow, casts[0].to)
