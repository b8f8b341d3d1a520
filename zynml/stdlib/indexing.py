"""`x[i, lo:hi, ...]` on tensors, lists, strings, tuples and ranges: reading, writing, and the types of both.

An index is an int, a Python slice, Ellipsis, or an int or bool tensor (which gathers, a copy). Slices of tensors are views."""

from contextlib import suppress
from types import EllipsisType
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    CHAR,
    I64,
    STRING,
    UNIT,
    UNKNOWN,
    DictType,
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
from runtime.futures import before_write
from runtime.tensor import Array, Tensor
from runtime.values import ElementSet
from zynml.stdlib.creation import array_of_list
from zynml.stdlib.dtypes import array_dtype, dtype_of, host_scalar, join, require_fit, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.keys import as_key, no_key
from zynml.stdlib.operators import is_number
from zynml.stdlib.shapes import Dims, dims_of, is_int, shape_text, tensor_type

family = FunctionFamily()


def outside(index: int, length: int, what: str, axis: int | None = None) -> LibraryFault:
    where = "" if axis is None else f" of axis {axis}"
    if length == 0:
        return LibraryFault("0801", f"index {index} is out of range{where}: the {what} is empty")
    return LibraryFault("0801", f"index {index} is out of range{where}: the {what} has {length}, indices go from 0 to {length - 1}")


def position(index: Any, length: int, what: str) -> int:
    """An index into a sequence counted from its front; negative ones count from the end."""
    if not is_int(index):
        raise LibraryFault("0407", f"an index is an int, not {type_name(index)}")
    if not -length <= index < length:
        raise outside(int(index), length, what)
    return int(index) % length


def get(value: Any, indices: tuple[Any, ...]) -> Any:
    """`value[indices]`."""
    if type(value) is list and len(indices) == 1:
        index = indices[0]
        if type(index) is int and -len(value) <= index < len(value):
            return value[index]
    if isinstance(value, Tensor):
        return get_tensor(value, indices)
    if not isinstance(value, list | str | tuple | range | dict):
        raise LibraryFault("0208", f"{type_name(value)} can't be indexed")
    if len(indices) != 1:
        raise LibraryFault("0304", f"{type_name(value)} takes one index, not {len(indices)}")
    index = indices[0]
    if isinstance(value, dict):
        key = as_key(index)
        if isinstance(value, ElementSet) or key not in value:
            raise no_key(value, index)
        return value[key]
    if isinstance(index, slice):
        return value[checked_slice(index)]
    return value[position(index, len(value), "text" if isinstance(value, str) else type_name(value).partition("<")[0].lower())]


def put(value: Any, indices: tuple[Any, ...], new: Any) -> None:
    """`value[indices] = new`."""
    if isinstance(value, Tensor):
        put_tensor(value, indices, new)
        return
    if not isinstance(value, list):
        if isinstance(value, dict) and not isinstance(value, ElementSet) and len(indices) == 1:
            value[as_key(indices[0])] = new
            return
        raise LibraryFault("0208", f"the elements of {type_name(value)} can't be assigned")
    if len(indices) != 1:
        raise LibraryFault("0304", f"{type_name(value)} takes one index, not {len(indices)}")
    index = indices[0]
    if isinstance(index, slice):
        part = checked_slice(index)
        if not isinstance(new, list | tuple | range):
            raise LibraryFault("0203", f"a slice of a list is assigned from a list, not {type_name(new)}")
        room = len(range(*part.indices(len(value))))
        if room != len(new):
            raise LibraryFault("0301", f"{len(new)} values don't fit a slice of {room} elements")
        value[part] = new
        return
    value[position(index, len(value), "list")] = new


def checked_slice(part: slice) -> slice:
    for bound in (part.start, part.stop, part.step):
        if bound is not None and not is_int(bound):
            raise LibraryFault("0407", f"the bounds of a slice are ints, not {type_name(bound)}")
    if part.step == 0:
        raise LibraryFault("0801", "the step of a slice can't be 0")
    return part


