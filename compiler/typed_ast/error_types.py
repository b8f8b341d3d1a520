"""The errors that a program can catch without declaring them: a struct for each kind of fault at run time, with its text and its code, and
`Error`, which stands for all of them."""

from collections.abc import Iterable, Mapping

from compiler.typed_ast.duration import duration_type
from compiler.typed_ast.nodes import NamedTypeSyntax, Node, Parameter, StringLiteral, Struct

ANY_ERROR = "Error"
"""The type that stands for all kinds of faults."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "IndexError": ("0801", "0304", "0305"),
    "ShapeError": ("0802", "0301", "0302", "0303", "0306", "0307"),
    "EmptyError": ("0803",),
    "MemoryError": ("0804",),
    "DeviceError": ("0805", "0501", "0502", "0503", "0504"),
    "ArithmeticError": ("0806",),
    "ValueError": ("0807",),
    "AssertionError": ("0808",),
    "TimeoutError": ("0810",),
    "AliasError": ("0813",),
    "TypeError": ("0201", "0202", "0203", "0204", "0207", "0208", "0407"),
}
"""The codes of the faults that each type stands for; the first is that of errors which a program makes itself."""
TYPE_OF_CODE: Mapping[str, str] = {code: name for name, codes in KINDS.items() for code in codes}
"""Faults with other codes are wrong programs, interruptions or faults of the compiler: none of them can be caught."""


def _struct(name: str, code: str) -> Struct:
    text = NamedTypeSyntax(name="String")
    fields = (Parameter(name="message", annotation=text), Parameter(name="code", annotation=text, default=StringLiteral(value=code)))
    return Struct(name=name, fields=fields)


_DECLARATIONS = (duration_type(), _struct(ANY_ERROR, ""), *(_struct(name, f"ZYN{codes[0]}") for name, codes in KINDS.items()))


def error_types(statements: Iterable[Node]) -> list[Struct]:
    """Their declarations in a program with these statements, whose own declarations hide those of the same name."""
    own = {getattr(statement, "name", "") for statement in statements}
    return [declared for declared in _DECLARATIONS if declared.name not in own]
