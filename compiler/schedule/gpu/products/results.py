"""Results on their way from registers to memory. Those of 16 bits go through shared memory and in bulk copies, where memory is contiguous
along the columns; wider numbers fill whole sectors from registers, where these begin with rows. Where memory is contiguous along the rows,
registers have eight of them side by side, and the cache takes each such piece by itself: sums change places through shared memory first, so
that a warp writes whole lines. So do sums whose rows begin at any address."""

from collections.abc import Iterable, Mapping
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Pack2, Take
from compiler.hir.gpu import FenceAsync, SharedAlloc, WarpSync
from compiler.hir.hopper import MOST_STEP, BulkCommit, BulkStore, BulkWait
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import StoreMatrix
from compiler.hir.types import Mem, Space, bytes_of
from compiler.hir.words import StoreWords
from compiler.schedule.gpu.indices import lane_digits, lane_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import stored_dims
from compiler.schedule.gpu.products.boxed_product import BOXED, BoxedProduct, begins_anywhere, stored_rows
from compiler.schedule.gpu.products.multiplying import MultiplyingWarpgroup
from compiler.schedule.gpu.products.product_sums import sum_of_loads
from compiler.schedule.gpu.products.tiling import BUFFERS, ROWS, SWIZZLED, digit
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.region import TileRegion
from runtime.records import frozen

MATRIX = 8
"""Rows, and columns, of what a warp stores together."""
TURNED = 32
"""Columns that change places together; fewer are there sooner from registers."""
WARPS, WORD, GAP = 4, 4, 4
"""Of a warpgroup; bytes of a bank of shared memory; and words between columns there, so that no two lanes meet in a bank."""
WIDTHS = (64, 32, 16)
"""Elements of a row of a box: 128 bytes, or what narrower swizzles are for."""


@frozen
class ResultBoxes:
    """How a warpgroup's 64 rows go out: so many columns at a time. `along`: of memory that is contiguous along rows, how many of these lie
    side by side in a box; 0: it is contiguous along columns."""

    dtype: str
    columns: int
    along: int = 0


def result_boxes(store: Store, field: HirFunction, product: BoxedProduct) -> ResultBoxes | None:
    """The boxes that write a store's tile; None where threads do: at places that boxes can't have, with a condition, or where another
    result has taken the buffers for boxes of another kind."""
    own = _boxes(store, field, product)
    first = next((boxes for op in field.body.body if isinstance(op, Store) and (boxes := _boxes(op, field, product))), None)
    return own if own == first else None


def _boxes(store: Store, field: HirFunction, product: BoxedProduct) -> ResultBoxes | None:
    mem = mem_of(store.mem)
    tile = dict(zip((*product.a.axes, product.b.axis), (*product.a.tile, product.columns), strict=True))
    tile[product.a.axes[0]] *= product.tiling.cluster
    order = stored_dims(field, store, tile, MOST_STEP) if mem.dtype in BOXED else None
    columns = next((size for size in WIDTHS if product.width % size == 0), None)
    if order is None or columns is None or len({*order}) < len(order) or order[:-1] != sorted(order[:-1]):
        return None
    if order[-1] == mem.rank - 1:
        return ResultBoxes(mem.dtype, columns) if order == sorted(order) else None
    *_, last = product.a.tile
    before = [size for dim, (_, size, _) in zip(order, product.a.digits, strict=False) if dim < order[-1]]
    is_turned = order[-2] == mem.rank - 1 and min(before, default=ROWS) >= ROWS and min(last, ROWS) in WIDTHS
    is_turned = is_turned and product.width >= WIDTHS[0]  # fewer are there sooner from registers
    return ResultBoxes(mem.dtype, columns, min(last, ROWS)) if is_turned else None


