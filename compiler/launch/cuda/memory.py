"""The memory that a call on a GPU takes."""

from collections.abc import Sequence
from math import prod

from runtime.cuda.array import DeviceArray, contiguous_strides
from runtime.cuda.gpu import Gpu
from runtime.cuda.stream import Stream
from runtime.records import frozen
from runtime.tensor import DTYPES


@frozen
class Memory:
    """Memory that a call takes: contiguous elements."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...]
    bytes: int

    @classmethod
    def of(cls, shape: Sequence[int], dtype: str) -> "Memory":
        named = {"i1": "bool", "index": "i64"}.get(dtype, dtype)
        extents = tuple(shape)
        return cls(extents, named, contiguous_strides(extents), prod(extents) * DTYPES[named].itemsize)

    def take(self, gpu: Gpu, stream: Stream) -> DeviceArray:
        buffer = gpu.pool.allocate(self.bytes, stream)
        return DeviceArray(buffer, buffer.pointer, self.shape, self.dtype, stream, self.strides)


@frozen
class Zeros(Memory):
    """Memory of zeros, which the call leaves as zeros: each stream's calls have the same."""

    def take(self, gpu: Gpu, stream: Stream) -> DeviceArray:
        buffer = gpu.zeros(self.bytes, stream)
        return DeviceArray(buffer, buffer.pointer, self.shape, self.dtype, stream, self.strides)
