"""Which type becomes which by itself: promotion of operands, joins of branches, and whether a value fits an expected type.
Shapes are the business of shapes.py; here two tensors fit when their elements do."""

from enum import Enum

from compiler.typed_ast.shapes import join_shapes
from compiler.typed_ast.type_parts import inner_types, outline
from compiler.typed_ast.types import (
    CHAR,
    ERROR,
    F64,
    STRING,
    UNKNOWN,
    DictType,
    DType,
    ErrorType,
    FunctionType,
    FutureType,
    ListType,
    NeverType,
    NoneType,
    OptionType,
    Scalar,
    SetType,
    TensorType,
    TupleType,
    Type,
    TypeVariable,
    UnknownType,
)

INT_RANGES: dict[DType, tuple[int, int]] = {
    d: ((-(1 << (d.bits - 1)), (1 << (d.bits - 1)) - 1) if d.is_signed else (0, (1 << d.bits) - 1)) for d in DType if d.is_int
}
_SIGNED = {8: DType.I8, 16: DType.I16, 32: DType.I32, 64: DType.I64}


class Fit(Enum):
    """How a value stands to the type that is expected of it."""

    YES = "yes"
    LOSSY = "lossy"
    NO = "no"


def is_silent(type_: Type) -> bool:
    """True of types about which nothing certain can be said."""
    return isinstance(type_, (UnknownType, ErrorType, NeverType))


def strong(type_: Type) -> Type:
    """The type of a variable that starts with this value: weak literals become i64 and f64."""
    match type_:
        case Scalar(dtype=dtype, weak=True):
            return Scalar(dtype)
        case ListType(element=element):
            return ListType(strong(element))
        case TupleType(elements=elements):
            return TupleType(tuple(map(strong, elements)))
        case FutureType(value=value):
            return FutureType(strong(value))
    return type_


def promote(a: DType, b: DType) -> DType | None:
    """The dtype that holds both operands; None when there is none (bool with a number, i64 with u64)."""
    if a is b:
        return a
    if DType.BOOL in (a, b):
        return None
    if a.is_float and b.is_float:
        if a.bits == b.bits:
            return DType.F32
        return a if a.bits > b.bits else b
    if a.is_float:
        return a
    if b.is_float:
        return b
    if a.is_signed == b.is_signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    return _SIGNED.get(unsigned.bits * 2)


def meet(a: Scalar, b: Scalar, int_beside_f32: DType = DType.F32) -> Scalar | None:
    """The type in which two numbers are computed: a weak literal takes the other's type, unless it is a float and the other an int."""
    if a.weak and b.weak:
        return Scalar(DType.F64, weak=True) if DType.F64 in (a.dtype, b.dtype) else a
    if a.weak or b.weak:
        weak, firm = (a, b) if a.weak else (b, a)
        if firm.dtype is DType.BOOL:
            return None
        return F64 if weak.dtype.is_float and firm.dtype.is_int else firm
    dtype = promote(a.dtype, b.dtype)
    if dtype is DType.F32 and (a.dtype.is_int or b.dtype.is_int):
        dtype = int_beside_f32
    return None if dtype is None else Scalar(dtype)


def scalar_fit(actual: Scalar, expected: Scalar, value: object = None) -> Fit:
    """Whether a scalar becomes another without loss. `value` is the number when it is a constant."""
    a, b = actual.dtype, expected.dtype
    if a is b and not actual.weak:
        return Fit.YES
    if DType.BOOL in (a, b):
        return Fit.YES if a is b else Fit.NO
    if b.is_float:
        if actual.weak or a.is_int:
            return Fit.YES
        return Fit.YES if promote(a, b) is b else Fit.LOSSY
    if a.is_float:
        return Fit.LOSSY
    if actual.weak:
        low, high = INT_RANGES[b]
        fits = not isinstance(value, int) or low <= value <= high
        return Fit.YES if fits else Fit.LOSSY
    return Fit.YES if promote(a, b) is b else Fit.LOSSY


