"""Whether what a loop does leaves all maps and sets as they are: then it may run over one itself, not over a copy of its entries."""

from collections.abc import Callable

from compiler.typed_ast import nodes
from compiler.typed_ast.types import ArrayType, DictType, FunctionType, ListType, Scalar, SetType, StringType, TensorType, Type
from compiler.typed_ast.walk import walk

_LOOKING = frozenset(["len", "is_empty", "contains", "contains_key", "get", "get_or", "keys", "values", "items", "entries"])


def leaves_maps(node: nodes.Node, of_library: Callable[[str], bool]) -> bool:
    """`of_library`: whether a name means a function of the library where the node stands."""
    return all(_leaves(part, of_library) for part in walk(node))


def _leaves(node: nodes.Node, of_library: Callable[[str], bool]) -> bool:
    match node:
        case nodes.Call(callee=callee, function=function, arguments=arguments):
            if callee or any(isinstance(a.value.type, FunctionType) and not isinstance(a.value, nodes.Lambda) for a in arguments):
                return False
            match function:
                case nodes.Name(name=name):
                    return of_library(name) and all(_is_plain(argument.value.type) for argument in arguments)
                case nodes.Field(value=nodes.Expression(type=DictType() | SetType()), name=name):
                    return name in _LOOKING
                case nodes.Field(value=nodes.Expression(type=ListType() | StringType())):
                    return True
            return False
        case nodes.Assign(target=target):
            return all(_changes_no_map(part) for part in walk(target))
        case nodes.FStringPart(value=value):
            return value is None or _is_plain(value.type)
        case nodes.Binary(operator=operator, left=left, right=right) if operator not in ("and", "or", "in"):
            return _is_plain(left.type) and _is_plain(right.type)
        case nodes.Expression():
            return not isinstance(node, nodes.Await | nodes.Compute | nodes.Stream | nodes.LaterExpression)
    return not isinstance(node, nodes.Render | nodes.Inlined | nodes.Declaration)


def _changes_no_map(target: nodes.Node) -> bool:
    return not isinstance(target, nodes.Index) or isinstance(target.value.type, ListType | TensorType | ArrayType)


def _is_plain(type_: Type) -> bool:
    return isinstance(type_, Scalar | StringType)
