"""The operators on numbers, tensors and text, with ZynML's promotion and its integer faults; also casts.

Tier 0 calls them as `operator add` and so on. Indexing is in indexing.py, matmul in linalg.py."""

import math
import operator as python
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    BOOL,
    STRING,
    UNKNOWN,
    CharType,
    DType,
    ListType,
    OptionType,
    RangeType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
)
from runtime.tensor import Array, Tensor
from runtime.values import RecordValue, is_number_array
from zynml.stdlib import floats, integers
from zynml.stdlib.dtypes import (
    combine_types,
    combine_values,
    dtype_of,
    element_dtype,
    host_scalar,
    limits,
    numpy_of,
    require_fit,
    scalar_of,
    type_name,
)
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.on_devices import called_there, operated_there
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import broadcast_dims, broadcast_shapes, dims_of, require_memory, tensor_type
from zynml.stdlib.wrapped import is_wrapped, operated

family = FunctionFamily()

IntOperation = Callable[[int, int], int]
FloatOperation = Callable[[float, float], float]
ArrayOperation = Callable[[Array, Array, DType], Array]
Operation = TypeVar("Operation", bound=Callable[..., Any])

I64_LOW, I64_HIGH = limits(DType.I64)
NUMBER_TYPES = (int, float, np.generic)
"""What a host scalar number can be (bool is an int)."""


def undefined(symbol: str, left: Any, right: Any) -> LibraryFault:
    return LibraryFault("0208", f"`{symbol}` is not defined for {type_name(left)} and {type_name(right)}")


def _undefined_types(symbol: str, left: Type, right: Type, hint: str | None = None) -> TypeFault:
    return TypeFault("0208", f"`{symbol}` is not defined for {left} and {right}", hint=hint)


def is_number(value: Any) -> bool:
    return isinstance(value, NUMBER_TYPES)


def is_operand(value: Any) -> bool:
    return isinstance(value, Tensor) or is_number(value)


def operand_array(value: Any, dtype: DType) -> Array:
    """A number or tensor as an array of the dtype. A weak int that the dtype can't hold is a fault."""
    if isinstance(value, Tensor):
        wanted = numpy_of(dtype)
        return value.contents if value.dtype == wanted else value.contents.astype(wanted)
    if dtype.is_int and isinstance(value, int):
        require_fit(int(value), dtype)
    elif dtype.is_float and isinstance(value, int):
        value = float(value)
    if type(value) is float and -6e4 < value < 6e4:
        return np.asarray(value, dtype=numpy_of(dtype))
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(numpy_of(dtype))


def shape_of(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, Tensor) else ()


def apply_arrays(symbol: str, left: Any, right: Any, operation: Callable[[Array, Array, DType], Any], result: DType | None = None) -> Any:
    """Promotes two operands, broadcasts them and gives a tensor, or a scalar when neither was a tensor."""
    dtype = combine_values(left, right)
    shape = broadcast_shapes(shape_of(left), shape_of(right), symbol)
    require_memory(shape, numpy_of(result or dtype).itemsize)
    with np.errstate(all="ignore"):
        computed = np.asarray(operation(operand_array(left, dtype), operand_array(right, dtype), dtype))
    return Tensor(computed) if isinstance(left, Tensor) or isinstance(right, Tensor) else host_scalar(computed)


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def arithmetic_rule(symbol: str) -> Callable[[CallTypes], Type]:
    """The type of `left symbol right` for numbers and tensors, and of text joined by `+`."""

    def rule(calls: CallTypes) -> Type:
        left, right = calls["left"], calls["right"]
        if left is UNKNOWN or right is UNKNOWN:
            return _unknown_beside(left, right, symbol)
        if symbol == "+" and isinstance(left, StringType | CharType) and isinstance(right, StringType | CharType):
            return STRING
        if symbol == "+" and isinstance(left, ListType) and isinstance(right, ListType):
            return left if left == right else ListType(UNKNOWN)
        if not isinstance(left, Scalar | TensorType) or not isinstance(right, Scalar | TensorType):
            hint = 'an f-string joins text and values: f"{a}{b}"' if symbol == "+" and STRING in (left, right) else None
            raise _undefined_types(symbol, left, right, hint)
        dtype = combine_types(left, right)
        if dtype is DType.BOOL:
            raise _undefined_types(symbol, left, right, "convert with `as i64`, or use `and`, `or`")
        return _result(left, right, dtype, symbol)

    return rule


