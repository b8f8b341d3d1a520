"""Text to numbers: lines of separated fields are cut, decimals put on a grid, short words packed. These take what is plain and right;
whatever they leave is looked at once more in Python, which knows what is wrong with it."""

from compiler.hir.host import MATCHED
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, NativeVariable, any_of, minimum, select
from compiler.hir.native_types import I1, I64, U8, U64
from quantdsl.readers.code import BYTES, I32S, I64S, U64S, OpenArray, advance, open_array, while_
from runtime.replay.decoders import LONG, WORD

_NEWLINE, _RETURN, _QUOTE, _SPACE, _TAB = (ord(c) for c in '\n\r" \t')
_FLAGS = open_array(I1)


def write(program: ModuleBuilder) -> None:
    _marks(program)
    _cut(program)
    _decimals(program)
    _words(program)


def _marks(program: ModuleBuilder) -> None:
    """Where separators, line ends and quotes stand: 64 bytes at a time as one mask, whose bits are then walked. Stops past `most`."""
    parameters = {"text": BYTES, "size": I64, "separator": U8, "marks": I64S, "most": I64}
    with program.function("marks", parameters, [I64]) as b:
        letters, size, separator, stops, most = b.parameters
        text, marks = OpenArray.of(letters, size), OpenArray.of(stops, most.wrapping_add(1))
        wanted = (separator, b.const(_NEWLINE, "u8"), b.const(_QUOTE, "u8"))
        at, count = b.variable(0), b.variable(0)
        with while_(b, lambda: (at.value < size) & (count.value <= most)):
            bits = b.variable(0, "u64")
            with b.when(at.value <= size.wrapping_sub(MATCHED), likely=True):
                bits.value = text.matches(at.value, *wanted)
            with b.otherwise(), b.loop(0, size.wrapping_sub(at.value)) as place:
                letter = text[at.value.wrapping_add(place)]
                bits.value |= any_of(*[letter == value for value in wanted]).cast("u64") << place.cast("u64")
            with while_(b, lambda: (bits.value != 0) & (count.value <= most)):
                marks[count.value] = at.value.wrapping_add(b.op("trailing_zeros", bits.value).cast("i64"))
                advance(count)
                bits.value &= bits.value.wrapping_sub(1)
            advance(at, MATCHED)
        b.ret(count.value)


def _cut(program: ModuleBuilder) -> None:
    """Fields of lines of all kinds; gives the number of rows and that of lines. `starts` and `lengths` are [wanted, most]."""
    parameters = {
        "text": BYTES, "size": I64, "separator": U8, "slots": I32S, "columns": I64, "wanted": I64, "most": I64,
        "starts": I64S, "lengths": I64S, "offsets": I64S, "lines": I64S, "right": _FLAGS,
    }
    with program.function("cut", parameters, [I64, I64]) as b:
        letters, size, separator, places, columns, wanted, most, *outputs = b.parameters
        text, slots = OpenArray.of(letters, size), OpenArray.of(places, columns)
        starts, lengths = (OpenArray.of(address, wanted.wrapping_mul(most)) for address in outputs[:2])
        offsets, lines, right = (OpenArray.of(address, most) for address in outputs[2:])
        at, rows, line = b.variable(0), b.variable(0), b.variable(0)
        with while_(b, lambda: at.value < size):
            begin, column = at.value, b.variable(0)
            good, more = b.variable(True), b.variable(True)
            with while_(b, lambda: more.value):
                start, end, ends_line = _field(b, text, separator, at, begin, good)
                with b.when(column.value < columns):
                    slot = slots[column.value]
                    with b.when(slot >= 0):
                        place = slot.cast("i64").wrapping_mul(most).wrapping_add(rows.value)
                        starts[place] = start
                        lengths[place] = end.wrapping_sub(start)
                advance(column)
                more.value = ~ends_line
                advance(at)
            length = at.value.wrapping_sub(begin)
            blank = b.variable(length <= 1)
            with b.when(length == 2):
                blank.value = text[begin] == _RETURN
            with b.when(~blank.value):
                offsets[rows.value] = begin
                lines[rows.value] = line.value
                right[rows.value] = good.value & (column.value == columns)
                advance(rows)
            # a row ends one line, and more where its quoted fields hold line ends
            with b.loop(begin, minimum(at.value, size)) as place:
                advance(line, (text[place] == _NEWLINE).cast("i64"))
        b.ret(rows.value, line.value)


def _field(
    b: FunctionCode, text: OpenArray, separator: Expr, at: NativeVariable, begin: Expr, good: NativeVariable
) -> tuple[Expr, Expr, Expr]:
    """Moves to what ends a field, a separator or the end of the line: the field's start and end, and whether it is the line's last."""
    start, end, quoted = b.variable(at.value), b.variable(at.value), b.variable(False)
    with b.when(at.value < text.count), b.when(text[at.value] == _QUOTE):
        quoted.value = True
        advance(at)
        start.value = at.value
        _to_closing_quote(b, text, at, good)
        end.value = at.value
        advance(at)
    behind = at.value
    with while_(b, lambda: at.value < text.count):
        letter = text[at.value]
        with b.when((letter == separator) | (letter == _NEWLINE)):
            b.break_()
        advance(at)
    ends_line = b.variable(True)
    with b.when(at.value < text.count):
        ends_line.value = text[at.value] == _NEWLINE
    stop = b.variable(minimum(at.value, text.count))
    with b.when(ends_line.value & (stop.value > begin)):
        before = stop.value.wrapping_sub(1)
        stop.value = select(text[before] == _RETURN, before, stop.value)
    with b.when(quoted.value):
        # behind a quote the field must end at once
        good.value &= stop.value == behind
    with b.otherwise():
        end.value = stop.value
    return start.value, end.value, ends_line.value


