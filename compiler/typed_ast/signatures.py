"""What the signature of a function of the program says: types of parameters and result, sizes, and its words in messages."""

from compiler.typed_ast.checker import Checker
from compiler.typed_ast.nodes import TypeSyntax
from compiler.typed_ast.scope import UserFunction
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.types import UNKNOWN, ListType, TensorType, TupleType, Type


def parameter_types(checker: Checker, function: UserFunction) -> list[Type]:
    """Declared types, UNKNOWN for parameters without one. Faults in them are reported when the body is checked."""
    checker.mute()
    try:
        return [_resolved(checker, p.annotation) for p in function.node.parameters]
    finally:
        checker.unmute()


def _resolved(checker: Checker, syntax: TypeSyntax | None) -> Type:
    return UNKNOWN if syntax is None else checker.resolver.resolve(syntax)


def signature(checker: Checker, function: UserFunction) -> str:
    """`def f(a: tensor[N, f32], k = ...): f32` as messages show it."""
    shown = []
    for parameter, found in zip(function.node.parameters, parameter_types(checker, function), strict=True):
        typed = parameter.name if parameter.annotation is None else f"{parameter.name}: {found}"
        shown.append(typed + (" = ..." if parameter.default is not None else ""))
    checker.mute()
    result = "" if function.node.result is None else f": {checker.resolver.resolve(function.node.result)}"
    checker.unmute()
    return f"def {function.name}({', '.join(shown)}){result}"


def declared_result(checker: Checker, function: UserFunction) -> Type | None:
    if function.node.result is None:
        return None
    checker.mute()
    try:
        return checker.resolver.resolve(function.node.result)
    finally:
        checker.unmute()


def sizes_in(found: Type) -> list[str]:
    """The size names that a type mentions, in the order written."""
    match found:
        case TensorType(shape=shape):
            return [name for dim in dims_of(shape) or () if dim is not None for name, _ in dim.terms]
        case ListType(element=element):
            return sizes_in(element)
        case TupleType(elements=elements):
            return [name for element in elements for name in sizes_in(element)]
    return []
