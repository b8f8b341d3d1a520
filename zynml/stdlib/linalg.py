"""Products of tensors and the layers of networks: matmul, dot, softmax, layer_norm, cross_entropy."""

import math
from typing import Any

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import BOOL, UNKNOWN, DType, Scalar, ShapeExpr, StringType, Type
from runtime.tensor import Array, Tensor
from zynml.stdlib import integers
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import (
    array_dtype,
    combine_types,
    combine_values,
    element_dtype,
    float_array,
    host_scalar,
    is_definite,
    limits,
    numpy_of,
    require_number,
    type_name,
)
from zynml.stdlib.elementwise import real_dtype
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.on_devices import product_there
from zynml.stdlib.operators import is_number, operand_array, undefined
from zynml.stdlib.printing import to_text
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import (
    Dims,
    aligned,
    broadcast_dims,
    broadcast_shapes,
    dims_of,
    is_int,
    require_axis,
    require_memory,
    shape_text,
    tensor_type,
)
from zynml.stdlib.structure import as_tensor_type, constant_axis, contents_of
from zynml.stdlib.written import wants_kernels, written

family = FunctionFamily()


def matmul_message(left: Any, right: Any) -> str:
    if not left or not right:
        return f"shapes {shape_text(left)} and {shape_text(right)} don't fit `@`: both sides need an axis"
    axis = -2 if len(right) > 1 else 0
    return (
        f"shapes {shape_text(left)} and {shape_text(right)} don't fit `@`: the last axis on the left is {left[-1]}, "
        f"axis {axis} on the right is {right[axis]}" + aligned(("left", left), ("right", right))
    )


def matmul_dims(left: Dims, right: Dims) -> Dims:
    """The shape of `left @ right`; one axis on a side counts as a row or a column, which the result lacks."""
    if not left or not right:
        raise TypeFault("0301", matmul_message(left, right))
    inner, other = left[-1], right[-2 if len(right) > 1 else 0]
    a, b = inner.value if inner is not None else None, other.value if other is not None else None
    if a is not None and b is not None and a != b:
        raise TypeFault("0301", matmul_message(left, right))
    batch = broadcast_dims(left[:-2], right[:-2], "@")
    assert batch is not None
    rows = left[-2:-1]
    columns = right[-1:] if len(right) > 1 else ()
    return batch + rows + columns


def _matmul_rule(calls: CallTypes) -> Type:
    sides = calls.types.get("left", subject(calls)), calls.types.get("right", calls["other"])
    if any(isinstance(side, Scalar | StringType) for side in sides):
        raise TypeFault("0208", f"`@` is not defined for {sides[0]} and {sides[1]}")
    left, right = map(as_tensor_type, sides)
    if left is None or right is None:
        return UNKNOWN
    dtype = combine_types(left, right)
    a, b = dims_of(left), dims_of(right)
    if a is None or b is None:
        return UNKNOWN
    dims = matmul_dims(a, b)
    if dims:
        return tensor_type(dtype, dims)
    return UNKNOWN if dtype is None else Scalar(dtype)


@family.function("operator matmul", result=_matmul_rule, uses_settings=True)
def matmul(settings: StdlibSettings, left: Any, right: Any) -> Any:
    """`left @ right`: rows times columns over the last two axes, the axes before them broadcast. Two vectors give a scalar."""
    if not isinstance(left, Tensor | list) or not isinstance(right, Tensor | list):
        raise undefined("@", left, right)
    a, b = to_tensor(left), to_tensor(right)
    x, y = a.shape, b.shape
    if not x or not y or x[-1] != y[-2 if len(y) > 1 else 0]:
        raise LibraryFault("0301", matmul_message(x, y))
    dtype = combine_values(a, b)
    if dtype is DType.BOOL:
        raise undefined("@", left, right)
    batch = broadcast_shapes(x[:-2], y[:-2], "@")
    require_memory((*batch, *x[-2:-1], *(y[-1:] if len(y) > 1 else ())), numpy_of(dtype).itemsize)
    if (there := product_there(settings, a, b, dtype)) is not None:
        return there
    with np.errstate(all="ignore"):
        product = np.asarray(_product(operand_array(a, dtype), operand_array(b, dtype), dtype))
    return Tensor(product) if product.ndim else host_scalar(product)


def _product(left: Array, right: Array, dtype: DType) -> Any:
    if dtype.is_float:
        return np.asarray(np.matmul(float_array(left), float_array(right))).astype(left.dtype, copy=False)
    largest = [max(abs(low), abs(high)) for low, high in (integers.bounds(left), integers.bounds(right))]
    if largest[0] * largest[1] * left.shape[-1] <= limits(dtype)[1]:
        return np.matmul(left, right)
    wide = np.asarray(np.matmul(left.astype(object), right.astype(object)), dtype=object)
    low, high = limits(dtype)
    if wide.size and (wide.min() < low or wide.max() > high):
        raise integers.overflow("@", dtype)
    return wide.astype(numpy_of(dtype))


