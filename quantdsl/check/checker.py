"""What QuantDSL's rules share beyond the checker of all languages: what a body may do, and what changes states."""

from compiler.diagnostics import Diagnostics
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CheckerOf, Frame
from compiler.typed_ast.elsewhere import NAMES
from compiler.typed_ast.meaning import LanguageSettings, Meaning, Refusal
from compiler.typed_ast.rules import CORE
from compiler.typed_ast.scope import Scope, VariableKind
from compiler.typed_ast.types import UNIT
from compiler.typed_ast.yielded import Yielded
from quantdsl import nodes as quant
from quantdsl.check.world import Market, World
from runtime.records import Factory, define


@define(eq=False)
class QuantFrame(Frame):
    """`what` is "handler", "function", "signal", "test", "strategy" or "constant"; `result` what `return` or `emit` gives; `market`
    the names of the instrument and currency that `I` and `C` stand for, `in_strategy` whether they are a strategy's. `yielded`: what the
    compute block around gives."""

    what: str = "constant"
    market: Market = (None, None)
    in_strategy: bool = False
    yielded: Yielded | None = None

    @property
    def may_leave_without_value(self) -> bool:
        return self.what in ("handler", "test") or (self.result in (None, UNIT) and self.what == "function")


@define(eq=False)
class QuantFindings:
    """`changes`: the assignments and calls that change a state, each with its name."""

    world: World
    changes: dict[Span, str] = Factory(dict)


QuantChecker = CheckerOf[QuantFindings, QuantFrame]
RULES = CORE.extended()
_ELSEWHERE = {word: NAMES[word] for word in ("True", "TRUE", "False", "FALSE")} | dict.fromkeys(
    ("None", "null", "NULL", "nil", "nullptr"), "write `none`"
)
infers, checks = RULES.infers, RULES.checks
_STATEMENT = Refusal("this statement", "return a `Result`")
_EXPRESSION = Refusal("this expression")
_AT_TOP = frozenset(
    (
        nodes.Config, nodes.EnumDeclaration, nodes.Function, nodes.Impl, nodes.Import, nodes.LaterDeclaration, nodes.Module,
        nodes.ProgramParameter, nodes.Struct, nodes.Test, nodes.Trait, nodes.TypeAlias,
        quant.Currency, quant.Instrument, quant.Risk, quant.Signal, quant.Strategy,
    )
)  # fmt: skip
MEANING = Meaning(
    RULES,
    LanguageSettings(int_beside_f32="f64", list_literal="array"),
    {
        nodes.Lambda: Refusal("a function without a name", "write a `fn`"),
        nodes.DictLiteral: Refusal("a dict", "use `table<K, V, N>`"),
        nodes.Comprehension: Refusal("a comprehension", "write a `for`"),
        nodes.Try: Refusal("`try`", "`match` a `Result`"),
        nodes.Await: Refusal("`await`", "use the value where it is ready"),
        nodes.Slice: Refusal("a slice", "index one element after the other"),
        nodes.EllipsisIndex: _EXPRESSION,
        nodes.OperatorValue: _EXPRESSION,
        nodes.LaterExpression: _EXPRESSION,
        nodes.Throw: _STATEMENT,
        nodes.LaterStatement: _STATEMENT,
        nodes.Render: _STATEMENT,
    },
    at_top=_AT_TOP,
    not_yet="is valid, but not supported yet in QuantDSL",
    some="some",
    none="none",
    elsewhere=_ELSEWHERE,
    function="fn",
    result=" -> ",
)


def quant_checker(world: World, diagnostics: Diagnostics) -> QuantChecker:
    return CheckerOf(MEANING, QuantFrame(result=UNIT), QuantFindings(world), world.declared, diagnostics)


def note_change(checker: QuantChecker, target: nodes.Expression, span: Span, scope: Scope) -> None:
    """Something changes a variable, or a part of one: a strategy's state is noted, and any is refused inside a compute block."""
    while isinstance(target, nodes.Field | nodes.Index):
        target = target.value
    variable = scope.variable(target.name) if isinstance(target, nodes.Name) else None
    if variable is None or variable.kind is not VariableKind.STATE:
        return
    if checker.frame.what != "signal":
        checker.own.changes[span] = variable.name
    if checker.frame.yielded is not None:
        hint = "`yield` what is to be remembered, and assign the block's value behind it"
        checker.report("0410", f"the state `{variable.name}` is written inside `compute`", span, hint=hint)
