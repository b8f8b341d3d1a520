"""Sums of products on the tensor cores of any target, as a pipeline. The threads of a block copy tiles of both operands into a ring of
stages in shared memory, ahead of the products; each warp reads fragments of the stage that has arrived, those of the next depth before
it multiplies these, and keeps its part of the sums in registers, on which what follows is computed.

Fragments come by `ldmatrix` (`shared_tiles.py`). Those of 64 bits, and of 32 bits that lie across, come element by element, from lines with
a gap of 32 bytes behind them.

The way of working is the multistage one of NVIDIA's CUTLASS (`cp.async`, one barrier a stage, fragments in two sets of registers)."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.core import Reduce
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import WarpMma
from compiler.hir.types import U32, Mem, Space, Tile
from compiler.hir.words import WORD, LoadWords, StoreWords
from compiler.schedule.gpu.indices import banded, counted_on, lane_index, small, small_digits, thread_index, warp_index
from compiler.schedule.gpu.products.boxed_operands import divides
from compiler.schedule.gpu.products.matrix_blocks import MatrixBlocks
from compiler.schedule.gpu.products.shared_tiles import MatrixTile
from compiler.schedule.gpu.products.warp_product import GAP, CopyMethod, WarpOperand, WarpProduct
from compiler.schedule.gpu.rewrites.windows import WindowProduct, added_again
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.taking_part import long_before_short
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import SIMD

CHUNK = 16
"""Bytes of a row of a matrix."""


class Stages:
    """One operand's. `rows`: of the left operand, the first row of the block's tile, counted through all axes of the rows; `first`: the
    warp's first row, or column, of the tile."""

    def __init__(
        self,
        placing: BlockTiles,
        operand: WarpOperand,
        product: WarpProduct,
        rows: Affine | None,
        first: Affine,
        thread: Affine,
        lane: Affine,
        region: TileRegion,
    ) -> None:
        b = region.builder
        self.placing, self.operand, self.product, self.block_row = placing, operand, product, rows
        self.is_a = rows is not None
        self.extent = product.rows if self.is_a else product.columns
        self.part = product.part[0 if self.is_a else 1]
        size = operand.size
        self.map = product.kind.a if self.is_a else product.kind.b
        self.by_matrix = product.kind.by_matrix and size < (4 if operand.across else 8)
        self.wide, self.lines = (self.extent, product.depth) if operand.across else (product.depth, self.extent)
        if self.by_matrix:
            self.tile = MatrixTile(b, operand.mem.dtype, product.stages, self.lines, self.wide, size, "stage")
            self.memory, self.line = self.tile.memory, self.tile.line
        else:
            self.line = self.wide + GAP // size
            type = Mem(operand.mem.dtype, (product.stages, self.lines * self.line), space=Space.SHARED, align=128)
            self.memory = b.emit(SharedAlloc(type=type), "stage").result
        self.pieces = self.shared_out(thread, b)
        self.rows = [] if operand.across else [self.row(line, region) for line, _, _ in self.pieces]
        self.places = self.matrices(first, lane, b) if self.by_matrix else [self.element(first, lane, b)]
        self.coming: list[Value] = []
        self.stage = Affine()

    # ---- filling ----

    def shared_out(self, thread: Affine, b: Builder) -> list[tuple[Affine, Affine, Value]]:
        """This thread's pieces of a tile: where each begins, across lines and along them, and its place in a stage."""
        threads, each = self.product.threads, self.operand.unit // self.operand.size
        across = self.wide // each
        pieces = []
        for number in range(-(-self.lines * across // threads)):
            if across <= threads:
                line = thread.floordiv(across) + number * (threads // across)
                along = thread % across
            else:
                turns = across // threads
                line, along = Affine.of(number // turns), thread + number % turns * threads
            line, along = (b.named(form) for form in (line, along))
            pieces.append((line, along * each, self.place(line, along * each, b)))
        return pieces

    def row(self, line: Affine, region: TileRegion) -> dict[str, Affine]:
        """The places of a row of the tile along the own axes. Beyond the last row is the last: its products are never stored."""
        b, placing = region.builder, self.placing
        if self.block_row is not None:
            row, count = self.block_row + line, row_count(placing.field, self.product, b)
        else:
            row, count = region.starts[self.operand.axis] + line, placing.field.axes[self.operand.axis]
        if not divides(self.extent, count):
            row = Affine.of(b.op("min", b.index(row), b.index(count - 1)).name)
        return row_digits(placing.field, self.product, row, b) if self.is_a else {self.operand.axis: row}

    def place(self, line: Affine, along: Affine, b: Builder) -> Value:
        """Where an element lies in a stage."""
        return self.tile.place(line, along, b) if self.by_matrix else b.index(line * self.line + along)

    def begin(self, b: Builder, region: TileRegion, stage: Affine, enabled: Value) -> None:
        """The copies into a stage begin; `region` says of which part of the sum, `enabled` whether there is one; outside are zeros."""
        self.stage, operand = stage, self.operand
        if operand.way is CopyMethod.WORDS:
            self.coming = self.words(b, region, enabled)
            return
        for number, (_, _, position) in enumerate(self.pieces):
            inner = self.at(b, region, number)
            (mem, index), where = self.source(inner), self.where(inner, enabled) or enabled
            if operand.way is CopyMethod.BESIDE:
                to, unit, hint = (stage, Affine.of(position.name)), operand.unit, "l2" if operand.unit == CHUNK else "default"
                b.emit(
                    AsyncCopy(
                        destination=self.memory, destination_index=to, source=mem, source_index=index, bytes=unit, hint=hint, where=where
                    )
                )
            else:
                dtype, read = operand.mem.dtype, b.load(mem, index, where)
                self.coming.append(b.select(where, read, b.const(0 if dtype in ("i8", "u8") else 0.0, dtype)))

    def arrive(self, b: Builder) -> None:
        """What comes through registers is stored."""
        each = len(self.coming) // len(self.pieces)
        for number, (_, _, position) in enumerate(self.pieces):
            values, index = self.coming[number * each : (number + 1) * each], (self.stage, Affine.of(position.name))
            if self.operand.way is CopyMethod.WORDS and values:
                b.emit(StoreWords(mem=self.memory, index=index, values=tuple(values)))
            elif values:
                b.store(self.memory, values[0], index)
        self.coming = []

    def words(self, b: Builder, region: TileRegion, enabled: Value) -> list[Value]:
        """This thread's pieces as words. Most parts of the sum have all of them; only where one may end is asked how much there is."""
        types = [U32] * (len(self.pieces) * CHUNK // WORD)
        with b.branch(enabled, types) as (inside, outside, choice):
            outside.yield_(*[outside.const(0, "u32") for _ in types])
            ends = self.ends(inside, region)
            if self.operand.guards or ends is None:
                inside.yield_(*self.read(inside, region, bool(self.operand.guards)))
            else:
                with inside.branch(ends, types) as (part, all_, which):
                    part.yield_(*self.read(part, region, True))
                    all_.yield_(*self.read(all_, region, False))
                inside.yield_(*which.results)
        return choice.results

    def ends(self, b: Builder, region: TileRegion) -> Value | None:
        """Whether pieces of this part of the sum may lie beyond an end."""
        operand, fields = self.operand, self.placing.field.axes
        limits = [(region.forms[operand.sum] + self.product.depth, fields[operand.sum], self.product.depth)]
        if operand.across:
            limits.append((region.starts[operand.axis] + self.extent, fields[operand.axis], self.extent))
        past_end: Value | None = None
        for end, extent, tile in limits:
            if not divides(tile, extent):
                beyond = b.op("gt", b.index(end), b.index(extent))
                past_end = beyond if past_end is None else b.op("or", past_end, beyond)
        return past_end

    def read(self, b: Builder, region: TileRegion, partly: bool) -> list[Value]:
        """The pieces of a part of the sum, of which some may end within, or not be there."""
        words: list[Value] = []
        for number in range(len(self.pieces)):
            inner, valid = self.at(b, region, number), None
            if partly:
                fast = self.operand.axis if self.operand.across else self.operand.sum
                valid = b.index(self.placing.field.axes[fast] - inner.forms[fast])
                inner.masks.pop(fast, None)
                where = self.where(inner, None)
                valid = valid if where is None else b.select(where, valid, b.const(0, "index"))
            mem, index = self.source(inner)
            words += b.emit(LoadWords(mem=mem, index=index, valid=valid)).results
        return words

    def at(self, b: Builder, region: TileRegion, number: int) -> TileRegion:
        """The place of a piece, and along which axes it may lie outside."""
        operand, placing = self.operand, self.placing
        inner = region.inside(b, (*self.product.own, *self.product.walked))
        line, along, _ = self.pieces[number]
        ends = [(operand.sum, self.product.depth)]
        if operand.across:
            inner.forms[operand.axis] = region.starts[operand.axis] + along
            ends.append((operand.axis, self.extent))
        else:
            inner.forms.update(self.rows[number])
        inner.forms[operand.sum] = region.forms[operand.sum] + (line if operand.across else along)
        for axis, tile in ends:
            if not divides(tile, placing.field.axes[axis]):
                inner.masks[axis] = placing.field.axes[axis]
        return inner

    def where(self, region: TileRegion, enabled: Value | None) -> Value | None:
        """Whether there is something at a place."""
        mask = self.placing.mask(region, region.masks, None)
        enabled = enabled if mask is None else region.builder.both(enabled, mask)
        for guard in self.operand.guards:
            enabled = region.builder.both(enabled, self.placing.value(guard, region))
        inside = region.builder.none_negative(self.placing.form(form, region) for form in self.operand.inside)
        return enabled if inside is None else region.builder.both(enabled, inside)

    def source(self, region: TileRegion) -> tuple[Value, tuple[Affine, ...]]:
        load, mem = self.operand.load, region.known(self.operand.load.mem)
        return mem, tuple(self.placing.index(load.index, load.mem, region))

    # ---- reading ----

    def matrices(self, first: Affine, lane: Affine, b: Builder) -> list[Affine]:
        """Where the lane's row of four matrices begins in a stage: by part of the depth, or, across, by 16 rows (or columns)."""
        if self.operand.across:
            return self.tile.matrices_across(b, lane, (Affine(), first), self.is_a, range(0, self.part, 16))
        return self.tile.matrices(b, lane, first, self.is_a, range(0, self.product.depth, self.product.step))

    def element(self, first: Affine, lane: Affine, b: Builder) -> Affine:
        """Where the lane's first element lies in a stage."""
        own, term = self.map.position(lane)
        line, along = (term, first + own) if self.operand.across else (first + own, term)
        return b.named(line * self.line + along)

    def fragments(self, b: Builder, stage: Affine, part: int) -> list[Value]:
        """The warp's registers of a part of the depth."""
        if not self.by_matrix:
            return [self.element_at(b, stage, self.places[0] + offset) for offset in self.offsets(part)]
        fragments: list[Value] = []
        for block in range(self.part // 16):
            across = self.operand.across
            position, below = (self.places[block], part * self.product.step) if across else (self.places[part], block * 16)
            fragments += self.tile.read(b, stage, position, below, across)
        return fragments

    def element_at(self, b: Builder, stage: Affine, position: Affine) -> Value:
        if self.operand.size == 8:
            return b.load(self.memory, [stage, position])
        return b.emit(LoadWords(mem=self.memory, index=(stage, position), count=1)).result

    def offsets(self, part: int) -> list[int]:
        """From the lane's first element to those of its registers, in the order of `warp_mma`."""
        map = self.map
        rows, depth = map.shape
        offsets = []
        for block in range(self.part // rows):
            for deep in range(0, self.product.step, depth):
                for register in range(map.count):
                    down, further = map.position(0, map.of_register(register))
                    own, term = block * rows + down, part * self.product.step + deep + further
                    offsets.append(term * self.line + own if self.operand.across else own * self.line + term)
        return offsets


def row_count(field: HirFunction, product: WarpProduct, b: Builder) -> Affine:
    """How many rows there are."""
    first, *more = (field.axes[axis] for axis in product.a.axes)
    if not more:
        return first
    total = b.count(first)
    for extent in more:
        total = b.mul(total, b.count(extent))
    return Affine.of(total.name)


def row_digits(field: HirFunction, product: WarpProduct, row: Affine, b: Builder) -> dict[str, Affine]:
    """The place of a row along each of the rows' axes; of one beyond the last, beyond the first axis."""
    first, *more = product.a.axes
    rest, digits = row, {}
    for axis in reversed(more):
        extent, number = b.index(field.axes[axis]), b.index(rest)
        digits[axis] = Affine.of(small(b, "rem", number, extent).name)
        rest = Affine.of(small(b, "div", number, extent).name)
    return {first: rest, **digits}


BAND = 16
"""Tiles along the rows that are taken together, so that what they read stays in the L2 cache."""


class WarpProductLaunch(MatrixBlocks):
    def __init__(self, field: HirFunction, product: WarpProduct) -> None:
        words = [f"{product.rows} by {product.columns} sums a block, {' by '.join(map(str, product.part))} a warp, on the tensor cores"]
        for name, side in zip(("rows", "columns"), (product.a, product.b), strict=True):
            words.append(f"{name} ({', '.join(side.axes)}) come {side.words}, {product.stages} stages of {product.depth} terms")
        super().__init__(field, product.own, product.walked, product.threads, words)
        self.product = product
        self.first_row = Affine()
        """Of the block's tile, counted through all axes of the rows."""

    def tiles_of_blocks(self, group: Sequence[Target], region: TileRegion) -> None:
        b, product = region.builder, self.product
        extents = [*(self.field.axes[axis] for axis in self.batch), row_count(self.field, self.product, b).ceildiv(product.rows)]
        extents.append(self.field.axes[self.product.b.axis].ceildiv(product.columns))
        counts = [b.count(extent) for extent in extents]
        total, bounds = b.product(counts), [(form, product.walked) for form in product.bounds]
        with self.blocks(total, region, ()) as (inner, number):
            body = inner.builder
            self.tile(inner, long_before_short(self.field, body, number, total, self.own, bounds), counts)
            own = {product.a.axes[0]: (self.first_row, product.rows), product.b.axis: (inner.starts[product.b.axis], product.columns)}
            first, steps = self.taking_part(inner, product.bounds, product.sum, product.depth, own)
            for axis in product.outer:
                steps = body.mul(steps, body.count(self.field.axes[axis]))
            self.multiplied(group, inner, first, steps)

    def tile(self, region: TileRegion, number: Value, counts: Sequence[Value]) -> None:
        """The place of the block's tile: in bands of rows."""
        b, product = region.builder, self.product
        down, across = counts[-2:]
        matrix = b.mul(down, across)
        rest, block = small(b, "div", number, matrix), small(b, "rem", number, matrix)
        self.enter_matrix(region, small_digits(b, rest, counts[:-2])[1:])
        row, column = banded(b, block, down, across, BAND)
        self.first_row = Affine.of(row.name) * product.rows
        columns = self.product.b.axis
        region.forms[columns] = region.starts[columns] = Affine.of(column.name) * product.columns
        if self.product.a.across:
            region.starts[self.product.a.axis] = self.first_row
        region.axes |= {*self.own, *self.batch}

    # ---- the sum ----

    def multiplied(self, group: Sequence[Target], region: TileRegion, first: Affine, steps: Value) -> None:
        """So many steps of the sum from the first on."""
        b, product = region.builder, self.product
        rows, columns = product.part
        thread = Affine.of(thread_index(b).name)
        lane = lane_index(b)
        warp = warp_index(b)
        first_row = b.named((warp % product.down) * rows)
        first_column = b.named(warp.floordiv(product.down) * columns)
        a = Stages(self, product.a, product, self.first_row, first_row, thread, lane, region)
        other = Stages(self, product.b, product, None, first_column, thread, lane, region)
        sides = (a, other)
        counts = [*(b.index(self.field.axes[axis]) for axis in product.outer), b.index(self.field.axes[product.sum].ceildiv(product.depth))]
        places: list[Value] = [*(b.const(0, "index") for _ in product.outer), b.index(first)]
        for stage in range(product.stages - 1):
            for side in sides:
                side.begin(b, self.inside_sum(region, b, places), Affine.of(stage), b.op("lt", b.index(stage), steps))
            for side in sides:
                side.arrive(b)
            b.emit(AsyncCommit())
            places = counted_on(b, places, counts)
        self.wait(b)
        part = rows, columns, product.step
        extents = product.kind.sums_of(part, ("column", "half", "row", SIMD)).axes
        names = {name: self.out.axis(name, extent.value or 1) for name, extent in extents}
        type = Tile(product.kind.sums, tuple((names[name], extent) for name, extent in extents))
        zero = b.const(0 if type.dtype == "i32" else 0.0, type)
        early, late = sides[: product.ahead], sides[product.ahead :]
        held = self.registers(b, early, Affine(), 0)
        # along one axis the place of the copies is known from the step
        places = places if product.outer else []
        with b.loop("step", 0, steps.name, carried=[zero, *places, *held], unroll=1) as (body, loop):
            total, *rest = loop.carried
            places, held = rest[: len(places)], rest[len(places) :]
            step = Affine.of(loop.variable.name)
            parts = product.depth // product.step
            for deep in range(parts):
                last = deep == parts - 1
                now = self.registers(body, late, _turn(body, step, product.stages), deep)
                if last:
                    for side in sides:
                        side.arrive(body)
                    body.emit(AsyncCommit())
                    self.wait(body)
                at = _turn(body, step + (1 if last else 0), product.stages)
                following = self.registers(body, early, at, 0 if last else deep + 1)
                if deep == 0:
                    self.ahead(region, body, sides, places, step, steps, first)
                multiplied = WarpMma(accumulator=total, values=(*held, *now), shape=part, dtype=product.a.mem.dtype, unit=product.unit)
                total, held = body.emit(multiplied).result, following
            body.yield_(total, *(counted_on(body, places, counts) if places else ()), *held)
        down, across = product.kind.total.position(lane, (Affine.of(names[SIMD]), Affine.of(names["half"])))
        row = self.first_row + first_row + down + Affine.of(names["row"]) * product.kind.a.shape[0]
        column = region.starts[product.b.axis] + first_column + across + Affine.of(names["column"]) * product.kind.b.shape[0]

        def element(b: Builder, places: Mapping[str, Affine]) -> TileRegion:
            return self.standing(region, b, row.substitute(places), column.substitute(places))

        inner = self.standing(region, b, row, column)
        inner.made[product.target.results[0]] = loop.results[0]
        self.produce(group, inner, {})
        if product.guard and isinstance(product.target, Reduce):
            added_again(self, WindowProduct(self.field, product.target, product.target), group, inner, element)

    def standing(self, region: TileRegion, b: Builder, row: Affine, column: Affine) -> TileRegion:
        """The body at a row and a column of the results."""
        inner, product = region.inside(b, self.product.own), self.product
        inner.forms.update(row_digits(self.field, product, row, b))
        inner.forms[product.b.axis] = column
        for axis, tile in ((product.a.axes[0], product.rows if len(product.a.axes) == 1 else 0), (product.b.axis, product.columns)):
            if not tile or not divides(tile, self.field.axes[axis]):
                inner.masks[axis] = self.field.axes[axis]
        return inner

    def registers(self, b: Builder, sides: Sequence[Stages], stage: Affine, part: int) -> list[Value]:
        return [value for side in sides for value in side.fragments(b, stage, part)]

    def ahead(
        self, region: TileRegion, b: Builder, sides: Sequence[Stages], places: Sequence[Value], step: Affine, steps: Value, first: Affine
    ) -> None:
        """Copies of the stage that was read last begin; `first`: where the sum does."""
        stages = self.product.stages
        turn = step + (stages - 1)
        inside = b.op("lt", b.index(turn), steps)
        for side in sides:
            side.begin(b, self.inside_sum(region, b, places or [b.index(first + turn)]), _turn(b, turn, stages), inside)

    def inside_sum(self, region: TileRegion, b: Builder, places: Sequence[Value]) -> TileRegion:
        """The body at a place of the sum."""
        inner = region.inside(b, (*self.product.own, *self.product.walked))
        for axis, position in zip(self.product.walked, places, strict=True):
            inner.forms[axis] = Affine.of(position.name) * (self.product.depth if axis == self.product.sum else 1)
        return inner

    def wait(self, b: Builder) -> None:
        """The next stage has arrived, and all threads have read the one before."""
        b.emit(AsyncWait(count=self.product.stages - 2))
        b.emit(SyncThreads())


def _turn(b: Builder, turn: Affine, stages: int) -> Affine:
    """The stage of a turn."""
    return b.named(turn % stages)
