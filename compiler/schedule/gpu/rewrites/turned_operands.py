"""Windows over what lies along another axis than results do: neighbouring lanes would read far from each other, and each element many
times. It is copied first, turned in squares through shared memory, and the windows read the copy."""

from collections.abc import Sequence
from functools import partial

from compiler.hir.affine import Affine
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.cuts.workspaces import Copied, copied_before
from compiler.schedule.gpu.derived.nest import thread_nest
from compiler.schedule.gpu.derived.search import derived_launches, is_near, lane_axis
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.memory_order import permuted
from compiler.schedule.launches import Launches
from runtime.records import evolve


def turned_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """The copies, and the windows over them. None for a field that isn't of windows, or reads nothing across."""
    nest = thread_nest(field)
    if nest is None:
        return None
    lane = lane_axis(nest)
    across = {op.mem for op in nest.ops if isinstance(op, Load) and not is_near(nest, op, lane)}
    turning = turned(field, [op for op in nest.ops if isinstance(op, Load) and op.mem in across], nest.axes[lane])
    if turning is None:
        return None
    reading, copies = turning
    launches = derived_launches(reading, facts)
    return None if launches is None else copied_before(field, copies, facts, launches)


def turned(field: HirFunction, loads: Sequence[Load], axis: str) -> tuple[HirFunction, list[Copied]] | None:
    """The field with copies, as further parameters, of what these loads read, in which an axis lies along the last dimension. None where
    there is nothing to copy, or no one dimension lies along the axis."""
    names = FreshNames(field)
    copies: dict[Value, tuple[Copied, tuple[int, ...]]] = {}
    for memory in dict.fromkeys(op.mem for op in loads):
        own = [op for op in loads if op.mem is memory]
        dims = {dim for op in own for dim, form in enumerate(op.index) if form.coefficient(axis)}
        if len(dims) != 1 or any(op.pad is not None and op.where is None for op in own):
            return None
        (last,) = dims
        order = (*(dim for dim in range(mem_of(memory).rank) if dim != last), last)
        copies[memory] = _copied(memory, order, names), order
    return (_reading(field, copies), [copy for copy, _ in copies.values()]) if copies else None


def _copied(memory: Value, order: tuple[int, ...], names: FreshNames) -> Copied:
    """A copy of a memory with its dimensions in another order, in rows that are filled up to whole accesses."""
    mem = mem_of(memory)
    each = ALIGNMENT // bytes_of(mem.dtype)
    axes = {dim: names.fresh(f"{memory.name}_{dim}") for dim in order}
    length = mem.dims[order[-1]]
    extents = [*(mem.dims[dim] for dim in order[:-1]), length.ceildiv(each) * each]
    inside = (length - 1 - Affine.of(axes[order[-1]]),) if length.divisor % each else ()
    index = tuple(Affine.of(axes[dim]) for dim in range(mem.rank))
    pairs = tuple((axes[dim], extent) for dim, extent in zip(order, extents, strict=True))
    return Copied(names.fresh(f"{memory.name}_turned"), memory, pairs, index, inside)


def _reading(field: HirFunction, copies: dict[Value, tuple[Copied, tuple[int, ...]]]) -> HirFunction:
    """The field with the copies, as further parameters, instead of what they are of."""
    reading = FieldCopy.whole(field)
    for memory, (copy, _) in copies.items():
        reading.parameter(memory, evolve(copy.mem, readonly=True), copy.name)
    return reading.viewed({memory: partial(permuted, order) for memory, (_, order) in copies.items()})
