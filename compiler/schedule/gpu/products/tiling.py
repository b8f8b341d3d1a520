"""How a product is cut in tiles for the warpgroups of sm_90a: the shape of a tile, how many warpgroups have it, whether blocks of a cluster
load for each other or share a sum. All shapes that registers and shared memory hold are estimated by one model, and the one that ends
first is taken: rounds of tiles over the machine's processors, each as long as its products or its copies take, whichever is longer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product as choices
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.module import HirKernelInfo
from runtime.records import evolve, frozen

BOX = 64
"""Columns of 16 bits that a box has."""
ROWS = 64
"""Rows that a warpgroup multiplies at a time."""
WARPGROUP = 128
"""Threads of a warpgroup."""
SWIZZLED = 128
"""Bytes of a row of a box."""
BUFFERS = 2
"""Of each warpgroup, for results on their way out."""
SHARED_BYTES = 225 * 1024
SUMS, FEW_SUMS = 128, 64
"""Of a thread, in registers; and so few that there are registers enough without any that others hand over."""
SEVERAL = 192
"""Of a thread that has them two or three times, or has several, which are added to no others: further ones would be spilled there."""
STAGES = {1: 12, 2: 6}
"""Of copies on their way at most, by warpgroups that multiply: enough bytes for the time that memory takes."""
WIDTHS = (8, 16, 32, 64, 96, 128, 192, 256)
CLUSTERS = (1, 2)
TEAMS = ((2, 1, 1), (2, 2, 1), (1, 1, 1), (1, 2, 1), (1, 1, 2), (1, 2, 2))
"""Warpgroups of a tile, blocks of rows of each, tiles under way."""
WARPGROUPS = (1, 2)
LEAST_STAGES, PREPARED_STAGES = 2, 3
"""Stages of a block; and where warpgroups prepare one before they multiply it, while another is filled."""
MULTIPLYING, HANDED = (64, 232), 168
"""Registers of a thread that multiplies; and what it has at least where others hand theirs over."""
OWN_REGISTERS, CUT, HALF = 40, 16, 128
"""Of such a thread, beside its sums; further ones where these are multiplied by scales and a tile's may be a piece; and how many each of
256 threads may have for two blocks to share a processor."""
PIECES = (1, 2, 4, 8)
MANY_PIECES = 4
"""Of so many on, two blocks share a processor: clusters of that many find too few free ones side by side."""
MOST_PIECES = 8
"""Of a sum: of a cluster's blocks, and of those that find each other in memory."""
LONG_PIECE, MOST_OF_LONG = 64, 32
"""Steps of pieces that are worth more of them, so many at most: few tiles of long sums keep all blocks at work then."""
RESIDENT = {1: 132, 2: 66, 4: 30, 8: 15}
"""Clusters of so many blocks that run at one time on 132 processors: one lies within a part of the machine."""

# what things take, in nanoseconds, measured on an H200 at full load
LAUNCH = 2300
"""A kernel that does next to nothing."""
PRODUCTS, ROW, MEET, LINE, ASTRIDE = 0.0184, 0.24, 5, 0.8, 3
"""A row times a column, 128 bytes of each; a row, or column, of a step, beside its products; a further warpgroup; and each line of cache
that is copied, where all processors copy: so many times as long, where it lies across two."""
FETCHED, UNPACKED, LOW, TURNED = 0.5, 1.0, 1.0, 1.6
"""A row of a step for each product that has it from registers; that it is made of bytes; what tensor cores leave of a column, where blocks
make it; and that it is turned."""
SCALED, SCALED_COLUMN = 430, 0.7
"""Scales of a tile, and of a column, times sums: another warpgroup's products, where there is one, go on beside them."""
HOT, HOT_ROW = 0.012, 0.7
"""A row times a column of tf32, and a row, or column: there the machine's power is what bounds products, whatever the tile."""
LATENCY, BEHIND, GROUP, REMOTE = 126, 0.3, 40, 60
"""The least that a step takes, of that what each line takes, and a further warpgroup, and a block that takes part in the copies."""
MEMORY, AGAIN, CACHE, ARRIVAL, IDLE = 0.000222, 0.00006, 0.00005, 1000, 0.12
"""A byte from the device's memory, and when it is wanted again, on the other side of the cache, for all processors together; a byte from
the cache alone; how long a byte is on its way, at least; and by how much less of them comes to few processors."""
TILE, TURN, STORED = 400, 300, 0.03
"""A tile, beside its steps: until the first copies have come, or until its turn has; and an element of it, on its way out."""
CLUSTERED, JOINED, PARTIAL = 700, 100, 0.3
"""Blocks that wait for each other to begin and to end; each piece of a sum that does, and an element that they hand over."""
LEFT, HANDED_OVER, HELD = 2300, 0.04, 2600
"""The same of pieces of the last round, which find each other in memory: once, and each piece's element; and each tile of the rounds before
where threads have sums three times, which they can't hold beside what that takes."""


