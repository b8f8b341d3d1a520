"""Products among other reductions, as those of attention, and other reductions of two operands there, as distances to centres. Where many
rows of results read an operand, all of its memory is copied once before the loops, with the elements for neighbouring results side by side
from the beginnings of cache lines: scores, both of whose operands lie along their sum, then need no sums across lanes. The table for such
memories has rows that fill the registers.

Few rows keep the tiles of the first table: both are in the function, and sizes decide as it runs."""

from collections.abc import Sequence
from functools import reduce

from compiler.hir.affine import Affine, AffineLike
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.core import Cast, Contract, Reduce, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, bytes_of, is_float
from compiler.machines.cpu import CpuMachine
from compiler.schedule.combination import PairReduction, combination
from compiler.schedule.field import CACHE_LINE, table_for
from compiler.schedule.materialise import materialise
from compiler.schedule.packed import FEW_ROWS
from compiler.schedule.pieces import reaching
from compiler.schedule.place import Placing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD, AxisPlan, Table
from compiler.schedule.whole_vectors import may_store_twice
from runtime.records import evolve, frozen

LEAST_READS = 16
"""Products in which an element takes part from which a copy pays."""

SHORT_SUM = 4
"""Vectors of terms up to which a sum takes longer across lanes than results of which there are few do in a vector of their own."""

TURNED = "t"
"""Digit of axes in the second table."""


@frozen(eq=False)
class TurnedOperand:
    """A memory whose dimension `summed` is summed along, and along whose dimension `dim` results lie, those of an axis."""

    product: PairReduction
    mem: Value
    dim: int
    summed: int
    axis: str

    @property
    def type(self) -> Mem:
        return mem_of(self.mem)

    def copied(self, strides: Sequence[AffineLike]) -> Mem:
        return evolve(self.type, strides=tuple(map(Affine.of, strides)), readonly=False, align=CACHE_LINE)


@frozen(eq=False)
class TurnedOperands:
    """The memories to copy, and the table for a field that reads the copies."""

    operands: tuple[TurnedOperand, ...]
    table: Table
    machine: CpuMachine

    def __str__(self) -> str:
        copied = " and ".join(f"{each.mem.name} along {each.axis}" for each in self.operands)
        tiles = " and ".join(f"{plan.tile} along {plan.axis}" for plan in self.table.plans if plan.tile > 1)
        return f"  many rows: copies of {copied}, tiles of {tiles}"


def turned_operands(plain: HirFunction, field: HirFunction, table: Table, machine: CpuMachine) -> TurnedOperands | None:
    """What rows of the products of a field share, which is a `plain` one with values kept; None where that is nothing."""
    operands: list[TurnedOperand] = []
    for op in field.body.body:
        product = combination(op) if isinstance(op, Contract | Reduce) else None
        if product is not None and product.guard is None and len(product.k) == 1:
            sides = (product.b, product.n, product.m), (product.a, product.m, product.n)
            operands += [each for own in sides if (each := _operand(field, product, *own)) is not None][:1]
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce)]
    if len(sums) < 2 or not operands or len({each.mem for each in operands}) < len(operands):
        return None
    copy = FieldCopy(plain)
    copy.axes()
    types = {each.mem.name: each.copied([1 if dim == each.dim else 2 for dim in range(each.type.rank)]) for each in operands}
    copy.parameters({parameter: types.get(parameter.name, parameter.type) for parameter in plain.parameters})
    for op in plain.body.body:
        copy.copy(op)
    rows, vectors = machine.register_tile
    other = table_for(materialise(copy.finish()), machine)
    columns = {axis for op in sums if (product := combination(op)) is not None for axis in (*product.m, *product.n)}
    if not any(plan.registers > 1 and plan.lanes == 1 for plan in other.plans):
        # what isn't a product has no rows yet, and as many vectors as a sum has
        rows = min(rows, FEW_ROWS)
        last = next((plan for plan in reversed(other.plans) if plan.axis in columns and plan.place == "thread" and plan.lanes == 1), None)
        sizes = {plan: rows if plan is last else min(plan.registers, vectors) for plan in other.plans}
        other = evolve(other, plans=[evolve(plan, registers=count) for plan, count in sizes.items()])
    lanes = {plan.lanes for plan in table.plans if plan.lanes > 1}
    plans = [evolve(plan, registers=_registers(field, plan, rows, plan.axis in columns), digit=TURNED) for plan in other.plans]
    plans = [plan if plan.lanes == 1 or plan.lanes in lanes else evolve(plan, simd=f"{SIMD}_{TURNED}") for plan in plans]
    if any(other[each.axis].lanes == 1 for each in operands):
        return None
    return TurnedOperands(tuple(operands), evolve(other, plans=plans), machine)


