"""What the tensor cores of any target multiply from registers: a field that is one sum of products of two loads. Each side of the product
has an axis that tiles lie along, the sum has one; other axes are places of the grid, or walked element by element. How operands are
copied to shared memory (the widest pieces that all addresses are multiples of) and how they lie there follows from the loads alone: what
is chosen is a tile."""

from collections.abc import Iterable, Sequence
from enum import Enum
from math import prod

from compiler.analysis.recognise import ProductSum, only_product
from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WarpKind
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature, GpuMachine
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.boxed_operands import ProductOperand, divides
from compiler.schedule.gpu.products.cut_product import CutProduct, read_roles
from compiler.schedule.gpu.products.product_sums import bounded_sum, rounds, sum_of_loads, unguarded
from compiler.schedule.gpu.products.tiling import Impossible
from compiler.schedule.gpu.tiles.taking_part import uneven_bounds, unevenness
from compiler.schedule.tile_sizes import tile_of
from runtime.records import evolve, frozen

WIDEST = 16
"""Bytes of a copy."""
LEAST_COPY = 4
"""Bytes of the narrowest copy that goes on beside the computation."""
LINE = 128
"""Bytes of a line of shared memory, in which chunks of 16 are swizzled."""
LEAST = 16
"""Rows, columns and terms below which a tile would be mostly empty."""
STAGES = 4


class CopyMethod(Enum):
    """How pieces come to shared memory: by copies beside the computation; through registers, from anywhere; element by element."""

    BESIDE = "beside"
    WORDS = "words"
    ELEMENTS = "elements"


@frozen(eq=False)
class WarpOperand(ProductOperand):
    """Of rows there may be several axes, whose elements are counted through. What must hold, and be at least 0, for an element to count
    (else it is 0), and the sum's axis. `across`: memory is contiguous along the own axis. `unit`: bytes of a copy."""

    guards: tuple[Value, ...]
    inside: tuple[Affine, ...]
    sum: str
    across: bool
    unit: int
    way: CopyMethod

    @property
    def words(self) -> str:
        """How copies are made."""
        match self.way:
            case CopyMethod.BESIDE:
                return f"by copies of {self.unit} bytes"
            case CopyMethod.WORDS:
                return f"through registers, {self.unit} bytes at a time"
            case CopyMethod.ELEMENTS:
                return "element by element"

    @property
    def size(self) -> int:
        return bytes_of(self.mem.dtype)


@frozen(eq=False)
class WarpProduct:
    """A field that is one product with what follows it. A block's tile has rows and columns, of which `down` by `across` warps each have a
    part; `depth`: terms of a stage; `outer`: the sum's axes that are walked element by element; `guard`: outside of it products count
    nothing, whatever the factors are; `bounds`: those that sums end at, so that stages without any term are left out."""

    target: Contract | Reduce
    unit: str
    kind: WarpKind
    guard: tuple[Affine, ...]
    bounds: tuple[Affine, ...]
    a: WarpOperand
    b: WarpOperand
    outer: tuple[str, ...]
    rows: int
    columns: int
    down: int
    across: int
    depth: int
    stages: int

    @property
    def sum(self) -> str:
        return self.a.sum

    @property
    def own(self) -> tuple[str, ...]:
        """Axes of the results' rows and columns."""
        return (*self.a.axes, self.b.axis)

    @property
    def walked(self) -> tuple[str, ...]:
        """Axes of the sum."""
        return (*self.outer, self.sum)

    @property
    def part(self) -> tuple[int, int]:
        """Rows and columns of a warp."""
        return self.rows // self.down, self.columns // self.across

    @property
    def threads(self) -> int:
        return self.kind.lanes * self.down * self.across

    @property
    def step(self) -> int:
        """Terms of a product."""
        return _steps(self.kind, self.a, self.b)[0]

    @property
    def ahead(self) -> int:
        """Operands whose fragments are read before the products of those before them: as many as there are registers for."""
        return _steps(self.kind, self.a, self.b)[1]


