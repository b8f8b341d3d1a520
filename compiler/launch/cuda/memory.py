"""The memory that a call on a GPU takes."""

from collections.abc import Sequence
from math import prod

from runtime.cuda.array import DeviceArray, contiguous_strides
from runtime.cuda.gpu import Gpu
from runtime.cuda.stream import Stream
from runtime.element_types import DTYPES
from runtime.records import frozen


@frozen
class CallMemory:
    """Contiguous elements, undefined until written."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    bytes: int

    @classmethod
    def of(cls, shape: Sequence[int], dtype: str) -> "CallMemory":
        extents = tuple(shape)
        return cls(extents, dtype, contiguous_strides(extents), prod(extents) * DTYPES[dtype].itemsize)

    def take(self, gpu: Gpu, stream: Stream) -> DeviceArray:
        buffer = gpu.pool.allocate(self.bytes, stream)
        return DeviceArray(buffer, buffer.pointer, self.shape, self.dtype, stream, self.strides)


@frozen
class LastingZeros(CallMemory):
    """Zeros, which the call leaves as zeros: each stream's calls have the same."""

    def take(self, gpu: Gpu, stream: Stream) -> DeviceArray:
        buffer = gpu.zeros(self.bytes, stream)
        return DeviceArray(buffer, buffer.pointer, self.shape, self.dtype, stream, self.strides)
