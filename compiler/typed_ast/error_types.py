"""The errors that a program can catch without declaring them: a struct for each kind of fault at run time, with its text and its code, and
`Error`, which stands for all of them."""

from collections.abc import Iterable

from compiler.typed_ast.duration import duration_type
from compiler.typed_ast.error_kinds import ANY_ERROR, KINDS
from compiler.typed_ast.nodes import NamedTypeSyntax, Node, Parameter, StringLiteral, Struct


def _struct(name: str, code: str) -> Struct:
    text = NamedTypeSyntax(name="String")
    fields = (Parameter(name="message", annotation=text), Parameter(name="code", annotation=text, default=StringLiteral(value=code)))
    return Struct(name=name, fields=fields)


_DECLARATIONS = (duration_type(), _struct(ANY_ERROR, ""), *(_struct(name, f"ZYN{codes[0]}") for name, codes in KINDS.items()))


def error_types(statements: Iterable[Node]) -> list[Struct]:
    """Their declarations in a program with these statements, whose own declarations hide those of the same name."""
    own = {getattr(statement, "name", "") for statement in statements}
    return [declared for declared in _DECLARATIONS if declared.name not in own]
