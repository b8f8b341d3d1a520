"""Functions of elements whose tensors lie on a GPU, as kernels there: the values are those that NumPy gives on the host, up to the accuracy
of devices, and nothing is copied but single numbers. What may stop a program (ints that overflow or don't fit) stays with the host."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from compiler.typed_ast.types import DType
from runtime.device import Device
from runtime.records import frozen
from runtime.tensor import Tensor
from zynml.stdlib.dtypes import combine_values, dtype_of, numpy_of
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import broadcast_shapes
from zynml.stdlib.written import generated

FETCHED = 1 << 16
"""Bytes of a tensor that are fetched as quickly as a number is computed of them there."""

MOST_JOINED = 16
"""Tensors that one kernel joins."""

NAMES = "abc"

PLANS_REMEMBERED = 1024


def gpu_of(*values: Any) -> Device | None:
    """The GPU where the tensors lie that don't lie on the host; None where there is none, or several."""
    device: Device | None = None
    for value in values:
        if value.__class__ is Tensor and value.remote is not None:
            if device is not None and value.device != device:
                return None
            device = value.device
    return device if device is not None and device.kind == "cuda" else None


def computed_there(
    settings: StdlibSettings, expression: str, operands: Sequence[Any], within: DType, result: DType, shape: tuple[int, ...]
) -> Tensor | None:
    """The tensor of `expression`, of the elements `a`, `b` and `c` of tensors that broadcast to `shape`, and of numbers. Operands are of
    the dtype `within`, or become that. None where NumPy computes it: nothing lies on a GPU, there are no elements, or kernels lack a
    dtype."""
    key = _like(expression, operands, within, result, shape)
    known = settings.planned.get(key) if key is not None else None
    if known is None:
        known = planned_there(settings, expression, operands, within, result, shape)
        if key is not None and known is not None:
            keep_planned(settings, key, known)
    return None if known is None else known(operands)


def keep_planned(settings: StdlibSettings, key: Any, operation: "PlannedOperation") -> None:
    if len(settings.planned) >= PLANS_REMEMBERED:
        settings.planned.clear()
    settings.planned[key] = operation


