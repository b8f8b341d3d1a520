"""Places in generated code objects and places in the program: a Python position is the line and the UTF-8 columns that the
span covers, so debuggers and tracebacks show the program's own text, and the way back needs no table."""

import ast
from bisect import bisect_right

from compiler.source import Source, Span
from runtime.records import define, field, frozen

Position = tuple[int, int, int, int]
"""Line, column, end line, end column as Python's `ast` has them: lines from 1, columns in bytes from 0."""


@frozen(eq=False)
class DirectLookup:
    """Expressions of Python that give a container and an index again, without effects, after the instruction failed."""

    container: ast.expr
    index: ast.expr


@define(eq=False)
class _File:
    """One text; `before` counts the lines of those that stand before it."""

    path: str
    text: str
    before: int
    starts: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.starts = [0, *(index + 1 for index, character in enumerate(self.text) if character == "\n")]

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        start = self.starts[line - 1]
        return self.before + line, len(self.text[start:offset].encode("utf-8", "surrogatepass"))

    def offset(self, line: int, column: int) -> int:
        line -= self.before
        if line > len(self.starts):
            return len(self.text)
        start = self.starts[line - 1]
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        encoded = self.text[start:end].encode("utf-8", "surrogatepass")
        return start + len(encoded[:column].decode("utf-8", "surrogatepass"))


@define(eq=False)
class Positions:
    """Both ways between spans and Python positions. `others` are files of which the program took declarations: their lines count on
    behind its own. Without a source text a column is the offset itself."""

    path: str
    source: Source | None = None
    others: tuple[Source, ...] = ()
    of_library: bool = False
    """Whether the text is the library's, not the user's."""
    lookups: dict[Span, DirectLookup] = field(factory=dict, init=False)
    """What instructions look up directly, by the place in the program."""
    _files: list[_File] = field(init=False, factory=list)
    _known: dict[Span, Position] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for source in (self.source, *self.others) if self.source is not None else ():
            last = self._files[-1] if self._files else None
            path = self.path if last is None else source.path
            self._files.append(_File(path, source.text, last.before + len(last.starts) if last is not None else 0))

    def position(self, span: Span) -> Position:
        position_ = self._known.get(span)
        if position_ is None:
            line, column = self._place(span, span.start)
            end_line, end_column = self._place(span, max(span.start, span.end))
            position_ = self._known[span] = (line, column, end_line, end_column)
        return position_

    def span(self, line: int | None, end_line: int | None, column: int | None, end_column: int | None) -> Span | None:
        """The span of a position as `co_positions` gives it; the whole line where columns are missing."""
        if line is None:
            return None
        if not self._files:
            return Span(self.path, column or 0, end_column or 0)
        file = next((file for file in reversed(self._files) if line > file.before), self._files[0])
        if column is None or end_column is None or end_line is None:
            return Span(file.path, file.offset(line, 0), file.offset(line + 1, 0) - 1)
        return Span(file.path, file.offset(line, column), file.offset(end_line, end_column))

    def _place(self, span: Span, offset: int) -> tuple[int, int]:
        if not self._files:
            return 1, offset
        return next((file for file in self._files if file.path == span.path), self._files[0]).place(offset)
