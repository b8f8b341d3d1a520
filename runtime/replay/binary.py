"""What readers of binary files share: blocks with what the last one left over, and the end of a file that breaks off."""

from collections.abc import Iterator

from runtime.replay.bad_rows import Why
from runtime.replay.batches import Batch, DataSource
from runtime.replay.content import Content
from runtime.replay.events import empty


class Pieces:
    """The bytes of a file. `take` says how many of a piece were whole messages; the rest comes again in front of the next piece."""

    def __init__(self, content: Content) -> None:
        self.content = content
        self.offset = 0
        self.rest = b""

    def __iter__(self) -> Iterator[bytes]:
        for block in self.content.blocks():
            self.rest += block
            yield self.rest

    def take(self, count: int) -> None:
        self.offset += count
        self.rest = self.rest[count:]

    @property
    def broken(self) -> str | None:
        """Why the file breaks off here, None where it ends well."""
        if self.content.broken:
            return self.content.broken
        return f"of the last message only {len(self.rest)} bytes are there" if self.rest else None


def broken_off(source: DataSource, pieces: Pieces, why: str) -> Batch:
    """The end of such a file: a bad row where part of a message is there."""
    bad = [source.bad(pieces.offset, "", "", Why.TRUNCATED, why, binary=True)] if pieces.rest else []
    return Batch(empty(0), len(bad), bad, binary=True)
