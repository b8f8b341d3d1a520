"""How a language's library is declared: each function once, with its parameters, its type rule and its implementation, so
that the checker, tier 0, completion lists and error messages all read the same entry."""

from collections.abc import Callable, Mapping
from typing import Any

from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import Factory, define, field, frozen
from runtime.tuples import as_tuple

REQUIRED = object()
"""Default of a parameter that must be given."""
TARGET = "target"
"""What a parameter takes that no call gives: the type behind the call's `as`, None where there is none."""


@frozen
class LibraryParameter:
    """`types`: a text for messages (`tensor`, `int`, `list or tensor`). `variadic`: takes all further positional arguments.
    `keyword_only`: must be named."""

    name: str
    default: Any = REQUIRED
    types: str = "any"
    variadic: bool = False
    keyword_only: bool = False


@frozen
class CallTypes:
    """What a type rule sees: the argument types by parameter name (variadic ones as a tuple), and constants where an argument
    is a literal."""

    types: Mapping[str, Any]
    constants: Mapping[str, Any]

    def __getitem__(self, name: str) -> Type:
        return self.types.get(name, UNKNOWN)  # type: ignore[no-any-return]


class TypeFault(Exception):
    """A type rule's objection. `parameter` names the argument at fault, None for the whole call."""

    def __init__(self, code: str, message: str, parameter: str | None = None, label: str = "", hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.parameter, self.label, self.hint = code, message, parameter, label, hint


class LibraryFault(Exception):
    """Trouble while a library function runs: a code (`"0301"`), what happened in the user's words, and perhaps a hint. The caller
    adds the place in the program."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


TypeRule = Callable[[CallTypes], Type]
HandedRule = Callable[[Type], tuple[Type, ...]]


@frozen
class LibraryFunction:
    """A function (`zeros`, `Tensor::zeros`), or a method when its first parameter is `self`. `result`: a type, or a rule over the
    arguments' types. `implementation` gets one value for each of `parameters`, in their order, defaults filled in; a variadic
    parameter is one tuple."""

    name: str
    parameters: tuple[LibraryParameter, ...] = field(converter=as_tuple)
    result: Type | TypeRule
    implementation: Callable[..., Any] = field(eq=False)
    doc: str = ""
    mutates: bool = False
    """True of a method that changes its receiver (`push`, `set`): the receiver must be `mut`."""
    handed: HandedRule | None = field(default=None, eq=False)
    """What a method gives to the functions that it takes, by the type of its receiver; None where that isn't known."""

    @property
    def takes_target(self) -> bool:
        """Whether it makes its value of the type behind `as`: `load(path) as T`."""
        return any(p.types == TARGET for p in self.parameters)

    @property
    def signature(self) -> str:
        """As a message shows it: `Tensor::full(shape, value, dtype=)`."""
        shown = [
            ("*" if p.variadic else "") + p.name + ("" if p.default is REQUIRED or p.variadic else "=")
            for p in self.parameters
            if p.name != "self" and p.types != TARGET
        ]
        return f"{self.name}({', '.join(shown)})"


@define
class Library:
    """All that a program may use without declaring it. Methods are found by the receiver's kind (`tensor`, `List`, `String`, `int`,
    `float`, `range`, `tuple`) and name."""

    functions: Mapping[str, LibraryFunction] = Factory(dict)
    methods: Mapping[tuple[str, str], LibraryFunction] = Factory(dict)
    constants: dict[str, tuple[Type, Any]] = Factory(dict)
    modules: set[str] = Factory(set)
    """Names that `import` accepts without a file: their functions are in `functions` already."""
    warns_of_shadowing: bool = False
    """Whether a program that takes one of these names for its own is warned of it."""
