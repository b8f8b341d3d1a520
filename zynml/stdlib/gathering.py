"""Elements at places that other tensors name: embedding, gather, scatter_add; and int8 numbers with a scale."""

from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import F32, UNKNOWN, DType, Scalar, TensorType, TupleType, Type
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import array_dtype, element_dtype, float_array, join
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.shapes import dims_of, require_axis, shape_text, tensor_type
from zynml.stdlib.structure import as_tensor_type

family = FunctionFamily()


def _indices(value: Any, name: str) -> Array:
    array = to_tensor(value).contents
    if not array_dtype(array).is_int:
        raise LibraryFault("0407", f"the indices of `{name}` are ints, not {array_dtype(array).value}")
    return array


def _require_inside(indices: Array, extent: int, axis: int) -> None:
    wrong = indices[(indices < 0) | (indices >= extent)]
    if wrong.size:
        raise LibraryFault("0801", f"index {int(wrong.flat[0])} is out of range: axis {axis} has {extent} elements")


# ---- rows ------------------------------------------------------------------------------------------------------------


def _embedding_rule(calls: CallTypes) -> Type:
    table, ids = as_tensor_type(subject(calls)), as_tensor_type(calls["ids"])
    rows = dims_of(table) if table is not None else None
    places = dims_of(ids) if ids is not None else None
    return tensor_type(element_dtype(subject(calls)), (*places, *rows[1:]) if rows and places is not None else None)


@family.tensor_method("embedding", result=_embedding_rule, ids="int or list or tensor")
def embedding(self: Any, ids: Any) -> Tensor:
    """The rows of a table that the ids name, in the shape of the ids."""
    table, places = to_tensor(self).contents, _indices(ids, "embedding")
    if table.ndim == 0:
        raise LibraryFault("0301", "`embedding` takes a table of at least one axis")
    _require_inside(places, table.shape[0], 0)
    return Tensor(table[places])


# ---- along an axis ---------------------------------------------------------------------------------------------------


def _like_indices(calls: CallTypes) -> Type:
    indices = as_tensor_type(calls["indices"])
    return tensor_type(element_dtype(subject(calls)), dims_of(indices) if indices is not None else None)


def _placed(value: Array, axis: Any, indices: Any, name: str) -> tuple[int, Array]:
    """The axis and the indices, which go with the tensor in all other axes."""
    along, places = require_axis(axis, value.ndim), _indices(indices, name)
    others = [e for number, e in enumerate(value.shape) if number != along]
    if places.ndim != value.ndim or [e for number, e in enumerate(places.shape) if number != along] != others:
        message = f"the indices have shape {shape_text(places.shape)}, and but for axis {along} that of {shape_text(value.shape)} is needed"
        raise LibraryFault("0301", message)
    _require_inside(places, value.shape[along], along)
    return along, places


@family.tensor_method("gather", result=_like_indices, indices="list or tensor")
def gather(self: Any, axis: Any, indices: Any) -> Tensor:
    """Along an axis the elements at the indices, which have the tensor's shape in all other axes: of axis 0,
    `out[i, j] = x[indices[i, j], j]`."""
    array = to_tensor(self).contents
    along, places = _placed(array, axis, indices, "gather")
    return Tensor(np.take_along_axis(array, places.astype(np.int64), along))


@family.tensor_method("scatter_add", result=lambda calls: as_tensor_type(subject(calls)) or UNKNOWN, indices="list or tensor")
def scatter_add(self: Any, axis: Any, indices: Any, values: Any) -> Tensor:
    """A new tensor: what `gather` would read at the indices has the values added to it, in the order of the values."""
    array, added = to_tensor(self).contents, to_tensor(values).contents
    along, places = _placed(array, axis, indices, "scatter_add")
    if added.shape != places.shape:
        raise LibraryFault("0301", f"the values have shape {shape_text(added.shape)}, and the indices {shape_text(places.shape)}")
    if join(array_dtype(added), array_dtype(array)) is not array_dtype(array):
        given, wanted = array_dtype(added).value, array_dtype(array).value
        raise LibraryFault("0207", f"the values are {given}, and the tensor {wanted}", f"write `... as {wanted}` if losing that is meant")
    out = array.copy()
    at = tuple(places.astype(np.int64) if axis_ == along else index for axis_, index in enumerate(np.indices(places.shape)))
    np.add.at(out, at, added.astype(array.dtype))
    return Tensor(out)


# ---- int8 ------------------------------------------------------------------------------------------------------------


def _quantized_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    return TupleType((TensorType(Scalar(DType.I8), kind.shape) if kind is not None else tensor_type(DType.I8, None), F32))


@family.tensor_method("quantize", result=_quantized_rule)
def quantize(self: Any, dtype: Any = "i8") -> Any:
    """The elements as i8 and the scale, an f32, by which they come back: `q * scale` is within half a scale of `x`. The largest
    magnitude is 127. Elements that are nan or infinite are refused."""
    if str(getattr(dtype, "value", dtype)) not in ("i8", "int8"):
        raise LibraryFault("0203", f"`quantize` makes i8, not {getattr(dtype, 'value', dtype)}")
    array = float_array(to_tensor(self).contents).astype(np.float64)
    if not np.isfinite(array).all():
        raise LibraryFault("0203", "`quantize` takes finite numbers")
    largest = float(np.abs(array).max()) if array.size else 0.0
    scale = np.float32(largest / 127.0) if largest else np.float32(1.0)
    scaled = np.clip(np.rint(array / np.float64(scale)), -127, 127)
    return Tensor(scaled.astype(np.int8)), scale
