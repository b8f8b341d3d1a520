"""Making tensors: `zeros`, `arange`, `tensor([[1.0, 2.0]])`, as free functions, under `Tensor::` and in their `_1d _2d _3d` forms."""

import math
from typing import Any

import numpy as np

from compiler.codes.device_faults import told
from compiler.machines.emulated import require_present
from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import UNKNOWN, DType, ListType, RangeType, Scalar, ShapeExpr, TensorType, TupleType, Type
from runtime.device import CPU, Device, NoDevice
from runtime.tensor import Array, Filled, Tensor, dtype_name
from runtime.transfers import to_device
from zynml.stdlib.casts import cast_array
from zynml.stdlib.dtypes import array_dtype, dtype_of, given_dtype, join, numpy_of, require_dtype, require_fit, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.operators import is_number
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import (
    Dims,
    constant_dims,
    dims_of,
    is_int,
    require_extents,
    require_memory,
    require_shape,
    tensor_type,
)

family = FunctionFamily()

PLACE = ("dtype", "device")


def forms(name: str) -> tuple[str, ...]:
    """All names of a creation function."""
    return (name, f"Tensor::{name}", f"tensor_{name}")


def shaped_forms(name: str) -> tuple[str, ...]:
    return tuple(f"{form}{rank}" for form in forms(name) for rank in ("", "_1d", "_2d", "_3d"))


def device_of(device: Any) -> Device:
    """The device of that name; None and "auto" are the CPU, where tensors are made. Fault 0501 unless it is here."""
    if device is None or (isinstance(device, str) and device == "auto"):
        return CPU
    if not isinstance(device, str):
        raise LibraryFault("0203", f"a device is named by a String, not {type_name(device)}")
    try:
        return require_present(device)
    except NoDevice as fault:
        raise LibraryFault("0501", fault.message, fault.hint) from None


def placed(tensor: Tensor, device: Any) -> Tensor:
    """The tensor on the device that is named, if one is."""
    if device is None or (isinstance(device, str) and device == "auto"):
        return tensor
    with told():
        return to_device(tensor, device_of(device))


