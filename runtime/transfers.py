"""Tensors from one device of this machine to another."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from runtime.device import CPU, EMULATOR, Device
from runtime.overlap import share_memory
from runtime.records import define
from runtime.tensor import Array, Tensor, dtype_name


@define(eq=False)
class Emulated:
    """A tensor's elements on the emulator, whose memory is the host's."""

    elements: Array
    named: bool = True
    device: Device = EMULATOR

    def claim(self) -> None:
        self.named = True

    @property
    def layout(self) -> Hashable:
        return self.device, self.dtype, self.shape

    @property
    def address(self) -> int:
        return int(self.elements.__array_interface__["data"][0])

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements.shape

    @property
    def dtype(self) -> str:
        return dtype_name(self.elements.dtype)

    @property
    def strides(self) -> tuple[int, ...]:
        return tuple(stride // self.elements.itemsize for stride in self.elements.strides)

    @property
    def is_contiguous(self) -> bool:
        return bool(self.elements.flags.c_contiguous)

    @property
    def is_read_only(self) -> bool:
        return not self.elements.flags.writeable

    def shares_memory(self, other: Any) -> bool:
        return isinstance(other, Emulated) and share_memory(self.elements, other.elements)

    def reshaped(self, shape: tuple[int, ...]) -> "Emulated":
        return Emulated(self.elements.reshape(shape), self.named, self.device)

    def viewed(self, view: Callable[[Array], Array]) -> "Emulated":
        return Emulated(view(self.elements), self.named, self.device)

    def to_host(self) -> Array:
        return self.elements.copy()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise AttributeError("the tensor lies in the host's memory")

    def __dlpack__(self, **options: Any) -> Any:
        return self.elements.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def to_device(tensor: Tensor, device: Device) -> Tensor:
    """The tensor with its elements on a device that is here, put there by name: itself when they lie there, else a copy. Raises what
    `runtime.cuda.errors` has."""
    if tensor.device == device:
        if tensor.remote is not None and not tensor.remote.named:
            tensor.remote.claim()
        return tensor
    if device == CPU:
        return Tensor(np.array(tensor.contents, order="C", copy=True))
    if device.kind == EMULATOR:
        return Tensor(None, Emulated(np.array(tensor.contents, order="C", copy=True), device=device))
    from runtime.cuda.gpu import gpu
    from runtime.cuda.remote import sent

    return Tensor(None, sent(tensor, gpu(device.ordinal), named=True))


def synchronize() -> None:
    """Waits for all that was started on GPUs. Raises what `runtime.cuda.errors` has when it failed, and the fault of a check."""
    from runtime.cuda.gpu import open_gpus
    from runtime.unread import settle

    settle()
    for device in open_gpus():
        device.device.synchronize()
