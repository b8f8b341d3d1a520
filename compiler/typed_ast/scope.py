"""Names in sight: variables with their types and how they may change, and functions. Scopes nest; an inner one hides an outer."""

from collections.abc import Iterator
from enum import Enum

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import KernelMetadata
from compiler.typed_ast.nodes import Expression, Function, Name, Node
from compiler.typed_ast.types import ShapeExpr, Type
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, field


class VariableKind(Enum):
    """How a variable came to be; decides whether it can be written and what a message calls it."""

    LET = "let"
    MUTABLE = "mut"
    PARAMETER = "parameter"
    CONSTANT_PARAMETER = "const parameter"
    LOOP = "loop variable"
    SIZE = "size"
    CONSTANT = "const"
    PROGRAM_PARAMETER = "param"
    STATE = "state"
    """A variable that outlives the call."""


CONSTANT_KINDS = (VariableKind.CONSTANT, VariableKind.PROGRAM_PARAMETER, VariableKind.CONSTANT_PARAMETER)
"""Their values are known when the program is compiled, though perhaps not yet when it is checked."""


@define(eq=False)
class Variable:
    """`constant`: its value, where it cannot change and is known. `declared`: its type is written, so values must fit it; else the type of
    a mutable variable widens. `assigned` False: declared without a value, which one assignment may give. `frame` is the function that
    declares it. `present`: it is an optional that is known to have a value. For indices: `value` is what a `let` of an int stands for,
    with what that sees; `now` what a mutable variable is until it is first assigned to."""

    name: str
    type: Type
    kind: VariableKind = VariableKind.LET
    span: Span = NOWHERE
    constant: object = None
    declared: bool = False
    assigned: bool = True
    frame: object = None
    present: bool = False
    value: "tuple[Expression, Scope] | None" = field(default=None, repr=False)
    now: int | None = None

    @property
    def mutable(self) -> bool:
        return self.kind in (VariableKind.MUTABLE, VariableKind.STATE) or not self.assigned

    @property
    def whole(self) -> int | None:
        """The constant, where it is a whole number."""
        return self.constant if type(self.constant) is int else None


@define(eq=False)
class Findings:
    """Where what is found goes: types, metadata and the names of callees by the identity of nodes, whether messages count, and the calls
    that led here. `unset`: the declarations, by identity, of variables that begin without a value. `rewrites`: what stands for a node from
    then on, as a call of a method for an operator.
    An instance of a generic function has findings of its own, which don't go into the tree."""

    types: dict[int, Type] = Factory(dict)
    kernels: dict[int, KernelMetadata] = Factory(dict)
    callees: dict[int, str] = Factory(dict)
    unset: set[int] = Factory(set)
    rewrites: dict[int, Node] = Factory(dict)
    muted: int = 0
    calls: tuple[Label, ...] = ()


@define(eq=False)
class UserFunction:
    """A function of the program, the scope it was declared in, and where what is found in its body goes, whoever asks for it first."""

    node: Function
    scope: "Scope" = field(repr=False)
    findings: Findings = field(repr=False)

    @property
    def name(self) -> str:
        return self.node.name


Entry = Variable | UserFunction


@define(eq=False)
class Scope:
    """One block's names. `ended` keeps the names of inner blocks that are over, to explain why they are not found.
    `for_functions` is what bodies of functions declared here see, where that is more than statements do."""

    parent: "Scope | None" = None
    entries: dict[str, Entry] = Factory(dict)
    ended: dict[str, Variable] = Factory(dict)
    for_functions: "Scope | None" = None

    def find(self, name: str) -> Entry | None:
        scope: Scope | None = self
        while scope is not None:
            entry = scope.entries.get(name)
            if entry is not None:
                return entry
            scope = scope.parent
        return None

    def variable(self, name: str) -> Variable | None:
        entry = self.find(name)
        return entry if isinstance(entry, Variable) else None

    def own(self, name: str) -> Variable | None:
        """A variable of this very block."""
        entry = self.entries.get(name)
        return entry if isinstance(entry, Variable) else None

    def add(self, variable: Variable) -> None:
        if variable.name != "_":
            self.entries[variable.name] = variable

    def find_ended(self, name: str) -> Variable | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ended:
                return scope.ended[name]
            scope = scope.parent
        return None

    def inner(self) -> "Scope":
        return Scope(self)

    def as_now(self) -> "Scope":
        """The scope without what is added to it later."""
        return Scope(self.parent, dict(self.entries))

    def as_now_for(self, expression: Node) -> "Scope":
        """What the names of an expression stand for in this scope, whatever is added to it later."""
        names = [node.name for node in walk(expression) if isinstance(node, Name)]
        return Scope(self.parent, {name: self.entries[name] for name in names if name in self.entries})

    def close(self) -> None:
        """Ends this block: its variables are remembered by the block around it."""
        if self.parent is not None:
            for name, entry in self.entries.items():
                if isinstance(entry, Variable):
                    self.parent.ended.setdefault(name, entry)

    def visible(self) -> Iterator[tuple[str, Entry]]:
        """Every name in sight with what it means, innermost first."""
        seen: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            for name, entry in scope.entries.items():
                if name not in seen:
                    seen.add(name)
                    yield name, entry
            scope = scope.parent

    def names(self) -> set[str]:
        return {name for name, _ in self.visible()}

    def all_own(self) -> Iterator[Variable]:
        """The variables of this very block."""
        return (entry for entry in self.entries.values() if isinstance(entry, Variable))

    def variables(self) -> dict[str, Type]:
        return {name: entry.type for name, entry in self.visible() if isinstance(entry, Variable)}

    def size(self, name: str, span: Span = NOWHERE) -> ShapeExpr | None:
        """What a name stands for in a shape."""
        entry = self.variable(name)
        if entry is not None and entry.kind is VariableKind.SIZE:
            return ShapeExpr.of(name)
        return ShapeExpr((), entry.whole) if entry is not None and entry.whole is not None else None

    def functions(self) -> dict[str, Function]:
        return {name: entry.node for name, entry in self.visible() if isinstance(entry, UserFunction)}


def name_place(declaration: Node) -> Span:
    span: Span = getattr(declaration, "name_span", NOWHERE)
    return declaration.span if span == NOWHERE else span
