"""A slab of fixed capacity: places for structs that come and go, each known by its number. All zero is an empty slab.

Places that were given back are taken first, the last one before others; behind them come those that were never taken."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Record, select
from compiler.hir.native_types import I1, I64, struct
from compiler.hir.types import Array, HirType, Struct
from runtime.records import frozen


def slab(element: HirType, capacity: int) -> Struct:
    """The memory of a `Slab`."""
    n = capacity
    return struct("slab", count=I64, fresh=I64, free=I64, following=Array(I64, n), used=Array(I1, n), items=Array(element, n))


@frozen
class Slab:
    """A number is a place's index from 0; `free` links the places given back, as the number plus 1 (0 ends the chain)."""

    element: HirType
    capacity: int

    @property
    def type(self) -> Struct:
        return slab(self.element, self.capacity)

    def take(self, b: FunctionCode, slab: Record) -> Expr:
        """The number of a free place, all zero now; -1 when there is none."""
        free, fresh = slab.free, slab.fresh
        again = free != 0
        last = b.variable(-1)
        with b.when(again):
            last.value = free.wrapping_sub(1)
            slab.free = slab.following.unchecked[last.value]
        with b.otherwise(), b.when(fresh < self.capacity):
            last.value = fresh
            slab.fresh = fresh.wrapping_add(1)
        number = last.value
        with b.when(number >= 0):
            slab.used.unchecked[number] = True
            slab.count = slab.count.wrapping_add(1)
            b.clear(b.at(slab, "items", number, proved=True))
        return number

    def holds(self, b: FunctionCode, slab: Record, number: Expr) -> Expr:
        """Whether a place of that number is taken; any number may be asked about."""
        inside = (number >= 0) & (number < self.capacity)
        return inside & slab.used.unchecked[select(inside, number, 0)]

    def item(self, b: FunctionCode, slab: Record, number: Expr) -> Record:
        """The address of what a taken place holds; a number of no taken place stops."""
        b.require(self.holds(b, slab, number), number, code="0801", message="{0} is no taken place of the slab")
        return b.at(slab, "items", number, proved=True)

    def give_back(self, b: FunctionCode, slab: Record, number: Expr) -> None:
        """The place is free again; a number of no taken place stops."""
        b.require(self.holds(b, slab, number), number, code="0801", message="{0} is no taken place of the slab")
        slab.used.unchecked[number] = False
        slab.following.unchecked[number] = slab.free
        slab.free = number.wrapping_add(1)
        slab.count = slab.count.wrapping_sub(1)
