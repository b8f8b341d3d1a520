"""What the language has and this version doesn't run yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span


def not_supported(what: str, span: Span | None, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{what} is valid, but not supported yet in QuantDSL", span, hint=hint))


@contextmanager
def located(span: Span) -> Iterator[None]:
    """What is refused inside, without a place of its own, is refused there."""
    try:
        yield
    except ZyntaxError as error:
        if all(found.span is not None for found in error.diagnostics):
            raise
        raise ZyntaxError(*(found if found.span is not None else evolve(found, span=span) for found in error.diagnostics)) from None
