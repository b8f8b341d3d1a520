"""Fields of several sums of products, `silu(A W) * (A V)` or `(A P) Q`: all but the last are computed first, each by itself, and kept in a
workspace, which the others read, as an operand or where they are stored. So each is multiplied as if it were alone, and once.

Attention whose values are wider than what a block has of them goes the same way, with maxima and sums of rows between the products: there
every block of columns would compute all scores again."""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.analysis.recognise import ProductSum, product_sum, products_of_parts
from compiler.hir.core import Contract, Reduce, Scan, dtype_of, union_axes
from compiler.hir.instruction import Effect, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.cutting import Cutting
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.need import depending, needed, read_names
from compiler.schedule.gpu.products.copied_operands import copied_sums
from compiler.schedule.gpu.products.halves import in_halves
from compiler.schedule.gpu.products.product_sums import rounds, with_products_apart
from compiler.schedule.gpu.products.sums_together import sums_together

WORTH = 1 << 24
"""Products of all sums together below which launches of their own take longer than they save."""
WIDE = 128
"""Columns of a product that a block has; where there are more, others compute again what all of them read."""
REUSED = 16
"""Elements of a product that read what a row comes to, below which it is computed where it is read."""
MANY = 1 << 20
"""Terms of all elements that would sum a row again, below which further launches take longer, where no product has one of its own."""
MOST_KEPT = 1 << 35
"""Bytes of workspaces between products and what joins rows; larger ones would leave too little memory for the program's own, and what
several results read is computed again for each."""


