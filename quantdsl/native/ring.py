"""A ring of fixed capacity: the newest elements, each push beyond the capacity overwriting the oldest. All zero is an empty ring."""

from compiler.hir.instruction import Value
from compiler.hir.types import Array, HirType, Struct
from quantdsl.native.build import FunctionCode, Number
from quantdsl.native.types import I64, struct
from quantdsl.native.values import Optional
from runtime.records import frozen


@frozen
class NativeRing:
    """`ring<T, N>`. Its code is written where it is used; the ring is named by its address."""

    element: HirType
    capacity: int

    @property
    def type(self) -> Struct:
        """`next` is where the next element goes; `count` of the elements are there."""
        return struct("ring", count=I64, next=I64, items=Array(self.element, self.capacity))

    def count(self, b: FunctionCode, ring: Value) -> Value:
        """How many elements are there; written so that it is plainly not more than the capacity."""
        return b.smaller(b.get(ring, "count"), self.capacity)

    def slot(self, b: FunctionCode, ring: Value, age: Number) -> Value:
        """The address of the element pushed `age` pushes ago: 0 is the newest. An age that isn't there stops."""
        age = b.number(age, "i64")
        count = self.count(b, ring)
        b.require(b.both(b.ge(age, 0), b.lt(age, count)), age, count, code="0801", message="element {0} of a ring that holds {1}")
        behind = b.wrapping("sub", b.wrapping("sub", b.get(ring, "next"), 1), age)
        index = b.select(b.lt(behind, 0), b.wrapping("add", behind, self.capacity), behind)
        return b.at(ring, "items", index, proved=True)

    def get(self, b: FunctionCode, ring: Value, age: Number) -> Value:
        """The number there."""
        return b.get(self.slot(b, ring, age))

    def advance(self, b: FunctionCode, ring: Value) -> tuple[Value, Value]:
        """Make room for one more: the address of its slot, which still holds the oldest when the ring was full, and whether it was."""
        at, count = b.get(ring, "next"), b.get(ring, "count")
        full = b.eq(count, self.capacity)
        following = b.wrapping("add", at, 1)
        b.put(ring, "next", b.select(b.eq(following, self.capacity), 0, following))
        b.put(ring, "count", b.select(full, self.capacity, b.wrapping("add", count, 1)))
        return b.at(ring, "items", at, proved=True), full

    def push(self, b: FunctionCode, ring: Value, value: Value) -> Optional:
        """Put a number in; what it overwrote, if anything."""
        slot, full = self.advance(b, ring)
        oldest = b.get(slot)
        b.put(slot, value)
        return Optional(full, oldest)
