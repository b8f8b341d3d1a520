"""What names mean in a body: variables, operands, sizes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.lowering.numbers import Nothing, Number, Operand, affine
from compiler.source import Span
from compiler.typed_ast.types import DType
from runtime.records import Factory, define, frozen


@define(eq=False)
class BoundVariable:
    """A `var`: its slot, and the type that flowed in. `fixed`: the type was written or came from a typed value."""

    name: str
    key: tuple[Any, ...]
    slot: Value
    dtype: DType
    weak: bool
    origin: DType | None
    fixed: bool
    span: Span
    depth: int


@frozen(eq=False)
class BoundParts:
    """A `var` of several numbers: a value of its kind, and a variable for each of its numbers, in the order of `composites.leaves`."""

    kind: Operand
    variables: tuple[BoundVariable, ...]


Bound = Operand | BoundVariable | BoundParts


@frozen
class Binding:
    """What a name means: an operand, a variable, or (for messages) how it was bound."""

    value: Bound
    span: Span
    how: str


Scope = dict[str, Binding]


@define(eq=False)
class Bindings:
    """`sizes`: those that are known; `unsolved`: those that the walks find out, with what they are used for in `wanted`; `of_loops`: all
    that bound loops."""

    sizes: dict[str, Affine] = Factory(dict)
    unsolved: frozenset[str] = frozenset()
    of_loops: frozenset[str] = frozenset()
    wanted: dict[str, Span] = Factory(dict)
    scopes: list[Scope] = Factory(lambda: [{}])

    def lookup(self, name: str) -> Binding | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def bind(self, name: str, value: Bound, span: Span, how: str) -> None:
        self.scopes[-1][name] = Binding(value, span, how)

    def poison(self, name: str, span: Span) -> None:
        """The name of a broken statement: its uses stay silent."""
        self.bind(name, Nothing(), span, "poison")

    @contextmanager
    def scope(self) -> Iterator[None]:
        with self.within({}):
            yield

    @contextmanager
    def within(self, names: Scope) -> Iterator[None]:
        """Inside a scope that has these names already."""
        self.scopes.append(names)
        try:
            yield
        finally:
            self.scopes.pop()

    def size(self, name: str, span: Span) -> Number | None:
        """The size of that name, when it is one. Sizes that aren't solved yet stand for themselves."""
        if name in self.sizes:
            return affine(self.sizes[name])
        if name in self.unsolved:
            self.wanted.setdefault(name, span)
            return affine(Affine.of(name))
        return None

    def all(self) -> set[str]:
        return {name for scope in self.scopes for name in scope} | set(self.sizes) | self.of_loops
