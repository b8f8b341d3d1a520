"""Counts in 32 bits: a sum of i64 whose terms are small is one of i32 where it has so few terms that no part of it passes what these hold.
Where ints are added in 32 bits, those of 64 take two additions and two registers. What products come to stays as it is: units for products
say how wide their sums are."""

from collections.abc import Callable, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const, Contract, Index, Reduce, Select, Unary, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.numbers import limits
from compiler.hir.types import is_float

MOST = (1 << 31) - 1
PRODUCTS = (Binary, Contract, Reduce)
"""What may be products, in types where they may be large."""


def narrow_counts(field: HirFunction, most: Callable[[Sequence[Affine]], int | None]) -> HirFunction:
    """The field (form F) with such sums in i32; itself where it has none. `most`: how many points extents have together, at most."""
    values = {value.name: value for op in field.body.body for value in op.results}
    counts = set()
    for op in field.body.body:
        if isinstance(op, Reduce) and op.monoid == "add" and len(op.values) == 1 and dtype_of(op.values[0]) == "i64":
            largest, terms = _largest(op.values[0], values), most([field.axes[axis] for axis in op.over])
            if largest is not None and terms is not None and largest * terms <= MOST:
                counts.add(op)
    if not counts:
        return field
    out = FieldCopy.whole(field)
    for op in field.body.body:
        if op in counts:
            assert isinstance(op, Reduce)
            (value,) = (out.body.cast(out.values[value], "i32") for value in op.values)
            out.put(op.results[0], out.body.cast(out.body.reduce("add", value, over=op.over)[0], "i64"))
        else:
            out.copy(op)
    return out.finish()


def _largest(value: Value, values: Mapping[str, Value]) -> int | None:
    """What a term's magnitude is at most; None for what may be anything, and for products. `values`: those that names stand for."""
    match value.source:
        case Const(value=number):
            return abs(int(number))
        case Select(then=then, otherwise=otherwise):
            sides = _largest(then, values), _largest(otherwise, values)
            return None if sides[0] is None or sides[1] is None else max(sides[0], sides[1])
        case Unary(operator="popcount"):
            return 64
        case Index(of=Affine(terms=((str(name), 1),), constant=0)) if name in values:
            return _largest(values[name], values)
        case Cast(value=inner) if dtype_of(inner) == "i1":
            return 1
        case Cast(value=inner) if isinstance(inner.source, Const | Select | Unary | Index) and not is_float(dtype_of(inner)):
            return _largest(inner, values)
        case Cast(value=inner) if not (isinstance(inner.source, PRODUCTS) or is_float(dtype_of(inner)) or dtype_of(inner) == "index"):
            low, high = limits(dtype_of(inner))
            return max(-low, high)
    return None
