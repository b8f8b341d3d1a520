"""Loops that read elements at indices which are data, one element after the other."""

from compiler.hir.control import For
from compiler.hir.core import Cast
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import bytes_of

GATHERED_BYTES = 4
"""Of the narrowest elements that machines gather in vectors."""


def fetches(op: For) -> bool:
    """Whether a loop of numbers is faster without vectors, because it reads elements at indices that are data: those that it only moves
    would be put together in vectors to be stored at once, and so would those narrower than any that are gathered, before they are summed or
    beside others that lie apart."""
    made = {result.name: inner for inner in op.body.body for result in inner.results}
    data = {name for name, inner in made.items() if isinstance(inner, Cast) and isinstance(inner.value.source, Load)}
    loads = [inner for inner in made.values() if isinstance(inner, Load)]
    fetched = [load for load in loads if not data.isdisjoint(load.symbols)]
    if any(_is_narrow(load) for load in fetched) and (op.carried or any(_lies_apart(load, op) for load in loads if load not in fetched)):
        return True
    moved = {load.result for load in fetched}
    stores = [inner for inner in op.body.body if isinstance(inner, Store)]
    return bool(moved) and not op.carried and all(store.value in moved and op.variable.name in store.symbols for store in stores)


def _is_narrow(load: Load) -> bool:
    return bytes_of(mem_of(load.mem).dtype) < GATHERED_BYTES


def _lies_apart(load: Load, op: For) -> bool:
    """Whether narrow elements of neighbouring iterations are no neighbours in memory."""
    mem, steps = mem_of(load.mem), [form.coefficient(op.variable.name) for form in load.index]
    beside = not any(steps[:-1]) and steps[-1] == 1 and (mem.strides is None or mem.strides[-1].value == 1)
    return any(steps) and not beside and _is_narrow(load)
