"""Arithmetic on shapes whose dims may be numbers, affine forms of size names, or unknown. Answers only what is certain: a
function here objects when no sizes at all could make the shapes fit."""

from compiler.typed_ast.types import (
    UNKNOWN,
    DynamicShape,
    FutureType,
    Quotient,
    ShapeExpr,
    StaticShape,
    SymbolicShape,
    TensorShape,
    TensorType,
    Type,
)
from runtime.records import define

Dims = tuple[ShapeExpr | None, ...]
ONE = ShapeExpr((), 1)


def dims_of(shape: TensorShape) -> Dims | None:
    """The dims, None where one is unknown; None for the whole when not even the rank is known."""
    match shape:
        case StaticShape(dims=static):
            return tuple(ShapeExpr((), d) for d in static)
        case SymbolicShape(dims=symbolic):
            return symbolic
        case DynamicShape(dynamic_rank=rank) if rank is not None:
            return (None,) * rank
    return None


def shape_of(dims: Dims | None) -> TensorShape:
    """The most precise kind of shape for these dims."""
    if dims is None:
        return DynamicShape()
    if all(d is not None and not d.terms for d in dims):
        return StaticShape(tuple(d.constant for d in dims if d is not None))
    if all(d is None for d in dims):
        return DynamicShape(len(dims))
    return SymbolicShape(dims)


def differ(a: ShapeExpr | None, b: ShapeExpr | None) -> bool:
    """True when the two extents are different whatever the sizes are."""
    if a is None or b is None:
        return False
    return (a + b.times(-1)).value not in (None, 0)


def join_shapes(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape that describes both."""
    if a == b:
        return a
    left, right = dims_of(a), dims_of(b)
    if left is None or right is None or len(left) != len(right):
        return DynamicShape()
    return shape_of(tuple(x if x == y else None for x, y in zip(left, right, strict=True)))


@define(eq=False)
class ShapeClash(Exception):
    """Axes (counted from the end, -1 the last) of the two operands that cannot fit."""

    left_axis: int
    right_axis: int


def broadcast(a: Dims | None, b: Dims | None) -> Dims | None:
    """The dims of an elementwise operation, as NumPy broadcasts; raises ShapeClash when they certainly don't fit."""
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    out: list[ShapeExpr | None] = []
    for axis in range(-rank, 0):
        x = a[axis] if -axis <= len(a) else ONE
        y = b[axis] if -axis <= len(b) else ONE
        out.append(_broadcast_dim(x, y, axis))
    return tuple(out)


def _broadcast_dim(x: ShapeExpr | None, y: ShapeExpr | None, axis: int) -> ShapeExpr | None:
    if x == y:
        return x
    if x == ONE:
        return y
    if y == ONE:
        return x
    fixed_x = None if x is None else x.value
    fixed_y = None if y is None else y.value
    if fixed_x is not None and fixed_y is not None:
        raise ShapeClash(axis, axis)
    # An extent that is a number other than 1 decides: the other is equal to it or 1.
    if fixed_x is not None:
        return x
    if fixed_y is not None:
        return y
    return None


def matmul(a: Dims | None, b: Dims | None) -> Dims | None:
    """The dims of `a @ b`; vectors count as a row on the left and a column on the right."""
    if a is None or b is None:
        return None
    if not a:
        raise ShapeClash(0, -1)
    if not b:
        raise ShapeClash(-1, 0)
    inner = -1 if len(b) == 1 else -2
    if differ(a[-1], b[inner]):
        raise ShapeClash(-1, inner)
    rows = a[-2:-1]
    columns = b[-1:] if len(b) > 1 else ()
    if len(a) <= 2 and len(b) <= 2:
        return rows + columns
    try:
        batch = broadcast(a[:-2], b[:-2])
    except ShapeClash as clash:
        raise ShapeClash(clash.left_axis - 2, clash.right_axis - 2) from None
    return None if batch is None else batch + rows + columns


def substitute(dim: ShapeExpr | None, bound: dict[str, ShapeExpr | None]) -> ShapeExpr | None:
    """The dim with size names replaced; None when a name is unknown."""
    if dim is None:
        return None
    total = ShapeExpr((), dim.constant)
    for term, coefficient in dim.terms:
        if isinstance(term, Quotient):
            numerator = substitute(term.numerator, bound)
            value = None if numerator is None else numerator.over(term.divisor)
        else:
            value = bound.get(term)
        if value is None:
            return None
        total = total + value.times(coefficient)
    return total


def element_count(dims: Dims | None) -> int | None:
    """The number of elements when all extents are numbers."""
    if dims is None:
        return None
    product = 1
    for d in dims:
        value = None if d is None else d.value
        if value is None:
            return None
        product *= value
    return product


def slice_extent(extent: int, low: int | None, high: int | None, step: int | None) -> int:
    """The number of elements that `low:high:step` takes out of an axis, as Python counts."""
    return len(range(*slice(low, high, step).indices(extent)))


def describe(dims: Dims | None) -> str:
    return "any shape" if dims is None else "[" + ", ".join("?" if d is None else str(d) for d in dims) + "]"


def refined(declared: Type, actual: Type) -> Type:
    """A declared tensor type with what its value is known to have beyond it: `tensor` alone says neither shape nor elements."""
    if isinstance(declared, FutureType) and isinstance(actual, FutureType):
        return FutureType(refined(declared.value, actual.value))
    if not isinstance(declared, TensorType) or not isinstance(actual, TensorType) or declared.shape.rank is not None:
        return declared
    element = actual.element if declared.element == UNKNOWN else declared.element
    return TensorType(element, actual.shape, declared.device)