@frozen(eq=False)
class PlannedOperation:
    """An operation of elements on a GPU. `flat`: how many elements there are, where all tensors lie so that these follow each other; None
    where tensors are stretched to `shape`."""

    kernel: Callable[..., Tensor]
    within: DType
    shape: tuple[int, ...]
    flat: int | None

    def __call__(self, operands: Sequence[Any]) -> Tensor:
        return self.kernel(*map(self._given, operands)).reshaped(self.shape)

    def _given(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return _number(value, self.within)
        return _stretched(value, self.shape) if self.flat is None else value.reshaped((self.flat,))


def _like(expression: str, operands: Sequence[Any], within: DType, result: DType, shape: tuple[int, ...]) -> Any:
    """What decides how an operation of tensors on devices is computed; None where some lie on the host."""
    key: list[Any] = [expression, within, result, shape]
    for value in operands:
        if value.__class__ is not Tensor:
            key.append(None)
        elif value.remote is None:
            return None
        else:
            key += (value.remote.__class__, value.remote.layout)
    return tuple(key)


def planned_there(
    settings: StdlibSettings, expression: str, operands: Sequence[Any], within: DType, result: DType, shape: tuple[int, ...]
) -> PlannedOperation | None:
    """What makes the tensor that `computed_there` gives for operands that lie the same; None as there."""
    device = gpu_of(*operands)
    if device is None or 0 in shape or within.is_byte_float or result.is_byte_float:
        return None
    tensors = [value if isinstance(value, Tensor) else None for value in operands]
    flat = all(tensor is None or (tensor.shape == shape and tensor.is_contiguous) for tensor in tensors)
    rank = 1 if flat else len(shape)
    ranks = [None if tensor is None else rank for tensor in tensors]
    dtypes = [tensor.dtype_name if tensor is not None else "" for tensor in tensors]
    title = f"{expression} of {within.value} on {device}: {result.value} {ranks} {dtypes}"
    kernel = generated(settings, title, lambda: _program(expression, ranks, dtypes, within, result, device), "computed")
    return PlannedOperation(kernel, within, shape, prod(shape) if flat else None)


def operated_there(settings: StdlibSettings, symbol: str, left: Any, right: Any, result: DType | None = None) -> Tensor | None:
    """`left symbol right` of floats, in the dtype `result` or in that of both; else None as above."""
    if gpu_of(left, right) is None or None in (dtype_of(left), dtype_of(right)):
        return None
    dtype = combine_values(left, right)
    if not dtype.is_float:
        return None
    extents, others = (value.shape if isinstance(value, Tensor) else () for value in (left, right))
    return computed_there(settings, f"a {symbol} b", (left, right), dtype, result or dtype, broadcast_shapes(extents, others, symbol))


def called_there(settings: StdlibSettings, expression: str, value: Any) -> Tensor | None:
    """An expression of each element of a float tensor, in its dtype; else None as above."""
    if gpu_of(value) is None or not (dtype := DType(value.dtype_name)).is_float:
        return None
    return computed_there(settings, expression, (value,), dtype, dtype, value.shape)


def copied_there(settings: StdlibSettings, tensor: Tensor) -> Tensor | None:
    """A copy without gaps; else None as above."""
    dtype = DType(tensor.dtype_name)
    return computed_there(settings, "a", (tensor,), dtype, dtype, tensor.shape)


def chosen_there(settings: StdlibSettings, condition: Any, a: Any, b: Any, dtype: DType, shape: tuple[int, ...]) -> Tensor | None:
    """`a` where the condition, of bools or ints, holds, else `b`, all broadcast to `shape`; else None as above."""
    return computed_there(settings, "where(a != 0, b, c)", (condition, a, b), dtype, dtype, shape) if dtype.is_float else None


def joined_there(settings: StdlibSettings, tensors: Sequence[Tensor], along: int) -> Tensor | None:
    """Tensors of one dtype and of extents that fit, one after the other along an axis; else None as above."""
    device, dtype = gpu_of(*tensors), DType(tensors[0].dtype_name)
    if device is None or len(tensors) > MOST_JOINED or dtype.is_byte_float or any(0 in tensor.shape for tensor in tensors):
        return None
    title, rank = f"{len(tensors)} of {dtype.value} along {along} on {device}", len(tensors[0].shape)
    made: Tensor = generated(settings, f"{title}, {rank}", lambda: _joining(len(tensors), rank, along, dtype, device), "joined")(*tensors)
    return made


def _joining(count: int, rank: int, along: int, dtype: DType, device: Device) -> str:
    parts = [f"A{number}" for number in range(count)]
    extents = [" + ".join(parts) if axis == along else f"N{axis}" for axis in range(rank)]
    nests = []
    for number, part in enumerate(parts):
        loops = ", ".join(f"i{axis} in 0..{part if axis == along else f'N{axis}'}" for axis in range(rank))
        target = ", ".join(" + ".join((f"i{axis}", *parts[:number])) if axis == along else f"i{axis}" for axis in range(rank))
        nests.append(f"for {loops}: out[{target}] = x{number}[{', '.join(f'i{axis}' for axis in range(rank))}]\n")
    given = ", ".join(f"x{number}" for number in range(count))
    result = f"tensor[{', '.join(extents)}, {dtype.value}]"
    return f'def joined({given}) {{ compute({given}) @device("{device}") -> {result} {{\n{"".join(nests)}}} }}\n'


def product_there(settings: StdlibSettings, left: Tensor, right: Tensor, dtype: DType) -> Tensor | None:
    """`left @ right` of floats, whose extents fit: of matrices, of as many pairs of matrices, or of several by one; else None as above."""
    device, x, y = gpu_of(left, right), left.shape, right.shape
    if device is None or 0 in (*x, *y) or not dtype.is_float or dtype.is_byte_float or len(x) < 2 or len(y) < 2:
        return None
    if len(y) == 2 < len(x) and left.is_contiguous:
        rows = product_there(settings, left.reshaped((prod(x[:-1]), x[-1])), right, dtype)
        return None if rows is None else rows.reshaped((*x[:-1], y[-1]))
    if x[:-2] != y[:-2]:
        return None
    batch = "".join(f"b{axis}, " for axis in range(len(x) - 2))
    loops = "".join(f"b{axis} in 0..B{axis}, " for axis in range(len(x) - 2))
    sizes, wide = batch.upper(), worked_in(dtype).value
    a = _as(f"x[{batch}i, k]", left.dtype_name, dtype.value, wide)
    b = _as(f"y[{batch}k, j]", right.dtype_name, dtype.value, wide)
    body = f"""
        for {loops}i in 0..N, j in 0..M:
            var s = 0.0 as {wide}
            for k in 0..K: s += {a} * {b}
            out[{batch}i, j] = {_as("s", wide, dtype.value)}
"""
    program = f'def product(x, y) {{ compute(x, y) @device("{device}") -> tensor[{sizes}N, M, {dtype.value}] {{{body}}} }}\n'
    title = f"product of {left.dtype_name} and {right.dtype_name} in {dtype.value}, {len(x)} axes, on {device}"
    made: Tensor = generated(settings, title, lambda: program, "product")(left, right)
    return made


def _stretched(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.shape == shape else tensor.viewed(lambda array: np.broadcast_to(array, shape))


def _number(value: Any, dtype: DType) -> Any:
    """A number that NumPy would convert to the dtype, as a kernel takes it."""
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(numpy_of(dtype))
    return rounded.astype(numpy_of(worked_in(dtype)))[()]


def worked_in(dtype: DType) -> DType:
    """The dtype that elements are computed with: floats of 16 bits in f32, rounded once."""
    return DType.F32 if dtype in (DType.F16, DType.BF16) else dtype


def _program(
    expression: str, ranks: Sequence[int | None], dtypes: Sequence[str], within: DType, result: DType, device: Device
) -> str:
    rank = max(rank for rank in ranks if rank is not None)
    index = ", ".join(f"i{axis}" for axis in range(rank))
    loops = ", ".join(f"i{axis} in 0..N{axis}" for axis in range(rank))
    sizes = "".join(f"N{axis}, " for axis in range(rank))
    names = [f"x{number}" for number in range(len(ranks))]
    wide = worked_in(within).value
    lets = [
        f"let {name} = {_as(f'{given}[{index}]', dtype, within.value, wide) if there is not None else given}"
        for name, given, there, dtype in zip(NAMES, names, ranks, dtypes, strict=False)
    ]
    value = _as(expression, wide, result.value) if result is not DType.BOOL else expression
    given = ", ".join(names)
    body = "\n            ".join([*lets, f"out[{index}] = {value}"])
    return f"""def computed({given}) {{
    compute({given}) @device("{device}") -> tensor[{sizes}{result.value}] {{
        for {loops}:
            {body}
    }}
}}
"""


def _as(text: str, *dtypes: str) -> str:
    """The value in one dtype after the other, from that of the first on."""
    for before, dtype in pairwise(dtypes):
        text = text if before == dtype else f"(({text}) as {dtype})"
    return text


REDUCTIONS = {"sum": "+", "mean": "+", "min": "min", "max": "max"}
"""Those that kernels do, with their operators. Sums are in f64, as on the host."""


def reduced_there(settings: StdlibSettings, name: str, tensor: Tensor, axes: Sequence[int], keepdims: bool) -> Any:
    """A reduction of a float tensor along these axes, none of which is empty: a tensor, or a number of the tensor's dtype, which alone is
    fetched. None where NumPy computes it, with elements that the host has or gets as quickly."""
    device, operator, dtype, shape = gpu_of(tensor), REDUCTIONS.get(name), DType(tensor.dtype_name), tensor.shape
    if device is None or operator is None or 0 in shape or not dtype.is_float or dtype.is_byte_float:
        return None
    count, wide = prod(shape[axis] for axis in axes), DType.F64 if operator == "+" else worked_in(dtype)
    if len(axes) == len(shape):
        if keepdims or tensor.host is not None or prod(shape) * dtype.bytes <= FETCHED or not tensor.is_contiguous:
            return None
        kind = f'@device("{device}") @kernel(reduce, {operator})'
        program = f"def reduced(x) {{ compute(x) {kind} {{ for i in 0..N: yield x[i] as {wide.value} }} }}\n"
        kernel = generated(settings, f"{operator} of all in {wide.value} on {device}", lambda: program, "reduced")
        number = kernel(tensor.reshaped((prod(shape),)))
        with np.errstate(all="ignore"):
            return np.asarray(number / count if name == "mean" else number).astype(numpy_of(dtype))
    title = f"{name} of {dtype.value} along {sorted(axes)} of {len(shape)} on {device}"
    kernel = generated(settings, title, lambda: _reducing(name, dtype, wide, len(shape), axes, device), "reduced")
    made: Tensor = kernel(tensor)
    return made.reshaped(tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))) if keepdims else made


def _reducing(name: str, dtype: DType, wide: DType, rank: int, axes: Sequence[int], device: Device) -> str:
    loops = [f"i{axis} in 0..N{axis}" for axis in range(rank)]
    rest = [axis for axis in range(rank) if axis not in axes]
    element = _as(f"x[{', '.join(f'i{axis}' for axis in range(rank))}]", dtype.value, wide.value)
    start, step = {"min": ("inf", f"min(s, {element})"), "max": ("-inf", f"max(s, {element})")}.get(name, ("0.0", f"s + {element}"))
    value = f"s / ({' * '.join(f'N{axis}' for axis in axes)})" if name == "mean" else "s"
    return f"""def reduced(x) {{
    compute(x) @device("{device}") -> tensor[{', '.join(f'N{axis}' for axis in rest)}, {dtype.value}] {{
        for {', '.join(loops[axis] for axis in rest)}:
            var s = {start} as {wide.value}
            for {', '.join(loops[axis] for axis in axes)}: s = {step}
            out[{', '.join(f'i{axis}' for axis in rest)}] = {_as(value, wide.value, dtype.value)}
    }}
}}
"""
