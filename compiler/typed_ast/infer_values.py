"""Types of values and of control flow that yields values: literals, names, containers, branches, lambdas, casts."""

from compiler.diagnostics import Label
from compiler.source import Span
from compiler.typed_ast.checker import AWAIT_HINT, ZYNML_RULES, Checker, Frame, infers
from compiler.typed_ast.conversions import clash, is_silent, join, literal_type, place_of, strong
from compiler.typed_ast.kernel_words import is_kernel_word
from compiler.typed_ast.nodes import (
    BoolLiteral,
    Cast,
    Comprehension,
    EllipsisIndex,
    Expression,
    FloatLiteral,
    FString,
    IntLiteral,
    Lambda,
    ListLiteral,
    OperatorValue,
    Range,
    Slice,
    StringLiteral,
)
from compiler.typed_ast.rules.arrays import array_literal
from compiler.typed_ast.rules.bodies import declare_parameter
from compiler.typed_ast.rules.loops import bind_loop_names
from compiler.typed_ast.rules.placing import condition
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    NEVER,
    RANGE,
    STRING,
    UNKNOWN,
    ArrayType,
    FunctionType,
    FutureType,
    ListType,
    Scalar,
    TensorType,
    Type,
)

DTYPE_SUFFIXES = "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64"


@infers(IntLiteral)
def int_literal(checker: Checker, node: IntLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _number(checker, node.suffix, False, node.span)


@infers(FloatLiteral)
def float_literal(checker: Checker, node: FloatLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return _number(checker, node.suffix, True, node.span)


def _number(checker: Checker, suffix: str | None, is_float: bool, span: Span) -> Type:
    found = literal_type(suffix, is_float)
    if found == ERROR:
        hint = did_you_mean(suffix or "", DTYPE_SUFFIXES.split()) or f"suffixes are {DTYPE_SUFFIXES}"
        checker.report("0106", f"`{suffix}` is no suffix of a number", span, hint=hint)
    return found


@infers(BoolLiteral)
def bool_literal(checker: Checker, node: BoolLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return BOOL


@infers(StringLiteral)
def string_literal(checker: Checker, node: StringLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    return STRING


@infers(FString)
def f_string(checker: Checker, node: FString, scope: Scope, expected: Type | None, used: bool) -> Type:
    for part in node.parts:
        if part.value is not None:
            found = checker.infer(part.value, scope)
            if isinstance(found, FutureType):
                message = f"an f-string shows values, not {found}"
                checker.report("0203", message, part.value.span, f"this is {found}", hint=AWAIT_HINT)
    return STRING


@infers(ListLiteral)
def list_literal(checker: Checker, node: ListLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    place = place_of(expected)
    if isinstance(place, ArrayType):
        return array_literal(checker, node, place, scope)
    inner = expected.element if isinstance(expected, ListType) else None
    element: Type = UNKNOWN
    for i, item in enumerate(node.elements):
        found = checker.infer(item, scope, inner)
        if i == 0:
            element = found
        elif clash(element, found):
            first = node.elements[0]
            return checker.report(
                "0203",
                f"the elements of a list have one type: expected {element}, found {found}",
                item.span,
                f"this is {found}",
                (Label(first.span, f"the first is {checker.type_of(first)}"),),
                hint="a tuple `(a, b)` holds values of several types",
            )
        else:
            element = join(element, found)
    return ListType(element)


@infers(Range)
def range_value(checker: Checker, node: Range, scope: Scope, expected: Type | None, used: bool) -> Type:
    for bound in (node.low, node.high, node.step):
        if bound is not None:
            found = checker.infer(bound, scope)
            if not _may_be_int(found):
                checker.report(
                    "0203",
                    f"the bounds and step of a range are ints, not {found}",
                    bound.span,
                    f"this is {found}",
                    hint="write `... as i64`" if isinstance(found, Scalar) else None,
                )
    return RANGE


def _may_be_int(found: Type) -> bool:
    if isinstance(found, TensorType):
        return found.shape.rank in (None, 0)
    return is_silent(found) or (isinstance(found, Scalar) and found.dtype.is_int)


def undeclared(checker: Checker, word: str, span: Span) -> Type | None:
    """What is said of a function that only kernels have. Another function may be called from a kernel, so only the program's own lines
    are wrong."""
    if not is_kernel_word(word):
        return None
    if not checker.frame.top:
        return UNKNOWN
    return checker.report(
        "0413",
        f"`{word}` stands outside of a compute block",
        span,
        hint="it is there in blocks of the kinds `custom` and `fused`, and in functions that they call",
    )


ZYNML_RULES.undeclared = undeclared


@infers(OperatorValue)
def operator_value(checker: Checker, node: OperatorValue, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Slice, EllipsisIndex)
def stray_slice(checker: Checker, node: Expression, scope: Scope, expected: Type | None, used: bool) -> Type:
    return UNKNOWN


@infers(Lambda)
def lambda_value(checker: Checker, node: Lambda, scope: Scope, expected: Type | None, used: bool) -> Type:
    known: tuple[Type, ...] = ()
    if isinstance(expected, FunctionType) and len(expected.parameters) == len(node.parameters):
        known = expected.parameters
    outer, checker.frame = checker.frame, Frame()
    inner = scope.inner()
    types: list[Type] = []
    checker.require_distinct(node.parameters)
    for i, parameter in enumerate(node.parameters):
        found = known[i] if known else UNKNOWN
        if parameter.annotation is not None:
            found = checker.resolver.resolve(parameter.annotation)
        types.append(found)
        declare_parameter(checker, parameter, found, inner)
    result = checker.infer(node.body, inner)
    for returned in checker.frame.returns:
        result = join(result, returned)
    checker.frame = outer
    return FunctionType(tuple(types), strong(result) if result != NEVER else UNKNOWN)


@infers(Cast)
def cast(checker: Checker, node: Cast, scope: Scope, expected: Type | None, used: bool) -> Type:
    target = checker.resolver.resolve(node.target)
    found = checker.infer(node.value, scope)
    if isinstance(found, FutureType) and not isinstance(target, FutureType):
        message = f"only the value of a future becomes {target}, and this is {found}"
        return checker.report("0203", message, node.value.span, f"this is {found}", hint=AWAIT_HINT)
    if isinstance(found, TensorType) and isinstance(target, Scalar):
        return TensorType(target, found.shape, found.device)
    return target


@infers(Comprehension)
def comprehension(checker: Checker, node: Comprehension, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.key is not None:
        return checker.later("a map", node.span, "use a list of tuples")
    inner = scope.inner()
    source = checker.infer(node.source, scope)
    bind_loop_names(checker, inner, node.names, (), node.source, source)
    if node.condition is not None:
        condition(checker, node.condition, inner, "the condition")
    return ListType(strong(checker.infer(node.element, inner)))
