"""Block tables near one that follows from a rule: with a digit of one axis twice or half as large, or threads handed from one axis to
another. Where the rule's table is far from what the bytes alone would take, they compete by price."""

from collections.abc import Iterator
from math import prod

from compiler.hir.module import HirFunction
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.price.block_digits import BlockDigits, digits_of
from compiler.schedule.gpu.price.block_work import NotPriced
from compiler.schedule.gpu.price.launch_price import SAMPLES, LaunchPrice, price_of
from compiler.schedule.launches import Launches
from compiler.schedule.region import NotPlaceable
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve, frozen

SMALL = 10_000
"""Nanoseconds of launches that aren't worth a search."""
NEAR = 1.25
"""Times what the bytes alone would take: from there on others are looked for."""
SURE = 0.7
"""Of the rule's price: what another's has to be below, since a price may be wrong by as much."""
NEAR_ENOUGH, WORTH_TRYING, MOST_CANDIDATES = 1.1, 1.1, 5
"""Times what the bytes alone would take, from where on others are tried on a device; times the rule's price, up to which they are; and how
many, the rule's among them."""
ROUNDS = 2
"""How often neighbours of the best are looked at."""
MOST_TRIED = 20
"""Tables whose price is asked."""
MOST_THREADS, LEAST_THREADS = 512, 64
MOST_REGISTERS = 32
"""Elements of a thread along an axis."""


@frozen(eq=False)
class PricedLaunches:
    launches: Launches
    table: Table
    price: LaunchPrice | None


def best_launches(field: HirFunction, table: Table, facts: Facts) -> PricedLaunches:
    """The launches of a field by its rule's table, or by one near it whose price is surely less. Raises `NotPlaceable` where the rule's
    table can't be."""
    given = PricedLaunches(field_launches(field, table), table, None) if facts.quick else _priced(field, table, facts)
    if given.price is None or _nanoseconds(given) < max(SMALL, NEAR * _least(given)):
        return given
    best, seen = given, {table}
    for _ in range(ROUNDS):
        near = [other for other in near_tables(best.table) if other not in seen][: MOST_TRIED + 1 - len(seen)]
        seen.update(near)
        tried = (_tried(field, other, facts, _samples(given)) for other in near)
        cheapest = min((found for found in tried if found is not None), key=_nanoseconds, default=best)
        if _nanoseconds(cheapest) >= _nanoseconds(best):
            break
        best = cheapest
    return best if _nanoseconds(best) < SURE * _nanoseconds(given) else given


def near_digits(field: HirFunction, table: Table, facts: Facts) -> list[tuple[BlockDigits, float]]:
    """The digits of a rule's table and of some near it that may be as fast, with their nanoseconds: candidates for a device to try, where
    all of them give the same bits."""
    given = _tried(field, table, facts, SAMPLES)
    if given is None or _nanoseconds(given) < max(SMALL, NEAR_ENOUGH * _least(given)):
        return []
    tried = (_tried(field, other, facts, _samples(given)) for other in near_tables(table)[:MOST_TRIED])
    others = sorted((found for found in tried if found is not None), key=_nanoseconds)
    near = [found for found in others if _nanoseconds(found) < WORTH_TRYING * _nanoseconds(given)]
    return [(digits_of(found.table), _nanoseconds(found)) for found in (given, *near[: MOST_CANDIDATES - 1])]


def near_tables(table: Table) -> list[Table]:
    """Each once."""
    return list(dict.fromkeys(_near_tables(table)))


def _near_tables(table: Table) -> Iterator[Table]:
    threaded = [plan for plan in table.plans if plan.threads > 1]
    for plan in threaded:
        for threads in (plan.threads * 2, plan.threads // 2):
            yield from _changed(table, _with_threads(plan, threads))
            for other in threaded:
                if other.dim != plan.dim:
                    handed = other.threads * plan.threads // threads if threads else 0
                    yield from _changed(table, _with_threads(plan, threads), _with_threads(other, handed))
    for plan in table.plans:
        if plan.place != "once" and (plan.registers > 1 or plan.threads > 1):
            yield from _changed(table, evolve(plan, registers=plan.registers * 2))
            yield from _changed(table, evolve(plan, registers=plan.registers // 2))
        if plan.lanes > 1:
            yield from _changed(table, evolve(plan, lanes=plan.lanes // 2, registers=plan.registers * (2 if plan.place == "once" else 1)))
    if table.split is not None:
        for parts in (table.split.parts * 2, table.split.parts // 2):
            if parts > 1:
                yield evolve(table, split=evolve(table.split, parts=parts))


def _with_threads(plan: AxisPlan, threads: int) -> AxisPlan:
    """The plan with so many threads: each has more, or fewer, of a row that is whole in a block."""
    whole = plan.place == "once" and threads > 0
    return evolve(plan, threads=threads, registers=-(-plan.registers * plan.threads // threads) if whole else plan.registers)


def _changed(table: Table, *plans: AxisPlan) -> Iterator[Table]:
    """The table with these plans, if there can be such a one; as many threads as before on a multiprocessor, about."""
    changed = {plan.axis: plan for plan in plans}
    block = list(table.block)
    for plan in plans:
        if plan.threads > 1 or table[plan.axis].threads > 1:
            if plan.threads != table[plan.axis].threads and not _is_split(table, plan.dim):
                return
            block[plan.dim] = block[plan.dim] * plan.threads // table[plan.axis].threads
    threads = prod(block)
    sizes = [size for plan in plans for size in (plan.threads, plan.registers, plan.lanes)]
    if min(sizes) < 1 or not LEAST_THREADS <= threads <= max(MOST_THREADS, table.threads):
        return
    if any(plan.registers > max(MOST_REGISTERS, table[plan.axis].registers) and plan.place != "once" for plan in plans):
        return
    resident = None if table.resident is None else max(1, table.resident * table.threads // threads)
    yield evolve(table, plans=[changed.get(plan.axis, plan) for plan in table.plans], block=tuple(block), resident=resident)


def _is_split(table: Table, dim: int) -> bool:
    """Whether the threads along a dimension of the block are split between the axes that have some there; else several axes have all of
    them, in turn."""
    return prod(plan.threads for plan in table.plans if plan.dim == dim) == table.block[dim]


def _priced(field: HirFunction, table: Table, facts: Facts, samples: int = SAMPLES) -> PricedLaunches:
    launches = field_launches(field, table)
    try:
        return PricedLaunches(launches, table, price_of(launches, facts, samples))
    except NotPriced:
        return PricedLaunches(launches, table, None)


def _tried(field: HirFunction, table: Table, facts: Facts, samples: int) -> PricedLaunches | None:
    """None for a table that can't be."""
    try:
        found = _priced(field, table, facts, samples)
    except NotPlaceable:
        return None
    return found if found.price is not None and found.launches.fits(facts.machine.block_shared) else None


def _samples(given: PricedLaunches) -> int:
    """Blocks to be followed of tables near one."""
    return 1 if given.price is not None and given.price.alike else SAMPLES


def _nanoseconds(found: PricedLaunches) -> float:
    assert found.price is not None
    return found.price.nanoseconds


def _least(found: PricedLaunches) -> float:
    assert found.price is not None
    return found.price.least
