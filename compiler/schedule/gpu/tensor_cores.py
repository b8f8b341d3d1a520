"""Sums of products on the tensor cores: a warp multiplies fragments of 16 by 16 that it reads from the tiles in shared memory, and keeps
its part of the sum in fragments. When the sum is complete the fragments go through shared memory to the threads, as registers of the
block's tile: what comes after the sum knows nothing of fragments."""

from collections.abc import Sequence

from compiler.analysis.recognise import ProductSum, product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, dtype_of
from compiler.hir.gpu import SyncThreads, WarpIndex
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import WARP_KINDS, Mma, MmaLoad, MmaStore
from compiler.hir.types import Fragment, FragmentRole
from compiler.machines.gpu import GpuMachine
from compiler.machines.nvidia import PORTABLE, first_with
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.block_tiles import BlockTiles
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.staged_tiles import Staged
from compiler.schedule.region import TileRegion
from runtime.records import frozen

SIDE = 16
"""Rows, columns and depth of a fragment."""

SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32"}
"""Operands that tensor cores multiply exactly, and what the products are summed in."""


def multiplies(target: Contract) -> bool:
    """Whether tensor cores give what the sum promises: exact products, sums in the accumulator's type."""
    left, right = dtype_of(target.a), dtype_of(target.b)
    return left == right and SUMS.get(left) == target.to and target.accumulator is None


def chosen(field: HirFunction, products: Sequence[ProductSum], machine: GpuMachine) -> bool:
    """Whether a field's products go to the tensor cores of a machine: some are theirs, it has all of those, and the program doesn't
    forbid it."""
    if field.kernel_info is not None and field.kernel_info.tensor_cores is False:
        return False
    ours = [product.op for product in products if isinstance(product.op, Contract) and multiplies(product.op)]
    return bool(ours) and all(machine.multiplies(Issue.FRAGMENTS, dtype_of(op.a)) for op in ours)


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
    late = next((dtype_of(op.a) for op in sums if not facts.machine.multiplies(Issue.FRAGMENTS, dtype_of(op.a))), None)
    if late is not None:
        return f"those of {facts.machine} don't multiply {late}", hint
    return (
        "its tiles aren't whole fragments",
        f"one axis of rows, one of columns, and one of the sum make fragments of {SIDE} by {SIDE}",
    )


def _since(dtype: str) -> str:
    """` from sm_80`, where not all targets multiply operands of a dtype."""
    if PORTABLE.multiplies(Issue.FRAGMENTS, dtype):
        return ""
    return f" from {first_with(lambda machine: machine.multiplies(Issue.FRAGMENTS, dtype))}"


@frozen
class Fragments:
    """How a product's tile is shared by the block's warps: `down` by `across` warps, each with `rows` by `columns` fragments."""

    row_axis: str
    column_axis: str
    down: int
    across: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        return self.rows * self.columns


def fragments_of(placing: BlockTiles, target: Contract, product: ProductSum, region: TileRegion) -> Fragments | None:
    """The fragments of a product's tile; None where tensor cores don't take it: a type, a tile that isn't whole fragments, more axes."""
    if not multiplies(target):
        return None
    over = [axis for axis in target.over if placing.plan(axis, region).tile > 1]
    rows = [axis for axis in product.m if placing.plan(axis, region).tile > 1]
    columns = [axis for axis in product.n if placing.plan(axis, region).tile > 1]
    if not len(over) == len(rows) == len(columns) == 1 or any(placing.plan(axis, region).tile > 1 for axis in product.batch):
        return None
    height, width, depth = (placing.plan(axis, region).tile for axis in (*rows, *columns, *over))
    if height % SIDE or width % SIDE or depth % SIDE:
        return None
    warps = placing.table.threads // 32
    for down in sorted(_divisors(warps), key=lambda down: abs(height // down - width // (warps // down))):
        across = warps // down
        if height % (SIDE * down) == 0 and width % (SIDE * across) == 0:
            return Fragments(rows[0], columns[0], down, across, height // (SIDE * down), width // (SIDE * across))
    return None


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def zeros(b: Builder, target: Contract, fragments: Fragments) -> list[Value]:
    """The fragments of a sum that has not begun."""
    type = Fragment(FragmentRole.ACCUMULATOR, SIDE, SIDE, SIDE, target.to)
    return [b.const(0.0 if target.to == "f32" else 0, type) for _ in range(fragments.count)]


def multiplied(
    placing: BlockTiles, fragments: Fragments, left: Staged, right: Staged, depth: int, sums: Sequence[Value], b: Builder
) -> list[Value]:
    """The warp's sums with the products of a step added."""
    row, column = _warp(placing, fragments, b)
    totals = list(sums)
    for step in range(0, depth, SIDE):
        ours = [_fragment(left, FragmentRole.A, row + SIDE * n, step, b) for n in range(fragments.rows)]
        theirs = [_fragment(right, FragmentRole.B, column + SIDE * n, step, b) for n in range(fragments.columns)]
        layout = f"{'row' if left.sum_fastest else 'col'}.{'col' if right.sum_fastest else 'row'}"
        for number in range(fragments.count):
            a, c = ours[number // fragments.columns], theirs[number % fragments.columns]
            totals[number] = b.emit(Mma(a=a, b=c, c=totals[number], layout=layout)).result
    return totals


def _warp(placing: BlockTiles, fragments: Fragments, b: Builder) -> tuple[Affine, Affine]:
    """The first row and column of the warp's part of the tile."""
    warp = b.emit(WarpIndex(operator="warp")).result
    across = b.const(fragments.across, "index")
    down, along = b.op("div", warp, across), b.op("rem", warp, across)
    return Affine.of(down.name) * (SIDE * fragments.rows), Affine.of(along.name) * (SIDE * fragments.columns)


def _fragment(staged: Staged, role: FragmentRole, own: Affine, step: int, b: Builder) -> Value:
    type = Fragment(role, SIDE, SIDE, SIDE, staged.dtype)
    index = [own, Affine.of(step)] if staged.sum_fastest else [Affine.of(step), own]
    rows_first = (role is FragmentRole.A) == staged.sum_fastest
    return b.emit(MmaLoad(layout="row" if rows_first else "col", mem=staged.memory, index=tuple(index), type=type)).result


def collected(placing: BlockTiles, target: Contract, fragments: Fragments, sums: Sequence[Value], region: TileRegion) -> list[Value]:
    """The complete sums as each thread's registers of the tile."""
    b = region.builder
    axes = (fragments.row_axis, fragments.column_axis)
    height, width = (placing.plan(axis, region).tile for axis in axes)
    memory = placing.shared_memory("product", target.to, (height, width + SIDE // 4))
    row, column = _warp(placing, fragments, b)
    b.emit(SyncThreads())
    for number, value in enumerate(sums):
        index = (row + SIDE * (number // fragments.columns), column + SIDE * (number % fragments.columns))
        b.emit(MmaStore(layout="row", mem=memory, index=index, fragment=value))
    b.emit(SyncThreads())
    return [b.load(memory, [region.forms[axis] - region.starts[axis] for axis in axes])]
