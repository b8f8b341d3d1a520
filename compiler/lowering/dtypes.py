"""Number types in kernel bodies: how two meet, what a sum of one is kept in, and their names in the HIR. Whether a number is
weak (an unsuffixed literal, a size) is the business of `numbers`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

ALIASES = {
    "int": DType.I64,
    "float": DType.F64,
    "float16": DType.F16,
    "float32": DType.F32,
    "float64": DType.F64,
    "bfloat16": DType.BF16,
    **{f"int{bits}": DType(f"i{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": DType(f"u{bits}") for bits in (8, 16, 32, 64)},
    **{dtype.value: dtype for dtype in DType},
}


def scalar_named(syntax: nodes.TypeSyntax | None) -> DType | None:
    """The number type that a written type names, None when it is no number."""
    if isinstance(syntax, nodes.NamedTypeSyntax) and not syntax.arguments:
        return ALIASES.get(syntax.name)
    return None


def hir_name(dtype: DType) -> str:
    """The HIR's name of the type: `bool` is `i1` there."""
    return "i1" if dtype is DType.BOOL else dtype.value


def join(a: DType, b: DType) -> DType:
    """The type in which two numbers meet. Ints with floats give the float, two floats of one width (f16 with bf16) f32, a signed with an
    unsigned int the signed one that holds both (i64 at most)."""
    if a is b:
        return a
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits == b.bits:
            return DType.F32
        return a if a.bits > b.bits else b
    if DType.BOOL in (a, b):
        return b if a is DType.BOOL else a
    if a.is_signed == b.is_signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    return DType(f"i{min(64, max(signed.bits, 2 * unsigned.bits))}")


def accumulator(dtype: DType) -> DType:
    """The type in which values of `dtype` are summed."""
    if dtype in (DType.F16, DType.BF16) or dtype.is_byte_float:
        return DType.F32
    if dtype in (DType.I8, DType.I16):
        return DType.I32
    if dtype in (DType.U8, DType.U16):
        return DType.U32
    return DType.I64 if dtype is DType.BOOL else dtype


def totalled(dtype: DType) -> DType:
    """The type in which the numbers that a reduction or a scan takes by `yield` are summed and multiplied: that of `x.sum()`."""
    if dtype.is_float:
        return accumulator(dtype)
    return DType.U64 if dtype.is_int and not dtype.is_signed else DType.I64


def widened(dtype: DType, sum_of: DType) -> DType:
    """The type in which a number of `dtype` is computed with where the result goes into a sum of `sum_of`. Ints that go into a sum of
    floats stay ints, wide enough for a product of two."""
    if sum_of.is_float and dtype.is_int:
        return accumulator(dtype) if dtype.bits < 32 else totalled(dtype)
    if dtype.is_float != sum_of.is_float or dtype.bits >= sum_of.bits:
        return dtype
    if dtype.is_signed and sum_of.is_int and not sum_of.is_signed:
        return DType(f"i{sum_of.bits}")
    return sum_of


def keeps_value(source: DType, target: DType) -> bool:
    """Whether every number of `source` may be taken as a `target` without a cast in the program."""
    if source is target or source is DType.BOOL:
        return True
    if target.is_float:
        return not source.is_float or join(source, target) is target
    return source.is_int and target.is_int and join(source, target) is target


def wrapped(value: int, dtype: DType) -> int:
    """The int as `dtype` holds it."""
    low = value & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


def lowest(dtype: DType) -> float | int | bool:
    """The identity of `max`."""
    if dtype.is_float:
        return float("-inf")
    if dtype is DType.BOOL:
        return False
    return -(1 << (dtype.bits - 1)) if dtype.is_signed else 0


def highest(dtype: DType) -> float | int | bool:
    """The identity of `min`."""
    if dtype.is_float:
        return float("inf")
    if dtype is DType.BOOL:
        return True
    return (1 << (dtype.bits - (1 if dtype.is_signed else 0))) - 1
