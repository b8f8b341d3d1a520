"""The names under which methods of types are found, and types written as a program would write them."""

from compiler.source import NOWHERE, Span
from compiler.typed_ast.nodes import (
    ArrayTypeSyntax,
    FunctionTypeSyntax,
    IntLiteral,
    KnownTypeSyntax,
    NamedTypeSyntax,
    OptionTypeSyntax,
    TupleTypeSyntax,
    TypeSyntax,
)
from compiler.typed_ast.types import (
    ArrayType,
    CharType,
    DeclaredType,
    DictType,
    FunctionType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    SetType,
    Size,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
    UnknownType,
)

SPELLINGS = {
    "String": "str", "string": "str", "text": "str", "List": "list", "Tensor": "tensor", "dict": "HashMap", "set": "HashSet", "Option": "?",
}  # fmt: skip
"""Names of types that mean the same."""


def head_of(type_: Type) -> str:
    """The name of a type without its arguments; "" of one that has none."""
    match type_:
        case Scalar(dtype=dtype):
            return dtype.value
        case DeclaredType(name=name):
            return name
        case StringType():
            return "str"
        case ListType():
            return "list"
        case DictType():
            return "HashMap"
        case SetType():
            return "HashSet"
        case ResultType():
            return "Result"
        case TensorType():
            return "tensor"
        case OptionType():
            return "?"
        case ArrayType():
            return "[]"
        case TupleType():
            return "()"
        case CharType():
            return "char"
    return ""


def syntax_of(type_: Type, span: Span = NOWHERE) -> TypeSyntax:
    """A type as written, so far as words can say it."""

    def inside(one: Type) -> TypeSyntax:
        return syntax_of(one, span)

    def named(name: str, *arguments: Type) -> TypeSyntax:
        return NamedTypeSyntax(name=name, arguments=tuple(map(inside, arguments)), span=span)

    match type_:
        case Scalar(dtype=dtype):
            return named(dtype.value)
        case StringType():
            return named("String")
        case UnitType():
            return named("void")
        case UnknownType():
            return named("any")
        case DeclaredType(name=name, arguments=arguments):
            return named(name, *arguments)
        case ListType(element=element):
            return named("List", element)
        case SetType(element=element):
            return named("HashSet", element)
        case DictType(key=key, value=value):
            return named("HashMap", key, value)
        case ResultType(value=value, error=error):
            return named("Result", value, error)
        case OptionType(value=value):
            return OptionTypeSyntax(value=inside(value), span=span)
        case TupleType(elements=elements):
            return TupleTypeSyntax(elements=tuple(map(inside, elements)), span=span)
        case ArrayType(element=element, size=Size(value=int() as count)):
            return ArrayTypeSyntax(element=inside(element), size=IntLiteral(value=count, span=span), span=span)
        case FunctionType(parameters=parameters, result=result):
            return FunctionTypeSyntax(parameters=tuple(map(inside, parameters)), result=inside(result), span=span)
    return KnownTypeSyntax(type=type_, span=span)
