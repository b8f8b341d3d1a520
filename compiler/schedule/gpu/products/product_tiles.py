"""A product in tiles with the memories named (form B): loops over blocks of rows and columns; in each of them loops in time over slices of
the sum, which carry the accumulators; operands on their way through shared memory. How many sums there are, which operands they share and
what follows them is what `place` finds in the field."""

from collections.abc import Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Convert, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, is_float
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.boxed_product import BoxedProduct
from compiler.schedule.gpu.products.product_roles import MARKED
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.place import Placing
from compiler.schedule.region import Accumulators, Target, TileLoop, TileRegion
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
        self.sums = product.targets

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        marks: dict[str, Any] = {"axis": plan.axis, "place": plan.place}
        if plan is self.table.plans[0]:
            tiling = self.product.tiling
            plain = Tiling(tiling.axes, tiling.rows, tiling.columns, groups=0, blocks=0, stages=0)
            marks |= {name: value for name in MARKED if (value := getattr(tiling, name)) != getattr(plain, name)}
        if not divides(plan.tile, extent := self.field.axes[plan.axis]):
            marks["extent"] = extent
        if plan.axis == self.product.sum:
            marks |= {"pipeline": self.product.tiling.stages}
            marks |= {"stretch": self.product.stretch} if self.product.stretch else {}
            marks |= {"zeros": True} if self.product.has_zeros else {}
        return marks

    def loop_over(self, axis: str, group: Sequence[Target], region: TileRegion, result: Accumulators, state: Accumulators) -> None:
        plan, extent, carrying = self.table[axis], self.field.axes[axis], [target for target in self.sums if target in group]
        begun = [target for target in carrying if target not in state]
        result.update({target: self.identity(target, region) for target in begun})
        ragged = plan.place == self.outer and not divides(plan.tile, extent)
        self.one_loop(TileLoop(plan, Affine(), extent.ceildiv(plan.tile), ragged, carrying or group, carrying), region, result)
        self.end(begun, region, result)

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        axes, to = sorted(self.axes(target.results), key=self.table.order), dtype_of(target.results[0])
        return [region.builder.const(0.0 if is_float(to) else 0, Tile(to, self.tile_axes(axes, region)))]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        b, (total,) = region.builder, accumulators
        for side in self.product.copied:
            self.staged(side.load, region)
        over = tuple(name for name, _ in self.tile_axes(target.over, region))
        if isinstance(target, Reduce):
            (turn,) = b.reduce("add", self.value(target.values[0], region), over=over, flags=target.flags)
            return [b.add(total, turn, target.flags)]
        left, right = (self.value(operand, region) for operand in (target.a, target.b))
        return [b.emit(Contract(a=left, b=right, accumulator=total, over=over, to=target.to, flags=target.flags)).result]

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        return accumulators

    def staged(self, load: Load, region: TileRegion) -> None:
        """What copies bring of an operand: boxes have zeros where memory ends."""
        if load.results and region.find(load.result) is not None:
            return
        b, mem = region.builder, region.find(load.mem)
        assert mem is not None
        where = None if load.where is None else self.value(load.where, region)
        with b.at(load.span):
            tile = b.load(mem, self.index(load.index, load.mem, region), where, 0.0 if is_float(mem_of(mem).dtype) else 0)
            shared = b.emit(Convert(value=tile, place="shared")).result
        region.made.update(dict.fromkeys(load.results, shared))
