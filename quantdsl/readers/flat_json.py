"""JSON messages of one short object: `{"e":"trade","p":"1.5"}`, alone or as the `data` of another, with a time in front or not. Finds where
the values of one-letter keys lie. Lines of any other shape, or with anything odd in them, are left to a whole parser."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, NativeVariable, any_of
from compiler.hir.native_types import I1, I64
from quantdsl.readers.code import BYTES, I32S, I64S, OpenArray, advance, open_array, while_
from runtime.replay.decoders import LETTERS

_DATA = int.from_bytes(b"data", "little")
_NEWLINE, _RETURN, _QUOTE, _BACKSLASH = (ord(c) for c in '\n\r"\\')


def write(program: ModuleBuilder) -> None:
    """`starts` and `lengths` are [kinds, lines]: of the time in front, then of each key's value."""
    parameters = {
        "text": BYTES, "size": I64, "slots": I32S, "kinds": I64, "lines": I64,
        "starts": I64S, "lengths": I64S, "simple": open_array(I1),
    }
    with program.function("flat_fields", parameters) as b:
        _Scanner(b).write()


class _Scanner:
    """The function that is being written, and what its parts share."""

    def __init__(self, b: FunctionCode) -> None:
        letters, size, slots, kinds, self.lines, starts, lengths, simple = b.parameters
        self.b, self.text = b, OpenArray.of(letters, size)
        self.slots, self.simple = OpenArray.of(slots, LETTERS), OpenArray.of(simple, self.lines)
        fields = kinds.wrapping_mul(self.lines)
        self.starts, self.lengths = OpenArray.of(starts, fields), OpenArray.of(lengths, fields)
        self.at, self.fine = b.variable(0), b.variable(True)

    def write(self) -> None:
        b, at, fine = self.b, self.at, self.fine
        with b.loop(0, self.lines) as row:
            fine.value = True
            self._time(row)
            depth, outer, nested = b.variable(1), b.variable(0), b.variable(False)
            self._expect("{")
            with while_(b, lambda: fine.value & (depth.value > 0)):
                self._member(row, depth, outer, nested)
            mixed = nested.value & (outer.value > 0)
            advance(at, (self._here() == _RETURN).cast("i64"))
            self.simple[row] = fine.value & ~mixed & (self._here() == _NEWLINE)
            with while_(b, lambda: self._here() != _NEWLINE):
                advance(at)
            advance(at)

    def _here(self) -> Expr:
        """The next letter; behind the text there are only line ends."""
        letter = self.b.variable(_NEWLINE, "u8")
        with self.b.when(self.at.value < self.text.count):
            letter.value = self.text[self.at.value]
        return letter.value

    def _expect(self, letter: str) -> None:
        """That letter, or the line isn't simple; what follows a fault reads no further."""
        self.fine.value &= self._here() == ord(letter)
        advance(self.at, self.fine.value.cast("i64"))

    def _time(self, row: Expr) -> None:
        b, begin = self.b, self.at.value
        with while_(b, lambda: _within(self._here(), "0", "9")):
            advance(self.at)
        length = self.at.value.wrapping_sub(begin)
        with b.when(length > 0):
            self._note(row, b.const(0, "i64"), begin, length)
            self._expect(" ")

    def _note(self, row: Expr, slot: Expr, start: Expr, length: Expr) -> None:
        place = slot.wrapping_mul(self.lines).wrapping_add(row)
        self.starts[place] = start
        self.lengths[place] = length

    def _member(self, row: Expr, depth: NativeVariable, outer: NativeVariable, nested: NativeVariable) -> None:
        """A key, its value, and the comma or the braces behind it; `data` may open the one object inside."""
        b = self.b
        self._expect('"')
        key = self.at.value
        self._string()
        size = self.at.value.wrapping_sub(key)
        self._expect('"')
        self._expect(":")
        with b.when(self._here() == ord("{")):
            known = b.variable(False)
            with b.when((size == len(b"data")) & (depth.value == 1) & ~nested.value):
                known.value = self.text.read(key, "u32") == _DATA
            self.fine.value &= known.value
            nested.value = True
            advance(depth)
            advance(self.at)
        with b.otherwise():
            self._scalar(row, key, size, depth, outer)
            self._closing(depth)

    def _scalar(self, row: Expr, key: Expr, size: Expr, depth: NativeVariable, outer: NativeVariable) -> None:
        b = self.b
        start, length = self._value()
        with b.when(self.fine.value & (size == 1)):
            advance(outer, (depth.value == 1).cast("i64"))
            slot = self.slots[self.text[key].cast("i64")]
            with b.when(slot >= 0):
                self._note(row, slot.cast("i64"), start, length)

    def _closing(self, depth: NativeVariable) -> None:
        b = self.b
        closing = b.variable(self._here() == ord("}"))
        with b.when(~closing.value):
            self._expect(",")
        with while_(b, lambda: closing.value & (depth.value > 0)):
            advance(depth, -1)
            advance(self.at)
            closing.value = self._here() == ord("}")
            with b.when(~closing.value & (depth.value > 0)):
                self._expect(",")

    def _string(self) -> None:
        """Plain letters up to a quote."""

        def plain() -> Expr:
            letter = self._here()
            return _within(letter, " ", "\x7f") & (letter != _QUOTE) & (letter != _BACKSLASH)

        with while_(self.b, plain):
            advance(self.at)

    def _value(self) -> tuple[Expr, Expr]:
        """A string without its quotes, or a number or a word."""
        b, at = self.b, self.at
        start, length = b.variable(0), b.variable(0)
        with b.when(self._here() == _QUOTE):
            advance(at)
            start.value = at.value
            self._string()
            length.value = at.value.wrapping_sub(start.value)
            self._expect('"')
        with b.otherwise():
            start.value = at.value
            with while_(b, lambda: _in_number_or_word(self._here())):
                advance(at)
            length.value = at.value.wrapping_sub(start.value)
            self.fine.value &= length.value > 0
        return start.value, length.value


def _within(letter: Expr, first: str, last: str) -> Expr:
    return letter.wrapping_sub(ord(first)) <= ord(last) - ord(first)


def _in_number_or_word(letter: Expr) -> Expr:
    return any_of(_within(letter, "a", "z"), _within(letter, "0", "9"), *[letter == ord(c) for c in "+-.E"])
