"""Number types at work: which dtype an operation on two operands has, and how NumPy's results become a program's values.

A Python int or float is a weak number (it may come from a literal) and takes the other operand's dtype; who knows that a
scalar is an i64 or f64 for certain hands it over as np.int64 or np.float64."""

from struct import calcsize
from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import UNKNOWN, CharType, DType, ListType, RangeType, Scalar, StringType, TensorType, Type
from runtime.lazy_numpy import np
from runtime.tensor import Array, Tensor, dtype_name, numpy_dtype
from runtime.values import ElementSet, RecordValue, is_array

ALIASES = {
    "int": "i64",
    "float": "f64",
    **{f"{word}{bits}": f"{letter}{bits}" for word, letter in (("int", "i"), ("uint", "u")) for bits in (8, 16, 32, 64)},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}

_BY_NAME = {dtype.value: dtype for dtype in DType}
_PLAIN_CHARACTERS = frozenset("dlq?" if calcsize("l") == 8 else "dq?")
_PRECISION = {DType.F8E4M3: 0, DType.F8E5M2: 0, DType.F16: 1, DType.BF16: 1, DType.F32: 2, DType.F64: 3}


def dtype_of_name(name: str) -> DType | None:
    """The dtype of a name or alias (`f32`, `float32`), None when there is none."""
    return _BY_NAME.get(ALIASES.get(name, name))


def require_dtype(value: Any) -> DType:
    """The dtype given as a `dtype=` argument."""
    if isinstance(value, Scalar):
        return value.dtype
    if isinstance(value, DType):
        return value
    known = dtype_of_name(value) if isinstance(value, str) else None
    if known is None:
        raise LibraryFault("0203", f"`{value}` is no dtype", f"the dtypes are {', '.join(_BY_NAME)}")
    return known


def given_dtype(calls: CallTypes, default: DType | None = DType.F32) -> DType | None:
    """The dtype that a call's `dtype=` says; None when it is given but not constant."""
    if "dtype" not in calls.types and "dtype" not in calls.constants:
        return default
    constant = calls.constants.get("dtype")
    if constant is None:
        return default if "dtype" not in calls.types else None
    try:
        return require_dtype(constant)
    except LibraryFault as fault:
        raise TypeFault(fault.code, fault.message, "dtype", hint=fault.hint) from None


def join(left: DType, right: DType) -> DType | None:
    """The dtype that holds both, None when none does (u64 with a signed int)."""
    if left is right:
        return left
    if DType.BOOL in (left, right):
        return right if left is DType.BOOL else left
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.is_float:
        if _PRECISION[left] == _PRECISION[right]:
            return DType.F32
        return max(left, right, key=_PRECISION.__getitem__)
    if left.is_signed == right.is_signed:
        return max(left, right, key=lambda d: d.bits)
    signed, unsigned = (left, right) if left.is_signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return None if unsigned.bits == 64 else _BY_NAME[f"i{unsigned.bits * 2}"]


def _category(dtype: DType) -> int:
    return 0 if dtype is DType.BOOL else 1 if dtype.is_int else 2


def combine(left: DType, left_weak: bool, left_tensor: bool, right: DType, right_weak: bool, right_tensor: bool) -> DType | None:
    """The dtype of `left + right`. A scalar beside a tensor changes the tensor's dtype only from bool to int or from int to float."""
    if left_tensor != right_tensor:
        tensor, scalar = (left, right) if left_tensor else (right, left)
        return tensor if _category(scalar) <= _category(tensor) else scalar
    if left_weak != right_weak:
        weak, strong = (left, right) if left_weak else (right, left)
        return strong if _category(weak) <= _category(strong) else weak
    return join(left, right)


def combine_types(left: Type, right: Type) -> DType | None:
    """`combine` for static types; None where it is not known, TypeFault where the two have no common dtype."""
    a, b = element_dtype(left), element_dtype(right)
    if a is None or b is None:
        return None
    combined = combine(a, _weak(left), isinstance(left, TensorType), b, _weak(right), isinstance(right, TensorType))
    if combined is None:
        raise TypeFault("0207", f"{a.value} and {b.value} have no common type", hint="convert one of them with `as`")
    return combined


