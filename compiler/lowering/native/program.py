"""One program being elaborated: its declarations, its module, and the functions made so far."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.types import HirType
from compiler.lowering.native.instances import Instance
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.names import ConstantExpression, NameMeaning, NamesInSight
from compiler.lowering.native.rules import NativeRules
from compiler.typed_ast import nodes
from compiler.typed_ast.callees_first import callees_first
from compiler.typed_ast.checker import CheckerOf
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.declarations import CallableDeclaration, changes_receiver
from compiler.typed_ast.free_names import names_from_outside
from compiler.typed_ast.rebuild import rebuild
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import UNIT, Type
from runtime.records import Factory, define, field, frozen

DEEPEST = 100
"""Copies of one function that may be being written at once, each called by the one before; and functions that may be, before those further
down are written first."""


@frozen
class Surroundings:
    """What the body of a declaration sees: names, capacities, functions; `frame`: how the checker's frame differs there."""

    names: NamesInSight
    sizes: Scope
    functions: Mapping[str, CallableDeclaration]
    frame: Mapping[str, object] = Factory(dict)


@define(eq=False)
class Elaboration:
    """`own`: what the language keeps of the program; `top` is what plain functions see, with the checker's `frame` changed so; `around`
    says so for declarations that see more. `exported`: the functions that can be called from outside, by identity; `hir_names`: those that
    have names of their own in HIR. `lent`: memory that every function takes first, by its key."""

    own: Any
    checker: CheckerOf[Any, Any]
    program: ModuleBuilder
    layouts: Layouts
    functions: Mapping[str, CallableDeclaration]
    frame: Mapping[str, object] = Factory(dict)
    exported: frozenset[int] = frozenset()
    hir_names: Mapping[str, str] = Factory(dict)
    lent: Mapping[object, HirType] = Factory(dict)
    around: dict[int, Surroundings] = Factory(dict)
    instances: dict[object, Instance] = Factory(dict)
    top: Surroundings = field(init=False)
    _names: dict[str, int] = Factory(dict)
    _writing: list[Instance] = Factory(list)
    _begun: set[int] = Factory(set)
    """The declarations, by identity, of which there is an instance."""

    def __attrs_post_init__(self) -> None:
        self.top = Surroundings(NamesInSight(), Scope(), self.functions, self.frame)

    @property
    def rules(self) -> NativeRules:
        return self.layouts.rules

    # ---- declarations ----

    def is_prelude(self, callee: CallableDeclaration) -> bool:
        return callee.span.path == self.rules.prelude and callee.body is None

    def resolve(self, written: nodes.TypeSyntax, sizes: Scope, bound: Mapping[str, Type] | None = None) -> Type:
        """A type as written."""
        return self.rules.resolve(self.checker, written, sizes, bound)

    def surroundings(self, callee: CallableDeclaration) -> Surroundings:
        return self.around.get(id(callee), self.top)

    def typed(self, node: nodes.Expression, place: Type | None) -> nodes.Expression:
        """An expression with its types found: defaults of parameters and fields, which are checked where they are used."""
        self.checker.infer(node, self.top.sizes, place)
        self.checker.diagnostics.raise_errors()
        return rebuild(node, self.checker.findings)

    def declare_constant(
        self,
        around: Surroundings,
        name: str,
        annotation: nodes.TypeSyntax | None,
        value: nodes.Expression,
        kind: VariableKind = VariableKind.CONSTANT,
    ) -> None:
        """A `const` or `param`; its value is written where its name stands."""
        type = self.resolve(annotation, around.sizes) if annotation is not None else strong(value.type)
        around.names.found[name] = NameMeaning(ConstantExpression(value, type))
        around.sizes.add(Variable(name, type, kind, constant=whole_constant(value, around.sizes)))

    # ---- functions ----

    def fresh(self, name: str) -> str:
        """A name that no function has yet."""
        number = self._names.get(name, 0)
        self._names[name] = number + 1
        return f"{name}.n{number}" if number else name

    def instance(
        self,
        callee: CallableDeclaration,
        bound: Mapping[str, Type] | None = None,
        constants: Mapping[str, int] | None = None,
        given: Mapping[str, Type] | None = None,
        wraps: bool = False,
    ) -> Instance:
        """The function for these type and constant parameters, and for arguments of these types, with ints that stop or wrap where they
        overflow; written if it wasn't yet."""
        around = self.surroundings(callee)
        bound, constants = bound or {}, constants or {}
        with self.seeing(around):
            parameters, result = self._types(callee, around, bound, constants, given or {})
            types = (*(str(type) for _, type in parameters), *(f"{name}={type}" for name, type in bound.items()))
            key = (id(callee), wraps, *types, *sorted(constants.items()))
            if key in self.instances:
                found = self.instances[key]
                found.circular |= found.open
                return found
            name = self.fresh(self.hir_names.get(callee.name, f"fn.{callee.name}"))
            receiver = parameters[0][1] if changes_receiver(callee) else None
            made = Instance(name, callee, bound, constants, wraps, parameters, result, receiver)
            self.instances[key] = made
            self._writing.append(made)
            self._begun.add(id(callee))
            if len(self._writing) > DEEPEST:
                self._require_end(callee)
                self._write_callees(callee, wraps)
            self._write(made, around)
            self._writing.pop()
        return made

    def _require_end(self, callee: CallableDeclaration) -> None:
        if sum(instance.callee is callee for instance in self._writing) > DEEPEST:
            message = f"`{callee.name}` calls itself with other types or constants over and over, and each makes a function of its own"
            raise ZyntaxError(Diagnostic("0109", message, callee.name_span, hint="pass the number as a plain parameter"))

    def _write_callees(self, callee: CallableDeclaration, wraps: bool) -> None:
        """Writes the functions that it leads to, of which there is one instance only, from the last of a chain of calls to the first."""

        by_id = {id(callee): callee}

        def called(caller: int) -> Iterator[int]:
            declaration = by_id[caller]
            functions = self.surroundings(declaration).functions
            for name in names_from_outside(declaration) if isinstance(declaration, nodes.Node) else ():
                if name in functions and id(functions[name]) not in self._begun and self._has_one_instance(functions[name]):
                    by_id[id(functions[name])] = functions[name]
                    yield id(functions[name])

        for function in callees_first([id(callee)], called)[:-1]:
            self.instance(by_id[function], wraps=wraps)

    def _has_one_instance(self, callee: CallableDeclaration) -> bool:
        """Whether neither types nor constants nor sizes of arguments choose among instances of a function of the program."""
        if not isinstance(callee, nodes.Function) or callee.body is None or callee.type_parameters:
            return False
        return all(isinstance(p.annotation, nodes.NamedTypeSyntax) and not p.annotation.arguments for p in callee.parameters)

    @contextmanager
    def seeing(self, around: Surroundings) -> Iterator[None]:
        """Types are resolved as in these surroundings."""
        with self.checker.within(parameters=frozenset(), **around.frame):
            yield

    def _types(
        self,
        callee: CallableDeclaration,
        around: Surroundings,
        bound: Mapping[str, Type],
        constants: Mapping[str, int],
        given: Mapping[str, Type],
    ) -> tuple[tuple[tuple[nodes.Parameter, Type], ...], Type]:
        """The parameters that are passed, with their types, and the type of the result."""
        sizes = Scope(around.sizes)
        for name, value in constants.items():
            sizes.add(Variable(name, UNIT, VariableKind.CONSTANT_PARAMETER, constant=value))
        found: list[tuple[nodes.Parameter, Type]] = []
        for parameter in callee.parameters:
            if isinstance(parameter.annotation, nodes.ConstantTypeSyntax):
                continue
            assert parameter.annotation is not None
            type = self.resolve(parameter.annotation, sizes, bound)
            found.append((parameter, given.get(parameter.name, type) if self.layouts.is_sized(type) else type))
        result = self.resolve(callee.result, sizes, bound) if callee.result is not None else self.rules.result(callee)
        return tuple(found), result

    def _write(self, made: Instance, around: Surroundings) -> None:
        callee = made.callee
        self.rules.tables.functions[type(callee)](self, made, around)
        made.open = False
        if made.circular and made.borrowed:
            raise self.rules.not_supported(f"`{callee.name}` calls itself and has memory, which", callee.name_span, "use a loop")

