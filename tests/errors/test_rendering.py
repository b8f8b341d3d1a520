"""How messages are shown and gathered: carets under characters of any width, lines left out, each cause once."""

from compiler.diagnostics import Diagnostic, Diagnostics, Label, Severity, render
from compiler.source import Source, Sources, Span

TEXT = "let 价格 = \"e\u0301\" + b\n\tlet c = b\nx\ny\nz\n"
"""Two characters that take two columns each, one that takes none, and a tab, which is shown as four spaces."""

SOURCES = Sources(Source("p.zynml", TEXT))


def span_of(word: str, start: int = 0) -> Span:
    at = TEXT.index(word, start)
    return Span("p.zynml", at, at + len(word))


def test_a_caret_stands_under_its_characters_whatever_their_width() -> None:
    assert render(Diagnostic("0201", "no", span_of("价格")), SOURCES).splitlines()[3:] == [
        '1 | let 价格 = "e\u0301" + b',
        "  |     ^^^^",
    ]
    assert render(Diagnostic("0201", "no", span_of("b"), "here"), SOURCES).splitlines()[4:] == ["  |                  ^ here"]
    assert render(Diagnostic("0201", "no", span_of("c")), SOURCES).splitlines()[3:] == ["2 |     let c = b", "  |         ^"]


def test_lines_between_two_labels_are_left_out_and_neighbours_are_not() -> None:
    def rows(word: str) -> list[str]:
        shown = render(Diagnostic("0201", "no", span_of("c"), others=(Label(span_of(word), "there"),)), SOURCES)
        return [line[:3] for line in shown.splitlines()[3:]]

    assert rows("x") == ["2 |", "  |", "3 |", "  |"]
    assert rows("y") == ["2 |", "  |", " ..", "4 |", "  |"]


def test_one_cause_is_reported_once_and_in_the_order_of_the_program() -> None:
    found = Diagnostics()
    late, early = Diagnostic("0101", "late", Span("p.zynml", 9, 10)), Diagnostic("0301", "early", Span("p.zynml", 1, 2))
    nowhere = Diagnostic("0501", "nowhere", severity=Severity.WARNING)
    for one in (late, early, late, nowhere, early):
        found.add(one)
    assert found.sorted == (nowhere, early, late)
    assert (found.errors, found.warnings) == ((early, late), (nowhere,))
