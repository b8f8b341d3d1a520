"""Functions of elements whose tensors lie on a GPU, as kernels there: the values are those that NumPy gives on the host, up to the accuracy
of devices, and nothing is copied but single numbers. What may stop a program (ints that overflow or don't fit) stays with the host."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from compiler.typed_ast.types import DType
from runtime.device import Device
from runtime.tensor import Tensor
from zynml.stdlib.dtypes import combine_values, dtype_of, numpy_of
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import broadcast_shapes
from zynml.stdlib.written import generated

FETCHED = 1 << 16
"""Bytes of a tensor that are fetched as quickly as a number is computed of them there."""

NAMES = "abc"


def gpu_of(*values: Any) -> Device | None:
    """The GPU where the tensors lie that don't lie on the host; None where there is none, or several."""
    devices = {value.device for value in values if isinstance(value, Tensor) and value.remote is not None}
    device = devices.pop() if len(devices) == 1 else None
    return device if device is not None and device.kind == "cuda" else None


def computed_there(
    settings: StdlibSettings, expression: str, operands: Sequence[Any], within: DType, result: DType, shape: tuple[int, ...]
) -> Tensor | None:
    """The tensor of `expression`, of the elements `a`, `b` and `c` of tensors that broadcast to `shape`, and of numbers. Operands are of
    the dtype `within`, or become that. None where NumPy computes it: nothing lies on a GPU, there are no elements, or kernels lack a
    dtype."""
    device = gpu_of(*operands)
    if device is None or 0 in shape or within.is_byte_float or result.is_byte_float:
        return None
    tensors = [value if isinstance(value, Tensor) else None for value in operands]
    flat = all(tensor is None or (tensor.shape == shape and tensor.is_contiguous) for tensor in tensors)
    rank = 1 if flat else len(shape)
    given = [
        _number(value, within) if tensor is None else tensor.reshaped((prod(shape),)) if flat else _stretched(tensor, shape)
        for value, tensor in zip(operands, tensors, strict=True)
    ]
    ranks = [None if tensor is None else rank for tensor in tensors]
    dtypes = [tensor.dtype_name if tensor is not None else "" for tensor in tensors]
    title = f"{expression} of {within.value} on {device}: {result.value} {ranks} {dtypes}"
    kernel = generated(settings, title, lambda: _program(expression, ranks, dtypes, within, result, device), "computed")
    made: Tensor = kernel(*given)
    return made.reshaped(shape)


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
