"""What the language has and this version doesn't run yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import evolve

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast.types import ListType, StringType, TensorType, Type
from quantdsl.check.fits import shown


def not_supported(what: str, span: Span | None, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{what} is valid, but not supported yet in QuantDSL", span, hint=hint))


_HEAP = {ListType: "a list", StringType: "text", TensorType: "a tensor"}


def not_in_place(found: Type, span: Span | None) -> ZyntaxError:
    """A value that doesn't lie in place: code of strategies has no heap."""
    what = _HEAP.get(found.__class__) or f"a `{shown(found)}`"
    return not_supported(f"{what} in compiled code", span, "use numbers, `[T; N]`, `ring<T, N>` or `table<K, V, N>`")


@contextmanager
def located(span: Span) -> Iterator[None]:
    """What is refused inside, without a place of its own, is refused there."""
    try:
        yield
    except ZyntaxError as error:
        if all(found.span is not None for found in error.diagnostics):
            raise
        raise ZyntaxError(*(found if found.span is not None else evolve(found, span=span) for found in error.diagnostics)) from None
