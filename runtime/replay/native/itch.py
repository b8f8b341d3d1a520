"""NASDAQ TotalView-ITCH 5.0, compiled: messages behind 2-byte lengths become records. The code is made from the table of messages, which
follows the exchange's specification of version 5.0."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import Factory
from llvmlite import ir

from runtime.records import frozen
from runtime.replay.events import EVENT, EventKind, Events, Flag, MarketSide
from runtime.replay.grids import I64 as Integers
from runtime.replay.native.kit import I1, I8, I16, I32, I64, KitFunction, KitModule

UNKNOWN, FOREIGN = -2, -1
"""What a locate code stands for before its symbol was seen, and when nobody wants its symbol."""


@frozen
class Message:
    """One type: its length, the record that it becomes, if any, and where fields of the record, and the symbol, stand: (offset, bytes)."""

    length: int
    kind: EventKind | None = None
    fields: dict[str, tuple[int, int]] = Factory(dict)
    symbol: int | None = None
    flags: Flag = Flag.LAST


MESSAGES: dict[str, Message] = {
    "S": Message(12),
    "R": Message(39, symbol=11),
    "H": Message(25, EventKind.HALT, {"level": (19, 1)}, symbol=11),
    "Y": Message(20),
    "L": Message(26),
    "V": Message(35),
    "W": Message(12),
    "K": Message(28),
    "J": Message(35),
    "h": Message(21),
    "A": Message(36, EventKind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "F": Message(40, EventKind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "E": Message(31, EventKind.EXECUTE, {"id": (11, 8), "qty": (19, 4), "id2": (23, 8)}),
    "C": Message(
        36,
        EventKind.EXECUTE,
        {"id": (11, 8), "qty": (19, 4), "id2": (23, 8), "printed": (31, 1), "price": (32, 4)},
        flags=Flag.LAST | Flag.OWN_PRICE,
    ),
    "X": Message(23, EventKind.CANCEL, {"id": (11, 8), "qty": (19, 4)}),
    "D": Message(19, EventKind.DELETE, {"id": (11, 8)}),
    "U": Message(35, EventKind.REPLACE, {"id": (11, 8), "id2": (19, 8), "qty": (27, 4), "price": (31, 4)}),
    # the side of a trade against a hidden order says nothing since 2014
    "P": Message(44, EventKind.TRADE, {"qty": (20, 4), "price": (32, 4), "id": (36, 8)}, symbol=24, flags=Flag.LAST | Flag.HIDDEN),
    "Q": Message(40, EventKind.TRADE, {"qty": (11, 8), "price": (27, 4), "id": (31, 8)}, symbol=19, flags=Flag.LAST | Flag.AUCTION),
    "B": Message(19),
    "I": Message(50),
    "N": Message(20),
    "O": Message(48),
}

PRICE_PLACES = 4
"""Prices are in 10^-4 of the currency."""

GRID = 4
"""Numbers of a grid: units of a message are multiplied by the first and divided by the second for ticks, third and fourth for lots."""

COLUMNS = ("", "side", "qty", "price")
"""What can be wrong with a message; the first is the message itself. A quantity of 0 is none, in whatever message."""

_LOCATE, _TIME = 1, 5
_FIELDS = ("kind", "flags", "side", "level", "printed", "price", "qty", "id", "id2", "sized")


@frozen
class Decoded:
    """Records of some messages. `bad`: (offset, place in COLUMNS, the number that stands there, the instrument) [bad, 4]."""

    events: Events
    consumed: int
    messages: int
    left_out: int
    bad: Integers


def decode(
    data: npt.NDArray[np.uint8],
    offset: int,
    midnight: int,
    stream: int,
    locates: npt.NDArray[np.int32],
    symbols: npt.NDArray[np.uint64],
    grids: Integers,
) -> Decoded:
    """Whole messages of `data`, which starts at `offset` of its file, as records. `locates` [65536] is filled as symbols are met;
    `symbols` [listings] are those that are wanted, as 8 letters; `grids` is [listings, GRID]."""
    # no message that becomes a record is shorter
    shortest = 2 + min(one.length for one in MESSAGES.values())
    most = data.size // shortest + 1
    events, state, bad = np.empty(most, EVENT), np.zeros(4, np.int64), np.empty((most, 4), np.int64)
    count = _compiled()(
        data, data.size, offset, midnight, stream, events, most, _shapes(), locates, symbols, symbols.size, grids, bad, state
    )  # fmt: skip
    consumed, messages, left_out, wrong = state.tolist()
    return Decoded(events[:count], consumed, messages, left_out, bad[:wrong])


@cache
def _compiled() -> Callable[..., int]:
    return KitModule("replay_itch", lambda module: _Decoder(module).write(), ("itch",)).call("itch")


@cache
def _shapes() -> Integers:
    """Length and place of the symbol by letter [256, 2]; 0: no such message, no symbol."""
    shapes = np.zeros((256, 2), np.int64)
    for letter, message in MESSAGES.items():
        shapes[ord(letter)] = message.length, message.symbol or 0
    return shapes


class _Decoder:
    """The function that is being written, and what its parts share: the message at hand, and the fields of its record."""

    def __init__(self, module: ir.Module) -> None:
        parameters = "*data size offset midnight stream *events most *shapes *locates *symbols listings *grids *bad *state"
        self.code = code = KitFunction(module, "itch", parameters)
        self.at, self.count, self.messages, self.left_out, self.wrong = (code.variable(I64) for _ in range(5))
        self.length, self.start, self.instrument = code.variable(I64), code.variable(I64), code.variable(I32)
        self.fields = {name: code.variable(I64) for name in _FIELDS}
        self.good = code.variable(I1)

    def write(self) -> None:
        code, b = self.code, self.code.build
        data, size = code["data"], code["size"]
        going = code.variable(I1, 1)

        def more() -> Any:
            # a message of nothing but its length gives a bad row, so that `most` bounds both
            room = code.compare(code.add(self.count.value, self.wrong.value), "<", code["most"])
            return code.all(going.value, room, code.compare(code.add(self.at.value, 2), "<=", size))

        with code.repeat(more):
            self.length.set(code.wide(code.load(data, self.at.value, I16, big=True)))
            self.start.set(code.add(self.at.value, 2))
            end = code.add(self.start.value, self.length.value)
            with b.if_else(code.compare(end, "<=", size), likely=True) as (whole, partial):
                with whole:
                    self._message()
                    self.messages.add(1)
                    self.at.set(end)
                with partial:
                    going.set(0)
        for place, number in enumerate((self.at, self.messages, self.left_out, self.wrong)):
            code.put(code["state"], ir.Constant(I64, place), number.value)
        code.give(self.count.value)

    def _message(self) -> None:
        """One of a known length goes on; others are damaged."""
        code, b = self.code, self.code.build
        letter = code.variable(I64)
        with code.when(code.compare(self.length.value, ">", 0), likely=True):
            letter.set(code.wide(code.load(code["data"], self.start.value, I8)))
        expected = code.item(code["shapes"], code.mul(letter.value, 2), I64)
        right = code.all(code.compare(expected, ">", 0), code.compare(expected, "==", self.length.value))
        with b.if_else(right, likely=True) as (known, damaged):
            with damaged:
                self._refuse("", self.length.value)
            with known:
                self._locate(code.item(code["shapes"], code.add(code.mul(letter.value, 2), 1), I64))
                with b.if_else(code.compare_signed(self.instrument.value, ">=", 0), likely=True) as (ours, foreign):
                    with ours:
                        self._fields(b.trunc(letter.value, I8))
                    with foreign:
                        self.left_out.add(1)

    def _locate(self, symbol: Any) -> None:
        """The instrument that the message's code stands for; the first message with a symbol tells."""
        code, b = self.code, self.code.build
        locate = code.wide(self._load(_LOCATE, I16))
        self.instrument.set(code.item(code["locates"], locate, I32))
        fresh = code.all(code.compare_signed(self.instrument.value, "==", UNKNOWN), code.compare(symbol, ">", 0))
        with code.when(fresh, likely=False):
            name = code.load(code["data"], code.add(self.start.value, symbol), I64)
            self.instrument.set(FOREIGN)
            looked = code.variable(I64)
            with code.repeat(lambda: code.compare(looked.value, "<", code["listings"])):
                with code.when(code.compare(code.item(code["symbols"], looked.value, I64), "==", name)):
                    self.instrument.set(b.trunc(looked.value, I32))
                looked.add(1)
            code.put(code["locates"], locate, self.instrument.value)

    def _fields(self, letter: Any) -> None:
        """Takes the fields of the messages that become records, each type its own way; what they lack is 0."""
        code, b = self.code, self.code.build
        for variable in self.fields.values():
            variable.set(0)
        silent, after = code.function.append_basic_block("silent"), code.function.append_basic_block("after")
        choice = b.switch(letter, silent)
        for name, message in MESSAGES.items():
            if message.kind is None:
                continue
            block = code.function.append_basic_block(f"message_{ord(name)}")
            choice.add_case(ir.Constant(I8, ord(name)), block)
            b.position_at_end(block)
            self.fields["kind"].set(int(message.kind))
            self.fields["flags"].set(int(message.flags))
            for word, (offset, size) in message.fields.items():
                self.fields[word].set(self._number(offset, size))
            self.fields["sized"].set(int("qty" in message.fields))
            b.branch(after)
        b.position_at_end(silent)
        b.branch(after)
        b.position_at_end(after)
        field = self.fields
        # an auction without a match trades nothing
        auction = code.compare(b.and_(field["flags"].value, ir.Constant(I64, Flag.AUCTION)), "!=", 0)
        idle = code.all(auction, code.compare(field["qty"].value, "==", 0))
        with b.if_else(code.any(idle, code.compare(field["kind"].value, "==", 0)), likely=False) as (nothing, some):
            with nothing:
                self.left_out.add(1)
            with some:
                self._record()

    def _record(self) -> None:
        code, b, field = self.code, self.code.build, self.fields
        self.good.set(1)

        def chosen(condition: Any, yes: int, no: Any) -> Any:
            return b.select(condition, ir.Constant(I64, yes), ir.Constant(I64, no) if isinstance(no, int) else no)

        side = field["side"].value
        sells, buys = code.compare(side, "==", ord("S")), code.compare(side, "==", ord("B"))
        self._expect(code.any(sells, buys, code.compare(side, "==", 0)), "side")
        side = chosen(sells, MarketSide.SELL, chosen(buys, MarketSide.BUY, MarketSide.NONE))
        trading = code.compare(field["level"].value, "==", ord("T"))
        kind = chosen(trading, EventKind.STATUS, field["kind"].value)
        silent = code.compare(field["printed"].value, "==", ord("N"))
        flags = b.or_(field["flags"].value, chosen(silent, Flag.NOT_PRINTED, 0))
        instrument = code.wide(self.instrument.value)
        self._expect(code.compare(field["qty"].value, ">=", field["sized"].value), "qty")
        price, qty = self._steps("price", instrument, 0), self._steps("qty", instrument, 2)
        with code.when(self.good.value, likely=True):
            packed = b.or_(kind, b.shl(side, ir.Constant(I64, 8)))
            packed = b.or_(packed, b.shl(flags, ir.Constant(I64, 16)))
            packed = b.or_(packed, b.shl(field["level"].value, ir.Constant(I64, 32)))
            high = code.wide(self._load(_TIME, I16))
            low = code.wide(self._load(_TIME + 2, I32))
            ts = code.add(b.or_(b.shl(high, ir.Constant(I64, 32)), low), code["midnight"])
            whose = b.or_(code["stream"], b.shl(instrument, ir.Constant(I64, 32)))
            zero, row = ir.Constant(I64, 0), code.add(code["offset"], self.at.value)
            words = (ts, whose, packed, price, qty, field["id"].value, field["id2"].value, zero, zero, row)
            record = code.mul(self.count.value, EVENT.itemsize)
            for place, word in enumerate(words):
                code.store(code["events"], code.add(record, 8 * place), word)
            self.count.add(1)

    def _steps(self, column: str, instrument: Any, first: int) -> Any:
        """A number of the message as a number of steps."""
        code = self.code
        grid = code.add(code.mul(instrument, GRID), first)
        up, down = code.item(code["grids"], grid, I64), code.item(code["grids"], code.add(grid, 1), I64)
        steps = code.variable(I64, code.mul(self.fields[column].value, up))
        with code.when(code.compare(down, "!=", 1)):
            whole = code.build.udiv(steps.value, down)
            exact = code.compare(code.mul(whole, down), "==", steps.value)
            steps.set(whole)
            self._expect(exact, column)
        return steps.value

    def _expect(self, holds: Any, column: str) -> None:
        """Refuses the message for its first fault."""
        code = self.code
        with code.when(code.all(self.good.value, code.build.not_(holds)), likely=False):
            self.good.set(0)
            self._refuse(column, self.fields[column].value)

    def _load(self, offset: int, kind: Any) -> Any:
        return self.code.load(self.code["data"], self.code.add(self.start.value, offset), kind, big=True)

    def _number(self, offset: int, size: int) -> Any:
        found = self._load(offset, {1: I8, 4: I32, 8: I64}[size])
        return found if size == 8 else self.code.wide(found)

    def _refuse(self, column: str, number: Any) -> None:
        code = self.code
        first = code.mul(self.wrong.value, 4)
        instrument = code.wide(self.instrument.value) if column else ir.Constant(I64, 0)
        facts = (code.add(code["offset"], self.at.value), ir.Constant(I64, COLUMNS.index(column)), number, instrument)
        for at, value in enumerate(facts):
            code.put(code["bad"], code.add(first, at), value)
        self.wrong.add(1)
