"""NumPy's files: npy holds one array, npz several by name. Their headers are read as text of one form, never evaluated."""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from compiler.typed_ast.library import LibraryFault
from runtime.tensor import Array, dtype_name
from zynml.stdlib.shapes import MAX_RANK, require_memory, shape_text


def accepted(array: Array) -> Array:
    """A loaded array in the machine's byte order; fault for elements that programs don't have."""
    if array.dtype.kind == "V" and array.dtype.itemsize == 2 and array.dtype.names is None:
        import ml_dtypes

        # NumPy has no name for bfloat16 in files and writes two raw bytes.
        return array.view(ml_dtypes.bfloat16)
    try:
        dtype_name(array.dtype)
    except (KeyError, TypeError):
        raise _no_counterpart(array.dtype) from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _no_counterpart(dtype: np.dtype[Any]) -> LibraryFault:
    hint = 'write them as ints: `np.save(path, times.view("i8"))`' if dtype.kind in "mM" else None
    return LibraryFault("0807", f"elements of type {dtype} have no counterpart here", hint)


DAMAGED_NPY = "this is no npy file, or a damaged one"
MAX_HEADER = 1 << 16
_DESCRIPTION = re.compile(r"'descr'\s*:\s*'([<>=|]?[A-Za-z][0-9]*(?:\[[0-9A-Za-z]*\])?)'")
_ORDER = re.compile(r"'fortran_order'\s*:\s*(True|False)")
_SHAPE = re.compile(r"'shape'\s*:\s*\(([0-9, ]*)\)")


def read_npy_header(stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether the first axis varies fastest, and dtype. The header is read as text of this one form, never evaluated."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise LibraryFault("0807", DAMAGED_NPY)
    length = int.from_bytes(stream.read(2 if start[6] == 1 else 4), "little")
    text = stream.read(min(length, MAX_HEADER)).decode("latin1")
    description, order, extents = _DESCRIPTION.search(text), _ORDER.search(text), _SHAPE.search(text)
    if length > MAX_HEADER or order is None or extents is None or (description is None and "'descr': [" not in text):
        raise LibraryFault("0807", DAMAGED_NPY)
    if description is None:
        raise LibraryFault("0807", "its elements are records, which have no counterpart here")
    if description[1].endswith("O"):
        raise LibraryFault("0807", "it holds Python objects, which are never loaded")
    try:
        shape = tuple(int(extent) for extent in extents[1].split(",") if extent.strip())
        dtype = np.dtype(description[1])
    except (TypeError, ValueError):
        raise LibraryFault("0807", DAMAGED_NPY) from None
    if dtype.kind in "mM" or dtype.itemsize == 0:
        raise _no_counterpart(dtype)
    if len(shape) > MAX_RANK or any(extent >= 1 << 62 for extent in shape):
        raise LibraryFault("0807", DAMAGED_NPY)
    return shape, order[1] == "True", dtype


def read_npy(stream: BinaryIO, size: int) -> Array:
    """One array in NumPy's format, `size` bytes long with its header."""
    shape, fortran, dtype = read_npy_header(stream)
    require_memory(shape, max(1, dtype.itemsize))
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if count * dtype.itemsize > size:
        raise LibraryFault("0807", f"it is cut off: shape {shape_text(shape)} needs {count * dtype.itemsize} bytes")
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise LibraryFault("0807", f"it is cut off: shape {shape_text(shape)} needs {count * dtype.itemsize} bytes")
    array = np.frombuffer(bytearray(data), dtype=dtype, count=count)
    return accepted(array.reshape(shape[::-1]).T if fortran else array.reshape(shape))


def load_npy(path: Path) -> Array:
    with path.open("rb") as stream:
        return read_npy(stream, path.stat().st_size)


def load_npz(path: Path, only: str | None = None) -> dict[str, Array]:
    """The arrays by name; `only` one of them if it is named."""
    import lzma
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            if only is not None and only not in names:
                raise LibraryFault("0807", f"it has no array `{only}`", f"keys: {', '.join(sorted(names)) or 'none'}")
            return {name: _member(archive, member) for name, member in names.items() if only in (None, name)}
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError):
        raise LibraryFault("0807", "this is no npz file, or a damaged one") from None


def the_only_name(path: Path) -> str:
    """The name of an archive's one array; a fault that lists the names where it has several."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise LibraryFault("0807", "this is no npz file, or a damaged one") from None
    return only_of(names, "arrays")


def only_of(names: list[str], what: str) -> str:
    if len(names) != 1:
        hint = f'`load(path, "key")`; keys: {", ".join(sorted(names)) or "none"}'
        raise LibraryFault("0807", f"it has {len(names)} {what}; name one", hint)
    return names[0]


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    info = archive.getinfo(name)
    require_memory((info.file_size,), 1)
    with archive.open(info) as stream:
        return read_npy(stream, info.file_size)  # type: ignore[arg-type]


# ---- writing ---------------------------------------------------------------------------------------------------------


def _plain(array: Array) -> Array:
    """The array with elements that NumPy's format has: bfloat16 as two raw bytes."""
    name = dtype_name(array.dtype)
    if name.startswith("f8"):
        hint = "cast them to f16, which holds them all, or write a safetensors file"
        raise LibraryFault("0109", f"saving elements of {name} is valid, but not supported yet", hint)
    return array.view(np.dtype("V2")) if name == "bf16" else array


def save_npy(path: Path, array: Array) -> None:
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, _plain(array), allow_pickle=False)


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, _plain(array), allow_pickle=False)
