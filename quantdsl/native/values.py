"""Optionals, results and enums while a function is written: a truth and numbers that travel side by side, and tags in memory."""

from collections.abc import Callable, Mapping

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, Optional, Record, select
from compiler.hir.types import is_float
from runtime.records import frozen


@frozen
class NativeResult:
    """`Result<T, E>` of numbers. `value` means something where `ok` holds, `error` where it doesn't; the other is 0 when it comes from
    `good` or `bad`."""

    ok: Expr
    value: Expr
    error: Expr

    @property
    def parts(self) -> tuple[Expr, Expr, Expr]:
        """As a function returns or takes it."""
        return self.ok, self.value, self.error


def good(b: FunctionCode, value: Expr, error: str) -> NativeResult:
    """`Ok(value)`; `error` is the dtype of the errors that it hasn't."""
    return NativeResult(b.const(True, "i1"), value, b.const(0, error))


def bad(b: FunctionCode, error: Expr, value: str) -> NativeResult:
    """`Err(error)`; `value` is the dtype of the values that it hasn't."""
    return NativeResult(b.const(False, "i1"), b.const(0.0 if is_float(value) else 0, value), error)


def some(value: Expr) -> Optional:
    return Optional(value.code.const(True, "i1"), value)


def none(b: FunctionCode, dtype: str) -> Optional:
    return Optional(b.const(False, "i1"), b.const(0.0 if is_float(dtype) else 0, dtype))


def read_optional(memory: Record) -> Optional:
    """The optional kept there."""
    return Optional(memory.present, memory.value)


def otherwise(value: Optional, default: Number) -> Expr:
    """`value ?? default`; the default is computed in any case."""
    return select(value.present, value.value, default)


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
