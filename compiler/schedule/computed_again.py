"""Fields that keep functions of elements between two passes, as the exponentials of a row that is normalised. What the caches hold is
read again sooner than it is computed; what they don't hold is computed again sooner than memory gives it back. Both are in the function,
and sizes decide as it runs."""

from collections.abc import Sequence
from functools import reduce

from compiler.hir.memory import Alloc
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.place import Placing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import Table

KEPT = 24 << 20
"""Bytes up to which functions are kept: what last caches hold beside what is read."""


class PlacingAgain(Placing):
    """Places a field that keeps functions, and one beside it that computes them `again`, both by one table."""

    def __init__(self, field: HirFunction, again: HirFunction, table: Table) -> None:
        super().__init__(field, table)
        self.again = Placing(again, table)
        self.again.out = self.out

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        b = root.builder
        kept = [op.type for op in self.field.body.body if isinstance(op, Alloc)]
        sizes = [b.mul(b.product([b.count(dim) for dim in mem.dims]), b.const(bytes_of(mem.dtype), "index")) for mem in kept]
        small = b.op("le", reduce(b.add, sizes), b.const(KEPT, "index"))
        made = {value.name: value for value in root.made.values()}
        with b.branch(small) as (then, otherwise, _):
            self.produce(stores, TileRegion(then, made=dict(root.made)), {})
            parameters = {parameter: made[parameter.name] for parameter in self.again.field.parameters}
            self.again.begin(self.again.stores(), TileRegion(otherwise, made=parameters))
