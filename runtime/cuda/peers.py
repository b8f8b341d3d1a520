"""Arrays of PyTorch and CuPy on a device, read by their attributes: DLPack costs PyTorch some 75 microseconds an array. Our work on
them goes onto the current stream of their library, as its own would: it needs no events, and the life of memory is in order, since both
libraries give freed memory to later work of that stream. What is out of the ordinary in any way goes by the protocols (see `interop`)."""

import sys
from collections.abc import Callable, Hashable
from typing import Any

from runtime.cuda.array import BorrowedMemory, DeviceArray, contiguous_strides
from runtime.cuda.device import CudaDevice
from runtime.cuda.gpu import Gpu, gpu
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import LEGACY, Stream, foreign_stream
from runtime.dlpack import ExchangeFunctions, exchange_functions
from runtime.element_types import NAMES
from runtime.records import frozen

Read = Callable[[Any], OnGpu | None]
Glance = Callable[[Any], tuple[Hashable, int] | None]

READERS: dict[type, Read] = {}
"""How arrays of a class are read; classes come in here when their first array does."""

GLANCES: dict[type, Glance] = {}
"""What reading an array of a class looks at, the current stream included, and the array's address; None for what is out of the ordinary
or changes. Arrays of which the former is the same are read alike."""

@frozen
class Exchange:
    """How machine code reads an array of a class. `false`: attributes that are False of what is ordinary, and `false_methods`: methods."""

    functions: ExchangeFunctions
    false: tuple[str, ...]
    false_methods: tuple[Any, ...]


EXCHANGES: dict[type, Exchange] = {}
"""The classes among those of `GLANCES` that machine code can read."""

_TORCH_NAMES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
}  # fmt: skip


def lent(source: Any) -> OnGpu | None:
    """A peer's array as it lies, for work on the peer's current stream; None for what is to go by the protocols. Raises
    CudaUnavailable, and BufferError while the peer records that stream."""
    read = READERS.get(source.__class__) or _reader_of(source.__class__)
    return None if read is None else read(source)


def _reader_of(kind: type) -> Read | None:
    """The reader for a peer's class, from now on; None for other classes. No library is imported here."""
    for name, array, make in (("torch", "Tensor", _reader_of_torch), ("cupy", "ndarray", _reader_of_cupy)):
        library = sys.modules.get(name)
        if library is not None and kind is getattr(library, array, None):
            read = make(library)
            if read is not None:
                READERS[kind] = read
            return read
    return None


def _reader_of_torch(torch: Any) -> Read | None:
    raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw_stream is None:
        return None
    names = {getattr(torch, theirs): ours for theirs, ours in _TORCH_NAMES.items() if hasattr(torch, theirs)}
    strided, is_recording = torch.strided, torch.cuda.is_current_stream_capturing

    def is_own(ordinal: int, number: int) -> bool:
        # the identity of a stream that somebody else made is its handle
        return bool(torch.cuda.current_stream(ordinal).stream_id != number)

    def read(tensor: Any) -> OnGpu | None:
        dtype = names.get(tensor.dtype)
        if dtype is None or not tensor.is_cuda or tensor.requires_grad or tensor.layout is not strided or tensor.is_neg():
            return None
        device = gpu(tensor.get_device())
        number = raw_stream(device.device.ordinal)
        if number and is_recording():
            raise BufferError("PyTorch is recording its current stream into a graph, which blocks can't be a part of")
        stream = _lasting(device.device, number, is_own)
        if stream is None:
            return None
        strides = None if tensor.is_contiguous() else tensor.stride()
        return _on_gpu(device, tensor, tensor.data_ptr(), tuple(tensor.shape), dtype, stream, strides)

    def glance(tensor: Any) -> tuple[Hashable, int] | None:
        ordinal = tensor.get_device()
        if ordinal < 0 or tensor.requires_grad or tensor.layout is not strided or tensor.is_neg():
            return None
        number = raw_stream(ordinal)
        if number and is_recording():
            return None
        strides = None if tensor.is_contiguous() else tensor.stride()
        return (ordinal, number, tensor.dtype, tensor.shape, strides), tensor.data_ptr()

    GLANCES[torch.Tensor] = glance
    if (functions := exchange_functions(torch.Tensor)) is not None:
        # what isn't strided has no address, which it says itself
        EXCHANGES[torch.Tensor] = Exchange(functions, ("requires_grad",), (torch.Tensor.is_neg,))
    return read


def _reader_of_cupy(cupy: Any) -> Read | None:
    current_stream, current_device = cupy.cuda.get_current_stream, cupy.cuda.runtime.getDevice

    def read(array: Any) -> OnGpu | None:
        dtype, itemsize, ordinal = NAMES.get(array.dtype), array.itemsize, array.device.id
        # streams that CuPy made end with their objects: only the legacy one lasts
        if dtype is None or ordinal != current_device() or current_stream().ptr != 0:
            return None
        strides = None
        if not array.flags.c_contiguous:
            if any(stride % itemsize for stride in array.strides):
                return None
            strides = tuple([stride // itemsize for stride in array.strides])
        device = gpu(ordinal)
        return _on_gpu(device, array, array.data.ptr, array.shape, dtype, foreign_stream(device.device, LEGACY), strides)

    def glance(array: Any) -> tuple[Hashable, int] | None:
        ordinal = array.device.id
        if ordinal != current_device() or current_stream().ptr != 0:
            return None
        return (ordinal, array.dtype, array.shape, array.strides), array.data.ptr

    GLANCES[cupy.ndarray] = glance
    return read


def _on_gpu(
    device: Gpu, owner: Any, pointer: int, shape: tuple[int, ...], dtype: str, stream: Stream, strides: tuple[int, ...] | None
) -> OnGpu:
    borrowed = BorrowedMemory(device.device, owner)
    return OnGpu(DeviceArray(borrowed, pointer, shape, dtype, stream, strides or contiguous_strides(shape)), device, True)


def _lasting(device: CudaDevice, number: int, is_own: Callable[[int, int], bool]) -> Stream | None:
    """A library's stream that is there as long as the process is: the legacy one, or one of the library's own, which it keeps for ever.
    None for any other: memory can't be kept for it."""
    lasting = device.lasting_streams.get(number or LEGACY)
    if lasting is None and (number == 0 or is_own(device.ordinal, number)):
        lasting = device.lasting_streams[number or LEGACY] = Stream.external(device, number or LEGACY)
    return lasting
