"""Fields of several sums of products with the same rows, columns and terms, `silu(A V) * (A W)`: all sums of a tile in one launch, each
with accumulators of its own, out of one ring of stages that has what several of them multiply once. How many sums and operands there are
is what the field has; it stands against launches of their own (`cuts.cuts`), and what is estimated to end first is taken."""

from collections.abc import Sequence
from math import prod

from compiler.hir.core import union_axes
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, boxed_product
from compiler.schedule.gpu.products.product_sums import sums_of_loads
from compiler.schedule.gpu.products.tiling import MEMORY, Estimated, Impossible
from runtime.records import evolve


def sums_together(field: HirFunction, facts: Facts) -> BoxedProduct | None:
    """The field as one product of several sums; None where warpgroups don't take it as such."""
    sums = sums_of_loads(field)
    try:
        return None if sums is None else boxed_product(field, facts, sums)
    except Impossible:
        return None  # annotations may be for tiles of one sum


def ways_apart(products: Sequence[BoxedProduct], facts: Facts) -> tuple[Estimated, ...]:
    """Ways to cut the last of launches of their own, with the time of those before it, and of the workspaces between them."""
    before = sum(product.ways[0].nanoseconds for product in products[:-1] if product.ways)
    last = products[-1]
    for product in products[:-1]:
        elements = prod(facts.about(extent) for _, extent in union_axes(product.target.results[0]))
        before += 2 * elements * bytes_of(product.to) * MEMORY
    return tuple(evolve(way, nanoseconds=way.nanoseconds + before) for way in last.ways)
