"""Mathematical functions of one element (and a few of two or three) on scalars and tensors, each also a method.

Ints become f64 where the result is a real number; f16 and bf16 are calculated in f32 and rounded once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    UNKNOWN,
    DType,
    ListType,
    Scalar,
    TensorType,
    Type,
)
from runtime.bits import counted_bits
from runtime.tensor import Array, Tensor
from zynml.stdlib import integers, scalar_math
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import combine_types, combine_values, dtype_of, element_dtype, float_array, host_scalar, numpy_of, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.on_devices import called_there, chosen_there
from zynml.stdlib.operators import BINARY, apply_arrays, arithmetic_rule, is_operand, operand_array, shape_of, undefined
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import broadcast_dims, broadcast_shapes, dims_of, require_memory, tensor_type
from zynml.stdlib.structure import as_tensor_type

family = FunctionFamily()

Real = Callable[[Any], Any]


def _error_function(values: Any) -> Any:
    """erf in f64, element by element: NumPy has none."""
    wide = np.asarray(values, dtype=np.float64)
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(wide), dtype=np.float64)


def _sigmoid(x: Any) -> Any:
    # Both branches of the textbook's form stay finite for large arguments this way.
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small) + np.where(np.isnan(x), x, 0)


def _gelu(x: Any) -> Any:
    # -inf times the 0 of its factor would be nan; the limit is -0.
    result = np.asarray(x, dtype=np.float64) * 0.5 * (1.0 + _error_function(np.asarray(x, dtype=np.float64) / math.sqrt(2.0)))
    return np.where(np.isneginf(x), -0.0, result)


def _silu(x: Any) -> Any:
    return np.where(np.isneginf(x), -0.0, x * _sigmoid(x))


REAL: dict[str, tuple[Real, str]] = {
    "sqrt": (np.sqrt, "The square root."),
    "rsqrt": (lambda x: 1 / np.sqrt(x), "One over the square root."),
    "exp": (np.exp, "e to the power x."),
    "exp2": (np.exp2, "2 to the power x."),
    "log": (np.log, "The natural logarithm."),
    "log2": (np.log2, "The logarithm to base 2."),
    "log10": (np.log10, "The logarithm to base 10."),
    "sin": (np.sin, "The sine."),
    "cos": (np.cos, "The cosine."),
    "tan": (np.tan, "The tangent."),
    "asin": (np.arcsin, "The arc sine."),
    "acos": (np.arccos, "The arc cosine."),
    "atan": (np.arctan, "The arc tangent."),
    "sinh": (np.sinh, "The hyperbolic sine."),
    "cosh": (np.cosh, "The hyperbolic cosine."),
    "tanh": (np.tanh, "The hyperbolic tangent."),
    "erf": (_error_function, "The error function."),
    "sigmoid": (_sigmoid, "1 / (1 + exp(-x))."),
    "gelu": (_gelu, "x times the normal distribution function of x."),
    "silu": (_silu, "x * sigmoid(x)."),
}
"""Functions whose result is a float."""


def elementwise_type(calls: CallTypes, dtype_rule: Callable[[DType], DType]) -> Type:
    """The type of a function of one operand, which may be a scalar, a tensor or a list of numbers."""
    kind = subject(calls)
    if isinstance(kind, Scalar):
        return Scalar(dtype_rule(kind.dtype))
    if isinstance(kind, TensorType | ListType):
        tensor = as_tensor_type(kind)
        element = element_dtype(tensor) if tensor is not None else None
        return tensor_type(None if element is None else dtype_rule(element), dims_of(tensor) if tensor is not None else None)
    if kind is UNKNOWN:
        return UNKNOWN
    raise TypeFault("0203", f"a number or a tensor is expected here, not {kind}")


def real_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_float else DType.F64


def _real_rule(calls: CallTypes) -> Type:
    return elementwise_type(calls, real_dtype)


def operand(value: Any) -> Any:
    """A number or tensor as it is, a list of numbers as a tensor."""
    if isinstance(value, list):
        return to_tensor(value)
    if not is_operand(value):
        raise LibraryFault("0203", f"a number or a tensor is expected here, not {type_name(value)}")
    return value


def _given(value: Any, array: Array) -> Any:
    # what a reader may not write to is the same tensor elsewhere: the result is another
    return Tensor(array if array.flags.writeable else array.copy()) if isinstance(value, Tensor) else host_scalar(array)


_NUMBERS = (int, float, np.float32, *(np.dtype(name).type for name in ("i1", "i2", "i4", "u1", "u2", "u4", "u8")))
"""Classes of the numbers that native code has, too."""


def _real(name: str, function: Real) -> Callable[[Any], Any]:
    of_number = scalar_math.of_number(name, function)

    def run(self: Any) -> Any:
        if self.__class__ in _NUMBERS:
            return of_number(self)
        value = operand(self)
        dtype = dtype_of(value)
        assert dtype is not None
        array = value.contents if isinstance(value, Tensor) else np.asarray(value)
        with np.errstate(all="ignore"):
            result = np.asarray(function(float_array(array)))
            return _given(value, result.astype(numpy_of(real_dtype(dtype)), copy=False))

    return run


NO_KERNEL = {"log10", "trunc", "isnan", "isinf", "isfinite"}
"""Functions of one element that blocks don't know."""


