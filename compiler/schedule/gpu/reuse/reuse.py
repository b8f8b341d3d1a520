"""Which reductions read elements that neighbouring results read too: every element that a term reads serves all results along some axis,
as in `sum((x[i, k] - y[j, k]) ** 2)`, the nearest of such sums along `j`, or what all bodies do to one of them. Any terms and any
reduction, products on matrix units excepted."""

from collections.abc import Callable, Iterator, Sequence

from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Select, Unary, dtype_of, union_axes
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature, GpuMachine
from compiler.schedule.gpu.tiles.taking_part import bounds_of, unevenness
from compiler.schedule.materialise import common_axes
from runtime.records import frozen

FUNCTION_SLOTS = 8
"""Issue slots of a function or a division, against one of an addition."""
SLOTS_OF = {"neg": 1, "abs": 1, "not": 1, "div": FUNCTION_SLOTS, "rem": FUNCTION_SLOTS, "pow": 2 * FUNCTION_SLOTS}


@frozen(eq=False)
class ReusedTerms:
    """`sums`: the reductions whose terms these are, all along the same axes; `later`: reductions of what they come to, along `columns`.
    `rows` and `columns`: axes along which results share elements, `columns` None where it is one alone. `depth`: the innermost of the
    axes that are summed. `shared`: what elements come to before terms combine them, each the same for all rows, or all columns."""

    sums: tuple[Reduce, ...]
    later: tuple[Reduce, ...]
    rows: str
    columns: str | None
    depth: str
    shared: tuple[Value, ...]
    slots: int
    """Issue slots of a term, about."""
    bounds: tuple[Affine, ...]
    """What is at least 0 wherever something takes part in a sum."""

    @property
    def unevenness(self) -> int:
        """How many times as long as a sum in the mean the longest is."""
        return unevenness(self.bounds, self.depth)

    def along(self, axis: str | None) -> int:
        """How many of what is shared varies along an axis."""
        return sum(axis in axes_of(value) for value in self.shared)


def reused_terms(field: HirFunction, about: Callable[[Affine], int] | None = None) -> ReusedTerms | None:
    """None where a term reads an element that no other result needs, or the field has something besides. `about`: how large extents are."""
    ops = field.body.body
    if field.loops or any(op.regions or (op.effects is not Effect.PURE and not isinstance(op, Load | Store)) for op in ops):
        return None
    if any(isinstance(op, Contract) for op in ops):
        return None
    reductions = [op for op in ops if isinstance(op, Reduce)]
    sums = [op for op in reductions if not any(isinstance(below, Reduce) for below in instructions_below(*op.values))]
    later = [op for op in reductions if op not in sums]
    if len({op.over for op in sums}) != 1 or any(len(op.values) > 1 for op in sums):
        return None
    over, common = sums[0].over, common_axes(field)
    below = {axis for op in later for axis in op.over}
    loads = [below for below in instructions_below(*(op.values[0] for op in sums)) if isinstance(below, Load)]
    if not {*common, *over, *below} >= set(field.axes) or {*over, *below}.intersection(common) or below.intersection(over):
        return None
    if any(set(op.over) != below or not set(over).isdisjoint(axes_of(*op.values)) for op in later):
        return None
    free = [axis for axis in field.axes if axis not in over and all(axis in axes_of(*op.values) for op in sums)]
    depth = over[-1]
    read = [axes_of(load.results[0]) for load in loads if depth in axes_of(load.results[0])]
    blocked = _blocked(field, [axis for axis in free if any(axis not in axes for axes in read)], read, common, below, about or _magnitude)
    if not read or blocked is None:
        return None
    rows, columns = blocked
    if any({rows, columns or rows} <= axes for axes in read):
        return None
    shared: dict[Value, None] = {}
    inner: set[Value] = set()
    for op in sums:
        shared.update(dict.fromkeys(_shared(op.values[0], depth, {rows, columns or rows}, inner)))
    slots = sum(_slots(value) for value in inner) + sum(not _is_fused(op) for op in sums)
    bounds = tuple(form for op in sums for form in bounds_of(op))
    return ReusedTerms(tuple(sums), tuple(later), rows, columns, depth, tuple(shared), slots, bounds)


def axes_of(*values: Value) -> set[str]:
    return {axis for axis, _ in union_axes(*values)}


def _blocked(
    field: HirFunction,
    reused: Sequence[str],
    read: Sequence[set[str]],
    common: Sequence[str],
    below: set[str],
    about: Callable[[Affine], int],
) -> tuple[str, str | None] | None:
    """Rows and columns, of which no element varies along both: the axis that is reduced later, or along which results are contiguous,
    makes the columns."""
    outer = [axis for axis in reused if axis in common]
    if below and (len(below) > 1 or not below <= set(reused)):
        return None
    last = [form.names for op in field.body.body if isinstance(op, Store) for form in op.index[-1:]]
    for columns in below or sorted(outer, key=lambda axis: not any(axis in names for names in last)):
        rows = [axis for axis in outer if axis != columns and not any({axis, columns} <= axes for axes in read)]
        if rows:
            return max(rows, key=lambda axis: about(field.axes[axis])), columns
    return (outer[0], None) if len(outer) == 1 and not below else None


def _magnitude(extent: Affine) -> int:
    """How large an extent is; one that isn't a number counts as large."""
    return 1 << 31 if extent.value is None else extent.value


def _shared(value: Value, depth: str, blocked: set[str], inner: set[Value]) -> Iterator[Value]:
    """The largest values behind one that lack an axis of the block, and vary along the sum; `inner` gets what combines them."""
    axes = axes_of(value)
    if depth not in axes or value in inner:
        return
    if not blocked <= axes and dtype_of(value) not in ("i1", "index") and any(isinstance(op, Load) for op in instructions_below(value)):
        yield value
        return
    inner.add(value)
    assert value.source is not None
    for operand in value.source.operand_values:
        yield from _shared(operand, depth, blocked, inner)


def _is_fused(op: Reduce) -> bool:
    """Whether a term's product is added by the instruction that multiplies."""
    match op.values[0].source:
        case Select(then=Value(source=Binary(operator="mul", flags=flags))) | Binary(operator="mul", flags=flags):
            return op.monoid == "add" and "contract" in flags
        case _:
            return False


def _slots(value: Value) -> int:
    match value.source:
        case Const() | Load():
            return 0
        case Unary(operator=operator):
            return SLOTS_OF.get(operator, FUNCTION_SLOTS)
        case Binary(operator=operator):
            return SLOTS_OF.get(operator, 1)
        case Cast() | Select():
            return 1
        case _:
            return 1


def are_copied(terms: ReusedTerms, machine: GpuMachine) -> bool:
    """Whether copies can bring the elements of slices beside the computation: nothing but zeros is computed of them before, and they are as
    wide as what copies take."""
    plain = all(copied(value) is not None for value in terms.shared)
    sizes = {bytes_of(dtype_of(value)) for value in terms.shared}
    return plain and terms.columns is not None and machine.has(Feature.ASYNC_COPIES) and sizes <= {4, 8}


def copied(value: Value) -> tuple[Load, Value | None] | None:
    """The load that a copy makes of what is shared, and where it is zeros instead; None for what is computed."""
    match value.source:
        case Select(condition=condition, then=Value(source=Load() as load), otherwise=Value(source=Const(value=0))):
            where: Value | None = condition
        case Load() as load:
            where = None
        case _:
            return None
    return None if load.pad else (load, where)
