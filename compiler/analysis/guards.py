"""Guards that say no more than that an access lies inside of its memory: `0 <= y + r - 1 and y + r - 1 < H` before `X[y + r - 1]`. With
zeros for what lies outside, such an access needs no guard."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Compare, Const, Index
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of


def is_inside(guard: Value, load: Load) -> bool:
    """Whether the guard holds exactly where the load's place exists. Each of its conditions must be one of the place's own; that it
    leaves none out which matters is what loads in a field promise."""
    wanted = {form for dim in range(mem_of(load.mem).rank) for form in _place(load, dim)}
    return all(form in wanted for form in conditions(guard))


def _place(load: Load, dim: int) -> tuple[Affine, Affine]:
    """What is at least 0 where the place lies inside along a dim."""
    index, extent = load.index[dim], mem_of(load.mem).dims[dim]
    return index, extent - 1 - index


def conditions(guard: Value) -> Iterator[Affine | None]:
    """Forms that are at least 0 together exactly where the guard holds; None for a condition that isn't one of sizes and indices."""
    op = guard.source
    if isinstance(op, Binary) and op.operator == "and":
        yield from conditions(op.left)
        yield from conditions(op.right)
        return
    left, right = (_form(op.left), _form(op.right)) if isinstance(op, Compare) else (None, None)
    if not isinstance(op, Compare) or left is None or right is None:
        yield None
        return
    match op.operator:
        case "ge":
            yield left - right
        case "gt":
            yield left - right - 1
        case "le":
            yield right - left
        case "lt":
            yield right - left - 1
        case _:
            yield None


def _form(value: Value) -> Affine | None:
    match value.source:
        case Index(of=form):
            return form
        case Const(value=int() as number) if not isinstance(number, bool):
            return Affine.of(number)
        case _:
            return None
