"""What goes wrong while HIR is interpreted: a failed `check`, a mistake in the HIR, and what the interpreter doesn't take."""

from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError


class KernelFault(Exception):
    """A `check` that failed: its code, the index into the function's `sites` (-1: no site), and the values it names."""

    def __init__(self, code: str, site: int, values: tuple[Any, ...]) -> None:
        super().__init__(f"ZYN{code} at site {site}: {', '.join(map(str, values))}")
        self.code, self.site, self.values = code, site, values


def fault(message: str) -> ZyntaxError:
    """The program in HIR is wrong: the compiler's own mistake."""
    return ZyntaxError(Diagnostic("0901", message))


def unsupported(message: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", message))
