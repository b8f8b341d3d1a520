"""Where what a field computes is needed at all: behind choices by bounds of indices, as of a triangle, and conditions of stores. A thread
loads nothing of which none of its elements side by side is needed, and a block computes nothing behind the last of a row that is."""

from collections.abc import Mapping

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, Scan, Select, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.taking_part import restricting
from compiler.schedule.interior import bounds_of
from compiler.schedule.region import TileRegion
from compiler.schedule.table import AxisPlan

Forms = frozenset[Affine]


def needed_where(field: HirFunction) -> Mapping[Value, Forms]:
    """Forms of axes and sizes that are at least 0 at every element of a load that is needed. None of a field with products, whose operands
    are staged for whole tiles."""
    ops = field.body.body
    if any(isinstance(op, Contract) for op in ops):
        return {}
    needed: dict[Value, Forms] = {}
    named = {result.name: result for op in ops for result in op.results}
    sizes = {parameter.name for parameter in field.parameters}

    def need(value: Value | None, forms: Forms) -> None:
        if value is not None:
            needed[value] = needed[value] & forms if value in needed else forms

    for op in reversed(ops):
        own = needed.get(op.results[0], frozenset()) if op.results else frozenset()
        for result in op.results[1:]:
            own &= needed.get(result, frozenset())
        if isinstance(op, Reduce | Scan):
            own = frozenset(form for form in own if set(form.names).isdisjoint(op.over))
        for name in op.symbols:
            need(named.get(name), frozenset())
        if isinstance(op, Select):
            bounds = _bounds(op.condition)
            need(op.condition, own)
            need(op.then, own | bounds)
            need(op.otherwise, own | (frozenset(-form - 1 for form in bounds) if len(bounds) == 1 else frozenset()))
            continue
        if isinstance(op, Store):
            own = frozenset() if op.where is None else _bounds(op.where)
        for value in op.operand_values:
            need(value, frozenset() if isinstance(op, Load | Store) and value is op.where else own)

    found = {}
    for op in ops:
        if isinstance(op, Load):
            known = sizes | {axis for axis, _ in union_axes(op.result)}
            asked = frozenset() if op.where is None else _bounds(op.where)
            forms = [form for form in needed.get(op.result, frozenset()) - asked if known.issuperset(form.names)]
            found[op.result] = frozenset(restricting(forms, field.axes))
    return {value: forms for value, forms in found.items() if forms}


def end_of_needed(placing: BlockTiles, region: TileRegion) -> tuple[set[Value], AxisPlan, Affine] | None:
    """Conditions by which rows that a block has whole are needed up to one element; how the rows lie, and the last such element's place in
    the tile. None where there are no such conditions."""
    rows = {plan.axis: plan.tile - 1 for plan in placing.table.plans if plan.place == "block" and plan.tile > 1}
    for plan in (placing.table[axis] for axis in sorted(placing.once)):
        ends: dict[Affine, set[Value]] = {}
        choices = [op for op in placing.field.body.body if isinstance(op, Select) and plan.registers > 1 and not plan.beside]
        for condition, form in [(op.condition, form) for op in choices for form in _bounds(op.condition)]:
            last = form + Affine.of(plan.axis)
            if last.names and placing.once.isdisjoint(last.names) and (placing.once | {*rows}).isdisjoint(placing.axes_of_values(last)):
                ends.setdefault(last, set()).add(condition)
        if len(ends) == 1:
            ((last, conditions),) = ends.items()
            form = placing.form(last, region) - region.starts[plan.axis]
            for axis, further in rows.items():  # of the row whose last element is the farthest
                step = last.coefficient(axis)
                form += (region.starts[axis] + (further if step > 0 else 0) - region.forms[axis]) * step
            return conditions, plan, form
    return None


def _bounds(condition: Value) -> Forms:
    return frozenset(bounds_of(condition) or ())
