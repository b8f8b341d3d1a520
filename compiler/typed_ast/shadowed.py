"""Names of the library that a program takes for its own: from there on the program's meaning counts, in host code and in kernels. A warning
with the declaration and a use that now means it.

Functions are warned of always, and so is what takes the name of a constant. A variable with the name of a library function (`var sum`) is
no trap as long as nothing calls it: it is warned of where something does."""

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, Label, Severity
from compiler.source import Span
from compiler.typed_ast.library import Library
from compiler.typed_ast.nodes import (
    BindingPattern,
    Block,
    Call,
    Comprehension,
    Compute,
    For,
    Function,
    Lambda,
    Let,
    Name,
    Node,
    Program,
    ProgramParameter,
    Statement,
)
from compiler.typed_ast.scope import name_place
from compiler.typed_ast.walk import parts, walk
from runtime.records import Factory, define


@define(eq=False)
class _Declaration:
    """A name that the program declares, and the uses of it."""

    name: str
    span: Span
    is_function: bool = False
    use: Span | None = None
    call: Span | None = None


_Names = Mapping[str, _Declaration | None]
"""What names mean where something stands; None for those that hide nothing."""


def shadowed(program: Program, library: Library) -> Iterator[Diagnostic]:
    """The warnings of a program, in the order of its declarations."""
    search = _Search(library)
    search.statements(program.statements, {})
    for found in search.found:
        is_constant = found.name in library.constants
        if found.is_function or is_constant or found.call is not None:
            use = found.call if found.call is not None and not is_constant else found.use
            what = "constant" if is_constant else "function"
            yield Diagnostic(
                "0608",
                f"`{found.name}` is the name of a {what} of the library, which is hidden here",
                found.span,
                "declared here",
                () if use is None else (Label(use, "this means the program's own"),),
                hint="give it a name of its own",
                severity=Severity.WARNING,
            )


@define(eq=False)
class _Search:
    library: Library
    found: list[_Declaration] = Factory(list)

    def declared(self, names: dict[str, _Declaration | None], name: str, span: Span, is_function: bool = False) -> None:
        hides = name in self.library.functions or name in self.library.constants
        if not hides:
            return
        names[name] = _Declaration(name, span, is_function)
        self.found.append(names[name])  # type: ignore[arg-type]

    def statements(self, statements: tuple[Statement, ...], around: _Names) -> dict[str, _Declaration | None]:
        """Functions are known in their whole block, and are looked into when all of its names are known."""
        names = dict(around)
        functions = [one for one in statements if isinstance(one, Function)]
        for function in functions:
            if not function.is_extern:
                self.declared(names, function.name, name_place(function), is_function=True)
        for statement in statements:
            if not isinstance(statement, Function):
                self.node(statement, names)
        for function in functions:
            self.function(function, names)
        return names

    def function(self, function: Function | Lambda, around: _Names) -> None:
        names = dict(around)
        for parameter in function.parameters:
            self.nodes((parameter.default,), names)
            self.declared(names, parameter.name, parameter.span)
        self.nodes((function.body,), names)

    def node(self, node: Node, names: dict[str, _Declaration | None]) -> None:
        match node:
            case Name(name=name, span=span):
                self.used(names.get(name), span)
            case Call(function=Name(name=name, span=span), arguments=arguments):
                self.used(names.get(name), span, calls=True)
                self.nodes(arguments, names)
            case Let(pattern=pattern, value=value):
                self.nodes((value,), names)
                for inner in walk(pattern):
                    if isinstance(inner, BindingPattern):
                        self.declared(names, inner.name, inner.span)
            case ProgramParameter(name=name, span=span):
                self.nodes(parts(node), names)
                self.declared(names, name, span)
            case Block(statements=statements):
                self.statements(statements, names)
            case Function() | Lambda():
                self.function(node, names)
            case For(clauses=clauses, body=body):
                inner_names = dict(names)
                for clause in clauses:
                    self.node(clause.source, inner_names)
                    for name, span in zip(clause.names, clause.name_spans, strict=True):
                        self.declared(inner_names, name, span)
                self.node(body, inner_names)
            case Comprehension(names=own, source=source):
                self.node(source, names)
                inner_names = {**names, **dict.fromkeys(own)}
                self.nodes((node.condition, node.key, node.element), inner_names)
            case Compute(inputs=inputs, body=body):
                self.nodes((one.value for one in inputs), names)
                self.nodes((a for one in node.annotations for a in one.arguments if one.name != "kernel"), names)
                inner_names = {**names, **{one.name: None for one in inputs if not isinstance(one.value, Name)}}
                self.node(body, inner_names)
            case _:
                self.nodes(parts(node), names)

    def nodes(self, nodes: Any, names: dict[str, _Declaration | None]) -> None:
        for one in nodes:
            if one is not None:
                self.node(one, names)

    def used(self, declaration: _Declaration | None, span: Span, calls: bool = False) -> None:
        if declaration is not None:
            declaration.use = declaration.use or span
            if calls:
                declaration.call = declaration.call or span