@family.tensor_method("matmul", result=_matmul_rule, uses_settings=True)
def matmul_method(settings: StdlibSettings, self: Any, other: Any) -> Any:
    """`x @ other`."""
    return matmul(settings, self, other)


def _dot_rule(calls: CallTypes) -> Type:
    left, right = as_tensor_type(subject(calls)), as_tensor_type(calls["other"])
    if left is None or right is None:
        return UNKNOWN
    a, b = dims_of(left), dims_of(right)
    if a is not None and b is not None and (len(a) != 1 or len(b) != 1):
        raise TypeFault("0301", f"`dot` takes two vectors, not shapes {shape_text(a)} and {shape_text(b)}", hint="matrices multiply by `@`")
    if a is not None and b is not None:
        matmul_dims(a, b)
    dtype = combine_types(left, right)
    return UNKNOWN if dtype is None else Scalar(dtype)


@family.tensor_method("dot", "tensor_dot", result=_dot_rule, uses_settings=True)
def dot(settings: StdlibSettings, self: Any, other: Any) -> Any:
    """The sum of the products of two vectors' elements."""
    a, b = contents_of(self), contents_of(other)
    if a.ndim != 1 or b.ndim != 1:
        raise LibraryFault(
            "0301", f"`dot` takes two vectors, not shapes {shape_text(a.shape)} and {shape_text(b.shape)}", "matrices multiply by `@`"
        )
    return matmul(settings, Tensor(a), Tensor(b))


@family.tensor_method("outer", result=lambda calls: _outer_type(calls), uses_settings=True)
def outer(settings: StdlibSettings, self: Any, other: Any) -> Tensor:
    """All products of two vectors' elements."""
    a, b = to_tensor(self), to_tensor(other)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise LibraryFault("0301", f"`outer` takes two vectors, not shapes {shape_text(a.shape)} and {shape_text(b.shape)}")
    product: Tensor = matmul(settings, a.reshaped((*a.shape, 1)), b.reshaped((1, *b.shape)))
    return product


def _outer_type(calls: CallTypes) -> Type:
    left, right = as_tensor_type(subject(calls)), as_tensor_type(calls["other"])
    if left is None or right is None:
        return tensor_type(None, (None, None))
    a, b = dims_of(left), dims_of(right)
    return tensor_type(combine_types(left, right), (a[0] if a else None, b[0] if b else None))


# ---- layers ----------------------------------------------------------------------------------------------------------


