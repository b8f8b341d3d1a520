"""What warpgroups of sm_90a can multiply: a field that is one sum of products, whose operands lie as bulk copies take them. Rows of a
tile may lie along several axes (the pixels of a convolution, the tokens of several texts): they are a box of all of them. The sum may
run along further axes than the one that boxes are contiguous along (the taps of a window)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product as choices
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, dtype_of, union_axes
from compiler.hir.hopper import MOST_STEP, kind_of
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, bytes_of
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand, divides, side_of, wide_of
from compiler.schedule.gpu.products.cut_product import CutProduct
from compiler.schedule.gpu.products.product_sums import SumOfLoads, bounded_sum, rounds, sum_of_loads
from compiler.schedule.gpu.products.tiling import SHARED_BYTES, Estimated, ProductWork, TileRequests, Tiling, ranked, resident
from compiler.schedule.gpu.rewrites.scaled_sums import GroupScale
from compiler.schedule.gpu.tiles.taking_part import uneven_bounds, unevenness
from compiler.schedule.tile_sizes import tile_of
from runtime.records import evolve, frozen

GROUPS = 2
"""Warpgroups that share a large tile."""
LEAST = 64
"""Rows below which a tile would be mostly empty, and terms of three products."""
LEAST_CHANNELS = 16
"""Below which copies that put taps together are worth it."""
LEAST_OF_SEVERAL = 32
"""Columns along one of several axes below which tiles would be mostly empty."""
LEAST_OF_WINDOW, LEAST_TERMS = 16, 8
"""The same of windows, which are summed term by term elsewhere; and terms of a box, where a sum has several boxes."""
SUMMED_COARSELY = ("f8e4m3", "f8e5m2")
"""Numbers whose products tensor cores sum in fewer bits than f32 has."""
STRETCH, SHORT, SHORTER = 4, 1024, 512
"""Stages of f32 summed by tensor cores alone, twice as many of 8 bits; and terms of a sum up to which it is half as many, and one: there
FMAs one after the other lose few bits."""
ALL = 1 << 20
"""Stages that no sum has."""
BOXED, SECTOR = ("f16", "bf16"), 32
"""Results that bulk copies write; and bytes of a sector, which registers fill of wider ones."""
MOST_REACHED = 256
"""Elements along a dim that a box reaches over."""
BEGUN, BEGUN_OF_STEPS = 4, 11
"""Elements of a tile that take as long to write as where a row of it begins, and ends, in a line of cache that others fill; and of three
products of so many steps, which take most of the time: on an H200 those of 18 steps took 4.84, 4.29 and 4.09 ms with rows of 2, 4 and 8."""


@frozen(eq=False)
class MultipliedSum:
    """One of the sums of a tile, and the operands of a product that is added to it, or subtracted from it."""

    target: Contract | Reduce
    a: BoxedOperand
    b: BoxedOperand
    negative: bool = False


@frozen(eq=False)
class FactorPair:
    """What is multiplied; `left`: what tensor cores leave of the rows, instead of these; `negative`: the product is subtracted."""

    a: BoxedOperand
    b: BoxedOperand
    left: bool = False
    negative: bool = False


@frozen(eq=False)
class BoxedProduct:
    """A field that is one product, or several with the same rows, columns and terms, with what follows them. `guard`: outside of it
    products count nothing, whatever the factors are, which zeros for one of them don't say of the other's infinities and NaN; `outer`:
    the sum's axes that are walked element by element, around `sum`."""

    summed: tuple[MultipliedSum, ...]
    sum: str
    outer: tuple[str, ...]
    tiling: Tiling
    processors: int

    low: BoxedOperand | None = None
    """What the tensor cores leave of columns, where the products with that count too, and with what they leave of rows: copied, or made
    in a stage."""
    stretch: int = 0
    """Stages whose products tensor cores sum by themselves, before their sum is added to others as floats are; 0: all."""
    ways: tuple[Estimated, ...] = ()
    """All ways to cut it, the tiling's first; none where that was given."""
    has_zeros: bool = False
    """Whether operands are zeros outside of the bounds."""

    guard: tuple[Affine, ...] = ()
    bounds: tuple[Affine, ...] = ()
    """Forms that are at least 0 where terms take part: steps without any such terms are left out, so that sums are not of one length."""
    scale: GroupScale | None = None
    """What sums of stretches are multiplied by before they are added up. This, bounds and guard are known where roles are read."""
    in_parts: bool = False
    """Whether a factor is a sum, whose terms are multiplied apart."""

    @property
    def target(self) -> Contract | Reduce:
        """The first sum."""
        return self.summed[0].target

    @property
    def targets(self) -> tuple[Contract | Reduce, ...]:
        """The sums, each once: several products may be added to one."""
        return tuple(dict.fromkeys(one.target for one in self.summed))

    @property
    def to(self) -> str:
        return dtype_of(self.target.results[0])

    @property
    def a(self) -> BoxedOperand:
        """The first sum's operand of the rows; others are cut as this one."""
        return self.summed[0].a

    @property
    def b(self) -> BoxedOperand:
        return self.summed[0].b

    @property
    def pairs(self) -> list[list[FactorPair]]:
        """What is multiplied for each accumulator of a block of rows: the sums, behind what tensor cores leave of their products."""
        pairs = [
            [FactorPair(one.a, one.b, negative=one.negative) for one in self.summed if one.target is target] for target in self.targets
        ]
        return pairs if self.low is None else [[FactorPair(self.a, self.b, left=True), FactorPair(self.a, self.low)], *pairs]

    @property
    def in_registers(self) -> bool:
        """Whether rows come to the products in registers."""
        return self.a.packed is not None or (self.a.mem.dtype == "f32" and (self.low is not None or self.a.across))

    @property
    def takes_turns(self) -> bool:
        """Whether warpgroups of a tile ask for their products by turns: one multiplies its sums by scales while tensor cores have the
        other's products. Where rows are made of bytes, that goes on beside them anyway."""
        return self.scale is not None and self.tiling.groups > 1 and not self.tiling.unpacks

    def varying(self, field: HirFunction) -> list[str]:
        """Axes along which the sums vary."""
        return [axis for axis in field.axes if axis not in (*self.outer, self.sum)]

    @property
    def sums(self) -> int:
        """Of a thread: more than once as many where those of stretches are added to others."""
        return self.accumulators * self.columns // 2 * (1 + (bool(self.stretch) and self.scale is None) + (self.low is not None))

    @property
    def accumulators(self) -> int:
        """Of a warpgroup, each of 64 rows: those of its blocks, one for each sum."""
        return self.tiling.blocks * len(self.targets)

    @property
    def rows(self) -> int:
        return self.a.extent

    @property
    def together(self) -> int:
        """Blocks of a cluster."""
        return self.tiling.cluster * self.tiling.pieces

    @property
    def teams(self) -> int:
        """Clusters of blocks that run at one time."""
        return resident(self.together, self.processors) * self.tiling.residents

    @property
    def columns(self) -> int:
        return self.b.extent

    @property
    def width(self) -> int:
        """Columns of a tile that a block finishes."""
        return self.columns // self.tiling.pieces

    @property
    def sides(self) -> tuple[BoxedOperand, BoxedOperand]:
        return self.a, self.b

    @property
    def rounded(self) -> bool:
        """Whether factors of f32 are rounded to tf32 as they are copied, which tensor cores would cut."""
        return self.a.mem.dtype == "f32" and self.low is None

    @property
    def may_repair(self) -> bool:
        """Whether what comes out may have to be computed again, in another way."""
        return bool(self.guard) or self.repairs_all

    @property
    def repairs_all(self) -> bool:
        """Whether any tile may, in which a sum isn't finite."""
        return self.scale is not None or self.low is not None or self.in_parts

    @property
    def copied(self) -> tuple[BoxedOperand, ...]:
        """What is copied to a stage, once where several sums multiply it."""
        return tuple(side for side in self.staged if side is not self.low or not self.tiling.makes_low)

    @property
    def staged(self) -> tuple[BoxedOperand, ...]:
        """What a stage holds."""
        whole = dict.fromkeys(side for one in self.summed for side in (one.a, one.b))
        return tuple(whole) if self.low is None else (*whole, self.low)

    @property
    def depth(self) -> int:
        """Elements of the sum in a stage."""
        return self.a.depth

    @property
    def cut(self) -> CutProduct:
        tiles: dict[tuple[str, ...], int] = {(axis,): size for side in self.sides for axis, size in zip(side.axes, side.tile, strict=True)}
        of_sum = {**({"stretch": self.stretch} if self.stretch else {}), **({"zeros": True} if self.has_zeros else {})}
        loads, walked = [side.load for side in self.copied], (*self.outer, self.sum)
        return CutProduct(self.targets, loads, tiles, walked, self.depth, self.tiling.stages, self.tiling.marks, of_sum)


