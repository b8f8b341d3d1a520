"""Joining tensors along an axis, and splitting them."""

from itertools import accumulate
from operator import itemgetter
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    STRING,
    UNKNOWN,
    ListType,
    Scalar,
    ShapeExpr,
    TensorType,
    TupleType,
    Type,
)
from runtime.tensor import Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.on_devices import gpu_of, joined_there
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import (
    Dims,
    dims_of,
    is_int,
    require_axis,
    require_extents,
    require_memory,
    require_shape,
    shape_text,
    tensor_type,
)
from zynml.stdlib.strings import require_text
from zynml.stdlib.structure import as_tensor_type, constant_axis, rearranged, with_dims

family = FunctionFamily()

MAX_EMPTY_PARTS = 1 << 20


def _parts_types(calls: CallTypes) -> tuple[list[TensorType], bool]:
    """The tensors that a call joins, and whether they are all of them."""
    given = calls.types.get("tensors", ())
    if len(given) == 1 and isinstance(given[0], TupleType):
        given = given[0].elements
    elif len(given) == 1 and isinstance(given[0], ListType):
        constant = calls.constants.get("tensors")
        inner = as_tensor_type(given[0].element) if not isinstance(given[0].element, Scalar) else None
        return ([inner] if inner is not None else []), constant is not None
    return [kind for part in given if (kind := as_tensor_type(part)) is not None], UNKNOWN not in given


def _concat_rule(calls: CallTypes) -> Type:
    parts, complete = _parts_types(calls)
    if not parts:
        return tensor_type(None, None)
    dims = dims_of(parts[0])
    if dims is None:
        return with_dims(parts[0], None)
    axis = constant_axis(calls, "axis", len(dims), 0)
    out: list[ShapeExpr | None] = list(dims)
    total = dims[axis] if axis is not None else None
    for other in parts[1:]:
        extents = dims_of(other)
        if extents is None:
            total = None
            continue
        if axis is not None:
            _require_joinable(dims, extents, axis)
            more = extents[axis]
            total = total + more if total is not None and more is not None else None
    if axis is None:
        return with_dims(parts[0], (None,) * len(dims))
    out[axis] = total if complete and len(calls.types.get("tensors", ())) != 1 else None
    return with_dims(parts[0], tuple(out))


def _require_joinable(first: Dims, other: Dims, axis: int) -> None:
    if len(first) != len(other):
        raise TypeFault("0301", f"{shape_text(first)} and {shape_text(other)} can't be joined: their ranks differ", "tensors")
    for along, (a, b) in enumerate(zip(first, other, strict=True)):
        x, y = a.value if a is not None else None, b.value if b is not None else None
        if along != axis and x is not None and y is not None and x != y:
            raise TypeFault("0301", join_message(first, other, axis, along), "tensors")


def join_message(first: Any, other: Any, axis: int, along: int) -> str:
    return (
        f"{shape_text(first)} and {shape_text(other)} can't be joined along axis {axis}: axis {along} is {first[along]} and {other[along]}"
    )


def _parts(tensors: tuple[Any, ...]) -> list[Tensor]:
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(tensors[0])
    if not tensors:
        raise LibraryFault("0204", "there is no tensor to join")
    parts = [to_tensor(tensor) for tensor in tensors]
    for part in parts[1:]:
        if part.dtype != parts[0].dtype:
            names = f"{type_name(parts[0])} and {type_name(part)}"
            raise LibraryFault("0207", f"{names} can't be joined: their element types differ", "convert one of them with `as`")
    return parts


@family.function("Tensor::concat", "cat", result=_concat_rule, variadic="tensors", keywords=("axis",), uses_settings=True)
def concat(settings: StdlibSettings, tensors: Any, axis: Any = 0) -> Tensor:
    """Tensors one after the other along an axis."""
    parts = _parts(tensors)
    first = parts[0].shape
    if not first:
        raise LibraryFault("0301", "tensors of rank 0 can't be joined along an axis", "`stack` makes an axis")
    along = require_axis(axis, len(first))
    for other in parts[1:]:
        if len(other.shape) != len(first):
            raise LibraryFault("0301", f"{shape_text(first)} and {shape_text(other.shape)} can't be joined: their ranks differ")
        for at, (a, b) in enumerate(zip(first, other.shape, strict=True)):
            if at != along and a != b:
                raise LibraryFault("0301", join_message(first, other.shape, along, at))
    there = joined_there(settings, parts, along)
    if there is not None:
        return there
    total = sum(part.shape[along] for part in parts)
    require_memory((*first[:along], total, *first[along + 1 :]), parts[0].dtype.itemsize)
    return Tensor(np.concatenate([part.contents for part in parts], axis=along))


