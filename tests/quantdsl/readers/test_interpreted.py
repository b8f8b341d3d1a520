"""The readers' functions in the interpreter, which stops at every index outside an array: they give the same natively, whatever they read."""

import struct
from functools import cache
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.hir.native_build import ModuleBuilder
from quantdsl.readers.decoders import _shapes
from runtime.replay.decoders import LETTERS
from runtime.replay.events import EVENT
from runtime.replay.itch_messages import BAD, LOCATES, MESSAGES, UNKNOWN
from tests.quantdsl.native.both import Both

FIELDS = ["", "a", "Buy", "abcdefgh", "abcdefghi", '"x"', '"a""b"', '"open', '"a\nb"', " 1.50 ", "-7", "+.5", "1.2.3", "9223372036854775807", "9" * 25, "\t", '"a"b']
LINES = st.lists(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).map(",".join), max_size=6)
JSON = [
    '{"e":"trade","p":"1.5"}', '{"data":{"e":1,"p":true}}', '{"data":{"e":1},"z":2}', '7 {"e":""}', "{}", '{"e"', '{"e":', '{"e":"', '{"data":{', '{"dat', '5 ', "",
    '{"\x80":1}', '{"e":"\\u0031"}', '{"data":{"data":{}}}', '{"e":1,}', '{"e":1}}', '{"da\xff":{"e":1}}',
]  # fmt: skip


@cache
def both(name: str) -> Both:
    program = ModuleBuilder(name)
    import_module(f"quantdsl.readers.{name}").write(program)
    return Both(program.module)


def bytes_of(text: str) -> np.ndarray:
    return np.frombuffer(bytearray(text.encode("latin-1")), np.uint8)


@settings(max_examples=120, deadline=None)
@given(LINES, st.sampled_from(("\n", "\r\n")), st.booleans())
def test_lines_are_cut_the_same(lines: list[str], end: str, last_end: bool) -> None:
    text = end.join(lines) + (end if last_end else "")
    data, most = bytes_of(text), text.count("\n") + 1
    slots = np.array([1, -1, 0], np.int32)
    starts, lengths = np.zeros((2, most), np.int64), np.zeros((2, most), np.int64)
    offsets, numbers, right = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.bool_)
    rows, line_count = both("text")("cut", data, data.size, ord(","), slots, 3, 2, most, starts, lengths, offsets, numbers, right)
    assert line_count == text.count("\n") and rows <= most
    marks = np.zeros(len(text) + 2, np.int64)
    (count,) = both("text")("marks", data, data.size, ord(","), marks, len(text) + 1)
    assert marks[:count].tolist() == [place for place, letter in enumerate(text) if letter in ',\n"']
    (few,) = both("text")("marks", data, data.size, ord(","), marks, 1)
    assert few == min(count, 2)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=8), st.sampled_from(((0, 1), (2, 1), (3, 5), (18, 7))))
def test_fields_become_the_same_numbers_and_words(fields: list[str], step: tuple[int, int]) -> None:
    data = bytes_of("".join(fields))
    lengths = np.array([len(field) for field in fields], np.int64)
    starts, count = np.cumsum(lengths) - lengths, len(fields)
    values, good = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    both("text")("decimals", data, data.size, starts, lengths, count, *step, values, good)
    packed = np.zeros(count, np.uint64)
    both("text")("words", data, data.size, starts, lengths, count, packed)
    for field, word in zip(fields, packed.tolist(), strict=True):
        stripped = field.strip(" \t").lower().encode()
        assert word == (int.from_bytes(stripped, "little") if len(stripped) <= 8 else 2**64 - 1)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from(JSON), min_size=1, max_size=5), st.booleans(), st.integers(0, 200), st.sampled_from('"{}:,0a\r'))
def test_messages_of_one_object_are_the_same(lines: list[str], last_end: bool, place: int, letter: str) -> None:
    text = "\n".join(lines) + ("\n" if last_end else "")
    text = text[:place] + letter + text[place + 1 :] if place < len(text) and text[place] != "\n" else text
    slots = np.full(LETTERS, -1, np.int32)
    slots[ord("e")], slots[ord("p")] = 1, 2
    starts, lengths, simple = np.zeros((3, len(lines)), np.int64), np.zeros((3, len(lines)), np.int64), np.zeros(len(lines), np.bool_)
    data = bytes_of(text)
    both("flat_json")("flat_fields", data, data.size, slots, 3, len(lines), starts, lengths, simple)
    assert (starts + lengths <= data.size).all()


def message(letter: str, filling: bytes) -> bytes:
    length = MESSAGES[letter].length
    return struct.pack(">H", length) + (letter.encode() + filling * length)[:length]


WHOLE = [message(letter, filling) for letter in MESSAGES for filling in (b"\0", b"\1S", b"B\0\0T", b"\xff")]
PARTS = [b"\0\0", b"\0\1A", b"\0\2zz", b"\xff\xff", b"\0", message("A", b"\1")[:-1]]


@settings(max_examples=120, deadline=None)
@given(st.lists(st.sampled_from([*WHOLE, *PARTS]), min_size=1, max_size=8), st.sampled_from(((1, 1, 1, 1), (3, 7, 1, 100))), st.integers(1, 9))
def test_messages_of_itch_are_the_same(messages: list[bytes], grid: tuple[int, ...], most: int) -> None:
    data = np.frombuffer(bytearray(b"".join(messages)), np.uint8)
    events, locates, bad = np.zeros(most, EVENT), np.full(LOCATES, UNKNOWN, np.int32), np.zeros((most, BAD), np.int64)
    symbols, grids = np.array([int.from_bytes(b"\0" * 8, "little"), int.from_bytes(b"\1S" * 4, "little")], np.uint64), np.array([grid, grid], np.int64)
    tables = _shapes(), locates, symbols, 2, grids, bad
    count, consumed, read, left_out, wrong = both("itch")("itch", data, data.size, 100, 10**18, 0, events, most, *tables)
    assert count + wrong <= most and consumed <= data.size and count + wrong + left_out == read


def test_the_shapes_of_unknown_messages_are_those_of_no_length() -> None:
    unknown = [letter for letter in range(256) if chr(letter) not in MESSAGES]
    assert (_shapes()[unknown, 0] == -1).all()


@pytest.mark.parametrize("name", ["text", "flat_json", "itch"])
def test_nothing_of_them_can_fail(name: str) -> None:
    assert not both(name).native[0].facts.points
