"""Optionals, results and enums while a function is written: a truth and numbers that travel side by side, and tags in memory."""

from collections.abc import Callable, Mapping

from compiler.hir.core import dtype_of
from compiler.hir.instruction import Value
from compiler.hir.types import is_float
from quantdsl.native.build import FunctionCode, Number, Part
from runtime.records import frozen


@frozen
class Optional:
    """`T?` of a number. `value` means something where `present` holds, and is 0 where it comes from `none`."""

    present: Value
    value: Value

    @property
    def parts(self) -> tuple[Value, Value]:
        """As a function returns or takes it."""
        return self.present, self.value


@frozen
class NativeResult:
    """`Result<T, E>` of numbers. `value` means something where `ok` holds, `error` where it doesn't; the other is 0 when it comes from
    `good` or `bad`."""

    ok: Value
    value: Value
    error: Value

    @property
    def parts(self) -> tuple[Value, Value, Value]:
        """As a function returns or takes it."""
        return self.ok, self.value, self.error


def good(b: FunctionCode, value: Value, error: str) -> NativeResult:
    """`Ok(value)`; `error` is the dtype of the errors that it hasn't."""
    return NativeResult(b.const(True, "i1"), value, b.const(0, error))


def bad(b: FunctionCode, error: Value, value: str) -> NativeResult:
    """`Err(error)`; `value` is the dtype of the values that it hasn't."""
    return NativeResult(b.const(False, "i1"), b.const(0.0 if is_float(value) else 0, value), error)


def some(b: FunctionCode, value: Value) -> Optional:
    return Optional(b.const(True, "i1"), value)


def none(b: FunctionCode, dtype: str) -> Optional:
    return Optional(b.const(False, "i1"), b.const(0.0 if is_float(dtype) else 0, dtype))


def read_optional(b: FunctionCode, base: Value, *path: Part) -> Optional:
    """The optional kept there."""
    place = b.at(base, *path)
    return Optional(b.get(place, "present"), b.get(place, "value"))


def write_optional(b: FunctionCode, base: Value, *path: Part, value: Optional) -> None:
    place = b.at(base, *path)
    b.put(place, "present", value.present)
    b.put(place, "value", value.value)


def otherwise(b: FunctionCode, value: Optional, default: Number) -> Value:
    """`value ?? default`; the default is computed in any case."""
    return b.select(value.present, value.value, b.number(default, dtype_of(value.value)))


def match(b: FunctionCode, tag: Value, cases: Mapping[int, Callable[[], None]], rest: Callable[[], None] | None = None) -> None:
    """Write what each value of a tag leads to; `rest` is for all others. LLVM makes a jump table of it."""
    (number, write), *more = cases.items()
    if not more and rest is None:
        with b.when(b.eq(tag, number)):
            write()
        return
    with b.choice(b.eq(tag, number)) as choice:
        with choice.then():
            write()
        with choice.otherwise():
            if more:
                match(b, tag, dict(more), rest)
            elif rest is not None:
                rest()
