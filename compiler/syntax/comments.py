"""The warning for a comment that was likely meant as a division."""

from compiler.diagnostics import Diagnostic, Severity
from compiler.source import Source, Span
from grammars.comments import suspected


def comment_warnings(source: Source) -> tuple[Diagnostic, ...]:
    """ZYN0609 for each `7 // 2` of a program that parses."""
    return tuple(
        Diagnostic(
            "0609",
            f"`//` begins a comment: `{division.left}` isn't divided",
            Span(source.path, division.start, division.end),
            "this is a comment",
            hint=f"write `{division.meant}`: `/` divides ints, and rounds toward zero",
            severity=Severity.WARNING,
        )
        for division in suspected(source.text)
    )
