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
    products = [product for op in sums if (product := product_sum(op)) is not None and product.m and product.n]
    cutting = Cutting(field, [product.result for product in products[:-1]])
    if len(sums) < 2 or len(products) < len(sums):
        return None
    axes = [(*product.m, *product.n, *product.k, *product.batch) for product in products]
    if sum(prod(facts.about(field.axes[axis]) for axis in each) for each in axes) < WORTH:
        return None
    before = [cutting.part(f"sum{number}", [product.op]) for number, product in enumerate(products[:-1])]
    return [*before, cutting.part("stored", [op for op in field.body.body if isinstance(op, Store)])]