def several_products(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """The parts of a field of at least two sums of products: one for each, and one for what is reduced between them, with their workspaces
    behind the parameters. None for other fields, and small ones."""
    field = with_products_apart(field)
    if (halves := in_halves(field, facts)) is not None:
        parts = _several_parts(halves.field, facts, halves.kept)
        together = [part for part in parts or () if any(map(products_of_parts, part.body.body))]
        if together and all(sums_together(part, facts) or copied_sums(part, facts) for part in together):
            return parts
    return _several_parts(field, facts, {})


def _several_parts(field: HirFunction, facts: Facts, kept: Mapping[Value, Sequence[Value]]) -> list[HirFunction] | None:
    """`kept`: what the workspaces have instead of a sum."""
    products = products_of(field)
    if len(products) < 2 or any(isinstance(op, Scan) for op in field.body.body):
        return None
    axes = [(*product.m, *product.n, *product.k, *product.batch) for product in products.values()]
    if sum(prod(facts.about(field.axes[axis]) for axis in each) for each in axes) < WORTH:
        return None
    groups = _groups(field, products)
    whole = all(op in products for group in groups for op in group)
    if not (whole or (groups[-1][-1] in products and _is_worth_cutting(field, facts, [*products.values()], groups[:-1]))):
        return None
    return _parts(field, groups, kept)


def each_product(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """The same of any field that has more to reduce than one product, if there is memory for that."""
    products = products_of(field)
    if not products or any(isinstance(op, Scan) for op in field.body.body):
        return None
    groups = _groups(field, products)
    if len(groups) < 2 or (facts.magnitudes and _kept_bytes(groups[:-1], facts) > MOST_KEPT):
        return None
    return _parts(field, groups)


def _groups(field: HirFunction, products: Mapping[Contract | Reduce | Scan, ProductSum]) -> list[list[Contract | Reduce]]:
    """The reductions of each part: a product, or those between two."""
    groups: list[list[Contract | Reduce]] = []
    for op in field.body.body:
        if isinstance(op, Contract | Reduce):
            if op in products or not groups or groups[-1][-1] in products:
                groups.append([])
            groups[-1].append(op)
    return groups


def _parts(
    field: HirFunction, groups: Sequence[Sequence[Contract | Reduce]], kept: Mapping[Value, Sequence[Value]] | None = None
) -> list[HirFunction]:
    results = [[result for op in group for result in op.results] for group in groups[:-1]]
    values = [[one for result in group for one in (kept or {}).get(result, [result])] for group in results]
    cutting = Cutting(field, [value for group in values for value in group])
    sources = [dict.fromkeys(value.source for value in group if value.source is not None) for group in values]
    return [*(cutting.part(f"sum{number}", [*group]) for number, group in enumerate(sources)), cutting.stored()]


def rows_and_products(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """What rows come to by themselves, as the norm of a product's input, those along the same axes together, and the field that reads it
    where it was. None for fields whose blocks read what they sum of rows themselves: those without sums of products, or of columns too."""
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Contract | Scan)]
    products = products_of(field)
    rows: list[Contract | Reduce] = []
    for op in reductions:
        waits = {*needed(field, op.operand_values)}.intersection(reductions)
        if not isinstance(op, Scan) and op not in products and waits <= {*rows} and _is_read_often(field, op, facts, not products):
            rows.append(op)
    if not rows or any(isinstance(op, Scan) for op in reductions):
        return None
    if not products and len({frozenset(union_axes(*op.results)) for op in reductions}) < 2:
        return None
    kept = [_made_of(field, group) for group in _along_same_axes(field, rows)]
    cutting = Cutting(field, [value for values in kept for value in values])
    sources = [[value.source for value in values if value.source is not None] for values in kept]
    return [*(cutting.part(f"rows{number}", [*dict.fromkeys(group)]) for number, group in enumerate(sources)), cutting.stored()]


def _made_of(field: HirFunction, rows: Sequence[Contract | Reduce]) -> list[Value]:
    """What rows come to, as others read it: what is computed of them alone, a number a row, goes with them."""
    own = {value: None for op in rows for value in op.results}
    axes = {*union_axes(*own)}
    for op in field.body.body:
        known = [value for value in op.operand_values if value in own]
        others = [value for value in op.operand_values if value not in own]
        if known and op.effects is Effect.PURE and not isinstance(op, Reduce | Contract) and not op.symbols and not union_axes(*others):
            own |= {value: None for value in op.results if {*union_axes(value)} == axes}
    inside = {value.source for value in own}
    read = {name for op in field.body.body if op not in inside or op in rows for name in read_names(op)}
    return [value for value in own if value.name in read]


def _is_read_often(field: HirFunction, op: Contract | Reduce, facts: Facts, by_blocks: bool) -> bool:
    """Whether many elements read what a row comes to, beside those along the axes that it sums, which are with it in a block."""
    names = depending(op.results, field.body.body)
    read = [each for each in field.body.body if each is not op and names & read_names(each)]
    over = {*op.over}
    spaces = [{axis for axis, _ in union_axes(*(each.results or each.operand_values))} - over for each in read]
    most = max((prod(facts.about(field.axes[axis]) for axis in space) for space in spaces), default=0)
    if most < REUSED * max(_elements(result, facts) for result in op.results):
        return False
    terms = most * prod(facts.about(field.axes[axis]) for axis in over)
    return not by_blocks or terms >= MANY


def _along_same_axes(field: HirFunction, rows: Sequence[Contract | Reduce]) -> list[list[Contract | Reduce]]:
    """Reductions in the order in which parts compute them: those whose results have the same axes are one part, unless one of them waits
    for a part between."""
    groups: list[list[Contract | Reduce]] = []
    for op in rows:
        waits = {*needed(field, op.operand_values)}
        first = max((number for number, group in enumerate(groups) if not waits.isdisjoint(group)), default=0)
        axes = {*union_axes(*op.results)}
        known = next((group for group in groups[first:] if {*union_axes(*group[0].results)} == axes), None)
        if known is None:
            groups.append(known := [])
        known.append(op)
    return groups


def products_of(field: HirFunction) -> dict[Contract | Reduce | Scan, ProductSum]:
    """The sums of products that have rows and columns."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    return {op: product for op in sums if (product := product_sum(op)) is not None and product.m and product.n}


def _is_worth_cutting(
    field: HirFunction, facts: Facts, products: Sequence[ProductSum], kept: Sequence[Sequence[Contract | Reduce]]
) -> bool:
    """Whether products with something else between them are faster by themselves, and there is memory for that: each is read for more
    columns than a block has, or may be rounded for tensor cores, which one launch of all has no way for."""
    if _kept_bytes(kept, facts) > MOST_KEPT:
        return False
    if rounds(field):
        return True
    own = [{axis for axis, _ in union_axes(product.result)} for product in products]
    return any(prod(facts.about(field.axes[axis]) for axis in own[-1] - each) > WIDE for each in own[:-1])


def _kept_bytes(kept: Sequence[Sequence[Contract | Reduce]], facts: Facts) -> int:
    return sum(_elements(result, facts) * bytes_of(dtype_of(result)) for group in kept for op in group for result in op.results)


def _elements(value: Value, facts: Facts) -> int:
    return prod(facts.about(extent) for _, extent in union_axes(value))
