"""The safetensors format: eight bytes with the length of a header, the header in json, then the elements. A file is untrusted: all that
the header says is checked before memory is taken, and nothing in it is executed."""

import json
import math
from pathlib import Path
from typing import Any, BinaryIO

from compiler.typed_ast.library import LibraryFault
from runtime.element_types import DTYPES
from runtime.lazy_numpy import np
from runtime.records import frozen
from runtime.tensor import Array, dtype_name
from zynml.stdlib.printing import quoted
from zynml.stdlib.shapes import MAX_RANK, require_memory, shape_text

NAMES = {
    "BOOL": "bool",
    "U8": "u8",
    "I8": "i8",
    "I16": "i16",
    "U16": "u16",
    "F16": "f16",
    "BF16": "bf16",
    "I32": "i32",
    "U32": "u32",
    "F32": "f32",
    "F64": "f64",
    "I64": "i64",
    "U64": "u64",
    "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2",
}
"""The format's names of dtypes, and the programs'."""

MAX_HEADER = 100_000_000
"""The longest header that the format allows."""
_METADATA = "__metadata__"
_ENTRY = {"dtype", "shape", "data_offsets"}


@frozen
class _StoredTensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def bad(reason: str) -> LibraryFault:
    return LibraryFault("0807", reason)


def load_safetensors(path: Path, only: str | None = None) -> dict[str, Array]:
    """The tensors by name, in the order in which the file keeps their elements; `only` one of them if it is named."""
    with path.open("rb") as stream:
        tensors, start = read_header(stream, path.stat().st_size)
        if only is not None and only not in (names := [tensor.name for tensor in tensors]):
            raise LibraryFault("0807", f"it has no tensor `{only}`", f"tensors: {', '.join(names) or 'none'}")
        return {tensor.name: _elements(stream, start, tensor) for tensor in tensors if only in (None, tensor.name)}


def _elements(stream: BinaryIO, start: int, tensor: _StoredTensor) -> Array:
    dtype = np.dtype(DTYPES[tensor.dtype])
    require_memory(tensor.shape, dtype.itemsize)
    stream.seek(start + tensor.begin)
    data = bytearray(tensor.end - tensor.begin)
    if stream.readinto(data) != len(data):  # type: ignore[attr-defined]
        raise bad(f"it is cut off within `{tensor.name}`")
    array: Array = np.frombuffer(data, np.uint8) != 0 if tensor.dtype == "bool" else np.frombuffer(data, dtype)
    return array.reshape(tensor.shape)


def read_header(stream: BinaryIO, size: int) -> tuple[list[_StoredTensor], int]:
    """What the header of a file of so many bytes tells of its tensors, and where their elements begin."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8:
        raise bad(f"it is cut off: {size} bytes are no safetensors file")
    if length > MAX_HEADER:
        raise bad(f"the length of its header is {length}, and at most {MAX_HEADER} is allowed")
    if length > size - 8:
        raise bad(f"it is cut off: its header has {length} bytes, and {size - 8} are there")
    tensors = _tensors(_parsed(stream.read(length)), size - 8 - length)
    return tensors, 8 + length


def _parsed(header: bytes) -> dict[str, Any]:
    if header[:1] != b"{":
        raise bad("its header doesn't begin with `{`")
    try:
        text = header.decode()
    except UnicodeDecodeError:
        raise bad("its header is no text in UTF-8") from None
    try:
        found: dict[str, Any] = json.loads(text.rstrip(" "), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise bad("its header is no json") from None
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise bad(f"its header has {quoted(name)} twice")
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise bad("a name in its header has half of a character")
        found[name] = value
    return found


def _tensors(header: dict[str, Any], count: int) -> list[_StoredTensor]:
    """The tensors whose elements are the `count` bytes behind the header, without a gap."""
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise bad(f"`{_METADATA}` maps names to text")
    tensors = sorted((_tensor(name, entry) for name, entry in header.items()), key=lambda tensor: (tensor.begin, tensor.end))
    end, before = 0, ""
    for tensor in tensors:
        if tensor.begin < end:
            raise bad(f"`{before}` and `{tensor.name}` overlap: one ends at {end}, the other begins at {tensor.begin}")
        if tensor.begin > end:
            raise bad(f"{tensor.begin - end} bytes before `{tensor.name}` belong to no tensor")
        if tensor.end > count:
            raise bad(f"`{tensor.name}` ends at byte {tensor.end}, and the file has {count} bytes of elements")
        end, before = tensor.end, tensor.name
    if end != count:
        raise bad(f"{count - end} bytes at its end belong to no tensor")
    return tensors


def _tensor(name: str, entry: Any) -> _StoredTensor:
    if not isinstance(entry, dict) or set(entry) != _ENTRY:
        raise bad(f"`{name}` is described by `dtype`, `shape` and `data_offsets`, and its header says otherwise")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in NAMES:
        shown = quoted(dtype) if isinstance(dtype, str) else "no text"
        raise LibraryFault("0807", f"the dtype of `{name}` is {shown}, which is unknown here", f"known: {', '.join(NAMES)}")
    if not _are_sizes(shape) or len(shape) > MAX_RANK:
        raise bad(f"the shape of `{name}` is no list of sizes")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise bad(f"the offsets of `{name}` are no begin and end")
    needed = math.prod(shape) * np.dtype(DTYPES[NAMES[dtype]]).itemsize
    if offsets[1] - offsets[0] != needed:
        raise bad(f"`{name}` has {offsets[1] - offsets[0]} bytes, and {dtype} of shape {shape_text(shape)} needs {needed}")
    return _StoredTensor(name, NAMES[dtype], tuple(shape), *offsets)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 62 for value in values)


def save_safetensors(path: Path, arrays: dict[str, Array]) -> None:
    """Writes tensors, those with the widest elements first, so that all lie aligned."""
    formats = {programs: name for name, programs in NAMES.items()}
    header: dict[str, Any] = {}
    ordered = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    end = 0
    for name in ordered:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": formats[dtype_name(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, end]}
    if _METADATA in header:
        raise bad(f"`{_METADATA}` is no name for a tensor")
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in ordered:
            stream.write(np.ascontiguousarray(arrays[name]).tobytes())
