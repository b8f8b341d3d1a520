"""Methods of optionals and results: whether there is a value, the value or something else, and functions of it."""

from collections.abc import Callable
from typing import Any

from compiler.typed_ast.conversions import fits, strong
from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import BOOL, UNKNOWN, FunctionType, OptionType, ResultType, Type
from runtime.values import NONE, Err, Ok, Some
from zynml.stdlib.dtypes import type_name
from zynml.stdlib.family import FunctionFamily
from zynml.stdlib.printing import to_text
from zynml.stdlib.sequences import call, result_of

family = FunctionFamily()

EITHER = "Option Result"


def _has_value(value: Any) -> bool:
    return bool(value.__tag__ == 1)


def _value_type(calls: CallTypes) -> Type:
    kind = calls["self"]
    return kind.value if isinstance(kind, OptionType | ResultType) else UNKNOWN


def _value_or_given(calls: CallTypes) -> Type:
    wanted, given = _value_type(calls), calls["default"]
    if not fits(given, wanted):
        raise TypeFault("0203", f"`unwrap_or` gives {wanted}, not {given}", "default", f"this is {given}")
    return wanted


def _given(function: Any) -> Type:
    """The type of what a function gives."""
    return strong(result_of(function)) if isinstance(function, FunctionType) else UNKNOWN


@family.method("Option", "is_some", result=BOOL)
def is_some(self: Any) -> bool:
    """Whether there is a value."""
    return _has_value(self)


@family.method("Option", "is_none", result=BOOL)
def is_none(self: Any) -> bool:
    """Whether there is none."""
    return not _has_value(self)


@family.method("Result", "is_ok", result=BOOL)
def is_ok(self: Any) -> bool:
    """Whether there is a value."""
    return _has_value(self)


@family.method("Result", "is_err", result=BOOL)
def is_err(self: Any) -> bool:
    """Whether there is an error."""
    return not _has_value(self)


@family.method(EITHER, "unwrap", result=_value_type)
def unwrap(self: Any) -> Any:
    """The value; 0808 when there is none, or an error."""
    if _has_value(self):
        return self[0]
    what = f"an error: {to_text(self[0])}" if type(self) is Err else "nothing: the value is none"
    raise LibraryFault("0808", f"`unwrap` of {what}", "give a default with `e ?? d`, or take the value out with `if let` or `match`")


@family.method(EITHER, "unwrap_or", result=_value_or_given)
def unwrap_or(self: Any, default: Any) -> Any:
    """The value, or the default."""
    return self[0] if _has_value(self) else default


def _holding(calls: CallTypes, inner: Type) -> Type:
    """What the receiver is, with another value."""
    match calls["self"]:
        case OptionType():
            return OptionType(inner)
        case ResultType(error=error):
            return ResultType(inner, error)
    return UNKNOWN


def _mapped(calls: CallTypes) -> Type:
    return _holding(calls, _given(calls["function"]))


@family.method(EITHER, "map", result=_mapped)
def map_(self: Any, function: Callable[..., Any]) -> Any:
    """What the function gives of the value; none and errors stay."""
    return type(self)((call(function, self[0]),)) if _has_value(self) else self


def _mapped_error(calls: CallTypes) -> Type:
    return ResultType(_value_type(calls), _given(calls["function"]))


@family.method("Result", "map_err", result=_mapped_error)
def map_err(self: Any, function: Callable[..., Any]) -> Any:
    """What the function gives of the error; values stay."""
    return self if _has_value(self) else Err((call(function, self[0]),))


def _chained(calls: CallTypes) -> Type:
    found = _given(calls["function"])
    if isinstance(found, OptionType | ResultType) and type(found) is type(calls["self"]):
        return found
    return _holding(calls, UNKNOWN)


@family.method(EITHER, "and_then", result=_chained)
def and_then(self: Any, function: Callable[..., Any]) -> Any:
    """What a function gives of the value that may itself give none or an error."""
    if not _has_value(self):
        return self
    found = call(function, self[0])
    if getattr(type(found), "__record__", None) is None or found.__record__.enum != self.__record__.enum:
        raise LibraryFault("0203", f"the function gives {self.__record__.enum} here, not {type_name(found)}")
    return found


def _with_error(calls: CallTypes) -> Type:
    return ResultType(_value_type(calls), strong(calls["error"]))


@family.method("Option", "ok_or", result=_with_error)
def ok_or(self: Any, error: Any) -> Any:
    """A result: the value, or the error where there is none."""
    return Ok((self[0],)) if _has_value(self) else Err((error,))


def _without_error(calls: CallTypes) -> Type:
    return OptionType(_value_type(calls))


@family.method("Result", "ok", result=_without_error)
def ok(self: Any) -> Any:
    """The value as an optional; none where there is an error."""
    return Some((self[0],)) if _has_value(self) else NONE
