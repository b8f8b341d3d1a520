"""The type `Duration`, which programs use without declaring it."""

from compiler.typed_ast.nodes import NamedTypeSyntax, Parameter, Struct
from compiler.typed_ast.units import NANOSECONDS

DURATION = "Duration"


def duration_type() -> Struct:
    """Its declaration: nanoseconds in an i64."""
    field = Parameter(name="value", annotation=NamedTypeSyntax(name="i64"))
    return Struct(name=DURATION, fields=(field,), suffixes=tuple(NANOSECONDS))
