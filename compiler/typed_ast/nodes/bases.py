"""What all nodes are: fields only, and where in the source they stand."""

from compiler.source import NOWHERE, Span
from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import field, frozen_in_types
from runtime.tuples import as_tuple

children = field(default=(), converter=as_tuple)
"""A field of several nodes."""


@frozen_in_types(kw_only=True)
class Node:
    span: Span = NOWHERE


@frozen_in_types(kw_only=True)
class TypeSyntax(Node):
    """A type as the program writes it; the checker resolves it to a `Type`."""


@frozen_in_types(kw_only=True)
class Expression(Node):
    type: Type = UNKNOWN


@frozen_in_types(kw_only=True)
class Pattern(Node):
    """What stands after `case`."""


@frozen_in_types(kw_only=True)
class Statement(Node):
    pass


@frozen_in_types(kw_only=True)
class Declaration(Statement):
    pass
