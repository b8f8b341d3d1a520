"""A dense array on a device: a view of memory that something else owns. It computes nothing."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from runtime.cuda.device import CudaDevice
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.stream import LEGACY, Stream, foreign_stream
from runtime.dlpack import CUDA, Description, make_capsule
from runtime.element_types import DTYPES
from runtime.overlap import elements_at, overlaps_itself, share_memory
from runtime.unread import require_sound

BFLOAT = "<V2"
"""How bfloat16 is written in an array interface, which has no name for it; PyTorch writes the same."""

Layout = tuple[int, str, tuple[int, ...], tuple[int, ...] | None]


class BorrowedMemory:
    """Memory of another library: its object is kept until the work of `users` on the memory is done."""

    __slots__ = ("__weakref__", "device", "owner", "users")

    def __init__(self, device: CudaDevice, owner: Any, *users: Stream) -> None:
        self.device, self.owner, self.users = device, owner, users

    def used_on(self, stream: Stream) -> None:
        if stream not in self.users:
            self.users = (*self.users, stream)

    def export(self) -> None:
        """Passed on: the next library's use is the first one's to know of, as if it had got the memory there."""

    def __del__(self) -> None:
        if self.users:
            self.device.cool(self.owner, self.users)


class DeviceArray:
    """Elements of `dtype` (`f32`, `bf16`...) at `pointer`, `strides` counted in elements. `int(array)` is the address, so that it
    stands for a pointer among a kernel's arguments."""

    __slots__ = ("__weakref__", "dtype", "layout", "owner", "pointer", "read_only", "shape", "stream", "strides")

    def __init__(
        self,
        owner: DeviceBuffer | BorrowedMemory,
        pointer: int,
        shape: Sequence[int],
        dtype: str,
        stream: Stream,
        strides: Sequence[int] | None = None,
        read_only: bool = False,
    ) -> None:
        self.read_only = read_only
        self.owner, self.pointer, self.dtype, self.stream = owner, pointer, dtype, stream
        self.shape = shape = tuple(shape)
        self.strides = strides = contiguous_strides(shape) if strides is None else tuple(strides)
        self.layout: Layout = _layout(stream.device.ordinal, dtype, shape, strides)
        """The device's number, elements, extents, and strides unless the elements lie in C order without gaps."""

    def elsewhere(self, owner: DeviceBuffer | BorrowedMemory, pointer: int) -> "DeviceArray":
        """Other memory, for the same stream, laid out as this array."""
        other = DeviceArray.__new__(DeviceArray)
        other.owner, other.pointer, other.read_only = owner, pointer, False
        other.dtype, other.stream, other.shape, other.strides = self.dtype, self.stream, self.shape, self.strides
        other.layout = self.layout
        return other

    def reshaped(self, shape: Sequence[int]) -> "DeviceArray":
        """The same elements, which lie in C order without gaps, in another shape."""
        return DeviceArray(self.owner, self.pointer, shape, self.dtype, self.stream, None, self.read_only)

    def viewed(self, view: Callable[[Any], Any]) -> "DeviceArray":
        """What `view`, which reads no elements, leaves of an array of these. It can't be written to where several of its elements may
        share memory."""
        given = self._addresses()
        array, size = view(given), self.itemsize
        strides = [stride // size for stride in array.strides]
        read_only = self.read_only or overlaps_itself(array.shape, strides)
        return DeviceArray(self.owner, int(array.__array_interface__["data"][0]), array.shape, self.dtype, self.stream, strides, read_only)

    def __index__(self) -> int:
        return self.pointer

    def __repr__(self) -> str:
        return f"DeviceArray(cuda:{self.device.ordinal}, {self.pointer:#x}, {self.dtype}{list(self.shape)})"

    @property
    def device(self) -> CudaDevice:
        return self.owner.device

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the elements, gaps not counted."""
        return self.size * self.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order without gaps."""
        return self.layout[3] is None

    @property
    def span(self) -> tuple[int, int]:
        """Where the elements lie, gaps included: the first element's distance from `pointer` and how many there is room for."""
        if self.is_contiguous:
            return 0, self.size
        if self.size == 0:
            return 0, 0
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low = sum(min(0, stretch) for stretch in reach)
        return low, sum(max(0, stretch) for stretch in reach) - low + 1

    def shares_memory(self, other: "DeviceArray") -> bool:
        """Whether a byte of one's elements is a byte of the other's."""
        (low, count), (start, room) = self.span, other.span
        begin, end = self.pointer + low * self.itemsize, other.pointer + start * other.itemsize
        if not (begin < end + room * other.itemsize and end < begin + count * self.itemsize):
            return False
        return share_memory(self._addresses(), other._addresses())

    def _addresses(self) -> Any:
        strides = [stride * self.itemsize for stride in self.strides]
        return elements_at(self.pointer, self.shape, strides, self.itemsize)

    @property
    def overlaps_itself(self) -> bool:
        """Whether several elements may share memory, as in a broadcast array."""
        return overlaps_itself(self.shape, self.strides)

    def used_on(self, stream: Stream) -> None:
        """Say that work on `stream` uses these elements."""
        if stream is not self.stream:
            self.owner.used_on(stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the protocol. The consumer waits for `stream`; what it does later isn't known here, so all work on the device
        is waited for before the memory is used again."""
        if self.dtype.startswith("f8"):
            raise AttributeError(f"{self.dtype} has no name in the array interface; DLPack knows it")
        require_sound(self.owner)
        self.owner.export()
        dtype = DTYPES[self.dtype]
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": BFLOAT if self.dtype == "bf16" else dtype.str,
            "data": (self.pointer, self.read_only),
            "strides": None if self.is_contiguous else tuple(stride * dtype.itemsize for stride in self.strides),
            "stream": self.stream.number,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule for a consumer that works on `stream`: a handle, 1 or None for the legacy stream, 2 for the thread's own, -1 for
        one that orders its work itself."""
        if dl_device is not None and tuple(dl_device) != (CUDA, self.device.ordinal):
            raise BufferError(f"the array lies on cuda:{self.device.ordinal} and is exported from there only")
        if copy:
            raise BufferError("the array is exported as it lies; copy it first")
        require_sound(self.owner)
        if stream == 0:
            raise ValueError("stream 0 is ambiguous for CUDA: 1 is the legacy default stream, 2 the thread's own")
        if stream == -1:
            self.owner.export()
        else:
            self._used_by(foreign_stream(self.device, LEGACY if stream is None else int(stream)))
        described = Description(self.pointer, CUDA, self.device.ordinal, self.shape, self.strides, self.dtype, self.read_only)
        return make_capsule(described, self, versioned=max_version is not None and max_version[0] >= 1)

    def _used_by(self, consumer: Stream) -> None:
        """A consumer's stream waits for the elements, and they for what it does."""
        if consumer is not self.stream:
            consumer.wait(self.stream)
        if consumer.number in self.device.lasting_streams:
            self.used_on(consumer)
        else:
            # another library's stream may be destroyed before the memory is free: it can't be waited for then
            self.owner.export()

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device.ordinal


@lru_cache(4096)
def _layout(ordinal: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected and 0 not in shape:
            return ordinal, dtype, shape, strides
        expected *= extent
    return ordinal, dtype, shape, None


@lru_cache(4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of C order."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(1, extent)
    return tuple(reversed(strides))
