"""What goes wrong while HIR is interpreted: a failed `check`, a mistake in the HIR, and what the interpreter doesn't take."""

from typing import TYPE_CHECKING, Any

from compiler.diagnostics import Diagnostic, ZyntaxError

if TYPE_CHECKING:
    from compiler.emulator.findings import Finding


class KernelFault(Exception):
    """A `check` that failed: its code, the index into the function's `sites` (-1: no site), and the values it names; or
    what was found while threads were watched. `function`: whose site it is, where several functions call each other."""

    def __init__(
        self, code: str, site: int, values: tuple[Any, ...], finding: "Finding | None" = None, function: str = ""
    ) -> None:
        super().__init__(f"ZYN{code} at site {site}: {', '.join(map(str, values))}")
        self.code, self.site, self.values, self.finding, self.function = code, site, values, finding, function


def fault(message: str) -> ZyntaxError:
    """The program in HIR is wrong: the compiler's own mistake."""
    return ZyntaxError(Diagnostic("0901", message))


def unsupported(message: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", message))
