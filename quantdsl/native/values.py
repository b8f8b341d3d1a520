"""Optionals and enums while a function is written: a truth and a number that travel side by side, and tags in memory."""

from collections.abc import Callable, Mapping

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Optional, Record


def some(value: Expr) -> Optional:
    return Optional(value.code.const(True, "i1"), value)


def read_optional(memory: Record) -> Optional:
    """The optional kept there."""
    return Optional(memory.present, memory.value)


def match(b: FunctionCode, tag: Expr, cases: Mapping[int, Callable[[], None]], rest: Callable[[], None] | None = None) -> None:
    """Write what each value of a tag leads to; `rest` is for all others. LLVM makes a jump table of it."""
    (number, write), *more = cases.items()
    if not more and rest is None:
        with b.when(tag == number):
            write()
        return
    with b.when(tag == number):
        write()
    with b.otherwise():
        if more:
            match(b, tag, dict(more), rest)
        elif rest is not None:
            rest()
