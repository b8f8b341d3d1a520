"""Patterns: what a value is taken apart with."""

from compiler.typed_ast.nodes.bases import Expression, Node, Pattern, children
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class WildcardPattern(Pattern):
    pass


@frozen_in_types(kw_only=True)
class BindingPattern(Pattern):
    name: str


@frozen_in_types(kw_only=True)
class LiteralPattern(Pattern):
    """A literal, a range, or a path to a constant."""

    value: Expression


@frozen_in_types(kw_only=True)
class VariantPattern(Pattern):
    """`Some(v)`, `None`, `None()`, `Color::Red`."""

    path: tuple[str, ...] = children
    arguments: tuple[Pattern, ...] = children


@frozen_in_types(kw_only=True)
class TuplePattern(Pattern):
    elements: tuple[Pattern, ...] = children


@frozen_in_types(kw_only=True)
class ListPattern(TuplePattern):
    """`[a, b]`: a list or an array of as many elements."""


@frozen_in_types(kw_only=True)
class FieldPattern(Node):
    name: str
    pattern: Pattern


@frozen_in_types(kw_only=True)
class StructPattern(Pattern):
    path: tuple[str, ...] = children
    fields: tuple[FieldPattern, ...] = children


@frozen_in_types(kw_only=True)
class AlternativePattern(Pattern):
    alternatives: tuple[Pattern, ...] = children
