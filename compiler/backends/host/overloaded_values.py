"""Operators, texts and loops of values whose types only they tell, where the program's own types say what these do: `a + b` in a function
whose parameters have no types."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.naming import MARK, DeclaredFunction
from compiler.backends.host.numbers import dtype_of
from compiler.backends.host.values import kind_of, kind_of_type
from compiler.typed_ast.operator_traits import BINARY
from compiler.typed_ast.types import EnumType, Scalar, StructType, Type, UnknownType
from runtime.values import SHOWN_BY, Nothing, RecordValue

if TYPE_CHECKING:
    from compiler.typed_ast import nodes

_HELPERS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "matmul": "@",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
"""The operator that each helper computes."""
_OTHERS = {"negate": "neg", "get": "index"}
_METHODS = frozenset([*(method for _, method in BINARY.values()), "neg", "index", "to_string", "next"])
_OF_LIBRARY = ("print", "eprint", "to", "join", "format", "assert", "panic", "concat", "string")
_SHOWING = tuple(MARK + name for name in ("text", "format", "method", *(f"library{MARK}{name}" for name in _OF_LIBRARY)))
"""What makes texts of values, as the beginnings of the helpers' names."""
Helper = Callable[..., Any]


def is_of_type(value: Any, type_: Type, layouts: RecordLayouts) -> bool:
    """Whether a value is certainly of a type, so far as its class tells."""
    match type_:
        case UnknownType():
            return True
        case Scalar(dtype=dtype):
            return dtype_of(value) is dtype
        case StructType() | EnumType():
            case = next((case for case in (layouts.cases(type_) or {}).values() if type(value) is case.values), None)
            if case is None or not type_.arguments:
                return case is not None
            return all(is_of_type(part, of_part, layouts) for part, (_, of_part) in zip(value, case.parts, strict=True))
    return kind_of_type(type_) == kind_of(value)


Overloads = Mapping[str, Sequence[tuple[tuple[Type, ...], str]]]
"""Methods that say what an operator does, by their names: the types of their parameters, and their names in the namespace."""


def overloads_of(methods: Mapping[str, DeclaredFunction], resolve: "Callable[[nodes.TypeSyntax | None], Type]") -> Overloads:
    known: dict[str, list[tuple[tuple[Type, ...], str]]] = {}
    for method in methods.values():
        if method.name in _METHODS:
            types = tuple(resolve(parameter.annotation) for parameter in method.node.parameters)
            known.setdefault(method.name, []).append((types, method.python))
    return known


def with_overloads(namespace: dict[str, Any], known: Overloads, layouts: RecordLayouts) -> None:
    """Makes the helpers in a program's namespace ask its methods first, where a value is of one of its types."""
    if not known:
        return

    def found(name: str, values: tuple[Any, ...]) -> Helper | None:
        if not any(isinstance(value, RecordValue) for value in values):
            return None
        for types, python in known.get(name, ()):
            if len(types) == len(values) and all(is_of_type(v, t, layouts) for v, t in zip(values, types, strict=True)):
                method: Helper = namespace[python]
                return method
        return None

    def asking(name: str, helper: Helper) -> Helper:
        def run(*values: Any) -> Any:
            own = found(name, values)
            return helper(*values) if own is None else own(*values)

        return run

    def text(value: Any) -> str | None:
        own = found("to_string", (value,))
        return None if own is None else own(value)

    def iterated(helper: Helper) -> Helper:
        def run(value: Any) -> Any:
            own = found("next", (value,))
            return helper(value) if own is None else _handed_out(own, value)

        return run

    names = {helper: BINARY[symbol][1] for helper, symbol in _HELPERS.items()} | _OTHERS
    for key, helper in list(namespace.items()):
        plain = key.removeprefix(MARK).partition(MARK)[0]
        if key.startswith(MARK) and plain in names and names[plain] in known and callable(helper):
            namespace[key] = asking(names[plain], helper)
    if "to_string" in known:
        for key in [key for key in namespace if key.startswith(_SHOWING)]:
            namespace[key] = _with_text(namespace[key], text)
    if "next" in known:
        namespace[f"{MARK}iterate"] = iterated(namespace[f"{MARK}iterate"])


def _with_text(helper: Helper, text: Callable[[Any], str | None]) -> Helper:
    def run(*given: Any, **named: Any) -> Any:
        token = SHOWN_BY.set(text)
        try:
            return helper(*given, **named)
        finally:
            SHOWN_BY.reset(token)

    return run


def _handed_out(method: Helper, value: Any) -> Iterator[Any]:
    box = [value]
    while type(given := method(box)) is not Nothing:
        yield given[0]