def warp_tiles(function: HirFunction, facts: Facts) -> CutProduct | None:
    """The tiles of a field that tensor cores multiply; None where they don't: more than one sum, operands that are computed, types, little
    to do. Raises `Impossible`."""
    if function.kernel_info is not None and function.kernel_info.tensor_cores is False:
        return None
    factors = _factors(function, facts.machine)
    if factors is None:
        return None
    described, loads = factors.described, factors.loads
    varying = [{axis for form in load.index for axis in form.names} for load in loads]
    own = [[axis for axis in (*described.m, *described.n) if axis in names] for names in varying]
    along = _longest(function, facts, described.k, loads)
    sides = factors.sides(function, [(_longest(function, facts, axes, [load]),) for axes, load in zip(own, loads, strict=True)], along)
    if len(sides) < len(loads):
        return None
    a, b = one, other = sides
    if not _is_rows(function, one, other):
        a, b = other, one
    if not (a.across or factors.bounds):
        a = evolve(a, axes=tuple(axis for axis in function.axes if axis in (own[0] if a is one else own[1])))
    return _cut(function, facts, factors, a, b)


def product_of_role(role: HirFunction, machine: GpuMachine) -> tuple[HirFunction, WarpProduct]:
    """The field of what each element of the results is, and the product of its blocks, whose threads copy and multiply."""
    field, cut = read_roles(role)
    factors, (*outer, along), (rows, columns) = _factors(field, machine), cut.walked, cut.tiles
    assert factors is not None
    own = [columns if any(columns[0] in form.names for form in load.index) else rows for load in factors.loads]
    a, b = sorted(factors.sides(field, own, along), key=lambda side: side.axes != rows)
    (target,), marks = cut.sums, cut.marks
    sizes = (*cut.tiles.values(), marks["down"], marks["across"], cut.depth, cut.stages)
    return field, WarpProduct(target, factors.unit, factors.kind, factors.guard, factors.bounds, a, b, tuple(outer), *sizes)


@frozen(eq=False)
class _Factors:
    """The sum of a field, the two loads that it multiplies, with what must hold for each to count, and the machine that does."""

    described: ProductSum
    loads: Sequence[Load]
    guards: Sequence[tuple[Value, ...]]
    guard: tuple[Affine, ...]
    bounds: tuple[Affine, ...]
    machine: GpuMachine
    unit: str
    kind: WarpKind

    def sides(self, function: HirFunction, own: Sequence[tuple[str, ...]], along: str) -> list[WarpOperand]:
        """The operands, with tiles along these axes of theirs; only those that can be copied so."""
        given = zip(self.loads, self.guards, own, strict=True)
        sides = [_operand(function, self, load, guards, axes, along) for load, guards, axes in given]
        return [side for side in sides if side is not None]


def _factors(function: HirFunction, machine: GpuMachine) -> _Factors | None:
    """The one sum of a field, if it is of products of what is loaded from parameters where conditions hold, else of 0, and the machine
    multiplies that."""
    guarded, described = sum_of_loads(function) or bounded_sum(function), only_product(function)
    if described is None or not (described.m and described.n):
        return None
    if guarded is not None and isinstance(guarded.target, Reduce):
        operands, guard, bounds = (guarded.a.result, guarded.b.result), guarded.guard, guarded.bounds
    elif isinstance(described.op, Contract) and described.op.accumulator is None:
        operands, guard, bounds = (described.op.a, described.op.b), (), ()
    else:
        return None
    (a, of_a), (b, of_b) = (unguarded(operand) for operand in operands)
    unit, kind = machine.unit(Issue.REGISTERS), machine.warp_kind(dtype_of(a))
    if unit is None or kind is None or dtype_of(a) != dtype_of(b) or kind.sums != dtype_of(described.op.results[0]):
        return None
    if not (isinstance(load := a.source, Load) and isinstance(other := b.source, Load)) or (kind.cut and not rounds(function)):
        return None
    known = {*function.axes, *(parameter.name for parameter in function.parameters)}
    for each in load, other:
        if each.pad is not None or each.mem.source is not None or any(name not in known for form in each.index for name in form.names):
            return None
    (along, *outer), size = described.k, bytes_of(dtype_of(a))
    if bounds and (outer or size < LEAST_COPY or uneven_bounds(function, bounds, along) != bounds):
        return None
    guards = [tuple(of if each.where is None else [*of, each.where]) for each, of in ((load, of_a), (other, of_b))]
    return _Factors(described, (load, other), guards, guard, bounds, machine, unit.name, kind)


