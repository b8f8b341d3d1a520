"""Bytes between host and device, between and within devices, on a stream. A copy returns when it is queued; from and to ordinary
(not pinned) host memory when that memory is free for other use."""

from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.cuda.array import DeviceArray
from runtime.cuda.host import extent, host_memory
from runtime.cuda.memory import DeviceBuffer
from runtime.cuda.stream import Stream
from runtime.element_types import DTYPES
from runtime.tensor import dtype_name
from runtime.unread import require_sound

Array = npt.NDArray[Any]
OnDevice = DeviceBuffer | DeviceArray

_MEMSET = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}


def upload(target: OnDevice, source: Array, stream: Stream) -> None:
    """Host to device. The source is contiguous and fills the target from its start."""
    _require(source, size_of(target), "source")
    if source.nbytes == 0:
        return
    _uses(target, stream)
    stream.device.call("cuMemcpyHtoDAsync", target.pointer, extent(source)[0], source.nbytes, stream.handle)
    _uses_host(source, stream)


def download(target: Array, source: OnDevice, stream: Stream) -> None:
    """Device to host. The target is contiguous and is filled from the source's start; where it is pinned, it may be read after
    the stream is waited for."""
    _require(target, size_of(source), "target")
    if not target.flags.writeable:
        raise ValueError("the target of a copy is read-only")
    if target.nbytes == 0:
        return
    _uses(source, stream)
    stream.device.call("cuMemcpyDtoHAsync", extent(target)[0], source.pointer, target.nbytes, stream.handle)
    _uses_host(target, stream)


def copy(target: OnDevice, source: OnDevice, stream: Stream) -> None:
    """Device to device: all of the source into the start of the target."""
    size = size_of(source)
    if size > size_of(target):
        raise ValueError(f"{size} bytes don't fit into {size_of(target)}")
    if size == 0:
        return
    _uses(target, stream)
    _uses(source, stream)
    if target.device.ordinal == source.device.ordinal:
        stream.device.call("cuMemcpyDtoDAsync", target.pointer, source.pointer, size, stream.handle)
        return
    to, come = target.device.context, source.device.context
    stream.device.call("cuMemcpyPeerAsync", target.pointer, to, source.pointer, come, size, stream.handle)


def fill(target: OnDevice, value: int, stream: Stream, width: int = 1) -> None:
    """Every `width` bytes (1, 2 or 4) of the target become `value`, unsigned."""
    if width not in _MEMSET or not 0 <= value < 1 << 8 * width:
        raise ValueError(f"{value} is no unsigned value of 1, 2 or 4 bytes, {width} asked for")
    size = size_of(target)
    if size % width:
        raise ValueError(f"{size} bytes are no multiple of {width}")
    if size:
        _uses(target, stream)
        stream.device.call(_MEMSET[width], target.pointer, value, size // width, stream.handle)


def to_host(source: DeviceArray, stream: Stream | None = None) -> Array:
    """The array's elements, when all that is on the stream (the array's own) is done. Strides on the device are kept out of it."""
    require_sound(source.owner)
    on = stream or source.stream
    dtype = DTYPES[source.dtype]
    if source.is_contiguous:
        result = np.empty(source.shape, dtype)
        download(result, source, on)
        on.synchronize()
        return result
    return _span_on_host(source, on)[1].copy()


def from_host(target: DeviceArray, source: Array, stream: Stream) -> None:
    """The array's elements into those of the target, of the same shape; what lies between them stays as it is. Waits for it."""
    if target.is_contiguous:
        upload(target, np.ascontiguousarray(source).reshape(target.shape), stream)
    else:
        whole, view = _span_on_host(target, stream)
        view[...] = source
        upload(_span(target), whole, stream)
    stream.synchronize()


def _span(array: DeviceArray) -> DeviceArray:
    """All of the memory that the array's elements lie in, gaps included."""
    low, count = array.span
    return DeviceArray(array.owner, array.pointer + low * array.itemsize, (count,), array.dtype, array.stream)


def _span_on_host(array: DeviceArray, stream: Stream) -> tuple[Array, Array]:
    """The memory that the array's elements lie in, fetched, and the elements in it."""
    dtype, (low, count) = DTYPES[array.dtype], array.span
    whole = np.empty(count, dtype)
    download(whole, _span(array), stream)
    stream.synchronize()
    strides = tuple(stride * dtype.itemsize for stride in array.strides)
    return whole, np.ndarray(array.shape, dtype, whole, -low * dtype.itemsize, strides)


def saved(source: DeviceArray, buffer: DeviceBuffer, stream: Stream) -> DeviceArray:
    """A copy of the memory that the array's elements lie in, laid out alike, in a buffer of its size."""
    span = _span(source)
    copy(buffer, span, stream)
    low, _ = source.span
    return DeviceArray(buffer, buffer.pointer - low * source.itemsize, source.shape, source.dtype, stream, source.strides)


def restore(target: DeviceArray, before: DeviceArray, stream: Stream) -> None:
    """What `saved` kept, back to where it was."""
    copy(_span(target), _span(before), stream)


def to_device(source: Array, buffer: DeviceBuffer, stream: Stream) -> DeviceArray:
    """The array in the buffer's memory, in C order."""
    result = DeviceArray(buffer, buffer.pointer, source.shape, dtype_name(source.dtype), stream)
    upload(result, np.ascontiguousarray(source).reshape(source.shape), stream)
    return result


def size_of(memory: OnDevice) -> int:
    """Bytes that a copy moves; an array with gaps has no such number."""
    if isinstance(memory, DeviceBuffer):
        return memory.size
    if not memory.is_contiguous:
        raise ValueError("an array with gaps is not copied as one piece")
    return memory.bytes


def _require(array: Array, room: int, side: str) -> None:
    if not array.flags.c_contiguous:
        raise ValueError(f"the {side} of a copy is contiguous; this array is not")
    if array.nbytes > room:
        raise ValueError(f"{array.nbytes} bytes are more than the {room} on the device")


def _uses(memory: OnDevice, stream: Stream) -> None:
    if memory.stream is not stream:
        memory.used_on(stream)
    if stream.recording is not None:
        stream.recording.keep(memory)


def _uses_host(array: Array, stream: Stream) -> None:
    if stream.recording is not None:
        stream.recording.keep(array)
        return
    pinned = host_memory(array)
    if pinned is not None:
        pinned.used_on(stream)