def _unknown_beside(left: Type, right: Type, symbol: str) -> Type:
    """An operand that isn't known yet may be a tensor, so only the rank of the other says something: nothing is certain."""
    for known in (left, right):
        if not isinstance(known, Scalar | TensorType | StringType | CharType) and known is not UNKNOWN:
            raise _undefined_types(symbol, left, right)
    return UNKNOWN


def _result(left: Type, right: Type, dtype: DType | None, symbol: str) -> Type:
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        return tensor_type(dtype, broadcast_dims(dims_of(left), dims_of(right), symbol))
    for tensor in (left, right):
        if isinstance(tensor, TensorType):
            return tensor_type(dtype, dims_of(tensor))
    weak = isinstance(left, Scalar) and isinstance(right, Scalar) and left.weak and right.weak
    return UNKNOWN if dtype is None else Scalar(dtype, weak)


def arithmetic(
    symbol: str, ints: IntOperation, floats: FloatOperation, int_arrays: ArrayOperation, ufunc: Any
) -> Callable[[Any, Any], Any]:
    """One arithmetic operator: exact on Python ints, IEEE on floats, checked on integer arrays."""

    def on_arrays(left: Array, right: Array, dtype: DType) -> Array:
        return int_arrays(left, right, dtype) if dtype.is_int else np.asarray(ufunc(left, right))

    def run(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is type(right):
            if kind is int:
                result = ints(left, right)
                if I64_LOW <= result <= I64_HIGH:
                    return result
                raise integers.overflow(symbol, DType.I64)
            if kind is float:
                return floats(left, right)
            if (kind is str or kind is list) and symbol == "+":
                return left + right
        if not is_operand(left) or not is_operand(right):
            return _on_abstract_types(symbol, left, right, run)
        if dtype_of(left) is DType.BOOL and dtype_of(right) is DType.BOOL:
            raise undefined(symbol, left, right)
        return apply_arrays(symbol, left, right, on_arrays)

    return run


def _on_abstract_types(symbol: str, left: Any, right: Any, run: Callable[[Any, Any], Any]) -> Any:
    value = operated(symbol, left, right, run) if is_wrapped(left) or is_wrapped(right) else None
    if value is None:
        raise undefined(symbol, left, right)
    return value


ARITHMETIC = {
    "add": ("+", python.add, python.add, integers.add, np.add),
    "sub": ("-", python.sub, python.sub, integers.subtract, np.subtract),
    "mul": ("*", python.mul, python.mul, integers.multiply, np.multiply),
    "div": ("/", integers.divide_ints, floats.divide, integers.divide, np.divide),
    "rem": ("%", integers.remainder_ints, floats.remainder, integers.remainder, np.fmod),
    "pow": ("^", integers.power_ints, floats.power, integers.power, floats.power_arrays),
}


def _named(run: Operation, symbol: str) -> Operation:
    run.__doc__ = f"`left {symbol} right`."
    return run


BINARY: dict[str, Callable[[Any, Any], Any]] = {}
"""Implementation of each binary operator by its name."""


def there_first(symbol: str, run: Callable[[Any, Any], Any], result: DType | None = None) -> Callable[[StdlibSettings, Any, Any], Any]:
    """The operator as programs call it: on floats that lie on a GPU by a kernel there."""

    def operate(settings: StdlibSettings, left: Any, right: Any) -> Any:
        if left.__class__ is not Tensor and right.__class__ is not Tensor:
            return run(left, right)
        there = operated_there(settings, symbol, left, right, result)
        return run(left, right) if there is None else there

    return _named(operate, symbol)


for _name, (_symbol, *_rest) in ARITHMETIC.items():
    BINARY[_name] = _named(arithmetic(_symbol, *_rest), _symbol)  # type: ignore[arg-type]
    _there = _symbol in ("+", "-", "*", "/")
    _run = there_first(_symbol, BINARY[_name]) if _there else BINARY[_name]
    family.function(f"operator {_name}", f"tensor_{_name}", result=arithmetic_rule(_symbol), uses_settings=_there)(_run)


# ---- bits ------------------------------------------------------------------------------------------------------------


def bits_rule(symbol: str) -> Callable[[CallTypes], Type]:
    inner = arithmetic_rule(symbol)

    def rule(calls: CallTypes) -> Type:
        left, right = calls["left"], calls["right"]
        for side in (left, right):
            dtype = element_dtype(side)
            if dtype is not None and not dtype.is_int:
                raise _undefined_types(symbol, left, right, "it works on ints")
        return inner(calls)

    return rule


def bits(symbol: str, ints: IntOperation, int_arrays: ArrayOperation) -> Callable[[Any, Any], Any]:
    general = arithmetic(symbol, ints, lambda a, b: math.nan, int_arrays, None)

    def run(left: Any, right: Any) -> Any:
        for side in (left, right):
            dtype = dtype_of(side)
            if dtype is None or not dtype.is_int:
                raise undefined(symbol, left, right)
        return general(left, right)

    return run


BITS = {
    "shl": ("<<", integers.shift_left_ints, integers.shift_left),
    "shr": (">>", integers.shift_right_ints, integers.shift_right),
    "bitand": ("&", python.and_, lambda a, b, dtype: np.bitwise_and(a, b)),
    "bitor": ("bit_or", python.or_, lambda a, b, dtype: np.bitwise_or(a, b)),
    "bitxor": ("bit_xor", python.xor, lambda a, b, dtype: np.bitwise_xor(a, b)),
}
_FREE_NAMES = {"bitand": ("bit_and",), "bitor": ("bit_or",), "bitxor": ("bit_xor",)}

for _name, (_symbol, _ints, _arrays) in BITS.items():
    BINARY[_name] = _named(bits(_symbol, _ints, _arrays), _symbol)
    family.function(f"operator {_name}", *_FREE_NAMES.get(_name, ()), result=bits_rule(_symbol))(BINARY[_name])


# ---- comparisons -----------------------------------------------------------------------------------------------------


def _comparable(left: Type, right: Type) -> bool:
    text = (StringType, CharType)
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return (left.dtype is DType.BOOL) == (right.dtype is DType.BOOL)
    if isinstance(left, text) or isinstance(right, text):
        return isinstance(left, text) and isinstance(right, text)
    return True


def comparison_rule(symbol: str) -> Callable[[CallTypes], Type]:
    equality = symbol in ("==", "!=")

    def rule(calls: CallTypes) -> Type:
        left, right = calls["left"], calls["right"]
        if isinstance(left, TensorType) and isinstance(right, TensorType | Scalar):
            return _result(left, right, DType.BOOL, symbol)
        if isinstance(right, TensorType) and isinstance(left, Scalar):
            return _result(left, right, DType.BOOL, symbol)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        ordered = isinstance(left, Scalar | StringType | CharType) and isinstance(right, Scalar | StringType | CharType)
        if isinstance(left, TensorType) != isinstance(right, TensorType) or not _comparable(left, right) or not (ordered or equality):
            raise _undefined_types(symbol, left, right)
        if equality and not _same_kind(left, right):
            raise _undefined_types(symbol, left, right)
        return BOOL

    return rule


def _same_kind(left: Type, right: Type) -> bool:
    match left, right:
        case (Scalar(), Scalar()) | (ListType(), ListType()) | (RangeType(), RangeType()) | (UnitType(), UnitType()):
            return True
        case (OptionType(), OptionType()):
            return True
        case TupleType(elements=a), TupleType(elements=b):
            return len(a) == len(b)
        case ((StringType() | CharType()), (StringType() | CharType())):
            return True
    return type(left) is type(right)


def comparison(symbol: str, test: Callable[[Any, Any], Any], ufunc: Any) -> Callable[[Any, Any], Any]:
    equality = symbol in ("==", "!=")

    def run(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is type(right) and (kind is int or kind is float or kind is str):
            return test(left, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            if not is_operand(left) or not is_operand(right):
                raise undefined(symbol, left, right)
            return compare_arrays(symbol, left, right, ufunc)
        if is_number(left) and is_number(right):
            if isinstance(left, bool | np.bool_) != isinstance(right, bool | np.bool_) or (
                isinstance(left, bool) and not equality and not isinstance(right, bool)
            ):
                raise undefined(symbol, left, right)
            return compare_numbers(left, right, test)
        if equality and isinstance(left, RecordValue) and isinstance(right, RecordValue):
            if kind is not type(right) and not (left.__record__.enum and left.__record__.enum == right.__record__.enum):
                raise undefined(symbol, left, right)
            return equal(left, right) == (symbol == "==")
        if equality and (kind is type(right) or (callable(left) and callable(right))):
            return equal(left, right) == (symbol == "==")
        return _on_abstract_types(symbol, left, right, run)

    return run


def compare_numbers(left: Any, right: Any, test: Callable[[Any, Any], Any]) -> bool:
    """Ints exactly; a weak float beside a narrower one rounds to it first, as in arithmetic."""
    a, b = dtype_of(left), dtype_of(right)
    assert a is not None and b is not None
    if a.is_int and b.is_int:
        return bool(test(int(left), int(right)))
    dtype = combine_values(left, right)
    return bool(test(float(scalar_of(left, dtype)), float(scalar_of(right, dtype))))


def compare_arrays(symbol: str, left: Any, right: Any, ufunc: Any) -> Tensor:
    for tensor, scalar in ((left, right), (right, left)):
        dtype = dtype_of(tensor)
        # An int that the tensor's dtype can't hold still compares, by value.
        if isinstance(tensor, Tensor) and isinstance(scalar, int) and dtype is not None and dtype.is_int:
            return Tensor(np.asarray(ufunc(*(side.contents if isinstance(side, Tensor) else side for side in (left, right)))))
    result: Tensor = apply_arrays(symbol, left, right, lambda a, b, dtype: ufunc(a, b), DType.BOOL)
    return result


def equal(left: Any, right: Any, depth: int = 0) -> bool:
    """Whether two values are equal: containers by their elements, tensors inside them by shape and elements."""
    if depth > 200:
        raise LibraryFault("0108", "values nested more than 200 deep can't be compared")
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        return left is right or (left.shape == right.shape and bool(np.array_equal(left.contents, right.contents)))
    if is_number_array(left) and is_number_array(right):
        return bool(np.array_equal(left, right))
    if isinstance(left, list | tuple) and type(left) is type(right):
        return len(left) == len(right) and all(equal(a, b, depth + 1) for a, b in zip(left, right, strict=True))
    if is_number(left) and is_number(right):
        return compare_numbers(left, right, python.eq)
    return type(left) is type(right) and bool(left == right)


COMPARISONS = {
    "eq": ("==", python.eq, np.equal),
    "ne": ("!=", python.ne, np.not_equal),
    "lt": ("<", python.lt, np.less),
    "le": ("<=", python.le, np.less_equal),
    "gt": (">", python.gt, np.greater),
    "ge": (">=", python.ge, np.greater_equal),
}

for _name, (_symbol, _test, _ufunc) in COMPARISONS.items():
    BINARY[_name] = _named(comparison(_symbol, _test, _ufunc), _symbol)
    _operate = there_first(_symbol, BINARY[_name], DType.BOOL)
    family.function(f"operator {_name}", result=comparison_rule(_symbol), uses_settings=True)(_operate)


# ---- logic -----------------------------------------------------------------------------------------------------------


def logic_rule(symbol: str) -> Callable[[CallTypes], Type]:
    def rule(calls: CallTypes) -> Type:
        left, right = calls["left"], calls["right"]
        for side in (left, right):
            if side is not UNKNOWN and element_dtype(side) not in (DType.BOOL, None):
                raise _undefined_types(symbol, left, right, "it works on bools; compare first: `x != 0`")
        if UNKNOWN in (left, right):
            return UNKNOWN
        if not isinstance(left, Scalar | TensorType) or not isinstance(right, Scalar | TensorType):
            raise _undefined_types(symbol, left, right, "it works on bools")
        return _result(left, right, DType.BOOL, symbol)

    return rule


def logic(symbol: str, ufunc: Any) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if dtype_of(left) is not DType.BOOL or dtype_of(right) is not DType.BOOL:
            raise undefined(symbol, left, right)
        return apply_arrays(symbol, left, right, lambda a, b, dtype: ufunc(a, b))

    return run


LOGIC: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or}

for _name, _combine in LOGIC.items():
    BINARY[_name] = _named(logic(_name, _combine), _name)
    family.function(f"operator {_name}", result=logic_rule(_name))(BINARY[_name])


def _negate_rule(calls: CallTypes) -> Type:
    kind = calls["operand"]
    dtype = element_dtype(kind)
    if kind is not UNKNOWN and not isinstance(kind, Scalar | TensorType):
        raise TypeFault("0208", f"unary `-` is not defined for {kind}")
    if dtype is DType.BOOL or (dtype is not None and dtype.is_int and not dtype.is_signed):
        raise TypeFault("0208", f"unary `-` is not defined for {kind}", hint="convert to a signed type with `as`")
    return kind


@family.function("operator neg", "tensor_neg", result=_negate_rule, uses_settings=True)
def negate_there(settings: StdlibSettings, operand: Any) -> Any:
    """`-x`."""
    there = called_there(settings, "-a", operand)
    return negate(operand) if there is None else there


def negate(operand: Any) -> Any:
    kind = type(operand)
    if is_wrapped(operand):
        return kind((negate(operand[0]),))
    if kind is float:
        return -operand
    if kind is int:
        return -operand if operand != I64_LOW else require_fit(-operand, DType.I64)
    dtype = dtype_of(operand)
    if dtype is None or dtype is DType.BOOL or (dtype.is_int and not dtype.is_signed):
        raise LibraryFault("0208", f"unary `-` is not defined for {type_name(operand)}")
    array = operand_array(operand, dtype)
    result = integers.negate(array, dtype) if dtype.is_int else np.asarray(np.negative(array))
    return Tensor(result) if isinstance(operand, Tensor) else host_scalar(result)


def _not_rule(calls: CallTypes) -> Type:
    kind = calls["operand"]
    if kind is not UNKNOWN and not (isinstance(kind, TensorType) and kind.element is UNKNOWN) and element_dtype(kind) is not DType.BOOL:
        raise TypeFault("0208", f"`not` is not defined for {kind}", hint="it works on bools; compare first: `x == 0`")
    return kind


@family.function("operator not", result=_not_rule)
def invert(operand: Any) -> Any:
    """`not x`."""
    if isinstance(operand, bool):
        return not operand
    if dtype_of(operand) is not DType.BOOL:
        raise LibraryFault("0208", f"`not` is not defined for {type_name(operand)}")
    return Tensor(np.logical_not(operand.contents)) if isinstance(operand, Tensor) else not operand
