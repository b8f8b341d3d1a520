"""Whether code may change a variable in memory, so that what was read from it before must be a copy."""

from compiler.lowering.native.context import FunctionContext
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import changes_receiver
from compiler.typed_ast.walk import walk


def changes(c: FunctionContext, code: nodes.Node, variable: str | None) -> bool:
    """Whether code may change a variable; None: any that is kept in memory. A function of a strategy may change its state."""
    for found in walk(code):
        match found:
            case nodes.Assign(target=nodes.TupleLiteral(elements=targets)):
                if any(_meant(target, variable) for target in targets):
                    return True
            case nodes.Assign(target=target) if _meant(target, variable):
                return True
            case nodes.Call(callee=callee, function=nodes.Name(name=name)) if c.changes_state(callee or name):
                return True
            case nodes.Call(callee=callee, function=nodes.Field(value=subject, name=name)):
                if c.changes_state(callee) or (_meant(subject, variable) and _may_change(c, callee, name)):
                    return True
    return False


def _may_change(c: FunctionContext, callee: str, name: str) -> bool:
    """Whether a method changes what it is called on. Which one it is isn't known yet in defaults, which are checked where they are used."""
    if callee:
        return changes_receiver(c.functions[callee])
    return any(found.name == name and changes_receiver(found) for found in c.functions.values())


def _meant(target: nodes.Expression, variable: str | None) -> bool:
    return variable is None or root_of(target) == variable


def root_of(node: nodes.Expression) -> str | None:
    """The variable that an expression is a part of."""
    while isinstance(node, nodes.Field | nodes.Index):
        node = node.value
    return node.name if isinstance(node, nodes.Name) else None
