"""Calls of library functions as the checker and tier 0 make them: every call also checks that the static type rule tells the truth
about the value, with and without knowing constants."""

from collections.abc import Iterable
from typing import Any

import pytest

from compiler.typed_ast.library import REQUIRED, CallTypes, LibraryFault, LibraryFunction, TypeFault
from compiler.typed_ast.types import (
    RANGE,
    STRING,
    UNIT,
    UNKNOWN,
    WEAK_FLOAT,
    WEAK_INT,
    DictType,
    DType,
    FunctionType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    SetType,
    StaticShape,
    TensorType,
    TupleType,
    Type,
    UnknownType,
)
from runtime.tensor import Tensor
from runtime.values import ElementSet, Err, Nothing, Ok, Some
from zynml.stdlib import StdlibSettings, library
from zynml.stdlib.dtypes import dtype_of
from zynml.stdlib.shapes import dims_of


def _common(values: Iterable[Any]) -> Type:
    kinds = {type_of(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def type_of(value: Any) -> Type:
    """The static type of a value, shapes known."""
    match value:
        case None:
            return UNIT
        case str():
            return STRING
        case Tensor():
            return TensorType(Scalar(DType(value.dtype_name)), StaticShape(value.shape))
        case list():
            kinds = {type_of(v) for v in value}
            if len(kinds) > 1:
                return ListType(WEAK_FLOAT if {WEAK_INT, WEAK_FLOAT} == kinds else UNKNOWN)
            return ListType(kinds.pop() if kinds else UNKNOWN)
        case ElementSet():
            return SetType(_common(value))
        case dict():
            return DictType(_common(value), _common(value.values()))
        case tuple():
            return TupleType(tuple(map(type_of, value)))
        case range():
            return RANGE
        case slice():
            return RANGE
    dtype = dtype_of(value)
    if dtype is not None:
        return Scalar(dtype, weak=type(value) in (int, float))
    return FunctionType(()) if callable(value) else UNKNOWN


def constant_of(value: Any) -> Any:
    """What the checker knows of a literal."""
    if isinstance(value, list | tuple):
        inner = [constant_of(v) for v in value]
        return None if any(v is None for v in inner) else type(value)(inner)
    return value if isinstance(value, bool | int | float | str | slice | type(...)) else None


def admits(kind: Type, value: Any) -> bool:
    """Whether a value is of a static type."""
    if isinstance(kind, UnknownType):
        return True
    match kind:
        case Scalar(dtype=dtype):
            return dtype_of(value) is dtype and not isinstance(value, Tensor)
        case TensorType(element=element):
            if not isinstance(value, Tensor):
                return False
            dims = dims_of(kind)
            fits = dims is None or (
                len(dims) == len(value.shape)
                and all(d is None or d.value is None or d.value == e for d, e in zip(dims, value.shape, strict=True))
            )
            return fits and (isinstance(element, UnknownType) or element == Scalar(DType(value.dtype_name)))
        case ListType(element=element):
            return isinstance(value, list) and all(admits(element, v) for v in value)
        case SetType(element=element):
            return isinstance(value, ElementSet) and all(admits(element, v) for v in value)
        case DictType(key=key, value=part):
            pairs = value.items() if isinstance(value, dict) and not isinstance(value, ElementSet) else [(None, None)]
            return all(admits(key, k) and admits(part, v) for k, v in pairs)
        case TupleType(elements=elements):
            return isinstance(value, tuple) and len(value) == len(elements) and all(map(admits, elements, value))
        case OptionType(value=inner):
            return type(value) is Nothing or (type(value) is Some and admits(inner, value[0]))
        case ResultType(value=inner, error=error):
            return type(value) in (Ok, Err) and admits(inner if type(value) is Ok else error, value[0])
    return kind == type_of(value) or (kind.__class__.__name__ == "CharType" and isinstance(value, str))


def bind(function: LibraryFunction, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """One value a parameter, and those that were given, by name."""
    rest, left, bound, given = list(values), dict(named), [], {}
    for parameter in function.parameters:
        if parameter.variadic:
            given[parameter.name] = tuple(rest)
            bound.append(tuple(rest))
            rest = []
        elif rest and not parameter.keyword_only:
            given[parameter.name] = rest.pop(0)
            bound.append(given[parameter.name])
        elif parameter.name in left:
            given[parameter.name] = left.pop(parameter.name)
            bound.append(given[parameter.name])
        else:
            assert parameter.default is not REQUIRED, f"{function.name} needs {parameter.name}"
            bound.append(parameter.default)
    assert not rest and not left, f"{function.name} does not take {rest or left}"
    return bound, given


def _types(function: LibraryFunction, given: dict[str, Any]) -> dict[str, Any]:
    variadic = {p.name for p in function.parameters if p.variadic}
    return {n: tuple(map(type_of, v)) if n in variadic else type_of(v) for n, v in given.items()}


def check_types(function: LibraryFunction, given: dict[str, Any], value: Any) -> None:
    if isinstance(function.result, Type):
        assert admits(function.result, value), f"{function.name}: {function.result} does not admit {value!r}"
        return
    types = _types(function, given)
    known = {name: constant for name, v in given.items() if (constant := constant_of(v)) is not None}
    for constants in (known, {}):
        kind = function.result(CallTypes(types, constants))
        assert admits(kind, value), f"{function.name}: {kind} does not admit {value!r}"


KINDS: dict[type, str] = {
    list: "List",
    str: "String",
    range: "range",
    tuple: "tuple",
    Tensor: "tensor",
    dict: "HashMap",
    type(ElementSet()): "HashSet",
}
"""The library's words for the types of receivers."""


class Caller:
    def __init__(self, settings: StdlibSettings) -> None:
        self.settings = settings
        self.library = library(settings)

    def __call__(self, name: str, *values: Any, **named: Any) -> Any:
        return self._run(self.library.functions[name], values, named)

    def method(self, receiver: Any, name: str, *values: Any, **named: Any) -> Any:
        kind = KINDS.get(type(receiver))
        if kind is None:
            dtype = dtype_of(receiver)
            assert dtype is not None
            kind = "bool" if dtype is DType.BOOL else "int" if dtype.is_int else "float"
        return self._run(self.library.methods[kind, name], (receiver, *values), named)

    def _run(self, function: LibraryFunction, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        bound, given = bind(function, values, named)
        value = function.implementation(*bound)
        if not function.mutates:
            check_types(function, given, value)
        return value

    def fault(self, name: str, *values: Any, **named: Any) -> tuple[str, str]:
        """Code and message of the fault that a call ends in; a type rule that objects too gives the same code."""
        function = self.library.functions[name]
        return self._fault(function, values, named)

    def method_fault(self, receiver: Any, name: str, *values: Any, **named: Any) -> tuple[str, str]:
        kind = KINDS[type(receiver)]
        return self._fault(self.library.methods[kind, name], (receiver, *values), named)

    def _fault(self, function: LibraryFunction, values: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, str]:
        bound, given = bind(function, values, named)
        with pytest.raises(LibraryFault) as caught:
            function.implementation(*bound)
        if not isinstance(function.result, Type):
            known = {name: constant for name, v in given.items() if (constant := constant_of(v)) is not None}
            try:
                function.result(CallTypes(_types(function, given), known))
            except TypeFault as objection:
                # An index that is wrong for certain is found before the program runs, under a code of its own.
                assert (objection.code, caught.value.code) in {(c, c) for c in (objection.code,)} | {("0305", "0801")}
        return caught.value.code, caught.value.message

    def type_fault(self, name: str, types: dict[str, Any], **constants: Any) -> tuple[str, str]:
        function = self.library.functions[name]
        assert not isinstance(function.result, Type)
        with pytest.raises(TypeFault) as caught:
            function.result(CallTypes(types, constants))
        return caught.value.code, caught.value.message
