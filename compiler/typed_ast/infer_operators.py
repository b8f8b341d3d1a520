"""Types of unary and binary operators: arithmetic and comparison of scalars, tensors with broadcasting, text, lists, logic."""

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.checker import AWAIT_HINT, Checker, infers
from compiler.typed_ast.conversions import clash, is_silent, join, promote, promote_scalars
from compiler.typed_ast.nodes import Binary, Unary
from compiler.typed_ast.rules.optionals import default
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.shapes import ShapeClash, broadcast, describe, dims_of, matmul, shape_of
from compiler.typed_ast.types import (
    BOOL,
    CHAR,
    ERROR,
    STRING,
    UNKNOWN,
    ArrayType,
    CharType,
    DeclaredType,
    DType,
    FunctionType,
    FutureType,
    ListType,
    NoneType,
    OptionType,
    ResultType,
    Scalar,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnitType,
)
from compiler.typed_ast.weak_ints import DIVIDES_BY_ZERO, lost_remainder, remainder_fault, weak_int

_OF_PARTS = (DeclaredType, OptionType, ResultType, ArrayType)
_ARITHMETIC = ("+", "-", "*", "/", "%", "**")
_COMPARISON = ("==", "!=", "<", "<=", ">", ">=")
MAX_CHAIN = 2000


