"""Rows that can't be used: what is wrong with them, where they stand, and the refusal to go on."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from runtime.records import frozen


class Why(Enum):
    """What is wrong with a row, or with a file, in words. `stops`: without `--on-bad skip` it ends the run."""

    EMPTY = "is empty"
    UNREADABLE = "can't be read"
    NOT_FINITE = "is not finite"
    NEGATIVE = "is negative"
    ZERO = "is zero"
    OFF_GRID = "is off the instrument's grid"
    OUT_OF_RANGE = "is out of range"
    FIELDS = "has another number of fields than the header"
    DAMAGED = "is damaged"
    EARLIER = "is earlier than the row before"
    REPEATED_TRADE = "was there before"
    REPEATED_FILE = "was given before"
    TRUNCATED = "breaks off"
    CROSSED = "makes bids meet asks"

    @property
    def stops(self) -> bool:
        return self is not Why.CROSSED

    @property
    def of_file(self) -> bool:
        return self in (Why.REPEATED_FILE, Why.TRUNCATED)

    @property
    def reason(self) -> str:
        """As summaries count it."""
        return self.name.lower()


@frozen
class BadRow:
    """One row that was not used. `row`: the line from 1, 0 for the file itself; in binary files, `binary`, the offset of the message in the
    unpacked bytes. `column`: what the field is called, empty for the whole row; `text`: what stands there."""

    file: str
    stream: int
    row: int
    column: str
    text: str
    why: Why
    detail: str = ""
    binary: bool = False

    @property
    def place(self) -> str:
        if self.row == 0 and not self.binary:
            return self.file
        column = f", column `{self.column}`" if self.column else ""
        return f"{self.file}: {'byte' if self.binary else 'row'} {self.row}{column}"

    @property
    def message(self) -> str:
        whole = "the file" if self.why.of_file else "the row"
        shown = f"`{self.text}`" if self.text else "the field" if self.column else whole
        return f"{self.place}: {shown} {self.why.value}" + (f" ({self.detail})" if self.detail else "")


@frozen(eq=False)
class CrossedRows:
    """Whole rows that make bids meet asks, as columns: a busy feed has many, and few look at each. `files`: by stream the file's name, its
    number, and whether it is binary; `streams` and `rows` are of one length."""

    files: Sequence[tuple[str, int, bool]]
    streams: Any
    rows: Any

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[BadRow]:
        for stream, row in zip(self.streams.tolist(), self.rows.tolist(), strict=True):
            name, number, binary = self.files[stream]
            yield BadRow(name, number, row, "", "", Why.CROSSED, "", binary)

    def content(self) -> bytes:
        """What the rows are, row by row: the same however they are cut into parts."""
        return np.column_stack((self.streams, self.rows)).astype("<i8").tobytes()


class BadData(Exception):
    """A row that the run doesn't go on without."""

    def __init__(self, row: BadRow) -> None:
        super().__init__(row.message)
        self.row = row


class BadSource(Exception):
    """A file that can't be used at all: it is missing, of no known format, lacks a column. `hint`: what would help."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def shortened(text: str, most: int = 80) -> str:
    """Text for one line of a message."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"
