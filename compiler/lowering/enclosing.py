"""What is known at a point of a body from what stands around it: loops, branches, guards, and the bounds of indices."""

from collections.abc import Iterator
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.prover import Inequalities
from compiler.lowering.ranges import NumberRange
from compiler.typed_ast import nodes
from runtime.records import Factory, define, frozen


@frozen(eq=False)
class Truth:
    """A condition: its value, and the forms that are at least 0 where it holds (`yes`) and where it doesn't (`no`)."""

    value: Value
    yes: tuple[Affine, ...] = ()
    no: tuple[Affine, ...] = ()


@define(eq=False)
class Enclosing:
    facts: Inequalities = Factory(Inequalities)
    ranges: list[NumberRange] = Factory(list)
    loops: list[tuple[str, NumberRange]] = Factory(list)
    """The variables of loops as the program calls them."""
    depth: int = 0
    """Loops around, also those without a variable."""
    guards: list[Affine] = Factory(list)
    """Forms that are at least 0 here."""
    path: list[tuple[int, int]] = Factory(list)
    """The branches and unbounded loops around."""
    opaque: set[str] = Factory(set)
    """Indices that are known only as the kernel runs."""
    upper: dict[str, Affine] = Factory(dict)
    """Names that a `min` or `clamp` bounds by sizes."""
    truths: dict[str, Truth] = Factory(dict)
    """Conditions by the names of their values."""
    where: tuple[int, Value] | None = None
    """A condition that makes loads safe, and how many facts are known without it."""
    extent: nodes.Expression | None = None
    """The extent, of a loop or of a result, that is being evaluated."""
    element: tuple[Affine, ...] | None = None
    """The index at which a line of whole tensors is computed."""

    @contextmanager
    def branch(self, number: int, branch: int, guards: tuple[Affine, ...] = ()) -> Iterator[None]:
        """Inside branch `branch` of the construct `number`, where `guards` hold."""
        mark, count = self.facts.mark(), len(self.guards)
        self.path.append((number, branch))
        self.assume(guards)
        try:
            yield
        finally:
            self.path.pop()
            self.facts.forget(mark)
            del self.guards[count:]

    def assume(self, guards: tuple[Affine, ...]) -> None:
        for guard in guards:
            self.guards.append(guard)
            self.facts.at_least_zero(guard)

    def enter_range(self, loop: NumberRange) -> None:
        self.ranges.append(loop)
        self.facts.at_least_zero(*loop.inequalities)

    @contextmanager
    def sizing(self, extent: nodes.Expression) -> Iterator[None]:
        """While an extent is evaluated."""
        before, self.extent = self.extent, extent
        try:
            yield
        finally:
            self.extent = before

    def is_size(self, name: str) -> bool:
        """Whether a name in a form is a size or fact of the launch, rather than something that varies in the body."""
        return name not in self.opaque and all(name != loop.name for loop in self.ranges)
