"""`load` and `save`: tensors from and to npy, npz, csv and png files, text from and to txt. Nothing in a file is ever executed, sizes
are checked before memory is taken, and what doesn't fit is fault 0807 with the file's name."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from compiler.typed_ast.library import CallTypes, LibraryFault
from compiler.typed_ast.types import STRING, UNIT, UNKNOWN, DType, Type
from runtime.extras import PackageMissing
from runtime.tensor import Array, Tensor, dtype_name
from zynml.stdlib import csv_files, utf8
from zynml.stdlib.casts import cast_array
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import array_dtype, given_dtype, require_dtype, type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.images import load_image, save_image
from zynml.stdlib.settings import StdlibSettings
from zynml.stdlib.shapes import MAX_RANK, require_memory, shape_text, tensor_type

family = FunctionFamily()

FORMATS = ("npy", "npz", "csv", "tsv", "png", "jpg", "jpeg", "txt")
LATER = ("safetensors", "json")
CSV_OPTIONS = ("header", "columns", "delimiter")


def bad_file(path: Any, reason: str, hint: str | None = None) -> LibraryFault:
    return LibraryFault("0807", f"`{path}`: {reason}", hint)


@contextmanager
def file_faults(path: Any) -> Iterator[None]:
    """Whatever goes wrong with a file becomes fault 0807 (0804, 0506 where a package for it is missing) that names it."""
    try:
        yield
    except LibraryFault as fault:
        if str(path) in fault.message:
            raise
        raise LibraryFault(fault.code, f"`{path}`: {fault.message}", fault.hint) from None
    except PackageMissing as missing:
        raise LibraryFault("0506", f"`{path}`: {missing}", missing.hint) from None
    except FileNotFoundError:
        raise bad_file(path, "there is no such file") from None
    except IsADirectoryError:
        raise bad_file(path, "this is a folder") from None
    except PermissionError:
        raise bad_file(path, "no permission") from None
    except OSError as error:
        raise bad_file(path, error.strerror or str(error)) from None
    except MemoryError:
        raise LibraryFault("0804", f"`{path}`: more than memory can hold") from None


def ending(path: Any) -> str:
    """The format that a path's ending names; fault where there is none for it."""
    if not isinstance(path, str):
        raise LibraryFault("0203", f"a path is a String, not {type_name(path)}")
    if "\0" in path or not path:
        raise bad_file(path.replace("\0", "\\0"), "this is no path")
    suffix = Path(path).suffix[1:].lower()
    if suffix in LATER:
        raise LibraryFault("0109", f"`{path}`: .{suffix} files are valid, but not supported yet", f"formats: {', '.join(FORMATS)}")
    if suffix not in FORMATS:
        raise bad_file(
            path,
            f"the ending `.{suffix}` names no known format" if suffix else "no ending tells the format",
            f"formats: {', '.join(FORMATS)}",
        )
    return suffix


# ---- arrays ----------------------------------------------------------------------------------------------------------


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


def load_npy(path: Path, key: Any, options: dict[str, Any]) -> Array:
    with path.open("rb") as stream:
        return read_npy(stream, path.stat().st_size)


def load_npz(path: Path, key: Any, options: dict[str, Any]) -> Array:
    import lzma
    import zipfile
    import zlib

    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
            listed = ", ".join(sorted(names)) or "none"
            if key is None:
                if len(names) != 1:
                    raise LibraryFault("0807", f"it has {len(names)} arrays; name one", f'`load(path, "key")`; keys: {listed}')
                key = next(iter(names))
            if key not in names:
                raise LibraryFault("0807", f"it has no array `{key}`", f"keys: {listed}")
            info = archive.getinfo(names[key])
            require_memory((info.file_size,), 1)
            with archive.open(info) as stream:
                return read_npy(stream, info.file_size)  # type: ignore[arg-type]
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError):
        raise LibraryFault("0807", "this is no npz file, or a damaged one") from None


def load_csv(path: Path, key: Any, options: dict[str, Any]) -> Array:
    return csv_files.read(path, **options)


def load_picture(path: Path, key: Any, options: dict[str, Any]) -> Array:
    return load_image(path)


LOADERS: dict[str, Callable[[Path, Any, dict[str, Any]], Array]] = {
    "npy": load_npy,
    "npz": load_npz,
    "csv": load_csv,
    "tsv": load_csv,
    "png": load_picture,
    "jpg": load_picture,
    "jpeg": load_picture,
}


