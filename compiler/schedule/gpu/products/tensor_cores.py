"""What the tensor cores of a machine multiply, and why they don't multiply a block."""

from compiler.analysis.recognise import product_sum
from compiler.hir.core import Contract, dtype_of
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.lane_maps import WARP_KINDS
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import Mma, WarpMma
from compiler.machines.nvidia import PORTABLE, first_with
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.warp_product import LEAST

SUMS = {dtype: kind.sums for dtype, kind in WARP_KINDS.items() if kind.sums != dtype}
"""Operands that tensor cores multiply exactly, and what the products are summed in."""


def multiplies(target: Contract) -> bool:
    """Whether tensor cores give what the sum promises: exact products, sums in the accumulator's type."""
    left, right = dtype_of(target.a), dtype_of(target.b)
    return left == right and SUMS.get(left) == target.to and target.accumulator is None


def multiplies_matrices(function: HirFunction) -> bool:
    """Whether a launch multiplies on tensor cores."""
    return any(isinstance(op, Mma | WarpMma | WarpgroupMma) for top in function.body.body for op in top.walk())


def refusal(field: HirFunction | None, facts: Facts, strict: bool = False) -> tuple[str, str]:
    """Why a block isn't multiplied on the tensor cores, and what would be. `strict`: its floats are to be what the loops give."""
    contracts = [] if field is None else [op for op in field.body.body if isinstance(op, Contract)]
    sums = [op for op in contracts if (product := product_sum(op)) is not None and product.m and product.n]
    if not sums and strict:
        return (
            "its floats are computed as written (`floats=strict`), and tensor cores sum in an order of their own",
            "write `@precision(floats=contract)`; ints are multiplied there either way",
        )
    if not sums:
        return "the block has no sum of products with rows and columns", "tensor cores multiply matrices: `sum += A[i, k] * B[k, j]`"
    sums_of = {**SUMS, "f64": WARP_KINDS["f64"].sums}
    hint = f"they multiply {', '.join(f'{dtype} summed in {to}{_since(dtype)}' for dtype, to in sums_of.items())}"
    op = next((op for op in sums if not multiplies(op) and (dtype_of(op.a), dtype_of(op.b), op.to) != ("f64", "f64", "f64")), None)
    if op is not None:
        left, right = dtype_of(op.a), dtype_of(op.b)
        return f"it multiplies {left if left == right else f'{left} and {right}'}, summed in {op.to}", hint
    late = next((dtype_of(op.a) for op in sums if not facts.machine.multiplies(Issue.REGISTERS, dtype_of(op.a))), None)
    if late is not None:
        return f"those of {facts.machine} don't multiply {late}", hint
    return (
        "its tiles aren't whole fragments",
        f"one axis of rows, one of columns, and one of the sum make fragments of {LEAST} by {LEAST}",
    )


def _since(dtype: str) -> str:
    """` from sm_80`, where not all targets multiply operands of a dtype."""
    if PORTABLE.multiplies(Issue.REGISTERS, dtype):
        return ""
    return f" from {first_with(lambda machine: machine.multiplies(Issue.REGISTERS, dtype))}"
