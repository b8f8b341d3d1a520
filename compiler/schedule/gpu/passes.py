"""Fields that are several launches, which leave results of reductions in workspaces for those behind.

Few and long rows, or columns, that are read again after their reductions: each reduction is a launch of its own, in which many blocks
share a row; what reads the rows again is a launch behind them. All of the GPU works on rows that are fewer than its multiprocessors, at
the price of a read for each launch.

Reductions of everything that combine what reductions of rows make: rows are reduced as others are, several at a time on a
multiprocessor; a launch behind them combines a number for each."""

from math import prod

from compiler.hir.core import Contract, Reduce, Scan, union_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.cutting import Cutting
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.rows import is_chain
from compiler.schedule.materialise import common_axes

ROWS_EACH = 2
"""Rows for each multiprocessor from which on a block a row keeps all of them at work."""

LEAST = 1 << 15
"""Elements of a row, or of the columns of a block, that are worth further launches."""

MANY = 1 << 20
"""Elements of all rows that are worth another launch behind them."""

COLUMNS = 32
"""Columns that a block reads side by side."""


def reductions_and_results(field: HirFunction, facts: Facts) -> tuple[list[HirFunction], list[HirFunction]] | None:
    """A field whose rows are few, cut behind its reductions: those that wait for no other, those that wait for these, and so on; then what
    is stored, apart by the axes along which it lies. What is read along the rows is computed where the last reduction is known that it
    waits for, once a row. None where rows are many, or nothing reads them again."""
    along = _along(field)
    common = [axis for axis in common_axes(field) if axis not in along]
    rows, length = (prod(facts.about(field.axes[axis]) for axis in axes) for axes in (common, along))
    if not along.intersection(axes_contiguous(field)):
        # columns: a block has as many as a warp has lanes
        rows, length = -(-rows // COLUMNS), length * COLUMNS
    if not along or not common or rows >= ROWS_EACH * facts.processors or length < LEAST:
        return None
    results = [result for op in field.body.body if isinstance(op, Reduce) for result in op.results]
    made = _of_rows(field)
    cutting = Cutting(field, dict.fromkeys((*results, *made)))
    levels: dict[int, list[Instruction]] = {}
    for op in field.body.body:
        if isinstance(op, Reduce):
            levels.setdefault(cutting.level(op), []).append(op)
    for value in made:
        if value.source is not None and not isinstance(value.source, Reduce):
            levels[cutting.level(value.source) - 1].append(value.source)
    stores: dict[frozenset[str], list[Store]] = {}
    scope = field.scope()
    for op in field.body.body:
        if isinstance(op, Store):
            stores.setdefault(frozenset(axis for axis, _ in scope.axes_of(*op.index)), []).append(op)
    reductions = [cutting.part(f"pass{level}", levels[level]) for level in sorted(levels)]
    return reductions, [cutting.part(f"stored{number}", group) for number, group in enumerate(stores.values())]


def rows_first(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """What a field makes of its rows, and what it reduces of that. None where it doesn't, or where there is little of it."""
    ops = field.body.body
    whole = [op for op in ops if isinstance(op, Reduce) and not union_axes(*op.results)]
    inner = [op for op in ops if isinstance(op, Reduce) and op not in whole]
    outer = {frozenset(op.over) for op in whole}
    if not inner or len(outer) != 1 or any(isinstance(op, Contract | Scan | Alloc) for op in ops):
        return None
    (over,) = outer
    if any({axis for axis, _ in union_axes(*op.results)} != over for op in inner):
        return None
    values = list(dict.fromkeys(value for op in whole for value in op.values if not {*inner}.isdisjoint(needed(field, [value]))))
    if not values or any({axis for axis, _ in union_axes(value)} != over for value in values):
        return None
    if prod(facts.about(field.axes[axis]) for axis in field.axes) < MANY:
        return None
    cutting = Cutting(field, values)
    return [cutting.part("rows", [value.source for value in values if value.source is not None]), cutting.stored()]


def _along(field: HirFunction) -> frozenset[str]:
    """The axes of every reduction, where something reads them again; none where reductions are along different ones."""
    ops = field.body.body
    over = {frozenset(op.over) for op in ops if isinstance(op, Reduce)}
    if len(over) != 1 or any(isinstance(op, Contract | Scan | Alloc) for op in ops):
        return frozenset()
    (along,) = over
    return along if any(is_chain(field, axis) for axis in along) else frozenset()


def _of_rows(field: HirFunction) -> list[Value]:
    """Values that are made of reductions, one a row, and read by what varies along rows."""
    along = {axis for op in field.body.body if isinstance(op, Reduce) for axis in op.over}
    behind: set[Value] = set()
    read: dict[Value, None] = {}
    for op in field.body.body:
        later = [value for value in op.operand_values if value in behind]
        if not later:
            behind.update(op.results if isinstance(op, Reduce) else ())
            continue
        if along.isdisjoint(axis for axis, _ in union_axes(*[value for value in op.operand_values if isinstance(value.type, Tile)])):
            behind.update(op.results)
        else:
            read.update(dict.fromkeys(later))
            behind.update(op.results if isinstance(op, Reduce) else ())
    return list(read)
