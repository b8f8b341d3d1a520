"""NASDAQ TotalView-ITCH 5.0, compiled: messages behind 2-byte lengths become records. The code is made from the table of messages, which
follows the exchange's specification of version 5.0."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import Factory, frozen
from llvmlite import ir

from runtime.replay.events import EVENT, Events, Flag, Kind, Side
from runtime.replay.grids import I64 as Integers
from runtime.replay.native.kit import I1, I8, I16, I32, I64, Code, Compiled, Variable

UNKNOWN, FOREIGN = -2, -1
"""What a locate code stands for before its symbol was seen, and when nobody wants its symbol."""


@frozen
class Message:
    """One type: its length, the record that it becomes, if any, and where fields of the record, and the symbol, stand: (offset, bytes)."""

    length: int
    kind: Kind | None = None
    fields: dict[str, tuple[int, int]] = Factory(dict)
    symbol: int | None = None
    flags: Flag = Flag.LAST


MESSAGES: dict[str, Message] = {
    "S": Message(12),
    "R": Message(39, symbol=11),
    "H": Message(25, Kind.HALT, {"level": (19, 1)}, symbol=11),
    "Y": Message(20),
    "L": Message(26),
    "V": Message(35),
    "W": Message(12),
    "K": Message(28),
    "J": Message(35),
    "h": Message(21),
    "A": Message(36, Kind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "F": Message(40, Kind.ADD, {"id": (11, 8), "side": (19, 1), "qty": (20, 4), "price": (32, 4)}, symbol=24),
    "E": Message(31, Kind.EXECUTE, {"id": (11, 8), "qty": (19, 4), "id2": (23, 8)}),
    "C": Message(
        36,
        Kind.EXECUTE,
        {"id": (11, 8), "qty": (19, 4), "id2": (23, 8), "printed": (31, 1), "price": (32, 4)},
        flags=Flag.LAST | Flag.OWN_PRICE,
    ),
    "X": Message(23, Kind.CANCEL, {"id": (11, 8), "qty": (19, 4)}),
    "D": Message(19, Kind.DELETE, {"id": (11, 8)}),
    "U": Message(35, Kind.REPLACE, {"id": (11, 8), "id2": (19, 8), "qty": (27, 4), "price": (31, 4)}),
    # the side of a trade against a hidden order says nothing since 2014
    "P": Message(44, Kind.TRADE, {"qty": (20, 4), "price": (32, 4), "id": (36, 8)}, symbol=24, flags=Flag.LAST | Flag.HIDDEN),
    "Q": Message(40, Kind.TRADE, {"qty": (11, 8), "price": (27, 4), "id": (31, 8)}, symbol=19, flags=Flag.LAST | Flag.AUCTION),
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
"""What can be wrong with a message; the first is the message itself."""

_LOCATE, _TIME = 1, 5


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
        data, data.size, offset, midnight, stream, events, most, locates, symbols, symbols.size, grids, bad, state
    )  # fmt: skip
    consumed, messages, left_out, wrong = state.tolist()
    return Decoded(events[:count], consumed, messages, left_out, bad[:wrong])


@cache
def _compiled() -> Callable[..., int]:
    module = ir.Module("replay_itch")
    _Decoder(module).write()
    return Compiled(module, ("itch",)).call("itch")


class _Decoder:
    """The function that is being written, and what its parts share."""

    def __init__(self, module: ir.Module) -> None:
        self.code = code = Code(
            module, "itch", "*data size offset midnight stream *events most *locates *symbols listings *grids *bad *state"
        )
        self.at, self.count, self.messages, self.left_out, self.wrong = (code.variable(I64) for _ in range(5))
        self.length: Any = None
        self.start: Any = None

    def write(self) -> None:
        code, b = self.code, self.code.build
        data, size = code["data"], code["size"]
        going = code.variable(I1, 1)

        def more() -> Any:
            # a message of nothing but its length gives a bad row, so that `most` bounds both
            room = code.compare(code.add(self.count.value, self.wrong.value), "<", code["most"])
            return code.all(going.value, room, code.compare(code.add(self.at.value, 2), "<=", size))

        with code.repeat(more):
            self.length = code.wide(code.load(data, self.at.value, I16, big=True))
            self.start = code.add(self.at.value, 2)
            whole = code.compare(code.add(self.start, self.length), "<=", size)
            with b.if_else(whole, likely=True) as (complete, partial):
                with complete:
                    self._message()
                    self.messages.add(1)
                    self.at.set(code.add(self.start, self.length))
                with partial:
                    going.set(0)
        for place, number in enumerate((self.at, self.messages, self.left_out, self.wrong)):
            code.put(code["state"], ir.Constant(I64, place), number.value)
        code.give(self.count.value)

    def _message(self) -> None:
        code, b = self.code, self.code.build
        with b.if_else(code.compare(self.length, ">", 0), likely=True) as (some, none):
            with none:
                self._refuse("", ir.Constant(I64, 0))
            with some:
                letter = code.load(code["data"], self.start, I8)
                unknown, after = code.function.append_basic_block("unknown"), code.function.append_basic_block("after")
                choice = b.switch(letter, unknown)
                for name, message in MESSAGES.items():
                    block = code.function.append_basic_block(f"message_{ord(name)}")
                    choice.add_case(ir.Constant(I8, ord(name)), block)
                    b.position_at_end(block)
                    with b.if_else(code.compare(self.length, "==", message.length), likely=True) as (right, wrong):
                        with right:
                            self._known(name, message)
                        with wrong:
                            self._refuse("", self.length)
                    b.branch(after)
                b.position_at_end(unknown)
                self._refuse("", code.wide(letter))
                b.branch(after)
                b.position_at_end(after)

    def _known(self, name: str, message: Message) -> None:
        code, b = self.code, self.code.build
        locate = code.wide(code.load(code["data"], code.add(self.start, _LOCATE), I16, big=True))
        instrument = code.variable(I32, code.item(code["locates"], locate, I32))
        if message.symbol is not None:
            with code.when(code.compare_signed(instrument.value, "==", UNKNOWN), likely=False):
                self._find(instrument, code.add(self.start, message.symbol))
                code.put(code["locates"], locate, instrument.value)
        if message.kind is None:
            self.left_out.add(1)
            return
        with b.if_else(code.compare_signed(instrument.value, ">=", 0), likely=True) as (ours, foreign):
            with ours:
                self._record(message, code.wide(instrument.value))
            with foreign:
                self.left_out.add(1)

    def _find(self, instrument: Variable, place: Any) -> None:
        """The instrument of a symbol."""
        code = self.code
        symbol = code.load(code["data"], place, I64)
        instrument.set(FOREIGN)
        looked = code.variable(I64)
        with code.repeat(lambda: code.compare(looked.value, "<", code["listings"])):
            with code.when(code.compare(code.item(code["symbols"], looked.value, I64), "==", symbol)):
                instrument.set(code.build.trunc(looked.value, I32))
            looked.add(1)

    def _record(self, message: Message, instrument: Any) -> None:
        code, b = self.code, self.code.build
        zero = ir.Constant(I64, 0)
        found = {name: self._number(offset, size) for name, (offset, size) in message.fields.items()}
        kind, flags = code.variable(I64, int(message.kind or 0)), code.variable(I64, int(message.flags))
        good, wanted = code.variable(I1, 1), code.variable(I1, 1)

        def expect(holds: Any, column: str) -> None:
            with code.when(code.all(good.value, b.not_(holds)), likely=False):
                good.set(0)
                self._refuse(column, found[column], instrument)

        side = zero
        if "side" in found:
            sells = code.compare(found["side"], "==", ord("S"))
            expect(code.any(sells, code.compare(found["side"], "==", ord("B"))), "side")
            side = b.select(sells, ir.Constant(I64, Side.SELL), ir.Constant(I64, Side.BUY))
        if "level" in found:
            kind.set(b.select(code.compare(found["level"], "==", ord("T")), ir.Constant(I64, Kind.STATUS), ir.Constant(I64, Kind.HALT)))
        if "printed" in found:
            silent = code.compare(found["printed"], "==", ord("N"))
            flags.set(b.or_(flags.value, b.select(silent, ir.Constant(I64, Flag.NOT_PRINTED), zero)))
        if message.flags & Flag.AUCTION:
            # an auction without a match trades nothing
            wanted.set(code.compare(found["qty"], "!=", 0))
        grid = code.mul(instrument, GRID)
        steps = {}
        for column, first in (("price", 0), ("qty", 2)):
            if column not in found:
                continue
            up = code.item(code["grids"], code.add(grid, first), I64)
            down = code.item(code["grids"], code.add(grid, first + 1), I64)
            steps[column] = code.variable(I64, code.mul(found[column], up))
            with code.when(code.compare(down, "!=", 1)):
                whole = b.udiv(steps[column].value, down)
                exact = code.compare(code.mul(whole, down), "==", steps[column].value)
                steps[column].set(whole)
                expect(exact, column)
        with code.when(b.not_(wanted.value), likely=False):
            self.left_out.add(1)
        with code.when(code.all(good.value, wanted.value), likely=True):
            words = {
                0: code.add(self._time(), code["midnight"]),
                1: b.or_(code["stream"], b.shl(instrument, ir.Constant(I64, 32))),
                2: self._packed(kind.value, side, flags.value, found.get("level", zero)),
                3: steps["price"].value if "price" in steps else zero,
                4: steps["qty"].value if "qty" in steps else zero,
                5: found.get("id", zero),
                6: found.get("id2", zero),
                7: zero,
                8: zero,
                9: code.add(code["offset"], self.at.value),
            }
            record = code.mul(self.count.value, EVENT.itemsize)
            for place, word in words.items():
                code.store(code["events"], code.add(record, 8 * place), word)
            self.count.add(1)

    def _number(self, offset: int, size: int) -> Any:
        kind = {1: I8, 4: I32, 8: I64}[size]
        found = self.code.load(self.code["data"], self.code.add(self.start, offset), kind, big=True)
        return found if size == 8 else self.code.wide(found)

    def _time(self) -> Any:
        """ns since midnight, in 6 bytes."""
        code = self.code
        high = code.wide(code.load(code["data"], code.add(self.start, _TIME), I16, big=True))
        low = code.wide(code.load(code["data"], code.add(self.start, _TIME + 2), I32, big=True))
        return code.build.or_(code.build.shl(high, ir.Constant(I64, 32)), low)

    def _packed(self, kind: Any, side: Any, flags: Any, level: Any) -> Any:
        b = self.code.build
        word = b.or_(kind, b.shl(side, ir.Constant(I64, 8)))
        word = b.or_(word, b.shl(flags, ir.Constant(I64, 16)))
        return b.or_(word, b.shl(level, ir.Constant(I64, 32)))

    def _refuse(self, column: str, number: Any, instrument: Any = None) -> None:
        code = self.code
        first = code.mul(self.wrong.value, 4)
        place = ir.Constant(I64, COLUMNS.index(column))
        facts = (code.add(code["offset"], self.at.value), place, number, ir.Constant(I64, 0) if instrument is None else instrument)
        for at, value in enumerate(facts):
            code.put(code["bad"], code.add(first, at), value)
        self.wrong.add(1)
