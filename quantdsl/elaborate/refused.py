"""What the language has and this version doesn't run yet."""

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span


def not_supported(what: str, span: Span | None, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{what} is valid, but not supported yet in QuantDSL", span, hint=hint))
