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
from compiler.hir.types import Mem
from compiler.schedule.field import contiguity
from compiler.schedule.packed import Packing, Side
from compiler.schedule.padded import PaddedCopy
from compiler.schedule.panels import LEAST_OTHERS, Bounds, Kept, PlacingPacked, ResultBlock, TermBlock
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.whole_vectors import may_store_twice

LEAST_FILTERS, LEAST_WINDOWS = 16, 1 << 10
"""Filters, and terms of windows, from which these are read from a copy."""

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

    def is_large(self, b: Builder) -> Value:
        terms, windows, filters = (
            b.product([b.count(self.field.axes[axis]) for axis in axes])
            for axes in (self.product.k, self.packing.rows.axes, self.packing.columns.axes)
        )
        result = b.op("ge", b.mul(terms, windows), b.const(LEAST_WINDOWS, "index"))
        for number, least in (terms, LEAST_OTHERS), (filters, LEAST_FILTERS):
            result = b.both(result, b.op("ge", number, b.const(least, "index")))
        return result

    def packed(self, stores: Sequence[Target], region: TileRegion) -> None:
        b, packing, dtype = region.builder, self.packing, self.product.dtype
        rows, columns = packing.rows, packing.columns
        assert packing.padded is not None
        self.cut(b)
        copy = PaddedCopy(packing.padded, self, self.product.k, rows.axes, packing.lanes, b)
        panels = b.product(self.counts(columns, b))
        self.window_count = b.product([b.count(self.field.axes[axis]) for axis in rows.axes])
        apart = b.mul(self.depth, b.const(columns.plan.tile, "index"))
        of_block = b.mul(panels, apart)
        # one memory for the copy and the panels behind it; the place of an element is the sum of those of its term and its window
        begins = b.add(copy.size, b.mul(self.blocks, of_block))
        dims = begins, panels, b.op("max", copy.size, apart)
        strides = Affine.of(1), Affine.of(apart.name), Affine.of(1)
        self.work = b.alloc(Mem(dtype, tuple(Affine.of(dim.name) for dim in dims), strides, align=64), "work")
        self.places = self.window_places(copy, b)
        self.before[columns] = Affine()
        with ExitStack() as loops:
            region = self.inside_batch(loops, region)
            copy.fill(self.work, region, lambda at, _, b: [Affine(), Affine(), Affine.of(copy.place(at, b).name)])
            self.offsets = self.term_offsets(copy, region.builder)

            def blocks_of_terms(region: TileRegion, act: Callable[[TermBlock, TileRegion], None]) -> None:
                with region.builder.loop("block", 0, Affine.of(self.blocks.name)) as (body, block):
                    self.of_columns = Affine.of(body.mul(block.variable, of_block).name) + copy.size.name
                    act(self.terms_of_block(block.variable, body), region.inside(body, ()))

            blocks_of_terms(region, lambda terms, inner: self.pack(columns, panels, inner, terms))
            none = region.builder.const(0, "index")
            tiles = region.builder.index(Affine.of(self.window_count.name).ceildiv(rows.plan.tile))
            with self.tasks({rows: (none, tiles), columns: (none, panels)}, region) as (inner, task):
                blocks_of_terms(inner, lambda terms, body: self.add_up(stores, task, terms, body))
                self.store_block(stores, task, inner)

    def block_of_results(self, low: Bounds, high: Bounds, number: Value, b: Builder) -> ResultBlock:
        sums = b.alloc(Mem(self.product.dtype, (Affine.of(self.packing.slot),), align=64), "sums")
        return ResultBlock(low, high, sums, (Affine(),))

    def window_places(self, copy: PaddedCopy, b: Builder) -> Value:
        """Where each window begins; behind the last so many more as a tile may reach over it."""
        rows = self.packing.rows
        *others, axis = rows.axes
        width, over = b.count(self.field.axes[axis]), rows.plan.tile
        places = b.alloc(Mem("i64", (Affine.of(self.window_count.name) + over,), align=64), "places")
        counts = [b.count(self.field.axes[other]) for other in others]
        with b.loop("line", 0, Affine.of(b.product(counts).name) if counts else 1, place="thread") as (body, line):
            digits = body.digits(line.variable, counts[1:]) if others else []
            begin = copy.offset({name: Affine.of(digit.name) for name, digit in zip(others, digits, strict=True)}, body)
            before = body.mul(line.variable, width)
            with body.loop(axis, 0, Affine.of(width.name)) as (one, window):
                place = one.add(begin, copy.offset({axis: Affine.of(window.variable.name)}, one))
                one.store(places, one.cast(place, "i64"), [Affine.of(before.name) + window.variable.name])
        with b.loop("over", 0, over) as (one, number):
            one.store(places, one.const(0, "i64"), [Affine.of(self.window_count.name) + number.variable.name])
        return places

    def term_offsets(self, copy: PaddedCopy, b: Builder) -> Value:
        """How far each term of a window lies behind its beginning."""
        offsets = b.alloc(Mem("i64", (Affine.of(self.terms.name),), align=64), "offsets")
        extents = [b.count(self.field.axes[axis]) for axis in self.product.k]
        with b.loop("term", 0, Affine.of(self.terms.name), carried=[b.const(0, "index") for _ in extents]) as (body, term):
            forms = {axis: Affine.of(digit.name) for axis, digit in zip(self.product.k, term.carried, strict=True)}
            body.store(offsets, body.cast(copy.offset(forms, body), "i64"), [term.variable.name])
            body.yield_(*self.next_digits(term.carried, extents, body))
        return offsets

    # ---- tiles ----

    def is_stored(self, stores: Sequence[Target], stand: dict[Side, Value], region: TileRegion) -> Value | None:
        return None

    def tile(self, stand: dict[Side, Value], kept: Kept, block: TermBlock, region: TileRegion) -> Value:
        b, rows = region.builder, self.packing.rows
        places = b.load(self.places, [Affine.of(stand[rows].name) * rows.plan.tile + rows.plan.within()])
        self.beginnings = b.cast(places, "index")
        return super().tile(stand, kept, block, region)

    def read(self, side: Side, panel: Value, start: Value, block: Affine, within: Affine, b: Builder) -> Value:
        if side is self.packing.columns:
            return super().read(side, panel, start, block, within, b)
        offset = b.cast(b.load(self.offsets, [block * self.packing.lanes + within + start.name]), "index")
        return b.load(self.work, [offset.name, Affine(), self.beginnings.name])

    def finish(
        self, stores: Sequence[Target], stand: dict[Side, Value], kept: Kept, total: Value, terms: TermBlock, region: TileRegion
    ) -> None:
        region.builder.store(kept[0], total, kept[1])

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
        *others, axis = rows.axes
        width, tile, zero = b.count(self.field.axes[axis]), b.const(rows.plan.tile, "index"), b.const(0, "index")
        begin = b.mul(block.low[rows], tile)
        end = b.op("min", b.mul(block.high[rows], tile), self.window_count)
        lines = b.op("div", begin, width), self.quotient(b, end, width)
        twice = may_store_twice(self.field, stores)
        with b.loop("line", lines[0].name, lines[1].name) as (body, line):
            inner = region.inside(body, others)
            if others:
                digits = body.digits(line.variable, [body.count(self.field.axes[other]) for other in others[1:]])
                inner.forms.update({name: Affine.of(digit.name) for name, digit in zip(others, digits, strict=True)})
            inner.narrow.update({name: AxisPlan(name) for name in others})
            at = body.mul(line.variable, width)
            low, high = body.op("max", body.sub(begin, at), zero), body.op("min", body.sub(end, at), width)
            count, lanes = body.sub(high, low), body.const(plan.lanes, "index")
            whole = body.op("div", count, lanes)
            behind = body.add(low, body.mul(whole, lanes))
            if twice:
                some = body.op("ge", count, lanes)
                whole, behind = body.select(some, self.quotient(body, count, lanes), zero), body.select(some, high, low)
            last = body.sub(high, lanes)
            vectors, elements = (plan, zero, whole), (AxisPlan(axis), behind, high)
            for each, first, after in (vectors, elements) if plan.lanes > 1 else ((plan, low, high),):
                with body.loop(axis, first.name, after.name) as (one, number):
                    start = number.variable
                    if each.lanes > 1:
                        start = one.op("min", one.add(low, one.mul(start, lanes)), last)
                    piece = inner.inside(one, (axis,))
                    piece.starts[axis], piece.narrow[axis] = Affine.of(start.name), each
                    piece.forms[axis] = piece.starts[axis] + each.within()
                    window = Affine.of(at.name) + piece.forms[axis] - begin.name
                    piece.made[self.product.result] = one.load(block.sums, self.sums_at(block, place[0], window, place[1]))
                    for store in stores:
                        self.finish_target(store, piece, {}, begun=False)
