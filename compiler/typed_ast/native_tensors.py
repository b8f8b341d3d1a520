"""Which tensors native functions take, and what their sizes are called: those of known dtype and rank whose extents are numbers, names or
open."""

from collections.abc import Iterator, Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType, DynamicShape, Scalar, StaticShape, SymbolicShape, TensorType, Type

MOST_AXES = 8
COUNTS = ("numel", "len", "ndim")
"""Functions of a tensor that give an int, besides `shape` of an axis."""

Extent = int | str | None
"""A number, the name of a size, or open."""


def extents(found: TensorType) -> tuple[Extent, ...] | None:
    """The extents of a tensor type, None where its rank isn't known or one of them is computed (`2*N + 1`)."""
    match found.shape:
        case StaticShape(dims=dims):
            return tuple(dims)
        case DynamicShape(dynamic_rank=rank, max_dims=None) if rank is not None:
            return (None,) * rank
        case SymbolicShape(dims=dims):
            given: list[Extent] = []
            for dim in dims:
                if dim is None:
                    given.append(None)
                elif not dim.terms:
                    given.append(dim.constant)
                elif dim.constant == 0 and len(dim.terms) == 1 and dim.terms[0][1] == 1:
                    given.append(dim.terms[0][0])
                else:
                    return None
            return tuple(given)
    return None


def tensor_refused(found: TensorType) -> str | None:
    """What keeps a tensor out of native code, in words; None where native code reads and writes its elements."""
    given = extents(found)
    if found.device is not None:
        return f"a tensor on {found.device}"
    if not isinstance(found.element, Scalar) or not _native(found.element.dtype):
        return "a tensor whose elements are no native numbers"
    if given is None or not 0 < len(given) <= MOST_AXES:
        return "a tensor whose axes aren't known"
    return None


def _native(dtype: DType) -> bool:
    return dtype is DType.BOOL or dtype.is_int or dtype in (DType.F32, DType.F64)


def same_elements(one: Type, other: Type) -> bool:
    """Whether two types are of tensors with elements and axes alike, so that one stands where the other is wanted."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    return one.element == other.element and one.shape.rank == other.shape.rank is not None


def sizes(parameters: Sequence[Type]) -> Iterator[str]:
    """The names of sizes in the types of parameters, as often as they stand there."""
    for found in parameters:
        if isinstance(found, TensorType):
            yield from (extent for extent in extents(found) or () if isinstance(extent, str))


def checks_sizes(parameters: Sequence[Type]) -> bool:
    """Whether a call has to compare extents: with a number, or with each other."""
    names = list(sizes(parameters))
    fixed = any(isinstance(e, int) for found in parameters if isinstance(found, TensorType) for e in extents(found) or ())
    return fixed or len(set(names)) < len(names)


def counts_natively(call: nodes.Call, name: str) -> bool:
    """Whether a call asks a tensor for an extent or a count that native code knows: `x.shape(0)`, `x.numel()`, `len(x)`."""
    given = [argument.value for argument in call.arguments]
    if any(argument.name is not None for argument in call.arguments):
        return False
    if isinstance(call.function, nodes.Field):
        subject = call.function.value
    elif given:
        subject, *given = given
    else:
        return False
    if not isinstance(subject, nodes.Name) or not isinstance(subject.type, TensorType) or tensor_refused(subject.type) is not None:
        return False
    if name == "shape":
        rank = subject.type.shape.rank or 0
        return len(given) == 1 and isinstance(given[0], nodes.IntLiteral) and 0 <= given[0].value < rank
    return name in COUNTS and not given
