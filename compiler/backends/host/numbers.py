"""Scalars as tier 0 holds them (i64 is a Python int, f64 a float, the others NumPy scalars) and the operators on them. Integers
that leave their range and divisions by zero stop; floats follow IEEE 754."""

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from compiler.typed_ast.conversions import INT_RANGES, promote
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import DType
from runtime.lazy_numpy import np

I64_MIN, I64_MAX = -(2**63), 2**63 - 1

_DTYPES: dict[type, DType] = {int: DType.I64, float: DType.F64, bool: DType.BOOL}
"""By the class of a scalar; NumPy's classes join when a value of theirs comes."""
_OF_NUMPY = {
    "float64": DType.F64,
    "bool": DType.BOOL,
    "int64": DType.I64,
    "int8": DType.I8,
    "int16": DType.I16,
    "int32": DType.I32,
    "uint8": DType.U8,
    "uint16": DType.U16,
    "uint32": DType.U32,
    "uint64": DType.U64,
    "float16": DType.F16,
    "float32": DType.F32,
    "longlong": DType.I64,
    "ulonglong": DType.U64,
    "bfloat16": DType.BF16,
}
"""By the name that NumPy and ml_dtypes give a scalar's class."""


def dtype_of(value: object) -> DType | None:
    """The dtype of a scalar value; None for everything else."""
    kind = type(value)
    dtype = _DTYPES.get(kind)
    if dtype is None and kind.__module__ in ("numpy", "ml_dtypes") and kind.__name__ in _OF_NUMPY:
        dtype = _DTYPES[kind] = _OF_NUMPY[kind.__name__]
    return dtype


@cache
def scalar_class(dtype: DType) -> Callable[[Any], Any]:
    """What makes a value of the dtype from a Python number that fits."""
    match dtype:
        case DType.I64:
            return int
        case DType.F64:
            return float
        case DType.BOOL:
            return bool
        case DType.BF16:
            import ml_dtypes

            bfloat16: Callable[[Any], Any] = ml_dtypes.bfloat16
            return bfloat16
    kind = {"i": "int", "u": "uint", "f": "float"}[dtype.value[0]]
    class_: Callable[[Any], Any] = getattr(np, f"{kind}{dtype.bits}")
    return class_


def plain(value: Any, dtype: DType) -> Any:
    """The same number as a Python bool, int or float (every dtype's values are exact in those)."""
    if dtype is DType.BOOL:
        return bool(value)
    return float(value) if dtype.is_float else int(value)


def shown(value: Any) -> str:
    """A number as messages show it."""
    dtype = dtype_of(value)
    return str(value) if dtype is None else str(plain(value, dtype))


def overflow(text: str, dtype: DType) -> LibraryFault:
    low, high = INT_RANGES[dtype]
    return LibraryFault("0806", f"{text} does not fit in {dtype.value}", f"{dtype.value} holds {low} to {high}")


# ---- conversions -------------------------------------------------------------------------------------------------------


def loses_nothing(have: DType, want: DType) -> bool:
    """Whether values of one dtype become another's by themselves."""
    if have is want:
        return True
    return promote(have, want) is want


def cast_scalar(value: Any, have: DType, want: DType) -> Any:
    """`value as want`: floats round toward zero to ints; what falls out of range stops."""
    number = plain(value, have)
    if want is DType.BOOL:
        return number != 0
    if want.is_float:
        return float(number) if want is DType.F64 else _rounded(number, want)
    if have.is_float:
        if not math.isfinite(number):
            raise overflow(f"{number} as {want.value}", want)
        number = int(number)
    low, high = INT_RANGES[want]
    if not low <= number <= high:
        raise overflow(f"{shown(value)} as {want.value}", want)
    return scalar_class(want)(int(number))


def _rounded(number: float, dtype: DType) -> Any:
    with np.errstate(all="ignore"):
        return scalar_class(dtype)(float(number))


def join(left: DType, right: DType, left_weak: bool = False, right_weak: bool = False) -> DType | None:
    """The dtype in which two operands meet; None when they don't without a cast."""
    if left_weak == right_weak or left is right or DType.BOOL in (left, right):
        return promote(left, right)
    weak, strong = (left, right) if left_weak else (right, left)
    return DType.F64 if weak.is_float and not strong.is_float else strong


def unified(left: Any, right: Any, left_weak: bool, right_weak: bool, symbol: str) -> tuple[Any, Any, DType] | None:
    """Both operands as plain Python numbers of their common dtype; None when one is no number."""
    left_type, right_type = dtype_of(left), dtype_of(right)
    if left_type is None or right_type is None:
        return None
    common = join(left_type, right_type, left_weak, right_weak)
    if common is None:
        raise LibraryFault("0207", f"{left_type.value} and {right_type.value} have no common type", "convert one of them with `as`")
    return in_dtype(left, left_type, common), in_dtype(right, right_type, common), common


def in_dtype(value: Any, have: DType, want: DType) -> Any:
    """The number as `want` sees it, as a plain Python number."""
    return plain(value, have) if have is want else plain(cast_scalar(value, have, want), want)


# ---- arithmetic on plain numbers of one dtype ----------------------------------------------------------------------------


