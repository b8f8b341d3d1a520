"""Functions whose calls on a GPU may come back: those that are nothing but compute blocks."""

from collections.abc import Container, Mapping

from compiler.launch.returning import Returning
from compiler.typed_ast import nodes
from compiler.typed_ast.straight import is_straight
from compiler.typed_ast.walk import walk


def returning(function: nodes.Function, functions: Mapping[str, nodes.Function], globals: Container[str]) -> Returning | None:
    """What decides how calls of a function come back that is nothing but blocks, else None. `functions` are those of the program,
    `globals` names that mean something outside of functions, and may mean something else later."""
    places = {parameter.name: position for position, parameter in enumerate(function.parameters)}
    own = _own_names(function, places)
    if own is None:
        return Returning(places, len(places), several=True) if is_straight(function, functions, globals) else None
    annotated = [node for parameter in function.parameters if parameter.annotation is not None for node in walk(parameter.annotation)]
    sizes = {node.name for node in annotated if isinstance(node, nodes.Name) and node.name not in globals}
    number = getattr(function.result, "name", "?") if function.result is not None else ""
    return Returning({**places, **own}, len(places), frozenset(sizes - places.keys()), number=number)


def _own_names(function: nodes.Function, places: Mapping[str, int]) -> dict[str, int] | None:
    """The names that the one block of a function has for its parameters; None where it is more than one block of them."""
    body = function.body.statements if function.body is not None else ()
    block = body[0].value if len(body) == 1 and isinstance(body[0], nodes.Return | nodes.ExpressionStatement) else None
    if function.is_async or not isinstance(block, nodes.Compute):
        return None
    if block.kernel is not None and (block.kernel.is_async or block.kernel.parallel is not None):
        return None
    own: dict[str, int] = {}
    for entry in block.inputs:
        if not isinstance(entry.value, nodes.Name) or entry.value.name not in places:
            return None
        own[entry.name] = places[entry.value.name]
    return own
