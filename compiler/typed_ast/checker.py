"""The checker of all languages: the state of one run, and what their rules ask it. The core's rules stand in the infer_*.py files, one
idea each."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from compiler.diagnostics import Diagnostic, Diagnostics, Label, Severity
from compiler.source import NOWHERE, Span
from compiler.typed_ast.assigned_names import assigned_by_functions
from compiler.typed_ast.constants import constant
from compiler.typed_ast.declarations import Declarations, defined_twice
from compiler.typed_ast.library import Library
from compiler.typed_ast.meaning import UNKNOWN_KIND, Meaning, Refusal, RuleTable, TypeRules
from compiler.typed_ast.nodes import (
    Block,
    Compute,
    Conditional,
    Declaration,
    Expression,
    ExpressionStatement,
    Function,
    If,
    Match,
    Name,
    Node,
    Parameter,
    Program,
    Statement,
    Try,
    TypeSyntax,
)
from compiler.typed_ast.resolve_types import TypeResolver
from compiler.typed_ast.scope import Findings, Scope, UserFunction, Variable
from compiler.typed_ast.turns import CountedLoop
from compiler.typed_ast.types import ERROR, UNIT, UNKNOWN, Type
from runtime.records import Factory, define, evolve, field, frozen
from runtime.tuples import as_tuple

Own = TypeVar("Own")
FindModule = Callable[[tuple[str, ...]], bool]
"""Whether `import a.b` finds a file."""

CORE = RuleTable()
"""The rules of all languages, which the files of `rules` fill."""
ZYNML_RULES = RuleTable()
infers, checks = ZYNML_RULES.infers, ZYNML_RULES.checks

FunctionRule = Callable[[Any, UserFunction], Type]
"""Checks a function's body, once; the type of its result."""

MAX_INSTANCES = 400
MAX_INSTANCE_DEPTH = 12
SHOWN_CALLS = 4
"""How many of the calls that lead to a fault in a generic function a message shows."""


@frozen
class ComputeOutcome:
    """What a compute block's value is, and what is wrong with the block. `analyse`: finds faults and warnings that the type doesn't
    depend on; asked when the whole file has its types."""

    type: Type
    diagnostics: tuple[Diagnostic, ...] = field(default=(), converter=as_tuple)
    analyse: Callable[[], tuple[Diagnostic, ...]] = tuple


class ComputeRule(Protocol):
    """Types a compute block, whose body the checker does not look into. `node` has its inputs typed and its metadata filled."""

    def __call__(self, node: Compute, scope: Mapping[str, Type], functions: Mapping[str, Function]) -> ComputeOutcome: ...


def unknown_compute(node: Compute, scope: Mapping[str, Type], functions: Mapping[str, Function]) -> ComputeOutcome:
    """The rule where nothing looks into kernels: the value may be a tensor, a number or a tuple."""
    return ComputeOutcome(UNKNOWN)


@define(eq=False)
class Frame:
    """The function, or another body, being checked: what it must return, what it returns, how many loops are around. `declared`: the span
    of the declared result; `top` marks the program's own statements. `parameters`: the type parameters in sight, `bounds` what is asked of
    them; `aliases`: the type names being resolved. `sometimes`: what is checked isn't reached exactly once each time; `turns`: the loops
    around, each of whose turns surely reaches it. `in_try`: faults are caught, so that a certain one is no error. `no_return`: why a body
    gives nothing by `return`, and what to write instead."""

    function: Function | None = None
    result: Type | None = None
    declared: Span = NOWHERE
    returns: list[Type] = Factory(list)
    loops: int = 0
    top: bool = False
    parameters: frozenset[str] = frozenset()
    bounds: Mapping[str, str] = Factory(dict)
    aliases: frozenset[str] = frozenset()
    sometimes: bool = False
    turns: tuple[CountedLoop, ...] = ()
    in_try: bool = False
    no_return: Refusal | None = None

    @property
    def may_leave_without_value(self) -> bool:
        """Whether `?` may leave the body with nothing in hand."""
        return self.function is not None and self.result in (None, UNIT)


FrameOf = TypeVar("FrameOf", bound=Frame, covariant=True)


def no_function(checker: Any, function: UserFunction) -> Type:
    return UNKNOWN


