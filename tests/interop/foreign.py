"""Other libraries' arrays on a device, in the protocols that they speak; `log` notes what was asked of them."""

import ctypes
from typing import Any

import numpy as np
from fake_driver import FakeDriver

from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import to_device, to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.stream import Stream
from runtime.element_types import DTYPES
from runtime.tensor import dtype_name


class Foreign:
    """An array of another library: memory of a stream of its own."""

    def __init__(self, gpu: Gpu, array: Any, read_only: bool = False) -> None:
        self.gpu, self.stream, self.log = gpu, Stream(gpu.device), []
        whole = np.ascontiguousarray(_base(array))
        # what a copy without gaps lacks of a view: where it starts and how it strides
        self.whole = to_device(whole, gpu.allocate(max(1, whole.nbytes), self.stream), self.stream)
        offset = _address(array) - _address(_base(array))
        strides = tuple(stride // array.itemsize for stride in array.strides)
        pointer = self.whole.pointer + offset
        self.array = DeviceArray(self.whole.owner, pointer, array.shape, dtype_name(array.dtype), self.stream, strides, read_only)

    def numpy(self) -> Any:
        return to_host(self.array)


class ByDlpack(Foreign):
    def __dlpack__(self, **options: Any) -> Any:
        self.log.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class ByOldDlpack(ByDlpack):
    def __dlpack__(self, stream: int) -> Any:
        return super().__dlpack__(stream=stream)


class ByInterface(Foreign):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.array.__cuda_array_interface__


def _base(array: Any) -> Any:
    return array if array.base is None else array.base


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def seen(pointer: int, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None) -> Any:
    """The memory of the fake device, which is the host's."""
    kind = DTYPES[dtype]
    count = int(np.prod(shape))
    assert strides is None or count
    data = (ctypes.c_char * (count * kind.itemsize)).from_address(pointer) if count else b""
    return np.frombuffer(data, kind).reshape(shape)


def waits_of(fake: FakeDriver) -> list[tuple[int, int]]:
    """Which stream waited for which, and none of it twice."""
    found, fake.waits = fake.waits, []
    return found
