"""Products of few rows and many columns, whose factor of the columns is read once and computed on its way from memory to the registers
that a warp multiplies from: weights of 4 bits, two in a byte, say. Time is what reading it takes, so nothing is put aside.

Each lane reads whole accesses: which of a tile's columns and terms it has follows from where neighbours lie in memory, as the order of a
sum's terms and of a tile's columns is free. The warps of a block take turns along the sum, and add up what they have in shared memory.
Terms that have a scale in common are summed by themselves first."""

from collections.abc import Iterator, Sequence
from math import gcd

from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import FloorDiv
from compiler.hir.alignment import steps_by_one
from compiler.hir.core import Contract, Reduce
from compiler.hir.instruction import Value
from compiler.hir.lane_maps import WarpKind
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature, GpuMachine
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.cut_product import CutProduct, read_roles
from compiler.schedule.gpu.rewrites.packed_bits import PackedFactor, packed_factor
from compiler.schedule.gpu.rewrites.scaled_sums import ScaledSum, narrow_sum
from runtime.records import frozen

MOST_ROWS = 32
"""More are multiplied from shared memory."""
LEAST_COLUMNS, LEAST_TERMS = 64, 64
ROUND = 128
"""Terms of a warp's turn, at most."""
ACCESS = 16
"""Bytes of the widest access."""
WARPS = 16
REGISTERS, OTHER_REGISTERS = 2048, 16
"""Of a lane, of all warps of a block; and those of each that hold neither what it adds up nor what it reads."""
SHARED = 96 * 1024
"""Bytes of what the warps of a block have."""
SHAPES = (16, 8, 1, 1), (8, 8, 1, 1), (8, 16, 1, 2), (8, 8, 1, 2), (4, 8, 1, 1), (4, 8, 1, 2), (4, 8, 1, 4)
SHAPES_OF_ONE = (8, 8, 2, 1), (16, 16, 1, 1), (8, 16, 1, 1), (8, 16, 1, 2), (4, 16, 1, 1), (4, 16, 1, 2), (4, 16, 1, 4)
"""Columns of a lane, warps of a block, blocks of a multiprocessor, and blocks that share a sum's terms; of one block of rows, whose sums
leave registers to more warps. Better first: wide tiles read rows again less often, and blocks that share a sum wait for each other."""
FULL = 0.75
"""Of what multiprocessors have at a time."""
SHARES = 16, 8, 32
"""Neighbouring terms that a lane has, of factors that are bits of elements: 16 of 16 bits are a sector of the cache."""


MARKED = ("own", "part", "alike", "each", "warps", "split", "resident")
"""What tiles leave open."""


@frozen(eq=False)
class FewRows:
    """A sum with few rows. `few`, `many`: its factors; `row`, `column`, `sum`: the axes; `blocks`: of 8 rows; `own`: columns of a lane,
    side by side; `part`: terms of a warp, of which each of four lanes has a quarter; `parts`: of a turn; `alike`: of those that have a
    scale in common; `each`: terms that one element of memory has; `packed`: where numbers of the columns' factor lie, if it is bits of
    elements; `split`: blocks of a cluster that share the sum's terms; `resident`: blocks of a multiprocessor."""

    sum_: ScaledSum
    kind: WarpKind
    unit: str
    few: Value
    many: Value
    row: str
    column: str
    sum: str
    blocks: int
    own: int
    part: int
    parts: int
    alike: int
    each: int
    packed: PackedFactor | None
    warps: int
    split: int
    resident: int
    words: tuple[str, ...]

    @property
    def cut(self) -> CutProduct:
        target = self.sum_.described.op
        tiles: dict[tuple[str, ...], int] = {(self.row,): 8 * self.blocks, (self.column,): self.columns}
        marks = {name: getattr(self, name) for name in MARKED} | {"packed": self.packed is not None}
        assert isinstance(target, Contract | Reduce)
        return CutProduct((target,), (), tiles, (self.sum,), self.terms, 0, marks, {})

    @property
    def columns(self) -> int:
        """Of a block."""
        return 8 * self.own

    @property
    def terms(self) -> int:
        """Of a turn."""
        return self.part * self.parts

    @property
    def share(self) -> int:
        """Terms of a part that a lane has."""
        return self.part // 4