def _operand(field: HirFunction, product: PairReduction, value: Value, own: Sequence[str], others: Sequence[str]) -> TurnedOperand | None:
    load = value.source.value.source if isinstance(value.source, Cast) else value.source
    if not isinstance(load, Load) or load.where is not None or load.mem not in field.parameters or not others:
        return None
    mem, alone = mem_of(load.mem), {form: dim for dim, form in enumerate(load.index)}
    axis = next((name for name in own if Affine.of(name) in alone), None)
    summed = alone.get(Affine.of(product.k[0]))
    if axis is None or summed is None or not mem.readonly or is_float(mem.dtype) != is_float(dtype_of(product.result)):
        return None
    return TurnedOperand(product, load.mem, alone[Affine.of(axis)], summed, axis)


def _registers(field: HirFunction, plan: AxisPlan, rows: int, multiplied: bool) -> int:
    """Registers along an axis: rows that fill the machine's, and beside these one vector of what isn't multiplied."""
    extent = field.axes[plan.axis].value
    if plan.lanes > 1:
        return plan.registers if multiplied else 1
    return rows if plan.registers > 1 and (extent is None or extent >= rows) else plan.registers


class PlacingTurned(Placing):
    """Places a field twice: with copies of operands, and by its table alone."""

    def __init__(self, field: HirFunction, table: Table, turned: TurnedOperands) -> None:
        super().__init__(field, table)
        self.turned = turned
        for plan in turned.table.plans:
            self.declare(plan)

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        b, table = root.builder, self.table
        pays = reduce(b.both, [self.pays(operand, b) for operand in self.turned.operands])
        with b.branch(pays) as (then, otherwise, _):
            region = TileRegion(then, made=dict(root.made))
            region.made |= {operand.mem: self.copy(operand, region) for operand in self.turned.operands}
            self.table = self.turned.table
            self.produce(stores, region, {})
            self.table = table
            self.produce(stores, TileRegion(otherwise, made=dict(root.made)), {})

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        """All tiles as one loop: the last ones reach back, which computes some results twice."""
        if self.table is not self.turned.table or not may_store_twice(self.field, group):
            super().shared_out(group, region)
            return
        plans = [plan for plan in self.table.plans if plan.place == self.outer]
        self.thread_loop([reaching(plan, self.field.axes[plan.axis]) for plan in plans], group, region)

    def pays(self, operand: TurnedOperand, b: Builder) -> Value:
        """Whether elements take part in products often enough, and results fill tiles."""
        axes = *operand.product.batch, *operand.product.m, *operand.product.n, *operand.product.k
        work = b.product([b.count(self.field.axes[axis]) for axis in axes])
        elements = b.op("max", b.product([b.count(dim) for dim in operand.type.dims]), b.const(1, "index"))
        often = b.op("ge", work, b.mul(elements, b.const(LEAST_READS, "index")))
        tiled = [plan for plan in self.turned.table.plans if plan.axis == operand.axis or (plan.place == self.outer and plan.tile > 1)]
        return reduce(b.both, [self.fills(plan, operand, b) for plan in tiled], often)

    def fills(self, plan: AxisPlan, operand: TurnedOperand, b: Builder) -> Value:
        """Whether an axis fills its tiles, or is half a vector of a reduction of short sums."""
        extent = b.index(self.field.axes[plan.axis])
        full = b.op("ge", extent, b.const(plan.tile, "index"))
        if plan.axis != operand.axis or plan.place == self.outer:
            return full
        half = b.op("ge", extent, b.const(max(1, plan.lanes // 2), "index"))
        short = b.op("le", b.index(self.field.axes[operand.product.k[0]]), b.const(SHORT_SUM * plan.lanes, "index"))
        return b.op("or", full, b.op("and", half, short))

    def copy(self, operand: TurnedOperand, region: TileRegion) -> Value:
        """The copy, whose rows are an odd number of cache lines apart, so that they share no cache sets."""
        b, mem = region.builder, operand.type
        line = CACHE_LINE // bytes_of(mem.dtype)
        lines = mem.dims[operand.dim].ceildiv(line)
        stride = b.index((lines.floordiv(2) * 2 + 1) * line)
        strides: list[AffineLike] = [1] * mem.rank
        for dim in sorted({*range(mem.rank)} - {operand.dim}, key=lambda dim: (dim != operand.summed, -dim)):
            strides[dim], stride = stride.name, b.mul(stride, b.count(mem.dims[dim]))
        copied = b.alloc(operand.copied(strides), f"{operand.mem.name}_copied")
        copying = FunctionBuilder(self.field.name, Form.FIELD)
        index = [copying.axis(f"{operand.mem.name}_{dim}", extent) for dim, extent in enumerate(mem.dims)]
        source, target = copying.parameter("source", mem), copying.parameter("target", copied.type)
        store = copying.body.store(target, copying.body.load(source, index), index)
        field = copying.finish()
        table = table_for(field, self.turned.machine)
        placing = Placing(field, evolve(table, plans=[evolve(plan, simd=f"{SIMD}_{plan.lanes}") for plan in table.plans]))
        self.out.function.axes.update(placing.out.function.axes)
        self.out._taken.update(placing.out.function.axes)
        placing.out = self.out
        placing.declare_squares()
        placing.produce([store], TileRegion(b, made={source: region.made[operand.mem], target: copied}), {})
        return copied
