"""What QuantDSL's types add to the rules of all languages: how they are read and written, their fields and elements, and what is said of a
value of another market."""

from collections.abc import Mapping

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.meaning import LiteralRule, TypeRules, always
from compiler.typed_ast.rules.indexing import element_of, no_element
from compiler.typed_ast.rules.loops import no_elements
from compiler.typed_ast.scope import Scope, Variable
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    F64,
    I64,
    EnumType,
    ListType,
    OptionType,
    Scalar,
    StringType,
    StructType,
    TensorType,
    Type,
)
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import library, operators
from quantdsl.check.checker import RULES, QuantChecker, note_change
from quantdsl.check.fits import CONVERSIONS, report_float, shown
from quantdsl.check.literals import on_grid
from quantdsl.check.resolve import resolve
from quantdsl.check.shadowing import warn_of_variable
from runtime.records import evolve

_PLAIN: dict[Type, Mapping[str, Type]] = {
    qt.SIDE: {"sign": I64, "opposite": qt.SIDE},
    qt.REJECT_MASK: dict.fromkeys(qt.RULES, BOOL),
    qt.REJECT_COUNTS: dict.fromkeys(qt.RULES, I64),
    qt.DURATION: {"ns": I64},
    qt.TIMESTAMP: {"ns": I64},
    qt.RATIO: {"f64": F64},
}


def _plain(checker: QuantChecker, type_: Type) -> Mapping[str, Type]:
    return _PLAIN.get(type_, {})


def _container(checker: QuantChecker, found: qt.Container) -> Mapping[str, Type]:
    return {} if found.kind == "book" else {"len": I64}


def _in_container(checker: QuantChecker, node: nodes.Index, subject: qt.Container, scope: Scope) -> Type:
    if subject.kind != "ring":
        return no_element(checker, node, subject, scope)
    return element_of(checker, node, subject, scope, subject.element, subject.size)


def _in_list(checker: QuantChecker, node: nodes.Index, subject: ListType, scope: Scope) -> Type:
    return element_of(checker, node, subject, scope, subject.element, None)


def _in_text(checker: QuantChecker, node: nodes.Index, subject: StringType, scope: Scope) -> Type:
    return element_of(checker, node, subject, scope, subject, None)


def _in_tensor(checker: QuantChecker, node: nodes.Index, subject: TensorType, scope: Scope) -> Type:
    return ERROR if ERROR in [checker.infer(item, scope) for item in node.indices] else F64


def _exact(stored: str, on_grid: LiteralRule | None = on_grid) -> TypeRules:
    """The rules of an exact number, whose whole number is called so."""
    fields = {"f64": F64, stored: I64}
    return TypeRules(
        lambda checker, found: fields,
        misfit=_of_another_market,
        operator=operators.exact,
        has_negative=lambda found: not isinstance(found, qt.PriceType),
        has_equality=always,
        instead=operators.legal,
        literal=on_grid,
        cast_hint="exact numbers give theirs as `.f64`, and come from floats by `to_price`, `to_qty`, `to_money`",
    )


def _of_another_market(checker: QuantChecker, actual: Type, expected: Type, span: Span, what: str) -> bool:
    inside = expected.value if isinstance(expected, OptionType) else expected
    if isinstance(actual, qt.Exact) and type(actual) is type(inside):
        market = "currency" if isinstance(actual, qt.MoneyType) else "instrument"
        checker.report("0701", f"{what} is `{shown(expected)}`, and this is `{actual}`, of another {market}", span)
        return True
    if isinstance(actual, StructType) and shown(actual) == shown(expected):
        checker.report("0701", f"{what} is `{inside}`, and this is `{actual}`, of another instrument", span)
        return True
    if isinstance(actual, Scalar) and actual.dtype.is_float and type(inside) in CONVERSIONS:
        report_float(checker, inside, span)
        return True
    return False


def _resolved(checker: QuantChecker, written: nodes.TypeSyntax, scope: Scope, bound: Mapping[str, Type] | None) -> Type:
    """A part of a struct or enum is of the only market that there is, wherever it is looked at."""
    with checker.within(market=checker.frame.market if bound is None else checker.own.world.only_market):
        return resolve(checker, written, scope, bound)


def _implied(checker: QuantChecker, struct: nodes.Struct) -> tuple[Type, ...]:
    """The instrument and currency in sight, of a struct of a market."""
    return checker.own.world.struct_of(struct.name, checker.frame.market).arguments


def _may_change_states(checker: QuantChecker, call: nodes.Call) -> bool:
    """Whether a call may be of a function that stands in a strategy."""
    name = call.function.name if isinstance(call.function, nodes.Name | nodes.Field) else ""
    callee = checker.declarations.functions.get(name)
    return isinstance(callee, nodes.Function) and callee.body is not None and name not in checker.own.world.library


def _declared(checker: QuantChecker, variable: Variable) -> None:
    warn_of_variable(checker, variable.name, variable.span)


def _length(checker: QuantChecker, type_: ListType) -> Mapping[str, Type]:
    return {"len": I64}


def _in_ring(checker: QuantChecker, found: qt.Container, span: Span) -> Type:
    return found.element if found.kind == "ring" else no_elements(checker, found, span)


def _each(checker: QuantChecker, found: ListType | TensorType, span: Span) -> Type:
    return found.element if isinstance(found, ListType) else F64


def _undeclared(checker: QuantChecker, word: str, span: Span) -> Type | None:
    """What is said of a function as a value."""
    if word not in checker.declarations.functions and word not in library.names():
        return None
    return checker.report("0203", f"`{word}` is a function, not a value", span, hint=f"call it: `{word}(...)`")


RULES.undeclared = _undeclared
RULES.resolve = RULES.signature = _resolved
RULES.show, RULES.implied, RULES.compared = shown, _implied, operators.no_equal_floats
RULES.declared, RULES.changed, RULES.changes_states = _declared, note_change, _may_change_states
RULES.ends_turn = (*RULES.ends_turn, quant.Emit)
RULES.kinds |= {
    qt.PriceType: _exact("ticks"),
    qt.TicksType: _exact("ticks", None),
    qt.QtyType: _exact("lots"),
    qt.MoneyType: _exact("units"),
    qt.Container: TypeRules(_container, _in_container, _in_ring, begins_empty=True),
    qt.PlainType: TypeRules(
        _plain,
        operator=operators.time_and_ratio,
        has_negative=lambda found: found in (qt.DURATION, qt.RATIO),
        has_equality=lambda found: found in qt.OPAQUE.values(),
    ),
    EnumType: TypeRules(_plain),
    StructType: evolve(RULES.kinds[StructType], misfit=_of_another_market),
    ListType: evolve(RULES.kinds[ListType], fields=_length, index=_in_list, iterate=_each, begins_empty=True),
    StringType: evolve(RULES.kinds[StringType], index=_in_text, begins_empty=True),
    TensorType: evolve(RULES.kinds[TensorType], index=_in_tensor, iterate=_each, begins_empty=True),
}
