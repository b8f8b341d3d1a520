"""What all parts of the checker share: where messages go, the types found so far, the body that is being checked."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import Factory, evolve

from compiler.diagnostics import Diagnostic, Diagnostics, Label, Severity
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import ERROR, UNIT, Type
from quantdsl.check.scope import CheckedVariable, CheckScope
from quantdsl.check.turns import CountedLoop
from quantdsl.check.world import World
from quantdsl.check.yielded import Yielded
from runtime.records import define, frozen


@frozen
class CheckedBody:
    """What the statements being checked belong to.

    `what` is "handler", "function", "signal", "test", "strategy" or "constant"; `result` the type that `return` or `emit` gives; `market`
    the names of the instrument and currency that `I` and `C` stand for, `in_strategy` whether they are a strategy's; `parameters` the type
    parameters in sight, `bounds` what is asked of them; `aliases` the types being resolved. `sometimes`: what is checked isn't
    reached exactly once each time; `turns`: the loops around, each of whose turns surely reaches it. `yielded`: what the compute block
    around gives."""

    what: str
    result: Type = UNIT
    market: tuple[str | None, str | None] = (None, None)
    in_strategy: bool = False
    parameters: frozenset[str] = frozenset()
    bounds: Mapping[str, str] = Factory(dict)
    sometimes: bool = False
    turns: tuple[CountedLoop, ...] = ()
    aliases: frozenset[str] = frozenset()
    yielded: Yielded | None = None


@define(eq=False)
class QuantChecker:
    """One program's check. `top` has its constants and parameters, which types may name; `changes` the assignments and calls that change a
    state, each with its name."""

    world: World
    diagnostics: Diagnostics = Factory(Diagnostics)
    types: dict[int, Type] = Factory(dict)
    body: CheckedBody = Factory(lambda: CheckedBody("constant"))
    present: list[CheckedVariable] = Factory(list)
    top: CheckScope = Factory(CheckScope)
    changes: dict[Span, str] = Factory(dict)

    def report(
        self, code: str, message: str, span: Span, *, hint: str | None = None, label: str = "", others: tuple[Label, ...] = ()
    ) -> Type:
        """Notes an error and gives the type of what is wrong."""
        self.diagnostics.add(Diagnostic(code, message, span, label, others, hint=hint))
        return ERROR

    def warn(self, code: str, message: str, span: Span, hint: str) -> None:
        self.diagnostics.add(Diagnostic(code, message, span, hint=hint, severity=Severity.WARNING))

    def note_change(self, target: nodes.Expression, span: Span, scope: CheckScope) -> None:
        """Something changes a variable, or a part of one: a strategy's state is noted, and any is refused inside a compute block."""
        while isinstance(target, nodes.Field | nodes.Index):
            target = target.value
        variable = scope.find(target.name) if isinstance(target, nodes.Name) else None
        if variable is None or variable.kind != "state":
            return
        if self.body.what != "signal":
            self.changes[span] = variable.name
        if self.body.yielded is not None:
            hint = "`yield` what is to be remembered, and assign the block's value behind it"
            self.report("0410", f"the state `{variable.name}` is written inside `compute`", span, hint=hint)

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Checks what isn't reached each time."""
        with self.within(sometimes=True, turns=()):
            yield

    @contextmanager
    def within(self, **changes: Any) -> Iterator[None]:
        """Checks with a body that differs in these respects."""
        before, self.body = self.body, evolve(self.body, **changes)
        try:
            yield
        finally:
            self.body = before

    def infer(self, node: nodes.Expression, scope: CheckScope, expected: Type | None = None, used: bool = True) -> Type:
        """The type of an expression. `expected` is what its place wants, which literals take; nothing is required of the result here."""
        found = _INFER[type(node)](self, node, scope, expected, used)
        self.types[id(node)] = found
        return found

    def statement(self, node: nodes.Statement, scope: CheckScope) -> Type:
        """Checks a statement; gives NEVER when nothing behind it is reached."""
        return _CHECK[type(node)](self, node, scope)


Infer = Callable[[QuantChecker, Any, CheckScope, Type | None, bool], Type]
Check = Callable[[QuantChecker, Any, CheckScope], Type]
_INFER: dict[type, Infer] = {}
_CHECK: dict[type, Check] = {}


def infers(*classes: type[nodes.Expression]) -> Callable[[Infer], Infer]:
    """Registers the rule for expressions of these classes."""

    def register(rule: Infer) -> Infer:
        _INFER.update(dict.fromkeys(classes, rule))
        return rule

    return register


def checks(*classes: type[nodes.Statement]) -> Callable[[Check], Check]:
    """Registers the rule for statements of these classes."""

    def register(rule: Check) -> Check:
        _CHECK.update(dict.fromkeys(classes, rule))
        return rule

    return register


def uncovered() -> set[str]:
    """Names of the tree's classes of expressions and statements that no rule covers."""
    from quantdsl import nodes as quant

    known = {**vars(nodes), **vars(quant)}.values()
    bases = (nodes.Expression, nodes.Statement)
    concrete = {cls for cls in known if isinstance(cls, type) and issubclass(cls, bases) and cls not in (*bases, nodes.Declaration)}
    return {cls.__name__ for cls in concrete - set(_INFER) - set(_CHECK)}