def fit(actual: Type, expected: Type, value: object = None) -> Fit:
    """Whether a value of type `found` may stand where `expected` is asked for. Doubt counts as yes."""
    if is_silent(actual) or is_silent(expected) or actual == expected:
        return Fit.YES
    match actual, expected:
        case Scalar(), Scalar():
            return scalar_fit(actual, expected, value)
        case TensorType(), TensorType():
            return _element_fit(actual.element, expected.element)
        case TensorType(), Scalar():
            return _element_fit(actual.element, expected) if actual.shape.rank in (None, 0) else Fit.NO
        case Scalar(), TensorType():
            return _element_fit(actual, expected.element) if expected.shape.rank in (None, 0) else Fit.NO
        case ListType(), TensorType():
            return _list_fit(list_leaf(actual), expected.element)
        case FunctionType(parameters=a), FunctionType(parameters=b):
            return Fit.YES if len(a) == len(b) else Fit.NO
        case Scalar(weak=True), TypeVariable(bound="Number"):
            return Fit.YES if actual.dtype.is_int else Fit.NO
        case NoneType(), OptionType():
            return Fit.YES
        case _, OptionType(value=inner) if not isinstance(actual, OptionType):
            return fit(actual, inner, value)
    if {actual, expected} == {CHAR, STRING} or actual.may_be(expected):
        return Fit.YES
    inside = inner_types(actual)
    if inside and outline(actual) == outline(expected):
        return max((fit(a, b) for a, b in zip(inside, inner_types(expected), strict=True)), key=list(Fit).index)
    return Fit.NO


def fits(actual: Type, expected: Type) -> bool:
    """Whether a value of one type stands as it is, or widened without loss, where the other is expected."""
    return fit(actual, expected) is Fit.YES


def place_of(expected: Type | None) -> Type | None:
    """What a literal becomes where `T?` is expected: a `T`."""
    return place_of(expected.value) if isinstance(expected, OptionType) else expected


def _element_fit(actual: Type, expected: Type) -> Fit:
    return fit(actual, expected)


def _list_fit(leaf: Type, expected: Type) -> Fit:
    """A list of numbers as a tensor: a list is only made of f64 because its literals are, so any float type takes its floats."""
    if not isinstance(leaf, Scalar) and not is_silent(leaf):
        return Fit.NO
    if isinstance(leaf, Scalar) and isinstance(expected, Scalar) and leaf.dtype.is_float and expected.dtype.is_float:
        return Fit.YES
    return _element_fit(leaf, expected)


def list_leaf(found: Type) -> Type:
    """The element type inside all the lists of a nested list."""
    while isinstance(found, ListType):
        found = found.element
    return found


def join(a: Type, b: Type) -> Type:
    """A type that both values have; Unknown when they have none in common."""
    if a == b:
        return a
    if isinstance(a, NeverType):
        return b
    if isinstance(b, NeverType):
        return a
    if isinstance(a, ErrorType) or isinstance(b, ErrorType):
        return ERROR
    match a, b:
        case Scalar(), Scalar():
            return meet(a, b) or UNKNOWN
        case TensorType(), TensorType():
            element = a.element if a.element == b.element else UNKNOWN
            return TensorType(element, join_shapes(a.shape, b.shape), a.device if a.device == b.device else None)
        case ListType(element=x), ListType(element=y):
            return ListType(join(x, y))
        case DictType(), DictType():
            return DictType(join(a.key, b.key), join(a.value, b.value))
        case SetType(element=x), SetType(element=y):
            return SetType(join(x, y))
        case FutureType(value=x), FutureType(value=y):
            return FutureType(join(x, y))
        case OptionType(), NoneType():
            return a
        case NoneType(), OptionType():
            return b
        case OptionType(value=x), OptionType(value=y):
            return OptionType(strong(join(x, y)))
        case TupleType(elements=x), TupleType(elements=y) if len(x) == len(y):
            return TupleType(tuple(join(p, q) for p, q in zip(x, y, strict=True)))
    return UNKNOWN


def clash(a: Type, b: Type) -> bool:
    """True when no value can be of both types in any reading: a number and a text, tuples of two lengths."""
    if is_silent(a) or is_silent(b):
        return False
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        return meet(a, b) is None and (a.dtype is DType.BOOL) != (b.dtype is DType.BOOL)
    if isinstance(a, (Scalar, TensorType)) and isinstance(b, (Scalar, TensorType)):
        ranks = [t.shape.rank for t in (a, b) if isinstance(t, TensorType)]
        return len(ranks) == 1 and ranks[0] not in (None, 0)
    return fit(a, b) is Fit.NO and fit(b, a) is Fit.NO


def literal_type(suffix: str | None, is_float: bool) -> Type:
    """The type of a number literal by its suffix; `u8 f32 i64...`."""
    if suffix is None:
        return Scalar(DType.F64 if is_float else DType.I64, weak=True)
    dtype = DTYPE_NAMES.get(suffix)
    return Scalar(dtype) if dtype is not None else ERROR


DTYPE_NAMES: dict[str, DType] = {d.value: d for d in DType} | {
    "int": DType.I64,
    "float": DType.F64,
    "float16": DType.F16,
    "bfloat16": DType.BF16,
    "float32": DType.F32,
    "float64": DType.F64,
    **{f"int{n}": DType(f"i{n}") for n in (8, 16, 32, 64)},
    **{f"uint{n}": DType(f"u{n}") for n in (8, 16, 32, 64)},
}
