"""Spans to Python positions and back."""

import pytest

from compiler.backends.host.positions import Positions
from compiler.source import Source, Span

TEXT = 'let a = "é😀" + b\n\n\tlet c = a\r\nprint(c)'


@pytest.mark.parametrize("start", range(0, len(TEXT), 3))
@pytest.mark.parametrize("length", [0, 1, 5, 17])
def test_a_span_survives_the_way_there_and_back(start: int, length: int) -> None:
    positions = Positions("p.zynml", Source("p.zynml", TEXT))
    span = Span("p.zynml", start, min(start + length, len(TEXT)))
    line, column, end_line, end_column = positions.position(span)
    assert positions.span(line, end_line, column, end_column) == span


def test_columns_count_bytes() -> None:
    positions = Positions("p.zynml", Source("p.zynml", TEXT))
    plus = TEXT.index("+")
    assert positions.position(Span("p.zynml", plus, plus + 1)) == (1, plus + 1 + 3, 1, plus + 2 + 3)


def test_without_a_text_a_column_is_the_offset() -> None:
    positions = Positions("p.zynml")
    assert positions.position(Span("p.zynml", 70, 75)) == (1, 70, 1, 75)
    assert positions.span(1, 1, 70, 75) == Span("p.zynml", 70, 75)


def test_a_position_without_columns_is_the_line() -> None:
    positions = Positions("p.zynml", Source("p.zynml", TEXT))
    assert positions.span(3, None, None, None) == Span("p.zynml", TEXT.index("\tlet"), TEXT.index("\nprint"))
    assert positions.span(None, None, None, None) is None


@pytest.mark.parametrize("path, text", [("p.zynml", TEXT), ("a", "x\ny"), ("b", "\n\nlet é = 1\n"), ("c", "")])
def test_spans_of_several_files(path: str, text: str) -> None:
    others = (Source("a", "x\ny"), Source("b", "\n\nlet é = 1\n"), Source("c", ""))
    positions = Positions("p.zynml", Source("p.zynml", TEXT), others)
    for start in range(len(text) + 1):
        for end in range(start, len(text) + 1):
            line, column, end_line, end_column = positions.position(Span(path, start, end))
            assert positions.span(line, end_line, column, end_column) == Span(path, start, end)
