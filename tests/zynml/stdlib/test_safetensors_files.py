"""Safetensors files by the published format: eight bytes of length, a header in json, the elements. Good ones are written here by hand."""

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from runtime.element_types import DTYPES
from runtime.tensor import Tensor

pytestmark = pytest.mark.usefixtures("call")

FORMAT_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "f8e4m3": "F8_E4M3", "f8e5m2": "F8_E5M2", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
}  # fmt: skip


def written(header: Any, data: bytes = b"", length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    Path("w.safetensors").write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("dtype", FORMAT_NAMES)
def test_every_dtype_is_read_as_the_format_says(call: Any, dtype: str) -> None:
    array = np.array([[0, 1, 1], [2, 3, 1]]).astype(DTYPES[dtype])
    written({"__metadata__": {"format": "pt"}, "a.b": entry(FORMAT_NAMES[dtype], (2, 3), (0, array.nbytes))}, array.tobytes())
    found = call("load", "w.safetensors")["a.b"]
    assert found.dtype_name == dtype and np.array_equal(found.array, array)


@pytest.mark.parametrize("dtype", FORMAT_NAMES)
def test_what_is_saved_is_laid_out_as_the_format_says(call: Any, dtype: str) -> None:
    array = np.array([[0, 1, 1], [2, 3, 1]]).astype(DTYPES[dtype]).T
    call("save", "w.safetensors", {"x": Tensor(array), "other": Tensor(np.array(2.5))})
    data = Path("w.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0 and set(header) == {"x", "other"}
    begin, end = header["x"]["data_offsets"]
    assert header["x"]["dtype"] == FORMAT_NAMES[dtype] and header["x"]["shape"] == [3, 2]
    assert data[8 + length :][begin:end] == array.tobytes() and begin % array.itemsize == 0
    assert header["other"] == {"dtype": "F64", "shape": [], "data_offsets": header["other"]["data_offsets"]}
    assert sum(stop - start for start, stop in (h["data_offsets"] for h in header.values())) == len(data) - 8 - length


def test_one_tensor_by_its_name(call: Any) -> None:
    call("save", "w.safetensors", [("a", Tensor(np.zeros(2, np.float32))), ("b", Tensor(np.ones(3, ml_dtypes.bfloat16)))])
    assert call("load", "w.safetensors", "b").dtype_name == "bf16"
    assert call("load", "w.safetensors", "a", dtype="f64").dtype_name == "f64"
    assert call.fault("load", "w.safetensors", "c") == ("0807", "`w.safetensors`: it has no tensor `c`")
    call("save", "empty.safetensors", {})
    assert call("load", "empty.safetensors") == {}


def test_a_model_is_a_map_of_tensors(call: Any) -> None:
    arrays = {"enc.0.weight": np.ones((2, 2), np.float32), "enc.0.bias": np.zeros(2, np.float32), "head": np.ones(1)}
    for name in ("w.safetensors", "w.npz"):
        call("save", name, {key: Tensor(array) for key, array in arrays.items()})
        found = call("model", name)
        assert set(found) == set(arrays) and all(np.array_equal(found[key].array, array) for key, array in arrays.items())
        part = call("model", name, dtype="bf16", prefix="enc.0.")
        assert set(part) == {"weight", "bias"} and part["weight"].dtype_name == "bf16"
        assert call.fault("model", name, prefix="dec.") == ("0807", f'`{name}`: no tensor\'s name begins with "dec."')
    assert call.fault("model", "w.npy") == ("0807", "`w.npy`: the ending `.npy` names no format for this")


BAD = {
    "nothing": (lambda: Path("w.safetensors").write_bytes(b""), "it is cut off: 0 bytes are no safetensors file"),
    "seven bytes": (lambda: Path("w.safetensors").write_bytes(b"1234567"), "it is cut off: 7 bytes are no safetensors file"),
    "a false length": (lambda: written({}, length=100), "it is cut off: its header has 100 bytes, and 2 are there"),
    "a huge length": (lambda: written({}, length=1 << 63), "the length of its header is 9223372036854775808, and at most 100000000 is allowed"),
    "no brace": (lambda: written(b"[]"), "its header doesn't begin with `{`"),
    "no header": (lambda: written(b""), "its header doesn't begin with `{`"),
    "no json": (lambda: written(b'{"a":}'), "its header is no json"),
    "deep json": (lambda: written(b'{"a":' + b"[" * 100000), "its header is no json"),
    "no UTF-8": (lambda: written(b'{"\xff": 1}'), "its header is no text in UTF-8"),
    "half a character": (lambda: written(b'{"\\ud800": 1}'), "a name in its header has half of a character"),
    "a name twice": (lambda: written(b'{"a": 1, "a": 2}'), 'its header has "a" twice'),
    "an unknown dtype": (lambda: written({"a": entry("F4")}, bytes(8)), 'the dtype of `a` is "F4", which is unknown here'),
    "a dtype of no text": (lambda: written({"a": {**entry(), "dtype": 3}}, bytes(8)), "the dtype of `a` is no text, which is unknown here"),
    "a negative size": (lambda: written({"a": entry("F32", (-2,))}, bytes(8)), "the shape of `a` is no list of sizes"),
    "a broken size": (lambda: written({"a": entry("F32", (2.0,))}, bytes(8)), "the shape of `a` is no list of sizes"),
    "an overflowing shape": (
        lambda: written({"a": entry("F32", (1 << 61, 1 << 61))}, bytes(8)),
        f"`a` has 8 bytes, and F32 of shape [{1 << 61}, {1 << 61}] needs {(1 << 122) * 4}",
    ),
    "offsets turned around": (lambda: written({"a": entry(offsets=(8, 0))}, bytes(8)), "the offsets of `a` are no begin and end"),
    "offsets of the wrong length": (lambda: written({"a": entry(offsets=(0, 4))}, bytes(8)), "`a` has 4 bytes, and F32 of shape [2] needs 8"),
    "offsets outside": (lambda: written({"a": entry()}, bytes(4)), "`a` ends at byte 8, and the file has 4 bytes of elements"),
    "an overlap": (
        lambda: written({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)),
        "`a` and `b` overlap: one ends at 8, the other begins at 4",
    ),
    "a gap": (lambda: written({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)), "4 bytes before `b` belong to no tensor"),
    "bytes at the end": (lambda: written({"a": entry()}, bytes(9)), "1 bytes at its end belong to no tensor"),
    "a missing part": (
        lambda: written({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)),
        "`a` is described by `dtype`, `shape` and `data_offsets`, and its header says otherwise",
    ),
    "false metadata": (lambda: written({"__metadata__": {"a": 1}}), "`__metadata__` maps names to text"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_false_file_is_refused(call: Any, name: str) -> None:
    write, message = BAD[name]
    write()
    for function in ("load", "model"):
        assert call.fault(function, "w.safetensors") == ("0807", f"`w.safetensors`: {message}")


def test_no_damage_goes_beyond_a_fault(call: Any) -> None:
    call("save", "w.safetensors", {"a": Tensor(np.arange(4)), "b": Tensor(np.arange(3, dtype=np.float32))})
    whole = Path("w.safetensors").read_bytes()
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :], whole[:at] + b'"' + whole[at + 1 :]):
            Path("w.safetensors").write_bytes(damaged)
            try:
                call("load", "w.safetensors")
            except Exception as fault:
                assert getattr(fault, "code", None) in ("0807", "0804"), (at, fault)
