"""Shapes: how they broadcast, reduce and print, for types (dims may be unknown or symbolic) and at run time alike.

A static shape is a tuple of `ShapeExpr | None` (None: unknown dim), or None when even the rank is unknown."""

import math
from collections.abc import Sequence
from typing import Any

from compiler.typed_ast.library import LibraryFault, TypeFault
from compiler.typed_ast.types import (
    UNKNOWN,
    DynamicShape,
    Scalar,
    ShapeExpr,
    StaticShape,
    SymbolicShape,
    TensorShape,
    TensorType,
    Type,
)
from runtime.free_memory import available_memory
from runtime.lazy_numpy import np
from runtime.tensor import Tensor
from zynml.stdlib.dtypes import type_name

Dims = tuple[ShapeExpr | None, ...]

MAX_RANK = 64
"""NumPy's."""
MAX_EXTENT = 1 << 62


def dims_of(kind: Type) -> Dims | None:
    """The dims of a tensor type; None when the rank is not known."""
    if not isinstance(kind, TensorType):
        return None
    match kind.shape:
        case StaticShape(dims=dims):
            return tuple(ShapeExpr.of(d) for d in dims)
        case SymbolicShape(dims=dims):
            return dims
        case DynamicShape(dynamic_rank=rank) if rank is not None:
            return (None,) * rank
    return None


def shape_of_dims(dims: Dims | None) -> TensorShape:
    if dims is None:
        return DynamicShape()
    values = [d.value if d is not None else None for d in dims]
    known = [v for v in values if v is not None]
    if len(known) == len(values):
        return StaticShape(known)
    return DynamicShape(len(dims)) if all(d is None for d in dims) else SymbolicShape(dims)


def tensor_type(element: Any, dims: Dims | None) -> TensorType:
    """A tensor type from a dtype (None: unknown) and dims."""
    return TensorType(UNKNOWN if element is None else Scalar(element), shape_of_dims(dims))


def constant_dims(value: Any) -> Dims | None:
    """Dims from what is known of a shape argument: ints, size expressions, None for the rest."""
    if isinstance(value, int | ShapeExpr):
        value = [value]
    if not isinstance(value, list | tuple):
        return None
    return tuple(ShapeExpr.of(d) if isinstance(d, int | ShapeExpr) else None for d in value)


def shape_text(dims: Sequence[Any]) -> str:
    return f"[{', '.join('?' if d is None else str(d) for d in dims)}]"


def aligned(*named: tuple[str, Sequence[Any]]) -> str:
    """Shapes under each other, their last axes in one column."""
    rank = max(len(dims) for _, dims in named)
    texts = [[""] * (rank - len(dims)) + ["?" if d is None else str(d) for d in dims] for _, dims in named]
    widths = [max(len(row[axis]) for row in texts) for axis in range(rank)]
    name_width = max(len(name) for name, _ in named)
    lines = []
    for (name, _), row in zip(named, texts, strict=True):
        cells = [
            cell.rjust(width) + ("," if cell and axis < rank - 1 else " " if axis < rank - 1 else "")
            for axis, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"\n  {name.ljust(name_width)}  [{' '.join(cells)}]")
    return "".join(lines)


def broadcast_dims(left: Dims | None, right: Dims | None, operator: str) -> Dims | None:
    """NumPy's broadcasting on static dims; TypeFault 0301 where it can't be."""
    if left is None or right is None:
        return None
    rank = max(len(left), len(right))
    a = (ShapeExpr.of(1),) * (rank - len(left)) + left
    b = (ShapeExpr.of(1),) * (rank - len(right)) + right
    out: list[ShapeExpr | None] = []
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        xv, yv = x.value if x is not None else None, y.value if y is not None else None
        if x == y or yv == 1:
            out.append(x)
        elif xv == 1:
            out.append(y)
        elif xv is not None and yv is not None:
            raise TypeFault("0301", broadcast_message(left, right, operator, axis - rank))
        else:
            # Whatever the unknown side is, it must be the known extent or 1, unless both are unknown.
            out.append(x if xv is not None else y if yv is not None else None)
    return tuple(out)


def broadcast_message(left: Sequence[Any], right: Sequence[Any], operator: str, axis: int) -> str:
    return (
        f"shapes {shape_text(left)} and {shape_text(right)} don't fit `{operator}`: axis {axis} is {left[axis]} on the left, "
        f"{right[axis]} on the right" + aligned(("left", left), ("right", right))
    )


