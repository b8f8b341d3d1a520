"""Integer arithmetic on arrays that stops at an overflow instead of wrapping. Bounds of the operands usually prove that none can
happen, so the check costs two passes over the inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import DType
from runtime.tensor import Array
from zynml.stdlib.dtypes import limits, numpy_of, require_fit

Bounds = tuple[int, int]


def bounds(array: Array) -> Bounds:
    """Smallest and largest element; zeros when there is none."""
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def overflow(operator: str, dtype: DType) -> LibraryFault:
    low, high = limits(dtype)
    return LibraryFault(
        "0806",
        f"integer overflow in `{operator}`: a result does not fit {dtype.value} ({low} to {high})",
        "convert to a wider type with `as`",
    )


def _corners(left: Bounds, right: Bounds, operation: Callable[[int, int], int]) -> Bounds:
    values = [operation(a, b) for a in left for b in right]
    return min(values), max(values)


def _fits(range_: Bounds, dtype: DType) -> bool:
    low, high = limits(dtype)
    return low <= range_[0] and range_[1] <= high


def checked(operator: str, ufunc: Any, exact: Callable[[int, int], int]) -> Callable[[Array, Array, DType], Array]:
    """`ufunc` on arrays of one integer dtype, faulting where the exact result doesn't fit. For operations whose extremes lie at
    the corners of the operands' bounds: `+ - *`."""

    def apply(left: Array, right: Array, dtype: DType) -> Array:
        corners = _corners(bounds(left), bounds(right), exact)
        if _fits(corners, dtype):
            return np.asarray(ufunc(left, right))
        if dtype.bits < 64:
            wide = np.asarray(ufunc(left.astype(np.int64), right.astype(np.int64)))
            return _narrow(wide, dtype, operator)
        return _narrow(np.asarray(ufunc(left.astype(object), right.astype(object)), dtype=object), dtype, operator)

    return apply


def _narrow(wide: Array, dtype: DType, operator: str) -> Array:
    low, high = limits(dtype)
    if wide.size and (wide.min() < low or wide.max() > high):
        raise overflow(operator, dtype)
    return wide.astype(numpy_of(dtype))


add = checked("+", np.add, lambda a, b: a + b)
subtract = checked("-", np.subtract, lambda a, b: a - b)
multiply = checked("*", np.multiply, lambda a, b: a * b)


def require_nonzero(right: Array, operator: str) -> None:
    if not right.all():
        where = tuple(int(i) for i in np.argwhere(right == 0)[0])
        where_words = f": the right operand is 0 at [{', '.join(map(str, where))}]" if where else ""
        operation = "division" if operator == "/" else "remainder"
        raise LibraryFault("0806", f"integer {operation} by zero{where_words}")


def divide(left: Array, right: Array, dtype: DType) -> Array:
    """Toward zero."""
    require_nonzero(right, "/")
    if not dtype.is_signed:
        return np.asarray(np.floor_divide(left, right))
    if left.size and right.size and int(left.min()) == limits(dtype)[0] and bool(np.any((left == limits(dtype)[0]) & (right == -1))):
        raise overflow("/", dtype)
    quotient = np.floor_divide(left, right)
    # Floor and truncation differ by one where the division is inexact and the signs differ.
    return np.asarray(quotient + ((np.fmod(left, right) != 0) & ((left < 0) != (right < 0))), dtype=quotient.dtype)


def remainder(left: Array, right: Array, dtype: DType) -> Array:
    """With the dividend's sign."""
    require_nonzero(right, "%")
    return np.asarray(np.fmod(left, right))


def power(left: Array, right: Array, dtype: DType) -> Array:
    if right.size and int(right.min()) < 0:
        raise negative_exponent(int(right.min()))
    base, exponent = bounds(left), bounds(right)
    largest = max(abs(base[0]), abs(base[1]))
    # 2^64 and more overflows all dtypes, so exact powers are needed only below.
    if largest <= 1 or exponent[1] * largest.bit_length() < dtype.bits - 1:
        return np.asarray(np.power(left, right))
    a, b = np.broadcast_arrays(left, right)
    if bool(np.any((np.abs(a.astype(np.float64)) > 1) & (b > 64))):
        raise overflow("^", dtype)
    b = np.where(np.abs(a.astype(np.float64)) <= 1, b % 2 + 2 * (b > 0), b) if exponent[1] > 64 else b
    return _narrow(np.asarray(np.power(a.astype(object), b.astype(object)), dtype=object), dtype, "^")


def negative_exponent(exponent: int) -> LibraryFault:
    return LibraryFault("0806", f"an integer to the negative power {exponent} is no integer", "use a float base: `x as f64`")


def shift_left(left: Array, right: Array, dtype: DType) -> Array:
    require_shift(right, dtype)
    return _narrow(np.asarray(np.left_shift(left.astype(object), right.astype(object)), dtype=object), dtype, "<<")


def shift_right(left: Array, right: Array, dtype: DType) -> Array:
    require_shift(right, dtype)
    return np.asarray(np.right_shift(left, right))


def require_shift(right: Array, dtype: DType) -> None:
    low, high = bounds(right)
    if low < 0 or high >= dtype.bits:
        wrong = low if low < 0 else high
        raise LibraryFault("0806", f"a shift by {wrong} is outside 0 to {dtype.bits - 1}, the range for {dtype.value}")


def negate(array: Array, dtype: DType) -> Array:
    low, high = bounds(array)
    if not _fits((-high, -low), dtype):
        raise overflow("-", dtype)
    return np.asarray(np.negative(array))


def absolute(array: Array, dtype: DType) -> Array:
    if array.size and dtype.is_signed and int(array.min()) == limits(dtype)[0]:
        raise overflow("abs", dtype)
    return np.asarray(np.abs(array))


# ---- Python ints -----------------------------------------------------------------------------------------------------


def divide_ints(left: int, right: int) -> int:
    if right == 0:
        raise LibraryFault("0806", "integer division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder_ints(left: int, right: int) -> int:
    if right == 0:
        raise LibraryFault("0806", "integer remainder by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def power_ints(left: int, right: int) -> int:
    if right < 0:
        raise negative_exponent(right)
    if abs(left) > 1 and right > 64:
        raise overflow("^", DType.I64)
    exponent = right if abs(left) > 1 or right == 0 else 2 - right % 2
    return int(left**exponent)


def shift_left_ints(left: int, right: int) -> int:
    if not 0 <= right < 64:
        require_shift(np.array(require_fit(right, DType.I64)), DType.I64)
    return left << right


def shift_right_ints(left: int, right: int) -> int:
    if not 0 <= right < 64:
        require_shift(np.array(require_fit(right, DType.I64)), DType.I64)
    return left >> right