def boxed_product(function: HirFunction, facts: Facts, product: SumOfLoads | None = None) -> BoxedProduct | None:
    """The field as a product for warpgroups, of the sum that was found in it; None where they don't take it: another machine, more than
    one sum, operands that are computed, types and strides that boxes can't have, little to do."""
    if facts.machine.unit(Issue.WARPGROUP) is None or (function.kernel_info is not None and function.kernel_info.tensor_cores is False):
        return None
    direct = product is None
    product = product or sum_of_loads(function) or bounded_sum(function)
    if product is None:
        return None
    kind = kind_of(*(dtype_of(load.results[0]) for load in (product.b if product.packed else product.a, product.b)))
    if kind is None or kind.sums != product.to:
        return None
    if kind.word == "tf32" and not (product.thrice or rounds(function)):
        return None
    if any(kind_of(*(dtype_of(load.results[0]) for load in (other.a, other.b))) != kind for other in product.others):
        return None
    for along in _contiguous_first(product):
        one, other = side_of(product.a, product.described, along, product.packed), side_of(product.b, product.described, along)
        if one is None or other is None:
            continue
        # two groups that fill half a box each are put together
        least = wide_of(one.mem) // 2 + 1 if product.described.batch else LEAST_CHANNELS
        if direct and product.described.windows and facts.about(function.axes[along]) < least:
            continue
        first = True if product.packed is not None else _is_scaled(product.scale, one, other)
        a, b = (one, other) if (_is_first(function, facts, one, other) if first is None else first) else (other, one)
        a, b = _of_one_axis(function, facts, a) if a.across else a, _of_one_axis(function, facts, b)
        if kind.depth != 16 and (a.across or b.across):
            if kind.word != "tf32" or (b.across and (not product.thrice or product.low)):
                continue
            b = evolve(b, turned=b.across)
        planned = _planned(function, facts, product, a, b, along)
        if planned is not None:
            return planned
    return None


