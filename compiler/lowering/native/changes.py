"""Whether code may change a variable in memory, so that what was read from it before must be a copy."""

from compiler.lowering.native.context import FunctionContext
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk


def changes(c: FunctionContext, code: nodes.Node, variable: str | None) -> bool:
    """Whether code may change a variable; None: any that is kept in memory. A function of a strategy may change its state."""
    changing = c.elaboration.rules.changing
    for found in walk(code):
        match found:
            case nodes.Assign(target=nodes.TupleLiteral(elements=targets)):
                if any(_meant(target, variable) for target in targets):
                    return True
            case nodes.Assign(target=target) if _meant(target, variable):
                return True
            case nodes.Call(function=nodes.Field(value=subject, name=name)) if name in changing and _meant(subject, variable):
                return True
            case nodes.Call(function=nodes.Name(name=name)) if c.changes_state(name):
                return True
    return False


def _meant(target: nodes.Expression, variable: str | None) -> bool:
    return variable is None or root_of(target) == variable


def root_of(node: nodes.Expression) -> str | None:
    """The variable that an expression is a part of."""
    while isinstance(node, nodes.Field | nodes.Index):
        node = node.value
    return node.name if isinstance(node, nodes.Name) else None
