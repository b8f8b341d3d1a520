"""Kernels: images (cubin or PTX) loaded once each by their content, and handles with what the assembler made of each kernel."""

import hashlib
from functools import cached_property
from typing import Any

from runtime import forks
from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import CudaError, CudaRefused

NOT_FOUND = 500
BAD_IMAGE = frozenset({200, 209, 218, 219, 221, 222, 223, 224})
"""No binary for this device, invalid PTX, PTX newer than the driver: what the assembler in the driver can say more about."""

LOG_BYTES = 8192


class Modules:
    """The modules of one device, by their images."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._lock = forks.lock()
        self._loaded: dict[bytes | str, CudaModule] = {}

    def __len__(self) -> int:
        return len(self._loaded)

    def load(self, image: bytes | str, name: str = "") -> "CudaModule":
        """The module of a cubin (bytes) or of PTX (bytes or text). A second load of the same content is a look-up."""
        module = self._loaded.get(image)
        if module is None:
            with self._lock:
                module = self._loaded.get(image)
                if module is None:
                    module = self._loaded[image] = CudaModule(self.device, image, name)
        return module

    def clear(self) -> None:
        """Unload all. No kernel of theirs may be used afterwards."""
        with self._lock:
            while self._loaded:
                _, module = self._loaded.popitem()
                module.unload()


class CudaModule:
    """A loaded image. `name` is for messages only."""

    def __init__(self, device: CudaDevice, image: bytes | str, name: str = "") -> None:
        self.device, self.image = device, image
        self.name = name or f"module {self.digest[:12]}"
        # PTX ends with a zero; a cubin knows its own length
        data = (image.encode() if isinstance(image, str) else image) + b"\0"
        try:
            self.handle = device.call("cuModuleLoadData", data, context=self.name)
        except CudaError as error:
            if error.code not in BAD_IMAGE:
                raise
            raise CudaError(error.call, error.code, error.name, error.message, f"{self.name}{_log(device, data)}") from None
        self._kernels: dict[str, CudaKernel] = {}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the image, in hexadecimal."""
        data = self.image.encode() if isinstance(self.image, str) else self.image
        return hashlib.sha256(data).hexdigest()

    def kernel(self, name: str) -> "CudaKernel":
        """A kernel by the name it has in the image."""
        kernel = self._kernels.get(name)
        if kernel is None:
            kernel = self._kernels.setdefault(name, CudaKernel(self, name))
        return kernel

    def unload(self) -> None:
        self._kernels.clear()
        if self.device.lost is None:
            self.device.call("cuModuleUnload", self.handle, context=self.name)


def _log(device: CudaDevice, data: bytes) -> str:
    """What the driver's assembler says against an image, to be appended to a message."""
    options = device.api.CUjit_option
    keys = [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    text = bytearray(LOG_BYTES)
    try:
        device.call("cuModuleLoadDataEx", data, len(keys), keys, [text, LOG_BYTES])
    except (CudaError, TypeError, ValueError):
        # the log is what was asked for; that the load fails is known
        said = bytes(text).split(b"\0")[0].decode(errors="replace").strip()
        return f": {said}" if said else ""
    return ""


class CudaKernel:
    """A kernel on a device. Keeps its module alive."""

    def __init__(self, module: CudaModule, name: str) -> None:
        self.module, self.name, self.device = module, name, module.device
        try:
            self.handle = self.device.call("cuModuleGetFunction", module.handle, name.encode())
        except CudaError as error:
            if error.code != NOT_FOUND:
                raise
            raise CudaError(error.call, error.code, error.name, f"`{name}` is no kernel of {module.name}") from None
        self._opted_in = 0

    def __repr__(self) -> str:
        return f"Kernel({self.name}: {self.registers} registers, {self.shared} bytes shared, up to {self.max_threads} threads)"

    def _attribute(self, name: str) -> int:
        attribute = getattr(self.device.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self.device.call("cuFuncGetAttribute", attribute, self.handle, context=self.name))

    @cached_property
    def registers(self) -> int:
        """Registers a thread."""
        return self._attribute("NUM_REGS")

    @cached_property
    def shared(self) -> int:
        """Bytes of static shared memory a block."""
        return self._attribute("SHARED_SIZE_BYTES")

    @cached_property
    def local(self) -> int:
        """Bytes of local memory a thread: spills and arrays indexed at run time."""
        return self._attribute("LOCAL_SIZE_BYTES")

    @cached_property
    def max_threads(self) -> int:
        """Threads that a block of this kernel may have, by its registers and its launch bounds."""
        return self._attribute("MAX_THREADS_PER_BLOCK")

    def allow_shared(self, dynamic: int) -> None:
        """Let launches have `dynamic` bytes of dynamic shared memory; CudaRefused when the device has not that much."""
        limits = self.device.properties
        if self.shared + dynamic > limits.shared_per_block_opt_in:
            raise CudaRefused(
                f"kernel `{self.name}` wants {self.shared + dynamic} bytes of shared memory a block "
                f"({self.shared} static, {dynamic} dynamic); {limits.name} has {limits.shared_per_block_opt_in}",
                "shared",
            )
        if self.shared + dynamic > limits.shared_per_block and dynamic > self._opted_in:
            attribute = self.device.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.device.call("cuFuncSetAttribute", self.handle, attribute, dynamic, context=self.name)
            self._opted_in = dynamic

    def blocks_per_multiprocessor(self, threads: int, dynamic: int = 0) -> int:
        """How many blocks of this size run on one multiprocessor at once."""
        call: Any = self.device.call
        return int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.handle, threads, dynamic, context=self.name))