MARKED = ("groups", "blocks", "cluster", "pieces", "turns", "residents", "cut", "makes_low", "turned", "unpacks")
"""What of a tiling the outermost loop is marked with."""


@frozen
class Tiling:
    """`rows`: of a tile, along each axis that makes rows (`axes`); `columns` of a tile; `groups`: warpgroups that multiply; `blocks`: of
    64 rows of each; `stages` of copies; `cluster`: blocks that load columns for each other, of tiles side by side along the first axis;
    `pieces` of the sum, a block each; `turns`: of so many tiles of a block each has warpgroups of its own, one multiplies while another
    stores; `residents`: blocks of a processor; `cut`: whether the last round's tiles are shared by all blocks; `sums` that a tile has;
    `products` that are added to these; `makes_low`: whether blocks make of columns what tensor cores leave of them; `turned`: whether they
    turn columns; `unpacks`: whether they make rows of bytes."""

    axes: tuple[str, ...]
    rows: tuple[int, ...]
    columns: int
    groups: int
    blocks: int
    stages: int
    cluster: int = 1
    pieces: int = 1
    turns: int = 1
    residents: int = 1
    cut: bool = False
    sums: int = 1
    products: int = 1
    makes_low: bool = False
    turned: bool = False
    unpacks: bool = False

    @property
    def marks(self) -> dict[str, object]:
        """What is neither a loop over tiles nor a ring."""
        plain = Tiling(self.axes, self.rows, self.columns, groups=0, blocks=0, stages=0)
        return {name: value for name in MARKED if (value := getattr(self, name)) != getattr(plain, name)}

    @property
    def warpgroups(self) -> int:
        """Of a block, that multiply."""
        return self.groups * self.turns

    @property
    def is_alone(self) -> bool:
        """Whether a block has a tile by itself, and one at a time."""
        return self.cluster == self.pieces == self.turns == 1 and not self.cut

    def words(self) -> Iterator[str]:
        rows = " x ".join(map(str, self.rows)) if len(self.rows) > 1 else f"{self.rows[0]}"
        groups = f"{self.groups} warpgroup{'' if self.groups == 1 else 's'} of {self.blocks * ROWS} rows"
        groups += f" for each of {self.turns} tiles in turn" if self.turns > 1 else ""
        yield f"tiles of {rows} by {self.columns}, {groups}, {self.stages} stages of {SWIZZLED} bytes"
        if self.products > 1:
            sums = f"{self.sums} sums" if self.sums > 1 else "the sum"
            of = f"all {self.products} products of " if self.products > self.sums else ""
            yield f"{of}{sums} of a tile are computed together: what several of them multiply is copied once"
        if self.cluster > 1:
            yield f"{self.cluster} blocks of a cluster copy the columns' side for each other"
        if self.pieces > 1:
            yield f"{self.pieces} blocks of a cluster share a tile's sum"
        if self.residents > 1:
            yield f"{self.residents} blocks share a multiprocessor"
        if self.makes_low:
            also = ", and turn them" if self.turned else ""
            yield f"blocks put aside what tensor cores leave of columns{also}"
        if self.unpacks:
            yield "rows are made of bytes in registers, while products before are under way"
        if self.cut:
            yield "the sums of the last round's tiles are cut in pieces for all blocks"


