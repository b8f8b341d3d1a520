"""Sums of products of windows and filters, as those of convolutions. What windows read is copied once, with zeros around it:

    copy what windows read                                    (threads share its lines)
    note where each window begins in the copy                 (threads share lines of windows)
    copy the panels of filters, a block of the terms after the other
    for each block of windows and of filters                  (threads share the blocks)
        for each block of the terms
            for each panel of filters, for a few windows in turn: a tile of sums
        store what depends on these sums

Vectors lie across filters, whose panels are read from their beginnings to their ends; each element of a window is a factor of several
vectors. Windows of a tile need be no neighbours: they are numbered over all axes, and no tile ends with a line. Results lie along other
axes than these vectors, mostly: a block of sums is turned as it is stored."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.schedule.field import contiguity
from compiler.schedule.packed import Bounds, Kept, Packing, ResultBlock, Side, TermBlock
from compiler.schedule.padded import PaddedCopy
from compiler.schedule.panels import LEAST_OTHERS, PlacingPacked
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.whole_vectors import may_store_twice

LEAST_FILTERS, LEAST_WINDOWS = 16, 1 << 10
"""Filters, and terms of windows, from which these are read from a copy."""

FILLED = 3, 4
"""The least share of lanes that lines of windows fill where vectors lie along them."""

NEAR_BYTES, ENOUGH_WINDOWS = 1 << 19, 1 << 9
"""Bytes of pictures that are copied together, and windows in them for which all filters are read."""

LEAST_BLOCKS = 16
"""Blocks of the windows that are copied together, so that threads have equal shares."""

STORED = "s"
"""Digit of the axis across the vectors in which results are stored."""


class PlacingInPlace(PlacingPacked):
    """Places a field twice: by the windows of a copy, and by its table for sizes that this doesn't serve."""

    def __init__(self, field: HirFunction, table: Table, packing: Packing) -> None:
        super().__init__(field, table, packing)
        *_, window = packing.rows.axes
        *_, across = packing.columns.axes
        written = contiguity(field, [op for op in field.body.body if isinstance(op, Store)])
        plans = AxisPlan(window, lanes=packing.lanes), AxisPlan(across, registers=packing.lanes, digit=STORED)
        self.turned = written[across] <= 0
        """Whether results are stored in vectors of windows, not of filters."""
        self.stored = plans if self.turned else (AxisPlan(window), AxisPlan(across, lanes=packing.lanes))
        for plan in self.stored:
            self.declare(plan)
        picture = packing.padded.picture if packing.padded is not None else None
        self.by_picture = picture[0] if picture is not None and picture[0] != window else ""
        """The axis of pictures, some of which are copied at a time."""
        self.first: Value | None = None
        """The first of these."""

    def is_large(self, b: Builder) -> Value:
        terms, windows, filters = (
            b.product([b.count(self.field.axes[axis]) for axis in axes])
            for axes in (self.product.k, self.packing.rows.axes, self.packing.columns.axes)
        )
        result = b.op("ge", b.mul(terms, windows), b.const(LEAST_WINDOWS, "index"))
        for number, least in (terms, LEAST_OTHERS), (filters, LEAST_FILTERS):
            result = b.both(result, b.op("ge", number, b.const(least, "index")))
        if self.windows is None or self.table[self.windows.source.axis].registers < 2:
            return result
        # filters of one vector take a load for each product, vectors of windows that fill lines one for several
        line, lanes = b.count(self.field.axes[self.windows.source.axis]), self.packing.lanes
        vectors = b.index(Affine.of(line.name).ceildiv(lanes))
        filled = b.op("ge", b.mul(line, b.const(FILLED[1], "index")), b.mul(vectors, b.const(FILLED[0] * lanes, "index")))
        few = b.op("and", b.op("le", filters, b.const(lanes, "index")), b.op("ge", vectors, b.const(2, "index")))
        return b.op("and", result, b.op("not", b.op("and", b.op("and", few, filled), self.copy_of_picture(self.windows, b)[1])))

    def packed(self, stores: Sequence[Target], region: TileRegion) -> None:
        b, packing, dtype = region.builder, self.packing, self.product.dtype
        rows, columns = packing.rows, packing.columns
        assert packing.padded is not None
        self.cut(b)
        pictures: Value | None = None
        if self.by_picture:
            every = b.count(self.field.axes[self.by_picture])
            one = PaddedCopy(packing.padded, self, self.product.k, rows.axes, packing.lanes, b, b.const(1, "index"))
            pictures = self.together(one.size, every, b)
        copy = PaddedCopy(packing.padded, self, self.product.k, rows.axes, packing.lanes, b, pictures)
        panels = b.product(self.counts(columns, b))
        self.lines = [b.count(copy.extents[axis]) for axis in rows.axes]
        self.count = b.product(self.lines)
        apart = b.mul(b.mul(self.depth, self.blocks), b.const(columns.plan.tile, "index"))
        # one memory for the copy and the panels behind it; the place of an element is the sum of those of its term and its window
        begins = b.add(copy.size, b.mul(panels, apart))
        pixels, pixel = (b.const(1, "index"),) * 2 if copy.turned is None else (copy.spans[packing.padded.dim], copy.pixel)
        dims = begins, panels, pixels, b.op("max", copy.size, apart)
        strides = Affine.of(1), Affine.of(apart.name), Affine.of(pixel.name), Affine.of(1)
        self.work = b.alloc(Mem(dtype, tuple(Affine.of(dim.name) for dim in dims), strides, align=64), "work")
        self.offsets, self.numbers = self.term_tables(copy, b)
        self.places = self.window_places(copy, b)
        self.before[columns] = Affine()
        with ExitStack() as loops:
            region = self.inside_batch(loops, region)
            none = region.builder.const(0, "index")
            tiles = region.builder.index(Affine.of(self.count.name).ceildiv(rows.plan.tile))

            def blocks_of_terms(region: TileRegion, act: Callable[[TermBlock, TileRegion], None]) -> None:
                with region.builder.loop("block", 0, Affine.of(self.blocks.name)) as (body, block):
                    terms = self.terms_of_block(block.variable, body)
                    self.of_columns = Affine.of(terms.start.name) * columns.plan.tile + copy.size.name
                    act(terms, region.inside(body, ()))

            def by_pictures(region: TileRegion) -> None:
                if pictures is None:
                    sums_of_blocks(region)
                    return
                with region.builder.loop("picture", 0, region.builder.op("div", every, pictures).name) as (body, part):
                    self.first = body.mul(part.variable, pictures)
                    sums_of_blocks(region.inside(body, ()))

            def sums_of_blocks(region: TileRegion) -> None:
                copy.fill(self.work, region, lambda at, _, b: [*[Affine()] * 3, Affine.of(copy.place(at, b).name)], self.first)
                with self.tasks({rows: (none, tiles), columns: (none, panels)}, region, LEAST_BLOCKS) as (inner, task):
                    blocks_of_terms(inner, lambda terms, body: self.add_up([], task, terms, body))
                    self.store_block(stores, task, inner)

            if packing.dense:
                self.of_columns = Affine.of(copy.size.name)
                finite = self.pack_dense(panels, region)
                if self.product.guard is None or not is_float(dtype):
                    by_pictures(region)
                else:
                    self.where_all(finite, stores, region, by_pictures)
            else:
                blocks_of_terms(region, lambda terms, inner: self.pack(columns, panels, inner, terms))
                by_pictures(region)

    def together(self, size: Value, every: Value, b: Builder) -> Value:
        """How many pictures of this size are copied together, a divisor of all: what the second cache holds, more where windows are few."""
        windows = b.product([b.count(self.field.axes[axis]) for axis in self.packing.rows.axes])
        most = b.op("div", b.const(NEAR_BYTES // bytes_of(self.product.dtype), "index"), size)
        of_one = b.op("max", b.op("div", windows, b.op("max", every, b.const(1, "index"))), b.const(1, "index"))
        most = b.op("min", every, b.op("max", most, self.quotient(b, b.const(ENOUGH_WINDOWS, "index"), of_one)))
        with b.loop("number", 1, Affine.of(most.name) + 1, carried=[b.const(1, "index")]) as (body, number):
            divides = body.op("eq", body.op("rem", every, number.variable), body.const(0, "index"))
            body.yield_(body.select(divides, number.variable, number.carried[0]))
        return number.results[0]

    def block_of_results(self, low: Bounds, high: Bounds, b: Builder) -> ResultBlock:
        tall, wide = self.packing.block_panels
        sums = b.alloc(Mem(self.product.dtype, (Affine.of(wide), Affine.of(tall * self.packing.tile)), align=64), "sums")
        return ResultBlock(low, high, sums, (), {side: Affine.of(panel.name) for side, panel in low.items()})

    def term_tables(self, copy: PaddedCopy, b: Builder) -> tuple[Value, Value]:
        """How far each term of a window lies behind its beginning; and the numbers of terms in the order of the memory of filters."""
        order = self.packing.dense or self.product.k
        offsets, numbers = (b.alloc(Mem("i64", (Affine.of(self.terms.name),), align=64), name) for name in ("offsets", "numbers"))
        extents = {axis: b.count(self.field.axes[axis]) for axis in order}
        with b.loop("term", 0, Affine.of(self.terms.name), carried=[b.const(0, "index") for _ in order]) as (body, term):
            digits = dict(zip(order, term.carried, strict=True))
            number = body.const(0, "index")
            for axis in self.product.k:
                number = body.add(body.mul(number, extents[axis]), digits[axis])
            offset = copy.offset({axis: Affine.of(digits[axis].name) for axis in self.product.k}, body)
            body.store(offsets, body.cast(offset, "i64"), [number.name])
            body.store(numbers, body.cast(number, "i64"), [term.variable.name])
            body.yield_(*body.next_digits(term.carried, [extents[axis] for axis in order]))
        return offsets, numbers

    def window_places(self, copy: PaddedCopy, b: Builder) -> Value:
        """Where each window begins in the copy; behind the last so many more as a tile may reach over it."""
        tile, axis = self.packing.rows.plan.tile, self.packing.rows.axes[-1]
        places = b.alloc(Mem("i64", (Affine.of(self.count.name) + tile,), align=64), "places")
        with b.loop("line", 0, Affine.of(b.product([b.const(1, "index"), *self.lines[:-1]]).name), place="thread") as (body, line):
            begin = copy.offset(self.line_forms(line.variable, body), body)
            before = body.mul(line.variable, self.lines[-1])
            with body.loop(axis, 0, self.lines[-1].name) as (one, window):
                place = one.add(begin, copy.offset({axis: Affine.of(window.variable.name)}, one))
                one.store(places, one.cast(place, "i64"), [Affine.of(before.name) + window.variable.name])
        with b.loop("over", 0, tile) as (one, number):
            one.store(places, one.const(0, "i64"), [Affine.of(self.count.name) + number.variable.name])
        return places

    def line_forms(self, line: Value, b: Builder) -> dict[str, Affine]:
        """The places of a line of windows along all axes but the last."""
        others = self.packing.rows.axes[:-1]
        digits = b.digits(line, self.lines[1:-1]) if others else []
        return {axis: Affine.of(digit.name) for axis, digit in zip(others, digits, strict=True)}

    def checked_first(self) -> Value | None:
        return None if self.packing.dense else super().checked_first()

    def pack_dense(self, panels: Value, region: TileRegion) -> Value:
        """Copies filters to their panels, as terms lie in their memory; gives whether all are finite."""
        columns, dtype, terms = self.packing.columns, self.product.dtype, Affine.of(self.terms.name)
        zero = 0.0 if is_float(dtype) else 0
        across = [name for name, _, _ in columns.plan.digits()]
        differences = region.builder.alloc(Mem(dtype, (Affine.of(panels.name),)), "differences")
        *others, last = self.packing.dense
        with region.builder.loop("panel", 0, panels.name, place="thread") as (packing, panel):
            for inner, masked in self.at_panels({columns: panel.variable}, region.inside(packing, ()), columns.axes):
                total = inner.builder.const(zero, Tile(dtype, self.tile_axes([columns.plan.axis], inner)))
                square, one = self.square(columns), AxisPlan(last)
                whole = Affine() if masked else terms.floordiv(square.tile)
                for plan, low, high in (square, Affine(), whole), (one, whole * square.tile, terms):
                    with inner.builder.loop(last, low, high, carried=[total]) as (copying, term):
                        place = inner.inside(copying, self.product.k)
                        along = plan.form(term.variable.name)
                        place.forms.update({**dict.fromkeys(others, Affine()), last: along})
                        place.narrow.update({last: plan})
                        value = copying.cast(self.value(columns.operand, place), dtype)
                        number = copying.cast(copying.load(self.numbers, [along]), "index")
                        copying.store(self.work, value, self.element(columns, panel.variable, Affine(), Affine.of(number.name)))
                        # no number but zero where it is finite
                        difference, over = copying.sub(value, value), [name for name, _, _ in plan.digits()]
                        difference = copying.reduce("add", difference, over=over)[0] if over else difference
                        copying.yield_(copying.add(term.carried[0], difference))
                    (total,) = term.results
                (total,) = inner.builder.reduce("add", total, over=across, flags=("reassoc",))
                inner.builder.store(differences, total, [panel.variable.name])
        b, nothing = region.builder, region.builder.const(zero, dtype)
        with b.loop("panel", 0, panels.name, carried=[nothing]) as (body, panel):
            body.yield_(body.add(panel.carried[0], body.load(differences, [panel.variable.name])))
        return b.op("eq", panel.results[0], nothing)

    # ---- tiles ----

    def tile(self, stand: dict[Side, Value], kept: Kept, block: TermBlock, region: TileRegion) -> Value:
        b, rows = region.builder, self.packing.rows
        places = b.load(self.places, [Affine.of(stand[rows].name) * rows.plan.tile + rows.plan.within()])
        self.beginnings = b.cast(places, "index")
        return super().tile(stand, kept, block, region)

    def read(self, side: Side, panel: Value, start: Value, block: Affine, within: Affine, b: Builder) -> Value:
        if side is self.packing.columns:
            return super().read(side, panel, start, block, within, b)
        offset = b.cast(b.load(self.offsets, [block * self.packing.lanes + within + start.name]), "index")
        return b.load(self.work, [offset.name, Affine(), Affine(), self.beginnings.name])

    # ---- results ----

    def store_block(self, stores: Sequence[Target], block: ResultBlock, region: TileRegion) -> None:
        """What depends on a block of sums, by parts of its panels."""
        columns, (_, plan) = self.packing.columns, self.stored
        axis = plan.axis
        extent = self.field.axes[axis]
        with region.builder.loop("column", block.low[columns].name, block.high[columns].name) as (body, column):
            panel = self.inside_panels({columns: column.variable}, region.inside(body, ()), columns.axes)
            begin = panel.starts[axis]
            left = body.op("min", body.index((extent - begin).ceildiv(plan.tile)), body.const(columns.plan.tile // plan.tile, "index"))
            with body.loop("part", 0, Affine.of(left.name)) as (one, part):
                across = Affine.of(part.variable.name) * plan.tile
                inner = panel.inside(one, columns.axes)
                inner.starts[axis], inner.narrow[axis] = begin + across, plan
                inner.forms[axis] = begin + across + plan.within()
                place = Affine.of(column.variable.name) - block.low[columns].name, across + plan.within()
                with one.branch(one.op("le", one.index(begin + across + plan.tile), one.index(extent))) as (then, otherwise, _):
                    self.store_lines(stores, block, place, inner.inside(then, ()))
                    edge = inner.inside(otherwise, ())
                    edge.masks[axis] = extent
                    self.store_lines(stores, block, place, edge)

    def store_lines(self, stores: Sequence[Target], block: ResultBlock, place: tuple[Affine, Affine], region: TileRegion) -> None:
        """The windows of a block as pieces of lines: in vectors, of which the last may reach back, then one by one."""
        b, rows, (plan, _) = region.builder, self.packing.rows, self.stored
        axis, tile, zero = rows.axes[-1], b.const(rows.plan.tile, "index"), b.const(0, "index")
        begin = b.mul(block.low[rows], tile)
        end = b.op("min", b.mul(block.high[rows], tile), self.count)
        width = b.op("max", self.lines[-1], b.const(1, "index"))
        with b.loop("line", b.op("div", begin, width).name, self.quotient(b, end, width).name) as (body, line):
            inner = region.inside(body, rows.axes[:-1])
            inner.forms.update(self.line_forms(line.variable, body))
            if self.first is not None:
                inner.forms[self.by_picture] += self.first.name
            inner.narrow.update({name: AxisPlan(name) for name in rows.axes[:-1]})
            at = body.mul(line.variable, width)
            low, high = body.op("max", body.sub(begin, at), zero), body.op("min", body.sub(end, at), width)
            count, lanes = body.sub(high, low), body.const(plan.lanes, "index")
            whole = body.op("div", count, lanes)
            over = body.add(low, body.mul(whole, lanes))
            if may_store_twice(self.field, stores):
                some = body.op("ge", count, lanes)
                whole, over = body.select(some, self.quotient(body, count, lanes), zero), body.select(some, high, low)
            last = body.sub(high, lanes)
            vectors, elements = (plan, zero, whole), (AxisPlan(axis), over, high)
            for each, first, after in (vectors, elements) if plan.lanes > 1 else ((plan, low, high),):
                with body.loop(axis, first.name, after.name) as (one, window):
                    start = window.variable
                    if each.lanes > 1:
                        start = one.op("min", one.add(low, one.mul(start, lanes)), last)
                    piece = inner.inside(one, (axis,))
                    along = Affine.of(start.name) + each.within()
                    piece.starts[axis], piece.narrow[axis] = Affine.of(start.name), each
                    piece.forms[axis] = along
                    row = Affine.of(at.name) + along - begin.name
                    piece.made[self.product.result] = one.load(block.sums, self.sums_at(block, place[0], row, place[1]))
                    for store in stores:
                        self.finish_target(store, piece, {}, begun=False)
