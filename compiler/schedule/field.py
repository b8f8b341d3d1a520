"""Tables for fields on the CPU, derived from the field alone: which axis is the vector (the one along which memory is
contiguous), which is shared out to threads (one that every result varies along), how many registers hide the latency."""

from attrs import frozen

from compiler.hir.core import Contract, Reduce, Scan, dtype_of
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Alloc, Check, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule.machine import CpuMachine
from compiler.schedule.table import AxisPlan, Table

MAP_VECTORS = 2
"""Vectors a map keeps in flight: enough to hide load latency; more only grows the code."""

ACCUMULATORS = 4
"""Vector accumulators of a reduction along contiguous memory: latency of an add times adds a cycle."""


@frozen
class _Facts:
    """What the choice of a table looks at."""

    common: tuple[str, ...]
    """Axes that every store's index names, in order of appearance."""
    reduced: frozenset[str]
    ordered: frozenset[str]
    """Axes that a reduction runs along in exact order: no permission to reassociate."""
    widest: str


def table_for(field: HirFunction, machine: CpuMachine) -> Table:
    """The table of places for a field. Every axis of the field gets a plan."""
    facts = _look(field)
    contraction = next((op for op in field.body.body if isinstance(op, Contract)), None)
    if contraction is not None:
        return _contraction(field, contraction, facts, machine)
    return _general(field, facts, machine)


def _look(field: HirFunction) -> _Facts:
    scope = field.scope()
    stores = [op for op in field.body.body if isinstance(op, Store) and not isinstance(op.mem.source, Alloc)]
    indexed = [[name for name, _ in scope.axes_of(*store.index)] for store in stores]
    common = tuple(name for name in (indexed[0] if indexed else []) if all(name in names for names in indexed))
    reduced: set[str] = set()
    ordered: set[str] = set()
    for op in field.body.body:
        if isinstance(op, Reduce | Contract):
            reduced.update(op.over)
        if isinstance(op, Reduce) and is_float(dtype_of(op.values[0])) and op.monoid in ("add", "mul") and "reassoc" not in op.flags:
            ordered.update(op.over)
        if isinstance(op, Scan):
            ordered.update(op.over)
    return _Facts(common, frozenset(reduced), frozenset(ordered), _computed_dtype(field))


def _computed_dtype(field: HirFunction) -> str:
    """The widest number that the field computes with: it decides how many lanes a vector has."""
    widest = "i8"
    for op in field.body.body:
        for value in [*op.results, *op.operand_values]:
            if isinstance(value.type, Tile) and value.type.axes and value.type.dtype != "i1":
                dtype = "f32" if value.type.dtype in ("f16", "bf16") else value.type.dtype
                widest = max(widest, dtype, key=lambda d: CpuMachine(512).lanes(d) * -1)
    return widest


def _contiguity(field: HirFunction) -> dict[str, int]:
    """Votes by axis, weighted by the number of axes of the access (its traffic): for, when a step along the axis is a step to the
    next element; against, when it is a longer one."""
    votes: dict[str, int] = dict.fromkeys(field.axes, 0)
    for op in field.body.body:
        if not isinstance(op, Load | Store):
            continue
        weight = sum(any(form.coefficient(axis) for form in op.index) for axis in field.axes)
        mem = op.mem.type
        assert isinstance(mem, Mem)
        for axis in field.axes:
            steps = [form.coefficient(axis) for form in op.index]
            if not any(steps):
                continue
            unit = mem.strides is None or mem.strides[-1].value == 1
            contiguous = unit and steps[-1] == 1 and not any(steps[:-1])
            votes[axis] += weight if contiguous else -weight
    return votes


def _vector_axis(field: HirFunction, facts: _Facts, allowed: list[str]) -> str | None:
    votes = _contiguity(field)
    best = max(allowed, key=lambda axis: (votes[axis], axis in facts.common), default=None)
    return best if best is not None and votes[best] > 0 else None


