"""What readers leave to compiled code: text cut into fields, decimals, short words, JSON messages of one short object, messages of ITCH.
Readers are handed a value with these functions by whoever compiles them."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from runtime.records import frozen
from runtime.replay.events import Events
from runtime.replay.grids import I64, GridStep

Bytes = npt.NDArray[np.uint8]
Good = npt.NDArray[np.bool_]

WORD = 8
"""Letters of a packed word."""
LONG = 2**64 - 1
"""A word of more letters."""
LETTERS = 128
"""Of ASCII."""


def packed(word: str) -> int:
    """A word as `Decoders.words` gives it."""
    return int.from_bytes(word.lower().encode("ascii")[:WORD], "little")


@frozen
class Cut:
    """Where the fields of some lines lie. Empty lines are no rows."""

    text: Bytes
    starts: I64
    """[wanted, rows]"""
    lengths: I64
    """[wanted, rows]"""
    offsets: I64
    """Where each row starts."""
    lines: I64
    """The line of each row, from 0."""
    right: Good
    """Rows with as many fields as there are columns, each quoted well or not at all."""
    line_count: int


@frozen
class FlatFields:
    """Fields by key, and the time in front under the empty key: starts and lengths [rows]; a length of 0: none. The letter before the start
    of a string is its quote."""

    starts: dict[str, I64]
    lengths: dict[str, I64]
    simple: Good
    """The lines that are such messages; of others nothing is known."""


@frozen
class DecodedMessages:
    """Records of some messages. `bad`: [bad, itch_messages.BAD]. `full`: there was no room for more, and whole messages may be left."""

    events: Events
    consumed: int
    messages: int
    left_out: int
    bad: I64
    full: bool


class Decoders(Protocol):
    """The compiled functions of readers."""

    def cut(self, text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int) -> Cut:
        """Lines cut into fields. `slots` gives each column its place among the `wanted` ones, or -1. The last line may lack its end."""

    def decimals(self, text: Bytes, starts: I64, lengths: I64, step: GridStep) -> tuple[I64, Good]:
        """Fields [n] as numbers of steps, and which of them are plain decimals on the grid and within 63 bits; the others are undefined."""

    def words(self, text: Bytes, starts: I64, lengths: I64) -> npt.NDArray[np.uint64]:
        """Fields [n] of at most WORD letters as numbers, lower case; longer ones are LONG."""

    def flat_fields(self, text: Bytes, keys: str, lines: int) -> FlatFields:
        """Messages of one short object, a line each: `{"e":"trade","p":"1.5"}`, alone or as the `data` of another, with a time in front
        or not. `keys` are single letters; so many lines of `text`, each with its end except perhaps the last."""

    def itch(
        self,
        data: Bytes,
        offset: int,
        midnight: int,
        stream: int,
        locates: npt.NDArray[np.int32],
        symbols: npt.NDArray[np.uint64],
        grids: I64,
    ) -> DecodedMessages:
        """Whole messages of `data`, which starts at `offset` of its file, as records. `locates` [LOCATES] is filled as symbols are met;
        `symbols` [listings] are those that are wanted, as 8 letters; `grids` is [listings, GRID]."""
