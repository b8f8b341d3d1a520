"""Results of which a store skips elements under a condition, stored as a whole: what it skips, which was 0 before, is stored as 0 with the
rest, so that nobody has to clear the memory first."""

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.core import Select, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Effect, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.tiles.taking_part import restricting


def whole_results(field: HirFunction, facts: Facts) -> tuple[HirFunction, frozenset[str]]:
    """The field (form F) with such stores, and the names of the results that these cover."""
    ops = field.body.body
    if field.loops or any(op.regions or (op.effects is not Effect.PURE and not isinstance(op, Load | Store)) for op in ops):
        return field, frozenset()
    longer: dict[str, Affine] = {}
    covering = set[Store]()
    for op in ops:
        if isinstance(op, Store) and op.mem.name in facts.zeroed and (extents := _extents(field, op)) is not None:
            longer |= extents
            covering.add(op)
    if not covering:
        return field, frozenset()
    copy = FieldCopy(field)
    for axis, extent in field.axes.items():
        copy.function.axis(axis, longer.get(axis, extent))
    copy.parameters()
    for op in ops:
        if isinstance(op, Store) and op in covering:
            assert op.where is not None
            nothing = copy.body.const(0.0 if is_float(dtype_of(op.value)) else 0, dtype_of(op.value))
            chosen = copy.body.select(copy.values[op.where], copy.values[op.value], nothing)
            copy.copy(op, where=None, value=chosen)
        else:
            copy.copy(op)
    return copy.finish(), frozenset(op.mem.name for op in covering)


def skipped(store: Store) -> Value | None:
    """The condition without which a store stores a constant; of one that has a condition, that. None: always something else."""
    match store.value.source:
        case Select(condition=condition, otherwise=Value(source=source)) if store.where is None and source is not None:
            return condition if not source.operand_values and not source.symbols else None
        case _:
            return store.where


def _extents(field: HirFunction, store: Store) -> dict[str, Affine] | None:
    """The extents with which a store's axes run through all of its memory; None where they can't, where something else would change with
    them, or would be read outside of its memory."""
    accesses = [op for op in field.body.body if isinstance(op, Load | Store)]
    axes = [form.names[0] if form.names and form == Affine.of(form.names[0]) else "" for form in store.index]
    forms = None if store.where is None else constraints_of(store.where)
    if forms is None or not field.axes.keys() >= {*axes} or len({*axes}) < len(axes) or sum(op.mem is store.mem for op in accesses) > 1:
        return None
    assert store.where is not None
    if not {axis for axis, _ in union_axes(store.where)} <= {*axes}:
        return None
    extents = {axis: dim for axis, dim in zip(axes, mem_of(store.mem).dims, strict=True) if field.axes[axis] != dim}
    if not extents:
        return {}
    for axis in extents:  # the condition must rule out what the axis gets more
        if all(restricting([field.axes[axis] - 1 - axis - form], field.axes) for form in forms):
            return None
    after = {**field.axes, **extents}
    for op in accesses:
        varying = {name for form in op.index for name in form.names} & extents.keys()
        inside = [form for index, dim in zip(op.index, mem_of(op.mem).dims, strict=True) for form in (index, dim - 1 - index)]
        if varying and (restricting(inside, after) or (isinstance(op, Store) and op is not store)):
            return None
    if any(extents.keys() & getattr(op, "over", ()) for op in field.body.body):
        return None
    return extents