def _lanes(field: HirFunction, axis: str, lanes: int) -> int:
    """No more lanes than a static extent has elements, rounded down to a power of two."""
    extent = field.axes[axis].value
    while extent is not None and lanes > 1 and lanes > extent:
        lanes //= 2
    return lanes


def _registers(field: HirFunction, axis: str, registers: int, lanes: int) -> int:
    extent = field.axes[axis].value
    while extent is not None and registers > 1 and registers * lanes > extent:
        registers -= 1
    return registers


def _in_order(facts: _Facts, field: HirFunction, vector: str | None) -> list[str]:
    """Loop order: axes of all results first (the vector's last among them), then the rest in order of declaration."""
    kept = [a for a in facts.common if a != vector] + ([vector] if vector in facts.common else [])
    rest = [a for a in field.axes if a not in kept]
    return kept + [a for a in rest if a != vector] + ([vector] if vector in rest and vector is not None else [])


def _general(field: HirFunction, facts: _Facts, machine: CpuMachine) -> Table:
    allowed = [axis for axis in field.axes if axis not in facts.ordered]
    vector = _vector_axis(field, facts, allowed)
    order = _in_order(facts, field, vector)
    lanes = _lanes(field, vector, machine.lanes(facts.widest)) if vector else 1
    first = order[0] if order else None
    thread = first if first in facts.common or first not in facts.ordered else None
    plans, reasons = [], []
    for axis in order:
        place = "thread" if axis == thread else "time"
        if axis == vector:
            registers = _registers(field, axis, ACCUMULATORS if axis in facts.reduced else MAP_VECTORS, lanes)
            plans.append(AxisPlan(axis, place, registers, lanes))
            reasons.append(f"memory is contiguous along {axis}")
        else:
            plans.append(AxisPlan(axis, place))
        if place == "thread" and axis in facts.common:
            reasons.append(f"every result varies along {axis}")
        elif place == "thread":
            reasons.append(f"the reduction over {axis} may be cut in chunks")
    return Table(plans, reasons)


def _contraction(field: HirFunction, contraction: Instruction, facts: _Facts, machine: CpuMachine) -> Table:
    """Register blocking: columns are vectors of the operand that is contiguous along them, rows are broadcast from the other."""
    assert isinstance(contraction, Contract)
    left, right = _names(contraction.a.type), _names(contraction.b.type)
    own = [axis for axis in facts.common if (axis in left) != (axis in right) and axis not in facts.ordered]
    column = _vector_axis(field, facts, own)
    if column is None:
        return _general(field, facts, machine)
    other_side = right if column in left else left
    rows = [axis for axis in own if axis != column and axis in other_side]
    row = rows[-1] if rows else None
    lanes = _lanes(field, column, machine.lanes(contraction.to))
    # Accumulators fill three quarters of the vector registers; the rest hold a row of the vector operand and a broadcast.
    vectors = _registers(field, column, 2, lanes)
    height = _registers(field, row, max(1, machine.vector_registers * 3 // 4 // vectors // 4 * 4 or 4), 1) if row else 1
    if height > 8:
        height = 8
    outside = [axis for axis in facts.common if axis not in (row, column)]
    inside = [axis for axis in field.axes if axis not in facts.common]
    order = [*outside, column, *([row] if row else []), *inside]
    plans = []
    for number, axis in enumerate(order):
        place = "thread" if number == 0 and axis in facts.common else "time"
        if axis == column:
            plans.append(AxisPlan(axis, place, vectors, lanes))
        elif axis == row:
            plans.append(AxisPlan(axis, place, height))
        else:
            plans.append(AxisPlan(axis, place))
    reasons = [f"{column} is contiguous in an operand and the result: vectors", f"{row or 'no axis'} reuses them from registers"]
    return Table(plans, reasons)


def _names(type: object) -> tuple[str, ...]:
    return type.axis_names if isinstance(type, Tile) else ()


def has_faults(field: HirFunction) -> bool:
    return any(isinstance(op, Check) for op in field.body.body)
