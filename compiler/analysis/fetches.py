"""Loops that read elements at indices which are data, one element after the other."""

from compiler.hir.control import For
from compiler.hir.core import Cast
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import bytes_of

GATHERED_BYTES = 4
"""Of the narrowest elements that machines gather in vectors."""


def fetches(op: For) -> bool:
    """Whether a loop of numbers is faster without vectors, because it reads elements at indices that are data: those that it only moves
    would be put together in vectors to be stored at once, and those narrower than any that are gathered, before they are summed."""
    made = {result.name: inner for inner in op.body.body for result in inner.results}
    data = {name for name, inner in made.items() if isinstance(inner, Cast) and isinstance(inner.value.source, Load)}
    fetched = [inner for inner in made.values() if isinstance(inner, Load) and not data.isdisjoint(inner.symbols)]
    if op.carried:
        return any(bytes_of(mem_of(load.mem).dtype) < GATHERED_BYTES for load in fetched)
    moved = {load.result for load in fetched}
    stores = [inner for inner in op.body.body if isinstance(inner, Store)]
    return bool(moved) and all(store.value in moved and op.variable.name in store.symbols for store in stores)
