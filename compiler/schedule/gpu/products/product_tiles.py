"""A product in tiles with the memories named (form B): loops over blocks of rows and columns; in each of them loops in time over slices of
the sum, which carry the accumulators; operands on their way through shared memory. How many sums there are, which operands they share and
what follows them is what `place` finds in the field."""

from collections.abc import Sequence
from typing import Any

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Contract, Convert, Reduce, dtype_of
from compiler.hir.field_copy import FreshNames
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, is_float
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.cut_product import CutProduct
from compiler.schedule.place import Placing
from compiler.schedule.region import Accumulators, Target, TileLoop, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import frozen


@frozen
class BlockPlan(AxisPlan):
    """An axis of which a block has a tile: its one digit has the axis's name, or this one, also where that is of one element."""

    digit: str = ""

    def digits(self) -> tuple[tuple[str, int, int], ...]:
        return ((self.digit or self.axis, self.registers, 1),)


class ProductTiles(Placing):
    outer = "grid"

    def __init__(self, field: HirFunction, product: CutProduct) -> None:
        own = {axis for axes in product.tiles for axis in axes}
        *outer, self.along = product.walked
        self.counted = {axes[0]: axes for axes in product.tiles if len(axes) > 1}
        """Axes that are counted through, by the first of them, of which the tile's digit is."""
        plans = [AxisPlan(axis, self.outer) for axis in field.axes if axis not in {*own, *product.walked}]
        for axes, size in product.tiles.items():
            digit = FreshNames(field).fresh("_".join(axes)) if len(axes) > 1 else ""
            plans += [BlockPlan(axes[0], self.outer, size, digit=digit), *(AxisPlan(axis, self.outer) for axis in axes[1:])]
        plans += [*map(AxisPlan, outer), BlockPlan(self.along, registers=product.depth)]
        super().__init__(field, Table(plans))
        self.product = product
        whole = [self.ends_with_memory(load) for load in product.loads]
        self.is_ragged = not divides(product.depth, field.axes[self.along]) and not (whole and all(whole))
        """Whether memory goes on where the sum ends, within a tile."""

    def ends_with_memory(self, load: Load) -> bool:
        extent = self.field.axes[self.along]
        return any(form == Affine.of(self.along) and size == extent for form, size in zip(load.index, mem_of(load.mem).dims, strict=True))

    def is_none(self, quotient: FloorDiv) -> bool:
        """Tiles keep quotients: roles read what these are of, outside of the loops where they are 0."""
        return False

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        marks: dict[str, Any] = {"axis": plan.axis, "place": plan.place}
        if plan is self.table.plans[0]:
            marks |= self.product.marks
        if plan.axis in self.counted and isinstance(plan, BlockPlan):
            axes = self.counted[plan.axis]
            marks |= {"axis": plan.digit, "through": " ".join(axes), **{f"extent_{axis}": self.field.axes[axis] for axis in axes}}
        elif not divides(plan.tile, extent := self.field.axes[plan.axis]):
            marks["extent"] = extent
        if plan.axis == self.along:
            marks |= {"pipeline": self.product.stages} if self.product.stages else {}
            marks |= self.product.marks_of_sum
        return marks

    def loop_over(self, axis: str, group: Sequence[Target], region: TileRegion, result: Accumulators, state: Accumulators) -> None:
        if axis in self.counted:
            self.count_through(axis, group, region)
            return
        plan, extent, carrying = self.table[axis], self.field.axes[axis], [target for target in self.product.sums if target in group]
        begun = [target for target in carrying if target not in state]
        result.update({target: self.identity(target, region) for target in begun})
        ragged = not divides(plan.tile, extent) and (plan.place == self.outer or (axis == self.along and self.is_ragged))
        self.one_loop(TileLoop(plan, Affine(), extent.ceildiv(plan.tile), ragged, carrying or group, carrying), region, result)
        self.end(begun, region, result)

    def count_through(self, first: str, group: Sequence[Target], region: TileRegion) -> None:
        """One loop over tiles of the elements of several axes, whose places are digits of their numbers."""
        b, plan, axes = region.builder, self.table[first], self.counted[first]
        total = b.product([b.count(self.field.axes[axis]) for axis in axes])
        with b.loop(f"{plan.digit}0", 0, Affine.of(total.name).ceildiv(plan.tile), **self.marks(plan)) as (body, loop):
            inner = region.inside(body, axes)
            number = body.index(plan.form(loop.variable.name))
            digits = body.digits(number, [body.index(self.field.axes[axis]) for axis in axes[1:]])
            inner.forms.update({axis: Affine.of(digit.name) for axis, digit in zip(axes, digits, strict=True)})
            inner.masks[first] = self.field.axes[first]
            self.produce(group, inner, {})

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        axes, to = sorted(self.axes(target.results), key=self.table.order), dtype_of(target.results[0])
        return [region.builder.const(0.0 if is_float(to) else 0, Tile(to, self.tile_axes(axes, region)))]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        b, (total,) = region.builder, accumulators
        for load in self.product.loads:
            self.staged(load, region)
        over = tuple(name for name, _ in self.tile_axes(target.over, region))
        values = [self.value(value, region) for value in (target.values if isinstance(target, Reduce) else (target.a, target.b))]
        if not self.product.loads:
            values = [self.masked(value, 0, [self.along], region) for value in values]
        if isinstance(target, Reduce):
            (turn,) = b.reduce("add", *values, over=over, flags=target.flags)
            return [b.add(total, turn, target.flags)]
        left, right = values
        return [b.emit(Contract(a=left, b=right, accumulator=total, over=over, to=target.to, flags=target.flags)).result]

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        return accumulators

    def staged(self, load: Load, region: TileRegion) -> None:
        """What copies bring of an operand: zeros where memory ends."""
        if load.results and region.find(load.result) is not None:
            return
        b, mem = region.builder, region.known(load.mem)
        where = self.mask(region, [self.along], load.where)
        with b.at(load.span):
            tile = b.load(mem, self.index(load.index, load.mem, region), where, 0.0 if is_float(mem_of(mem).dtype) else 0)
            shared = b.emit(Convert(value=tile, place="shared")).result
        region.made.update(dict.fromkeys(load.results, shared))
