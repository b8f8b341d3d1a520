"""What names stand for while a function is written, and the memory that callers lend it."""

from typing import Any

from compiler.hir.native_expressions import Record
from compiler.hir.types import HirType
from compiler.lowering.native.values import Location, Value
from compiler.typed_ast import nodes
from compiler.typed_ast.types import Type
from runtime.records import Factory, define, frozen


@frozen
class ConstantExpression:
    """A `const` or `param`: its expression is written wherever the name stands."""

    value: nodes.Expression
    type: Type


@frozen
class LentVariable:
    """A variable in memory that callers lend (`Context.borrow`): a strategy's or a signal's state. Its address is asked for when its name
    is used. `within`: it is that part, by `path`, of lent memory of this type."""

    key: Any
    type: Type
    within: HirType | None = None
    path: tuple[str, ...] = ()


@frozen
class NameMeaning:
    """What a name stands for."""

    held: Value | Location | ConstantExpression | LentVariable


@define(eq=False)
class NamesInSight:
    """Names in sight; an inner scope hides an outer one."""

    outer: "NamesInSight | None" = None
    found: dict[str, NameMeaning] = Factory(dict)

    def find(self, name: str) -> NameMeaning | None:
        scope: NamesInSight | None = self
        while scope is not None:
            if name in scope.found:
                return scope.found[name]
            scope = scope.outer
        return None

    def inner(self) -> "NamesInSight":
        return NamesInSight(self)


@define(eq=False)
class LentMemory:
    """Memory that a function gets from whoever calls it, as one more parameter. What is `shared` is the same memory for all that ask for
    `key`; what isn't is another one for each place of call."""

    key: Any
    type: HirType
    shared: bool
    pointer: Record