def _longest(function: HirFunction, facts: Facts, axes: Iterable[str], loads: Sequence[Load]) -> str:
    """The axis that tiles lie along: one that memory is contiguous along, else the longest, of such the last."""

    def suits(axis: str) -> tuple[bool, int]:
        return any(steps_by_one(mem_of(load.mem), load.index, axis) for load in loads), facts.about(function.axes[axis])

    return max(reversed(list(axes)), key=suits)


def _operand(
    function: HirFunction, factors: _Factors, load: Load, guards: tuple[Value, ...], own: tuple[str, ...], along: str
) -> WarpOperand | None:
    machine, kind, mem = factors.machine, factors.kind, mem_of(load.mem)
    across = len(own) == 1 and steps_by_one(mem, load.index, own[0]) and not steps_by_one(mem, load.index, along)
    if across and bytes_of(mem.dtype) < (2 if kind.by_matrix else 4):
        return None
    fast = own[0] if across else along
    size = bytes_of(mem.dtype)
    read = {name for form in load.index for name in form.names}
    inside = tuple(form for form in factors.bounds if {*form.names} & {*function.axes} <= read)
    together = steps_by_one(mem, load.index, fast) and not any(fast in dict(getattr(guard.type, "axes", ())) for guard in guards)
    together = together and not any(fast in form.names for form in inside)
    unit = _unit(function, load, fast) if together else size
    if unit >= LEAST_COPY and machine.has(Feature.ASYNC_COPIES):
        return WarpOperand(load, own, guards, inside, along, across, unit, CopyMethod.BESIDE)
    if together:
        return WarpOperand(load, own, guards, inside, along, across, WIDEST, CopyMethod.WORDS)
    return WarpOperand(load, own, guards, inside, along, across, size, CopyMethod.ELEMENTS)


def _unit(function: HirFunction, load: Load, fast: str) -> int:
    """The most bytes that all pieces of memory along an axis are aligned to, and that its extent is made of."""
    mem = mem_of(load.mem)
    size = bytes_of(mem.dtype)
    for unit in (WIDEST, 8, LEAST_COPY):
        count = unit // size
        if count > 1 and divides(count, function.axes[fast]):
            index = [form.substitute({fast: Affine.of(fast) * count}) for form in load.index]
            if alignment(mem, index) % unit == 0:
                return unit
    return size


def _is_rows(function: HirFunction, one: WarpOperand, other: WarpOperand) -> bool:
    """Whether the first operand's axis makes the rows: columns are what the result is contiguous along."""
    last = {axis for op in function.body.body if isinstance(op, Store) and op.index for axis in op.index[-1].names}
    return one.axis not in last or other.axis in last


TILES = ((128, 256, 2, 4), (256, 128, 4, 2), (128, 128, 2, 4), (128, 64, 4, 2), (64, 128, 2, 4), (64, 64, 2, 2))
"""Rows, columns, and warps down and across."""
SHORT_TILE = 64 * 128
"""Of a sum that one stage holds."""
BORDER = 48
"""Rows and columns together cost this many sums each: what is loaded once for all sums of a row or column."""
GAP = 32
"""Bytes behind a line of shared memory that is read element by element."""


