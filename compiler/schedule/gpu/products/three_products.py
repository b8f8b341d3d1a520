"""Products of f32 on tensor cores, which take the first 11 bits of a number. Where a program asks for no more (tf32) that is it. Else what
they leave is put aside, and a b is taken as a b + a_left b + a b_left, which lacks less than 2^-20 of it: NVIDIA's 3xTF32 (CUTLASS, example
27). A number that isn't finite makes a NaN or an infinity of every sum that it is in, as sums do that grow too large; tiles that have one
are computed again by FMAs (`border.py`)."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod, sqrt

from compiler.hir.affine import Affine
from compiler.hir.core import dtype_of
from compiler.hir.hopper import kind_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.cuts.workspaces import Copied
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, boxed_product
from compiler.schedule.gpu.products.product_sums import SumOfLoads, rounds
from compiler.schedule.gpu.products.reading_copies import Reading
from compiler.schedule.gpu.products.stage_preparation import left_of
from compiler.schedule.gpu.products.tiling import Estimated
from compiler.schedule.gpu.tiles.last_block import join_nanoseconds
from compiler.schedule.gpu.tiles.taking_part import unevenness
from runtime.records import evolve

WORTH = 1 << 24
"""Products below which all ways take about as long as a launch."""
LEAST = 256
"""About how many terms a sum has, in the mean, from which on three products are no less exact than FMAs one after the other."""
FMAS = 90
"""That a multiprocessor comes to in a cycle, of the 128 that it has lanes for, where tiles are full squares."""
SQUARE, WIDE = 64, 128
"""Rows and columns of a block's least tile; and rows, or columns, with fewer of which threads read more for each FMA: on an H200
convolutions with 64 filters come to 35 and 48 a cycle."""
FEW = 32
"""Rows, or columns, up to which reading the other operand takes longer than three products do."""
WIDTH = 4
"""Bytes of an f32."""


def wanted(function: HirFunction, product: SumOfLoads) -> bool:
    """Whether a sum is of f32 that aren't to be rounded."""
    return dtype_of(product.a.results[0]) == "f32" and not rounds(function)


def has_few_rows(function: HirFunction, facts: Facts, product: SumOfLoads) -> bool:
    """Or few columns."""
    sides = product.described.m, product.described.n
    return min(prod(facts.about(function.axes[axis]) for axis in side) for side in sides) <= FEW


def by_three(plans: Iterable[Reading], facts: Facts, few: bool) -> tuple[tuple[Copied, ...], HirFunction, BoxedProduct] | None:
    """The copies, the field that reads them, and its three products, of the ways to copy the one that is estimated to end first: what
    tensor cores leave is made by each block, or put aside by launches before. Where the way to cut it is given, it is the first plan that
    this fits; with `few` rows, for which memory is what takes time, the one with the least copies."""
    found = []
    for plan in plans:
        (within, sum), (apart, other) = plan.field(), plan.field()
        found.append((plan.copies, within, boxed_product(within, facts, evolve(sum, thrice=True))))
        copies, low = put_aside(apart, other, plan.copies)
        product = boxed_product(apart, facts, low)
        if product is not None:
            copies = tuple(copy for copy in copies if copy.name != low.low[product.a.load].mem.name)
            apart.parameters = [one for one in apart.parameters if one is not low.low[product.a.load].mem]
        found.append((copies, apart, product))
    known = [
        (copies, field, evolve(product, ways=tuple(after(way, copies, facts) for way in product.ways)))
        for copies, field, product in found
        if product is not None
    ]
    ways = sorted((way for _, _, product in known for way in product.ways), key=lambda way: way.nanoseconds)
    first = min(known, key=lambda each: each[2].ways[0].nanoseconds if ways else _passed(each[0], facts) if few else 0.0, default=None)
    return None if first is None else (*first[:2], evolve(first[2], ways=tuple(ways)))


def after(way: Estimated, copies: Sequence[Copied], facts: Facts) -> Estimated:
    """A way to cut a product with the time that copies take before it."""
    return evolve(way, nanoseconds=way.nanoseconds + _passed(copies, facts))


