"""JSON messages of one short object, compiled: `{"e":"trade","p":"1.5"}`, alone or as the `data` of another, with a time in front or not.
Finds where the values of one-letter keys lie. Lines of any other shape, or with anything odd in them, are left to a whole parser."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from runtime.records import frozen
from runtime.replay.grids import I64 as Integers
from runtime.replay.native.kit import I1, I8, I32, I64, KitFunction, KitModule, KitVariable
from runtime.replay.native.text import Bytes

_LETTERS = 128
_DATA = int.from_bytes(b"data", "little")
_NEWLINE, _RETURN, _QUOTE, _BACKSLASH = (ord(c) for c in '\n\r"\\')


@frozen
class FlatFields:
    """Fields by key, and the time in front under the empty key: starts and lengths [rows]; a length of 0: none. The letter before the start
    of a string is its quote."""

    starts: dict[str, Integers]
    lengths: dict[str, Integers]
    simple: npt.NDArray[np.bool_]
    """The lines that are such messages; of others nothing is known."""


def scan(text: Bytes, keys: str, lines: int) -> FlatFields:
    """So many lines of `text`, each with its end except perhaps the last."""
    slots = np.full(_LETTERS, -1, np.int32)
    for slot, key in enumerate(keys, 1):
        slots[ord(key)] = slot
    starts, lengths = np.zeros((len(keys) + 1, lines), np.int64), np.zeros((len(keys) + 1, lines), np.int64)
    simple = np.zeros(lines, np.bool_)
    _compiled()(text, text.size, slots, lines, starts, lengths, simple)
    names = ("", *keys)
    return FlatFields(dict(zip(names, starts, strict=True)), dict(zip(names, lengths, strict=True)), simple)


@cache
def _compiled() -> Callable[..., int]:
    return KitModule("replay_flat_json", lambda module: _Scanner(module).write(), ("flat_json",)).call("flat_json")


class _Scanner:
    """The function that is being written, and what its parts share."""

    def __init__(self, module: ir.Module) -> None:
        self.code = code = KitFunction(module, "flat_json", "*text size *slots lines *starts *lengths *simple")
        self.at, self.row, self.begin = code.variable(I64), code.variable(I64), code.variable(I64)
        self.fine = code.variable(I1, 1)

    def write(self) -> None:
        code, b = self.code, self.code.build
        with code.repeat(lambda: code.compare(self.row.value, "<", code["lines"])):
            self.fine.set(1)
            self._time()
            depth, outer, nested = code.variable(I64, 1), code.variable(I64), code.variable(I1)
            self._expect("{")
            with code.repeat(lambda: code.all(self.fine.value, code.compare(depth.value, ">", 0))):
                self._member(depth, outer, nested)
            mixed = code.all(nested.value, code.compare(outer.value, ">", 0))
            self.at.add(code.wide(code.compare(self._here(), "==", _RETURN)))
            ends = code.compare(self._here(), "==", _NEWLINE)
            simple = code.all(self.fine.value, b.not_(mixed), ends)
            code.put(code["simple"], self.row.value, code.wide(simple, I8))
            with code.repeat(lambda: code.compare(self._here(), "!=", _NEWLINE)):
                self.at.add(1)
            self.at.add(1)
            self.row.add(1)
        code.give(0)

    def _here(self) -> Any:
        """The next letter; behind the text there are only line ends."""
        code = self.code
        found = code.variable(I8, _NEWLINE)
        with code.when(code.compare(self.at.value, "<", code["size"]), likely=True):
            found.set(code.load(code["text"], self.at.value, I8))
        return found.value

    def _expect(self, letter: str) -> None:
        """That letter, or the line isn't simple; what follows a fault reads no further."""
        code = self.code
        same = code.compare(self._here(), "==", ord(letter))
        self.fine.set(code.all(self.fine.value, same))
        self.at.add(code.wide(self.fine.value))

    def _time(self) -> None:
        code = self.code
        self.begin.set(self.at.value)
        with code.repeat(lambda: code.compare(code.sub(self._here(), ord("0")), "<=", 9)):
            self.at.add(1)
        length = code.sub(self.at.value, self.begin.value)
        with code.when(code.compare(length, ">", 0)):
            self._note(ir.Constant(I64, 0), self.begin.value, length)
            self._expect(" ")

    def _note(self, slot: Any, start: Any, length: Any) -> None:
        code = self.code
        place = code.add(code.mul(slot, code["lines"]), self.row.value)
        code.put(code["starts"], place, start)
        code.put(code["lengths"], place, length)

    def _member(self, depth: KitVariable, outer: KitVariable, nested: KitVariable) -> None:
        """A key, its value, and the comma or the braces behind it; `data` may open the one object inside."""
        code, b = self.code, self.code.build
        self._expect('"')
        key = code.variable(I64, self.at.value)
        self._string()
        size = code.sub(self.at.value, key.value)
        self._expect('"')
        self._expect(":")
        opens = code.compare(self._here(), "==", ord("{"))
        with b.if_else(opens, likely=False) as (inner, scalar):
            with inner:
                known = code.variable(I1)
                with code.when(code.all(code.compare(size, "==", 4), code.compare(depth.value, "==", 1), b.not_(nested.value))):
                    known.set(code.compare(code.load(code["text"], key.value, I32), "==", _DATA))
                self.fine.set(code.all(self.fine.value, known.value))
                nested.set(1)
                depth.add(1)
                self.at.add(1)
            with scalar:
                start, length = self._value()
                with code.when(code.all(self.fine.value, code.compare(size, "==", 1))):
                    outer.add(code.wide(code.compare(depth.value, "==", 1)))
                    letter = code.wide(code.load(code["text"], key.value, I8))
                    slot = code.item(code["slots"], letter, I32)
                    with code.when(code.compare_signed(slot, ">=", 0)):
                        self._note(code.wide(slot), start, length)
                closing = code.variable(I1, code.compare(self._here(), "==", ord("}")))
                with code.when(b.not_(closing.value)):
                    self._expect(",")
                with code.repeat(lambda: code.all(closing.value, code.compare(depth.value, ">", 0))):
                    depth.add(-1)
                    self.at.add(1)
                    closing.set(code.compare(self._here(), "==", ord("}")))
                    with code.when(code.all(b.not_(closing.value), code.compare(depth.value, ">", 0))):
                        self._expect(",")

    def _string(self) -> None:
        """Plain letters up to a quote."""
        code = self.code

        def plain() -> Any:
            letter = self._here()
            usual = code.compare(code.sub(letter, 32), "<", _LETTERS - 32)
            return code.all(usual, code.compare(letter, "!=", _QUOTE), code.compare(letter, "!=", _BACKSLASH))

        with code.repeat(plain):
            self.at.add(1)

    def _value(self) -> tuple[Any, Any]:
        """A string without its quotes, or a number or a word."""
        code, b = self.code, self.code.build
        start, length = code.variable(I64), code.variable(I64)
        with b.if_else(code.compare(self._here(), "==", _QUOTE)) as (text, other):
            with text:
                self.at.add(1)
                start.set(self.at.value)
                self._string()
                length.set(code.sub(self.at.value, start.value))
                self._expect('"')
            with other:
                start.set(self.at.value)
                with code.repeat(self._in_number_or_word):
                    self.at.add(1)
                length.set(code.sub(self.at.value, start.value))
                self.fine.set(code.all(self.fine.value, code.compare(length.value, ">", 0)))
        return start.value, length.value

    def _in_number_or_word(self) -> Any:
        code = self.code
        letter = self._here()
        small = code.compare(code.sub(letter, ord("a")), "<", 26)
        digit = code.compare(code.sub(letter, ord("0")), "<", 10)
        others = [code.compare(letter, "==", ord(c)) for c in "+-.E"]
        return code.any(small, digit, *others)