def _cut(function: HirFunction, facts: Facts, factors: _Factors, a: WarpOperand, b: WarpOperand) -> CutProduct | None:
    """The tile that takes least time: what a processor computes and loads in its rounds. Where a sum is over as soon as it has begun, tiles
    and stages are few, so that blocks store while others load. None where there is little to do. Raises `Impossible`."""

    def elements(axes: Iterable[str]) -> int:
        return prod(facts.about(function.axes[axis]) for axis in axes)

    info, over = function.kernel_info, factors.described.k
    rows, columns, summed = elements(a.axes), elements(b.axes), elements(over)
    if not (info is not None and info.tensor_cores) and min(rows, columns, summed, elements([a.sum])) < LEAST:
        return None
    others = elements(axis for axis in function.axes if axis not in (*a.axes, *b.axes, *over))
    kind, size, step = factors.kind, a.size, _steps(factors.kind, a, b)[0]
    shared = facts.machine.stage_shared
    methods = {a.way, b.way}
    line = LINE // 2 if CopyMethod.ELEMENTS in methods or not facts.machine.has(Feature.ASYNC_COPIES) else LINE
    depth = line // size
    most = 64 * 64 if CopyMethod.ELEMENTS in methods else 128 * 128 if size == 8 or CopyMethod.WORDS in methods else 128 * 256
    most = min(most, SHORT_TILE) if summed <= depth else most
    turns = max(2, -(-summed // depth))

    def stages(high: int, wide: int) -> int:
        return min(turns, STAGES if CopyMethod.BESIDE in methods else 2, shared // ((high + wide) * (line + (GAP if size >= 4 else 0))))

    uneven = unevenness(factors.bounds, a.sum)

    def cost(tile: tuple[int, int, int, int]) -> float:
        high, wide, _, _ = tile
        tiles = -(-rows // high) * -(-columns // wide) * others
        rounds = -(-tiles // facts.processors) if uneven == 1 else max(1.0, tiles / uneven / facts.processors + 0.25)
        return rounds * (high * wide + BORDER * (high + wide))

    def takes(high: int, wide: int, down: int, across: int) -> bool:
        return high * wide <= most and stages(high, wide) >= 2 and kind.is_whole((high // down, wide // across, step))

    fitting, wished = [tile for tile in TILES if takes(*tile)], tile_of(function)
    tiles = fitting
    for axes, known in ((a.axes, 0), (b.axes, 1), ((a.sum,), None)):
        wanted = next((wished[axis] for axis in axes if axis in wished), None)
        tiles = [tile for tile in tiles if wanted in (None, depth if known is None else tile[known])]
    if fitting and not tiles:
        shapes = ", ".join(f"{high} by {wide}" for high, wide, _, _ in fitting)
        raise Impossible("0503", "`@tile` has no size that tensor cores take here", f"tiles can be {shapes}, with steps of {depth} terms")
    if not tiles:
        return None
    high, wide, down, across = min(tiles, key=cost)
    target, walked = factors.described.op, (*(axis for axis in over if axis != a.sum), a.sum)
    assert isinstance(target, Contract | Reduce)
    marks = {"down": down, "across": across}
    return CutProduct((target,), factors.loads, {a.axes: high, b.axes: wide}, walked, depth, stages(high, wide), marks, {})


def _steps(kind: WarpKind, a: WarpOperand, b: WarpOperand) -> tuple[int, int]:
    """Terms of a product, and operands whose fragments are read ahead. Sums of f64 and fragments take most registers; each piece of an
    operand that lies along the sum, and each narrow one, takes some for its address."""
    if len(kind.depths) == 1:
        return kind.depths[0], 2
    if min(a.unit, b.unit) < WIDEST:
        return (8, 1) if a.across != b.across else (4, 2)
    return 8, 2 if a.across or b.across else 1