@infers(Unary)
def unary(checker: Checker, node: Unary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "not":
        checker.require_bool(node.operand, scope, "the operand of `not`")
        return BOOL
    found = checker.infer(node.operand, scope, expected)
    match found:
        case Scalar(dtype=dtype) if dtype is not DType.BOOL:
            return found
        case TensorType(element=element) if element != BOOL:
            return found
    if is_silent(found):
        return found
    hint = AWAIT_HINT if isinstance(found, FutureType) else None
    message = f"operator `{node.operator}` is not defined for {found}"
    return checker.report("0208", message, node.span, f"this is {found}", hint=hint)


@infers(Binary)
def binary(checker: Checker, node: Binary, scope: Scope, expected: Type | None, used: bool) -> Type:
    if node.operator == "??":
        return default(checker, node, scope, expected)
    if node.operator in ("and", "or"):
        checker.require_bool(node.left, scope, f"the left side of `{node.operator}`")
        checker.require_bool(node.right, scope, f"the right side of `{node.operator}`")
        return BOOL
    left = checker.infer(node.left, scope)
    right = checker.infer(node.right, scope)
    return operate(checker, node, left, right)


def operate(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    """The type of `left operator right`, whose operands are `node`'s."""
    if ERROR in (left, right):
        return ERROR
    operator = node.operator
    if operator == "in":
        return _membership(checker, node, left, right)
    if is_silent(left) or is_silent(right):
        return _with_unknown(checker, node, left, right)
    if operator == "&":
        if _is_int(left) and _is_int(right):
            return _scalars(left, right) or UNKNOWN
        return checker.later(
            "`&` of values other than two ints, which runs both sides at once,", _place(node), "write `(a, b)`, or `and` for bools"
        )
    if operator in ("<<", ">>"):
        return left if _is_int(left) and _is_int(right) else _undefined(checker, node, left, right)
    if operator == "@":
        return _matmul(checker, node, left, right)
    if isinstance(left, TensorType) or isinstance(right, TensorType):
        return _tensors(checker, node, left, right)
    if operator in _COMPARISON:
        return _compare(checker, node, left, right)
    if operator in _ARITHMETIC:
        return _arithmetic(checker, node, left, right)
    return UNKNOWN


def _place(node: Binary) -> Span:
    return node.span if node.operator_span == NOWHERE else node.operator_span


def _with_unknown(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    known = right if is_silent(left) else left
    if isinstance(known, (FunctionType, UnitType)) and node.operator in _ARITHMETIC:
        return _undefined(checker, node, left, right)
    return UNKNOWN


def _is_int(found: Type) -> bool:
    return isinstance(found, Scalar) and found.dtype.is_int


def _scalars(left: Type, right: Type) -> Scalar | None:
    return promote_scalars(left, right) if isinstance(left, Scalar) and isinstance(right, Scalar) else None


def _arithmetic(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    match left, right:
        case Scalar(dtype=a), Scalar(dtype=b) if DType.BOOL not in (a, b):
            if (a.is_float or b.is_float) and (lost := lost_remainder(node.left) or lost_remainder(node.right)) is not None:
                return checker.add(remainder_fault(lost))
            if node.operator in ("/", "%") and a.is_int and b.is_int and weak_int(node.right) == 0:
                return checker.report("0705", DIVIDES_BY_ZERO, node.span)
            return promote_scalars(left, right) or UNKNOWN
        case ((StringType() | CharType()), (StringType() | CharType())) if node.operator == "+":
            return STRING
        case ListType(), ListType() if node.operator == "+" and not clash(left, right):
            return join(left, right)
    return _undefined(checker, node, left, right)


def _compare(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    equality = node.operator in ("==", "!=")
    match left, right:
        case Scalar(dtype=a), Scalar(dtype=b) if (a is DType.BOOL) == (b is DType.BOOL):
            if a is DType.BOOL and not equality:
                return _undefined(checker, node, left, right)
            return BOOL
        case ((StringType() | CharType()), (StringType() | CharType())):
            return BOOL
        case (ListType(), ListType()) | (TupleType(), TupleType()) if not clash(left, right):
            return BOOL
    if equality and type(left) is type(right) and not isinstance(left, (Scalar, ListType, TupleType, FutureType)):
        return BOOL if not isinstance(left, _OF_PARTS) or not clash(left, right) else _undefined(checker, node, left, right)
    if equality and {type(left), type(right)} == {OptionType, NoneType}:
        return BOOL
    return _undefined(checker, node, left, right)


def _membership(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    if isinstance(right, (Scalar, UnitType, FunctionType)):
        return checker.report(
            "0208", f"operator `in` is not defined for {left} and {right}", _place(node), "", _operands(node, left, right)
        )
    if isinstance(right, StringType) and not is_silent(left) and left not in (STRING, CHAR):
        return _undefined(checker, node, left, right)
    return BOOL


def _operands(node: Binary, left: Type, right: Type) -> tuple[Label, ...]:
    return (Label(node.left.span, f"{left}"), Label(node.right.span, f"{right}"))


def _undefined(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    hint = None
    if isinstance(left, FutureType) or isinstance(right, FutureType):
        hint = AWAIT_HINT
    elif STRING in (left, right) and node.operator == "+":
        hint = 'an f-string joins text and values: f"{a}{b}"'
    elif isinstance(left, ListType) or isinstance(right, ListType):
        hint = "`tensor([...])` makes a tensor, which calculates element by element"
    elif BOOL in (left, right) and isinstance(left, Scalar) and isinstance(right, Scalar):
        hint = "`b as i64` makes 0 or 1 of a bool"
    return checker.report(
        "0208",
        f"operator `{node.operator}` is not defined for {left} and {right}",
        _place(node),
        "",
        _operands(node, left, right),
        hint=hint,
    )


def _tensors(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    """Elementwise with at least one tensor. A scalar on either side counts as a tensor without axes."""
    for side in (left, right):
        if not isinstance(side, (TensorType, Scalar)):
            return _undefined(checker, node, left, right)
    a = dims_of(left.shape) if isinstance(left, TensorType) else ()
    b = dims_of(right.shape) if isinstance(right, TensorType) else ()
    try:
        shape = shape_of(broadcast(a, b))
    except ShapeClash as clash_at:
        return shapes_differ(checker, node, left, right, clash_at)
    element = BOOL if node.operator in _COMPARISON else _element(left, right)
    devices = {t.device for t in (left, right) if isinstance(t, TensorType)}
    return TensorType(element, shape, devices.pop() if len(devices) == 1 else None)


def _element(left: Type, right: Type) -> Type:
    """The element type of arithmetic with at least one tensor."""
    x = left.element if isinstance(left, TensorType) else left
    y = right.element if isinstance(right, TensorType) else right
    if not isinstance(x, Scalar) or not isinstance(y, Scalar):
        return UNKNOWN
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        dtype = promote(x.dtype, y.dtype)
        return UNKNOWN if dtype is None else Scalar(dtype)
    # A scalar beside a tensor changes its element type only from bool to int, or from int to float.
    tensor, scalar = (x, y) if isinstance(left, TensorType) else (y, x)
    return tensor if _category(scalar) <= _category(tensor) else Scalar(scalar.dtype)


def _category(found: Scalar) -> int:
    return 2 if found.dtype.is_float else 1 if found.dtype.is_int else 0


def shapes_differ(checker: Checker, node: Binary, left: Type, right: Type, where: ShapeClash) -> Type:
    """0301 of an operator: both shapes under each other, the axes that disagree, what to do."""
    a = dims_of(left.shape) if isinstance(left, TensorType) else ()
    b = dims_of(right.shape) if isinstance(right, TensorType) else ()
    assert a is not None
    assert b is not None
    shown = [describe(a), describe(b)]
    if node.operator == "@":
        if not a or not b:
            detail, hint = "`@` needs tensors with axes", "multiply by a number with `*`"
        else:
            i, j = where.left_axis % len(a), where.right_axis % len(b)
            detail = f"axis {i} on the left is {a[where.left_axis]}, axis {j} on the right is {b[where.right_axis]}"
            leading = where.left_axis == where.right_axis and len(b) > 1
            hint = "the columns on the left are as many as the rows on the right"
            if leading:
                hint = "leading axes are equal, or one of them is 1"
    else:
        width = max(map(len, shown))
        shown = [s.rjust(width) for s in shown]
        i, j = where.left_axis + len(a), where.right_axis + len(b)
        detail = f"axis {i} on the left is {a[where.left_axis]}, axis {j} on the right is {b[where.right_axis]}"
        hint = "counted from the last, axes are equal, or one of them is 1"
    return checker.report(
        "0301",
        f"shapes do not fit `{node.operator}`: {detail}",
        _place(node),
        "",
        _operands(node, left, right),
        notes=(f"left  {shown[0]}", f"right {shown[1]}"),
        hint=hint,
    )


def _matmul(checker: Checker, node: Binary, left: Type, right: Type) -> Type:
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return _undefined(checker, node, left, right)
    try:
        dims = matmul(dims_of(left.shape), dims_of(right.shape))
    except ShapeClash as clash_at:
        return shapes_differ(checker, node, left, right, clash_at)
    element = _element(left, right)
    if dims == ():
        return element
    return TensorType(element, shape_of(dims), left.device if left.device == right.device else None)