def _to_closing_quote(b: FunctionCode, text: OpenArray, at: NativeVariable, good: NativeVariable) -> None:
    """Past the letters of a quoted field; a doubled quote is one of them."""
    is_open = b.variable(True)
    with while_(b, lambda: is_open.value & (at.value < text.count)):
        with b.when(text[at.value] == _QUOTE):
            after = at.value.wrapping_add(1)
            is_open.value = False
            with b.when(after < text.count):
                is_open.value = text[after] == _QUOTE
            advance(at, select(is_open.value, b.const(2, "i64"), 0))
        with b.otherwise():
            advance(at)
    good.value &= ~is_open.value


def _decimals(program: ModuleBuilder) -> None:
    """Digits are gathered up to the last place of the grid; those behind it must be zeros."""
    parameters = {
        "text": BYTES, "size": I64, "starts": I64S, "lengths": I64S, "count": I64, "digits": I64, "divisor": U64,
        "values": I64S, "good": _FLAGS,
    }
    with program.function("decimals", parameters) as b:
        letters, size, first, long, count, digits, divisor, *outputs = b.parameters
        text = OpenArray.of(letters, size)
        starts, lengths, values, good = (OpenArray.of(address, count) for address in (first, long, *outputs))
        with b.loop(0, count) as row:
            at, end = _trimmed(b, text, starts[row], lengths[row])
            sign = b.variable(0, "u8")
            with b.when(at.value < end.value):
                sign.value = text[at.value]
            negative = sign.value == ord("-")
            advance(at, (negative | (sign.value == ord("+"))).cast("i64"))
            total, fine = b.variable(0, "u64"), b.variable(True)
            seen, left, point = b.variable(0), b.variable(digits), b.variable(False)
            with while_(b, lambda: at.value < end.value):
                letter = text[at.value]
                digit = letter.wrapping_sub(ord("0"))
                with b.when(digit <= 9, likely=True):
                    advance(seen)
                    # a digit behind the last place of the grid counts nothing and must be zero
                    with b.when(point.value & (left.value == 0)):
                        fine.value &= digit == 0
                    with b.otherwise():
                        _times_ten(total, fine, digit.cast("u64"))
                        left.value = left.value.wrapping_sub(point.value.cast("i64"))
                with b.otherwise():
                    legal = (letter == ord(".")) & ~point.value
                    fine.value &= legal
                    with b.when(~legal):
                        b.break_()
                    point.value = True
                advance(at)
            with while_(b, lambda: fine.value & (left.value > 0)):
                _times_ten(total, fine, b.const(0, "u64"))
                advance(left, -1)
            steps = b.variable(total.value)
            with b.when(divisor != 1):
                steps.value = b.wrapping("div", total.value, divisor)
                fine.value &= steps.value.wrapping_mul(divisor) == total.value
            value = steps.value.cast("i64")
            values[row] = select(negative, value.wrapping_neg(), value)
            good[row] = fine.value & (seen.value > 0)


def _times_ten(total: NativeVariable, fine: NativeVariable, digit: Expr) -> None:
    """`total` x 10 + `digit`, and no longer fine past 63 bits."""
    fine.value &= total.value <= (2**63 - 1 - 9) // 10
    total.value = total.value.wrapping_mul(10).wrapping_add(digit)


def _trimmed(b: FunctionCode, text: OpenArray, start: Expr, length: Expr) -> tuple[NativeVariable, NativeVariable]:
    """Where a field starts and ends without the spaces and tabs around it."""
    at, end = b.variable(start), b.variable(start.wrapping_add(length))

    def stop_unless_blank(place: Expr) -> None:
        letter = text[place]
        with b.when(~((letter == _SPACE) | (letter == _TAB))):
            b.break_()

    with while_(b, lambda: at.value < end.value):
        stop_unless_blank(at.value)
        advance(at)
    with while_(b, lambda: at.value < end.value):
        last = end.value.wrapping_sub(1)
        stop_unless_blank(last)
        end.value = last
    return at, end


def _words(program: ModuleBuilder) -> None:
    parameters = {"text": BYTES, "size": I64, "starts": I64S, "lengths": I64S, "count": I64, "packed": U64S}
    with program.function("words", parameters) as b:
        letters, size, first, long, count, words = b.parameters
        text = OpenArray.of(letters, size)
        starts, lengths, packed = (OpenArray.of(address, count) for address in (first, long, words))
        with b.loop(0, count) as row:
            at, end = _trimmed(b, text, starts[row], lengths[row])
            word = b.variable(LONG, "u64")
            length = end.value.wrapping_sub(at.value)
            with b.when(length <= WORD):
                word.value = 0
                with b.loop(0, length) as place:
                    letter = text[at.value.wrapping_add(place)]
                    upper = letter.wrapping_sub(ord("A")) < 26
                    lower = letter.wrapping_add(select(upper, b.const(32, "u8"), 0)).cast("u64")
                    word.value |= lower << place.wrapping_mul(8).cast("u64")
            packed[row] = word.value
