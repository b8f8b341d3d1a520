"""The tensor that programs, kernels and Python share: a NumPy array and the device it lies on. It owns no arithmetic; that is
the standard library's."""

from typing import Any, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt

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


class Remote(Protocol):
    """A tensor's elements on another device. `named`: the program put them there, so that is where they are computed with."""

    @property
    def device(self) -> Device: ...

    @property
    def named(self) -> bool: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> str: ...

    def to_host(self) -> Array: ...


class Tensor:
    """A dense tensor. `array` is any view (any strides) of a supported dtype and is never copied on the way in; two tensors are
    equal when they are the same object.

    A tensor that a device computed, or that was sent there, has its elements there (`remote`). `contents` fetches them to be read
    and both copies stay; `array` fetches them too, and, since whoever asked may write to them, the remote ones no longer count."""

    __slots__ = ("__weakref__", "_array", "remote")

    def __init__(self, array: Array | None, remote: Remote | None = None) -> None:
        assert array is not None or remote is not None
        self._array, self.remote = array, remote

    @property
    def array(self) -> Array:
        if self._array is None:
            self._array = self._there.to_host()
        self.remote = None
        return self._array

    @array.setter
    def array(self, array: Array) -> None:
        self._array, self.remote = array, None

    @property
    def contents(self) -> Array:
        """The elements on the host, to be read only; what lies on a device stays there."""
        if self._array is None:
            self._array = self._there.to_host()
        if self.remote is None:
            return self._array
        view = self._array.view()
        view.flags.writeable = False
        return view

    def changed_there(self) -> None:
        """Says that the device wrote to `remote`: what the host knows of the elements is old."""
        assert self.remote is not None
        self._array = None

    @property
    def host(self) -> Array | None:
        """The elements on the host to be read only, or None while they are elsewhere."""
        return self._array

    @property
    def device(self) -> Device:
        """Where it lies: the CPU, unless a device has its elements."""
        return CPU if self.remote is None else self.remote.device

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape if self._array is not None else self._there.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype if self._array is not None else DTYPES[self._there.dtype]

    @property
    def dtype_name(self) -> str:
        return dtype_name(self.dtype)

    @property
    def _there(self) -> Remote:
        assert self.remote is not None
        return self.remote

    def clone(self) -> "Tensor":
        """A contiguous copy that shares nothing with this tensor."""
        return Tensor(np.array(self.contents, order="C", copy=True))

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
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Tensor({np.array2string(self.contents, threshold=20, separator=', ')}, dtype={self.dtype_name}, device={self.device})"