def store_boxes(placing: BlockTiles, group: MultiplyingWarpgroup, store: Store, boxes: ResultBoxes, region: TileRegion) -> None:
    """A box after the other, in two buffers for each warpgroup: while one is copied out the other fills."""
    b, product = region.builder, group.product
    buffers = _buffers(placing, product, boxes)
    value = placing.value(store.value, region)
    target = region.known(store.mem)
    pair, eight, half = group.digits
    packed = b.emit(Pack2(value=value, over=pair)).result
    lane = lane_index(b)
    warp = warp_index(b)
    row = (warp % 4 - lane.floordiv(2 * MATRIX)) * 2 * MATRIX + lane
    if product.a.packed is not None:
        row, _ = group.lanes.position((Affine(), lane % MATRIX, warp % WARPS), (Affine(), lane.floordiv(MATRIX) % 2))
    parts = product.width // boxes.columns
    for part in range(parts):
        buffer = Affine.of(part % BUFFERS)
        # of an odd number of parts the last has just filled the first buffer
        pending = 0 if part == 0 and parts % BUFFERS else BUFFERS - 1
        with b.when(group.leader) as leading:
            leading.emit(BulkWait(count=pending, read=True))
        group.meet(b)
        if boxes.along and product.a.packed is not None:
            put_neighbours(b, group, value, part * boxes.columns, boxes, (buffers, buffer))
        else:
            columns = [lane.floordiv(2 * MATRIX) * MATRIX + column for column in range(0, boxes.columns, 2 * MATRIX)]
            at = [(group.number, buffer, row, column) for column in columns]
            if boxes.along:
                row = (warp % WARPS) * 2 * MATRIX + lane.floordiv(MATRIX) % 2 * MATRIX
                lines = [(column + lane % MATRIX) * (ROWS // boxes.along) + row.floordiv(boxes.along) for column in columns]
                at = [(group.number, buffer, line, row % boxes.along) for line in lines]
            put_matrices(b, packed, (eight, half), part * boxes.columns, buffers, at, bool(boxes.along))
        b.emit(FenceAsync())
        group.meet(b)
        inside, extents = region.inside(b, ()), {product.b.axis: boxes.columns}
        inside.forms[product.b.axis] = region.starts[product.b.axis] + group.first_column + part * boxes.columns
        for axis, size, tile in product.a.digits:
            extents[axis] = min(tile, max(1, ROWS // size))
            inside.forms[axis] = region.starts[axis] + digit(group.first_row(group.block), size, tile, product.rows)
        box = tuple(prod(extent for axis, extent in extents.items() if axis in form.names) for form in store.index)
        step = tuple(max((form.coefficient(axis) for axis in extents), default=1) or 1 for form in store.index)
        with b.when(group.leader) as leading:
            leading.emit(
                BulkStore(
                    shared=buffers,
                    shared_index=(group.number, buffer, Affine(), Affine()),
                    tensor=target,
                    tensor_index=tuple(placing.form(form, inside) for form in store.index),
                    box=box,
                    step=step if max(step) > 1 else (),
                )
            )
            leading.emit(BulkCommit())


def row_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes of windows by which rows of results are shorter than what they are made of: for these a kernel is made where rows are whole
    multiples of 16 bytes then, as boxes want them."""
    product = sum_of_loads(field)
    if product is None or not product.described.windows:
        return ()
    windows = {name for axis in product.described.k for name in field.axes[axis].names}
    ends = [mem_of(op.mem).dims[-1] for op in field.body.body if isinstance(op, Store) and mem_of(op.mem).dtype in BOXED]
    names = {name for end in ends if sizes.keys() >= {*end.names} for name in windows & {*end.names}}
    whole = bool(names) and all(end.evaluate(sizes.__getitem__) % MATRIX == 0 for end in ends)
    return tuple(sorted((name, sizes[name]) for name in names)) if whole else ()


def is_turned(field: HirFunction, product: BoxedProduct) -> bool:
    """Whether sums change places before they are stored. Those of 16 bits are there sooner from registers, and those of three products
    need the memory for stages."""
    wide = all(bytes_of(mem_of(op.mem).dtype) >= WORD for op in field.body.body if isinstance(op, Store))
    alone = len(product.summed) == 1 and not product.low
    return wide and alone and product.width % TURNED == 0 and stored_rows(field, product.a.axes) is not None


def is_lined(field: HirFunction, product: BoxedProduct) -> bool:
    """Whether the lanes of a warp get neighbouring columns before they store: where rows begin at any address, so that boxes can't hold
    them, nor registers fill sectors."""
    stores = [op for op in field.body.body if isinstance(op, Store)]
    along = all(op.index[-1].coefficient(product.b.axis) == 1 and begins_anywhere(mem_of(op.mem)) for op in stores)
    boxed = any(result_boxes(op, field, product) is not None for op in stores)
    return along and not boxed and len(product.summed) == 1 and not product.low and product.width % TURNED == 0


class MovedSums:
    """The sums of a warpgroup, a few columns after the other, moved to other lanes through shared memory."""

    def __init__(self, placing: BlockTiles, group: MultiplyingWarpgroup, dims: tuple[int, ...], name: str) -> None:
        self.group, product = group, group.product
        if name not in placing.memories:
            assert placing.body is not None
            type = Mem(product.to, (product.tiling.warpgroups, *dims), space=Space.SHARED, align=WORD * WORD)
            placing.memories[name] = placing.body.emit(SharedAlloc(type=type), name).result
        self.memory = placing.memories[name]

    def parts(self) -> range:
        """The first column of each part."""
        return range(0, self.group.width, TURNED)

    def row(self, b: Builder) -> Affine:
        """The thread's first, of 64."""
        raise NotImplementedError

    @property
    def further(self) -> list[tuple[str, int]]:
        """Axes of its other rows, and how far each lies from the first."""
        raise NotImplementedError

    def column(self, b: Builder) -> Affine:
        raise NotImplementedError

    def moved(self, b: Builder, sums: Value, first: int) -> Value:
        """The part of the sums that begins at this column."""
        raise NotImplementedError

    def pieces(self, b: Builder, sums: Value, first: int) -> Iterable[tuple[Value, Affine, Affine]]:
        """What the thread has of a part: groups of 8 columns, with column and row of each of its sums."""
        pair, own, half = self.group.digits
        row, across = self.group.lanes.position(lane_digits(b), (Affine.of(pair), Affine.of(half)))
        for eight in range(TURNED // MATRIX):
            value = taken(b, sums, {own: first // MATRIX + eight})
            yield value, across + eight * MATRIX, row


class TurnedSums(MovedSums):
    """Lanes have neighbouring rows of one column each."""

    def __init__(self, placing: BlockTiles, group: MultiplyingWarpgroup) -> None:
        super().__init__(placing, group, (TURNED, ROWS + GAP), "turned")
        self.own, self.pair = placing.out.axis("turned0", TURNED // WARPS), placing.out.axis("turned1", 2)

    def row(self, b: Builder) -> Affine:
        return lane_index(b)

    @property
    def further(self) -> list[tuple[str, int]]:
        return [(self.pair, ROWS // 2)]

    def column(self, b: Builder) -> Affine:
        return (warp_index(b) % WARPS) * (TURNED // WARPS) + self.own

    def moved(self, b: Builder, sums: Value, first: int) -> Value:
        self.group.meet(b)
        for value, column, row in self.pieces(b, sums, first):
            b.store(self.memory, value, [self.group.number, column, row])
        self.group.meet(b)
        return b.load(self.memory, [self.group.number, self.column(b), lane_index(b) + Affine.of(self.pair) * (ROWS // 2)])


class LinedSums(MovedSums):
    """Lanes have neighbouring columns of one row each, the 16 rows of their warp one after the other: no other warp takes part."""

    def __init__(self, placing: BlockTiles, group: MultiplyingWarpgroup) -> None:
        super().__init__(placing, group, (ROWS, TURNED + 2 * GAP), "lined")
        self.rows = [(placing.out.axis(f"lined{n}", 2), 1 << n) for n in range(4)]

    def row(self, b: Builder) -> Affine:
        return (warp_index(b) % WARPS) * 16

    @property
    def further(self) -> list[tuple[str, int]]:
        return self.rows

    def column(self, b: Builder) -> Affine:
        return lane_index(b)

    def moved(self, b: Builder, sums: Value, first: int) -> Value:
        b.emit(WarpSync())
        for value, column, row in self.pieces(b, sums, first):
            b.store(self.memory, value, [self.group.number, row, column])
        b.emit(WarpSync())
        row = self.row(b)
        for axis, step in self.rows:
            row += Affine.of(axis) * step
        return b.load(self.memory, [self.group.number, row, lane_index(b)])


def moved_sums(placing: BlockTiles, group: MultiplyingWarpgroup) -> MovedSums | None:
    """How sums move before they are stored; None: they don't."""
    if is_turned(placing.field, group.product):
        return TurnedSums(placing, group)
    return LinedSums(placing, group) if is_lined(placing.field, group.product) else None


def _buffers(placing: BlockTiles, product: BoxedProduct, boxes: ResultBoxes) -> Value:
    assert placing.body is not None
    if boxes not in placing.memories:
        wide = boxes.along or boxes.columns
        dims, swizzle = (product.tiling.warpgroups, BUFFERS, ROWS * boxes.columns // wide, wide), f"{wide * bytes_of(boxes.dtype)}B"
        type = Mem(boxes.dtype, dims, space=Space.SHARED, align=8 * SWIZZLED, swizzle=swizzle)
        placing.memories[boxes] = placing.body.emit(SharedAlloc(type=type), "result").result
    return placing.memories[boxes]


def put_matrices(
    b: Builder,
    packed: Value,
    axes: tuple[str, str],
    first: int,
    memory: Value,
    places: Iterable[tuple[Affine, ...]],
    transpose: bool = False,
) -> None:
    """Columns of a warp's 16 rows, from the first on, to shared memory, 16 for each place at which the lane's row of them, or column,
    begins. `axes`: of the packed pairs, groups of 8 columns and rows 8 apart."""
    eight, half = axes
    for column, index in enumerate(places, first // (2 * MATRIX)):
        words = tuple(taken(b, packed, {eight: 2 * column + n // 2, half: n % 2}) for n in range(4))
        b.emit(StoreMatrix(mem=memory, index=index, values=words, transpose=transpose))


def put_neighbours(
    b: Builder, group: MultiplyingWarpgroup, value: Value, first: int, boxes: ResultBoxes, place: tuple[Value, Affine]
) -> None:
    """The same where a lane has neighbouring rows, and memory is contiguous along these: both as one word."""
    (memory, buffer), (pair, eight, half) = place, group.digits
    both = b.emit(Pack2(value=value, over=half)).result
    for column in range(0, boxes.columns, MATRIX):
        for number in range(2):
            row, across = group.lanes.position(lane_digits(b), (Affine.of(number), Affine()))
            line = (across + column) * (ROWS // boxes.along) + row.floordiv(boxes.along)
            word = taken(b, both, {eight: (first + column) // MATRIX, pair: number})
            b.emit(StoreWords(mem=memory, index=(group.number, buffer, line, row % boxes.along), values=(word,)))


def taken(b: Builder, value: Value, places: Mapping[str, int]) -> Value:
    for axis, position in places.items():
        value = b.emit(Take(value=value, axis=axis, at=Affine.of(position))).result
    return value
