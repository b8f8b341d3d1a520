"""Operators: what may be added to what, and what comes of it. Each type says in its row what operators mean on its values; here stands what
holds of all of them, and the rows of numbers and of values with parts."""

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import whole_result
from compiler.typed_ast.conversions import fits, is_silent, strong
from compiler.typed_ast.meaning import TypeRules, always
from compiler.typed_ast.nodes import Binary, Expression, Unary
from compiler.typed_ast.requirements import AWAIT_HINT, report_optional
from compiler.typed_ast.rules import abstract_types, indexing  # noqa: F401  The rows of structs are there first.
from compiler.typed_ast.rules.bounds import meets
from compiler.typed_ast.rules.literals import OPERAND, computed, is_weak, known_int, place_of_operand, settled
from compiler.typed_ast.rules.optionals import default
from compiler.typed_ast.rules.parts import parts_of
from compiler.typed_ast.rules.placing import condition
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    NEVER,
    UNKNOWN,
    WEAK_FLOAT,
    DType,
    FunctionType,
    FutureType,
    NoneType,
    OptionType,
    ResultType,
    Scalar,
    StructType,
    TupleType,
    Type,
    TypeVariable,
    UnitType,
)
from compiler.typed_ast.weak_ints import DIVIDES_BY_ZERO, lost_remainder, remainder_fault
from runtime.records import evolve