def _load_rule(calls: CallTypes) -> Type:
    path = calls.constants.get("path")
    if not isinstance(path, str):
        return UNKNOWN
    kind = Path(path).suffix[1:].lower()
    if kind == "txt":
        return STRING
    default = DType.F32 if kind in ("csv", "tsv") else DType.U8 if kind in ("jpg", "jpeg") else None
    return tensor_type(given_dtype(calls, default), (None, None) if kind in ("csv", "tsv") else None)


@family.function("load", result=_load_rule, uses_settings=True, keywords=("dtype", *CSV_OPTIONS), key="String")
def load(
    settings: StdlibSettings,
    path: Any,
    key: Any = None,
    dtype: Any = None,
    header: Any = None,
    columns: Any = None,
    delimiter: Any = None,
) -> Tensor | str:
    """The tensor in a file: npy, npz (with a key), csv (numbers; f32 unless `dtype` says otherwise), png (u8). The text in a txt file."""
    kind = ending(path)
    wanted = None if dtype is None else require_dtype(dtype)
    given = {name: value for name, value in zip(CSV_OPTIONS, (header, columns, delimiter), strict=True) if value is not None}
    if given and kind not in ("csv", "tsv"):
        raise LibraryFault("0204", f"`{next(iter(given))}=` is for csv files, and `{path}` is {kind}")
    if key is not None and kind != "npz":
        raise LibraryFault("0204", f"a key is for npz files, and `{path}` is {kind}")
    if dtype is not None and kind == "txt":
        raise LibraryFault("0204", f"`dtype=` is for files of numbers, and `{path}` is {kind}")
    if kind in ("csv", "tsv"):
        given = {"delimiter": "\t" if kind == "tsv" else ",", **given, "dtype": wanted or DType.F32}
    with file_faults(path):
        file = settings.find_file(path)
        if file.is_dir():
            raise IsADirectoryError
        if kind == "txt":
            return utf8.read(file)
        array = LOADERS[kind](file, key, given)
        return Tensor(array if wanted is None else cast_array(array, array_dtype(array), wanted))


# ---- saving ----------------------------------------------------------------------------------------------------------


def save_npy(path: Path, value: Any, options: dict[str, Any]) -> None:
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, _plain(to_tensor(value).contents), allow_pickle=False)


def _plain(array: Array) -> Array:
    """The array with elements that NumPy's format has: bfloat16 as two raw bytes."""
    name = dtype_name(array.dtype)
    if name.startswith("f8"):
        raise LibraryFault("0109", f"saving elements of {name} is valid, but not supported yet", "cast them to f16, which holds them all")
    return array.view(np.dtype("V2")) if name == "bf16" else array


def save_npz(path: Path, value: Any, options: dict[str, Any]) -> None:
    pairs = value if isinstance(value, list) and value and all(_is_pair(v) for v in value) else [("data", value)]
    arrays = {name: _plain(to_tensor(part).contents) for name, part in pairs}
    if len(arrays) != len(pairs):
        raise LibraryFault("0807", "two arrays have the same key")
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def save_csv(path: Path, value: Any, options: dict[str, Any]) -> None:
    csv_files.write(path, to_tensor(value).contents, **options)


def save_text(path: Path, value: Any, options: dict[str, Any]) -> None:
    utf8.write(path, value)


def save_picture(path: Path, value: Any, options: dict[str, Any]) -> None:
    save_image(path, to_tensor(value).contents)


SAVERS: dict[str, Callable[[Path, Any, dict[str, Any]], None]] = {
    "npy": save_npy,
    "npz": save_npz,
    "csv": save_csv,
    "tsv": save_csv,
    "png": save_picture,
    "txt": save_text,
}


@family.function("save", result=UNIT, keywords=("header",), header="list of String")
def save(path: Any, value: Any, header: Any = None) -> None:
    """Writes a tensor as npy, npz (a list of `(key, tensor)` too), csv or png, as the path's ending says, text as txt. Makes folders."""
    kind = ending(path)
    if kind not in SAVERS:
        raise LibraryFault("0109", f"`{path}`: writing .{kind} is valid, but not supported yet", f"formats: {', '.join(SAVERS)}")
    options: dict[str, Any] = {"header": header, "delimiter": "\t" if kind == "tsv" else ","} if kind in ("csv", "tsv") else {}
    if header is not None and not options:
        raise LibraryFault("0204", f"`header=` is for csv files, and `{path}` is {kind}")
    with file_faults(path):
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        SAVERS[kind](target, value, options)