def declare_unary(name: str, implementation: Callable[[Any], Any], rule: Callable[[CallTypes], Type], of: str = "int float") -> None:
    def run(settings: StdlibSettings, self: Any) -> Any:
        if self.__class__ is not Tensor or name in NO_KERNEL:
            return implementation(self)
        there = called_there(settings, f"{name}(a)", self)
        return implementation(self) if there is None else there

    run.__doc__ = implementation.__doc__
    family.tensor_method(name, f"tensor_{name}", result=rule, uses_settings=True)(run)
    family.method(of, name, result=rule, uses_settings=True)(run)


for _name, (_function, _doc) in REAL.items():
    _run = _real(_name, _function)
    _run.__doc__ = _doc
    declare_unary(_name, _run, _real_rule)


# ---- functions that keep the dtype -----------------------------------------------------------------------------------


def _sign(array: Array, dtype: DType) -> Array:
    return np.asarray(np.sign(float_array(array) if dtype.is_float else array)).astype(array.dtype, copy=False)


def _relu(array: Array, dtype: DType) -> Array:
    return np.asarray(np.maximum(array, array.dtype.type(0)))


def _rounding(function: Any) -> Callable[[Array, DType], Array]:
    def run(array: Array, dtype: DType) -> Array:
        return np.asarray(function(float_array(array))).astype(array.dtype, copy=False) if dtype.is_float else array

    return run


KEEPING: dict[str, tuple[Callable[[Array, DType], Array], str]] = {
    "abs": (lambda a, d: integers.absolute(a, d) if d.is_int else np.asarray(np.abs(a)), "The value without its sign."),
    "sign": (_sign, "-1, 0 or 1."),
    "relu": (_relu, "x where it is positive, else 0."),
    "floor": (_rounding(np.floor), "The largest whole number not above x."),
    "ceil": (_rounding(np.ceil), "The smallest whole number not below x."),
    "round": (_rounding(np.rint), "The nearest whole number, halves to even."),
    "trunc": (_rounding(np.trunc), "The whole part."),
}


def _number_dtype(dtype: DType) -> DType:
    if dtype is DType.BOOL:
        raise TypeFault("0203", "a number is expected here, not a bool")
    return dtype


def _keeping_rule(calls: CallTypes) -> Type:
    return elementwise_type(calls, _number_dtype)


def _keeping(function: Callable[[Array, DType], Array]) -> Callable[[Any], Any]:
    def run(self: Any) -> Any:
        value = operand(self)
        dtype = dtype_of(value)
        assert dtype is not None
        if dtype is DType.BOOL:
            raise LibraryFault("0203", f"a number is expected here, not {type_name(value)}")
        with np.errstate(all="ignore"):
            return _given(value, function(operand_array(value, dtype), dtype))

    return run


for _name, (_keep, _doc) in KEEPING.items():
    _run = _keeping(_keep)
    _run.__doc__ = _doc
    declare_unary(_name, _run, _keeping_rule)


def _bits_dtype(dtype: DType) -> DType:
    if dtype is DType.BOOL or not dtype.is_int:
        raise TypeFault("0203", f"bits of ints are counted, not those of {dtype.value}")
    return DType.I32


def _counting(operator: str) -> Callable[[Any], Any]:
    def run(self: Any) -> Any:
        value = operand(self)
        dtype = dtype_of(value)
        assert dtype is not None
        if dtype is DType.BOOL or not dtype.is_int:
            raise LibraryFault("0203", f"bits of ints are counted, not those of {type_name(value)}")
        return _given(value, counted_bits(operator, operand_array(value, dtype)).astype(np.int32))

    return run


for _name, _operator, _doc in (
    ("popcount", "popcount", "How many bits are 1."),
    ("clz", "leading_zeros", "How many bits stand above the highest that is 1; all of the type's where none is."),
    ("ctz", "trailing_zeros", "How many bits stand below the lowest that is 1; all of the type's where none is."),
):
    _run = _counting(_operator)
    _run.__doc__ = _doc
    declare_unary(_name, _run, lambda calls: elementwise_type(calls, _bits_dtype), "int")


def _test(function: Any) -> Callable[[Any], Any]:
    def run(self: Any) -> Any:
        value = operand(self)
        dtype = dtype_of(value)
        assert dtype is not None
        return _given(value, np.asarray(function(float_array(operand_array(value, dtype)))))

    return run


for _name, _ask, _doc in (
    ("isnan", np.isnan, "Whether it is no number."),
    ("isinf", np.isinf, "Whether it is infinite."),
    ("isfinite", np.isfinite, "Whether it is a finite number."),
):
    _run = _test(_ask)
    _run.__doc__ = _doc
    declare_unary(_name, _run, lambda calls: elementwise_type(calls, lambda dtype: DType.BOOL))


# ---- two and three operands ------------------------------------------------------------------------------------------


