"""A ring of fixed capacity: the newest elements, each push beyond the capacity overwriting the oldest. All zero is an empty ring."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, Optional, Record, minimum, select
from compiler.hir.native_types import I64, struct
from compiler.hir.types import Array, HirType, Struct
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

    def count(self, b: FunctionCode, ring: Record) -> Expr:
        """How many elements are there; written so that it is plainly not more than the capacity."""
        return minimum(ring.count, self.capacity)

    def slot(self, b: FunctionCode, ring: Record, age: Number) -> Record:
        """The address of the element pushed `age` pushes ago: 0 is the newest. An age that isn't there stops."""
        age = b.number(age, "i64")
        count = self.count(b, ring)
        b.require((age >= 0) & (age < count), age, count, code="0801", message="element {0} of a ring that holds {1}")
        behind = ring.next.wrapping_sub(1).wrapping_sub(age)
        index = select(behind < 0, behind.wrapping_add(self.capacity), behind)
        return b.at(ring, "items", index, proved=True)

    def get(self, b: FunctionCode, ring: Record, age: Number) -> Expr:
        """The number there."""
        return b.load(self.slot(b, ring, age))

    def advance(self, b: FunctionCode, ring: Record) -> tuple[Record, Expr]:
        """Make room for one more: the address of its slot, which still holds the oldest when the ring was full, and whether it was."""
        at, count = ring.next, ring.count
        full = count == self.capacity
        following = at.wrapping_add(1)
        ring.next = select(following == self.capacity, 0, following)
        ring.count = select(full, self.capacity, count.wrapping_add(1))
        return b.at(ring, "items", at, proved=True), full

    def push(self, b: FunctionCode, ring: Record, value: Expr) -> Optional:
        """Put a number in; what it overwrote, if anything."""
        slot, full = self.advance(b, ring)
        oldest = b.load(slot)
        b.store(slot, value)
        return Optional(full, oldest)
