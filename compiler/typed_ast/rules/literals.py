"""Numbers, bools and texts that are written out. A number without a suffix is weak: it takes the type of its place, or of its neighbour in
an operator, and is what it says until then, however large."""

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import INT_RANGES, literal_type, place_of, strong
from compiler.typed_ast.literal_numbers import decimal, is_literal
from compiler.typed_ast.requirements import AWAIT_HINT
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import BOOL, ERROR, STRING, WEAK_FLOAT, WEAK_INT, DType, FutureType, Scalar, Type
from compiler.typed_ast.weak_ints import lost_remainder, remainder_fault
from runtime.records import evolve

DTYPE_SUFFIXES = "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64"


@CORE.infers(nodes.IntLiteral, nodes.FloatLiteral)
def number(checker: Checker, node: nodes.IntLiteral | nodes.FloatLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.suffix is None:
        return settled(checker, node, WEAK_INT if isinstance(node, nodes.IntLiteral) else WEAK_FLOAT, expected)
    found = literal_type(node.suffix, isinstance(node, nodes.FloatLiteral))
    if found == ERROR:
        hint = did_you_mean(node.suffix, DTYPE_SUFFIXES.split()) or f"suffixes are {DTYPE_SUFFIXES}"
        return checker.report("0106", f"`{node.suffix}` is no suffix of a number", node.span, hint=hint)
    if isinstance(node, nodes.IntLiteral) and isinstance(found, Scalar) and found.dtype.is_int:
        return in_range(checker, node.value, found, node.span)
    return found


OPERAND = Scalar(DType.I64, weak=True)
"""What is wanted of an operand: a number that is written out stays weak until the operator has seen both sides. Known by identity."""


def is_weak(type_: Type | None) -> bool:
    return isinstance(type_, Scalar) and type_.weak


def place_of_operand(node: nodes.Expression, expected: Type | None = None) -> Type | None:
    if isinstance(node, nodes.IntLiteral | nodes.FloatLiteral | nodes.Unary | nodes.Binary):
        return OPERAND
    return None if expected is OPERAND else expected


def known_int(checker: Checker, node: nodes.Expression, scope: Scope | None = None) -> int | None:
    """The value of an int of literals and constants alone, which the checker has seen."""
    match node:
        case nodes.IntLiteral(value=value):
            return value
        case nodes.Name(name=name) if scope is not None:
            variable = scope.variable(name)
            if variable is not None and variable.kind in CONSTANT_KINDS and type(variable.constant) is int:
                return variable.constant
            return None
    return checker.known.get(id(node))


def is_written(checker: Checker, node: nodes.Expression, type_: Type) -> bool:
    """Whether a value is a number that is written out and has no type of its own yet."""
    return is_weak(type_) and (is_literal(node) or known_int(checker, node) is not None)


def settled(checker: Checker, node: nodes.Expression, actual: Type, expected: Type | None) -> Type:
    """The type of a number, of which `found` is weak, in its place; where there is none, an int is one of i64. Reports what the place can't
    hold. Numbers that aren't written out stay weak."""
    if not isinstance(actual, Scalar) or not actual.weak or expected is OPERAND:
        return actual
    place = place_of(expected)
    exact = checker.kind(place).literal if place is not None else None
    number = decimal(node) if exact is not None else None
    if exact is not None and number is not None:
        return exact(checker, node, number, place)
    value = known_int(checker, node) if actual.dtype.is_int else None
    is_float = isinstance(place, Scalar) and place.dtype.is_float
    if value is None:
        return place if is_float and place is not None and is_literal(node) else actual
    if is_float and place is not None:
        lost = lost_remainder(node)
        return place if lost is None else checker.add(remainder_fault(lost, _reason(checker, node)))
    whole = place if isinstance(place, Scalar) and place.dtype.is_int else WEAK_INT
    return computed(checker, node, value, whole, _reason(checker, node))


def _reason(checker: Checker, node: nodes.Expression) -> tuple[Label, ...]:
    """Why the place wants what it wants."""
    return (checker.reasons[id(node)],) if id(node) in checker.reasons else ()


def in_range(checker: Checker, value: int, place: Scalar, span: Span, others: tuple[Label, ...] = ()) -> Type:
    """The int type of a constant, or an error when it doesn't fit."""
    low, high = INT_RANGES[place.dtype]
    if low <= value <= high:
        return place
    return checker.report("0705", f"{value} does not fit {place}", span, "", others, hint=f"{place} holds {low} to {high}")


def computed(checker: Checker, node: nodes.Expression, value: int, place: Scalar, others: tuple[Label, ...] = ()) -> Type:
    """The int type of what a program computes of constants, or an error when it doesn't fit. In a `try` it is computed as the program runs,
    and what stops it there can be caught."""
    low, high = INT_RANGES[place.dtype]
    if checker.frame.in_try and not is_literal(node) and not low <= value <= high:
        checker.known.pop(id(node), None)
        return strong(place)
    return in_range(checker, value, place, node.span, others)


@CORE.infers(nodes.BoolLiteral)
def boolean(checker: Checker, node: nodes.BoolLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return BOOL


@CORE.infers(nodes.StringLiteral)
def string(checker: Checker, node: nodes.StringLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return STRING


@CORE.infers(nodes.FString)
def f_string(checker: Checker, node: nodes.FString, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in node.parts:
        if part.value is not None:
            actual = checker.infer(part.value, scope)
            if isinstance(actual, FutureType):
                message = f"an f-string shows values, not {actual}"
                checker.report("0203", message, part.value.span, f"this is {actual}", hint=AWAIT_HINT)
            shown = checker.meaning.rules.traits.shown(checker, part.value, actual, scope)
            if shown is not None:
                checker.findings.rewrites[id(part)] = evolve(part, value=shown)
    return STRING
