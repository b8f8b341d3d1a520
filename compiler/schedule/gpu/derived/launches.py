"""The launch of a field that a thread's values follow from, by the table with the best price."""

from compiler.hir.module import HirFunction
from compiler.schedule.gpu.derived.nest import thread_nest
from compiler.schedule.gpu.derived.search import PricedTable, candidates
from compiler.schedule.gpu.derived.written import derived_launch
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.launches import Launches


def derived_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field that isn't of the shape."""
    nest = thread_nest(field)
    found = candidates(nest, facts) if nest is not None else []
    if nest is None or not found:
        return None
    best = found[0]
    launch = derived_launch(nest, best.table, best.everywhere, best.inside)
    return Launches((launch,), (), words=words_of(best, nest.axes))


def words_of(chosen: PricedTable, axes: tuple[str, ...]) -> tuple[str, ...]:
    """What a table says, and why it was taken."""
    table = chosen.table
    along = zip(axes, table.registers, table.threads, strict=False)
    parts = [f"{axis}: {registers} x {threads}" for axis, registers, threads in along if registers * threads > 1]
    words = [f"elements of a thread x threads of a block, by axis: {', '.join(parts)}"]
    if chosen.inside is not None:
        words.append("threads away from the edges have code of their own")
    return (*words, chosen.price.words())
