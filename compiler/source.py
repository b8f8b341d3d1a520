"""Source texts and places in them. A span is a pair of character offsets into one file; lines and columns are computed
only when a message is shown."""

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from runtime.records import field, frozen, frozen_in_types

if TYPE_CHECKING:
    from pathlib import Path

MAX_SOURCE_BYTES = 4 * 1024 * 1024


@frozen_in_types
class Span:
    """Characters `start` (inclusive) to `end` (exclusive) of the file `path`."""

    path: str
    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """The span from the start of this one to the end of `other`."""
        return Span(self.path, self.start, max(self.end, other.end))


NOWHERE = Span("", 0, 0)


@frozen(eq=False)
class Source:
    """A file's text, as characters, under the path by which its spans know it."""

    path: str
    text: str = field(repr=False)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for offset, character in enumerate(self.text):
            if character == "\n":
                starts.append(offset + 1)
        return starts

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1; columns count characters."""
        line = bisect_right(self._line_starts, max(0, min(offset, len(self.text))))
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its line end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


class Sources:
    """The files of one compilation by path: what a renderer needs to show spans."""

    def __init__(self, *sources: Source) -> None:
        self._by_path = {source.path: source for source in sources}

    def add(self, source: Source) -> Source:
        self._by_path[source.path] = source
        return source

    def get(self, path: str) -> Source | None:
        return self._by_path.get(path)


def display_path(path: "str | Path") -> str:
    """The path as messages show it: relative to the working directory where that is shorter."""
    from pathlib import Path

    try:
        relative = Path(path).resolve().relative_to(Path.cwd())
    except (ValueError, OSError):
        return str(path)
    return str(relative)
