"""The CUDA driver, through `cuda.bindings`, imported here and nowhere else and only when first asked for. Every call goes through
one check. What the calls are for is said in the files beside this one."""

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from runtime import forks
from runtime.cuda.errors import FORKED, CudaError, CudaUnavailable, Failure, describe
from runtime.extras import install

_LOCK = forks.lock()


class Driver:
    """The driver's calls. `api` has them by their C names and gives `(result, value...)`, as `cuda.bindings.driver` does; `library` has
    them as C does, the one that is loaded where it isn't given."""

    def __init__(self, api: Any, library: Any = None) -> None:
        self.api, self._library = api, library
        self.process = os.getpid()
        self.call("cuInit", 0)
        self.device_count = int(self.call("cuDeviceGetCount"))
        version = int(self.call("cuDriverGetVersion"))
        self.version = (version // 1000, version % 1000 // 10)

    def call(self, name: str, *arguments: Any, context: str = "") -> Any:
        """The call's value, a tuple where it has several; CudaError when it fails."""
        result = getattr(self.api, name)(*arguments)
        if result[0]:
            raise self.error(name, result[0], context)
        return result[1] if len(result) == 2 else result[1:] or None

    def addresses(self, names: Sequence[str]) -> dict[str, int] | None:
        """Where C's calls lie, for machine code; None where one of them isn't to be found."""
        try:
            library = self._library or ctypes.CDLL("libcuda.so.1")
            return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}
        except (OSError, AttributeError):
            return None

    def failure(self, code: Any) -> Failure:
        return describe(self.api, code)

    def error(self, name: str, code: Any, context: str = "") -> CudaError:
        failure = self.failure(code)
        return CudaError(name, failure.code, failure.name, failure.message, context)


class _State:
    driver: Driver | None = None
    refusal: CudaUnavailable | None = None


def driver() -> Driver:
    """The driver, initialised. Raises CudaUnavailable, for the same reason each time."""
    with _LOCK:
        opened = _State.driver
        if opened is not None:
            if opened.process != os.getpid():
                raise CudaUnavailable(FORKED)
            return opened
        if _State.refusal is None:
            try:
                _State.driver = open_driver()
                return _State.driver
            except CudaUnavailable as refusal:
                _State.refusal = refusal
        raise CudaUnavailable(_State.refusal.reason)


def open_driver(package: str = "cuda.bindings.driver") -> Driver:
    """Import the bindings and initialise the driver; CudaUnavailable when that can't be done."""
    try:
        api = import_module(package)
    except ImportError as missing:
        raise CudaUnavailable(f"the package `cuda-bindings` can't be imported ({missing}): {install('compute')}") from None
    try:
        opened = Driver(api)
    except CudaError as error:
        raise CudaUnavailable(f"the CUDA driver can't be initialised: {error.message} ({error.name}, {error.code})") from None
    except RuntimeError as missing:
        # the bindings look for the driver's library on their first call
        known = type(missing).__name__ == "DynamicLibNotFoundError"
        detail = "" if known else f" ({str(missing).splitlines()[0]})"
        raise CudaUnavailable(f"this machine has no NVIDIA driver{detail}") from None
    if opened.device_count == 0:
        raise CudaUnavailable("the CUDA driver finds no device")
    return opened


def gpu_available() -> bool:
    """Whether this machine has a CUDA device that can be used."""
    return unavailable_reason() is None


def unavailable_reason() -> str | None:
    """In words, why no CUDA device can be used; None when one can."""
    try:
        driver()
    except CudaUnavailable as refusal:
        return refusal.reason
    return None


def gpu_count() -> int:
    """CUDA devices of this machine; 0 where CUDA can't be used."""
    if _State.driver is None and not _library_is_here():
        return 0
    return driver().device_count if gpu_available() else 0


def _library_is_here() -> bool:
    """Whether the loader finds the driver's library: to import the bindings only to hear that it doesn't takes a tenth of a short run."""
    if not sys.platform.startswith("linux"):
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