EQUALITIES = ("==", "!=")
COMPARISONS = (*EQUALITIES, "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "%", "**")
_EXACTLY = ("+", "-", "*", "/", "%")
_OF_INTS = ("<<", ">>", "&", "|", "^", "+|", "-|", "*|", "+%", "-%", "*%")


@CORE.infers(Unary)
def unary(checker: Checker, node: Unary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "not":
        condition(checker, node.operand, scope, "the operand of `not`")
        return BOOL
    actual = checker.infer(node.operand, scope, place_of_operand(node.operand, expected))
    if is_weak(actual):
        value = known_int(checker, node.operand)
        _remember(checker, node, None if value is None else -value)
        return settled(checker, node, actual, expected)
    if is_silent(actual):
        return actual
    if isinstance(actual, OptionType):
        return report_optional(checker, actual, node.operand.span)
    by_trait = checker.meaning.rules.traits.unary(checker, node, actual, scope, expected)
    if by_trait is not None:
        return by_trait
    if checker.kind(actual).has_negative(actual):
        return actual
    abstract = abstract_types.negative(checker, node, actual)
    if abstract is not None:
        return abstract
    shown = checker.show(actual)
    missing = checker.meaning.rules.traits.missing(checker, f"unary {node.operator}", actual, None)
    hint = AWAIT_HINT if isinstance(actual, FutureType) else missing
    return checker.report("0208", f"operator `{node.operator}` is not defined for {shown}", node.span, f"this is {shown}", hint=hint)


@CORE.infers(Binary)
def binary(checker: Checker, node: Binary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "??":
        return default(checker, node, scope, None if expected is OPERAND else expected)
    if node.operator in ("and", "or"):
        condition(checker, node.left, scope, f"the left side of `{node.operator}`")
        with checker.within(turns=()):
            condition(checker, node.right, scope, f"the right side of `{node.operator}`")
        return BOOL
    checker.findings.rewrites.pop(id(node), None)
    left = checker.infer(node.left, scope, place_of_operand(node.left))
    right = checker.infer(node.right, scope, place_of_operand(node.right))
    by_trait = checker.meaning.rules.traits.binary(checker, node, left, right, scope, expected)
    return settled(checker, node, operate(checker, node, left, right, scope), expected) if by_trait is None else by_trait


def operate(checker: Checker, node: Binary, left: Type, right: Type, scope: Scope | None = None) -> Type:
    """The type of `left operator right`, whose operands are `node`'s. Ints that are known are computed now: what doesn't fit, or divides by
    zero, is an error."""
    left, right = _beside(checker, node, left, right)
    if ERROR in (left, right):
        return ERROR
    if NEVER in (left, right):
        return NEVER
    type_ = _result(checker, node, left, right)
    whole = not (isinstance(type_, Scalar) and type_.dtype.is_float) and type_ not in (ERROR, UNKNOWN)
    b = known_int(checker, node.right, scope)
    if node.operator in ("/", "%") and b == 0 and whole:
        _remember(checker, node, None)
        return type_ if checker.frame.in_try else checker.report("0705", DIVIDES_BY_ZERO, node.span)
    a = known_int(checker, node.left, scope) if b is not None else None
    value = whole_result(node.operator, a, b) if a is not None and b is not None and node.operator in _EXACTLY and whole else None
    _remember(checker, node, value)
    if value is not None and isinstance(type_, Scalar) and not type_.weak:
        return computed(checker, node, value, type_)
    return type_


def _remember(checker: Checker, node: Expression, value: int | None) -> None:
    if value is None:
        checker.known.pop(id(node), None)
    else:
        checker.known[id(node)] = value


def _beside(checker: Checker, node: Binary, left: Type, right: Type) -> tuple[Type, Type]:
    """The types of both sides: a number that is written out takes its neighbour's, which is a number, or an exact one that it is compared
    with. Two of them stay weak where they are computed now."""
    if is_weak(left) and is_weak(right):
        if node.operator in _EXACTLY and known_int(checker, node.left) is not None and known_int(checker, node.right) is not None:
            return left, right
        for side in (node.left, node.right):
            lost = lost_remainder(side) if known_int(checker, side) is not None and WEAK_FLOAT in (left, right) else None
            if lost is not None:
                return ERROR, checker.add(remainder_fault(lost))
        return _placed(checker, node.left, left, None), _placed(checker, node.right, right, None)
    if is_weak(left):
        return _placed(checker, node.left, left, _neighbour(checker, node, right)), right
    return left, _placed(checker, node.right, right, _neighbour(checker, node, left)) if is_weak(right) else right


def _neighbour(checker: Checker, node: Binary, other: Type) -> Type | None:
    abstract = abstract_types.wanted_beside(checker, node.operator, other)
    if abstract is not None:
        return abstract
    if node.operator in _OF_INTS and isinstance(other, Scalar) and other.dtype.is_float:
        return None
    return other if node.operator in COMPARISONS or isinstance(other, Scalar) else None


def _placed(checker: Checker, node: Expression, found: Type, place: Type | None) -> Type:
    found = settled(checker, node, found, place)
    checker.findings.types[id(node)] = found
    return found


def _may_be_ints(left: Type, right: Type) -> bool:
    return all(side == UNKNOWN or (isinstance(side, Scalar) and side.dtype.is_int) for side in (left, right))


def both(left_side: Expression, left: Type, right: Type) -> Type:
    """The values of both sides, which run at once. `a & b & c` gives one tuple of three."""
    chained = isinstance(left_side, Binary) and left_side.operator == "&" and isinstance(left, TupleType)
    before = left.elements if chained and isinstance(left, TupleType) else (strong(left),)
    return TupleType((*before, strong(right)))


def _result(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    if node.operator == "in":
        return _membership(checker, node, left, right)
    at_once = node.operator == "&" and checker.meaning.settings.both_at_once
    if at_once and not _may_be_ints(left, right):
        return both(node.left, left, right)
    if UNKNOWN in (left, right):
        known = right if left == UNKNOWN else left
        never = isinstance(known, FunctionType | UnitType) and node.operator in ARITHMETIC
        return undefined(checker, node, left, right) if never else UNKNOWN
    for kind in dict.fromkeys((checker.kind(left), checker.kind(right))):
        found = kind.operator(checker, node, left, right) if kind.operator is not None else None
        if found is not None:
            break
    else:
        found = _equality(checker, node, left, right) if node.operator in EQUALITIES else None
    if found is None:
        return undefined(checker, node, left, right)
    if node.operator in EQUALITIES and found == BOOL:
        checker.meaning.rules.compared(checker, node, left, right)
    return found


def _equality(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    """Of values with parts all parts are compared."""
    alike = (fits(left, right) and has_equality(checker, right)) or (fits(right, left) and has_equality(checker, left))
    return BOOL if alike else None


def has_equality(checker: Checker, type_: Type) -> bool:
    """Whether `==` is defined for a type and all that it is made of."""
    within = parts_of(checker, type_)
    if within is not None:
        return all(has_equality(checker, part) for part in within)
    return is_silent(type_) or checker.kind(type_).has_equality(type_)


def _membership(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    kind = checker.kind(right)
    if isinstance(right, Scalar | UnitType | FunctionType):
        return undefined(checker, node, left, right)
    return BOOL if kind.operator is None else kind.operator(checker, node, left, right) or undefined(checker, node, left, right)


def operator_span(node: Binary) -> Span:
    return node.span if node.operator_span == NOWHERE else node.operator_span


def both_sides(checker: Checker, node: Binary, left: Type, right: Type) -> tuple[Label, Label]:
    return Label(node.left.span, checker.show(left)), Label(node.right.span, checker.show(right))


def undefined(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    refusal = checker.meaning.refused_operators.get(node.operator)
    if refusal is not None:
        return checker.later(refusal.what, operator_span(node), refusal.hint)
    hints = (checker.kind(side).instead(checker, node, left, right) for side in (left, right))
    message = f"operator `{node.operator}` is not defined for {checker.show(left)} and {checker.show(right)}"
    hint = next((hint for hint in hints if hint is not None), None)
    hint = hint or checker.meaning.rules.traits.missing(checker, node.operator, left, right)
    return checker.report("0208", message, operator_span(node), "", both_sides(checker, node, left, right), hint=hint)


# ---- numbers ----------------------------------------------------------------------------------------------------------------------


def _numbers(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    if not isinstance(left, Scalar) or not isinstance(right, Scalar):
        return None
    bools = [side.dtype is DType.BOOL for side in (left, right)]
    if node.operator in COMPARISONS:
        return BOOL if not any(bools) or (all(bools) and node.operator in EQUALITIES) else None
    floats = left.dtype.is_float or right.dtype.is_float
    if any(bools) or (floats and node.operator in _OF_INTS) or node.operator not in (*ARITHMETIC, *_OF_INTS):
        return None
    if node.operator in ("<<", ">>"):
        return left
    common = checker.meaning.meet(left, right)
    if common is not None:
        return common
    hint = f"convert one: `... as {left}`"
    return checker.report("0207", f"`{left}` and `{right}` have no common type", node.span, hint=hint)


def _instead_of_bools(checker: Checker, node: Binary, left: Type, right: Type) -> str | None:
    return "`b as i64` makes 0 or 1 of a bool" if BOOL in (left, right) and type(left) is type(right) else None


# ---- type parameters, and values that may not be there ------------------------------------------------------------------------------


def _generic(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    variable = left if isinstance(left, TypeVariable) else right
    assert isinstance(variable, TypeVariable)
    if not fits(left, variable) or not fits(right, variable):
        return None
    if node.operator in COMPARISONS:
        compares = meets(variable, "Ordered") or (left == right and node.operator in EQUALITIES)
        return BOOL if compares else None
    return variable if node.operator in _EXACTLY and variable.bound == "Number" else None


def _instead_of_generic(checker: Checker, node: Binary, left: Type, right: Type) -> str | None:
    variable = left if isinstance(left, TypeVariable) else right
    assert isinstance(variable, TypeVariable)
    if node.operator in _EXACTLY:
        if variable.bound == "Number":
            return f"a `{variable}` goes with a `{variable}`, or with a whole number that is written out"
        return f"what is calculated with has a bound: `{variable}: Number`"
    if left != right:
        return "both sides have one type"
    return f"types that `<` compares have a bound: `{variable}: Ordered`"


def _unpacked(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    """Optionals are compared with each other and with `none`, results with each other; for all else they are taken out first."""
    kinds = ResultType if isinstance(left, ResultType) else OptionType | NoneType
    if node.operator in EQUALITIES and isinstance(left, kinds) and isinstance(right, kinds):
        return _equality(checker, node, left, right)
    for found, operand in ((left, node.left), (right, node.right)):
        if isinstance(found, OptionType):
            return report_optional(checker, found, operand.span)
        if isinstance(found, ResultType):
            hint = "`match` it with `Ok(v)` and `Err(e)`, or write `e?`"
            return checker.report("0726", f"this is a `{checker.show(found)}`", operand.span, hint=hint)
    return None


def _await(checker: Checker, node: Binary, left: Type, right: Type) -> str | None:
    return AWAIT_HINT


CORE.kinds[StructType] = evolve(CORE.kinds[StructType], operator=abstract_types.binary, instead=abstract_types.instead)
CORE.kinds |= {
    Scalar: TypeRules(
        operator=_numbers,
        has_negative=lambda found: found.dtype is not DType.BOOL,
        has_equality=always,
        instead=_instead_of_bools,
    ),
    TypeVariable: TypeRules(
        operator=_generic,
        has_negative=lambda found: found.bound == "Number",
        has_equality=always,
        instead=_instead_of_generic,
    ),
    OptionType: TypeRules(operator=_unpacked, begins_empty=True),
    ResultType: TypeRules(operator=_unpacked),
    NoneType: TypeRules(has_equality=always),
    FutureType: TypeRules(instead=_await),
}