def _weak(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.weak


def element_dtype(kind: Type) -> DType | None:
    """The dtype of a scalar type or of a tensor type's elements, None if it is not known or there is none."""
    if isinstance(kind, TensorType):
        kind = kind.element
    return kind.dtype if isinstance(kind, Scalar) else None


def dtype_of(value: Any) -> DType | None:
    """The dtype of a host number or of a tensor's elements; None for anything else."""
    if value.__class__ is Tensor:
        return _BY_NAME[value.dtype_name]
    match value:
        case bool():
            return DType.BOOL
        case int():
            return DType.I64
        case float():
            return DType.F64
        case Tensor():
            return _BY_NAME[value.dtype_name]
        case np.generic():
            return array_dtype(value)
    return None


def array_dtype(array: Any) -> DType:
    """The dtype of an array or NumPy scalar."""
    return _BY_NAME[dtype_name(array.dtype)]


def is_weak(value: Any) -> bool:
    return type(value) is int or type(value) is float


def combine_values(left: Any, right: Any) -> DType:
    """`combine` for two numbers or tensors at run time."""
    a, b = dtype_of(left), dtype_of(right)
    assert a is not None and b is not None
    combined = combine(a, is_weak(left), isinstance(left, Tensor), b, is_weak(right), isinstance(right, Tensor))
    if combined is None:
        raise LibraryFault("0207", f"{a.value} and {b.value} have no common type", "convert one of them with `as`")
    return combined


def numpy_of(dtype: DType) -> "np.dtype[Any]":
    return numpy_dtype(dtype.value)


def limits(dtype: DType) -> tuple[int, int]:
    """The smallest and largest value of an integer dtype."""
    if dtype is DType.BOOL:
        return 0, 1
    return (-(1 << dtype.bits - 1), (1 << dtype.bits - 1) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)


def require_fit(value: int, dtype: DType, what: str | None = None) -> int:
    """The int itself, or fault 0806 when the dtype can't hold it."""
    low, high = limits(dtype)
    if not low <= value <= high:
        raise LibraryFault("0806", f"{what or value} does not fit {dtype.value} ({low} to {high})")
    return value


def require_number(value: Any, what: str) -> float:
    """A number argument as a Python float; fault 0203 for anything else."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.generic):
        raise LibraryFault("0203", f"{what} is a number, not {type_name(value)}")
    return float(value)


def require_bool(value: Any, what: str) -> bool:
    """A bool argument; fault 0203 for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise LibraryFault("0203", f"{what} is a bool, not {type_name(value)}")
    return bool(value)


def host_scalar(value: Any) -> Any:
    """A NumPy scalar or 0-d array as a program's scalar: bool, int for i64, float for f64, else the NumPy scalar."""
    return value.item() if value.dtype.char in _PLAIN_CHARACTERS else value[()]


def scalar_of(value: Any, dtype: DType) -> Any:
    """A number as a program's scalar of that dtype. Ints are checked, floats rounded."""
    if dtype is DType.F64:
        return float(value)
    if dtype is DType.I64:
        return require_fit(int(value), dtype)
    if dtype is DType.BOOL:
        return bool(value)
    if dtype.is_int:
        return numpy_of(dtype).type(require_fit(int(value), dtype))
    with np.errstate(all="ignore"):
        return numpy_of(dtype).type(float(value))


def float_array(array: Array) -> Array:
    """The array in a dtype in which NumPy computes well: narrower floats in f32, ints and bools in f64."""
    if array.dtype in (np.float32, np.float64):
        return array
    return array.astype(np.float32 if array_dtype(array).is_float else np.float64)


def type_name(value: Any) -> str:
    """The type of a host value as messages name it."""
    match value:
        case None:
            return "()"
        case str():
            return "String"
        case Tensor():
            inside = ", ".join(map(str, value.shape))
            return f"tensor[{inside + ', ' if inside else ''}{value.dtype_name}]"
        case RecordValue():
            return (value.__record__.enum or value.__record__.name).rpartition("·")[2]
        case _ if is_array(value):
            return "array"
        case list():
            return f"List<{type_name(value[0])}>" if value and not isinstance(value[0], list) else "List"
        case tuple():
            return f"({', '.join(map(type_name, value))})" if len(value) <= 8 else "tuple"
        case range():
            return "range"
        case ElementSet():
            return "HashSet"
        case dict():
            return "HashMap"
    dtype = dtype_of(value)
    if dtype is not None:
        return dtype.value
    return "function" if callable(value) else str(getattr(type(value), "__name__", "value"))


def tensor_or_scalar(element: DType | None) -> Type:
    return UNKNOWN if element is None else Scalar(element)


def is_number_type(kind: Type) -> bool:
    return isinstance(kind, Scalar)


def is_definite(kind: Type) -> bool:
    """Whether a static type says enough to object to it: no unknown at its root."""
    return isinstance(kind, Scalar | StringType | CharType | ListType | RangeType | TensorType)