def _along_axis(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    if kind is None:
        return tensor_type(None, None)
    dims = dims_of(kind)
    if dims is not None:
        constant_axis(calls, "axis", len(dims), -1)
    element = element_dtype(kind)
    return tensor_type(None if element is None else real_dtype(element), dims)


def _real(values: Any, array: Array) -> Tensor:
    return Tensor(np.asarray(values).astype(numpy_of(real_dtype(array_dtype(array))), copy=False))


def softmax_array(values: Array, axis: int) -> Array:
    if values.shape[axis] == 0:
        return values
    raised = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def _by_rows(settings: StdlibSettings, name: str, value: Any, axis: Any) -> Tensor | None:
    """What a kernel of layers.zynml gives for each row; None where NumPy does it: along other axes, of ints, and of small tensors here."""
    if not isinstance(value, Tensor) or not value.shape or 0 in value.shape or axis not in (-1, len(value.shape) - 1):
        return None
    if not DType(value.dtype_name).is_float or not wants_kernels(settings, value):
        return None
    found: Tensor = written(settings, "layers", name)(value.reshaped((math.prod(value.shape[:-1]), value.shape[-1])))
    return found.reshaped(value.shape)


@family.tensor_method("softmax", result=_along_axis, uses_settings=True)
def softmax(settings: StdlibSettings, self: Any, axis: Any = -1) -> Tensor:
    """exp(x) over its sum along an axis."""
    by_rows = _by_rows(settings, "softmax", self, axis)
    if by_rows is not None:
        return by_rows
    array = contents_of(self)
    along = require_axis(axis, array.ndim)
    with np.errstate(all="ignore"):
        return _real(softmax_array(float_array(array), along), array)


def log_softmax_array(values: Array, axis: int) -> Array:
    if values.shape[axis] == 0:
        return values
    shifted = values - values.max(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


@family.tensor_method("log_softmax", result=_along_axis, uses_settings=True)
def log_softmax(settings: StdlibSettings, self: Any, axis: Any = -1) -> Tensor:
    """The logarithm of softmax, accurate also where that is tiny."""
    by_rows = _by_rows(settings, "log_softmax", self, axis)
    if by_rows is not None:
        return by_rows
    array = contents_of(self)
    along = require_axis(axis, array.ndim)
    with np.errstate(all="ignore"):
        return _real(log_softmax_array(float_array(array), along), array)


@family.tensor_method("layer_norm", result=_along_axis, weight="tensor", bias="tensor", eps="number")
def layer_norm(self: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Tensor:
    """The last axis shifted and scaled to mean 0 and variance 1 (divided by n), then times weight plus bias."""
    array = contents_of(self)
    require_axis(-1, array.ndim)
    epsilon = require_number(eps, "`eps`")
    values = float_array(array).astype(np.float64)
    with np.errstate(all="ignore"):
        centred = values - values.mean(axis=-1, keepdims=True) if values.shape[-1] else values
        spread = np.square(centred).mean(axis=-1, keepdims=True) if values.shape[-1] else centred
        normed = centred / np.sqrt(spread + epsilon) if values.shape[-1] else centred
        for factor, join in ((weight, np.multiply), (bias, np.add)):
            if factor is not None:
                other = contents_of(factor)
                if broadcast_shapes(normed.shape, other.shape, "layer_norm") != normed.shape:
                    raise LibraryFault("0301", f"shape {shape_text(other.shape)} does not fit a tensor of shape {shape_text(normed.shape)}")
                normed = join(normed, float_array(other))
    return _real(normed, array)


def _cross_entropy_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    element = element_dtype(kind) if kind is not None else None
    targets = calls["targets"]
    if is_definite(targets) and element_dtype(targets) is not None:
        dtype = element_dtype(targets)
        if dtype is not None and not dtype.is_int:
            raise TypeFault("0203", f"the targets of `cross_entropy` are class numbers, ints, not {dtype.value}", "targets")
    return UNKNOWN if element is None else Scalar(real_dtype(element))


@family.tensor_method("cross_entropy", result=_cross_entropy_rule, targets="int or tensor")
def cross_entropy(self: Any, targets: Any) -> Any:
    """The mean over rows of -log softmax(x) at each row's target class."""
    array = contents_of(self)
    if array.ndim not in (1, 2):
        raise LibraryFault("0301", f"`cross_entropy` takes logits of shape [classes] or [rows, classes], not {shape_text(array.shape)}")
    given = targets if isinstance(targets, Tensor | list) else Tensor(np.asarray(targets)) if is_number(targets) else None
    wanted = np.empty(0) if given is None else contents_of(given)
    if given is None or not array_dtype(wanted).is_int:
        raise LibraryFault("0203", f"the targets of `cross_entropy` are class numbers, ints, not {type_name(targets)}")
    rows = array[None, :] if array.ndim == 1 else array
    wanted = wanted.reshape(-1)
    if len(wanted) != len(rows):
        raise LibraryFault("0301", f"`cross_entropy` of {len(rows)} rows needs as many targets, not {len(wanted)}")
    if len(rows) == 0:
        raise LibraryFault("0803", "`cross_entropy` of no rows")
    classes = rows.shape[1]
    low, high = int(wanted.min()), int(wanted.max())
    if low < 0 or high >= classes:
        raise LibraryFault("0801", f"class {low if low < 0 else high} is out of range: there are {classes} classes")
    with np.errstate(all="ignore"):
        logs = log_softmax_array(float_array(rows).astype(np.float64), 1)
        loss = -logs[np.arange(len(rows)), wanted.astype(np.int64)].mean()
    return host_scalar(np.asarray(loss).astype(numpy_of(real_dtype(array_dtype(array)))))


@family.tensor_method("allclose", result=BOOL)
def allclose(self: Any, other: Any, rtol: Any = 1e-5, atol: Any = 1e-8) -> bool:
    """Whether all elements are equal up to `atol + rtol * |other|`."""
    a, b = contents_of(self), contents_of(other)
    broadcast_shapes(a.shape, b.shape, "allclose")
    relative, absolute = require_number(rtol, "`rtol`"), require_number(atol, "`atol`")
    with np.errstate(all="ignore"):
        return bool(np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=relative, atol=absolute))


def _one_hot_rule(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    count = calls.constants.get("classes")
    return tensor_type(DType.F32, None if dims is None else (*dims, ShapeExpr.of(count) if isinstance(count, int) else None))


@family.tensor_method("one_hot", result=_one_hot_rule, classes="int")
def one_hot(self: Any, classes: Any) -> Tensor:
    """Class numbers as rows with a single 1, in f32."""
    array = contents_of(self)
    if not array_dtype(array).is_int:
        raise LibraryFault("0203", f"`one_hot` takes class numbers, ints, not {array_dtype(array).value}")
    if not is_int(classes) or classes < 0:
        raise LibraryFault("0203", f"a number of classes is an int of at least 0, not {to_text(classes)}")
    require_memory((*array.shape, int(classes)), 4)
    if array.size and not (int(array.min()) >= 0 and int(array.max()) < classes):
        wrong = int(array.min()) if int(array.min()) < 0 else int(array.max())
        raise LibraryFault("0801", f"class {wrong} is out of range: there are {classes} classes")
    return Tensor((array[..., None] == np.arange(int(classes))).astype(np.float32))
