"""Functions of the library that are written in ZynML: `written(settings, "layers", "softmax_rows")` is the function of that name in
`layers.zynml`, compiled in the program that runs, once, when it is first asked for. Their blocks run wherever the program's own do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from compiler.source import Source, display_path
from runtime.tensor import Tensor
from zynml.stdlib.settings import StdlibSettings

FOLDER = Path(__file__).parent

KERNEL_FROM = 1 << 18
"""Tensors of so many elements are worth a kernel on the CPU where NumPy does the same: below, compiling and calling one takes longer
than it saves."""


def written(settings: StdlibSettings, file: str, name: str) -> Callable[..., Any]:
    """The function of that name in a `.zynml` file of the library."""
    key = (file, name)
    if key not in settings.written:
        settings.written[key] = _function(settings, _source(file), name)
    return settings.written[key]  # type: ignore[no-any-return]


def generated(settings: StdlibSettings, title: str, text: Callable[[], str], name: str) -> Callable[..., Any]:
    """The function of that name in a text that is made for a call; `title` tells such texts apart, and stands for the file's name."""
    key = (title, name)
    if key not in settings.written:
        settings.written[key] = _function(settings, Source(title, text()), name)
    return settings.written[key]  # type: ignore[no-any-return]


def wants_kernels(settings: StdlibSettings, *tensors: Tensor) -> bool:
    """Whether tensors are to be computed with by kernels, where NumPy could do it, too: they lie on a device, the program or the user names
    one, or they are large."""
    if any(tensor.remote is not None for tensor in tensors) or settings.device not in ("auto", "cpu"):
        return True
    programs = settings.programs
    if programs is not None and (programs.only_device or "cpu") not in ("auto", "cpu"):
        return True
    return max(_size(tensor) for tensor in tensors) >= KERNEL_FROM


def _size(tensor: Tensor) -> int:
    count = 1
    for extent in tensor.shape:
        count *= extent
    return count


def _function(settings: StdlibSettings, source: Source, name: str) -> Callable[..., Any]:
    from zynml.parse import parse_source

    function: Callable[..., Any] = settings.programs.library_program(source, parse_source(source)).value(name)
    return function


def _source(file: str) -> Source:
    path = FOLDER / f"{file}.zynml"
    return Source(display_path(path), path.read_text(encoding="utf-8"))
