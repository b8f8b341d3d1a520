"""Text to numbers, compiled: lines of separated fields are cut, decimals put on a grid, short words packed. These take what is plain and
right; whatever they leave is looked at once more in Python, which knows what is wrong with it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from runtime.records import frozen
from runtime.replay.grids import I64 as Integers
from runtime.replay.grids import GridStep
from runtime.replay.native.kit import I1, I8, I32, I64, KitFunction, KitModule

Bytes = npt.NDArray[np.uint8]
WORD = 8
"""Letters of a packed word."""

_AT_ONCE = 64

_NEWLINE, _RETURN, _QUOTE, _SPACE, _TAB = (ord(c) for c in '\n\r" \t')


def cut(text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int) -> "Cut":
    """Lines cut into fields. `slots` gives each column its place among the `wanted` ones, or -1. The last line may lack its end."""
    if text.size and text[-1] != _NEWLINE:
        text = np.append(text, np.uint8(_NEWLINE))
    most = int(np.count_nonzero(text == _NEWLINE))
    return _regular(text, separator, slots, wanted, most) or _any(text, separator, slots, wanted, most)


@frozen
class Cut:
    """Where the fields of some lines lie. Empty lines are no rows."""

    text: Bytes
    starts: Integers
    """[wanted, rows]"""
    lengths: Integers
    """[wanted, rows]"""
    offsets: Integers
    """Where each row starts."""
    lines: Integers
    """The line of each row, from 0."""
    right: npt.NDArray[np.bool_]
    """Rows with as many fields as there are columns, each quoted well or not at all."""
    line_count: int


def _regular(text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int, rows: int) -> Cut | None:
    """The lines of nearly all files: every one has all fields, and no quotes. None for others."""
    columns = slots.size
    marks = np.empty(rows * columns + 1, np.int64)
    if not rows or _compiled()["marks"](text, text.size, ord(separator), marks, rows * columns) != rows * columns:
        return None
    ends = marks[:-1].reshape(rows, columns)
    found = text[ends]
    if not (found[:, -1] == _NEWLINE).all() or not (found[:, :-1] == ord(separator)).all():
        return None
    offsets = np.empty(rows, np.int64)
    offsets[0] = 0
    offsets[1:] = ends[:-1, -1] + 1
    starts, lengths = np.zeros((wanted, rows), np.int64), np.zeros((wanted, rows), np.int64)
    for column, slot in enumerate(slots.tolist()):
        if slot >= 0:
            starts[slot] = ends[:, column - 1] + 1 if column else offsets
            np.subtract(ends[:, column], starts[slot], out=lengths[slot])
            if column == columns - 1:
                lengths[slot] -= (lengths[slot] > 0) & (text[ends[:, column] - 1] == _RETURN)
    if columns == 1 and not (lengths[0] if wanted else ends[:, 0] - offsets).all():
        return None
    return Cut(text, starts, lengths, offsets, np.arange(rows), np.ones(rows, np.bool_), rows)


def _any(text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int, most: int) -> Cut:
    """Lines of all kinds."""
    starts, lengths = np.zeros((wanted, most), np.int64), np.zeros((wanted, most), np.int64)
    offsets, lines, right = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.bool_)
    last = np.zeros(1, np.int64)
    rows = _compiled()["cut"](
        text, text.size, ord(separator), slots, slots.size, most, starts, lengths, offsets, lines, right, last
    )  # fmt: skip
    return Cut(text, starts[:, :rows], lengths[:, :rows], offsets[:rows], lines[:rows], right[:rows], int(last[0]))


def decimals(text: Bytes, starts: Integers, lengths: Integers, step: GridStep) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Fields [n] as numbers of steps, and which of them are plain decimals on the grid and within 63 bits; the others are undefined."""
    values, good = np.empty(starts.size, np.int64), np.zeros(starts.size, np.bool_)
    if step.divisor < 2**63 and step.digits < 19:
        starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
        _compiled()["decimals"](text, starts, lengths, starts.size, step.digits, step.divisor, values, good)
    return values, good


def words(text: Bytes, starts: Integers, lengths: Integers) -> npt.NDArray[np.uint64]:
    """Fields [n] of at most 8 letters as numbers, lower case; longer ones are 2^64 - 1."""
    packed = np.empty(starts.size, np.uint64)
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    _compiled()["words"](text, starts, lengths, starts.size, packed)
    return packed