def place(shape: Any, dtype: Any, device: Any, default: DType = DType.F32) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and NumPy dtype of a tensor to be made, all arguments checked, memory included."""
    device_of(device)
    extents = require_extents(require_shape(shape))
    numpy_type = numpy_of(default if dtype is None else require_dtype(dtype))
    require_memory(extents, numpy_type.itemsize)
    return extents, numpy_type


# ---- types -----------------------------------------------------------------------------------------------------------


def shape_argument(calls: CallTypes, name: str = "shape") -> Dims | None:
    """What is known statically of a shape given as `2, 3` or `[2, 3]`."""
    types = calls.types.get(name)
    constants = calls.constants.get(name)
    if isinstance(types, tuple):
        values = list(constants) if isinstance(constants, list | tuple) and len(constants) == len(types) else [None] * len(types)
        if len(types) == 1 and isinstance(types[0], ListType | TupleType):
            return _list_dims(types[0], values[0], name)
        for kind in types:
            _require_int_type(kind, name)
        if len(types) == 1 and not isinstance(types[0], Scalar):
            return None
        return _require_sizes(constant_dims(values), name)
    if isinstance(types, ListType | TupleType):
        return _list_dims(types, constants, name)
    if isinstance(types, Scalar):
        _require_int_type(types, name)
        return _require_sizes(constant_dims([constants]), name)
    return None


def _list_dims(kind: Type, constant: Any, name: str) -> Dims | None:
    elements = kind.elements if isinstance(kind, TupleType) else (kind.element,) if isinstance(kind, ListType) else ()
    for element in elements:
        _require_int_type(element, name)
    if isinstance(constant, list | tuple):
        return _require_sizes(constant_dims(list(constant)), name)
    return (None,) * len(elements) if isinstance(kind, TupleType) else None


def _require_int_type(kind: Type, name: str) -> None:
    allowed = kind.dtype.is_int if isinstance(kind, Scalar) else isinstance(kind, ListType | TupleType | TensorType) or kind is UNKNOWN
    if not allowed:
        raise TypeFault("0203", f"a shape is made of ints, not {kind}", name)


def _require_sizes(dims: Dims | None, name: str) -> Dims | None:
    for dim in dims or ():
        if dim is not None and dim.value is not None and dim.value < -1:
            raise TypeFault("0301", f"a shape can't have the negative extent {dim}", name)
    return dims


def _shaped_rule(calls: CallTypes) -> Type:
    return tensor_type(given_dtype(calls), shape_argument(calls))


def _count_rule(calls: CallTypes) -> Type:
    count = constant_dims(calls.constants.get("count"))
    return tensor_type(given_dtype(calls), count if count is not None and len(count) == 1 else (None,))


def _eye_rule(calls: CallTypes) -> Type:
    rows = constant_dims(calls.constants.get("rows")) or (None,)
    columns = (constant_dims(calls.constants.get("columns")) or (None,)) if "columns" in calls.types else rows
    return tensor_type(given_dtype(calls), rows + columns)


def _vector_rule(calls: CallTypes) -> Type:
    parts = [calls.constants.get(name, default) for name, default in (("start", None), ("stop", None), ("step", 1.0))]
    if "stop" not in calls.types:
        parts[:2] = [0, parts[0]]
    count = None
    if all(is_number(p) and math.isfinite(p) for p in parts) and parts[2] != 0:
        count = ShapeExpr.of(arange_count(*parts))
    return tensor_type(given_dtype(calls), (count,))


def list_type_dims(kind: Type, value: Any) -> tuple[DType | None, Dims | None]:
    """Element dtype and dims of nested list literals, as far as types and constants tell."""
    rank = 0
    dims: list[ShapeExpr | None] = []
    while isinstance(kind, ListType):
        rank += 1
        known = isinstance(value, list | tuple)
        dims.append(ShapeExpr.of(len(value)) if known else None)
        kind, value = kind.element, (value[0] if known and value else None)
    if isinstance(kind, Scalar):
        return (DType.F32 if kind.weak and kind.dtype.is_float else kind.dtype), tuple(dims)
    if isinstance(kind, TensorType):
        inner = dims_of(kind)
        element = kind.element.dtype if isinstance(kind.element, Scalar) else None
        return element, None if inner is None else (*dims, *inner)
    return None, None


def _tensor_rule(calls: CallTypes) -> Type:
    kind = calls["values"]
    if isinstance(kind, RangeType):
        return tensor_type(given_dtype(calls, DType.I64), (None,))
    element, dims = list_type_dims(kind, calls.constants.get("values"))
    if not isinstance(kind, ListType | TensorType | Scalar | TupleType) and kind is not UNKNOWN:
        raise TypeFault("0203", f"a tensor is made of numbers in lists, not of {kind}", "values")
    # Floats make f32 whatever they come from, other dtypes stay.
    return tensor_type(given_dtype(calls, DType.F32 if element is DType.F64 and isinstance(kind, ListType) else element), dims)


# ---- functions -------------------------------------------------------------------------------------------------------


@family.function(*shaped_forms("zeros"), result=_shaped_rule, variadic="shape", keywords=PLACE)
def zeros(shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of zeros, f32 unless `dtype` says otherwise."""
    return _filled(0, *place(shape, dtype, device), device)


