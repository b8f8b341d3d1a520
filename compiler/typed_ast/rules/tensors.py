"""Operators on tensors, element by element with broadcasting, and products of matrices."""

from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import promote
from compiler.typed_ast.meaning import TypeRules
from compiler.typed_ast.nodes import Binary
from compiler.typed_ast.rules.operators import ARITHMETIC, COMPARISONS, both_sides, operator_span
from compiler.typed_ast.shapes import ShapeClash, broadcast, describe, dims_of, matmul, shape_of
from compiler.typed_ast.types import BOOL, UNKNOWN, ListType, Scalar, TensorType, Type


def _tensors(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    """Elementwise with at least one tensor. A scalar on either side counts as a tensor without axes."""
    if node.operator == "in":
        return BOOL
    if node.operator == "@":
        return _matmul(checker, node, left, right)
    if node.operator not in (*COMPARISONS, *ARITHMETIC):
        return None
    for side in (left, right):
        if not isinstance(side, (TensorType, Scalar)):
            return None
    a = dims_of(left.shape) if isinstance(left, TensorType) else ()
    b = dims_of(right.shape) if isinstance(right, TensorType) else ()
    try:
        shape = shape_of(broadcast(a, b))
    except ShapeClash as clash_at:
        return _shapes_differ(checker, node, left, right, clash_at)
    element = BOOL if node.operator in COMPARISONS else _element(left, right)
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


def _category(type_: Scalar) -> int:
    return 2 if type_.dtype.is_float else 1 if type_.dtype.is_int else 0


def _shapes_differ(checker: Checker, node: Binary, left: Type, right: Type, where: ShapeClash) -> Type:
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
        operator_span(node),
        "",
        both_sides(checker, node, left, right),
        notes=(f"left  {shown[0]}", f"right {shown[1]}"),
        hint=hint,
    )


def _matmul(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    if not isinstance(left, TensorType) or not isinstance(right, TensorType):
        return None
    try:
        dims = matmul(dims_of(left.shape), dims_of(right.shape))
    except ShapeClash as clash_at:
        return _shapes_differ(checker, node, left, right, clash_at)
    element = _element(left, right)
    if dims == ():
        return element
    return TensorType(element, shape_of(dims), left.device if left.device == right.device else None)


def _cast(checker: Checker, type_: Type, target: Type) -> Type | None:
    """Element by element; a list, or a number alone, becomes a tensor."""
    if isinstance(type_, TensorType) and isinstance(target, Scalar):
        return TensorType(target, type_.shape, type_.device)
    return target if isinstance(target, TensorType) and isinstance(type_, TensorType | ListType | Scalar) else None


CORE.kinds |= {TensorType: TypeRules(operator=_tensors, has_negative=lambda found: found.element != BOOL, cast=_cast)}
