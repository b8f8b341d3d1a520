"""From a QuantDSL text to its tree."""

from compiler.source import Source
from compiler.syntax.parse import parse_with
from compiler.syntax.read import require_size
from compiler.typed_ast import nodes
from quantdsl.actions import QuantActions


def parse_source(source: Source) -> nodes.Program:
    """The tree of a program; raises ZyntaxError with all its syntax errors."""
    require_size(source)
    program = parse_with(QuantActions(source.path, source.text), "program")
    assert isinstance(program, nodes.Program)
    return program


def parse_expression(text: str, path: str = "<expression>") -> nodes.Expression:
    """The tree of a single expression."""
    expression = parse_with(QuantActions(path, text), "expression_only")
    assert isinstance(expression, nodes.Expression)
    return expression
