"""What can go wrong between us and the CUDA driver: not there, a call that failed, a context that is lost, memory that is short,
a request that the device can't meet. Nothing here touches the driver."""

from typing import Any

from runtime.records import frozen

OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3
DEINITIALIZED = 4
INVALID_CONTEXT = 201
NOT_READY = 600

LOST = frozenset({700, 702, 710, 714, 715, 716, 717, 718, 719, 214, 220, 226, 721, 999})
"""Results after which the context, and all that lies in it, can't be used again: faults of kernels and of the hardware."""


class CudaUnavailable(Exception):
    """CUDA can't be used here; `reason` says why, in words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CudaError(Exception):
    """A driver call failed. `context` says what it was made for."""

    def __init__(self, call: str, code: int, name: str, message: str, context: str = "") -> None:
        super().__init__(f"{call}: {message} ({name}, {code}){': ' if context else ''}{context}")
        self.call, self.code, self.name, self.message, self.context = call, code, name, message, context


class CudaContextLost(CudaError):
    """A kernel faulted (or the hardware did): nothing on this device can be used again by this process. `kernels` are those that
    may have done it, the latest last."""

    def __init__(self, call: str, code: int, name: str, message: str, kernels: tuple[str, ...] = ()) -> None:
        match kernels:
            case ():
                suspects = ""
            case (only,):
                suspects = f"in the kernel {only}; "
            case _:
                suspects = f"in one of the kernels launched and not yet waited for, latest last: {', '.join(kernels)}; "
        super().__init__(call, code, name, message, f"{suspects}the context is lost, and with it all memory on the device")
        self.kernels = kernels


FORKED = "CUDA was initialised before this process was forked: start processes with `spawn` instead"


class CudaForked(CudaContextLost):
    """This process is a copy of one that used the device: the driver works in that one only."""

    def __init__(self) -> None:
        Exception.__init__(self, FORKED)
        self.call, self.code, self.name, self.message, self.context, self.kernels = "fork", NOT_INITIALIZED, "", FORKED, "", ()


class CudaOutOfMemory(CudaError):
    """The device, or the pool's limit, has no room for `size` bytes."""

    def __init__(self, call: str, code: int, name: str, size: int, state: str) -> None:
        super().__init__(call, code, name, "out of memory", f"{readable(size)} asked for; {state}")
        self.size, self.state = size, state


class CudaRefused(ValueError):
    """A request that the device can't meet, found before the driver saw it. `limit`: "threads" of a block or "shared" memory, where
    that is what is short."""

    def __init__(self, message: str, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class CudaTimeout(TimeoutError):
    """A wait ended before the work did. The work goes on."""


@frozen
class Failure:
    """A result code with the driver's name and sentence for it."""

    code: int
    name: str
    message: str

    @property
    def loses_context(self) -> bool:
        return self.code in LOST


def describe(api: Any, code: Any) -> Failure:
    """What the driver says of a result code."""
    number = int(code)
    name = _text(api.cuGetErrorName, code) or f"CUDA_ERROR_{number}"
    return Failure(number, name, _text(api.cuGetErrorString, code) or "no description")


def _text(ask: Any, code: Any) -> str:
    result = ask(code)
    return result[1].decode() if not result[0] and result[1] else ""


def readable(size: int) -> str:
    """Bytes as a person reads them: `1.5 GiB`."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        # what rounds to 1024.0 of one unit is 1.0 of the next
        if size >= scale - scale // 2048:
            whole = size // scale
            return f"{whole} {unit}" if size % scale == 0 else f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