def packed(word: str) -> int:
    """A word as `words` gives it."""
    return int.from_bytes(word.lower().encode("ascii")[:WORD], "little")


@cache
def _compiled() -> dict[str, Any]:
    names = ("marks", "cut", "decimals", "words")
    made = KitModule("replay_text", _write, names)
    return {name: made.call(name) for name in names}


def _write(module: ir.Module) -> None:
    _marks(module)
    _cut(module)
    _decimals(module)
    _words(module)


def _marks(module: ir.Module) -> None:
    """Where separators, line ends and quotes stand: 64 bytes at a time as one mask, whose bits are then walked. Stops past `most`."""
    code = KitFunction(module, "marks", "*text size separator *marks most")
    b = code.build
    text, size, most = code["text"], code["size"], code["most"]
    wide = ir.VectorType(I8, _AT_ONCE)
    separators = _splat(b, b.trunc(code["separator"], I8), wide)
    at, found, bits = code.variable(I64), code.variable(I64), code.variable(ir.IntType(_AT_ONCE))
    with code.repeat(lambda: code.all(code.compare(at.value, "<", size), code.compare(found.value, "<=", most))):
        block = code.variable(wide, ir.Constant(wide, [0] * _AT_ONCE))
        whole = code.compare(code.add(at.value, _AT_ONCE), "<=", size)
        with b.if_else(whole, likely=True) as (full, rest):
            with full:
                block.set(b.load(b.bitcast(code.address(text, at.value), wide.as_pointer()), align=1))
            with rest:
                place = code.variable(I64)
                with code.repeat(lambda: code.compare(code.add(at.value, place.value), "<", size)):
                    letter = code.load(text, code.add(at.value, place.value), I8)
                    block.set(b.insert_element(block.value, letter, place.value))
                    place.add(1)
        letters = block.value
        hits = b.icmp_unsigned("==", letters, separators)
        for letter in (_NEWLINE, _QUOTE):
            hits = b.or_(hits, b.icmp_unsigned("==", letters, ir.Constant(wide, [letter] * _AT_ONCE)))
        bits.set(b.bitcast(hits, ir.IntType(_AT_ONCE)))
        with code.repeat(lambda: code.all(code.compare(bits.value, "!=", 0), code.compare(found.value, "<=", most))):
            first = b.cttz(bits.value, I1(1))
            code.put(code["marks"], found.value, code.add(at.value, first))
            found.add(1)
            bits.set(b.and_(bits.value, code.sub(bits.value, 1)))
        at.add(_AT_ONCE)
    code.give(found.value)


