"""Fields that blocks of threads reduce: by the table that follows from a rule, by one near it with a better price, or by the one that was
found the fastest."""

from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.loop_wishes import followed, with_tile
from compiler.schedule.gpu.price.block_digits import BlockDigits
from compiler.schedule.gpu.price.near_tables import best_launches, near_digits
from compiler.schedule.gpu.rewrites.terms_of_products import terms_of_products
from compiler.schedule.gpu.tiles.one_pass import in_one_pass
from compiler.schedule.gpu.tiles.tables import block_table
from compiler.schedule.launches import Launches
from compiler.schedule.table import Table
from compiler.schedule.tile_sizes import tile_of
from runtime.records import evolve

EXACT = ("min", "max", "and", "or", "xor", "argmin", "argmax")
"""Reductions that come to the same bits in any order, of floats too."""

UNSURE = ("moments",)
"""Reductions whose price isn't known well: what joins two of them waits for one quotient after the other."""


def block_launches(field: HirFunction, facts: Facts) -> Launches | None:
    ruled = in_blocks(field, facts)
    if ruled is None:
        return None
    field, table = ruled
    if field.loops or tile_of(field):
        table, heeded = with_tile(field, table)
        return evolve(field_launches(field, table), heeded=followed(table) | heeded)
    if facts.digits is not None:
        table = facts.digits.of(table)
        return evolve(field_launches(field, table), heeded=followed(table))
    if any(isinstance(op, Reduce) and op.monoid in UNSURE for op in field.body.body):
        return evolve(field_launches(field, table), heeded=followed(table))
    best = best_launches(field, table, facts)
    return evolve(best.launches, heeded=followed(best.table))


def tables_to_try(field: HirFunction, facts: Facts) -> list[tuple[BlockDigits, float]]:
    """What a device may try, with its nanoseconds: nothing where sums depend on their order, or where the program says tables."""
    ruled = None if field.loops or tile_of(field) or not all(map(_is_exact, field.body.body)) else in_blocks(field, facts)
    return [] if ruled is None else near_digits(*ruled, facts)


def _is_exact(op: object) -> bool:
    if not isinstance(op, Reduce | Contract):
        return True
    return (isinstance(op, Reduce) and op.monoid in EXACT) or not any(is_float(dtype_of(result)) for result in op.results)


def in_blocks(field: HirFunction, facts: Facts) -> tuple[HirFunction, Table] | None:
    """The field as blocks compute it, and its rule's table."""
    field = terms_of_products(field)
    table = block_table(field, facts)
    if table is not None and not any(plan.place == "once" for plan in table.plans) and (joined := in_one_pass(field)) is not None:
        return joined, block_table(joined, facts) or table
    return None if table is None else (field, table)
