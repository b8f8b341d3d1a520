"""Which types have a native form: numbers, and what is made of them in place."""

from compiler.typed_ast.checker import Checker
from compiler.typed_ast.native_tensors import tensor_refused
from compiler.typed_ast.rules.parts import parts_of
from compiler.typed_ast.types import (
    ERROR,
    NEVER,
    UNIT,
    UNKNOWN,
    ArrayType,
    DType,
    EnumType,
    FunctionType,
    FutureType,
    ListType,
    NoneType,
    OptionType,
    RangeType,
    ResultType,
    Scalar,
    Size,
    StringType,
    StructType,
    TensorType,
    TupleType,
    Type,
)

_NO_FORM = {
    ListType: "a list",
    StringType: "text",
    TensorType: "a tensor",
    FutureType: "a future",
    FunctionType: "a function",
    RangeType: "a range",
}


def without_form(checker: Checker, type_: Type) -> str | None:
    """What keeps values of a type from having a native form, in words; None where they have one."""
    match type_:
        case Scalar(dtype=dtype):
            return None if dtype is DType.BOOL or dtype.is_int or dtype in (DType.F32, DType.F64) else f"{type_} is no native number"
        case ArrayType(size=Size(value=None)):
            return "the size of an array isn't known"
        case TupleType(elements=elements) if any(isinstance(part, TensorType) for part in elements):
            return next((words for part in elements if (words := _beside_tensor(checker, part)) is not None), None)
        case TupleType() | StructType() | EnumType() | OptionType() | ResultType() | ArrayType():
            held = parts_of(checker, type_) or ()
            return next((words for part in held if (words := without_form(checker, part)) is not None), None)
        case NoneType():
            return None
    if type_ in (UNIT, NEVER):
        return None
    if type_ in (UNKNOWN, ERROR):
        return "its type isn't known"
    return _NO_FORM.get(type_.__class__, f"{type_} has no native form")


def _beside_tensor(checker: Checker, part: Type) -> str | None:
    """What keeps a part of a tuple with tensors from having a native form: it is in registers as a whole."""
    if isinstance(part, TensorType):
        return tensor_refused(part)
    return without_form(checker, part) if isinstance(part, Scalar) else "a tuple of tensors and other than numbers"