def _splat(b: ir.IRBuilder, value: Any, kind: ir.VectorType) -> Any:
    """The same number in all places of a vector."""
    one = b.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return b.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def _cut(module: ir.Module) -> None:
    code = KitFunction(module, "cut", "*text size separator *slots columns most *starts *lengths *offsets *lines *right *last")
    b = code.build
    text, size, separator = code["text"], code["size"], b.trunc(code["separator"], I8)
    at, rows, line = code.variable(I64), code.variable(I64), code.variable(I64)

    def here(offset: int = 0) -> Any:
        return code.load(text, code.add(at.value, offset), I8)

    def inside() -> Any:
        return code.compare(at.value, "<", size)

    with code.repeat(inside):
        begin, column = at.value, code.variable(I64)
        good, more = code.variable(I1, 1), code.variable(I1, 1)
        with code.repeat(lambda: more.value):
            start, end = code.variable(I64, at.value), code.variable(I64, at.value)
            quoted = code.variable(I1, 0)
            with code.when(inside()), code.when(code.compare(here(), "==", _QUOTE), likely=False):
                quoted.set(1)
                at.add(1)
                start.set(at.value)
                _to_closing_quote(code, text, size, at, good)
                end.set(at.value)
                at.add(1)
            # to the separator or the end of the line, one of which must come at once behind a quote
            stopped = code.variable(I1, 0)
            behind = at.value
            with code.repeat(lambda: b.and_(inside(), b.not_(stopped.value))):
                found = here()
                stop = code.any(code.compare(found, "==", separator), code.compare(found, "==", _NEWLINE))
                stopped.set(stop)
                at.add(b.select(stop, ir.Constant(I64, 0), ir.Constant(I64, 1)))
            ends_line = code.variable(I1, 1)
            with code.when(inside()):
                ends_line.set(code.compare(here(), "==", _NEWLINE))
            stop_at = code.variable(I64, b.select(code.compare(at.value, "<", size), at.value, size))
            with code.when(code.all(ends_line.value, code.compare(stop_at.value, ">", begin))):
                before = code.load(text, code.sub(stop_at.value, 1), I8)
                stop_at.add(b.select(code.compare(before, "==", _RETURN), ir.Constant(I64, -1), ir.Constant(I64, 0)))
            with code.when(b.not_(quoted.value), likely=True):
                end.set(stop_at.value)
            with code.when(code.all(quoted.value, code.compare(stop_at.value, "!=", behind))):
                good.set(0)
            with code.when(code.compare(column.value, "<", code["columns"])):
                slot = code.item(code["slots"], column.value, I32)
                with code.when(code.compare_signed(slot, ">=", 0)):
                    place = code.add(code.mul(code.wide(slot), code["most"]), rows.value)
                    code.put(code["starts"], place, start.value)
                    code.put(code["lengths"], place, code.sub(end.value, start.value))
            column.add(1)
            more.set(b.not_(ends_line.value))
            at.add(1)
        length = code.sub(at.value, begin)
        blank = code.variable(I1, code.compare(length, "<=", 1))
        with code.when(code.compare(length, "==", 2)):
            blank.set(code.compare(code.load(text, begin, I8), "==", _RETURN))
        with code.when(b.not_(blank.value), likely=True):
            code.put(code["offsets"], rows.value, begin)
            code.put(code["lines"], rows.value, line.value)
            fits = code.all(good.value, code.compare(column.value, "==", code["columns"]))
            code.put(code["right"], rows.value, code.wide(fits, I8))
            rows.add(1)
        _count_lines(code, text, begin, at, size, line)
    code.put(code["last"], ir.Constant(I64, 0), line.value)
    code.give(rows.value)


def _to_closing_quote(code: KitFunction, text: Any, size: Any, at: Any, good: Any) -> None:
    """Past the letters of a quoted field; a doubled quote is one of them."""
    b = code.build
    open_ = code.variable(I1, 1)
    with code.repeat(lambda: code.all(open_.value, code.compare(at.value, "<", size))):
        is_quote = code.compare(code.load(text, at.value, I8), "==", _QUOTE)
        with b.if_else(is_quote) as (closes, goes_on):
            with closes:
                after = code.add(at.value, 1)
                doubled = code.variable(I1, 0)
                with code.when(code.compare(after, "<", size)):
                    doubled.set(code.compare(code.load(text, after, I8), "==", _QUOTE))
                open_.set(doubled.value)
                at.add(b.select(doubled.value, ir.Constant(I64, 2), ir.Constant(I64, 0)))
            with goes_on:
                at.add(1)
    with code.when(open_.value):
        good.set(0)


def _count_lines(code: KitFunction, text: Any, begin: Any, at: Any, size: Any, line: Any) -> None:
    """A row ends one line, and more where its quoted fields hold line ends."""
    b = code.build
    look = code.variable(I64, begin)
    stop = b.select(code.compare(at.value, "<", size), at.value, size)
    with code.repeat(lambda: code.compare(look.value, "<", stop)):
        line.add(code.wide(code.compare(code.load(text, look.value, I8), "==", _NEWLINE)))
        look.add(1)


