"""First in, first out, in a fixed place: the queues of `layout.queue`. What is pushed last may be taken back."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Record, select
from compiler.hir.types import Struct
from quantdsl.engine.layout import queue
from runtime.records import frozen


@frozen
class Queue:
    """`what` names its elements in the message of a failure: more of them at once than there are places."""

    element: Struct
    capacity: int
    what: str

    @property
    def type(self) -> Struct:
        return queue(self.element, self.capacity)

    def is_empty(self, queue: Record) -> Expr:
        return queue.first == queue.next

    def count(self, queue: Record) -> Expr:
        return queue.next.wrapping_sub(queue.first)

    def at(self, queue: Record, number: Expr) -> Record:
        """The address of an element by its number, which counts on and on."""
        return queue.items.unchecked[number & (self.capacity - 1)]

    def first(self, queue: Record) -> Record:
        """The oldest one, which must be there."""
        return self.at(queue, queue.first)

    def drop(self, queue: Record) -> None:
        """The oldest one goes; what its address holds stays until the next `push`. An empty queue begins anew, where memory is warm."""
        first, next = queue.first.wrapping_add(1), queue.next
        empty = first == next
        queue.first = select(empty, 0, first)
        queue.next = select(empty, 0, next)

    def push(self, b: FunctionCode, queue: Record) -> Record:
        """Room for one more: its address, which still holds something old. Without room it stops."""
        count = self.count(queue)
        message = f"more than {{0}} {self.what} at once"
        b.require(count < self.capacity, b.const(self.capacity, "i64"), code="0812", message=message)
        number = queue.next
        queue.next = number.wrapping_add(1)
        return self.at(queue, number)
