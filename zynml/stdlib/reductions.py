"""Reductions of tensors: over all elements (a scalar) or over `axis=` (a tensor, or a scalar when no axis is left). `max`, `min`
and `sum` also take lists and scalars."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    I64,
    UNKNOWN,
    DType,
    ListType,
    RangeType,
    Scalar,
    ShapeExpr,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from runtime.tensor import Array, Tensor, is_foreign
from zynml.stdlib.dtypes import array_dtype, element_dtype, float_array, host_scalar, limits, numpy_of, require_bool, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.on_devices import gpu_of, reduced_there
from zynml.stdlib.operators import BINARY, apply_arrays, arithmetic_rule, is_number, is_operand, undefined
from zynml.stdlib.sequences import extreme, numbers_array
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import dims_of, is_int, require_axis, shape_text, static_axis, tensor_type
from zynml.stdlib.structure import as_tensor_type, contents_of

family = FunctionFamily()

Reduction = Callable[[Array, tuple[int, ...], bool], Array]

REDUCED = ("axis", "keepdims")


# ---- types -----------------------------------------------------------------------------------------------------------


def summed_dtype(dtype: DType) -> DType:
    """Of sums and products."""
    if dtype.is_float:
        return dtype
    return DType.U64 if dtype.is_int and not dtype.is_signed else DType.I64


def averaged_dtype(dtype: DType) -> DType:
    return dtype if dtype.is_float else DType.F64


RESULT_DTYPES: dict[str, Callable[[DType], DType]] = {
    **dict.fromkeys(("sum", "prod", "cumsum"), summed_dtype),
    **dict.fromkeys(("mean", "std", "var"), averaged_dtype),
    **dict.fromkeys(("min", "max"), lambda dtype: dtype),
    **dict.fromkeys(("any", "all"), lambda dtype: DType.BOOL),
    **dict.fromkeys(("argmin", "argmax"), lambda dtype: DType.I64),
}


def reduced_type(name: str, calls: CallTypes) -> Type:
    """The type of a reduction by `name` with the call's `axis` and `keepdims`."""
    kind = as_tensor_type(subject(calls))
    element = element_dtype(kind) if kind is not None else None
    dtype = None if element is None else RESULT_DTYPES[name](element)
    scalar = UNKNOWN if dtype is None else Scalar(dtype)
    keepdims = calls.constants.get("keepdims", False if "keepdims" not in calls.types else None)
    dims = dims_of(kind) if kind is not None else None
    if keepdims is None:
        return UNKNOWN
    if "axis" not in calls.types:
        return scalar if not keepdims or dims == () else tensor_type(dtype, None if dims is None else (ShapeExpr.of(1),) * len(dims))
    axes = calls.constants.get("axis")
    if is_int(axes):
        axes = [axes]
    if dims is None or not isinstance(axes, list | tuple) or not all(is_int(a) for a in axes):
        one_goes = dims is not None and len(dims) > 1 and isinstance(calls["axis"], Scalar)
        return tensor_type(dtype, (None,) * (len(dims or ()) - (not keepdims))) if one_goes else UNKNOWN
    places = {static_axis(axis, len(dims)) for axis in axes}
    if keepdims:
        return scalar if not dims else tensor_type(dtype, tuple(ShapeExpr.of(1) if i in places else d for i, d in enumerate(dims)))
    left = tuple(d for i, d in enumerate(dims) if i not in places)
    return tensor_type(dtype, left) if left else scalar


def reduction_rule(name: str) -> Callable[[CallTypes], Type]:
    def rule(calls: CallTypes) -> Type:
        kind = subject(calls)
        if isinstance(kind, RangeType) or (isinstance(kind, ListType) and isinstance(kind.element, Scalar)):
            return UNKNOWN if "axis" in calls.types or "keepdims" in calls.types else sequence_type(name, kind)
        return reduced_type(name, calls)

    return rule


# ---- running ---------------------------------------------------------------------------------------------------------