def broadcast_shapes(left: tuple[int, ...], right: tuple[int, ...], operator: str) -> tuple[int, ...]:
    """The common shape at run time; fault 0301 where there is none."""
    if left == right:
        return left
    rank = max(len(left), len(right))
    a, b = (1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right
    for axis, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y and x != 1 and y != 1:
            raise LibraryFault("0301", broadcast_message(left, right, operator, axis - rank))
    return tuple(y if x == 1 else x for x, y in zip(a, b, strict=True))


def axis_message(axis: int, rank: int) -> tuple[str, str]:
    """Text and hint of fault 0307."""
    if rank == 0:
        valid = "a tensor of rank 0 has no axes"
    elif rank == 1:
        valid = "the one axis is 0, or -1 from the end"
    else:
        valid = f"valid axes are 0 to {rank - 1}, or -{rank} to -1 from the end"
    return f"axis {axis} is outside a tensor of rank {rank}", valid


def require_axis(axis: Any, rank: int) -> int:
    """The axis counted from the front; fault 0307 outside the rank."""
    if not is_int(axis):
        raise LibraryFault("0203", f"an axis is an int, not {type_name(axis)}")
    if not -rank <= axis < rank:
        raise LibraryFault("0307", *axis_message(int(axis), rank))
    return int(axis) % rank


def static_axis(axis: Any, rank: int) -> int:
    """`require_axis` for types."""
    if not -rank <= axis < rank:
        message, hint = axis_message(axis, rank)
        raise TypeFault("0307", message, "axis", hint=hint)
    return int(axis) % rank


def is_int(value: Any) -> bool:
    """A program's int: a Python or NumPy integer, not a bool."""
    return (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, np.integer)


def require_shape(parts: Any, what: str = "a shape") -> tuple[int, ...]:
    """A shape from `2, 3`, `[2, 3]` or `(2, 3)` (`parts` is the tuple of arguments); faults 0203 and 0804."""

    if isinstance(parts, tuple) and len(parts) == 1 and isinstance(parts[0], list | tuple | Tensor):
        parts = parts[0]
    if isinstance(parts, Tensor):
        parts = parts.contents.tolist()
    if not isinstance(parts, list | tuple):
        parts = (parts,)
    for part in parts:
        if not is_int(part):
            raise LibraryFault("0203", f"{what} is made of ints, not {type_name(part)}")
    return tuple(int(part) for part in parts)


def require_extents(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, when all extents are sizes and the rank is one that tensors can have."""
    for extent in shape:
        if extent < 0:
            raise LibraryFault("0301", f"a shape can't have the negative extent {extent}: {shape_text(shape)}")
        if extent >= MAX_EXTENT:
            raise too_large(shape)
    if len(shape) > MAX_RANK:
        raise LibraryFault("0301", f"a tensor has at most {MAX_RANK} axes, not {len(shape)}")
    return shape


def too_large(shape: tuple[int, ...]) -> LibraryFault:
    return LibraryFault("0804", f"a tensor of shape {shape_text(shape)} has more elements than any memory can hold")


def require_memory(shape: tuple[int, ...], item_bytes: int) -> None:
    """Fault 0804 when a tensor of that shape can't be held: before NumPy is asked, whose answer may be the end of the process."""
    elements = math.prod(shape)
    if 0 < elements < 1 << 20:
        return
    # The product with an empty axis is 0, but NumPy still wants each extent to be a size.
    if elements * item_bytes < 1 << 24 and all(extent < MAX_EXTENT for extent in shape):
        return
    if elements * item_bytes >= 1 << 63 or any(extent >= MAX_EXTENT for extent in shape):
        raise too_large(shape)
    free = available_memory()
    if elements * item_bytes > free:
        raise LibraryFault(
            "0804",
            f"a tensor of shape {shape_text(shape)} takes {bytes_text(elements * item_bytes)}, and {bytes_text(free)} are free",
        )


def bytes_text(count: int) -> str:
    for unit in ("bytes", "KB", "MB", "GB", "TB", "PB"):
        if count < 1024 or unit == "PB":
            return f"{count} {unit}" if isinstance(count, int) and unit == "bytes" else f"{count:.1f} {unit}"
        count = count / 1024  # type: ignore[assignment]
    raise AssertionError("the loop returns")
