"""Which variables functions assign that are not their own. Such a variable may change at any call, so the checker takes no shape of
it for granted."""

from collections.abc import Callable

from compiler.typed_ast.nodes import (
    Assign,
    BindingPattern,
    Call,
    Compute,
    Field,
    Function,
    Lambda,
    Name,
    Node,
    Program,
    TupleLiteral,
)
from runtime.records import fields_of


def assigned_by_functions(program: Program, may_change: Callable[[str], bool]) -> frozenset[str]:
    """Names that some function or lambda of the program assigns without declaring them itself. `may_change`: whether a method of that
    name changes what it is called on."""
    found: set[str] = set()
    waiting: list[Node] = [program]
    while waiting:
        owner = waiting.pop()
        assigned, declared, inner = _names_of(owner, may_change)
        waiting += inner
        if owner is not program:
            found |= assigned - declared
    return frozenset(found)


def _names_of(owner: Node, may_change: Callable[[str], bool]) -> tuple[set[str], set[str], list[Node]]:
    """Names that a function assigns and declares, and the functions in it, which are not looked into."""
    assigned: set[str] = set()
    declared: set[str] = set()
    functions: list[Node] = []
    waiting: list[object] = [getattr(owner, field.name) for field in fields_of(type(owner))]
    while waiting:
        node = waiting.pop()
        match node:
            case tuple():
                waiting.extend(node)
                continue
            case Function() | Lambda():
                functions.append(node)
                continue
            case Compute(inputs=inputs):
                # Its body has variables of its own.
                waiting.extend(given.value for given in inputs)
                continue
            case Assign(target=Name(name=name)):
                assigned.add(name)
            case Assign(target=TupleLiteral(elements=elements)):
                assigned |= {element.name for element in elements if isinstance(element, Name)}
            case Call(function=Field(value=Name(name=name), name=method)) if may_change(method):
                assigned.add(name)
            case BindingPattern(name=name):
                declared.add(name)
        if isinstance(node, Node):
            waiting.extend(getattr(node, field.name) for field in fields_of(type(node)))
    if isinstance(owner, Function | Lambda):
        declared |= {parameter.name for parameter in owner.parameters}
    return assigned, declared, functions
