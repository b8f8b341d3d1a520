"""What goes wrong while HIR is interpreted: a failed `check`, a mistake in the HIR, and what the interpreter doesn't take."""

from typing import Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.hir.instruction import Instruction
from compiler.source import Span
from runtime.records import define


@define(eq=False)
class ThreadFinding:
    """One thing found. `op` is where; `others` are further places with words; `count` says how often it was found."""

    code: str
    message: str
    op: Instruction
    label: str = ""
    others: tuple[tuple[Instruction, str], ...] = ()
    hint: str | None = None
    values: tuple[object, ...] = ()
    count: int = 1
    more: str = ""
    """What `count` counts beyond the first, in words."""
    span: Span | None = None
    """Where, when that is not where `op` is."""

    def diagnostic(self, otherwise: Span | None) -> Diagnostic:
        """The message; `otherwise` is the place of what has none of its own."""
        labels = tuple(Label(op.span, text) for op, text in self.others if op.span is not None)
        notes = (f"found {self.count} times, with other {self.more}",) if self.count > 1 and self.more else ()
        return Diagnostic(
            self.code, self.message, self.span or self.op.span or otherwise, self.label, labels, notes, self.hint, running=True
        )


class KernelFault(Exception):
    """A `check` that failed: its code, the index into the function's `sites` (-1: no site), and the values it names; or
    what was found while threads were watched. `function`: whose site it is, where several functions call each other."""

    def __init__(self, code: str, site: int, values: tuple[Any, ...], finding: ThreadFinding | None = None, function: str = "") -> None:
        super().__init__(f"ZYN{code} at site {site}: {', '.join(map(str, values))}")
        self.code, self.site, self.values, self.finding, self.function = code, site, values, finding, function


def fault(message: str) -> ZyntaxError:
    """The program in HIR is wrong: the compiler's own mistake."""
    return ZyntaxError(Diagnostic("0901", message))


def unsupported(message: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", message))
