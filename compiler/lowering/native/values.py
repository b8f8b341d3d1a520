"""Values while a function is written, and where variables keep them.

A number is one SSA value. What has parts is a tuple of values, one a part in the order of `Layouts.parts`. What has containers in it lies
in memory and is known by its address."""

from compiler.hir.core import Const
from compiler.hir.native_expressions import Expr, NativeVariable, Record
from compiler.typed_ast.types import STRING, Type
from runtime.records import frozen


def known(value: Expr) -> int | float | bool | None:
    """The number that a value is known to be, if it is."""
    source = value.hir.source
    return source.value if isinstance(source, Const) else None


@frozen
class ScalarValue:
    type: Type
    value: Expr

    @property
    def constant(self) -> int | float | bool | None:
        """The value where it is known now."""
        return known(self.value)


@frozen
class Whole:
    """A struct, tuple, optional, result or enum with values; also nothing at all, without parts."""

    type: Type
    parts: "tuple[Value, ...]"


@frozen
class InMemory:
    """What lies in memory. `fresh`: nobody else knows the place, so that it needs no copy to become a variable."""

    type: Type
    pointer: Record
    fresh: bool = False


@frozen
class Text:
    """A text that is known when the program is compiled."""

    text: str
    type: Type = STRING


@frozen
class Cells:
    """A variable whose numbers live in cells of the function."""

    type: Type
    cells: tuple[NativeVariable, ...]


Value = ScalarValue | Whole | InMemory | Text
Location = Cells | InMemory
