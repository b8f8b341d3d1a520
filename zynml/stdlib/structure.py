"""Asking a tensor what it is, and rearranging it: shapes, axes, joining, splitting, elements. Views wherever NumPy gives one."""

from math import prod
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import (
    I64,
    STRING,
    UNIT,
    UNKNOWN,
    ListType,
    ShapeExpr,
    TensorType,
    Type,
)
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import list_type_dims, shape_argument, to_tensor
from zynml.stdlib.dtypes import element_dtype
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.on_devices import copied_there
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
    static_axis,
    tensor_type,
    too_large,
)

family = FunctionFamily()


def contents_of(value: Any) -> Array:
    """The array of a tensor, or of a list that stands for one, to be read only."""
    return to_tensor(value).contents


def in_shape(settings: StdlibSettings, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The elements in another shape of as many: a view, or a copy where they lie so that there is none."""
    try:
        return tensor.viewed_as(shape)
    except ValueError:
        there = copied_there(settings, tensor)
        return Tensor(tensor.contents.reshape(shape)) if there is None else there.reshaped(shape)


def as_tensor_type(kind: Type) -> TensorType | None:
    """The tensor type that a type stands for at a call: itself, or what a list of numbers makes. None: not known."""
    if isinstance(kind, TensorType):
        return kind
    if isinstance(kind, ListType):
        return tensor_type(*list_type_dims(kind, None))
    if kind is UNKNOWN:
        return None
    raise TypeFault("0203", f"a tensor is expected here, not {kind}")


def with_dims(kind: TensorType | None, dims: Dims | None) -> Type:
    return tensor_type(element_dtype(kind) if kind is not None else None, dims)


def constant_axis(calls: CallTypes, name: str, rank: int, default: int | None = None) -> int | None:
    """The axis that a call names, None when it isn't constant."""
    value = calls.constants.get(name) if name in calls.types else default
    return static_axis(value, rank) if is_int(value) else None


def rearranged(calls: CallTypes) -> Type:
    """A tensor of the same elements whose shape is not told."""
    return with_dims(as_tensor_type(subject(calls)), None)


# ---- questions -------------------------------------------------------------------------------------------------------


def _shape_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    if calls.types.get("axis", UNIT) == UNIT:
        return ListType(I64)
    dims = dims_of(kind) if kind is not None else None
    if dims is not None:
        constant_axis(calls, "axis", len(dims))
    return I64


@family.tensor_method("shape", result=_shape_rule)
def shape(self: Any, axis: Any = None) -> Any:
    """The extents as a list, or that of one axis."""
    extents = to_tensor(self).shape
    return list(extents) if axis is None else extents[require_axis(axis, len(extents))]


@family.tensor_method("ndim", "rank", result=I64)
def ndim(self: Any) -> int:
    """The number of axes."""
    return len(to_tensor(self).shape)


@family.tensor_method("numel", "size", result=I64)
def numel(self: Any) -> int:
    """The number of elements."""
    return prod(to_tensor(self).shape)


@family.tensor_method("dtype", result=STRING)
def dtype(self: Any) -> str:
    """The element type's name."""
    return to_tensor(self).dtype_name


@family.tensor_method("device", result=STRING)
def device(self: Any) -> str:
    """The device that it lies on."""
    return str(to_tensor(self).device)


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _product(dims: Dims | None) -> int | None:
    product = 1
    for dim in dims if dims is not None else (None,):
        if dim is None or dim.value is None:
            return None
        product *= dim.value
    return product


def fill_message(source: Any, target: Any, have: int, rest: int) -> str:
    return f"{shape_text(source)} has {have} elements, which {rest} does not divide: {shape_text(target)} can't be filled"


def reshape_message(source: Any, target: Any, have: int, want: int) -> str:
    return f"{shape_text(source)} has {have} elements and can't become {shape_text(target)}, which has {want}"


def _reshape_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    target = shape_argument(calls)
    if target is None:
        return with_dims(kind, None)
    source = dims_of(kind) if kind is not None else None
    have = _product(source)
    open_axes = [axis for axis, dim in enumerate(target) if dim is not None and dim.value == -1]
    if len(open_axes) > 1:
        raise TypeFault("0306", f"{shape_text(target)} leaves two extents open (-1)", "shape")
    rest = _product(tuple(dim for axis, dim in enumerate(target) if axis not in open_axes))
    if open_axes:
        filled = None
        if have is not None and rest is not None and rest:
            if have % rest:
                message = (
                    f"{shape_text(source or ())} has {have} elements, which {rest} does not divide: {shape_text(target)} can't be filled"
                )
                raise TypeFault("0306", message, "shape")
            filled = ShapeExpr.of(have // rest)
        target = (*target[: open_axes[0]], filled, *target[open_axes[0] + 1 :])
    elif have is not None and rest is not None and have != rest:
        raise TypeFault("0306", reshape_message(source or (), target, have, rest), "shape")
    return with_dims(kind, target)


@family.tensor_method("reshape", "view", "tensor_reshape", result=_reshape_rule, variadic="shape", uses_settings=True)
def reshape(settings: StdlibSettings, self: Any, shape: Any) -> Tensor:
    """The elements in another shape, a view where possible; one extent may be -1."""
    tensor = to_tensor(self)
    size = prod(tensor.shape)
    target = require_shape(shape)
    if target.count(-1) > 1:
        raise LibraryFault("0306", f"{shape_text(target)} leaves two extents open (-1)")
    if -1 in target:
        rest = int(np.prod([extent for extent in target if extent != -1], dtype=object))
        if rest <= 0 or size % rest:
            raise LibraryFault("0306", fill_message(tensor.shape, target, size, rest))
        target = tuple(size // rest if extent == -1 else extent for extent in target)
    require_extents(target)
    count = prod(target)
    if count != size:
        raise LibraryFault("0306", reshape_message(tensor.shape, target, size, count))
    return in_shape(settings, tensor, target)


def _flatten_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    count = _product(dims_of(kind)) if kind is not None else None
    return with_dims(kind, (None if count is None else ShapeExpr.of(count),))


@family.tensor_method("flatten", "ravel", result=_flatten_rule, uses_settings=True)
def flatten(settings: StdlibSettings, self: Any) -> Tensor:
    """The elements on one axis."""
    tensor = to_tensor(self)
    return in_shape(settings, tensor, (prod(tensor.shape),))


def _squeeze_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return with_dims(kind, None)
    if calls.types.get("axis", UNIT) == UNIT:
        known = all(dim is not None and dim.value is not None for dim in dims)
        return with_dims(kind, tuple(d for d in dims if d is None or d.value != 1) if known else None)
    axis = constant_axis(calls, "axis", len(dims))
    if axis is None:
        return with_dims(kind, (None,) * (len(dims) - 1))
    return with_dims(kind, dims[:axis] + dims[axis + 1 :])


@family.tensor_method("squeeze", result=_squeeze_rule)
def squeeze(self: Any, axis: Any = None) -> Tensor:
    """Without axes of extent 1, or without that one."""
    tensor = to_tensor(self)
    extents = tensor.shape
    if axis is None:
        return tensor.viewed(lambda array: array.squeeze())
    along = require_axis(axis, len(extents))
    if extents[along] != 1:
        raise LibraryFault("0301", f"axis {along} of {shape_text(extents)} has extent {extents[along]}; only 1 can be squeezed")
    return tensor.viewed(lambda array: array.squeeze(along))


def _unsqueeze_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return with_dims(kind, None)
    axis = constant_axis(calls, "axis", len(dims) + 1)
    if axis is None:
        return with_dims(kind, (None,) * (len(dims) + 1))
    return with_dims(kind, (*dims[:axis], ShapeExpr.of(1), *dims[axis:]))


@family.tensor_method("unsqueeze", "expand_dims", result=_unsqueeze_rule)
def unsqueeze(self: Any, axis: Any) -> Tensor:
    """With a new axis of extent 1."""
    tensor = to_tensor(self)
    extents = require_extents((*tensor.shape, 1))
    along = require_axis(axis, len(extents))
    return tensor.viewed(lambda array: np.expand_dims(array, along))


def _transpose_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return with_dims(kind, None)
    if "a" not in calls.types and "b" not in calls.types:
        return with_dims(kind, dims[::-1])
    a, b = constant_axis(calls, "a", len(dims)), constant_axis(calls, "b", len(dims))
    if a is None or b is None:
        return with_dims(kind, (None,) * len(dims))
    out = list(dims)
    out[a], out[b] = out[b], out[a]
    return with_dims(kind, tuple(out))


@family.tensor_method("transpose", "tensor_transpose", result=_transpose_rule, a="int", b="int")
def transpose(self: Any, a: Any = None, b: Any = None) -> Tensor:
    """All axes in reverse order, or two of them swapped; a view."""
    tensor = to_tensor(self)
    rank = len(tensor.shape)
    if a is None and b is None:
        return tensor.viewed(lambda array: array.T)
    if a is None or b is None:
        raise LibraryFault("0204", "`transpose` takes no axes or two")
    first, second = require_axis(a, rank), require_axis(b, rank)
    return tensor.viewed(lambda array: array.swapaxes(first, second))


def _permute_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    if dims is None:
        return with_dims(kind, None)
    constants = calls.constants.get("dims")
    if isinstance(constants, tuple) and len(constants) == 1 and isinstance(constants[0], list | tuple):
        constants = tuple(constants[0])
    if not isinstance(constants, tuple) or not all(is_int(c) for c in constants):
        return with_dims(kind, (None,) * len(dims))
    order = [static_axis(c, len(dims)) for c in constants]
    if sorted(order) != list(range(len(dims))):
        raise TypeFault("0307", permute_message(constants, len(dims)), "dims")
    return with_dims(kind, tuple(dims[axis] for axis in order))


def permute_message(order: Any, rank: int) -> str:
    return f"{shape_text(order)} is no order of the {rank} axes: each stands in it once"


@family.tensor_method("permute", result=_permute_rule, variadic="dims")
def permute(self: Any, dims: Any) -> Tensor:
    """The axes in that order; a view."""
    tensor = to_tensor(self)
    rank = len(tensor.shape)
    given = require_shape(dims, "an order of axes")
    order = [require_axis(axis, rank) for axis in given]
    if sorted(order) != list(range(rank)):
        raise LibraryFault("0307", permute_message(given, rank))
    return tensor.viewed(lambda array: array.transpose(order))


def _expand_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    target = shape_argument(calls)
    dims = dims_of(kind) if kind is not None else None
    if target is None or dims is None:
        return with_dims(kind, target if target is None or not any(d is not None and d.value == -1 for d in target) else None)
    if len(target) < len(dims):
        raise TypeFault("0301", f"{shape_text(dims)} can't expand to {shape_text(target)}, which has fewer axes", "shape")
    padded: Dims = (ShapeExpr.of(1),) * (len(target) - len(dims)) + dims
    out: list[ShapeExpr | None] = []
    for axis, (have, want) in enumerate(zip(padded, target, strict=True)):
        if want is not None and want.value == -1:
            out.append(have)
            continue
        a, b = have.value if have is not None else None, want.value if want is not None else None
        if a is not None and b is not None and a not in (1, b):
            message = f"{shape_text(dims)} can't expand to {shape_text(target)}: axis {axis} has extent {a}, not 1"
            raise TypeFault("0301", message, "shape")
        out.append(want)
    return with_dims(kind, tuple(out))


@family.tensor_method("expand", "broadcast_to", result=_expand_rule, variadic="shape")
def expand(self: Any, shape: Any) -> Tensor:
    """Axes of extent 1 stretched to the shape; -1 keeps an extent. A view that can't be written to."""
    tensor = to_tensor(self)
    target = require_shape(shape)
    if len(target) < len(tensor.shape):
        raise LibraryFault("0301", f"{shape_text(tensor.shape)} can't expand to {shape_text(target)}, which has fewer axes")
    padded = (1,) * (len(target) - len(tensor.shape)) + tensor.shape
    extents = require_extents(tuple(have if want == -1 else want for have, want in zip(padded, target, strict=True)))
    for axis, (have, want) in enumerate(zip(padded, extents, strict=True)):
        if have not in (1, want):
            raise LibraryFault(
                "0301", f"{shape_text(tensor.shape)} can't expand to {shape_text(target)}: axis {axis} has extent {have}, not 1"
            )
    if int(np.prod(extents, dtype=object)) >= 1 << 62:
        raise too_large(extents)
    return tensor.viewed(lambda array: np.broadcast_to(array, extents))


def _repeat_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    counts = shape_argument(calls, "counts")
    dims = dims_of(kind) if kind is not None else None
    if counts is None or dims is None or len(counts) < len(dims):
        return with_dims(kind, None)
    padded: Dims = (ShapeExpr.of(1),) * (len(counts) - len(dims)) + dims
    return with_dims(
        kind,
        tuple(
            None if have is None or times is None or times.value is None else have.times(times.value)
            for have, times in zip(padded, counts, strict=True)
        ),
    )


@family.tensor_method("repeat", "tile", result=_repeat_rule, variadic="counts", counts="int or list of int")
def repeat(self: Any, counts: Any) -> Tensor:
    """Copies side by side, so many along each axis."""
    array = contents_of(self)
    times = require_extents(require_shape(counts, "a number of copies"))
    if len(times) < array.ndim:
        raise LibraryFault("0301", f"{shape_text(array.shape)} has {array.ndim} axes, and copies are counted for {len(times)}")
    padded = (1,) * (len(times) - array.ndim) + array.shape
    require_memory(tuple(a * b for a, b in zip(padded, times, strict=True)), array.itemsize)
    return Tensor(np.tile(array, times))
