"""What the signature of a function says: types of parameters and result, sizes, and its words in messages."""

from compiler.typed_ast.checker import Checker
from compiler.typed_ast.declarations import CallableDeclaration
from compiler.typed_ast.nodes import ConstantTypeSyntax, Function, Parameter, TypeSyntax
from compiler.typed_ast.scope import Scope, UserFunction, Variable, VariableKind
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.type_arguments import substituted
from compiler.typed_ast.types import UNIT, UNKNOWN, ListType, TensorType, TupleType, Type


def parameter_type(checker: Checker, callee: CallableDeclaration, parameter: Parameter, scope: Scope) -> Type:
    """The type of a parameter, UNKNOWN where none is written, with variables for the callee's type parameters."""
    return UNKNOWN if parameter.annotation is None else _resolved(checker, callee, parameter.annotation, scope)


def result_type(checker: Checker, callee: CallableDeclaration, scope: Scope) -> Type:
    return UNIT if callee.result is None else _resolved(checker, callee, callee.result, scope)


def _resolved(checker: Checker, callee: CallableDeclaration, written: TypeSyntax, scope: Scope) -> Type:
    """A type of a declaration. Faults in a program's own are reported where its body is checked."""
    own = id(callee) not in checker.declarations.foreign
    inner = Scope(scope)
    for parameter in callee.parameters:
        if isinstance(parameter.annotation, ConstantTypeSyntax):
            inner.add(Variable(parameter.name, UNKNOWN, VariableKind.CONSTANT_PARAMETER))
    checker.findings.muted += own
    try:
        with checker.within(parameters=checker.frame.parameters | {parameter.name for parameter in callee.type_parameters}):
            return checker.meaning.rules.signature(checker, written, inner, None)
    finally:
        checker.findings.muted -= own


def signature(checker: Checker, callee: CallableDeclaration, scope: Scope) -> str:
    """`def f(a: tensor[N, f32], k = ...): f32` as messages show it, and in a language's own words."""
    shown = []
    checker.mute()
    for parameter in callee.parameters:
        typed = checker.show(parameter_type(checker, callee, parameter, scope))
        constant = "const " if isinstance(parameter.annotation, ConstantTypeSyntax) else ""
        name = parameter.name if parameter.annotation is None else f"{parameter.name}: {constant}{typed}"
        shown.append(name + (" = ..." if parameter.default is not None else ""))
    meaning = checker.meaning
    result = "" if callee.result is None else f"{meaning.result}{checker.show(result_type(checker, callee, scope))}"
    checker.unmute()
    word = meaning.function if isinstance(callee, Function) else type(callee).__name__.lower()
    return f"{word} {callee.name}({', '.join(shown)}){result}"


def parameter_types(checker: Checker, function: UserFunction) -> list[Type]:
    """Declared types, UNKNOWN for parameters without one, and for type parameters."""
    names = {parameter.name for parameter in function.node.type_parameters}
    types = [parameter_type(checker, function.node, parameter, function.scope) for parameter in function.node.parameters]
    return [substituted(found, dict.fromkeys(names, UNKNOWN), names) for found in types] if names else types


def declared_result(checker: Checker, function: UserFunction) -> Type | None:
    return None if function.node.result is None else result_type(checker, function.node, function.scope)


def sizes_in(type_: Type) -> list[str]:
    """The size names that a type mentions, in the order written."""
    match type_:
        case TensorType(shape=shape):
            return [name for dim in dims_of(shape) or () if dim is not None for name in dim.names]
        case ListType(element=element):
            return sizes_in(element)
        case TupleType(elements=elements):
            return [name for element in elements for name in sizes_in(element)]
    return []