def _decimals(module: ir.Module) -> None:
    """Digits are gathered up to the last place of the grid; those behind it must be zeros."""
    code = KitFunction(module, "decimals", "*text *starts *lengths count digits divisor *values *good")
    b = code.build
    text, divisor = code["text"], code["divisor"]
    row = code.variable(I64)
    with code.repeat(lambda: code.compare(row.value, "<", code["count"])):
        at = code.variable(I64, code.item(code["starts"], row.value, I64))
        end = code.variable(I64, code.add(at.value, code.item(code["lengths"], row.value, I64)))
        _trim(code, text, at, end)
        first = code.variable(I8, 0)
        with code.when(code.compare(at.value, "<", end.value)):
            first.set(code.load(text, at.value, I8))
        negative = code.compare(first.value, "==", ord("-"))
        at.add(code.wide(code.any(negative, code.compare(first.value, "==", ord("+")))))

        total, fine, seen = code.variable(I64), code.variable(I1, 1), code.variable(I64)
        left = code.variable(I64, code["digits"])
        point, going = code.variable(I1, 0), code.variable(I1, 1)
        with code.repeat(lambda: code.all(going.value, code.compare(at.value, "<", end.value))):
            letter = code.load(text, at.value, I8)
            digit = code.sub(letter, ord("0"))
            with b.if_else(code.compare(digit, "<=", 9), likely=True) as (is_digit, other):
                with is_digit:
                    seen.add(1)
                    # a digit behind the last place of the grid counts nothing and must be zero
                    beyond = code.all(point.value, code.compare(left.value, "==", 0))
                    with b.if_else(beyond) as (behind, counted):
                        with behind:
                            fine.set(b.and_(fine.value, code.compare(digit, "==", 0)))
                        with counted:
                            _times_ten(code, total, fine, code.wide(digit))
                            left.set(code.sub(left.value, code.wide(point.value)))
                with other:
                    legal = code.all(code.compare(letter, "==", ord(".")), b.not_(point.value))
                    fine.set(b.and_(fine.value, legal))
                    going.set(legal)
                    point.set(1)
            at.add(1)
        with code.repeat(lambda: code.all(fine.value, code.compare(left.value, ">", 0))):
            _times_ten(code, total, fine, ir.Constant(I64, 0))
            left.add(-1)
        steps = code.variable(I64, total.value)
        with code.when(code.compare(divisor, "!=", 1)):
            steps.set(b.udiv(total.value, divisor))
            fine.set(b.and_(fine.value, code.compare(code.mul(steps.value, divisor), "==", total.value)))
        code.put(code["values"], row.value, b.select(negative, b.neg(steps.value), steps.value))
        fits = code.all(fine.value, code.compare(seen.value, ">", 0))
        code.put(code["good"], row.value, code.wide(fits, I8))
        row.add(1)
    code.give(0)


def _times_ten(code: KitFunction, total: Any, fine: Any, digit: Any) -> None:
    """`total` x 10 + `digit`, and no longer fine past 63 bits."""
    b = code.build
    fits = code.compare(total.value, "<=", (2**63 - 1 - 9) // 10)
    fine.set(b.and_(fine.value, fits))
    total.set(code.add(code.mul(total.value, 10), digit))


def _trim(code: KitFunction, text: Any, at: Any, end: Any) -> None:
    """Spaces and tabs around a field are none of it."""
    b = code.build

    def blank(place: Any) -> Any:
        letter = code.load(text, place, I8)
        return code.any(code.compare(letter, "==", _SPACE), code.compare(letter, "==", _TAB))

    def strip(variable: Any, first: Callable[[], Any], move: int) -> None:
        going = code.variable(I1, 1)
        with code.repeat(lambda: code.all(going.value, code.compare(at.value, "<", end.value))):
            found = blank(first())
            going.set(found)
            variable.add(b.select(found, ir.Constant(I64, move), ir.Constant(I64, 0)))

    strip(at, lambda: at.value, 1)
    strip(end, lambda: code.sub(end.value, 1), -1)


def _words(module: ir.Module) -> None:
    code = KitFunction(module, "words", "*text *starts *lengths count *packed")
    b = code.build
    text, row = code["text"], code.variable(I64)
    with code.repeat(lambda: code.compare(row.value, "<", code["count"])):
        at = code.variable(I64, code.item(code["starts"], row.value, I64))
        end = code.variable(I64, code.add(at.value, code.item(code["lengths"], row.value, I64)))
        _trim(code, text, at, end)
        word, shift = code.variable(I64), code.variable(I64)
        with b.if_else(code.compare(code.sub(end.value, at.value), ">", WORD), likely=False) as (long, short):
            with long:
                word.set(-1)
            with short, code.repeat(lambda: code.compare(at.value, "<", end.value)):
                letter = code.wide(code.load(text, at.value, I8))
                upper = code.compare(code.sub(letter, ord("A")), "<", 26)
                letter = code.add(letter, b.select(upper, ir.Constant(I64, 32), ir.Constant(I64, 0)))
                word.set(b.or_(word.value, b.shl(letter, shift.value)))
                shift.add(8)
                at.add(1)
        code.put(code["packed"], row.value, word.value)
        row.add(1)
    code.give(0)