def reduce_array(name: str, array: Array, axis: Any, keepdims: Any, work: Reduction) -> Any:
    """Applies `work` to the axes meant (all when None) and gives a scalar or a tensor."""
    keep, axes = require_bool(keepdims, "`keepdims=`"), _axes(axis, array.ndim)
    if name in ("min", "max", "argmin", "argmax") and any(array.shape[a] == 0 for a in axes):
        if array.size == 0 and axis is None:
            raise LibraryFault("0803", f"`{name}` of an empty tensor: its shape is {shape_text(array.shape)}")
        raise LibraryFault("0803", f"`{name}` over an empty axis of a tensor of shape {shape_text(array.shape)}")
    with np.errstate(all="ignore"):
        result = np.asarray(work(array, axes, keep))
    return host_scalar(result) if result.ndim == 0 else Tensor(result)


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, list | tuple) else (axis,)
    axes = tuple(require_axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise LibraryFault("0307", f"an axis stands twice in {shape_text(given)}")
    return axes


def reduce_tensor(settings: StdlibSettings, name: str, tensor: Tensor, axis: Any, keepdims: Any) -> Any:
    """The same of a tensor, by a kernel where it lies on a GPU."""
    if gpu_of(tensor) is not None:
        there = reduced_there(settings, name, tensor, _axes(axis, len(tensor.shape)), require_bool(keepdims, "`keepdims=`"))
        if there is not None:
            return there if isinstance(there, Tensor) else host_scalar(there)
    return reduce_array(name, tensor.contents, axis, keepdims, WORK[name])


def _narrow(values: Any, array: Array) -> Array:
    """A float result in the dtype of what it was made from, ints' in f64."""
    dtype = array_dtype(array)
    return np.asarray(values).astype(numpy_of(averaged_dtype(dtype)), copy=False)


def sum_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    dtype = array_dtype(array)
    if dtype.is_float:
        return _narrow(np.sum(float_array(array), axis=axes, keepdims=keepdims, dtype=np.float64), array)
    result = summed_dtype(dtype)
    if dtype.is_int and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest * array.size > limits(result)[1]:
            return _exact(np.sum(array.astype(object), axis=axes, keepdims=keepdims), result, "sum")
    return np.asarray(np.sum(array, axis=axes, keepdims=keepdims, dtype=numpy_of(result)))


def _exact(totals: Any, dtype: DType, name: str) -> Array:
    values = np.asarray(totals, dtype=object)
    low, high = limits(dtype)
    if any(not low <= int(v) <= high for v in values.reshape(-1)):
        raise LibraryFault("0806", f"integer overflow in `{name}`: a result does not fit {dtype.value} ({low} to {high})")
    return values.astype(numpy_of(dtype))


def product_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    dtype = array_dtype(array)
    if dtype.is_float:
        return _narrow(np.prod(float_array(array), axis=axes, keepdims=keepdims, dtype=np.float64), array)
    result = summed_dtype(dtype)
    # Magnitudes in f64 tell safely whether an exact product may leave 62 bits.
    magnitude = np.prod(np.maximum(np.abs(array.astype(np.float64)), 1), axis=axes)
    if np.any(magnitude >= 2.0**62):
        return _exact(np.prod(array.astype(object), axis=axes, keepdims=keepdims), result, "prod")
    return np.asarray(np.prod(array, axis=axes, keepdims=keepdims, dtype=numpy_of(result)))


def _count(array: Array, axes: tuple[int, ...]) -> int:
    return math.prod(array.shape[a] for a in axes)


def mean_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    total = np.sum(float_array(array), axis=axes, keepdims=keepdims, dtype=np.float64)
    return _narrow(np.divide(total, float(_count(array, axes))), array)


def variance(array: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    values = array.astype(np.float64)
    centred = values - np.divide(np.sum(values, axis=axes, keepdims=True), float(_count(array, axes)))
    return np.divide(np.sum(centred * centred, axis=axes, keepdims=keepdims), float(_count(array, axes) - 1))


def var_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _narrow(variance(array, axes, keepdims), array)


def std_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _narrow(np.sqrt(variance(array, axes, keepdims)), array)


def _orderly(array: Array) -> Array:
    """The array in a dtype whose order NumPy knows well (bf16 and f8 as f32)."""
    return array.astype(np.float32) if is_foreign(array.dtype) else array


def min_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.min(_orderly(array), axis=axes, keepdims=keepdims)).astype(array.dtype, copy=False)


def max_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.max(_orderly(array), axis=axes, keepdims=keepdims)).astype(array.dtype, copy=False)


def any_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.any(array, axis=axes, keepdims=keepdims))


