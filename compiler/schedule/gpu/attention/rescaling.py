"""Sums that read a maximum along their own axis, in one pass with it: when the maximum grows, what has been summed is multiplied by what
the exponential changes (`passes/online.py` proves where that holds). The textbook's three passes over the scores of attention become
one."""

from compiler.analysis.recognise import product_sum
from compiler.hir.core import Contract, Reduce
from compiler.hir.module import HirFunction
from compiler.passes.online import Online, online


def rescaling_of(field: HirFunction) -> Online | None:
    """The rule, where it holds for all sums that read a maximum."""
    axes = dict.fromkeys(axis for op in field.body.body if isinstance(op, Contract | Reduce) and is_product(op) for axis in op.over)
    for axis in axes:
        rule = online(field, axis)
        if isinstance(rule, Online) and any(map(is_product, rule.rescaled)):
            return rule
    return None


def is_product(op: Contract | Reduce) -> bool:
    """Whether it is a sum of products with rows and columns, guarded or not."""
    product = None if isinstance(op, Contract) else product_sum(op)
    return isinstance(op, Contract) or (product is not None and bool(product.m and product.n))
