"""First in, first out, in a fixed place: the queues of `layout.queue`. What is pushed last may be taken back."""

from compiler.hir.instruction import Value
from compiler.hir.types import Struct
from quantdsl.engine.layout import queue
from quantdsl.native.build import FunctionCode
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

    def is_empty(self, b: FunctionCode, queue: Value) -> Value:
        return b.eq(b.get(queue, "first"), b.get(queue, "next"))

    def count(self, b: FunctionCode, queue: Value) -> Value:
        return b.wrapping("sub", b.get(queue, "next"), b.get(queue, "first"))

    def at(self, b: FunctionCode, queue: Value, number: Value) -> Value:
        """The address of an element by its number, which counts on and on."""
        return b.at(queue, "items", b.wrapping("and", number, self.capacity - 1), proved=True)

    def first(self, b: FunctionCode, queue: Value) -> Value:
        """The oldest one, which must be there."""
        return self.at(b, queue, b.get(queue, "first"))

    def drop(self, b: FunctionCode, queue: Value) -> None:
        """The oldest one goes; what its address holds stays until the next `push`. An empty queue begins anew, where memory is warm."""
        first, next = b.wrapping("add", b.get(queue, "first"), 1), b.get(queue, "next")
        empty = b.eq(first, next)
        b.put(queue, "first", b.select(empty, 0, first))
        b.put(queue, "next", b.select(empty, 0, next))

    def push(self, b: FunctionCode, queue: Value) -> Value:
        """Room for one more: its address, which still holds something old. Without room it stops."""
        count = self.count(b, queue)
        message = f"more than {{0}} {self.what} at once"
        b.require(b.lt(count, self.capacity), b.const(self.capacity, "i64"), code="0812", message=message)
        number = b.get(queue, "next")
        b.put(queue, "next", b.wrapping("add", number, 1))
        return self.at(b, queue, number)