def all_array(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.all(array, axis=axes, keepdims=keepdims))


def _argument(search: Any) -> Reduction:
    def work(array: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        values = _orderly(array)
        if len(axes) == 1:
            return np.asarray(search(values, axis=axes[0], keepdims=keepdims))
        if len(axes) == array.ndim:
            positions = np.asarray(search(values))
            return positions.reshape((1,) * array.ndim) if keepdims else positions
        raise LibraryFault("0307", "the place of an extreme is found along one axis, or in all elements")

    return work


WORK: dict[str, Reduction] = {
    "sum": sum_array,
    "prod": product_array,
    "mean": mean_array,
    "var": var_array,
    "std": std_array,
    "min": min_array,
    "max": max_array,
    "any": any_array,
    "all": all_array,
    "argmin": _argument(np.argmin),
    "argmax": _argument(np.argmax),
}

DOCS = {
    "sum": "The sum of the elements.",
    "prod": "The product of the elements.",
    "mean": "The mean of the elements.",
    "var": "The variance of the elements, divided by n - 1.",
    "std": "The standard deviation of the elements, divided by n - 1.",
    "min": "The smallest element; nan wins.",
    "max": "The largest element; nan wins.",
    "any": "Whether an element is true or nonzero.",
    "all": "Whether all elements are true or nonzero.",
    "argmin": "The index of the smallest element, the lowest of equals.",
    "argmax": "The index of the largest element, the lowest of equals.",
}


def _values(value: Any) -> Array:
    if isinstance(value, range):
        return np.arange(value.start, value.stop, value.step, dtype=np.int64)
    if isinstance(value, list):
        return numbers_array(value)
    return contents_of(value)


def declare_reduction(name: str) -> None:
    """Declares the method, its `_axis` form, and unless `max` or `min` (which take more) the free function."""

    def run(settings: StdlibSettings, self: Any, axis: Any = None, keepdims: Any = False) -> Any:
        if isinstance(self, Tensor):
            return reduce_tensor(settings, name, self, axis, keepdims)
        return reduce_array(name, _values(self), axis, keepdims, WORK[name])

    def along(settings: StdlibSettings, self: Any, axis: Any, keepdims: Any = False) -> Any:
        return run(settings, self, axis, keepdims)

    run.__doc__ = DOCS[name]
    along.__doc__ = f"{DOCS[name][:-1]} along an axis."
    rule = reduction_rule(name)
    if name in ("min", "max"):
        family.method("tensor", name, result=rule, uses_settings=True)(run)
        family.function(f"tensor_{name}", result=rule, uses_settings=True)(run)
    elif name in ("any", "all"):
        family.method("tensor", name, result=rule, uses_settings=True)(run)
    else:
        family.tensor_method(name, f"tensor_{name}", result=rule, uses_settings=True)(run)
    family.tensor_method(f"{name}_axis", result=rule, uses_settings=True)(along)
    if name in ("sum", "prod", "mean", "min", "max", "var", "std", "argmin", "argmax"):
        family.method("List range", name, result=_sequence_rule(name))(_sequence(name))


def _sequence(name: str) -> Callable[[Any], Any]:
    def run(self: Any) -> Any:
        return of_sequence(name, self)

    run.__doc__ = DOCS[name]
    return run


def of_sequence(name: str, values: Any) -> Any:
    """A reduction of a list or range. Ints and floats keep their own types: `[1.0].sum()` is an f64."""
    if isinstance(values, range):
        values = list(values)
    if name in ("min", "max"):
        return extreme(values, name)
    if isinstance(values, Iterator):
        return _of_stream(name, values)
    return reduce_array(name, _values(values), None, False, WORK[name])


def _of_stream(name: str, values: Iterator[Any]) -> Any:
    """A sum or product of values that come one by one, by runs of them; that of one run is as a list's."""
    total = of_sequence(name, list(islice(values, _RUN)))
    while run := list(islice(values, _RUN)):
        total = of_sequence(name, [total, of_sequence(name, run)])
    return total


_RUN = 1 << 16


def _sequence_rule(name: str) -> Callable[[CallTypes], Type]:
    def rule(calls: CallTypes) -> Type:
        return sequence_type(name, calls["self"])

    return rule


def sequence_type(name: str, kind: Type) -> Type:
    """The type of a reduction of a list or range."""
    element = I64 if isinstance(kind, RangeType) else kind.element if isinstance(kind, ListType) else UNKNOWN
    if isinstance(element, Scalar):
        return Scalar(RESULT_DTYPES[name](element.dtype))
    return element if name in ("min", "max") else UNKNOWN


for _name in WORK:
    declare_reduction(_name)


# ---- max and min of anything -----------------------------------------------------------------------------------------


def _extreme_rule(name: str) -> Callable[[CallTypes], Type]:
    arithmetic = arithmetic_rule(name)

    def rule(calls: CallTypes) -> Type:
        given: tuple[Type, ...] = calls.types.get("values", ())
        if len(given) == 1:
            kind = given[0]
            if isinstance(kind, TensorType):
                return reduced_type(name, CallTypes({**calls.types, "self": kind}, calls.constants))
            if isinstance(kind, ListType | RangeType):
                return sequence_type(name, kind)
            if kind is UNKNOWN or isinstance(kind, TupleType):
                return UNKNOWN
            raise TypeFault("0204", f"`{name}` of one value takes a list, a range or a tensor, not {kind}", "values")
        if not given:
            raise TypeFault("0204", f"`{name}` needs values to choose from")
        result = given[0]
        for kind in given[1:]:
            if isinstance(result, StringType) and isinstance(kind, StringType):
                continue
            result = arithmetic(CallTypes({"left": result, "right": kind}, {}))
        return result

    return rule


def _extreme(name: str) -> Callable[..., Any]:
    ufunc: Any = np.maximum if name == "max" else np.minimum
    pick = max if name == "max" else min

    def two(left: Any, right: Any) -> Any:
        if (type(left) is int and type(right) is int) or (isinstance(left, str) and isinstance(right, str)):
            return pick(left, right)
        if not is_operand(left) or not is_operand(right):
            raise undefined(name, left, right)
        return apply_arrays(name, left, right, lambda a, b, dtype: ufunc(a, b))

    def run(settings: StdlibSettings, values: tuple[Any, ...], axis: Any = None, keepdims: Any = False) -> Any:
        if not values:
            raise LibraryFault("0204", f"`{name}` needs values to choose from")
        if len(values) == 1:
            only = values[0]
            if isinstance(only, Tensor):
                return reduce_tensor(settings, name, only, axis, keepdims)
            if isinstance(only, list | range | tuple):
                return of_sequence(name, list(only))
            raise LibraryFault("0204", f"`{name}` of one value takes a list, a range or a tensor, not {type_name(only)}")
        best = values[0]
        for value in values[1:]:
            best = two(best, value)
        return best

    word = "largest" if name == "max" else "smallest"
    run.__doc__ = f"The {word} of the values; of tensors element by element; of one tensor or list its own."
    return run


for _name in ("max", "min"):
    family.function(_name, result=_extreme_rule(_name), variadic="values", keywords=REDUCED, uses_settings=True)(_extreme(_name))


# ---- running sums ----------------------------------------------------------------------------------------------------


def _cumsum_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    element = element_dtype(kind) if kind is not None else None
    return tensor_type(None if element is None else summed_dtype(element), dims_of(kind) if kind is not None else None)


@family.tensor_method("cumsum", result=_cumsum_rule)
def cumsum(self: Any, axis: Any = 0) -> Tensor:
    """The running sum along an axis."""
    array = contents_of(self)
    along = require_axis(axis, array.ndim)
    dtype = array_dtype(array)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return Tensor(_narrow(np.cumsum(float_array(array), axis=along, dtype=np.float64), array))
    result = summed_dtype(dtype)
    if array.size and max(abs(int(array.min())), abs(int(array.max()))) * array.shape[along] > limits(result)[1]:
        return Tensor(_exact(np.cumsum(array.astype(object), axis=along), result, "cumsum"))
    return Tensor(np.cumsum(array, axis=along, dtype=numpy_of(result)))


def total(values: list[Any]) -> Any:
    """The sum of a list's numbers or tensors, by `+`."""
    add = BINARY["add"]
    if not values:
        return 0
    sum_ = values[0]
    if not is_number(sum_) and not isinstance(sum_, Tensor):
        raise LibraryFault("0203", f"`sum` adds numbers, not {type_name(sum_)}")
    for value in values[1:]:
        sum_ = add(sum_, value)
    return sum_
