"""Machine code of kernels for a GPU: a cubin where the assembler is installed, else PTX, which the driver assembles as it loads it. So
is what hands registers from role to role: assemblers that link drop that, the driver's linker too. It is kept in the user's cache, under
a name that is made of the functions themselves, the target, the compiler and what assembles; the driver has a cache of its own for PTX."""

from collections.abc import Sequence
from typing import Any

from attrs import asdict

from compiler.backends.llvm.checks import CheckSite
from compiler.backends.nvptx.assemble import assemble, assembler_version
from compiler.backends.nvptx.compile import KernelEntry, KernelParameter, compile_kernels
from compiler.backends.nvptx.frame import TensorMap
from compiler.backends.nvptx.target import target_of_device
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.launch.cache import GPU_CODE
from compiler.source import Source, Sources
from runtime.cuda.device import CudaDevice
from runtime.records import frozen


@frozen
class GpuCode:
    """An image, a cubin or PTX, and what launches must know of its kernels, in the order of the functions."""

    image: bytes | str
    entries: tuple[KernelEntry, ...]


def gpu_code(functions: Sequence[HirFunction], device: CudaDevice, source: Source | None = None) -> GpuCode:
    """The code of these kernels, out of the cache where it is there. `source`: the program that lines of the code point to."""
    target = target_of_device(device.properties.capability)

    def name() -> str:
        return GPU_CODE.name(assembler_version(), str(target), *_made_of(functions, source))

    stored = GPU_CODE.find(name, _revived)
    if stored is not None:
        return stored
    module = compile_kernels(functions, target, Sources(source) if source is not None else None)
    image: bytes | str = assemble(module).bytes if assembler_version() and not module.hands_registers else module.text
    code = GpuCode(image, module.entries)
    head = {"ptx": isinstance(image, str), "entries": [asdict(entry) for entry in code.entries]}
    GPU_CODE.keep(name, head, image.encode() if isinstance(image, str) else image)
    return code


def _made_of(functions: Sequence[HirFunction], source: Source | None) -> list[str]:
    """All that the code is made of."""
    return [*map(print_function, functions), *([source.path, source.text] if source is not None else [])]


def _revived(head: dict[str, Any], image: bytes) -> GpuCode:
    return GpuCode(image.decode() if head["ptx"] else image, tuple(_entry(fields) for fields in head["entries"]))


def _entry(fields: dict[str, Any]) -> KernelEntry:
    """An entry as JSON tells it."""
    block = fields["block"]
    return KernelEntry(
        **{
            **fields,
            "parameters": tuple(KernelParameter(**{**each, "map": _map(each["map"])}) for each in fields["parameters"]),
            "block": None if block is None else (block[0], block[1], block[2]),
            "checks": tuple(CheckSite(each["code"], each["site"], tuple(each["dtypes"])) for each in fields["checks"]),
        }
    )


def _map(fields: dict[str, Any] | None) -> TensorMap | None:
    if fields is None:
        return None
    window = fields["window"]
    corners = None if window is None else (tuple(window[0]), tuple(window[1]))
    return TensorMap(fields["memory"], tuple(fields["box"]), fields["swizzle"], corners, tuple(fields["step"]), fields["rounded"])
