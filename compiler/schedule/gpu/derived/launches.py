"""The launch of a field that a thread's values follow from, by the table that was chosen, or the one with the best price."""

from compiler.hir.module import HirFunction
from compiler.schedule.gpu.derived.nest import thread_nest
from compiler.schedule.gpu.derived.search import PricedTable, candidates, priced
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.derived.written import derived_launch
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.launches import Launches

NEAR = 1.15
"""Times the best price: what the model may be wrong by."""
MOST = 5
"""Tables that are tried on a device."""


def derived_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field that isn't of the shape."""
    nest = thread_nest(field)
    if nest is None:
        return None
    best = priced(nest, facts.table, facts) if facts.table is not None else next(iter(candidates(nest, facts)), None)
    if best is None:
        return None
    launch = derived_launch(nest, best.table, best.everywhere, best.inside)
    return Launches((launch,), (), words=words_of(best, nest.axes))


def near_tables(field: HirFunction, facts: Facts) -> list[tuple[ThreadTable, float]]:
    """The table with the best price, and others that may be as fast, with their nanoseconds: of each way to give registers the best, then
    the best one's threads in another way. None for a field that isn't of the shape."""
    nest = thread_nest(field)
    every = candidates(nest, facts) if nest is not None else []
    near = [each for each in every if each.price.nanoseconds <= NEAR * every[0].price.nanoseconds]
    first: dict[tuple[int, ...], PricedTable] = {}
    for each in near:
        first.setdefault(each.table.registers, each)
    others = [each for each in near if each not in first.values()]
    chosen = [*first.values()][: MOST - 1] + others[:1]
    return [(each.table, each.price.nanoseconds) for each in chosen]


def words_of(chosen: PricedTable, axes: tuple[str, ...]) -> tuple[str, ...]:
    """What a table says, and why it was taken."""
    table = chosen.table
    along = zip(axes, table.registers, table.threads, strict=False)
    parts = [f"{axis}: {registers} x {threads}" for axis, registers, threads in along if registers * threads > 1]
    words = [f"elements of a thread x threads of a block, by axis: {', '.join(parts)}"]
    if chosen.inside is not None:
        words.append("threads away from the edges have code of their own")
    return (*words, chosen.price.words())