def _pair_rule(symbol: str) -> Callable[[CallTypes], Type]:
    arithmetic = arithmetic_rule(symbol)

    def rule(calls: CallTypes) -> Type:
        return arithmetic(CallTypes({"left": subject(calls), "right": calls["exponent"]}, {}))

    return rule


@family.tensor_method("pow", result=_pair_rule("pow"))
def power(self: Any, exponent: Any) -> Any:
    """`x ^ exponent`."""
    return BINARY["pow"](self, exponent)


family.method("int float", "pow", result=_pair_rule("pow"))(power)


def _atan2_rule(calls: CallTypes) -> Type:
    combined = arithmetic_rule("atan2")(CallTypes({"left": calls["y"], "right": calls["x"]}, {}))
    return _to_real(combined)


def _to_real(kind: Type) -> Type:
    if isinstance(kind, Scalar):
        return Scalar(real_dtype(kind.dtype))
    if isinstance(kind, TensorType) and isinstance(kind.element, Scalar):
        return TensorType(Scalar(real_dtype(kind.element.dtype)), kind.shape)
    return kind


@family.function("atan2", result=_atan2_rule)
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y)."""
    if not is_operand(y) or not is_operand(x):
        raise undefined("atan2", y, x)

    def work(a: Array, b: Array, dtype: DType) -> Array:
        if a.ndim == b.ndim == 0 and dtype not in (DType.F16, DType.BF16):
            return np.asarray(math.atan2(a, b)).astype(numpy_of(real_dtype(dtype)))
        return np.asarray(np.arctan2(float_array(a), float_array(b))).astype(numpy_of(real_dtype(dtype)), copy=False)

    return apply_arrays("atan2", y, x, work)


def _clamp_rule(calls: CallTypes) -> Type:
    arithmetic = arithmetic_rule("clamp")
    result = subject(calls)
    if isinstance(result, ListType):
        result = as_tensor_type(result) or UNKNOWN
    for name in ("low", "high"):
        result = arithmetic(CallTypes({"left": result, "right": calls[name]}, {}))
    return result


@family.tensor_method("clamp", "clip", result=_clamp_rule)
def clamp(self: Any, low: Any, high: Any) -> Any:
    """The value, moved to `low` or `high` where it lies beyond; nan stays."""
    value = operand(self)
    for bound in (low, high):
        if not is_operand(bound) or (dtype_of(value) is DType.BOOL and dtype_of(bound) is DType.BOOL):
            raise undefined("clamp", value, bound)
    raised = apply_arrays("clamp", value, low, lambda a, b, dtype: np.maximum(a, b))
    return apply_arrays("clamp", raised, high, lambda a, b, dtype: np.minimum(a, b))


family.method("int float", "clamp", result=_clamp_rule)(clamp)


@family.function("fma", result=lambda calls: _three(calls, "fma", ("a", "b", "c")))
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c."""
    return BINARY["add"](BINARY["mul"](a, b), c)


def _three(calls: CallTypes, symbol: str, names: tuple[str, str, str]) -> Type:
    arithmetic = arithmetic_rule(symbol)
    first = arithmetic(CallTypes({"left": calls[names[0]], "right": calls[names[1]]}, {}))
    return arithmetic(CallTypes({"left": first, "right": calls[names[2]]}, {}))


def _where_rule(calls: CallTypes) -> Type:
    condition, a, b = calls["condition"], calls["a"], calls["b"]
    if UNKNOWN in (condition, a, b):
        return UNKNOWN
    for kind in (condition, a, b):
        if not isinstance(kind, Scalar | TensorType):
            raise TypeFault("0203", f"`where` chooses between numbers or tensors, not {kind}")
    dtype = combine_types(a, b)
    tensors = [kind for kind in (condition, a, b) if isinstance(kind, TensorType)]
    if not tensors:
        return UNKNOWN if dtype is None else Scalar(dtype)
    dims = dims_of(tensors[0])
    for kind in tensors[1:]:
        dims = broadcast_dims(dims, dims_of(kind), "where")
    return tensor_type(dtype, dims)


@family.function("where", "Tensor::where", result=_where_rule, uses_settings=True)
def where(settings: StdlibSettings, condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds (a bool, or an int other than 0), else `b`."""
    kind = dtype_of(condition)
    if kind is None or kind.is_float:
        raise LibraryFault("0203", f"the condition of `where` is made of bools, not {type_name(condition)}")
    if not is_operand(a) or not is_operand(b):
        raise undefined("where", a, b)
    shape = broadcast_shapes(broadcast_shapes(shape_of(a), shape_of(b), "where"), shape_of(condition), "where")
    tensors = any(isinstance(value, Tensor) for value in (condition, a, b))
    dtype = combine_values(a, b)
    if (there := chosen_there(settings, condition, a, b, dtype, shape)) is not None:
        return there
    require_memory(shape, numpy_of(dtype).itemsize)
    mask = operand_array(condition, kind) != 0
    chosen = np.where(mask, operand_array(a, dtype), operand_array(b, dtype))
    return Tensor(chosen) if tensors else host_scalar(chosen)
