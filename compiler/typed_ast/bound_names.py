"""The names that a program binds anywhere: what a name means everywhere where it isn't among them."""

from collections.abc import Iterable, Iterator

from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk


def bound_names(program: nodes.Program) -> frozenset[str]:
    """Names that mean something else than a function of the program's top somewhere."""
    inner = [n for s in program.statements for n in walk(s) if n is not s]
    functions = [n.name for n in inner if isinstance(n, nodes.Function)]
    parameters = [n.name for n in walk(program) if isinstance(n, nodes.Parameter)]
    return frozenset((*bindings(walk(program)), *functions, *parameters))


def bindings(found: Iterable[nodes.Node]) -> Iterator[str]:
    for node in found:
        match node:
            case nodes.BindingPattern(name=name) | nodes.Catch(name=str() as name):
                yield name
            case nodes.ForClause(names=names) | nodes.Comprehension(names=names):
                yield from names
            case nodes.Import(bound=names, alias=alias):
                yield from (*names, *((alias,) if alias else ()))
