"""Arrays of other libraries (PyTorch, CuPy, JAX, Numba) on the device, taken in without a copy by DLPack or `__cuda_array_interface__`.
Their queued work comes first; their memory is given back when our work on it is done."""

import sys
from typing import Any

import numpy as np

from runtime.cuda.array import BFLOAT, BorrowedMemory, DeviceArray
from runtime.cuda.copies import from_host
from runtime.cuda.device import CudaDevice
from runtime.cuda.gpu import gpu
from runtime.cuda.remote import OnGpu
from runtime.cuda.stream import LEGACY, Stream, foreign_stream
from runtime.dlpack import ON_DEVICE, TakenTensor, capsule_of
from runtime.element_types import DTYPES
from runtime.tensor import Array, dtype_name


def import_array(source: Any, stream: Stream) -> DeviceArray:
    """Another library's array, for work on `stream`: by DLPack where it has that, by `__cuda_array_interface__` otherwise."""
    stream.device.reap()
    if hasattr(source, "__dlpack__"):
        return import_dlpack(source, stream)
    if hasattr(source, "__cuda_array_interface__"):
        return import_cuda_array(source, stream)
    raise TypeError(f"{type(source).__name__} is no array on a CUDA device: it has neither __dlpack__ nor __cuda_array_interface__")


def import_dlpack(source: Any, stream: Stream) -> DeviceArray:
    """An array by DLPack. The producer makes `stream` wait for its own work."""
    kind, ordinal = (int(part) for part in source.__dlpack_device__())
    if kind not in ON_DEVICE:
        raise ValueError("the array does not lie on a CUDA device")
    _require_device(stream.device, ordinal)
    taken = TakenTensor(capsule_of(source, stream=stream.number))
    description = taken.description
    owner = BorrowedMemory(stream.device, taken, stream)
    return DeviceArray(owner, description.pointer, description.shape, description.dtype, stream, description.strides, description.read_only)


def import_cuda_array(source: Any, stream: Stream) -> DeviceArray:
    """An array by its `__cuda_array_interface__`, versions 2 and 3."""
    interface: dict[str, Any] = source.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise ValueError("masked arrays are not supported")
    pointer, read_only = interface["data"]
    typestr = interface["typestr"]
    if sys.byteorder == "little" and typestr[0] == ">":
        raise ValueError("arrays in the other byte order are not supported")
    dtype = "bf16" if typestr == BFLOAT else _name(typestr)
    itemsize = DTYPES[dtype].itemsize
    strides = interface.get("strides")
    if strides is not None and any(stride % itemsize for stride in strides):
        raise ValueError("strides that are no multiple of the element's size are not supported")
    if pointer:
        _require_device(stream.device, _ordinal(stream.device, pointer))
    theirs = interface.get("stream")
    if theirs is not None and theirs != stream.number:
        stream.wait(foreign_stream(stream.device, int(theirs)))
    owner = BorrowedMemory(stream.device, source, stream)
    elements = None if strides is None else tuple(stride // itemsize for stride in strides)
    return DeviceArray(owner, int(pointer or 0), interface["shape"], dtype, stream, elements, bool(read_only))


def ordinal_of(source: Any) -> int:
    """The number of the device on which an array with a `__cuda_array_interface__` lies; 0 where it is empty and lies nowhere."""
    pointer, _ = source.__cuda_array_interface__["data"]
    return _ordinal(gpu(0).device, pointer) if pointer else 0


def _ordinal(device: CudaDevice, pointer: int) -> int:
    attribute = device.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(device.call("cuPointerGetAttribute", attribute, pointer))


def give_back(remote: OnGpu, source: Any, written: Array | None) -> None:
    """The end of our work on another library's array: what the host wrote instead goes to its memory, and whoever works on with it
    waits for us. Work on the stream of an array that a peer lent is in order by itself."""
    elements, owner = remote.elements, remote.elements.owner
    if written is not None and not elements.read_only:
        elements.stream.follow_all(owner.users)
        from_host(elements, written, elements.stream)
    if owner.users and elements.size:
        lent = elements.stream not in owner.users
        caller = elements.stream if lent else callers_stream(source, remote.gpu.device)
        for stream in owner.users:
            if stream is not None and stream is not caller:
                caller.wait(stream)


def callers_stream(source: Any, device: CudaDevice) -> Stream:
    """The stream on which whoever has this array goes on working: what its array interface says (CuPy's current one), PyTorch's
    current one, else the legacy default stream, which every blocking stream of the process waits for."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.Tensor):
        number = int(torch.cuda.current_stream(device.ordinal).cuda_stream)
    else:
        number = int(getattr(source, "__cuda_array_interface__", {}).get("stream") or LEGACY)
    return foreign_stream(device, number or LEGACY)


def _name(typestr: str) -> str:
    try:
        return dtype_name(np.dtype(typestr))
    except (KeyError, TypeError):
        raise ValueError(f"elements of type `{typestr}` are not supported") from None


def _require_device(device: CudaDevice, ordinal: int) -> None:
    if ordinal != device.ordinal:
        raise ValueError(f"the array lies on cuda:{ordinal}, the stream is one of cuda:{device.ordinal}")
