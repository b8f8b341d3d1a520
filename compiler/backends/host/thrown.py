"""What `throw` raises and `catch` gets while a program runs. A fault of the program becomes a value of one of the error types; what is
thrown on from a `catch` is the fault that it was, with its place."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from compiler.backends.host.faults import translated
from compiler.backends.host.values import describe
from compiler.diagnostics import ZyntaxError
from compiler.typed_ast.error_kinds import ANY_ERROR, KINDS, TYPE_OF_CODE
from compiler.typed_ast.library import LibraryFault
from runtime.thrown import Thrown
from runtime.values import RecordValue, StructValue, struct_class

_FIELDS = ("message", "code")
_CLASSES: Mapping[str, type[StructValue]] = {name: struct_class(name, _FIELDS) for name in (ANY_ERROR, *KINDS)}


def throw(value: Any, to_text: Callable[[Any], str]) -> None:
    """`throw value`. In a `catch`, of the very value that it caught: the fault goes on as it was."""
    if not isinstance(value, str | RecordValue) or (isinstance(value, RecordValue) and value.__record__.enum in ("Option", "Result")):
        raise LibraryFault("0807", f"{describe(value)} can't be thrown", "throw a struct, an enum or a text")
    around = sys.exception()
    while around is not None:
        if getattr(around, "caught_as", None) is value:
            raise around
        around = around.__context__
    raise Thrown(value, partial(_shown, value, to_text))


def _shown(value: Any, to_text: Callable[[Any], str]) -> str:
    if isinstance(value, RecordValue) and is_error(value):
        return f"{value.__record__.shown}: {value[0]}"
    return to_text(value)


def caught(error: BaseException) -> Any:
    """The value that a `catch` sees. What no program may catch goes on: interruptions, faults of the compiler, and what is wrong with the
    program itself."""
    if isinstance(error, Thrown):
        return error.value
    known = getattr(error, "caught_as", None)
    if known is not None:
        return known
    fault = error if isinstance(error, ZyntaxError) else translated(error)
    diagnostic = fault.diagnostics[0]
    name = TYPE_OF_CODE.get(diagnostic.code)
    if name is None:
        raise error
    value = _CLASSES[name]((diagnostic.message, f"ZYN{diagnostic.code}"))
    error.caught_as = value  # type: ignore[attr-defined]
    return value


def is_error(value: Any) -> bool:
    """Whether `catch Error` takes it."""
    return type(value) in _CLASSES.values()


def as_error(value: Any) -> Any:
    return _CLASSES[ANY_ERROR](tuple(value))
