"""Sorting tensors, and picking from them: stable, nan last, ties by position."""

from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import DType, ShapeExpr, TupleType, Type
from runtime.tensor import Array, Tensor, is_foreign
from zynml.stdlib.dtypes import array_dtype, element_dtype, require_bool, type_name
from zynml.stdlib.family import FunctionFamily, subject
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
    keys = array.astype(np.float32) if is_foreign(array.dtype) else array
    if not descending:
        return np.argsort(keys, axis=axis, kind="stable")
    # Sorting the mirror image and mirroring the positions keeps equals in their order; ranks make that safe for every dtype.
    ranks = np.unique(keys, return_inverse=True, equal_nan=True)[1].reshape(keys.shape).astype(np.int64)
    missing = np.isnan(keys) if array_dtype(keys).is_float else np.zeros(keys.shape, dtype=np.bool_)
    return np.argsort(np.where(missing, 1, -ranks), axis=axis, kind="stable")


@family.tensor_method("argsort", result=_order_rule, keywords=("descending",))
def argsort(self: Any, axis: Any = -1, descending: Any = False) -> Tensor:
    """The positions of the elements along an axis in sorted order."""
    array = contents_of(self)
    return Tensor(order_of(array, require_axis(axis, array.ndim), require_bool(descending, "`descending=`")))


@family.tensor_method("sort", result=_sorted_rule, keywords=("descending",))
def sort(self: Any, axis: Any = -1, descending: Any = False) -> Tensor:
    """A sorted copy along an axis."""
    array = contents_of(self)
    along, downward = require_axis(axis, array.ndim), require_bool(descending, "`descending=`")
    if _equals_are_alike(array):
        ordered = np.sort(array, axis=along)
        return Tensor(np.ascontiguousarray(np.flip(ordered, along)) if downward else ordered)
    return Tensor(np.take_along_axis(array, order_of(array, along, downward), axis=along))


def _equals_are_alike(array: Array) -> bool:
    """Whether elements that compare equal have the same bits, so that no one sees in which order they come; and all can be compared."""
    if array.dtype.kind in "iub":
        return True
    if is_foreign(array.dtype) or array.dtype.kind != "f":
        return False
    zeros = array == 0
    negative = np.signbit(array[zeros])
    return bool(negative.all() or not negative.any()) and not bool(np.isnan(array).any())


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


@family.tensor_method("topk", result=_topk_rule)
def topk(self: Any, count: Any, axis: Any = -1) -> tuple[Tensor, Tensor]:
    """The so many largest along an axis, largest first, and their positions."""
    array = contents_of(self)
    along = require_axis(axis, array.ndim)
    if not is_int(count):
        raise LibraryFault("0203", f"a number of elements is an int, not {type_name(count)}")
    if not 0 <= count <= array.shape[along]:
        raise LibraryFault("0801", f"`topk` of {count} is out of range: axis {along} of {shape_text(array.shape)} has {array.shape[along]}")
    order = np.take(order_of(array, along, True), range(int(count)), axis=along)
    return Tensor(np.take_along_axis(array, order, axis=along)), Tensor(order)


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
