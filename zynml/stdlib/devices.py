"""Devices as programs see them: which there are, tensors on them, their memory, waiting for them."""

from typing import Any

import numpy as np

from compiler.codes.device_faults import told
from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import I64, STRING, UNIT, ListType, TupleType, Type
from runtime import buffers, transfers
from runtime.device import CPU, Device, present_devices
from runtime.tensor import Array, Tensor
from zynml.stdlib.creation import device_of, place, placed, shape_argument, to_tensor
from zynml.stdlib.dtypes import given_dtype, type_name
from zynml.stdlib.family import FunctionFamily, subject
from zynml.stdlib.shapes import dims_of, is_int, tensor_type
from zynml.stdlib.structure import as_tensor_type, with_dims

family = FunctionFamily()


def _same(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    return with_dims(kind, dims_of(kind) if kind is not None else None)


@family.tensor_method("to_device", result=_same, device="String")
def to_device(self: Any, device: Any) -> Tensor:
    """The tensor on a device (`"cuda:0"`, `"cpu"`, `"emulator"`): itself when it lies there, else a copy. Blocks that name no device run
    where their inputs were sent."""
    return placed(to_tensor(self), device)


@family.function("compute_devices", result=ListType(STRING))
def compute_devices() -> list[str]:
    """The names of the devices here, the CPU first."""
    return [str(device) for device in present_devices()]


@family.function("synchronize", result=UNIT)
def synchronize() -> None:
    """Waits until the devices have done what they were given; what failed there is told here at the latest."""
    with told():
        transfers.synchronize()


def _allocated(calls: CallTypes) -> Type:
    return tensor_type(given_dtype(calls), shape_argument(calls))


@family.function("allocate", result=_allocated, pinned="bool")
def allocate(shape: Any, dtype: Any = None, device: Any = None, pinned: Any = False) -> Tensor:
    """A tensor of zeros on a device. `pinned`: in memory of the host that GPUs copy from and to directly, which is quicker."""
    if not isinstance(pinned, bool | np.bool_):
        raise LibraryFault("0203", f"`pinned=` is a bool, not {type_name(pinned)}")
    extents, numpy_type = place((shape,) if not isinstance(shape, tuple) else shape, dtype, device)
    if not pinned:
        return placed(Tensor(np.zeros(extents, numpy_type)), device)
    if device is not None and device_of(device) != CPU:
        raise LibraryFault("0203", "pinned memory is the host's", 'leave `device=` out, or say `device="cpu"`')
    return Tensor(_pinned(extents, numpy_type))


def _pinned(extents: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    gpus = [device for device in present_devices() if device != CPU]
    if not gpus:
        raise LibraryFault("0501", "memory is pinned for a GPU, and there is none here", "leave `pinned=` out")
    from runtime.cuda.gpu import gpu

    with told():
        array = gpu(gpus[0].ordinal).pinned.empty(extents, dtype)
    array[...] = np.zeros((), dtype)
    return array


@family.function("memory_pool", result=ListType(TupleType((STRING, I64))), limit="int", trim="bool")
def memory_pool(device: Any = "cpu", limit: Any = None, trim: Any = False) -> list[tuple[str, int]]:
    """What the pool of a device's memory holds, in bytes by name: `in use`, `idle` (kept for the next tensor of that size), `most`, and
    `limit` where there is one. `limit` sets that, for GPUs; `trim` gives idle memory back first."""
    known = device_of(device)
    if limit is not None and (not is_int(limit) or limit < 0):
        raise LibraryFault("0203", f"`limit=` is a number of bytes, not {type_name(limit) if not is_int(limit) else limit}")
    if known.kind != "cuda":
        if limit is not None:
            raise LibraryFault("0203", f"the memory of `{known}` has no limit of its own", "pools of GPUs have")
        if trim:
            buffers.trim()
        return [("idle", buffers.idle_bytes())]
    return _pool_of(known, limit, bool(trim))


def _pool_of(device: Device, limit: int | None, trim: bool) -> list[tuple[str, int]]:
    from runtime.cuda.gpu import gpu

    with told():
        pool = gpu(device.ordinal).pool
        if limit is not None:
            pool.limit = int(limit)
        if trim:
            pool.trim()
        now = pool.statistics()
    figures = {"in use": now.in_use, "idle": now.idle, "most": now.most, "limit": now.limit}
    return [(name, int(bytes_)) for name, bytes_ in figures.items() if bytes_ is not None]