def _of_one_axis(function: HirFunction, facts: Facts, side: BoxedOperand) -> BoxedOperand:
    """The operand with tiles along one of its axes, the one that memory is contiguous along or else the longest: others are places of the
    grid, as those are that both operands know."""
    position = len(side.axes) - 1 if side.across else max(range(len(side.axes)), key=lambda n: facts.about(function.axes[side.axes[n]]))
    return evolve(side, axes=side.axes[position : position + 1], dims=side.dims[position : position + 1])


def _contiguous_first(product: SumOfLoads) -> Iterator[str]:
    """Axes of the sum that boxes may lie along."""
    over = product.described.k
    last = {load.index[-1].names[0] for load in (product.a, product.b) if len(load.index[-1].names) == 1}
    yield from sorted(over, key=lambda axis: axis not in last)


def _planned(function: HirFunction, facts: Facts, product: SumOfLoads, a: BoxedOperand, b: BoxedOperand, along: str) -> BoxedProduct | None:
    summed = _alike_sides(product, a, b, along)
    if summed is None or any(one.b.steps or not _end_alike(function, (one.a, one.b), along) for one in summed):
        return None
    if not _is_enough(function, facts, product, summed, along):
        return None
    above, beside = _sides(summed)
    outer = tuple(axis for axis in product.described.k if axis != along)
    scale = product.scale
    if scale is not None and (scale.axis != along or scale.terms % a.depth):
        return None
    coarse = product.thrice or a.mem.dtype in SUMMED_COARSELY
    makes_low = product.thrice and not product.low
    bounds = () if outer else uneven_bounds(function, product.bounds, along)
    if not product.has_zeros and (bounds != product.bounds or (bounds and len(a.axes) > 1)):
        return None
    tiling, estimates = facts.tiling, tuple[Estimated, ...]()
    about = makes_low, b.turned, a.packed is not None
    if tiling is not None and tiling.axes == a.axes and (tiling.makes_low, tiling.turned, tiling.unpacks) != about:
        return None
    if tiling is None or tiling.axes != a.axes or tiling.products != len(summed):
        work = _work(function, facts, product, summed, along, coarse, unevenness(bounds, along))
        extents = [function.axes[axis] for axis in a.axes]
        wishes = TileRequests.of(function.kernel_info).sized(tile_of(function), a.axes, b.axes, along, a.depth)
        steps = [a.load.index[dim].coefficient(axis) for axis, dim in zip(a.axes, a.dims, strict=True)]
        begun = BEGUN_OF_STEPS / work.steps if product.thrice else BEGUN
        stored = stored_rows(function, a.axes)
        estimates = ranked(work, lambda rows: _tile(extents, steps, facts, rows, stored, begun), wishes)
        estimates = tuple(each for each in estimates if not bounds or each.tiling.is_alone)
        if not estimates:
            return None
        tiling = estimates[0].tiling
    tiled = {one: evolve(one, tile=tile) for some, tile in ((above, tiling.rows), (beside, (tiling.columns,))) for one in some}
    summed = [evolve(one, a=tiled[one.a], b=tiled[one.b]) for one in summed]
    a, b = tiled[a], tiled[b]
    low = side_of(product.low.get(b.load), product.described, along) if product.low else b if makes_low else None
    if low is None and product.thrice:
        return None
    low = None if low is None else evolve(low, tile=b.tile)
    terms = _elements(function, facts, product.described.k)
    alone = STRETCH if terms > SHORT else STRETCH // 2 if terms > SHORTER else 1
    stretch = 0 if not coarse else alone if product.thrice else 2 * STRETCH
    if scale is not None:
        stretch = scale.terms // a.depth or ALL
    return BoxedProduct(
        tuple(summed), along, outer, tiling, facts.processors, low=low, stretch=stretch, ways=estimates, has_zeros=product.has_zeros,
        in_parts=product.in_parts,
    )  # fmt: skip