def _passed(copies: Sequence[Copied], facts: Facts) -> float:
    """Nanoseconds of copies: those that read the same are one launch."""
    read = {copy.read: mem_of(copy.source).dims for copy in copies}
    moved = sum_of_bytes([*read.values(), *(copy.mem.dims for copy in copies)], facts)
    return moved / facts.rates.memory + len(read) * facts.rates.launch


def ends_first(function: HirFunction, facts: Facts, product: SumOfLoads, known: BoxedProduct) -> bool:
    """Whether the copies and three products on tensor cores are estimated to end before FMAs do, that read operands where they lie. What
    was cut in a way that is given was chosen before."""
    rates, described = facts.rates, product.described
    sides = [prod(facts.about(function.axes[axis]) for axis in axes) for axes in (described.m, described.n, described.batch)]
    elements, terms = prod(sides), prod(facts.about(function.axes[axis]) for axis in described.k)
    narrower = min(sides[:2])
    if narrower == 1 and not described.windows:
        return False  # reductions take no longer than reading does
    if not known.ways:
        return True
    terms //= unevenness(product.bounds, described.k[0])
    each = 0.0 if narrower == 1 else 1 / (facts.processors * FMAS * min(1.0, narrower / WIDE) * rates.clock)
    read = sum_of_bytes([mem_of(load.mem).dims for load in (product.a, product.b)], facts)
    fmas = max(elements * terms * each, (read + elements * WIDTH) / rates.memory)
    if elements < facts.processors * SQUARE**2:  # blocks share sums, as many as take no longer to join than to compute
        alone = terms * SQUARE**2 / (FMAS * rates.clock)
        fmas = max(fmas, 2 * sqrt(alone * join_nanoseconds(SQUARE**2 * WIDTH)))
    return known.ways[0].nanoseconds < fmas + rates.launch


def sum_of_bytes(memories: Sequence[Sequence[Affine]], facts: Facts) -> float:
    """Of f32."""
    return float(WIDTH * sum(prod(map(facts.about, dims)) for dims in memories))


def takes(function: HirFunction, product: SumOfLoads, sizes: Mapping[str, int]) -> bool:
    """Whether matrix units take a sum with these sizes: of f32 by three products, or of other numbers as they are."""
    kind = kind_of(*(dtype_of(load.results[0]) for load in (product.a, product.b)))
    if kind is None or kind.sums != product.to or not wanted(function, product):
        return kind is not None and kind.sums == product.to
    return worthwhile(function, Facts(magnitudes=tuple(sorted(sizes.items()))), product)


def worthwhile(function: HirFunction, facts: Facts, product: SumOfLoads) -> bool:
    """Whether three products may stand for FMAs, and take less time. A tile may be written twice: nothing that is stored is read."""
    if function.kernel_info is not None and function.kernel_info.products is not None:
        return False
    stored = {op.mem for op in function.body.body if isinstance(op, Store)}
    if any(isinstance(op, Load) and op.mem in stored for op in function.body.body):
        return False
    sum = product.described
    terms, elements = (prod(facts.about(function.axes[axis]) for axis in axes) for axes in (sum.k, (*sum.m, *sum.n, *sum.batch)))
    terms //= unevenness(product.bounds, sum.k[0])
    return terms >= LEAST and terms * elements >= WORTH


def put_aside(field: HirFunction, product: SumOfLoads, copies: Sequence[Copied]) -> tuple[tuple[Copied, ...], SumOfLoads]:
    """The copies with those of what tensor cores leave of both operands, which become parameters of the field, and the sum with these."""
    all_copies, low = list(copies), {}
    for load, name in ((product.a, "left"), (product.b, "right")):
        whole = next((copy for copy in copies if copy.name == load.mem.name), None)
        if whole is None:
            axes = tuple((f"{name}{dim}", extent) for dim, extent in enumerate(mem_of(load.mem).dims))
            whole = Copied(name, load.mem, axes, tuple(Affine.of(axis) for axis, _ in axes))
        copy = evolve(whole, name=f"{whole.name}_low", part=left_of)
        all_copies.append(copy)
        field.parameters.append(Value(copy.name, evolve(copy.mem, readonly=True)))
        low[load] = Load(mem=field.parameters[-1], index=load.index)
    return tuple(all_copies), evolve(product, thrice=True, low=low)
