"""Futures that nobody can wait for: statements whose value is one, and names of futures that nothing mentions. A warning: such a block
still runs, and its faults show when the program ends."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Severity
from compiler.typed_ast.nodes import (
    BindingPattern,
    Block,
    Compute,
    Expression,
    ExpressionStatement,
    For,
    Let,
    Name,
    NamedTypeSyntax,
    Node,
    Program,
    While,
)
from compiler.typed_ast.types import FutureType, ListType, TupleType, Type
from compiler.typed_ast.walk import walk


def unawaited(program: Program) -> Iterator[Diagnostic]:
    """A warning for each; `program` has its types."""
    found = list(walk(program))
    mentioned = {node.name for node in found if isinstance(node, Name)}
    for value in _dropped(program, found):
        if _holds_future(value.type) and not _is_warned_of(value):
            yield _warning("the value of this future is not awaited", value, "write `await` before it, or give it a name")
    for node in found:
        match node:
            case Let(pattern=BindingPattern(name=name), annotation=annotation, value=Expression() as value):
                stored = annotation is None or (isinstance(annotation, NamedTypeSyntax) and annotation.name == "Future")
                if stored and name not in mentioned and _holds_future(value.type):
                    what, hint = _words(value.type, name)
                    yield _warning(f"nobody awaits the {what} `{name}`", node.pattern, hint)


def _words(type_: Type, name: str) -> tuple[str, str]:
    if isinstance(type_, FutureType):
        return "future", f"`await {name}` gives its value"
    return "futures", f"`await all({name})` gives their values"


def _dropped(program: Program, nodes: list[Node]) -> Iterator[Expression]:
    """The values of statements that nobody takes: of all but the last of a block, and of that, too, in a loop."""
    whole = {id(node.body) for node in nodes if isinstance(node, (For, While))}
    for node in (program, *nodes):
        if isinstance(node, (Program, Block)):
            taken = len(node.statements) - (isinstance(node, Block) and id(node) not in whole)
            for statement in node.statements[:taken]:
                if isinstance(statement, ExpressionStatement):
                    yield statement.value


def _is_warned_of(value: Expression) -> bool:
    """Whether 0604 says it already."""
    return isinstance(value, Compute) and not any(given.mutable for given in value.inputs)


def _holds_future(type_: Type) -> bool:
    match type_:
        case FutureType():
            return True
        case ListType(element=element):
            return _holds_future(element)
        case TupleType(elements=elements):
            return any(map(_holds_future, elements))
    return False


def _warning(message: str, node: Node, hint: str) -> Diagnostic:
    return Diagnostic("0605", message, node.span, hint=hint, severity=Severity.WARNING)


