"""Windows that slide over images: conv2d, max_pool2d, avg_pool2d. Images are [batch, channels, height, width], or without the batch. The
loops stand in layers.zynml; here shapes are checked and the size of the result is computed, for types and at run time alike."""

from collections.abc import Sequence
from math import prod
from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import DType, ShapeExpr, Type
from runtime.tensor import Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import combine_types, combine_values, dtype_of, element_dtype, numpy_of, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.reductions import averaged_dtype
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import Dims, dims_of, is_int, require_memory, shape_text, tensor_type
from zynml.stdlib.structure import as_tensor_type
from zynml.stdlib.written import written

family = FunctionFamily()

Pair = tuple[int, int]


class _Wrong(Exception):
    """What is wrong with the shapes or numbers of a call: a code, a message and a hint."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


def _pair(value: Any, name: str, least: int) -> Pair:
    """An option that is one int for both axes, or one for each."""
    parts = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(parts) != 2 or not all(map(is_int, parts)):
        raise _Wrong("0203", f"`{name}` is an int, or a list of two: of the rows, and of the columns")
    if min(parts) < least:
        raise _Wrong("0203", f"`{name}` is at least {least}, not {min(parts)}")
    return int(parts[0]), int(parts[1])


def _windows(
    name: str, extents: Sequence[int | None], window: Sequence[int | None], stride: Pair, padding: Pair, dilation: Pair
) -> list[Any]:
    """The rows and columns of the result, None where they aren't known."""
    counts: list[Any] = []
    for what, extent, size, step, border, apart in zip(("height", "width"), extents, window, stride, padding, dilation, strict=True):
        if extent is None or size is None:
            counts.append(None)
            continue
        room, reach = extent + 2 * border, (size - 1) * apart + 1
        if reach > room:
            with_padding = f", {room} with its padding" if border else ""
            raise _Wrong("0301", f"`{name}` needs a {what} of at least {reach}, and the image has {extent}{with_padding}")
        counts.append((room - reach) // step + 1)
    return counts


def _require_image(name: str, shape: Sequence[Any]) -> None:
    if len(shape) not in (3, 4):
        raise _Wrong(
            "0301",
            f"`{name}` takes images of shape [batch, channels, height, width] or [channels, height, width], not {shape_text(shape)}",
        )


def _value(dim: ShapeExpr | int | None) -> int | None:
    return dim.value if isinstance(dim, ShapeExpr) else dim


# ---- conv2d ----------------------------------------------------------------------------------------------------------


def _convolved(
    image: Sequence[Any], filters: Sequence[Any], bias: Sequence[Any] | None, options: dict[str, Any]
) -> tuple[list[Any], list[int]]:
    """The shape of the result and the numbers that the loops take. Dims are ints, or None where they aren't known."""
    _require_image("conv2d", image)
    if len(filters) != 4:
        message = f"`conv2d` takes weights of shape [filters, channels / groups, height, width], not {shape_text(filters)}"
        raise _Wrong("0301", message)
    stride, padding = _pair(options["stride"], "stride", 1), _pair(options["padding"], "padding", 0)
    dilation, groups = _pair(options["dilation"], "dilation", 1), options["groups"]
    if not is_int(groups) or groups < 1:
        raise _Wrong("0203", "`groups` is an int of at least 1")
    channels, count = image[-3], filters[0]
    if channels is not None and filters[1] is not None and channels != filters[1] * groups:
        of_groups = f" in each of {groups} groups" if groups > 1 else ""
        raise _Wrong(
            "0301",
            f"the image has {channels} channels, and the weights {shape_text(filters)} take {filters[1]}{of_groups}",
            "weights have the shape [filters, channels / groups, height, width]",
        )
    if count is not None and count % groups:
        raise _Wrong("0301", f"{count} filters can't be divided into {groups} groups of one size")
    if bias is not None and (len(bias) != 1 or (None not in (bias[0], count) and bias[0] != count)):
        raise _Wrong("0301", f"the bias has shape {shape_text(bias)}, and there {'is 1 filter' if count == 1 else f'are {count} filters'}")
    rows, columns = _windows("conv2d", image[-2:], filters[-2:], stride, padding, dilation)
    return [*image[:-3], count, rows, columns], [*stride, *padding, *dilation, int(groups), rows, columns]


def summed(dtype: DType | None) -> DType | None:
    """What sums of products are kept in: small ints widen."""
    return {DType.I8: DType.I32, DType.I16: DType.I32, DType.U8: DType.U32, DType.U16: DType.U32}.get(dtype, dtype) if dtype else None


def _conv2d_rule(calls: CallTypes) -> Type:
    image, filters = as_tensor_type(subject(calls)), as_tensor_type(calls["weight"])
    dtype = summed(combine_types(image, filters)) if image is not None and filters is not None else None
    bias = calls.types.get("bias")
    of_image, of_filters = (dims_of(kind) if kind is not None else None for kind in (image, filters))
    options = {name: _constant(calls, name, default) for name, default in CONV2D.items()}
    if of_image is None or of_filters is None or None in options.values():
        return tensor_type(dtype, None)
    kind = as_tensor_type(bias) if bias is not None else None
    added = _values(dims_of(kind)) if kind is not None and dims_of(kind) is not None else None
    return _checked(lambda: tensor_type(dtype, _dims(_convolved(_values(of_image), _values(of_filters), added, options)[0])))


CONV2D = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


@family.tensor_method(
    "conv2d", result=_conv2d_rule, uses_settings=True, keywords=("stride", "padding", "dilation", "groups"),
    weight="tensor", bias="tensor", stride="int or list of int", padding="int or list of int", dilation="int or list of int", groups="int",
)  # fmt: skip
def conv2d(
    settings: StdlibSettings,
    self: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: Any = 1,
) -> Tensor:
    """Images [batch, channels, height, width] under weights [filters, channels / groups, height, width], plus a bias for each filter."""
    image, filters = to_tensor(self), to_tensor(weight)
    added = None if bias is None else to_tensor(bias)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape, numbers = _faults(lambda: _convolved(image.shape, filters.shape, None if added is None else added.shape, options))
    dtype = _number(summed(combine_values(image, filters)), "conv2d")
    require_memory(tuple(shape), numpy_of(dtype).itemsize)
    value = written(settings, "layers", "conv2d")(_batched(image), filters, *numbers)
    if added is not None:
        value = written(settings, "layers", "add_bias")(value, added)
    return value.reshaped(tuple(shape))  # type: ignore[no-any-return]


# ---- pools -----------------------------------------------------------------------------------------------------------


def _pooled(name: str, image: Sequence[Any], options: dict[str, Any]) -> tuple[list[Any], list[int]]:
    _require_image(name, image)
    size = _pair(options["size"], "size", 1)
    stride = size if options["stride"] == 0 else _pair(options["stride"], "stride", 1)
    padding = _pair(options["padding"], "padding", 0)
    for window, border in zip(size, padding, strict=True):
        if 2 * border > window:
            raise _Wrong("0203", f"a padding of {border} is more than half of a window of {window}")
    rows, columns = _windows(name, image[-2:], size, stride, padding, (1, 1))
    return [*image[:-2], rows, columns], [*size, *stride, *padding, rows, columns]


def _pool_type(name: str, calls: CallTypes, dtype: DType | None) -> Type:
    kind = as_tensor_type(subject(calls))
    dims = dims_of(kind) if kind is not None else None
    options = {option: _constant(calls, option, default) for option, default in (("size", None), ("stride", 0), ("padding", 0))}
    if dims is None or None in options.values():
        return tensor_type(dtype, None)
    return _checked(lambda: tensor_type(dtype, _dims(_pooled(name, _values(dims), options)[0])))


def _pool(settings: StdlibSettings, name: str, image: Tensor, size: Any, stride: Any, padding: Any) -> Tensor:
    shape, numbers = _faults(lambda: _pooled(name, image.shape, {"size": size, "stride": stride, "padding": padding}))
    value: Tensor = written(settings, "layers", name)(image.reshaped((prod(image.shape[:-2]), *image.shape[-2:])), *numbers)
    return value.reshaped(tuple(shape))


def _max_rule(calls: CallTypes) -> Type:
    return _pool_type("max_pool2d", calls, element_dtype(subject(calls)))


@family.tensor_method(
    "max_pool2d", result=_max_rule, uses_settings=True, keywords=("stride", "padding"),
    size="int or list of int", stride="int or list of int", padding="int or list of int",
)  # fmt: skip
def max_pool2d(settings: StdlibSettings, self: Any, size: Any, stride: Any = 0, padding: Any = 0) -> Tensor:
    """The largest element of each window of images [batch, channels, height, width]; windows lie side by side unless `stride` says
    otherwise."""
    image = to_tensor(self)
    _number(dtype_of(image), "max_pool2d")
    return _pool(settings, "max_pool2d", image, size, stride, padding)


def _avg_rule(calls: CallTypes) -> Type:
    element = element_dtype(subject(calls))
    return _pool_type("avg_pool2d", calls, None if element is None else averaged_dtype(element))


@family.tensor_method(
    "avg_pool2d", result=_avg_rule, uses_settings=True, keywords=("stride", "padding"),
    size="int or list of int", stride="int or list of int", padding="int or list of int",
)  # fmt: skip
def avg_pool2d(settings: StdlibSettings, self: Any, size: Any, stride: Any = 0, padding: Any = 0) -> Tensor:
    """The mean of each window of images [batch, channels, height, width], in which the padding counts as zeros."""
    image = to_tensor(self)
    dtype = _number(dtype_of(image), "avg_pool2d")
    if not dtype.is_float:
        image = Tensor(image.contents.astype(numpy_of(averaged_dtype(dtype))))
    return _pool(settings, "avg_pool2d", image, size, stride, padding)


# ---- the same for types and values -----------------------------------------------------------------------------------


def _batched(image: Tensor) -> Tensor:
    return image if len(image.shape) == 4 else image.reshaped((1, *image.shape))


def _number(dtype: DType | None, name: str) -> DType:
    if dtype is None or dtype is DType.BOOL:
        elements = "bool" if dtype else type_name(dtype)
        raise LibraryFault("0208", f"`{name}` is not defined for elements of {elements}", "convert them: `x as f32`")
    return dtype


def _constant(calls: CallTypes, name: str, default: Any) -> Any:
    """An option's value: an int or a list of ints; None where it isn't known."""
    if name not in calls.types and name not in calls.constants:
        return default
    value = calls.constants.get(name)
    if isinstance(value, list | tuple):
        return value if all(map(is_int, value)) else None
    return value if is_int(value) else None


def _values(dims: Dims | None) -> list[int | None]:
    assert dims is not None
    return [_value(dim) for dim in dims]


def _dims(values: Sequence[int | None]) -> Dims:
    return tuple(None if value is None else ShapeExpr.of(value) for value in values)


def _checked(make: Any) -> Type:
    try:
        made: Type = make()
    except _Wrong as wrong:
        raise TypeFault(wrong.code, wrong.message, hint=wrong.hint) from None
    return made


def _faults(make: Any) -> Any:
    try:
        return make()
    except _Wrong as wrong:
        raise LibraryFault(wrong.code, wrong.message, wrong.hint) from None
