"""What goes wrong between the program and a device, as coded messages: memory that is short, limits, faults, drivers that are too old."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.diagnostics import Diagnostic
from compiler.source import Span
from compiler.typed_ast.library import LibraryFault
from runtime.cuda.errors import CudaContextLost, CudaError, CudaForked, CudaOutOfMemory, CudaRefused, CudaUnavailable

DeviceTrouble = (CudaError, CudaRefused, CudaUnavailable)

TOO_NEW = frozenset({222, 223})
"""The driver doesn't know the version of PTX, or can't compile PTX at all."""

OTHER_DEVICE = 209
"""The image has no code for this device."""


def described(trouble: Exception) -> tuple[str, str, str | None]:
    """Code, message and hint."""
    match trouble:
        case CudaOutOfMemory(size=_):
            hint = "work on parts, or on the CPU; `memory_pool(device)` says what is held"
            return "0804", f"out of memory on the device: {trouble}", hint
        case CudaForked():
            return "0501", f"the device can't be used: {trouble}", "`--device cpu` runs the program on the CPU"
        case CudaContextLost():
            hint = "nothing on this device can be used again in this run; `--sanitize` finds accesses outside and races"
            return "0805", f"a kernel failed on the device: {trouble}", hint
        case CudaError(code=code) if code in TOO_NEW:
            hint = "update the driver, or install the extra `compute`, whose assembler makes code for the device itself"
            return "0501", f"the driver is too old for this code: {trouble}", hint
        case CudaError(code=code) if code == OTHER_DEVICE:
            return "0501", f"the driver has no code for this device: {trouble}", "update the driver"
        case CudaRefused(limit="threads"):
            return "0502", f"{trouble}", "state a smaller `@workgroup`"
        case CudaRefused(limit="shared"):
            return "0503", f"{trouble}", "hold less in `shared var`s"
        case CudaUnavailable():
            return "0501", f"the device can't be used: {trouble}", "`--device cpu` runs the program on the CPU"
    return "0805", f"the device failed: {trouble}", None


def diagnostic(trouble: Exception, span: Span | None) -> Diagnostic:
    """The trouble of a compute block."""
    code, message, hint = described(trouble)
    return Diagnostic(code, message, span, hint=hint, running=True)


@contextmanager
def told() -> Iterator[None]:
    """Trouble inside is that of a library function."""
    try:
        yield
    except DeviceTrouble as trouble:
        raise LibraryFault(*described(trouble)) from None
