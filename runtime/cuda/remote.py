"""A tensor's elements on a GPU, as its `remote`."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from runtime.cuda.array import DeviceArray, Layout
from runtime.cuda.copies import fill, to_device, to_host
from runtime.cuda.gpu import Gpu
from runtime.cuda.stream import Stream
from runtime.device import Device
from runtime.tensor import Array, Tensor


class OnGpu:
    """Elements on a GPU. `named`: the program (or its caller) put them there; results of blocks merely lie where they were made."""

    __slots__ = ("elements", "gpu", "layout", "named")

    def __init__(self, elements: DeviceArray, gpu: Gpu, named: bool = False) -> None:
        self.elements, self.gpu, self.named = elements, gpu, named
        self.layout: Layout = elements.layout

    def claim(self) -> None:
        self.named = True

    @property
    def device(self) -> Device:
        return self.gpu.name

    @property
    def address(self) -> int:
        return self.elements.pointer

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def dtype(self) -> str:
        return self.elements.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.elements.strides

    @property
    def is_contiguous(self) -> bool:
        return self.elements.is_contiguous

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.elements.__cuda_array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self.elements.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.elements.__dlpack_device__()

    @property
    def is_read_only(self) -> bool:
        return self.elements.read_only

    def shares_memory(self, other: Any) -> bool:
        return isinstance(other, OnGpu) and other.gpu is self.gpu and self.elements.shares_memory(other.elements)

    def reshaped(self, shape: tuple[int, ...]) -> "OnGpu":
        return OnGpu(self.elements.reshaped(shape), self.gpu, self.named)

    def viewed(self, view: Callable[[Array], Array]) -> "OnGpu":
        return OnGpu(self.elements.viewed(view), self.gpu, self.named)

    def to_host(self) -> Any:
        fetched = to_host(self.elements)
        fetched.flags.writeable = not self.elements.read_only
        return fetched


def upload(array: Array, gpu: Gpu, named: bool = False, stream: Stream | None = None) -> OnGpu:
    """The array's elements in the GPU's memory. Raises CudaOutOfMemory."""
    on = stream or gpu.stream
    return OnGpu(to_device(array, gpu.allocate(max(1, array.nbytes), on), on), gpu, named)


def sent(tensor: Tensor, gpu: Gpu, named: bool = False, stream: Stream | None = None) -> OnGpu:
    """The elements of a tensor in new memory of the GPU: uploaded, or made there where they are all one number. Raises CudaOutOfMemory."""
    filled = tensor.filled
    pattern = np.asarray(filled.number, tensor.dtype).tobytes() if filled is not None else b""
    width = min(len(pattern), 4)
    if not pattern or pattern != pattern[:width] * (len(pattern) // width):
        return upload(tensor.contents, gpu, named, stream)
    on, count = stream or gpu.stream, prod(tensor.shape)
    buffer = gpu.allocate(max(1, count * len(pattern)), on)
    elements = DeviceArray(buffer, buffer.pointer, tensor.shape, tensor.dtype_name, on)
    fill(elements, int.from_bytes(pattern[:width], "little"), on, width)
    return OnGpu(elements, gpu, named)


def kept_copy(tensor: Tensor, gpu: Gpu, stream: Stream) -> OnGpu:
    """The elements of a tensor on the host, on the GPU; the tensor keeps them, where nobody else can change it."""
    alone = tensor.is_alone
    copy = sent(tensor, gpu, stream=stream)
    if alone:
        tensor.device_copy = copy
        gpu.copies.add(tensor)
    return copy


def elements_on(tensor: Tensor, gpu: Gpu) -> DeviceArray | None:
    """The tensor's elements in the GPU's memory, or None when they aren't there."""
    remote = tensor.remote
    return remote.elements if isinstance(remote, OnGpu) and remote.gpu is gpu else None


def copy_on(tensor: Tensor, gpu: Gpu) -> OnGpu | None:
    """The GPU's copy of a tensor on the host."""
    copy = tensor.device_copy
    return copy if isinstance(copy, OnGpu) and copy.gpu is gpu else None
