"""Sorting tensors, and picking from them: stable, nan last, ties by position."""

from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import DType, ShapeExpr, TupleType, Type
from runtime.tensor import Array, Tensor, is_foreign
from zynml.stdlib import written
from zynml.stdlib.dtypes import element_dtype, require_bool, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import Dims, dims_of, is_int, require_axis, shape_text, tensor_type
from zynml.stdlib.structure import as_tensor_type, constant_axis, contents_of, with_dims

family = FunctionFamily()


def _checked_dims(calls: CallTypes) -> Dims | None:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is not None:
        constant_axis(calls, "axis", len(dims), -1)
    return dims


def _sorted_rule(calls: CallTypes) -> Type:
    return with_dims(as_tensor_type(subject(calls)), _checked_dims(calls))


def _order_rule(calls: CallTypes) -> Type:
    return tensor_type(DType.I64, _checked_dims(calls))


def order_of(array: Array, axis: int, descending: bool) -> Array:
    """The positions along an axis in sorted order."""
    keys = _comparable(array)
    return np.argsort(_mirrored(keys) if descending else keys, axis=axis, kind="stable")


def _comparable(array: Array) -> Array:
    """The elements in a type that NumPy sorts."""
    return array.astype(np.float32) if is_foreign(array.dtype) else array


def _mirrored(keys: Array) -> Array:
    """Keys that sort the other way round, equal where these are, NaNs where these are."""
    return ~keys if keys.dtype.kind in "iub" else -keys


def _order(settings: StdlibSettings, self: Any, axis: Any, descending: Any) -> tuple[Array, int, Array]:
    """A tensor's elements, the axis, and the positions along it in sorted order: by a kernel where there are many on the host."""
    array = contents_of(self)
    along, downward = require_axis(axis, array.ndim), require_bool(descending, "`descending=`")
    is_here = isinstance(self, Tensor) and self.remote is None and array.dtype.kind in "iuf"
    if not is_here or array.size < written.KERNEL_FROM or array.shape[along] < _LONG:
        return array, along, order_of(array, along, downward)
    lines = np.moveaxis(array, along, -1)
    rows = Tensor(np.ascontiguousarray(lines).reshape(-1, lines.shape[-1]))
    text = f'def order(x) {{ compute(x) @kernel(sort, descending={str(downward).lower()}) @device("cpu") {{ {_ROWS} }} }}\n'
    _, order = written.generated(settings, f"order of {rows.dtype_name}, descending: {downward}", lambda: text, "order")(rows)
    return array, along, np.moveaxis(np.asarray(order).reshape(lines.shape), -1, along)


_LONG = 128
"""Elements of a line from which on a kernel is quicker than NumPy: 2 to 10 times."""
_ROWS = "for row in 0..R, place in 0..N: yield (x[row, place], place)"


@family.tensor_method("argsort", result=_order_rule, uses_settings=True, keywords=("descending",))
def argsort(settings: StdlibSettings, self: Any, axis: Any = -1, descending: Any = False) -> Tensor:
    """The positions of the elements along an axis in sorted order."""
    return Tensor(np.ascontiguousarray(_order(settings, self, axis, descending)[2]))


@family.tensor_method("sort", result=_sorted_rule, keywords=("descending",))
def sort(self: Any, axis: Any = -1, descending: Any = False) -> Tensor:
    """A sorted copy along an axis."""
    array = contents_of(self)
    along, downward = require_axis(axis, array.ndim), require_bool(descending, "`descending=`")
    lines = np.moveaxis(array, along, -1)
    keys = _comparable(lines)
    ordered = _mirrored(np.sort(_mirrored(keys), axis=-1)) if downward else np.sort(keys, axis=-1)
    made = ordered.astype(array.dtype, copy=False)
    if keys.dtype.kind == "f":
        # equals have different bits here: in each line they stand side by side, and stay in their order
        for alike, there in ((keys == 0, ordered == 0), (np.isnan(keys), np.isnan(ordered))):
            if alike.any():
                made[there] = lines[alike]
    return Tensor(np.ascontiguousarray(np.moveaxis(made, -1, along)))


def _topk_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = _checked_dims(calls)
    element = element_dtype(kind) if kind is not None else None
    count = calls.constants.get("count")
    shape: Dims | None = None
    if dims is not None and dims:
        shape = (None,) * len(dims)
        axis = constant_axis(calls, "axis", len(dims), -1)
        if axis is not None:
            shape = (*dims[:axis], ShapeExpr.of(count) if is_int(count) else None, *dims[axis + 1 :])  # type: ignore[arg-type]
    return TupleType((tensor_type(element, shape), tensor_type(DType.I64, shape)))


@family.tensor_method("topk", result=_topk_rule, uses_settings=True)
def topk(settings: StdlibSettings, self: Any, count: Any, axis: Any = -1) -> tuple[Tensor, Tensor]:
    """The so many largest along an axis, largest first, and their positions."""
    array = contents_of(self)
    along = require_axis(axis, array.ndim)
    if not is_int(count):
        raise LibraryFault("0203", f"a number of elements is an int, not {type_name(count)}")
    if not 0 <= count <= array.shape[along]:
        raise LibraryFault("0801", f"`topk` of {count} is out of range: axis {along} of {shape_text(array.shape)} has {array.shape[along]}")
    order = _first(array, along, int(count))
    if order is None:
        order = np.take(_order(settings, self, along, True)[2], range(int(count)), axis=along)
    return Tensor(np.take_along_axis(array, order, axis=along)), Tensor(order)


_FEW = 8
"""Where at most one element in so many is wanted, they are picked first and sorted then."""


def _first(array: Array, along: int, count: int) -> Array | None:
    """The positions of the so many largest along an axis, largest first; None where sorting all is the way: many are wanted, or NaNs."""
    lines = np.moveaxis(array, along, -1)
    if not 0 < count * _FEW <= lines.shape[-1]:
        return None
    keys = _mirrored(_comparable(lines))
    least = np.partition(keys, count - 1, axis=-1)[..., count - 1 : count]
    if np.isnan(least).any():
        return None
    before, same = keys < least, keys == least
    lacking = count - before.sum(axis=-1, keepdims=True)
    # of equals the first ones
    chosen = before | (same & (np.cumsum(same, axis=-1) <= lacking))
    places = np.nonzero(chosen)[-1].reshape(*lines.shape[:-1], count)
    order = np.argsort(np.take_along_axis(keys, places, axis=-1), axis=-1, kind="stable")
    return np.ascontiguousarray(np.moveaxis(np.take_along_axis(places, order, axis=-1), -1, along))


def _triangle(self: Any, offset: Any, keep: Any) -> Tensor:
    array = contents_of(self)
    if array.ndim < 2:
        raise LibraryFault("0301", f"a triangle is cut out of rank 2 or more, not {shape_text(array.shape)}")
    if not is_int(offset) or abs(int(offset)) >= 1 << 62:
        raise LibraryFault("0203", f"an offset is an int, not {type_name(offset)}")
    return Tensor(keep(array, int(offset)))


@family.tensor_method("tril", result=_sorted_rule, offset="int")
def tril(self: Any, offset: Any = 0) -> Tensor:
    """The elements on and below a diagonal, zeros above."""
    return _triangle(self, offset, np.tril)


@family.tensor_method("triu", result=_sorted_rule, offset="int")
def triu(self: Any, offset: Any = 0) -> Tensor:
    """The elements on and above a diagonal, zeros below."""
    return _triangle(self, offset, np.triu)
