"""Patterns: what a value is taken apart with."""

from compiler.typed_ast.nodes.bases import Expression, Node, Pattern, children
from runtime.records import frozen


@frozen(kw_only=True)
class WildcardPattern(Pattern):
    pass


@frozen(kw_only=True)
class BindingPattern(Pattern):
    name: str


@frozen(kw_only=True)
class LiteralPattern(Pattern):
    """A literal, a range, or a path to a constant."""

    value: Expression


@frozen(kw_only=True)
class VariantPattern(Pattern):
    """`Some(v)`, `None`, `None()`, `Color::Red`."""

    path: tuple[str, ...] = children
    arguments: tuple[Pattern, ...] = children


@frozen(kw_only=True)
class TuplePattern(Pattern):
    elements: tuple[Pattern, ...] = children


@frozen(kw_only=True)
class ListPattern(TuplePattern):
    """`[a, b]`: a list or an array of as many elements."""


@frozen(kw_only=True)
class FieldPattern(Node):
    name: str
    pattern: Pattern


@frozen(kw_only=True)
class StructPattern(Pattern):
    path: tuple[str, ...] = children
    fields: tuple[FieldPattern, ...] = children


@frozen(kw_only=True)
class AlternativePattern(Pattern):
    alternatives: tuple[Pattern, ...] = children
