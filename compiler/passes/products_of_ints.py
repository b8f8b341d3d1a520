"""Sums of products of whole numbers in the type whose vectors multiply fastest. Where a sum of floats takes products that are exact as
integers, factors that the float holds exactly are multiplied as floats: both ways round the same number once, and few machines have vectors
of 64-bit products, or a way from them to floats. Sums in 8 bits are kept in 16, of which the lower half is the same: vectors multiply no
bytes."""

from collections import Counter

from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Select, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES

EXACT_BITS = {"f32": 24, "f64": 53}
"""Bits of the integers that a float holds exactly."""

BYTES, PRODUCTS = ("i8", "u8"), "i16"


def products_of_ints(field: HirFunction) -> HirFunction:
    """The field (form F) with such sums; itself where it has none."""
    terms = _exact_terms(field)
    if not terms and not any(isinstance(op, Contract) and op.to in BYTES for op in field.body.body):
        return field
    out = FieldCopy.whole(field)
    for op in field.body.body:
        match op:
            case Cast(value=Value(source=Binary(left=left, right=right)), to=to) if op.result in terms:
                left, right = (out.body.cast(out.values[_narrow(factor)], to) for factor in (left, right))
                out.put(op.result, out.body.mul(left, right, flags=("contract",)))
            case Contract(a=a, b=b, to=to) if to in BYTES:
                a, b = (out.body.cast(out.values[factor], PRODUCTS) for factor in (a, b))
                total = out.body.emit(Contract(a=a, b=b, over=op.over, to=PRODUCTS, flags=op.flags)).result
                out.put(op.result, out.body.cast(total, to))
            case _:
                out.copy(op)
    return out.finish()


def _exact_terms(field: HirFunction) -> set[Value]:
    """Products made floats that only sums read, for which a negative zero is none."""
    uses = Counter(value for op in field.body.body for value in op.operand_values)
    terms: set[Value] = set()
    for op in field.body.body:
        if not isinstance(op, Reduce) or op.monoid != "add" or "contract" not in op.flags:
            continue
        for value in op.values:
            match value.source:
                case Select(then=then, otherwise=Value(source=Const(value=0))) if uses[value] == 1:
                    value = then
                case _:
                    pass
            if uses[value] == 1 and _is_exact(value):
                terms.add(value)
    return terms


def _is_exact(value: Value) -> bool:
    """Whether a value is a product of integers that doesn't overflow, made a float that holds both factors."""
    match value.source:
        case Cast(value=Value(source=Binary(operator="mul", left=left, right=right)) as product, to=to) if to in EXACT_BITS:
            dtype, factors = dtype_of(product), [dtype_of(_narrow(factor)) for factor in (left, right)]
            if dtype[0] not in "iu" or any(factor[0] not in "iu" or factor == "i1" for factor in factors):
                return False
            if dtype[0] == "u" and any(factor[0] == "i" for factor in factors):
                return False
            bits = sum(DTYPES[factor] for factor in factors) + (dtype[0] == "i" and "u" in {factor[0] for factor in factors})
            return bits <= DTYPES[dtype] and all(DTYPES[factor] <= EXACT_BITS[to] for factor in factors)
        case _:
            return False


def _narrow(factor: Value) -> Value:
    """A factor before it was made as wide as the product."""
    match factor.source:
        case Cast(value=inner) if dtype_of(inner)[0] in "iu" and dtype_of(inner) != "i1" and _holds(dtype_of(factor), dtype_of(inner)):
            return inner
        case _:
            return factor


def _holds(wide: str, narrow: str) -> bool:
    return DTYPES[wide] > DTYPES[narrow] and (wide[0] == narrow[0] or wide[0] == "i")
