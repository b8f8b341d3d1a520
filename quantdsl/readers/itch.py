"""NASDAQ TotalView-ITCH 5.0: messages behind 2-byte lengths become records. The code is made from the table of messages."""

from collections.abc import Sequence

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Number, any_of, select
from compiler.hir.native_types import I64
from quantdsl.engine.layout import EVENT
from quantdsl.readers.code import BYTES, I32S, I64S, U64S, OpenArray, advance, open_array, while_
from runtime.replay.events import EventKind, Flag, MarketSide
from runtime.replay.itch_messages import BAD, COLUMNS, FOREIGN, GRID, LETTERS, LOCATE, LOCATES, MESSAGES, TIME, UNKNOWN, Message

_FIELDS = ("kind", "flags", "side", "level", "printed", "price", "qty", "id", "id2", "sized")
"""What a message says; `sized`: whether it must have a quantity."""


def write(program: ModuleBuilder) -> None:
    """Gives the number of records, of bytes done with, of messages, of those left out, and of bad ones. `shapes` is the length and place of
    the symbol of each type [256, 2], `grids` [listings, GRID], `bad` (offset, column, number, instrument) [most, BAD]."""
    parameters = {
        "data": BYTES, "size": I64, "offset": I64, "midnight": I64, "stream": I64, "events": open_array(EVENT), "most": I64,
        "shapes": I64S, "locates": I32S, "symbols": U64S, "listings": I64, "grids": U64S, "bad": I64S,
    }
    with program.function("itch", parameters, [I64] * 5) as b:
        _Decoder(b).write()