def numpy_index(shape: tuple[int, ...], indices: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
    """The index as NumPy takes it, checked against the shape; and whether all of it is ints."""
    ellipses = sum(1 for i in indices if isinstance(i, EllipsisType))
    if ellipses > 1:
        raise LibraryFault("0304", "an index has at most one `...`")
    used = sum(_axes_used(i) for i in indices)
    if used > len(shape):
        raise LibraryFault("0304", f"{used} indices for a tensor of shape {shape_text(shape)}, which has {len(shape)} axes")
    out: list[Any] = []
    axis = 0
    for index in indices:
        if isinstance(index, EllipsisType):
            axis += len(shape) - used
            out.append(index)
            continue
        extent = shape[axis] if axis < len(shape) else 0
        if isinstance(index, slice):
            out.append(checked_slice(index))
        elif isinstance(index, Tensor):
            out.append(_tensor_index(index.contents, shape, axis))
        elif isinstance(index, list):
            out.append(_tensor_index(_index_list(index), shape, axis))
        elif is_int(index):
            if not -extent <= index < extent:
                raise outside(int(index), extent, "axis", axis)
            out.append(int(index))
        else:
            raise LibraryFault("0407", f"an index is an int or a slice, not {type_name(index)}")
        axis += _axes_used(index)
    return tuple(out), len(indices) == len(shape) and all(type(i) is int for i in out)


def _axes_used(index: Any) -> int:
    if isinstance(index, EllipsisType):
        return 0
    return len(index.shape) if isinstance(index, Tensor) and index.dtype == np.bool_ else 1


def _index_list(index: list[Any]) -> Array:
    for part in index:
        if not is_int(part):
            raise LibraryFault("0407", f"an index is an int, not {type_name(part)}")
    return np.array([int(part) for part in index], dtype=np.int64)


def _tensor_index(index: Array, shape: tuple[int, ...], axis: int) -> Array:
    if index.dtype == np.bool_:
        if index.shape != shape[axis : axis + index.ndim]:
            raise LibraryFault("0301", f"a mask of shape {shape_text(index.shape)} does not fit a tensor of shape {shape_text(shape)}")
        return index
    if not array_dtype(index).is_int:
        raise LibraryFault("0407", f"an index is made of ints, not {array_dtype(index).value}")
    extent = shape[axis]
    if index.size:
        low, high = int(index.min()), int(index.max())
        if low < -extent or high >= extent:
            raise outside(low if low < -extent else high, extent, "axis", axis)
    return index.astype(np.int64, copy=False)


def get_tensor(tensor: Tensor, indices: tuple[Any, ...]) -> Any:
    if len(indices) == len(tensor.shape) and all(type(index) is int for index in indices):
        with suppress(IndexError):  # The slow way says which index is out of range.
            return host_scalar(tensor.contents[indices])
    index, single = numpy_index(tensor.shape, indices)
    if single:
        return host_scalar(tensor.contents[index])
    if any(isinstance(part, np.ndarray) for part in index):
        return Tensor(np.asarray(tensor.contents[index]))
    return tensor.viewed(lambda array: np.asarray(array[index]))


def put_tensor(tensor: Tensor, indices: tuple[Any, ...], new: Any) -> None:
    array = tensor.array
    if not array.flags.writeable:
        raise LibraryFault("0205", "this tensor can't be written to", "make a copy that can: `.clone()`")
    before_write(array)
    if type(new) is float and array.dtype.kind == "f" and -6e4 < new < 6e4 and all(type(index) is int for index in indices):
        with suppress(IndexError):  # The slow way says which index is out of range.
            array[indices] = new
            return
    index, _ = numpy_index(array.shape, indices)
    if isinstance(new, list):
        new = Tensor(array_of_list(new))
    source = dtype_of(new)
    if source is None:
        raise LibraryFault("0203", f"an element of {type_name(tensor)} can't be {type_name(new)}")
    target = array_dtype(array)
    require_assignable(source, target, new)
    value = new.contents if isinstance(new, Tensor) else np.asarray(new)
    room = array[index]
    if value.ndim > room.ndim or not _broadcasts(value.shape, room.shape):
        raise LibraryFault("0301", f"a value of shape {shape_text(value.shape)} does not fit a part of shape {shape_text(room.shape)}")
    with np.errstate(all="ignore"):
        array[index] = value.astype(array.dtype, copy=np.may_share_memory(array, value))


def _broadcasts(shape: tuple[int, ...], room: tuple[int, ...]) -> bool:
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(room), strict=False))


def require_assignable(source: DType, target: DType, value: Any) -> None:
    """Fault 0207 where storing `source` as `target` loses something; a number adapts if it is of the kind of the target or less."""
    if is_number(value):
        if source.is_int and target.is_int:
            require_fit(int(value), target)
            return
        if target.is_float and source is not DType.BOOL:
            return
        if source is target:
            return
    elif join(source, target) is target:
        return
    raise LibraryFault("0207", f"storing {source.value} as {target.value} loses something", f"write `as {target.value}`")


# ---- types -----------------------------------------------------------------------------------------------------------