def _joined_rule(calls: CallTypes) -> Type:
    given = calls.types.get("tensors", ())
    if STRING not in given:
        return _concat_rule(calls)
    other = next((kind for kind in given if kind not in (STRING, UNKNOWN)), None)
    if other is not None:
        raise TypeFault("0203", f"text is joined with text, not with {other}", "tensors", hint="`to_string(x)` is a value as text")
    if "axis" in calls.types:
        raise TypeFault("0204", "texts have no axis to be joined along", "axis", hint="leave `axis` out")
    return STRING


@family.function(
    "concat", result=_joined_rule, variadic="tensors", keywords=("axis",), uses_settings=True, tensors="tensor or list or tuple or String"
)
def joined(settings: StdlibSettings, tensors: Any, axis: Any = 0) -> Tensor | str:
    """Tensors one after the other along an axis, or texts one after the other."""
    if any(isinstance(value, str) for value in tensors):
        return "".join(map(require_text, tensors))
    return concat(settings, tensors, axis)


@family.method("tensor", "concat", result=rearranged, uses_settings=True)
def concat_method(settings: StdlibSettings, self: Any, other: Any, axis: Any = 0) -> Tensor:
    """This tensor and another (or a list of them), one after the other along an axis."""
    return concat(settings, (self, *other) if isinstance(other, list | tuple) else (self, other), axis)


def _stack_rule(calls: CallTypes) -> Type:
    parts, complete = _parts_types(calls)
    if not parts:
        return tensor_type(None, None)
    dims = dims_of(parts[0])
    if dims is None:
        return with_dims(parts[0], None)
    axis = constant_axis(calls, "axis", len(dims) + 1, 0)
    count = ShapeExpr.of(len(parts)) if complete and len(parts) > 1 else None
    if axis is None:
        return with_dims(parts[0], (None,) * (len(dims) + 1))
    return with_dims(parts[0], (*dims[:axis], count, *dims[axis:]))


@family.function("stack", "Tensor::stack", result=_stack_rule, variadic="tensors", keywords=("axis",), uses_settings=True)
def stack(settings: StdlibSettings, tensors: Any, axis: Any = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    parts = _parts(tensors)
    first = parts[0].shape
    for other in parts[1:]:
        if other.shape != first:
            raise LibraryFault("0301", f"{shape_text(first)} and {shape_text(other.shape)} can't be stacked: shapes differ")
    along = require_axis(axis, len(first) + 1)
    if gpu_of(*parts) is not None:
        there = joined_there(settings, [part.reshaped((*first[:along], 1, *first[along:])) for part in parts], along)
        if there is not None:
            return there
    require_memory((len(parts), *first), parts[0].dtype.itemsize)
    return Tensor(np.stack([part.contents for part in parts], axis=along))


def _split_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return ListType(with_dims(kind, None))
    axis = constant_axis(calls, "axis", len(dims), 0)
    if axis is None:
        return ListType(with_dims(kind, (None,) * len(dims)))
    return ListType(with_dims(kind, (*dims[:axis], None, *dims[axis + 1 :])))


@family.tensor_method("split", result=_split_rule, parts="int or list of int")
def split(self: Any, parts: Any, axis: Any = 0) -> list[Tensor]:
    """Views along an axis: so many equal parts, or parts of the listed extents."""
    tensor = to_tensor(self)
    along = require_axis(axis, len(tensor.shape))
    extent = tensor.shape[along]
    if is_int(parts):
        if parts <= 0 or extent % parts:
            raise LibraryFault("0301", f"axis {along} of {shape_text(tensor.shape)} has extent {extent}, which {parts} parts don't divide")
        if parts > max(extent, MAX_EMPTY_PARTS):
            raise LibraryFault("0804", f"{parts} parts of an empty axis are more than a list holds here: {MAX_EMPTY_PARTS}")
        sizes: tuple[int, ...] = (extent // int(parts),) * int(parts)
    else:
        sizes = require_extents(require_shape(parts, "a list of extents"))
        if sum(sizes) != extent:
            raise LibraryFault("0301", f"parts of {shape_text(sizes)} make {sum(sizes)}, and axis {along} has extent {extent}")
    ends = list(accumulate(sizes))
    parts_of_axis = [(slice(None),) * along + (slice(end - size, end),) for size, end in zip(sizes, ends, strict=True)]
    return [tensor.viewed(itemgetter(part)) for part in parts_of_axis]
