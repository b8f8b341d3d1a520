"""How the files of the library declare what they offer: a decorator that reads a Python function's own parameters, so that
each library function is written once."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from compiler.typed_ast.library import REQUIRED, TARGET, CallTypes, HandedRule, LibraryFunction, LibraryParameter, TypeRule
from compiler.typed_ast.types import UNIT, Type
from runtime.records import define, field
from zynml.stdlib.settings import StdlibSettings

Implementation = TypeVar("Implementation", bound=Callable[..., Any])

PARAMETER_TYPES = {
    "self": "value",
    "shape": "int or list of int",
    "dims": "int or list of int",
    "dtype": "dtype",
    "device": "String",
    "axis": "int or list of int",
    "keepdims": "bool",
    "path": "String",
    "text": "String",
    "separator": "String",
    "function": "function",
    "count": "int",
    "index": "int",
    "step": "number",
    "seed": "int",
    "target": TARGET,
}
"""What a parameter takes, in words, where its name says it."""


@define
class FunctionEntry:
    """One declaration: every name under which, and every receiver of which, an implementation is found."""

    names: tuple[str, ...]
    receivers: tuple[str, ...]
    parameters: tuple[LibraryParameter, ...]
    result: Type | TypeRule
    implementation: Callable[..., Any]
    uses_settings: bool
    doc: str
    mutates: bool = False
    handed: HandedRule | None = None


@define
class FunctionFamily:
    """The functions and methods that one file declares."""

    entries: list[FunctionEntry] = field(factory=list)

    def function(
        self,
        *names: str,
        result: Type | TypeRule = UNIT,
        variadic: str | None = None,
        keywords: Iterable[str] = (),
        uses_settings: bool = False,
        **types: str,
    ) -> Callable[[Implementation], Implementation]:
        """Declares the decorated function under each name. `uses_settings`: its first parameter is the run's settings. `types`: what
        parameters take, in words."""
        return self._declare(names, (), result, variadic, keywords, uses_settings, types, renamed=True)

    def method(
        self,
        receivers: str,
        *names: str,
        result: Type | TypeRule = UNIT,
        variadic: str | None = None,
        keywords: Iterable[str] = (),
        uses_settings: bool = False,
        mutates: bool = False,
        handed: HandedRule | None = None,
        **types: str,
    ) -> Callable[[Implementation], Implementation]:
        """Declares a method (first parameter `self`) of each receiver in `receivers`, words with spaces between. `handed`: what it gives to
        the functions that it takes, by the receiver's type."""
        return self._declare(names, tuple(receivers.split()), result, variadic, keywords, uses_settings, types, mutates, handed=handed)

    def tensor_method(
        self,
        *names: str,
        result: Type | TypeRule = UNIT,
        variadic: str | None = None,
        keywords: Iterable[str] = (),
        uses_settings: bool = False,
        **types: str,
    ) -> Callable[[Implementation], Implementation]:
        """Declares a method of tensors, and the same as a free function, whose first parameter is then `x`."""
        free = self._declare(names, (), result, variadic, keywords, uses_settings, types, renamed=True)
        method = self._declare(names, ("tensor",), result, variadic, keywords, uses_settings, types)
        return lambda implementation: free(method(implementation))

    def _declare(
        self,
        names: tuple[str, ...],
        receivers: tuple[str, ...],
        result: Type | TypeRule,
        variadic: str | None,
        keywords: Iterable[str],
        uses_settings: bool,
        types: dict[str, str],
        mutates: bool = False,
        renamed: bool = False,
        handed: HandedRule | None = None,
    ) -> Callable[[Implementation], Implementation]:
        keyword_names = frozenset(keywords)

        def declare(implementation: Implementation) -> Implementation:
            self.entries.append(
                FunctionEntry(
                    names,
                    receivers,
                    _parameters(implementation, variadic, keyword_names, uses_settings, types, renamed),
                    result,
                    implementation,
                    uses_settings,
                    (implementation.__doc__ or "").strip(),
                    mutates,
                    handed,
                )
            )
            return implementation

        return declare

    def declared(self, settings: StdlibSettings) -> dict[str | tuple[str, str], LibraryFunction]:
        """The functions by name and the methods by receiver and name, for a run with these settings."""
        declared: dict[str | tuple[str, str], LibraryFunction] = {}
        for entry in self.entries:
            implementation = partial(entry.implementation, settings) if entry.uses_settings else entry.implementation
            for name in entry.names:
                function = LibraryFunction(name, entry.parameters, entry.result, implementation, entry.doc, entry.mutates, entry.handed)
                if not entry.receivers:
                    declared[name] = function
                for receiver in entry.receivers:
                    declared[receiver, name] = function
        return declared


def subject(calls: CallTypes) -> Type:
    """The type of what a `tensor_method` works on, called either way."""
    type_: Type = calls.types.get("self", calls["x"])
    return type_


def _parameters(
    implementation: Callable[..., Any],
    variadic: str | None,
    keywords: frozenset[str],
    uses_settings: bool,
    types: dict[str, str],
    renamed: bool,
) -> tuple[LibraryParameter, ...]:
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults: tuple[Any, ...] = getattr(implementation, "__defaults__", None) or ()
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return tuple(
        LibraryParameter(
            "x" if renamed and name == "self" else name.rstrip("_"),
            () if name == variadic else by_name.get(name, REQUIRED),
            types.get(name, PARAMETER_TYPES.get(name, "any")),
            name == variadic,
            name in keywords,
        )
        for name in names[1 if uses_settings else 0 :]
    )