def _get_rule(calls: CallTypes) -> Type:
    value = calls["value"]
    indices: tuple[Type, ...] = calls.types.get("indices", ())
    constants = calls.constants.get("indices")
    known_indices = constants if isinstance(constants, tuple | list) and len(constants) == len(indices) else (None,) * len(indices)
    # A slice whose bounds aren't constant comes as a range.
    known = tuple(slice(0, UNKNOWN) if k is None and isinstance(i, RangeType) else k for i, k in zip(indices, known_indices, strict=True))
    if isinstance(value, TensorType):
        return tensor_part(value, indices, known)
    sliced = any(isinstance(k, slice) for k in known)
    match value:
        case ListType(element=element):
            _require_one(value, indices)
            return value if sliced else element
        case StringType():
            _require_one(value, indices)
            return STRING if sliced else CHAR
        case RangeType():
            _require_one(value, indices)
            return value if sliced else I64
        case TupleType(elements=elements):
            _require_one(value, indices)
            index = known[0]
            if isinstance(index, int) and not isinstance(index, bool):
                if not -len(elements) <= index < len(elements):
                    raise TypeFault("0305", f"index {index} is outside a tuple of {len(elements)}", "indices")
                return elements[index]
            return elements[0] if elements and all(e == elements[0] for e in elements) and not sliced else UNKNOWN
        case DictType(value=element):
            return element
    if value is UNKNOWN or not isinstance(value, Scalar):
        return UNKNOWN
    raise TypeFault("0208", f"{value} can't be indexed", "value")


def _require_one(value: Type, indices: tuple[Type, ...]) -> None:
    if len(indices) != 1:
        raise TypeFault("0304", f"{value} takes one index, not {len(indices)}", "indices")


def tensor_part(value: TensorType, indices: tuple[Type, ...], known: tuple[Any, ...]) -> Type:
    """The type of a tensor indexed; `known` has an int, slice, Ellipsis or None (not constant) for each index."""
    dims = dims_of(value)
    for index, constant in zip(indices, known, strict=True):
        if isinstance(index, Scalar) and not index.dtype.is_int and not isinstance(constant, slice | EllipsisType):
            raise TypeFault("0407", f"an index is an int, not {index}", "indices")
        if isinstance(index, StringType):
            raise TypeFault("0407", f"an index is an int, not {index}", "indices")
    if any(isinstance(index, TensorType | ListType) for index in indices):
        return tensor_type(element_of(value), None)
    if any(i is UNKNOWN and k is None for i, k in zip(indices, known, strict=True)):
        return UNKNOWN if dims is None or len(indices) >= len(dims) else TensorType(value.element)
    if dims is None:
        if any(isinstance(k, slice | EllipsisType) for k in known):
            return TensorType(value.element)
        return UNKNOWN
    used = sum(not isinstance(k, EllipsisType) for k in known)
    if used > len(dims):
        raise TypeFault("0304", f"{used} indices for a tensor of shape {shape_text(dims)}, which has {len(dims)} axes", "indices")
    out: list[ShapeExpr | None] = []
    axis = 0
    for constant in known:
        if isinstance(constant, EllipsisType):
            out += dims[axis : axis + len(dims) - used]
            axis += len(dims) - used
            continue
        if isinstance(constant, slice):
            out.append(sliced_extent(dims[axis], constant))
        elif isinstance(constant, int):
            _require_inside(constant, dims[axis], axis)
        axis += 1
    out += dims[axis:]
    if not out and not any(isinstance(k, EllipsisType) for k in known):
        return value.element
    return tensor_type(element_of(value), tuple(out))


def element_of(value: TensorType) -> DType | None:
    return value.element.dtype if isinstance(value.element, Scalar) else None


def sliced_extent(dim: ShapeExpr | None, part: slice) -> ShapeExpr | None:
    """The extent of a constant slice; None where it hangs on something unknown."""
    if part == slice(None):
        return dim
    extent = dim.value if dim is not None else None
    parts = (part.start, part.stop, part.step)
    if extent is None or any(p is not None and not isinstance(p, int) for p in parts) or part.step == 0:
        return None
    return ShapeExpr.of(len(range(*part.indices(extent))))


def _require_inside(index: int, dim: ShapeExpr | None, axis: int) -> None:
    extent = dim.value if dim is not None else None
    if extent is not None and not -extent <= index < extent:
        raise TypeFault("0305", f"index {index} is outside axis {axis}, whose extent is {extent}", "indices")


def _put_rule(calls: CallTypes) -> Type:
    if isinstance(calls.types.get("indices"), tuple):
        _get_rule(calls)
    return UNIT


family.function("index get", result=_get_rule, variadic="indices")(get)
family.function("index set", result=_put_rule)(put)


def selection(dims: Dims, axis: int, extent: ShapeExpr | None) -> Dims:
    """Dims with one of them replaced."""
    return (*dims[:axis], extent, *dims[axis + 1 :])
