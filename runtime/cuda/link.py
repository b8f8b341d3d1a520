"""PTX to a cubin by the driver, whose assembler has the whole program: what roles of a kernel hand to each other stays, which the
assembler that is linked with programs drops."""

import ctypes

from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import CudaError


def linked(device: CudaDevice, ptx: str) -> bytes | None:
    """The cubin for this device; None where the driver makes none: loading the text says why."""
    data = ptx.encode() + b"\0"
    try:
        state = device.call("cuLinkCreate", 0, [], [])
        try:
            kind = device.api.CUjitInputType.CU_JIT_INPUT_PTX
            device.call("cuLinkAddData", state, kind, data, len(data), b"kernels.ptx", 0, [], [])
            address, size = device.call("cuLinkComplete", state)
            return ctypes.string_at(int(address), size)
        finally:
            device.call("cuLinkDestroy", state)
    except CudaError:
        return None
