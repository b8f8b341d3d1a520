"""Names in sight: variables and how they may change. Scopes nest; an inner one hides an outer."""

from attrs import Factory

from compiler.source import NOWHERE, Span
from compiler.typed_ast.nodes import Expression
from compiler.typed_ast.types import Type
from runtime.records import define


@define(eq=False)
class CheckedVariable:
    """`kind` as a message calls it: "let", "var", "parameter", "state", "loop variable", "const", "param". `constant` is its value where
    that is a whole number known to the compiler; `present`: it is an optional that is known to have a value (`presence.py`). For indices
    (`turns.py`): `value` is what a `let` of an int stands for, with what that sees; `now` what a `var` is until it is first assigned to."""

    name: str
    type: Type
    kind: str = "let"
    span: Span = NOWHERE
    constant: int | None = None
    present: bool = False
    value: "tuple[Expression, CheckScope] | None" = None
    now: int | None = None

    @property
    def mutable(self) -> bool:
        return self.kind in ("var", "state")


@define(eq=False)
class CheckScope:
    outer: "CheckScope | None" = None
    variables: dict[str, CheckedVariable] = Factory(dict)

    def find(self, name: str) -> CheckedVariable | None:
        scope: CheckScope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.outer
        return None

    def as_now(self) -> "CheckScope":
        """The scope without what is added to it later."""
        return CheckScope(self.outer, dict(self.variables))

    def add(self, variable: CheckedVariable) -> None:
        if variable.name != "_":
            self.variables[variable.name] = variable

    def names(self) -> set[str]:
        return set(self.variables) | (self.outer.names() if self.outer else set())
