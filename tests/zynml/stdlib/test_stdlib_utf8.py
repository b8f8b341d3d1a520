"""Text in files, and text as bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.tensor import Tensor

TEXTS = ["", "plain", "tab\tend\r\nnext\n", "z\u00e4 \u20ac \U0001f40b", "a\0b"]

pytestmark = pytest.mark.usefixtures("call")


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts_come_back_as_they_went(call: Any, text: str) -> None:
    call("save", "new/a.txt", text)
    assert Path("new/a.txt").read_bytes() == text.encode()
    assert call("load", "new/a.txt") == text


def test_the_mark_before_utf8_is_no_part_of_the_text(call: Any) -> None:
    Path("a.TXT").write_bytes(b"\xef\xbb\xbfa\xef\xbb\xbf")
    assert call("load", "a.TXT") == "a\ufeff"


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_text_is_its_bytes(call: Any, text: str) -> None:
    found = call.method(text, "bytes")
    assert found.dtype_name == "u8" and found.array.tolist() == list(text.encode())
    assert call("String::from_bytes", found) == text
    assert call("String::from_bytes", list(text.encode())) == text
    assert call("String::from_bytes", Tensor(np.array(list(text.encode()), np.int64)[::-1][::-1])) == text


@pytest.mark.parametrize(
    ("values", "code", "message"),
    [
        ([97, 0xE4], "0807", "this is no UTF-8: byte 1 is 228"),
        ([0xED, 0xA0, 0x80], "0807", "this is no UTF-8: byte 0 is 237"),
        ([97, 256, -1], "0807", "a byte is 0 to 255, and byte 1 is 256"),
        ([97, -1], "0807", "a byte is 0 to 255, and byte 1 is -1"),
        ([1.5], "0203", "the bytes of a text are a list of ints or a tensor of one axis of them, not List<f64>"),
        ([[97]], "0203", "the bytes of a text are a list of ints or a tensor of one axis of them, not List"),
        ([True], "0203", "the bytes of a text are a list of ints or a tensor of one axis of them, not List<bool>"),
    ],
)
def test_what_is_no_text(call: Any, values: Any, code: str, message: str) -> None:
    assert call.fault("String::from_bytes", values) == (code, message)


def test_halves_of_pairs_have_no_bytes(call: Any) -> None:
    said = "character 1 is U+D83D, half of a pair, for which UTF-8 has no bytes"
    assert call.method_fault("a\ud83d", "bytes") == ("0807", said)
    assert call.fault("save", "a.txt", "a\ud83d") == ("0807", f"`a.txt`: {said}")


def test_files_that_hold_no_text(call: Any) -> None:
    Path("a.txt").write_bytes(b"ab\xff")
    assert call.fault("load", "a.txt") == ("0807", "`a.txt`: this is no UTF-8: byte 2 is 255")
    assert call.fault("load", "a.txt", dtype="u8") == ("0204", "`dtype=` is for files of numbers, and `a.txt` is txt")
    assert call.fault("load", "a.txt", "key") == ("0204", "a key is for npz and safetensors files, and `a.txt` is txt")
    assert call.fault("load", "a.txt", header=True) == ("0204", "`header=` is for csv files, and `a.txt` is txt")
    assert call.fault("load", "none.txt") == ("0807", "`none.txt`: there is no such file")
    assert call.fault("save", "a.txt", 3) == ("0203", "`a.txt`: a txt file holds a String, not i64")
    assert call.fault("save", "b.txt", Tensor(np.zeros(2))) == ("0203", "`b.txt`: a txt file holds a String, not tensor[2, f64]")