@family.function(*shaped_forms("ones"), result=_shaped_rule, variadic="shape", keywords=PLACE)
def ones(shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return _filled(1, *place(shape, dtype, device), device)


MADE_LATER = 1 << 20
"""Bytes from which on elements that are all one number are made when somebody looks at them on the host."""


def _filled(number: Any, shape: tuple[int, ...], dtype: np.dtype[Any], device: Any) -> Tensor:
    filled = Filled(number, shape, dtype_name(dtype))
    return placed(Tensor(filled.made() if math.prod(shape) * dtype.itemsize < MADE_LATER else None, None, filled), device)


@family.function(*forms("full"), result=_shaped_rule, keywords=PLACE)
def full(shape: Any, value: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one value."""
    source = dtype_of(value)
    if source is None or isinstance(value, Tensor):
        raise LibraryFault("0203", f"a tensor is filled with a number, not {type_name(value)}")
    extents, numpy_type = place((shape,) if not isinstance(shape, tuple) else shape, dtype, device)
    number = cast_array(np.asarray(value), source, array_dtype(np.empty(0, numpy_type)))[()]
    return _filled(number, extents, numpy_type, device)


def _filled_rule(calls: CallTypes) -> Type:
    kinds, values = calls.types.get("sizes", ()), calls.constants.get("sizes")
    if "value" in calls.types:
        return tensor_type(given_dtype(calls), shape_argument(calls, "sizes"))
    if len(kinds) < 2:
        raise TypeFault("0204", "the last argument is the value that fills the tensor, behind its sizes")
    constants = {**calls.constants, "sizes": values[:-1] if values is not None else None}
    return tensor_type(given_dtype(calls), shape_argument(CallTypes({**calls.types, "sizes": kinds[:-1]}, constants), "sizes"))


@family.function(
    *(f"{form}_{rank}d" for form in forms("full") for rank in (1, 2, 3)), result=_filled_rule, variadic="sizes", keywords=("value", *PLACE)
)
def full_of_rank(sizes: Any, value: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of the value behind its sizes: `full_2d(2, 3, 1.5)`."""
    if value is None:
        if len(sizes) < 2:
            raise LibraryFault("0204", "the last argument is the value that fills the tensor, behind its sizes")
        *sizes, value = sizes
    return full(sizes[0] if len(sizes) == 1 else tuple(sizes), value, dtype, device)


@family.function(*forms("eye"), result=_eye_rule, keywords=PLACE, rows="int", columns="int")
def eye(rows: Any, columns: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The identity matrix."""
    extents, numpy_type = place((rows, rows if columns is None else columns), dtype, device)
    return placed(Tensor(np.eye(*extents, dtype=numpy_type)), device)


def arange_count(start: float, stop: float, step: float) -> int:
    """How many of start, start + step, ... come before stop."""
    return max(0, math.ceil((stop - start) / step))


@family.function(
    *forms("arange"), *(f"{form}_1d" for form in forms("arange")), result=_vector_rule, keywords=PLACE, start="number", stop="number"
)
def arange(start: Any, stop: Any = None, step: Any = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, ... up to but without stop; from 0 when only one bound is given."""
    if stop is None:
        start, stop = 0, start
    for bound in (start, stop, step):
        if not is_number(bound):
            raise LibraryFault("0203", f"`arange` takes numbers, not {type_name(bound)}")
        if not math.isfinite(bound):
            raise LibraryFault("0203", f"`arange` takes finite numbers, not {float(bound)}")
    if step == 0:
        raise LibraryFault("0203", "the step of `arange` can't be 0")
    exact = all(is_int(b) or float(b).is_integer() for b in (start, stop, step))
    if exact:
        start, stop, step = int(start), int(stop), int(step)
        (count,), numpy_type = place((max(0, -((start - stop) // step)),), dtype, device)
        require_memory((count,), 8)
        values = start + step * np.arange(count, dtype=np.int64 if max(abs(start), abs(stop), abs(step)) < 1 << 62 else object)
        return placed(Tensor(cast_array(values, DType.I64, array_dtype(np.empty(0, numpy_type)))), device)
    (count,), numpy_type = place((arange_count(start, stop, step),), dtype, device)
    values = float(start) + float(step) * np.arange(count, dtype=np.float64)
    return placed(Tensor(cast_array(values, DType.F64, array_dtype(np.empty(0, numpy_type)))), device)


@family.function(*forms("linspace"), result=_count_rule, keywords=PLACE, start="number", stop="number")
def linspace(start: Any, stop: Any, count: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`count` evenly spaced numbers from start to stop, both included."""
    for bound in (start, stop):
        if not is_number(bound):
            raise LibraryFault("0203", f"`linspace` takes numbers, not {type_name(bound)}")
    extent = require_count(count)
    _, numpy_type = place((extent,), dtype, device)
    with np.errstate(all="ignore"):
        values = np.linspace(float(start), float(stop), extent, dtype=np.float64)
    return placed(Tensor(cast_array(values, DType.F64, array_dtype(np.empty(0, numpy_type)))), device)


@family.function(*shaped_forms("rand"), result=_shaped_rule, variadic="shape", keywords=PLACE, uses_settings=True)
def rand(settings: StdlibSettings, shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Uniform random numbers in [0, 1), the same for the same seed."""
    extents, numpy_type = place(shape, dtype, device)
    _require_float(numpy_type, "rand")
    values = generator(settings).random(extents, dtype=np.float64 if numpy_type == np.float64 else np.float32)
    # Rounding up to 1 would leave the interval.
    return placed(Tensor(values if values.dtype == numpy_type else (np.floor(values * 128) / 128).astype(numpy_type)), device)


@family.function(*shaped_forms("randn"), result=_shaped_rule, variadic="shape", keywords=PLACE, uses_settings=True)
def randn(settings: StdlibSettings, shape: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Normal random numbers of mean 0 and deviation 1, the same for the same seed."""
    extents, numpy_type = place(shape, dtype, device)
    _require_float(numpy_type, "randn")
    values = generator(settings).standard_normal(extents, dtype=np.float64 if numpy_type == np.float64 else np.float32)
    return placed(Tensor(values.astype(numpy_type, copy=False)), device)


def _permutation_rule(calls: CallTypes) -> Type:
    count = constant_dims(calls.constants.get("count"))
    return tensor_type(DType.I64, count if count is not None and len(count) == 1 else (None,))


@family.function("randperm", "Tensor::randperm", result=_permutation_rule, uses_settings=True)
def randperm(settings: StdlibSettings, count: Any) -> Tensor:
    """The numbers 0 to count - 1 in random order, the same for the same seed."""
    extent = require_count(count)
    place((extent,), DType.I64, None)
    return Tensor(generator(settings).permutation(extent).astype(np.int64, copy=False))


@family.function("set_seed", uses_settings=True)
def set_seed(settings: StdlibSettings, seed: Any) -> None:
    """Starts the random numbers anew from a seed."""
    if not is_int(seed):
        raise LibraryFault("0203", f"a seed is an int, not {type_name(seed)}")
    settings.set_seed(int(seed))


def require_count(count: Any) -> int:
    if not is_int(count):
        raise LibraryFault("0203", f"a number of elements is an int, not {type_name(count)}")
    return int(count)


def generator(settings: StdlibSettings) -> Any:
    """The run's generator: Philox, counter based, so that a seed means the same numbers on every machine."""
    if settings.generator is None:
        settings.generator = np.random.Generator(np.random.Philox(settings.seed & (1 << 64) - 1))
    return settings.generator


def _require_float(dtype: np.dtype[Any], name: str) -> None:
    if not array_dtype(np.empty(0, dtype)).is_float:
        raise LibraryFault("0203", f"`{name}` makes floats, not {array_dtype(np.empty(0, dtype)).value}")


@family.function(
    "tensor",
    "tensor_1d",
    "tensor_2d",
    "tensor_3d",
    *forms("from_array"),
    *(f"{form}_{rank}d" for form in ("from_array", "Tensor::from_array") for rank in (1, 2, 3)),
    "Tensor::new",
    result=_tensor_rule,
    keywords=PLACE,
    values="nested lists of numbers",
)
def tensor(values: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor from nested lists of numbers, from a range, or a copy of a tensor. Floats make f32, ints i64, bools bool."""
    device_of(device)
    wanted = None if dtype is None else require_dtype(dtype)
    if isinstance(values, Tensor):
        copied = np.array(values.contents, order="C", copy=True)
        converted = copied if wanted is None else cast_array(copied, array_dtype(copied), wanted)
    elif isinstance(values, range):
        require_memory((len(values),), 8)
        array = np.arange(values.start, values.stop, values.step, dtype=np.int64)
        converted = array if wanted is None else cast_array(array, DType.I64, wanted)
    else:
        converted = array_of_list(values, wanted)
    return placed(Tensor(converted), device)


def _ragged(shape: list[int], depth: int, number: int, length: int) -> LibraryFault:
    """The fault for a row of another length than those before it, by its index among lists of this shape."""
    index: list[int] = []
    for extent in reversed(shape[:depth]):
        number, position = divmod(number, extent)
        index.insert(0, position)
    row, first = ("".join(f"[{i}]" for i in position) for position in (index, [0] * depth))
    message = f"rows differ in length: `{row}` has {length} element{'' if length == 1 else 's'}, and `{first}` has {shape[depth]}"
    return LibraryFault("0301", message, f"give `{row}` as many elements as `{first}`")


def array_of_list(values: Any, dtype: DType | None = None) -> Array:
    """Nested lists (or tuples) of numbers or tensors as an array; faults 0301 and 0203 where rows differ."""
    shape: list[int] = []
    level = values
    while isinstance(level, list | tuple):
        if len(shape) == 64:
            raise LibraryFault("0301", "a tensor has at most 64 axes")
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    rows: list[Any] = [values]
    for depth, extent in enumerate(shape):
        below: list[Any] = []
        for number, row in enumerate(rows):
            if not isinstance(row, list | tuple):
                raise LibraryFault("0301", f"rows differ: {type_name(row)} stands where a list of {extent} does at depth {depth}")
            if len(row) != extent:
                raise _ragged(shape, depth, number, len(row))
            below += row
        rows = below
    if rows and isinstance(rows[0], Tensor):
        return _stack_rows(rows, tuple(shape), dtype)
    natural = _natural_dtype(rows)
    target = natural if dtype is None else dtype
    if target is DType.F32 and natural.is_float:
        with np.errstate(all="ignore"):
            return np.array([float(v) for v in rows], dtype=np.float64).astype(np.float32).reshape(shape)
    if natural.is_int or natural is DType.BOOL:
        wide = np.array([int(v) for v in rows], dtype=object)
        if natural.is_int and target.is_int:
            for value in rows:
                require_fit(int(value), target)
        return wide.astype(numpy_of(target)).reshape(shape)
    return cast_array(np.array([float(v) for v in rows], dtype=np.float64), DType.F64, target).reshape(shape)


def _natural_dtype(values: list[Any]) -> DType:
    """What a list's elements make: bool, an int dtype, or a float dtype (f32 for plain floats)."""
    common: DType | None = None
    for value in values:
        dtype = dtype_of(value)
        if dtype is None or isinstance(value, Tensor):
            raise LibraryFault("0203", f"a tensor is made of numbers, not of {type_name(value)}")
        dtype = DType.F32 if type(value) is float else dtype
        if common is None or common is dtype:
            common = dtype
        elif DType.BOOL in (common, dtype):
            raise LibraryFault("0203", "a list that makes a tensor has bools or numbers, not both")
        else:
            joined = join(common, dtype)
            if joined is None:
                raise LibraryFault("0207", f"{common.value} and {dtype.value} have no common type")
            common = joined
    return DType.F32 if common is None else common


def _stack_rows(rows: list[Any], shape: tuple[int, ...], dtype: DType | None) -> Array:
    for row in rows:
        if not isinstance(row, Tensor) or row.shape != rows[0].shape or row.dtype != rows[0].dtype:
            other = type_name(row)
            raise LibraryFault("0301", f"rows differ: {type_name(rows[0])} and {other}")
    require_memory((len(rows), *rows[0].shape), rows[0].dtype.itemsize)
    stacked = np.stack([row.contents for row in rows]).reshape(shape + rows[0].shape)
    return stacked if dtype is None else cast_array(stacked, array_dtype(stacked), dtype)


def to_tensor(value: Any, subject: str = "a tensor") -> Tensor:
    """The implicit conversion at a call: a tensor as it is, nested lists made into one."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, list):
        return Tensor(array_of_list(value))
    raise LibraryFault("0203", f"{subject} is expected here, not {type_name(value)}")
