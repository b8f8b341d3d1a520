"""What the lowering of native functions asks of a language: what writes its nodes and functions, how the types that it adds are held, and
its words."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeVar

import attrs

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.native_expressions import Expr, Record
from compiler.hir.types import HirType, Tile
from compiler.source import Span
from compiler.typed_ast.exhaustiveness import Parts
from compiler.typed_ast.meaning import Meaning, Resolve
from compiler.typed_ast.nodes import Expression, Node, Statement
from compiler.typed_ast.types import UNIT, ListType, StringType, TensorType, Type
from runtime.records import Factory, define, evolve, frozen


def _nothing(type: Any) -> None:
    return None


def _no_value(holding: Any, value: Any, place: Type) -> None:
    return None


def _never(type: Any) -> bool:
    return False


def no_result(callee: Any) -> Type:
    return UNIT


@frozen(eq=False)
class TypeLowering:
    """How values of a type that a language adds are held: as one `number`, as `parts`, or always in memory as what `memory` gives, which
    is asked with the layouts of the program; `apart`: parts travel apart, whatever lies in memory among them. What says None of all has
    no form in native code. `sized`: the types have a capacity; `fit`: `(holding, value, place) -> value` of the type that a place has,
    None where only the name of the type changes. Of what a `for` goes over, `element` is the address of one by its index, and `count` how
    many there are: `(layouts, b, type, pointer, index)`."""

    number: Callable[[Any], Tile | None] = _nothing
    parts: Callable[[Any], Parts | None] = _nothing
    in_memory: Callable[[Any], bool] = _never
    apart: bool = False
    memory: Callable[[Any, Any], HirType] | None = None
    sized: bool = False
    fit: Callable[[Any, Any, Type], Any] = _no_value
    element: Callable[[Any, Any, Any, Record, Expr], Record] | None = None
    count: Callable[[Any, Any, Any, Record], Expr] | None = None


Elaborate = Callable[[Any, Any, Type | None], Any]
"""`(context, node, place) -> value`. `place` is the type that the value is wanted as, where that is known; the value may have another one
that `c.fit` turns into it."""
Execute = Callable[[Any, Any], None]
Write = Callable[[Any, Any, Any], None]
"""`(elaboration, instance, surroundings)`: writes the function of an instance."""
FieldOf = Callable[[Any, Any, str], Any]
"""`(context, value, name) -> value`: a field that is no part of the value."""
LiteralOf = Callable[[Any, Fraction, Any], Any]
"""`(context, number, type) -> value` of a literal that takes an added type."""
Emit = Callable[[Any, Any], Any]
"""`(context, bound call) -> value`."""
Combine = Callable[[Any, str, Any, Any], Any]
"""`(context, operator, left, right) -> value`, where a side is of an added type."""
GoneOver = Callable[[Any, Any], tuple[Expr, Callable[[Expr], Any]]]
"""`(context, value) -> (count, element)` of an added type that a `for` goes over; `element` gives one by its index."""
F = TypeVar("F", bound=Callable[..., Any])


@define(eq=False)
class LoweringTables:
    """What writes expressions and statements, by class of node; functions, by class of declaration; fields, literals and operations of
    added types, by class of type; and calls: of what the prelude declares, by name, and of what programs declare, by class. Files register
    theirs when they are imported."""

    values: MutableMapping[type[Node], Elaborate] = Factory(dict)
    statements: MutableMapping[type[Node], Execute] = Factory(dict)
    functions: MutableMapping[type, Write] = Factory(dict)
    fields: MutableMapping[type[Type], FieldOf] = Factory(dict)
    literals: MutableMapping[type[Type], LiteralOf] = Factory(dict)
    operations: MutableMapping[type[Type], Combine] = Factory(dict)
    gone_over: MutableMapping[type[Type], GoneOver] = Factory(dict)
    prelude: MutableMapping[str, Emit] = Factory(dict)
    of_declarations: MutableMapping[type, Emit] = Factory(dict)

    def extended(self) -> "LoweringTables":
        """The tables of a language: what it registers there, and all that stands in these."""
        return LoweringTables(*(ChainMap({}, getattr(self, table.name)) for table in attrs.fields(LoweringTables)))

    def elaborates(self, *classes: type[Expression]) -> Callable[[F], F]:
        """Registers what writes expressions of these classes."""
        return _registering(self.values, classes)

    def executes(self, *classes: type[Statement]) -> Callable[[F], F]:
        """Registers what writes statements of these classes."""
        return _registering(self.statements, classes)

    def writes(self, kind: type) -> Callable[[F], F]:
        """Registers what writes an instance of a declaration."""
        return _registering(self.functions, (kind,))

    def emits(self, *names: str) -> Callable[[F], F]:
        """Registers what writes the calls of functions of the prelude."""
        return _registering(self.prelude, names)

    def calls(self, kind: type) -> Callable[[F], F]:
        """Registers what writes the calls of a class of declarations."""
        return _registering(self.of_declarations, (kind,))

    def goes_over(self, *classes: type[Type]) -> Callable[[F], F]:
        return _registering(self.gone_over, classes)

    def gives_fields(self, *classes: type[Type]) -> Callable[[F], F]:
        return _registering(self.fields, classes)

    def gives_literals(self, *classes: type[Type]) -> Callable[[F], F]:
        return _registering(self.literals, classes)

    def combines(self, *classes: type[Type]) -> Callable[[F], F]:
        return _registering(self.operations, classes)


def _registering(table: MutableMapping[Any, Any], keys: Iterable[Any]) -> Callable[[F], F]:
    def register(rule: F) -> F:
        table.update(dict.fromkeys(keys, rule))
        return rule

    return register


CORE = LoweringTables()
"""What all languages have."""


_HEAP = {ListType: "a list", StringType: "text", TensorType: "a tensor"}


@define(eq=False)
class NativeRules:
    """`meaning`: what the checker asks of the language, with its words; `resolve`: the type that is written, as a body sees it, while the
    checker's own is for parts of structs and enums, too; `types`: by the classes of
    added types; `instead`: the types to use instead of those that need a heap; `prelude`: the path of what the language itself
    declares, of which no message speaks, and `hints` what to write instead of those of its functions that native code lacks; `in_library`:
    whether a place is of the library, so that what goes wrong there is told of the program's call; `passed_to_c`: what functions of C
    take, in words; `result`: of a function that doesn't declare one; `parameters_change`: any parameter may be assigned; `arithmetic`:
    writes checked arithmetic of ints, where the core doesn't: `(context, operation, left, right) -> value`; `power`: of two doubles, so,
    too; `begins`: what stands before the body of a function: `(context, body)`."""

    meaning: Meaning
    resolve: Resolve
    tables: LoweringTables = CORE
    types: Mapping[type[Type], TypeLowering] = Factory(dict)
    instead: str = "use numbers or `[T; N]`"
    prelude: str = "<prelude>"
    hints: Mapping[str, str] = Factory(dict)
    in_library: Callable[[Span], bool] = _never
    passed_to_c: str = "ints of 32 or 64 bits and floats"
    result: Callable[[Any], Type] = no_result
    parameters_change: bool = False
    arithmetic: Callable[[Any, str, Expr, Expr], Expr] | None = None
    power: Callable[[Any, Expr, Expr], Expr] | None = None
    begins: Callable[[Any, Node], None] | None = None

    def shown(self, type: Type) -> str:
        """A type as programs write it."""
        return self.meaning.rules.show(type)

    def not_supported(self, what: str, span: Span | None, hint: str) -> ZyntaxError:
        return ZyntaxError(Diagnostic("0109", f"{what} {self.meaning.not_yet}", span, hint=hint))

    def not_in_place(self, type_: Type, span: Span | None) -> ZyntaxError:
        """A value that doesn't lie in place: native code has no heap."""
        what = _HEAP.get(type_.__class__) or f"a `{self.shown(type_)}`"
        return self.not_supported(f"{what} in compiled code", span, self.instead)


@contextmanager
def located(span: Span) -> Iterator[None]:
    """What is refused inside, without a place of its own, is refused there."""
    try:
        yield
    except ZyntaxError as error:
        if all(found.span is not None for found in error.diagnostics):
            raise
        raise ZyntaxError(*(found if found.span is not None else evolve(found, span=span) for found in error.diagnostics)) from None
