"""Places in generated code objects and places in the program: a Python position is the line and the UTF-8 columns that the
span covers, so debuggers and tracebacks show the program's own text, and the way back needs no table."""

from bisect import bisect_right

from attrs import define, field

from compiler.source import Source, Span

Position = tuple[int, int, int, int]
"""Line, column, end line, end column as Python's `ast` has them: lines from 1, columns in bytes from 0."""


@define(eq=False)
class Positions:
    """Both ways between the spans of one file and Python positions. Without a source text a column is the offset itself."""

    path: str
    source: Source | None = None
    _starts: list[int] = field(init=False)
    _known: dict[tuple[int, int], Position] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        text = self.source.text if self.source is not None else ""
        self._starts = [0, *(index + 1 for index, character in enumerate(text) if character == "\n")]

    def position(self, span: Span) -> Position:
        found = self._known.get((span.start, span.end))
        if found is None:
            line, column = self._place(span.start)
            end_line, end_column = self._place(max(span.start, span.end))
            found = self._known[span.start, span.end] = (line, column, end_line, end_column)
        return found

    def span(self, line: int | None, end_line: int | None, column: int | None, end_column: int | None) -> Span | None:
        """The span of a position as `co_positions` gives it; the whole line where columns are missing."""
        if line is None:
            return None
        if column is None or end_column is None or end_line is None:
            return Span(self.path, self._offset(line, 0), self._offset(line + 1, 0) - 1)
        return Span(self.path, self._offset(line, column), self._offset(end_line, end_column))

    def _place(self, offset: int) -> tuple[int, int]:
        if self.source is None:
            return 1, offset
        line = bisect_right(self._starts, offset)
        start = self._starts[line - 1]
        return line, len(self.source.text[start:offset].encode("utf-8", "surrogatepass"))

    def _offset(self, line: int, column: int) -> int:
        if self.source is None:
            return column
        if line > len(self._starts):
            return len(self.source.text)
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.source.text)
        encoded = self.source.text[start:end].encode("utf-8", "surrogatepass")
        return start + len(encoded[:column].decode("utf-8", "surrogatepass"))
