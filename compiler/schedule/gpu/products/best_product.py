"""The product for warpgroups that a field becomes, and all ways to cut it: as it is, of several sums together or apart, of operands
that are copied or computed first, behind what rows come to."""

from compiler.hir.module import HirFunction
from compiler.schedule.gpu.cuts.cuts import cuts
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, boxed_product
from compiler.schedule.gpu.products.computed_operands import computed_operands
from compiler.schedule.gpu.products.copied_operands import CopiedProduct, copied_product, copied_sums
from compiler.schedule.gpu.products.packed_rows import packed_sum
from compiler.schedule.gpu.products.sums_together import sums_together, ways_apart
from compiler.schedule.gpu.tiles.taking_part import uneven_bounds
from runtime.records import evolve


def product_of(field: HirFunction, facts: Facts) -> BoxedProduct | None:
    """The product for warpgroups that a field becomes."""
    product = boxed_product(field, facts) or products_together(field, facts)
    if product is None:
        copied = copied_product(field, facts) or copied_sums(field, facts) or with_computed(field, facts)
        product = None if copied is None else copied.product
    return product


def products_together(field: HirFunction, facts: Facts) -> BoxedProduct | None:
    """The field as one product of several sums; among the ways to cut it are those of a product of its own for each sum."""
    together = sums_together(field, facts)
    if together is None or not together.ways:
        return together
    products = [product_of(part, facts) for part in next(cuts(field, facts), ())]
    known = [product for product in products if product is not None]
    apart = ways_apart(known, facts) if known and len(known) == len(products) else ()
    return evolve(together, ways=tuple(sorted((*together.ways, *apart), key=lambda way: way.nanoseconds)))


def with_computed(field: HirFunction, facts: Facts) -> CopiedProduct | None:
    """The field as a product for warpgroups with operands that are bits of bytes, which are numbers on their way to these, or with operands
    that are computed first, and copied then where they, or others, have to be."""
    packed = packed_sum(field)
    product = None if packed is None else boxed_product(field, facts, packed)
    if product is not None:
        return CopiedProduct((), field, product)
    computed = computed_operands(field, facts)
    if computed is None:
        return None
    product = boxed_product(computed.field, facts, computed.found)
    if product is not None:
        return CopiedProduct(computed.made, computed.field, product)
    copied = copied_product(computed.field, facts, computed.found)
    if copied is None or any(uneven_bounds(computed.field, computed.found.bounds, axis) for axis in computed.found.described.k):
        return None
    return evolve(copied, copies=(*computed.made, *copied.copies))
