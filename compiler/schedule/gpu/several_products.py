"""Fields of several sums of products, `silu(A W) * (A V)` or `(A P) Q`: all but the last are computed first, each by itself, and kept in a
workspace, which the others read, as an operand or where they are stored. So each is multiplied as if it were alone, and once."""

from math import prod

from compiler.analysis.recognise import product_sum
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.cutting import Cutting
from compiler.schedule.gpu.facts import Facts

WORTH = 1 << 24
"""Products of all sums together below which launches of their own take longer than they save."""


def several_products(field: HirFunction, facts: Facts) -> list[HirFunction] | None:
    """The parts of a field whose reductions are all sums of products, at least two: one for each, with their workspaces behind the
    parameters. None for other fields, and small ones."""
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    products = [found for op in sums if (found := product_sum(op)) is not None and found.m and found.n]
    cutting = Cutting(field, [one.result for one in products[:-1]])
    if len(sums) < 2 or len(products) < len(sums):
        return None
    axes = [(*one.m, *one.n, *one.k, *one.batch) for one in products]
    if sum(prod(facts.about(field.axes[axis]) for axis in each) for each in axes) < WORTH:
        return None
    before = [cutting.part(f"sum{number}", [one.op]) for number, one in enumerate(products[:-1])]
    return [*before, cutting.part("stored", [op for op in field.body.body if isinstance(op, Store)])]