def few_rows(function: HirFunction, facts: Facts) -> FewRows | None:
    """The field as such a product; None where it isn't one, or reads no less than its factors are."""
    if function.kernel_info is not None and function.kernel_info.tensor_cores is False:
        return None
    known = narrow_sum(function)
    unit = facts.machine.unit(Issue.REGISTERS)
    kind = None if known is None else facts.machine.warp_kind(known.dtype)
    if known is None or unit is None or kind is None or kind.depths != (16,):
        return None
    described, scale = known.described, known.scale
    if len(described.m) != 1 or len(described.n) != 1 or len(described.k) != 1:
        return None
    sides = [(described.m[0], described.a), (described.n[0], described.b)]
    sides.sort(key=lambda side: facts.about(function.axes[side[0]]))
    (row, few), (column, many) = sides
    (sum_,) = described.k
    rows, columns, terms = (facts.about(function.axes[axis]) for axis in (row, column, sum_))
    if rows > MOST_ROWS or columns < LEAST_COLUMNS or terms < LEAST_TERMS:
        return None
    loads = [op for op in instructions_below(many) if isinstance(op, Load) and {row, column, sum_} & {*_names(op)}]
    wide = max(loads, key=lambda load: bytes_of(mem_of(load.mem).dtype), default=None)
    if wide is None or any({*load.index[-1].names} & {column, sum_} == set() for load in loads):
        return None
    each = _elements_of_word(loads, sum_)
    if bytes_of(mem_of(wide.mem).dtype) >= each * bytes_of(known.dtype):
        return None
    each = max(2, each)
    common = gcd(scale.terms if scale is not None and scale.terms else ROUND, ROUND)
    across = steps_by_one(mem_of(wide.mem), wide.index, column)
    runs = _runs(many, sum_, column, common, known.dtype, across)
    if not runs and (common % 16 or common // 4 % each or each > ROUND // 4):
        return None
    blocks = -(-rows // 8)
    size = bytes_of(mem_of(wide.mem).dtype)
    widest = min(ACCESS // size if across else 16, max(4, 32 // blocks))
    shared = facts.machine.has(Feature.CLUSTERS)
    shapes = [shape for shape in (SHAPES_OF_ONE if blocks == 1 else SHAPES) if shape[0] <= widest and (shape[3] == 1 or shared)]

    def fits(shape: tuple[int, int, int, int], turn: int) -> bool:
        own, warps, resident, _ = shape
        sums = 2 * own * blocks * (1 + (scale is not None))
        held = REGISTERS // (warps * resident) - OTHER_REGISTERS
        return sums + own * turn * size // (16 * each) + turn * blocks // 8 + own // 2 <= held

    if blocks > 1:
        shapes = [shape for shape in shapes if shape[1] < WARPS or (across and fits(shape, 64))]

    def filled(shape: tuple[int, int, int, int]) -> float:
        count, places = -(-columns // (8 * shape[0])) * shape[3], facts.processors * shape[2]
        return count / (-(-count // places) * places)

    shape = next((shape for shape in shapes if filled(shape) >= FULL), max(shapes, key=filled))
    own, warps, resident, split = shape
    if own > 8:
        runs = dict(sorted(runs.items())) if across else runs
    if runs:
        ways = [(turn, part) for turn in (ROUND, 64, 32) for part in runs if turn >= part and fits(shape, turn)]
        turn, part = ways[0] if ways else (min(runs), min(runs))
    else:
        turn = common
        while not fits(shape, turn) and turn % 32 == 0 and turn // 8 % each == 0:
            turn //= 2
        part = turn
    turns = -(-terms // turn)
    most = SHARED // (8 * blocks * (8 * own + 4) * 4)
    warps = min(warps, 1 << (turns - 1).bit_length(), 1 << (most.bit_length() - 1))
    split = min(split, max(1, turns // warps))
    words = (
        f"rows are few: {8 * own} columns a block, {warps} warps share the sum's terms, {turn} at a time",
        f"what has columns is computed on its way to the tensor cores: {own} columns and {turn // 4} terms a lane"
        + (f"; pairs of numbers are taken from registers, {next(iter(runs.values())).width} bits each" if runs else ""),
    )
    parts, alike = turn // part, min(turn, common) // part
    sides_of_sum = known, kind, unit.name, few, many, row, column, sum_
    return FewRows(*sides_of_sum, blocks, own, part, parts, alike, each, runs.get(part), warps, split, resident, words)


def product_of_tiles(tiles: HirFunction, machine: GpuMachine) -> tuple[HirFunction, FewRows]:
    """The field of what each element of the results is, and the product of its blocks."""
    field, cut = read_roles(tiles)
    known, unit, (row,), (column,), (sum_,) = narrow_sum(field), machine.unit(Issue.REGISTERS), *cut.tiles, cut.walked
    assert known is not None and unit is not None
    kind, described = machine.warp_kind(known.dtype), known.described
    assert kind is not None
    few, many = (described.a, described.b) if described.m == (row,) else (described.b, described.a)
    own, part, alike, each, warps, split, resident = (cut.marks[name] for name in MARKED)
    packed = packed_factor(many, sum_, column, part // 4, known.dtype) if cut.marks["packed"] else None
    sides, blocks, parts = (known, kind, unit.name, few, many, row, column, sum_), cut.tiles[row,] // 8, cut.depth // part
    return field, FewRows(*sides, blocks, own, part, parts, alike, each, packed, warps, split, resident, ())


def _runs(many: Value, sum_: str, column: str, common: int, dtype: str, across: bool) -> dict[int, PackedFactor]:
    """How many terms a warp may multiply at once of a factor of bits of elements, and where these lie then. Better first: lanes read
    neighbouring runs of few terms of the rows' factor where elements lie across, and whole accesses where they lie along the sum."""
    shares = [share for share in (SHARES if across else reversed(SHARES)) if common % (4 * share) == 0]
    runs = {4 * share: packed_factor(many, sum_, column, share, dtype) for share in shares}
    return {part: packed for part, packed in runs.items() if packed is not None}


def _names(load: Load) -> Iterator[str]:
    for form in load.index:
        yield from form.names


def _elements_of_word(loads: Sequence[Load], axis: str) -> int:
    """How many neighbours along the sum one element of memory has: the most, a power of two."""
    divisors = [1]
    for load in loads:
        for form in load.index:
            divisors += [s.divisor for s, _ in form.terms if isinstance(s, FloorDiv) and axis in s.numerator.names and s.divisor <= 16]
    most = max(divisors)
    return most if most & (most - 1) == 0 and all(most % divisor == 0 for divisor in divisors) else ROUND
