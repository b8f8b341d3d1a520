"""How the files of the library declare what they offer: a decorator that reads a Python function's own parameters, so that
each library function is written once."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from attrs import define, field

from compiler.library import REQUIRED, Library, LibraryFunction, LibraryParameter, TypeRule
from compiler.typed_ast.types import UNIT, Type
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
}
"""What a parameter takes, in words, where its name says it."""


@define
class _Entry:
    names: tuple[str, ...]
    receivers: tuple[str, ...]
    parameters: tuple[LibraryParameter, ...]
    result: Type | TypeRule
    implementation: Callable[..., Any]
    uses_settings: bool
    doc: str


@define
class Family:
    """The functions and methods that one file declares."""

    entries: list[_Entry] = field(factory=list)

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
        return self._declare(names, (), result, variadic, keywords, uses_settings, types)

    def method(
        self,
        receivers: str,
        *names: str,
        result: Type | TypeRule = UNIT,
        variadic: str | None = None,
        keywords: Iterable[str] = (),
        uses_settings: bool = False,
        **types: str,
    ) -> Callable[[Implementation], Implementation]:
        """Declares a method (first parameter `self`) of each receiver in `receivers`, words with spaces between."""
        return self._declare(names, tuple(receivers.split()), result, variadic, keywords, uses_settings, types)

    def _declare(
        self,
        names: tuple[str, ...],
        receivers: tuple[str, ...],
        result: Type | TypeRule,
        variadic: str | None,
        keywords: Iterable[str],
        uses_settings: bool,
        types: dict[str, str],
    ) -> Callable[[Implementation], Implementation]:
        keyword_names = frozenset(keywords)

        def declare(implementation: Implementation) -> Implementation:
            self.entries.append(
                _Entry(
                    names,
                    receivers,
                    _parameters(implementation, variadic, keyword_names, uses_settings, types),
                    result,
                    implementation,
                    uses_settings,
                    (implementation.__doc__ or "").strip(),
                )
            )
            return implementation

        return declare

    def add_to(self, library: Library, settings: StdlibSettings) -> None:
        for entry in self.entries:
            implementation = partial(entry.implementation, settings) if entry.uses_settings else entry.implementation
            for name in entry.names:
                function = LibraryFunction(name, entry.parameters, entry.result, implementation, entry.doc)
                if not entry.receivers:
                    library.functions[name] = function
                for receiver in entry.receivers:
                    library.methods[receiver, name] = function


def _parameters(
    implementation: Callable[..., Any], variadic: str | None, keywords: frozenset[str], uses_settings: bool, types: dict[str, str]
) -> tuple[LibraryParameter, ...]:
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults: tuple[Any, ...] = getattr(implementation, "__defaults__", None) or ()
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return tuple(
        LibraryParameter(
            name.rstrip("_"),
            () if name == variadic else by_name.get(name, REQUIRED),
            types.get(name, PARAMETER_TYPES.get(name, "any")),
            name == variadic,
            name in keywords,
        )
        for name in names[1 if uses_settings else 0 :]
    )
