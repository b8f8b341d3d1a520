"""The tensor that programs, kernels and Python share: a NumPy array and the device it lies on. It owns no arithmetic; that is
the standard library's."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from attrs import define

from runtime.device import CPU, Device

Array = npt.NDArray[Any]

DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""A program's name of each element type, and NumPy's."""

NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in DTYPES.items()}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype for a program's (`bf16`); KeyError for a name that is none."""
    return DTYPES[name]


def dtype_name(dtype: Any) -> str:
    """A program's name for NumPy's dtype (either byte order); KeyError when programs have no such elements."""
    return NAMES[np.dtype(dtype).newbyteorder("=")]


@define(eq=False, repr=False)
class Tensor:
    """A dense tensor. `array` is any view (any strides) of a supported dtype and is never copied on the way in; two tensors are
    equal when they are the same object."""

    array: Array
    device: Device = CPU

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def dtype_name(self) -> str:
        return dtype_name(self.array.dtype)

    def clone(self) -> "Tensor":
        """A contiguous copy that shares nothing with this tensor."""
        return Tensor(np.array(self.array, order="C", copy=True), self.device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, index = self.array.__dlpack_device__()
        return int(kind), int(index)

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"Tensor({np.array2string(self.array, threshold=20, separator=', ')}, dtype={self.dtype_name}, device={self.device})"