class _Decoder:
    """The function that is being written, and what its parts share: the message at hand, and the fields of its record."""

    def __init__(self, b: FunctionCode) -> None:
        data, size, self.offset, self.midnight, self.stream, events, self.most, *tables, bad = b.parameters
        shapes, locates, symbols, listings, grids = tables
        self.b, self.data, self.events = b, OpenArray.of(data, size), OpenArray.of(events, self.most)
        self.shapes, self.locates = OpenArray.of(shapes, 2 * LETTERS), OpenArray.of(locates, LOCATES)
        self.symbols, self.grids = OpenArray.of(symbols, listings), OpenArray.of(grids, listings.wrapping_mul(GRID))
        self.bad = OpenArray.of(bad, self.most.wrapping_mul(BAD))
        self.at, self.count, self.messages, self.left_out, self.wrong = (b.variable(0) for _ in range(5))
        self.length, self.start, self.instrument = b.variable(0), b.variable(0), b.variable(FOREIGN, "i32")
        self.fields = {name: b.variable(0, "u64") for name in _FIELDS}
        self.good = b.variable(True)

    def write(self) -> None:
        b, at, size = self.b, self.at, self.data.count

        def more() -> Expr:
            # a message of nothing but its length gives a bad row, so that `most` bounds both
            room = self.count.value.wrapping_add(self.wrong.value) < self.most
            return room & (at.value.wrapping_add(2) <= size)

        with while_(b, more):
            self.length.value = self.data.read(at.value, "u16", "big").cast("i64")
            self.start.value = at.value.wrapping_add(2)
            end = self.start.value.wrapping_add(self.length.value)
            with b.when(end > size, likely=False):
                b.break_()
            self._message()
            advance(self.messages)
            at.value = end
        b.ret(*(variable.value for variable in (self.count, at, self.messages, self.left_out, self.wrong)))

    def _message(self) -> None:
        """One of a known length goes on; others are damaged."""
        b = self.b
        letter = b.variable(0)
        with b.when(self.length.value > 0, likely=True):
            letter.value = self.data[self.start.value].cast("i64")
        shape = letter.value.wrapping_mul(2)
        with b.when(self.shapes[shape] == self.length.value, likely=True):
            self._locate(shape.wrapping_add(1))
            with b.when(self.instrument.value >= 0, likely=True):
                self._take_fields(letter.value)
            with b.otherwise():
                advance(self.left_out)
        with b.otherwise():
            self._refuse("", self.length.value)

    def _locate(self, shape: Expr) -> None:
        """The instrument that the message's code stands for; the first message with a symbol tells. `shape`: where the table has the place
        of its symbol."""
        b = self.b
        locate = self._number(LOCATE, 2).cast("i64")
        self.instrument.value = self.locates[locate]
        with b.when(self.instrument.value == UNKNOWN, likely=False):
            symbol = self.shapes[shape]
            with b.when(symbol > 0):
                name = self.data.read(self.start.value.wrapping_add(symbol), "u64")
                self.instrument.value = FOREIGN
                with b.loop(0, self.symbols.count) as listing, b.when(self.symbols[listing] == name):
                    self.instrument.value = listing.cast("i32")
                self.locates[locate] = self.instrument.value

    def _take_fields(self, letter: Expr) -> None:
        """The fields of the messages that become records, each type its own way; what they lack is 0."""
        b, field = self.b, self.fields
        for variable in field.values():
            variable.value = 0
        self._take_fields_of(letter, [(name, message) for name, message in MESSAGES.items() if message.kind is not None])
        # an auction without a match trades nothing
        idle = ((field["flags"].value & int(Flag.AUCTION)) != 0) & (field["qty"].value == 0)
        with b.when(idle | (field["kind"].value == 0), likely=False):
            advance(self.left_out)
        with b.otherwise():
            self._record()

    def _take_fields_of(self, letter: Expr, messages: Sequence[tuple[str, Message]]) -> None:
        if not messages:
            return
        b, (name, message) = self.b, messages[0]
        assert message.kind is not None
        with b.when(letter == ord(name)):
            self.fields["kind"].value = int(message.kind)
            self.fields["flags"].value = int(message.flags)
            for field, (offset, size) in message.fields.items():
                self.fields[field].value = self._number(offset, size)
            self.fields["sized"].value = int("qty" in message.fields)
        with b.otherwise():
            self._take_fields_of(letter, messages[1:])

    def _record(self) -> None:
        b, field = self.b, {name: variable.value for name, variable in self.fields.items()}
        self.good.value = True
        sells, buys = field["side"] == ord("S"), field["side"] == ord("B")
        self._expect(any_of(sells, buys, field["side"] == 0), "side")
        side = self._choose(sells, MarketSide.SELL, self._choose(buys, MarketSide.BUY, b.const(int(MarketSide.NONE), "u64")))
        kind = self._choose(field["level"] == ord("T"), EventKind.STATUS, field["kind"])
        silent = self._choose(field["printed"] == ord("N"), Flag.NOT_PRINTED, b.const(0, "u64"))
        instrument = self.instrument.value.cast("i64")
        self._expect(field["qty"] >= field["sized"], "qty")
        price, qty = self._steps("price", instrument, 0), self._steps("qty", instrument, 2)
        with b.when(self.good.value, likely=True):
            high, low = self._number(TIME, 2).cast("i64"), self._number(TIME + 2, 4).cast("i64")
            written = {
                "ts": ((high << 32) | low).wrapping_add(self.midnight),
                "stream": self.stream, "instrument": instrument, "kind": kind, "side": side, "flags": field["flags"] | silent,
                "level": field["level"], "price": price, "qty": qty, "id": field["id"], "id2": field["id2"],
                "price2": b.const(0, "i64"), "qty2": b.const(0, "i64"), "row": self.offset.wrapping_add(self.at.value),
            }
            event = self.events[self.count.value]
            for name, type in EVENT.fields:
                event[name] = written[name].cast(str(type))
            advance(self.count)

    def _choose(self, condition: Expr, value: int, otherwise: Expr) -> Expr:
        return select(condition, self.b.const(int(value), "u64"), otherwise)

    def _steps(self, column: str, instrument: Expr, first: int) -> Expr:
        """A number of the message as a number of steps."""
        b = self.b
        grid = instrument.wrapping_mul(GRID).wrapping_add(first)
        up, down = self.grids[grid], self.grids[grid.wrapping_add(1)]
        steps = b.variable(self.fields[column].value.wrapping_mul(up))
        with b.when(down != 1):
            whole = b.wrapping("div", steps.value, down)
            exact = whole.wrapping_mul(down) == steps.value
            steps.value = whole
            self._expect(exact, column)
        return steps.value

    def _expect(self, holds: Expr, column: str) -> None:
        """Refuses the message for its first fault."""
        with self.b.when(self.good.value & ~holds, likely=False):
            self.good.value = False
            self._refuse(column, self.fields[column].value)

    def _number(self, offset: int, size: int) -> Expr:
        """Of the message at hand: the number of so many bytes."""
        return self.data.read(self.start.value.wrapping_add(offset), f"u{8 * size}", "big").cast("u64")

    def _refuse(self, column: str, number: Expr) -> None:
        first = self.wrong.value.wrapping_mul(BAD)
        instrument: Number = self.instrument.value.cast("i64") if column else 0
        row = (self.offset.wrapping_add(self.at.value), COLUMNS.index(column), number.cast("i64"), instrument)
        for place, value in enumerate(row):
            self.bad[first.wrapping_add(place)] = value
        advance(self.wrong)