class Impossible(Exception):
    """What the program says of a schedule can't be: the code, why, and what can."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code, self.hint = code, hint


@frozen
class TileRequests:
    """What the program says; None: the model's choice. `warps` that multiply, `registers` of each of their threads."""

    stages: int | None = None
    warps: int | None = None
    registers: int | None = None
    cluster: int | None = None
    rows: tuple[tuple[str, int], ...] = ()
    """Of a tile, along axes that make rows."""
    columns: int | None = None
    terms: tuple[int, int] | None = None
    """Of a step of the sum, and how many one has."""

    @staticmethod
    def of(info: HirKernelInfo | None) -> "TileRequests":
        if info is None:
            return TileRequests()
        return TileRequests(info.stages, info.warps, info.max_registers, info.cluster[0] if info.cluster is not None else None)

    def sized(self, sizes: Mapping[str, int], rows: Sequence[str], columns: Sequence[str], along: str, terms: int) -> "TileRequests":
        """With the sizes of a tile; a step has so many terms along the axis of the sum."""
        return evolve(
            self,
            rows=tuple((axis, sizes[axis]) for axis in rows if axis in sizes),
            columns=next((sizes[axis] for axis in columns if axis in sizes), None),
            terms=(sizes[along], terms) if along in sizes else None,
        )

    def check(self) -> None:
        """Raises `Impossible` for what no tile can have."""
        if self.warps is not None and (self.warps % 4 or self.warps // 4 not in WARPGROUPS):
            raise Impossible("0502", f"`@warps({self.warps})` can't be done: whole warpgroups multiply", "4 or 8 warps can")
        if self.cluster is not None and self.cluster not in CLUSTERS:
            message = f"`@cluster({self.cluster})` can't be done: blocks share a side of their tiles"
            raise Impossible("0502", message, f"{' or '.join(map(str, CLUSTERS))} blocks can")
        if self.stages is not None and self.stages < LEAST_STAGES:
            message = f"`@pipeline(stages={self.stages})` can't be done: while one stage is multiplied another must be filled"
            raise Impossible("0502", message, f"{LEAST_STAGES} stages are the fewest")
        if self.terms is not None and self.terms[0] != self.terms[1]:
            message = f"`@tile` of {self.terms[0]} terms can't be done: a step of the sum is {SWIZZLED} bytes of a row"
            raise Impossible("0503", message, f"{self.terms[1]} terms can")
        least, most = MULTIPLYING
        if self.registers is not None and (self.registers % 8 or not least <= self.registers <= most):
            message = f"`@registers({self.registers})` can't be done: warpgroups that multiply take registers by 8"
            raise Impossible("0502", message, f"{least} to {most} a thread can be taken")

    def shaped(self, tiling: Tiling, work: "ProductWork") -> Tiling | None:
        """The tiling as wished; None where it can't be."""
        if self.warps not in (None, 4 * tiling.warpgroups) or self.cluster not in (None, tiling.cluster):
            return None
        rows = dict(zip(tiling.axes, tiling.rows, strict=True))
        if self.columns not in (None, tiling.columns) or any(rows[axis] != size for axis, size in self.rows):
            return None
        least = max(work.sets * tiling.blocks * tiling.columns // 2 + OWN_REGISTERS, HANDED if tiling.warpgroups > 1 else 0)
        if self.registers is not None and self.registers < least:
            return None
        if self.stages is None:
            return tiling
        return evolve(tiling, stages=self.stages) if self.stages <= room(tiling, work) else None


@frozen
class ProductWork:
    """A product's sizes: matrices, extents of the axes that make rows, columns, and steps of 128 bytes along the sum. `astride`: whether
    rows and columns lie across two lines of cache each; `apart`: threads have sums twice; `twice`: so do stages columns, for three
    products."""

    axes: tuple[str, ...]
    matrices: int
    down: tuple[int, ...]
    columns: int
    steps: int
    processors: int
    astride: tuple[bool, bool] = (False, False)
    apart: bool = False
    twice: bool = False
    across: int = BOX
    """Columns of a box, where memory is contiguous along them; else 1."""
    scaled: int = 0
    """Steps behind which threads multiply their sums by scales; 0: they don't."""
    hot: bool = False
    """Whether operands are tf32."""
    boxed: bool = True
    """Whether results may go out through shared memory."""
    shared: int = SHARED_BYTES
    """Bytes that stages and results on their way out may have."""
    sums: int = 1
    """That a tile has, all of the same rows, columns and terms."""
    products: int = 1
    """That are added to these sums."""
    operands: tuple[int, int] = (1, 1)
    """Of the rows and of the columns, that these sums multiply."""
    uneven: int = 1
    """How many times as many steps as sums have in the mean the longest have: they take about as long as so many times fewer that have
    all."""
    both_across: bool = False
    """Whether rows and columns both lie across the sum: there part of a box of columns takes matrix units as long as all of it."""
    makes_low: bool = False
    """Whether blocks make the second half of columns themselves."""
    turned: bool = False
    """Whether they turn columns."""
    fetched: int = 0
    """Products that have rows from registers."""
    packed: int = 1
    """How many times as long rows are as what is copied of them."""

    @property
    def loaded(self) -> int:
        """How often a stage has columns from memory."""
        return 1 + (self.twice and not self.makes_low)

    @property
    def sets(self) -> int:
        """Of sums of a tile, that threads have: of products under way, of what those with the rest make, and what they are added to."""
        return (1 + self.apart + self.twice) * self.sums


def room(tiling: Tiling, work: ProductWork) -> int:
    """Stages that shared memory holds."""
    rows, columns = copied(tiling, work)
    stage = (rows + columns * (1 + work.twice)) * SWIZZLED
    return (work.shared // tiling.residents - (tiling.warpgroups * BUFFERS * ROWS * SWIZZLED if work.boxed else 0)) // stage


def copied(tiling: Tiling, work: ProductWork) -> tuple[int, int]:
    """Rows, and columns, that a tile's blocks copy, of all operands: columns that memory is contiguous along come in whole boxes."""
    return prod(tiling.rows) * work.operands[0] // work.packed, ceildiv(tiling.columns, work.across) * work.across * work.operands[1]


@frozen
class Estimated:
    """A way to cut a product, and about how long it takes."""

    tiling: Tiling
    nanoseconds: float


def ranked(work: ProductWork, lying: Callable[[int], tuple[int, ...]], wishes: TileRequests) -> tuple[Estimated, ...]:
    """All that the program allows, what is estimated to end first first. `lying`: how so many rows of a tile lie along the axes. Raises
    `Impossible`."""
    wishes.check()
    candidates = [wished for tiling in tilings(work, lying) if (wished := wishes.shaped(tiling, work)) is not None]
    if not candidates and wishes == TileRequests():
        return ()
    if not candidates:
        shapes = {(prod(tiling.rows), tiling.columns) for tiling in tilings(work, lying)} if wishes.rows or wishes.columns else set()
        known = ", ".join(f"{rows} by {columns}" for rows, columns in sorted(shapes))
        hint = f"tiles can be {known}" if known else "leave one of them out"
        raise Impossible("0503", "no tile holds what the schedule's annotations say together", hint)
    estimates = [Estimated(tiling, nanoseconds(tiling, work)) for tiling in candidates]
    return tuple(sorted(estimates, key=lambda estimate: estimate.nanoseconds))


def tilings(work: ProductWork, lying: Callable[[int], tuple[int, ...]]) -> Iterator[Tiling]:
    """All that a processor holds."""
    most = 2 * (SEVERAL if work.sets > 1 else SUMS) // work.sets
    for (groups, blocks, turns), columns, cluster, pieces in choices(TEAMS, WIDTHS, CLUSTERS, PIECES):
        if blocks * columns > most or columns % (8 * max(pieces, cluster)) or pieces > work.steps or min(cluster, pieces) > 1:
            continue
        if turns > 1 and (work.apart or work.scaled or pieces > 1):
            continue
        if work.fetched and work.twice and blocks > 1:
            continue  # sums and rows in registers would be spilled
        if any(work.columns <= fewer < columns and fewer % (8 * max(pieces, cluster)) == 0 for fewer in WIDTHS):
            continue  # fewer hold all
        full = work.sets == work.sums and work.sums * blocks * columns > 2 * SUMS
        if full and (blocks > 1 or pieces > 1):
            continue
        small = work.sets * blocks * columns // 2 + OWN_REGISTERS <= HALF
        residents = 2 if small and groups == turns == 1 and pieces >= MANY_PIECES else 1
        tiling = Tiling(
            work.axes, lying(groups * blocks * ROWS), columns, groups, blocks, 0, cluster, pieces, turns, residents,
            sums=work.sums, products=work.products, makes_low=work.makes_low, turned=work.turned, unpacks=work.packed > 1,
        )  # fmt: skip
        if room(tiling, work) < (PREPARED_STAGES if work.makes_low else LEAST_STAGES if work.shared < SHARED_BYTES else 0):
            continue
        yield (whole := evolve(tiling, stages=min(STAGES[tiling.warpgroups], room(tiling, work))))
        spare = MULTIPLYING[1] - work.sets * blocks * columns // 2 - OWN_REGISTERS
        if pieces == turns == 1 and not full and last_pieces(whole, work) > 1 and spare >= CUT * bool(work.scaled):
            yield evolve(whole, cut=True)


def tiles(tiling: Tiling, work: ProductWork) -> int:
    """How many there are: of clusters that load for each other, groups of as many."""
    first, *others = map(ceildiv, work.down, tiling.rows)
    return work.matrices * ceildiv(first, tiling.cluster) * prod(others) * ceildiv(work.columns, tiling.columns)


def teams(tiling: Tiling, work: ProductWork) -> int:
    """How many of them are under way at a time."""
    return resident(tiling.cluster * tiling.pieces, work.processors) * tiling.residents


def last_pieces(tiling: Tiling, work: ProductWork) -> int:
    """Pieces of a sum of the last round, of as many blocks as there are."""
    left = tiles(tiling, work) % teams(tiling, work)
    most = max(MOST_PIECES, min(MOST_OF_LONG, work.steps // LONG_PIECE))
    return min(most, work.steps, teams(tiling, work) // left) if left else 1


def nanoseconds(tiling: Tiling, work: ProductWork) -> float:
    """About how long the product takes."""
    rows, columns, twice = prod(tiling.rows), tiling.columns, 1 + work.twice
    count, together = ceildiv(tiles(tiling, work), work.uneven), teams(tiling, work)
    filled = work.uneven > 1 and count > together and not tiling.cut  # long sums come first: short ones fill the last round
    rounds = count / together if filled else float(ceildiv(count, together))
    down, aside = copied(tiling, work)
    across = [ASTRIDE if astride else 1 for astride in work.astride]
    wide = aside // work.operands[1] if work.both_across and columns > work.across else columns
    aside *= work.loaded
    lines = down * across[0] + aside / tiling.cluster * across[1]
    products = rows * wide * PRODUCTS * work.products * (3 if work.twice else 1)
    latency = LATENCY + lines * BEHIND + (tiling.groups - 1) * GROUP + (tiling.cluster - 1) * REMOTE
    products += (rows + columns) * work.products * twice * ROW + (tiling.groups - 1) * MEET
    products += rows * (work.fetched * FETCHED + (work.packed > 1) * UNPACKED) + columns * (work.makes_low * LOW + work.turned * TURNED)
    if work.scaled:
        half = products * work.scaled / 2
        products += max(0.0, SCALED + columns * SCALED_COLUMN - (half if tiling.groups > 1 else 0)) / work.scaled
    step = max(latency, tiling.residents * max(products, lines * LINE))
    if work.hot:
        step = max(step, (rows * columns * HOT + (rows + columns) * HOT_ROW) * work.products)
    every = prod(work.down) * work.operands[0], work.columns * work.operands[1] * work.loaded
    once = work.matrices * sum(every)
    above, beside = prod(map(ceildiv, work.down, tiling.rows)), ceildiv(work.columns, columns)
    again = work.matrices * max(every[0] * min(1, beside - 1), every[1] * min(1, above - 1))
    all_copied = count * tiling.cluster * (down + aside)
    width = columns // tiling.pieces
    stored = TILE + rows * width * STORED * next((BOX // box for box in (BOX, BOX // 2, BOX // 4) if width % box == 0), 1)
    total = LAUNCH + (stored + rounds * TURN if tiling.turns > 1 else rounds * stored)
    last = last_pieces(tiling, work) if tiling.cut else 1
    shares = ((rounds, together, 1),) if filled else ((rounds - 1, together, 1), (1.0, count - int(rounds - 1) * together, last))
    for many, beside, pieces in shares:
        blocks = beside * pieces * tiling.cluster * tiling.pieces
        flying = blocks * (tiling.stages - 1) * (down + aside) * SWIZZLED
        byte = (MEMORY**4 + (ARRIVAL / flying) ** 4) ** 0.25 * (1 + IDLE * max(0, 1 - blocks / work.processors) ** 2)
        bytes = work.steps * SWIZZLED * beside / count
        read = max(once * byte + again * AGAIN, all_copied * CACHE)
        total += many * max(ceildiv(work.steps, pieces * tiling.pieces) * step, bytes * read)
        total += LEFT + rows * columns * work.sums * HANDED_OVER * pieces if pieces > 1 else 0
    total += (rounds - 1) * HELD if tiling.cut and work.twice else 0
    if tiling.pieces > 1:
        total += (JOINED * tiling.pieces + rows * columns * work.sums * PARTIAL) * rounds
    return total + (CLUSTERED if tiling.cluster * tiling.pieces > 1 else 0)


def resident(together: int, processors: int) -> int:
    """Clusters of so many blocks that run at one time."""
    return max(1, processors * RESIDENT[together] // RESIDENT[1])


def ceildiv(number: int, by: int) -> int:
    return -(-number // by)


def digit(row: Affine, size: int, extent: int, rows: int, more: Sequence[tuple[str, int]] = ()) -> Affine:
    """A row's place, of so many rows, along an axis of which `size` rows are one step: of that row, or of it and those that lie further,
    which axes of two tell apart, with the rows that each steps by. All are powers of two, and these of the row's own are 0."""
    form = row.floordiv(size) if size * extent == rows else row.floordiv(size) - row.floordiv(size * extent) * extent
    for axis, step in more:
        if size <= step < size * extent:
            form += Affine.of(axis) * (step // size)
    return form