def divide_ints(left: int, right: int, dtype: DType = DType.I64) -> int:
    if right == 0:
        raise LibraryFault("0806", f"{left} / 0: division by zero")
    quotient = abs(left) // abs(right)
    return _checked(quotient if (left < 0) == (right < 0) else -quotient, left, "/", right, dtype)


def remainder_ints(left: int, right: int, dtype: DType = DType.I64) -> int:
    if right == 0:
        raise LibraryFault("0806", f"{left} % 0: division by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def power_ints(left: int, right: int, dtype: DType = DType.I64) -> int:
    if right < 0:
        raise LibraryFault("0806", f"{left} ** {right}: a negative power of an int", "raise a float instead: `x as f64`")
    if right > 64 and left not in (-1, 0, 1):
        raise overflow(f"{left} ** {right}", dtype)
    return _checked(left ** (right if right <= 64 else 64 + right % 2), left, "**", right, dtype)


def shift_left(left: int, right: int, dtype: DType = DType.I64) -> int:
    return _checked(left << _count(left, "<<", right, dtype), left, "<<", right, dtype)


def shift_right(left: int, right: int, dtype: DType = DType.I64) -> int:
    return left >> _count(left, ">>", right, dtype)


def _count(left: int, symbol: str, right: int, dtype: DType) -> int:
    if not 0 <= right < dtype.bits:
        raise LibraryFault("0806", f"{left} {symbol} {right}: the count is outside 0..{dtype.bits}")
    return right


def _checked(result: int, left: int, symbol: str, right: int, dtype: DType) -> int:
    low, high = INT_RANGES[dtype]
    if not low <= result <= high:
        raise overflow(f"{left} {symbol} {right}", dtype)
    return result


def divide_floats(left: float, right: float) -> float:
    try:
        return left / right
    except ZeroDivisionError:
        if left == 0 or left != left:
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder_floats(left: float, right: float) -> float:
    try:
        return math.fmod(left, right)
    except ValueError:
        return math.nan


def power_floats(left: float, right: float) -> float:
    try:
        return math.pow(left, right)
    except (OverflowError, ValueError):
        with np.errstate(all="ignore"):
            return float(np.power(np.float64(left), np.float64(right)))


_INTS: dict[str, Callable[[int, int, DType], int]] = {
    "+": lambda a, b, d: _checked(a + b, a, "+", b, d),
    "-": lambda a, b, d: _checked(a - b, a, "-", b, d),
    "*": lambda a, b, d: _checked(a * b, a, "*", b, d),
    "/": divide_ints,
    "%": remainder_ints,
    "**": power_ints,
    "<<": shift_left,
    ">>": shift_right,
    "&": lambda a, b, d: a & b,
}
ON_INTS: dict[str, Callable[[int, int], int]] = {
    "/": divide_ints,
    "%": remainder_ints,
    "**": power_ints,
    "<<": shift_left,
    ">>": shift_right,
}
"""Those of the operators on two i64 that have no Python spelling."""
_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": divide_floats,
    "%": remainder_floats,
    "**": power_floats,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def arithmetic(symbol: str, left: Any, right: Any, left_weak: bool = False, right_weak: bool = False) -> Any:
    """An arithmetic operator on two scalars; NotImplemented when one is none or the operator doesn't know their type. A shift gives an int
    of the type that is shifted, whatever the type of the count."""
    if symbol in ("<<", ">>") and not left_weak:
        shifted, count = dtype_of(left), dtype_of(right)
        if shifted is not None and count is not None and shifted.is_int and count.is_int:
            moved = _INTS[symbol](plain(left, shifted), plain(right, count), shifted)
            return moved if shifted is DType.I64 else scalar_class(shifted)(moved)
    both = unified(left, right, left_weak, right_weak, symbol)
    if both is None:
        return NotImplemented
    first, second, dtype = both
    if dtype.is_int:
        result: Any = _INTS[symbol](first, second, dtype)
        return result if dtype is DType.I64 else scalar_class(dtype)(result)
    if dtype is DType.BOOL or symbol not in _FLOATS:
        return NotImplemented
    result = _FLOATS[symbol](first, second)
    return result if dtype is DType.F64 else _rounded(result, dtype)


def compare(symbol: str, left: Any, right: Any, left_weak: bool = False, right_weak: bool = False) -> Any:
    """A comparison of two scalars, exact of any two ints; NotImplemented when one is none."""
    left_type, right_type = dtype_of(left), dtype_of(right)
    if left_type is not None and right_type is not None and left_type.is_int and right_type.is_int:
        return COMPARISONS[symbol](plain(left, left_type), plain(right, right_type))
    both = unified(left, right, left_weak, right_weak, symbol)
    if both is None:
        return NotImplemented
    first, second, _ = both
    return COMPARISONS[symbol](first, second)


def negate(value: Any) -> Any:
    """`-x` of a scalar; NotImplemented for everything else."""
    dtype = dtype_of(value)
    if dtype is None or dtype is DType.BOOL:
        return NotImplemented
    number = -plain(value, dtype)
    if dtype.is_float:
        return number if dtype is DType.F64 else _rounded(number, dtype)
    low, high = INT_RANGES[dtype]
    if not low <= number <= high:
        raise overflow(f"-({shown(value)})", dtype)
    return scalar_class(dtype)(number)
