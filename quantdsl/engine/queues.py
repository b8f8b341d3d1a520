"""Requests and reports on their way, first in, first out: the queues of `layout.py`, which the files of QuantDSL push into. What is pushed
last may be taken back."""

from compiler.hir.native_expressions import Expr, Record, select
from quantdsl.engine.layout import REPORTS, REQUESTS

assert REQUESTS == REPORTS, "a number stands at the same place of both"


def is_empty(queue: Record) -> Expr:
    return queue.first == queue.next


def count(queue: Record) -> Expr:
    return queue.next.wrapping_sub(queue.first)


def at(queue: Record, number: Expr) -> Record:
    """The address of an element by its number, which counts on and on."""
    return queue.items.unchecked[number & (REQUESTS - 1)]


def first(queue: Record) -> Record:
    """The oldest one."""
    return at(queue, queue.first)


def drop(queue: Record) -> None:
    """The oldest one goes; what its address holds stays until the next is pushed. An empty queue begins anew, where memory is warm."""
    following, next = queue.first.wrapping_add(1), queue.next
    empty = following == next
    queue.first = select(empty, 0, following)
    queue.next = select(empty, 0, next)
