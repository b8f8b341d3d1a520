"""From a ZynML text to its tree."""

import re

from compiler.source import Source
from compiler.syntax.parse import parse_with
from compiler.syntax.read import require_size
from compiler.typed_ast import nodes
from zynml.actions import ZynmlActions
from zynml.actions.units import ANY_SUFFIX

_IMPORT = re.compile(r"^[ \t]*(?:import|from)\b", re.MULTILINE)
_SUFFIXES = re.compile(r"Suffixes\s*\(\s*\"([\w, ]*)\"")


def parse_source(source: Source) -> nodes.Program:
    """The tree of a program; raises ZyntaxError with all its syntax errors."""
    require_size(source)
    program = parse_with(_actions(source), "program")
    assert isinstance(program, nodes.Program)
    return program


def parse_expression(text: str, path: str = "<expression>") -> nodes.Expression:
    """The tree of a single expression."""
    expression = parse_with(_actions(Source(path, text)), "expression_only")
    assert isinstance(expression, nodes.Expression)
    return expression


def _actions(source: Source) -> ZynmlActions:
    units = frozenset(unit.strip() for suffixes in _SUFFIXES.findall(source.text) for unit in suffixes.split(","))
    imports = {ANY_SUFFIX} if _IMPORT.search(source.text) else set()
    return ZynmlActions(source.path, source.text, units=units | imports)