def _is_enough(function: HirFunction, facts: Facts, product: SumOfLoads, summed: Sequence[MultipliedSum], along: str) -> bool:
    """Whether tiles would be full enough, and boxes reach their elements."""
    a, b, described = summed[0].a, summed[0].b, product.described
    columns = _elements(function, facts, b.axes)
    if columns < LEAST_OF_SEVERAL and any(axis not in (*a.axes, *b.axes) for axis in described.n + described.m):
        return False
    terms, inner = (_elements(function, facts, axes) for axes in (described.k, (along,)))
    windowed = bool(described.windows) or (isinstance(product.target, Reduce) and not product.others)
    few = LEAST if product.thrice else wide_of(b.mem) // 4  # results take all the time there
    least = (LEAST_OF_WINDOW, LEAST_TERMS) if windowed else (LEAST, LEAST_TERMS if len(described.k) > 1 else few)
    steps = [step for one in summed for step in one.a.steps]
    return _elements(function, facts, a.axes) >= least[0] and min(terms, inner) >= least[1] and all(step <= MOST_STEP for step in steps)


def _work(
    function: HirFunction, facts: Facts, product: SumOfLoads, summed: Sequence[MultipliedSum], along: str, coarse: bool, uneven: int
) -> ProductWork:
    """What is to be done, for the model of tiles."""
    a, b, over = summed[0].a, summed[0].b, product.described.k
    above, beside = _sides(summed)
    return ProductWork(
        axes=a.axes,
        matrices=_elements(function, facts, [axis for axis in function.axes if axis not in (*a.axes, *b.axes, *over)]),
        down=tuple(facts.about(function.axes[axis]) for axis in a.axes),
        columns=_elements(function, facts, b.axes),
        steps=_elements(function, facts, [axis for axis in over if axis != along]) * -(-facts.about(function.axes[along]) // a.depth),
        processors=facts.processors,
        astride=(any(one.astride for one in above), any(one.astride for one in beside)),
        sums=len({one.target for one in summed}),
        products=len(summed),
        operands=(len(above), len(beside)),
        apart=coarse,
        twice=product.thrice,
        makes_low=product.thrice and not product.low,
        across=wide_of(b.mem) if any(one.across for one in beside) else 1,
        turned=b.turned,
        fetched=3 if product.thrice else int(a.across and a.mem.dtype == "f32"),
        both_across=all(one.across and not one.turned for one in (*above, *beside)),
        scaled=0 if product.scale is None else product.scale.terms // a.depth or ALL,
        hot=a.mem.dtype == "f32" and not product.thrice,
        shared=min(SHARED_BYTES, facts.machine.block_shared),
        boxed=any(isinstance(op, Store) and begins_anywhere(mem_of(op.mem)) for op in function.body.body)
        or stored_rows(function, a.axes) is not None,
        uneven=uneven,
        packed=1 if a.packed is None else a.packed.each * bytes_of(a.packed.dtype),
    )


def _sides(summed: Sequence[MultipliedSum]) -> tuple[tuple[BoxedOperand, ...], tuple[BoxedOperand, ...]]:
    """The operands of the rows and of the columns, each once."""
    return tuple(dict.fromkeys(one.a for one in summed)), tuple(dict.fromkeys(one.b for one in summed))


def _elements(function: HirFunction, facts: Facts, axes: Iterable[str]) -> int:
    """About how many there are along all of these axes."""
    return prod(facts.about(function.axes[axis]) for axis in axes)


def _alike_sides(product: SumOfLoads, a: BoxedOperand, b: BoxedOperand, along: str) -> list[MultipliedSum] | None:
    """The sums with their operands, each along the axes of the first sum's; None where one can't be that."""
    summed = [MultipliedSum(product.target, a, b, product.negative)]
    known = [a, b]
    for other in product.others:
        sides: list[BoxedOperand] = []
        for like in (a, b):
            found = [_along(side_of(load, other.described, along), like) for load in (other.a, other.b)]
            side = next((one for one in found if one is not None), None)
            if side is None or (side.across and bytes_of(side.mem.dtype) != 2):
                return None
            sides.append(next((one for one in known if _reads_alike(one, side)), side))
            known.append(sides[-1])
        summed.append(MultipliedSum(other.target, sides[0], sides[1], other.negative))
    return summed


def _reads_alike(one: BoxedOperand, other: BoxedOperand) -> bool:
    """Whether both are the same elements, so that one copy of them is enough."""
    first, second = one.load, other.load
    return one.axes == other.axes and first.mem is second.mem and first.index == second.index and first.where is second.where


def _along(side: BoxedOperand | None, like: BoxedOperand) -> BoxedOperand | None:
    """The operand along the other's axes alone, which lie in it in the same order."""
    if side is None or [axis for axis in side.axes if axis in like.axes] != [*like.axes]:
        return None
    return evolve(side, axes=like.axes, dims=tuple(side.dims[side.axes.index(axis)] for axis in like.axes))


def _is_first(function: HirFunction, facts: Facts, one: BoxedOperand, other: BoxedOperand) -> bool:
    """Whether the first operand's axis makes the rows: columns are what the result is contiguous along; but few are always columns, and
    several axes are always rows."""
    settled = [facts.tiling is not None and {*facts.tiling.axes} <= {*side.axes} for side in (one, other)]
    if any(settled):
        return settled[0]
    if len(one.axes) != len(other.axes):
        return len(one.axes) > len(other.axes)
    if one.steps or other.steps:
        return bool(one.steps)
    first, second = (_elements(function, facts, side.axes) for side in (one, other))
    if min(first, second) < LEAST:
        return first > second
    return one.axes[0] not in {axis for op in function.body.body if isinstance(op, Store) for axis in op.index[-1].names}


def _is_scaled(scale: GroupScale | None, one: BoxedOperand, other: BoxedOperand) -> bool | None:
    """Whether the first operand's axes alone have scales: a thread has sums of few rows. None where both have, or neither."""
    axes = {axis for value in scale.values for axis, _ in union_axes(value)} if scale is not None else set[str]()
    known = [not axes.isdisjoint(side.axes) for side in (one, other)]
    return known[0] if known[0] != known[1] else None


def _end_alike(function: HirFunction, sides: Sequence[BoxedOperand], along: str) -> bool:
    """Whether what boxes have beyond the end of the sum is zeros in both operands: it isn't there, or there is none."""
    extent = function.axes[along]
    if divides(sides[0].depth, extent):
        return True
    # what is made of bytes is finite
    exact = [side for side in sides if side.packed is None]
    return all(side.load.index[side.along] == Affine.of(along) and side.mem.dims[side.along] == extent for side in exact)


def begins_anywhere(mem: Mem) -> bool:
    """Whether results go out through shared memory: boxes write those of 16 bits, lanes with neighbouring columns all others whose rows
    aren't whole sectors."""
    plain = mem.strides is None or mem.strides[-1].value == 1
    rows = mem.dims[-1:] if mem.strides is None else mem.strides[:-1]
    return plain and (mem.dtype in BOXED or not all(divides(SECTOR // bytes_of(mem.dtype), form) for form in rows))


def stored_rows(function: HirFunction, axes: Sequence[str]) -> int | None:
    """Which of the axes that make rows all results lie along; None: along columns, or nothing."""
    last = [{*op.index[-1].names} for op in function.body.body if isinstance(op, Store)]
    return next((position for position, axis in enumerate(axes) if all(axis in names for names in last)), None)


def _tile(extents: Sequence[Affine], steps: Sequence[int], facts: Facts, rows: int, along: int | None, begun: float) -> tuple[int, ...]:
    """The rows of a tile as powers of two of each axis: what leaves least of the tiles at the ends empty, and writes least of lines of
    cache that it doesn't fill, where results lie along one of them; and of these what is longest along the last axes."""
    powers = [1 << n for n in range(rows.bit_length())]
    tiles = [tile for tile in choices(powers, repeat=len(extents)) if prod(tile) == rows]
    tiles = [tile for tile in tiles if all(size * step <= MOST_REACHED for size, step in zip(tile, steps, strict=True))] or tiles

    def filled(tile: tuple[int, ...]) -> float:
        written = 1.0 if along is None else 1 + begun / tile[along]
        return written * prod(_filled(extent, size, facts) for extent, size in zip(extents, tile, strict=True))

    return min(tiles, key=lambda tile: (round(filled(tile), 3), *(-size for size in reversed(tile))))


def _filled(extent: Affine, size: int, facts: Facts) -> float:
    """About how much more than the extent its tiles have. Of an extent of which only the magnitude is known some of it is missing."""
    most = facts.about(extent)
    if facts.exact.issuperset(extent.names):
        return -(-most // size) * size / max(1, most)
    if divides(size, extent):
        return 1.0
    likely = most if most <= 2 else 0.75 * most
    return max(size, likely + (size - 1) / 2) / likely
