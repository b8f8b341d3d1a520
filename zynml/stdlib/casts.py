"""`value as dtype`: conversions that a program asks for. Floats are rounded, or cut toward zero to ints; what doesn't fit stops."""

import math
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import UNKNOWN, CharType, DType, Scalar, TensorType, Type
from runtime.tensor import Array, Filled, Tensor
from zynml.stdlib.dtypes import dtype_of, given_dtype, limits, numpy_of, require_dtype, scalar_of, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.on_devices import keep_planned, planned_there
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import dims_of, tensor_type

family = FunctionFamily()


def _cast_rule(calls: CallTypes) -> Type:
    kind, dtype = calls["value"], given_dtype(calls, None)
    if isinstance(kind, TensorType):
        return tensor_type(dtype, dims_of(kind))
    if isinstance(kind, Scalar):
        return UNKNOWN if dtype is None else Scalar(dtype)
    if kind is UNKNOWN:
        return UNKNOWN
    if isinstance(kind, CharType) and dtype is not None and dtype.is_int:
        return Scalar(dtype)
    raise TypeFault("0203", f"{kind} can't be converted to {dtype.value if dtype else 'a number'}")


@family.function("operator as", result=_cast_rule, uses_settings=True)
def cast(settings: StdlibSettings, value: Any, dtype: Any) -> Any:
    """`value as dtype`: rounds floats, cuts toward zero from float to int, stops where an int doesn't fit."""
    if value.__class__ is Tensor and value.remote is not None:
        return _cast_there(settings, value, dtype)
    target = require_dtype(dtype)
    source = dtype_of(value)
    if source is None:
        raise LibraryFault("0203", f"{type_name(value)} can't be converted to {target.value}")
    if isinstance(value, Tensor):
        if value.is_unmade and value.filled is not None:
            number = cast_array(np.asarray(value.filled.number).astype(value.dtype), source, target)[()]
            return Tensor(None, None, Filled(number, value.shape, target.value))
        return Tensor(cast_array(value.contents, source, target))
    if target.is_int and source.is_float:
        if value != value or value in (math.inf, -math.inf):
            raise LibraryFault("0806", f"{float(value)} has no {target.value}")
        return scalar_of(int(value), target)
    if target is DType.BOOL:
        return bool(value)
    return scalar_of(value, target)


def _cast_there(settings: StdlibSettings, tensor: Tensor, dtype: Any) -> Tensor:
    """The same for a tensor on a device: there, where nothing stops it."""
    remote = tensor.remote
    assert remote is not None
    key = "as", dtype, remote.__class__, remote.layout
    operation = settings.planned.get(key)
    if operation is None:
        source, target = DType(tensor.dtype_name), require_dtype(dtype)
        operation = planned_there(settings, "a", (tensor,), source, target, tensor.shape) if _fits(source, target) else None
        if operation is None:
            return Tensor(cast_array(tensor.contents, source, target))
        keep_planned(settings, key, operation)
    made: Tensor = operation((tensor,))
    return made


def _fits(source: DType, target: DType) -> bool:
    """Whether every element of one dtype has a counterpart in the other, rounded where that is a float."""
    if target.is_float or source is target or source is DType.BOOL:
        return True
    if not (source.is_int and target.is_int):
        return False
    (low, high), (least, most) = limits(source), limits(target)
    return least <= low and high <= most


def cast_array(array: Array, source: DType, target: DType) -> Array:
    """A converted copy; 0806 where an element doesn't fit."""
    if target.is_int and source is not DType.BOOL and array.size and target is not source:
        low, high = limits(target)
        if source.is_float:
            wide = np.trunc(array.astype(np.float64))
            # The upper limit plus one is a power of two, exact in f64, where the limit itself may round.
            fits = np.isfinite(wide) & (wide >= low) & (wide < float(high + 1))
            if not fits.all():
                raise LibraryFault("0806", f"{float(wide[~fits][0])} does not fit {target.value} ({low} to {high})")
            return wide.astype(numpy_of(target))
        if int(array.min()) < low or int(array.max()) > high:
            wrong = int(array.min()) if int(array.min()) < low else int(array.max())
            raise LibraryFault("0806", f"{wrong} does not fit {target.value} ({low} to {high})")
    if target is DType.BOOL:
        return np.asarray(array != 0)
    with np.errstate(all="ignore"):
        return array.astype(numpy_of(target))
