"""Text as its bytes in UTF-8: in files, where the ends of lines stay as the file has them, and in tensors of u8."""

from pathlib import Path
from typing import Any

import numpy as np

from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.types import STRING, DType
from runtime.tensor import Tensor
from zynml.stdlib.creation import to_tensor
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.shapes import tensor_type

family = FunctionFamily()

MARK = b"\xef\xbb\xbf"
"""What some editors put before UTF-8, and which is no part of the text."""


def decoded(data: bytes) -> str:
    """The text that bytes spell."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LibraryFault("0807", f"this is no UTF-8: byte {error.start} is {data[error.start]}") from None


def encoded(text: str) -> bytes:
    """The bytes of a text."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        reason = f"character {error.start} is U+{ord(text[error.start]):04X}, half of a pair, for which UTF-8 has no bytes"
        raise LibraryFault("0807", reason) from None


def read(path: Path) -> str:
    """The text in a file."""
    return decoded(path.read_bytes().removeprefix(MARK))


def write(path: Path, value: Any) -> None:
    """Writes a text to a file."""
    if not isinstance(value, str):
        raise LibraryFault("0203", f"a txt file holds a String, not {type_name(value)}", "`.to_string()` makes one of it")
    path.write_bytes(encoded(value))


@family.method("String", "bytes", result=tensor_type(DType.U8, (None,)))
def bytes_of(self: Any) -> Tensor:
    """Its bytes in UTF-8, as a tensor of u8."""
    return Tensor(np.frombuffer(encoded(self), np.uint8).copy())


@family.function("String::from_bytes", result=STRING, values="tensor or list of ints")
def from_bytes(values: Any) -> str:
    """The text that bytes spell in UTF-8; 0807 when they spell none."""
    codes = to_tensor(values).contents
    if codes.ndim != 1 or (codes.size and codes.dtype.kind not in "iu"):
        raise LibraryFault("0203", f"the bytes of a text are a list of ints or a tensor of one axis of them, not {type_name(values)}")
    wrong = (codes < 0) | (codes > 255)
    if wrong.any():
        at = int(wrong.argmax())
        raise LibraryFault("0807", f"a byte is 0 to 255, and byte {at} is {codes[at]}")
    return decoded(codes.astype(np.uint8).tobytes())
