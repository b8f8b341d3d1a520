"""Guards that say no more than that an access lies inside of its memory: `0 <= y + r - 1 and y + r - 1 < H` before `X[y + r - 1]`. With
zeros for what lies outside, such an access needs no guard."""

from collections.abc import Collection, Iterable, Iterator

from compiler.analysis.accesses import conjuncts
from compiler.analysis.field_values import OPPOSITE
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Compare, Const, Index, Unary, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import is_float


def where_inside(guards: Iterable[Value], load: Load) -> frozenset[Affine] | None:
    """The forms that are at least 0 where all of the guards hold, if they are the load's own condition, and that holds exactly where
    its place exists; else None. Each must be one of the place's own; that none is left out which matters is what loads in a field
    promise."""
    wanted = {form for dim in range(mem_of(load.mem).rank) for form in _place(load, dim)}
    own = set(conditions(load.where)) if load.where is not None else set()
    forms = {form for guard in guards for form in conditions(guard)}
    return frozenset(form for form in forms if form is not None) if forms == own and own <= wanted else None


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


def rules_out(held: Collection[Value], condition: Value) -> bool:
    """Whether a condition is the opposite of one that holds, or of several together, as those of the sides of an `if` are."""
    match condition.source:
        case Unary(operator="not", value=inner):
            return all(part in held for part in conjuncts(inner))
        case Compare(operator=operator, left=left, right=right) if not is_float(dtype_of(left)):
            turned = [other.source for other in held]
            return any(
                isinstance(op, Compare) and op.left is left and op.right is right and op.operator == OPPOSITE[operator] for op in turned
            )
        case _:
            return False
