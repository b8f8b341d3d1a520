"""A product in tiles with the memories named (form B): loops over blocks of rows and columns; in each of them loops in time over slices of
the sum, which carry the accumulators; operands on their way through shared memory. How many sums there are, which operands they share and
what follows them is what `place` finds in the field."""

from collections.abc import Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Contract, Convert, Reduce, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, is_float
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.product_roles import MARKED
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.place import Placing
from compiler.schedule.region import Accumulators, NotPlaceable, Target, TileLoop, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import frozen


@frozen
class BlockPlan(AxisPlan):
    """An axis of which a block has a tile: its one digit has the axis's name, also where that is of one element."""

    def digits(self) -> tuple[tuple[str, int, int], ...]:
        return ((self.axis, self.registers, 1),)


class ProductTiles(Placing):
    outer = "grid"

    def __init__(self, field: HirFunction, product: BoxedProduct) -> None:
        own = dict(zip((*product.a.axes, product.b.axis), (*product.a.tile, product.columns), strict=True))
        walked = (*product.outer, product.sum)
        plans = [AxisPlan(axis, self.outer) for axis in field.axes if axis not in {*own, *walked}]
        plans += [BlockPlan(axis, self.outer, size) for axis, size in own.items()]
        plans += [*map(AxisPlan, product.outer), BlockPlan(product.sum, registers=product.depth)]
        super().__init__(field, Table(plans))
        self.product = product
        self.staged = {side.load for side in product.staged}
        self.sums = {one.target: one for one in product.summed}

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        marks: dict[str, Any] = {"axis": plan.axis, "place": plan.place}
        if plan is self.table.plans[0]:
            tiling = self.product.tiling
            plain = Tiling(tiling.axes, tiling.rows, tiling.columns, groups=0, blocks=0, stages=0)
            marks |= {name: value for name in MARKED if (value := getattr(tiling, name)) != getattr(plain, name)}
        if plan.axis == self.product.sum:
            marks |= {"pipeline": self.product.tiling.stages}
            marks |= {"stretch": self.product.stretch} if self.product.stretch else {}
        return marks

    def loop_over(self, axis: str, group: Sequence[Target], region: TileRegion, result: Accumulators, state: Accumulators) -> None:
        plan, extent, begun = self.table[axis], self.field.axes[axis], [target for target in group if target not in state]
        carrying = [target for target in self.sums if target in group]
        if (plan.place == self.outer) == bool(carrying) or len(carrying) not in (0, len(group)):
            raise NotPlaceable(f"sums, and what is stored, meet in one loop over {axis}")
        result.update({target: self.identity(target, region) for target in carrying if target in begun})
        self.one_loop(TileLoop(plan, Affine(), extent.ceildiv(plan.tile), False, carrying or group, carrying), region, result)
        self.end([target for target in carrying if target in begun], region, result)

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        super().enter(plan, loop, region)
        if plan.place == self.outer and not divides(plan.tile, self.field.axes[plan.axis]):
            region.masks[plan.axis] = self.field.axes[plan.axis]

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        assert isinstance(target, Contract)
        axes = sorted(self.axes(target.results), key=self.table.order)
        return [region.builder.const(0.0 if is_float(target.to) else 0, Tile(target.to, self.tile_axes(axes, region)))]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        assert isinstance(target, Contract)
        for side in (self.sums[target].a, self.sums[target].b):
            self.value(side.load.result, region)
        a, b = (self.value(operand, region) for operand in (target.a, target.b))
        over = tuple(name for name, _ in self.tile_axes(target.over, region))
        product = Contract(a=a, b=b, accumulator=accumulators[0], over=over, to=target.to, flags=target.flags)
        return [region.builder.emit(product).result]

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        return accumulators

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        if op not in self.staged:
            return super().make(op, value, region)
        assert isinstance(op, Load)
        # boxes have zeros where memory ends
        mem, pad = region.find(op.mem), 0.0 if is_float(dtype_of(value)) else 0
        assert mem is not None
        tile = region.builder.load(mem, self.index(op.index, op.mem, region), pad=pad)
        return region.builder.emit(Convert(value=tile, place="shared")).result


def tiles_of(field: HirFunction, product: BoxedProduct) -> HirFunction | None:
    """The field in tiles; None where what blocks do with an operand, or with a sum, says more than tiles do."""
    bound = product.low, product.scale, product.guard, product.bounds
    if any(bound) or any(not _is_plain(one.target) for one in product.summed):
        return None
    return ProductTiles(field, product).run()


def _is_plain(target: Contract | Reduce) -> bool:
    """Whether a sum is of products of elements as they are read."""
    return isinstance(target, Contract) and all(
        isinstance(load := _uncast(operand).source, Load) and load.where is None and load.pad is None for operand in (target.a, target.b)
    )


def _uncast(value: Value) -> Value:
    return value.source.value if isinstance(value.source, Cast) else value
