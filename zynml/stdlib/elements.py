"""Elements and parts of tensors by number, lists of them, and copies."""

from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    UNIT,
    UNKNOWN,
    ListType,
    ShapeExpr,
    TensorType,
    Type,
)
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import host_scalar, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.indexing import get_tensor, put_tensor
from zynml.stdlib.on_devices import copied_there
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import (
    dims_of,
    is_int,
    require_axis,
    require_shape,
    shape_text,
    static_axis,
)
from zynml.stdlib.structure import as_tensor_type, contents_of, with_dims

family = FunctionFamily()


def _element_rule(calls: CallTypes) -> Type:
    kind = subject(calls)
    return kind.element if isinstance(kind, TensorType) else UNKNOWN


def _flat_position(array: Array, index: Any) -> tuple[Any, ...]:
    """The indices of `get(i)` (flat) and `get([i, j])`."""
    if isinstance(index, list | tuple):
        if len(index) != array.ndim:
            message = f"{len(index)} indices for a tensor of shape {shape_text(array.shape)}, which has {array.ndim} axes"
            raise LibraryFault("0304", message)
        return tuple(index)
    if not is_int(index):
        raise LibraryFault("0407", f"an index is an int, not {type_name(index)}")
    if not -array.size <= index < array.size:
        raise LibraryFault("0801", f"index {index} is out of range: the tensor has {array.size} elements")
    return tuple(int(i) for i in np.unravel_index(int(index) % array.size, array.shape))


@family.method("tensor", "get", result=_element_rule, index="int or list of int")
def get(self: Any, index: Any) -> Any:
    """The element at a flat index, or at a list of indices."""
    return get_tensor(self, _flat_position(self.contents, index)) if self.shape else host_scalar(self.contents)


@family.method("tensor", "set", result=UNIT, mutates=True, index="int or list of int")
def set_(self: Any, index: Any, value: Any) -> None:
    """Stores an element at a flat index, or at a list of indices."""
    put_tensor(self, _flat_position(self.contents, index), value)


@family.method("tensor", "fill", result=UNIT, mutates=True)
def fill(self: Any, value: Any) -> None:
    """Stores a number everywhere."""
    put_tensor(self, (Ellipsis,), value)


def _slice_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return with_dims(kind, None)
    axis, low, high = (calls.constants.get(name) for name in ("dim", "low", "high"))
    if not (is_int(axis) and is_int(low) and is_int(high)):
        return with_dims(kind, (None,) * len(dims))
    along = static_axis(axis, len(dims))
    extent = dims[along].value if dims[along] is not None else None  # type: ignore[union-attr]
    if extent is not None and not 0 <= low <= high <= extent:  # type: ignore[operator]
        raise TypeFault("0305", slice_message(low, high, along, extent), "high")
    return with_dims(kind, (*dims[:along], ShapeExpr.of(max(0, high - low)), *dims[along + 1 :]))  # type: ignore[operator]


def slice_message(low: Any, high: Any, axis: int, extent: int) -> str:
    return f"{low} to {high} is outside axis {axis}, which goes from 0 to {extent}"


@family.method("tensor", "slice", result=_slice_rule, dim="int or list of int", low="int or list of int", high="int")
def slice_(self: Any, dim: Any, low: Any, high: Any = None) -> Tensor:
    """`slice(dim, low, high)`: a part of one axis. `slice(lows, highs)`: of each axis. Views."""
    extents = self.shape
    if high is None:
        lows, highs = require_shape((dim,), "a list of bounds"), require_shape((low,), "a list of bounds")
        if len(lows) != len(highs) or len(lows) > len(extents):
            raise LibraryFault("0304", f"bounds for {len(lows)} and {len(highs)} axes of a tensor with {len(extents)}")
        pairs = list(zip(range(len(lows)), lows, highs, strict=True))
    else:
        if not is_int(low) or not is_int(high):
            raise LibraryFault("0407", "the bounds of a slice are ints")
        pairs = [(require_axis(dim, len(extents)), int(low), int(high))]
    index = [slice(None)] * len(extents)
    for axis, first, last in pairs:
        if not 0 <= first <= last <= extents[axis]:
            raise LibraryFault("0801", slice_message(first, last, axis, extents[axis]))
        index[axis] = slice(first, last)
    part: Tensor = self.viewed(lambda array: array[tuple(index)])
    return part


@family.tensor_method("item", result=_element_rule)
def item(self: Any) -> Any:
    """The element of a tensor that has just one."""
    array = contents_of(self)
    if array.size != 1:
        raise LibraryFault("0301", f"`item` needs one element, and {shape_text(array.shape)} has {array.size}")
    return host_scalar(array.reshape(-1)[0])


def _list_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if kind is None or dims is None:
        return UNKNOWN
    out = kind.element
    for _ in dims:
        out = ListType(out)
    return out


@family.tensor_method("to_list", result=_list_rule)
def to_list(self: Any) -> Any:
    """The elements as nested lists."""
    return _listed(contents_of(self))


def _listed(array: Array) -> Any:
    if array.ndim == 0:
        return host_scalar(array)
    if array.dtype in (np.int64, np.float64, np.bool_):
        return array.tolist()
    return [_listed(row) for row in array] if array.ndim > 1 else list(array)


def _same(calls: CallTypes) -> Type:
    return as_tensor_type(subject(calls)) or UNKNOWN


@family.method("tensor", "clone", "contiguous", result=_same, uses_settings=True)
def clone(settings: StdlibSettings, self: Any) -> Tensor:
    """A copy that shares nothing."""
    return tensor_clone(settings, self)


@family.function("tensor_clone", result=_same, uses_settings=True)
def tensor_clone(settings: StdlibSettings, x: Any) -> Tensor:
    """A copy that shares nothing."""
    tensor = to_tensor(x)
    return tensor.clone() if (there := copied_there(settings, tensor)) is None else there
