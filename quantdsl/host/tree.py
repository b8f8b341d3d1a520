"""From QuantDSL's tree to the one that the host runs: what both languages have stays, and what QuantDSL writes in its own way becomes the
other's."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import attrs

from compiler.source import Source
from compiler.typed_ast import nodes
from quantdsl import nodes as quant
from quantdsl.check import library
from quantdsl.host.refused import RATIOS, RENAMED
from runtime.records import evolve, frozen

N = TypeVar("N", bound=nodes.Node)

OPTIONALS = {"some": "Some", "none": "None"}
"""The two cases of an optional, as the host spells them."""


def is_run(program: nodes.Program) -> bool:
    """Whether the program has a `main` and no strategy: then it is run on the host, and not replayed."""
    strategies = any(isinstance(statement, quant.Strategy) for statement in program.statements)
    return not strategies and any(isinstance(s, nodes.Function) and s.name == "main" for s in program.statements)


@frozen
class HostTree:
    """The program with what it uses of `std`, and the texts of that."""

    program: nodes.Program
    library: tuple[Source, ...]


def host_tree(program: nodes.Program) -> HostTree:
    """The program, of which nothing is refused, as the host runs it."""
    own = {statement.name for statement in program.statements if isinstance(statement, nodes.Function)}
    used = {name: found for name, found in library.used_by(program.statements).items() if isinstance(found, nodes.Function)}
    taken = [evolve(found, name=library.INSIDE + name) for name, found in used.items()]
    change = _Change(set(used) - own)
    kept = [s for s in (*program.statements, *taken) if not isinstance(s, nodes.Import | nodes.Module)]
    statements = tuple(change.node(statement) for statement in kept)
    modules = dict.fromkeys(found.span.path for found in taken)
    sources = tuple(library.source(path.strip("<>")) for path in modules)
    return HostTree(evolve(program, statements=statements), sources)


class _Change:
    """Puts the host's words for QuantDSL's. `library`: names of functions that mean those of `std`."""

    def __init__(self, library: set[str]) -> None:
        self.library = library

    def node(self, node: N) -> N:
        changes: dict[str, object] = {}
        for field in attrs.fields(type(node)):
            value = getattr(node, field.name)
            if isinstance(value, nodes.Node):
                new: object = self.node(value)
            elif isinstance(value, tuple):
                new = tuple(self.node(item) if isinstance(item, nodes.Node) else item for item in value)
            else:
                continue
            if new != value:
                changes[field.name] = new
        changed = evolve(node, **changes) if changes else node  # type: ignore[arg-type]
        rule = _RULES.get(type(changed))
        return changed if rule is None else rule(self, changed)  # type: ignore[return-value]

    def constant(self, node: nodes.Constant) -> nodes.Statement:
        pattern = nodes.BindingPattern(name=node.name, span=node.span)
        return nodes.Let(pattern=pattern, annotation=node.annotation, value=node.value, span=node.span)

    def function(self, node: nodes.Function) -> nodes.Function:
        """A function that writes no result gives none."""
        return evolve(node, result=nodes.TupleTypeSyntax(span=node.name_span)) if node.result is None else node

    def unit_number(self, node: nodes.UnitNumber) -> nodes.Expression:
        ratio = RATIOS.get(node.unit)
        return node if ratio is None else nodes.FloatLiteral(value=float(Fraction(node.text) * ratio), span=node.span)

    def name(self, node: nodes.Name) -> nodes.Name:
        return evolve(node, name=OPTIONALS[node.name]) if node.name in OPTIONALS else node

    def case_pattern(self, node: nodes.VariantPattern) -> nodes.VariantPattern:
        case = OPTIONALS.get(node.path[-1])
        return node if case is None else evolve(node, path=(*node.path[:-1], case))

    def call(self, node: nodes.Call) -> nodes.Expression:
        if not isinstance(node.function, nodes.Name):
            return node
        name = node.function.name
        changed = library.INSIDE + name if name in self.library else RENAMED.get(name, name)
        return node if changed == name else evolve(node, function=evolve(node.function, name=changed))


_RULES: dict[type[nodes.Node], Callable[[_Change, Any], nodes.Node]] = {
    nodes.Constant: _Change.constant,
    nodes.Function: _Change.function,
    nodes.UnitNumber: _Change.unit_number,
    nodes.Name: _Change.name,
    nodes.VariantPattern: _Change.case_pattern,
    nodes.Call: _Change.call,
}
