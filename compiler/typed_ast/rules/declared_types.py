"""Declarations of structs and enums: their parts have types, the defaults of fields fit, and none holds itself."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.nesting import check_nesting
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, UNIT, Type


@CORE.checks(nodes.Struct, nodes.EnumDeclaration)
def declared_before(checker: Checker, node: nodes.Declaration, scope: Scope) -> Type:
    """A declaration among statements: those of the program's top are declared and checked before."""
    return UNIT


def check_declared(checker: Checker, node: nodes.Struct | nodes.EnumDeclaration) -> None:
    if isinstance(node, nodes.Struct):
        _struct(checker, node)
    else:
        _enum(checker, node)


def _struct(checker: Checker, node: nodes.Struct) -> None:
    check_nesting(checker, node)
    with checker.within(parameters=frozenset(parameter.name for parameter in node.type_parameters)):
        for field in node.fields:
            place = checker.resolve(field.annotation, checker.top) if field.annotation is not None else ERROR
            if field.default is not None:
                actual = checker.infer(field.default, checker.top, place)
                require(checker, actual, place, field.default.span, f"the field `{field.name}`")


def _enum(checker: Checker, node: nodes.EnumDeclaration) -> None:
    check_nesting(checker, node)
    with checker.within(parameters=frozenset(parameter.name for parameter in node.type_parameters)):
        for variant in node.variants:
            for written in (*variant.elements, *(field.annotation for field in variant.fields if field.annotation is not None)):
                checker.resolve(written, checker.top)
