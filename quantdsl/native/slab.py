"""A slab of fixed capacity: places for structs that come and go, each known by its number. All zero is an empty slab.

Places that were given back are taken first, the last one before others; behind them come those that were never taken."""

from compiler.hir.instruction import Value
from compiler.hir.types import Array, HirType, Struct
from quantdsl.native.build import FunctionCode
from quantdsl.native.types import I1, I64, struct
from runtime.records import frozen


@frozen
class Slab:
    """A number is a place's index from 0; `free` links the places given back, as the number plus 1 (0 ends the chain)."""

    element: HirType
    capacity: int

    @property
    def type(self) -> Struct:
        n = self.capacity
        return struct("slab", count=I64, fresh=I64, free=I64, following=Array(I64, n), used=Array(I1, n), items=Array(self.element, n))

    def take(self, b: FunctionCode, slab: Value) -> Value:
        """The number of a free place, all zero now; -1 when there is none."""
        free, fresh = b.get(slab, "free"), b.get(slab, "fresh")
        again = b.ne(free, 0)
        last = b.variable(b.const(-1, "i64"))
        with b.choice(again) as c:
            with c.then():
                b.set(last, b.wrapping("sub", free, 1))
                b.put(slab, "free", b.get(slab, "following", b.now(last), proved=True))
            with c.otherwise(), b.when(b.lt(fresh, self.capacity)):
                b.set(last, fresh)
                b.put(slab, "fresh", b.wrapping("add", fresh, 1))
        number = b.now(last)
        with b.when(b.ge(number, 0)):
            b.put(slab, "used", number, True, proved=True)
            b.put(slab, "count", b.wrapping("add", b.get(slab, "count"), 1))
            b.clear(b.at(slab, "items", number, proved=True))
        return number

    def holds(self, b: FunctionCode, slab: Value, number: Value) -> Value:
        """Whether a place of that number is taken; any number may be asked about."""
        inside = b.both(b.ge(number, 0), b.lt(number, self.capacity))
        return b.both(inside, b.get(slab, "used", b.select(inside, number, 0), proved=True))

    def item(self, b: FunctionCode, slab: Value, number: Value) -> Value:
        """The address of what a taken place holds; a number of no taken place stops."""
        b.require(self.holds(b, slab, number), number, code="0801", message="{0} is no taken place of the slab")
        return b.at(slab, "items", number, proved=True)

    def give_back(self, b: FunctionCode, slab: Value, number: Value) -> None:
        """The place is free again; a number of no taken place stops."""
        b.require(self.holds(b, slab, number), number, code="0801", message="{0} is no taken place of the slab")
        b.put(slab, "used", number, False, proved=True)
        b.put(slab, "following", number, b.get(slab, "free"), proved=True)
        b.put(slab, "free", b.wrapping("add", number, 1))
        b.put(slab, "count", b.wrapping("sub", b.get(slab, "count"), 1))