@define(eq=False)
class CheckerOf(Generic[Own, FrameOf]):
    """`own`: what the language's rules keep of a program; its frames may say more, too. `top`: the names that types may use; `present`:
    the optional variables that are known to have a value."""

    meaning: Meaning
    frame: FrameOf
    own: Own
    declarations: Declarations[Any] = Factory(lambda: Declarations((Function,)))
    diagnostics: Diagnostics = Factory(Diagnostics)
    library: Library = Factory(Library)
    compute_rule: ComputeRule = unknown_compute
    check_function: FunctionRule = no_function
    resolver: TypeResolver = field(init=False)
    top: Scope = Factory(Scope)
    present: list[Variable] = Factory(list)
    findings: Findings = Factory(Findings)
    find_module: FindModule | None = None
    program: Program | None = None
    top_names: dict[str, Span] = Factory(dict)
    """The variables that the program itself declares, wherever it does."""
    open_names: bool = False
    """True when an import brings names that are not known: an undefined name may be one of them."""
    # By the functions themselves, not their ids: those of nested functions come and go with the instances around them.
    instances: dict[tuple[Any, ...], Type] = Factory(dict)
    results: dict[UserFunction, Type] = Factory(dict)
    methods: dict[str, UserFunction] = Factory(dict)
    """Functions whose name has that of their type."""
    copies: dict[tuple[UserFunction, tuple[Type, ...]], UserFunction] = Factory(dict)
    """Those of generic functions, for the types that their type parameters stand for."""
    copies_of: dict[int, list[UserFunction]] = Factory(dict)
    """The same by the identity of the generic function's node."""
    kept: list[Node] = Factory(list)
    """Nodes that the checker made: what is found of them is kept by their identity."""
    in_progress: set[Any] = Factory(set)
    unanalysed: list[tuple[tuple[Label, ...], ComputeOutcome]] = Factory(list)
    """Compute blocks whose messages count, each with the calls of generic functions around it."""
    known: dict[int, int] = Factory(dict)
    """The values of ints that are computed when the program is checked, by the identity of the nodes."""
    reasons: dict[int, Label] = Factory(dict)
    """Why the place of a node wants what it wants, by the identity of the node."""
    _seen: set[tuple[str, Span | None]] = Factory(set)

    def __attrs_post_init__(self) -> None:
        self.resolver = TypeResolver(self.add, self.declarations)

    # ---- reporting ----

    def report(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        others: tuple[Label, ...] = (),
        *,
        notes: tuple[str, ...] = (),
        hint: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Type:
        """Says what is wrong; gives the type that silences what follows."""
        return self.add(Diagnostic(code, message, span, label, others, notes, hint, severity))

    def add(self, diagnostic: Diagnostic) -> Type:
        """Collects a diagnostic, once for a code and position."""
        if not self.findings.muted:
            self._report(diagnostic, self.findings.calls)
        return ERROR

    def _report(self, diagnostic: Diagnostic, calls: tuple[Label, ...]) -> None:
        key = (diagnostic.code, diagnostic.span)
        if key not in self._seen:
            self._seen.add(key)
            shown = calls if len(calls) <= SHOWN_CALLS else (*calls[: SHOWN_CALLS - 1], calls[-1])
            self.diagnostics.add(evolve(diagnostic, others=diagnostic.others + shown) if calls else diagnostic)

    def outcome(self, outcome: ComputeOutcome) -> None:
        """Reports the faults of a compute block that are known now; `analyse_blocks` reports the others."""
        for fault in outcome.diagnostics:
            self.add(fault)
        if not self.findings.muted:
            self.unanalysed.append((self.findings.calls, outcome))

    def analyse_blocks(self) -> None:
        """Reports what analysis finds wrong with the compute blocks."""
        for calls, outcome in self.unanalysed:
            for fault in outcome.analyse():
                self._report(fault, calls)

    def later(self, what: str, span: Span, hint: str | None) -> Type:
        """Reports a construct that nothing executes yet."""
        return self.report("0109", f"{what} {self.meaning.not_yet}", span, hint=hint)

    def refused(self, node: Node) -> bool:
        """Reports a node that the language refuses; what a declaration would bring is known, so that its uses, as
        records of a struct, are no further errors."""
        refusal = self.meaning.refuses.get(type(node))
        if refusal is None:
            return False
        if isinstance(node, Declaration):
            self.declarations.declare(node)
        self.later(refusal.what, node.span, refusal.hint)
        return True

    def constant(self, node: Expression, scope: Scope) -> object:
        """A value known now, also of the library's constants (`dtype=f32`); None when it isn't."""
        if isinstance(node, Name) and scope.find(node.name) is None and node.name in self.library.constants:
            return self.library.constants[node.name][1]
        return constant(node, scope)

    @cached_property
    def changed_elsewhere(self) -> frozenset[str]:
        """Variables that a function other than their own assigns."""
        return frozenset() if self.program is None else assigned_by_functions(self.program, self.declarations.may_change)

    def findings_here(self) -> Findings:
        """The findings as they are now: a later change of whether messages count doesn't change these."""
        return evolve(self.findings)

    def mute(self) -> None:
        self.findings.muted += 1

    def unmute(self) -> None:
        self.findings.muted -= 1

    # ---- inference ----

    def infer(self, node: Expression, scope: Scope, wanted: Type | None = None, used: bool = True) -> Type:
        """The type of an expression; reports what is wrong inside. `wanted` is what its place wants, which literals take; nothing is
        required of the result here."""
        found = ERROR if self.refused(node) else self.meaning.rules.values[type(node)](self, node, scope, wanted, used)
        self.findings.types[id(node)] = found
        return found

    def statement(self, node: Statement, scope: Scope) -> Type:
        """Checks a statement; gives NEVER when nothing behind it is reached."""
        if type(node) in self.meaning.at_top and not (self.frame.top and scope is self.top):
            self.report("0101", "a declaration can't stand inside a body", node.span, hint="move it out")
            return UNIT
        return UNIT if self.refused(node) else self.meaning.rules.statements[type(node)](self, node, scope)

    @contextmanager
    def within(self, **changes: Any) -> Iterator[None]:
        """Checks with the frame changed in these respects."""
        frame, before = self.frame, {name: getattr(self.frame, name) for name in changes}
        for name, value in changes.items():
            setattr(frame, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(frame, name, value)

    def resolve(self, written: TypeSyntax, scope: Scope, bound: Mapping[str, Type] | None = None) -> Type:
        """The type that is written; `bound`: what type parameters stand for in a part of a struct or enum."""
        return self.meaning.rules.resolve(self, written, scope, bound)

    def kind(self, type_: Type) -> TypeRules:
        """The rules of a type's class, or of the nearest class above that has some."""
        kinds = self.meaning.rules.kinds
        return next((kinds[base] for base in type(type_).__mro__ if base in kinds), UNKNOWN_KIND)

    def show(self, type_: Type) -> str:
        """A type as the language writes it."""
        return self.meaning.rules.show(type_)

    def key_of_function(self, function: UserFunction) -> str:
        """The name under which a function is declared; that of a function of a type has the type's."""
        return next((key for key, method in self.methods.items() if method is function), function.name)

    def type_of(self, node: Expression) -> Type:
        return self.findings.types.get(id(node), UNKNOWN)

    def require_distinct(self, parameters: tuple[Parameter, ...]) -> None:
        """No two parameters of one function may share a name."""
        seen: dict[str, Span] = {}
        for parameter in parameters:
            if parameter.name in seen:
                self.add(defined_twice(f"parameter `{parameter.name}`", parameter.span, seen[parameter.name]))
            seen.setdefault(parameter.name, parameter.span)


Checker = CheckerOf[Any, Frame]
"""As the core's rules see it."""


def leaves(node: Expression) -> Iterator[Expression]:
    """The expressions whose value is the value of `node`: the ends of its branches. Branches that have none are left out."""
    match node:
        case Block(statements=statements):
            if statements and isinstance(statements[-1], ExpressionStatement):
                yield from leaves(statements[-1].value)
        case If(then=then, otherwise=Block() as otherwise):
            yield from leaves(then)
            yield from leaves(otherwise)
        case Conditional(then=then_value, otherwise=otherwise_value):
            yield from leaves(then_value)
            yield from leaves(otherwise_value)
        case Match(arms=arms):
            for arm in arms:
                yield from leaves(arm.body)
        case Try(body=body, handlers=handlers):
            for block in (body, *(handler.body for handler in handlers)):
                yield from leaves(block)
        case _:
            yield node
