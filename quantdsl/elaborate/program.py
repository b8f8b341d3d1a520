"""One program being elaborated: its declarations, its module, and the functions made so far."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from attrs import Factory, field

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.types import UNIT, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.constants import constant_int
from quantdsl.check.literals import settled
from quantdsl.check.resolve import resolve
from quantdsl.check.scope import CheckedVariable, CheckScope
from quantdsl.check.world import World
from quantdsl.elaborate.desk import DeskNeeds
from quantdsl.elaborate.instances import Callee, Instance, Market
from quantdsl.elaborate.layouts import Layouts
from quantdsl.elaborate.names import ConstantExpression, NameMeaning, NamesInSight
from quantdsl.native.build import ModuleBuilder
from runtime.records import define, frozen

DEEPEST = 100
"""Functions that may be being written at once, each called by the one before."""


@frozen
class Surroundings:
    """What the body of a declaration sees: names, capacities, functions, and what `I` and `C` stand for."""

    names: NamesInSight
    sizes: CheckScope
    functions: Mapping[str, Callee]
    market: Market
    in_strategy: bool = False


@define(eq=False)
class Elaboration:
    """`top` is what plain functions see; `around` says so for declarations that see more. `exported`: the functions that can be called from
    outside, by identity; `desk`: what the strategy being written has to do with the engine."""

    world: World
    checker: QuantChecker
    program: ModuleBuilder
    layouts: Layouts
    functions: dict[str, Callee]
    market: Market
    exported: frozenset[int] = frozenset()
    desk: DeskNeeds | None = None
    around: dict[int, Surroundings] = Factory(dict)
    instances: dict[object, Instance] = Factory(dict)
    top: Surroundings = field(init=False)
    _names: dict[str, int] = Factory(dict)

    def __attrs_post_init__(self) -> None:
        self.top = Surroundings(NamesInSight(), CheckScope(), self.functions, self.market)

    # ---- declarations ----

    def is_prelude(self, callee: Callee) -> bool:
        return callee.span.path == "<prelude>"

    def surroundings(self, callee: nodes.Node) -> Surroundings:
        return self.around.get(id(callee), self.top)

    def typed(self, node: nodes.Expression, place: Type | None) -> nodes.Expression:
        """An expression with its types found: defaults of parameters and fields, which are checked where they are used."""
        self.checker.infer(node, self.top.sizes, place)
        self.checker.diagnostics.raise_errors()
        return rebuild(node, self.checker.types, {})

    def declare_constant(
        self, around: Surroundings, name: str, annotation: nodes.TypeSyntax | None, value: nodes.Expression, kind: str = "const"
    ) -> None:
        """A `const` or `param`; its value is written where its name stands."""
        type = resolve(self.checker, annotation, around.sizes) if annotation is not None else settled(value.type)
        around.names.found[name] = NameMeaning(ConstantExpression(value, type))
        around.sizes.add(CheckedVariable(name, type, kind, constant=constant_int(value, around.sizes)))

    # ---- functions ----

    def fresh(self, name: str) -> str:
        """A name that no function has yet."""
        number = self._names.get(name, 0)
        self._names[name] = number + 1
        return f"{name}.n{number}" if number else name

    def instance(
        self,
        callee: Callee,
        bound: Mapping[str, Type] | None = None,
        constants: Mapping[str, int] | None = None,
        given: Mapping[str, Type] | None = None,
    ) -> Instance:
        """The function for these type and constant parameters, and for arguments of these types; written if it wasn't yet."""
        around = self.surroundings(callee)
        bound, constants = bound or {}, constants or {}
        with self.seeing(around):
            parameters, result = self._types(callee, around, bound, constants, given or {})
            key = (id(callee), *(str(type) for _, type in parameters), *sorted(constants.items()), *(f"{n}={t}" for n, t in bound.items()))
            if key in self.instances:
                found = self.instances[key]
                found.circular |= found.open
                return found
            made = Instance(self.fresh(f"fn.{callee.name}"), callee, bound, constants, parameters, result)
            self.instances[key] = made
            if sum(instance.open for instance in self.instances.values()) > DEEPEST:
                message = f"`{callee.name}` calls itself with other types or constants over and over, and each makes a function of its own"
                raise ZyntaxError(Diagnostic("0109", message, callee.name_span, hint="pass the number as a plain parameter"))
            self._write(made, around)
        return made

    @contextmanager
    def seeing(self, around: Surroundings) -> Iterator[None]:
        """Types are resolved as in these surroundings."""
        with self.checker.within(market=around.market, in_strategy=around.in_strategy, parameters=frozenset()):
            yield

    def _types(
        self,
        callee: Callee,
        around: Surroundings,
        bound: Mapping[str, Type],
        constants: Mapping[str, int],
        given: Mapping[str, Type],
    ) -> tuple[tuple[tuple[nodes.Parameter, Type], ...], Type]:
        """The parameters that are passed, with their types, and the type of the result."""
        sizes = CheckScope(around.sizes)
        for name, value in constants.items():
            sizes.add(CheckedVariable(name, UNIT, "const parameter", constant=value))
        found: list[tuple[nodes.Parameter, Type]] = []
        for parameter in callee.parameters:
            if isinstance(parameter.annotation, nodes.ConstantTypeSyntax):
                continue
            assert parameter.annotation is not None
            type = resolve(self.checker, parameter.annotation, sizes, bound)
            found.append((parameter, given.get(parameter.name, type) if isinstance(type, qt.Container) else type))
        result = resolve(self.checker, callee.result, sizes, bound) if callee.result is not None else UNIT
        return tuple(found), result

    def _write(self, made: Instance, around: Surroundings) -> None:
        callee = made.callee
        _WRITERS[type(callee)](self, made, around)
        made.open = False
        if made.circular and made.borrowed:
            message = f"`{callee.name}` calls itself and has memory, which is valid, but not supported yet in QuantDSL"
            raise ZyntaxError(Diagnostic("0109", message, callee.name_span, hint="use a loop"))


Writer = Callable[[Elaboration, Instance, Surroundings], None]
_WRITERS: dict[type, Writer] = {}


def writes(kind: type) -> Callable[[Writer], Writer]:
    """Registers what writes an instance of a function, or of a signal."""

    def register(writer: Writer) -> Writer:
        _WRITERS[kind] = writer
        return writer

    return register
