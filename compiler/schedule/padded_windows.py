"""Sums over windows of a picture, as those of depthwise convolutions: conditions at the edges cost more than all sums inside. A picture
that the nearest caches hold is copied with zeros around it, and its windows go in the tiles of the table as if no condition were there. A
zero times a number that isn't finite is none, so filters are looked at first; where one isn't finite, where pictures are large or too few
for all threads, the conditions are asked."""

from collections.abc import Callable, Sequence
from itertools import product as pairs
from math import prod
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Const, Reduce, Scan, Select, dtype_of, names_of_axes
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.schedule.combination import PairReduction
from compiler.schedule.field import MOST_WRITTEN_OUT
from compiler.schedule.padded import PaddedCopy, PaddedSource, padded_source
from compiler.schedule.pieces import single
from compiler.schedule.place import Placing
from compiler.schedule.region import Accumulators, Target, TileLoop, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve, frozen

NEAR_BYTES = 256 << 10
"""A copy of a picture is no larger: half of a second cache of 512 KB."""

ENOUGH_PICTURES = 16
"""So many pictures keep all threads of a desktop busy."""


@frozen(eq=False)
class PaddedWindows:
    """The sum of a field over windows of `picture`, the operand `b` of its product. `pictures`: axes of which each index has one; `axes`:
    along which windows move."""

    product: PairReduction
    source: PaddedSource
    pictures: tuple[str, ...]
    axes: tuple[str, ...]
    flags: tuple[str, ...]
    """Of the products."""

    def __str__(self) -> str:
        return f"  each picture along {' and '.join(self.pictures)}, if small, is copied with zeros around it"


def padded_windows(field: HirFunction, table: Table) -> PaddedWindows | None:
    """The windows of a field that computes one such sum, and stores what depends on it."""
    sums = [op for op in field.body.body if isinstance(op, Reduce | Scan)]
    if len(sums) != 1 or any(isinstance(op, Alloc) for op in field.body.body):
        return None
    match sums[0]:
        case Reduce(monoid="add", values=(Value(source=Select(condition=guard, then=term, otherwise=Value(source=Const(value=0)))),)):
            factors = (term,) if not isinstance(term.source, Binary) else (term.source.left, term.source.right)
        case _:
            return None
    if len(factors) == 2 and not (isinstance(term.source, Binary) and term.source.operator == "mul"):
        return None
    result = names_of_axes(*sums[0].results)
    if any({name for name, _ in field.scope().axes_of(*op.index)} != result for op in field.body.body if isinstance(op, Store)):
        return None
    for filters, picture in zip(factors, factors[::-1], strict=True):
        own = [plan.axis for plan in table.plans if plan.axis in result & names_of_axes(picture)]
        axes = tuple(axis for axis in own if table[axis].tile > 1 or axis in names_of_axes(guard))
        pictures = tuple(axis for axis in own if axis not in axes)
        pair = PairReduction(sums[0], filters, picture, pictures, (), axes, sums[0].over, guard=guard)
        source = padded_source(pair, picture, axes) if axes and pictures and names_of_axes(guard) <= {*axes, *pair.k} else None
        if source is not None and table[source.axis].lanes > 1:
            flags = term.source.flags if isinstance(term.source, Binary) else ()
            return PaddedWindows(pair, source, pictures, axes, flags)
    return None


@frozen
class SharedRows:
    """The rows of a tile and the `tap` of a window that moves over them; `places`: the rows and taps that read each of them."""

    plan: AxisPlan
    tap: str
    places: tuple[tuple[tuple[int, int], ...], ...]


class PlacingWindows(Placing):
    """Places a field twice: with copies of pictures, and by its table alone."""

    def __init__(self, field: HirFunction, table: Table, windows: PaddedWindows | None) -> None:
        super().__init__(field, table)
        self.windows = windows
        self.picture: tuple[PaddedCopy, Value] | None = None
        """The copy, where windows are read from it."""

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        windows = self.windows
        if windows is None:
            super().begin(stores, root)
            return
        b, product = root.builder, windows.product
        counts = [b.count(self.field.axes[axis]) for axis in windows.pictures]
        number = b.product(counts)
        copy, serves = self.copy_of_picture(windows, b)

        def by_pictures(region: TileRegion) -> None:
            with region.builder.loop("picture", 0, Affine.of(number.name), place="thread") as (body, picture):
                inner = region.inside(body, windows.pictures)
                for axis, digit in zip(windows.pictures, body.digits(picture.variable, counts[1:]), strict=True):
                    inner.forms[axis], inner.narrow[axis] = Affine.of(digit.name), AxisPlan(axis)
                copied = body.alloc(copy.type(dtype_of(product.b), self.table), "copied")
                copy.fill(copied, inner, lambda places, phase, _: (*places.values(), Affine.of(phase.name), Affine()))
                self.picture = copy, copied
                assert product.guard is not None
                inner.certain |= {product.guard}
                self.produce(stores, inner, {})
                self.picture = None

        filters = product.a if product.a is not product.b else None
        with b.branch(serves) as (then, otherwise, _):
            self.where_finite(filters, stores, TileRegion(then, made=dict(root.made)), by_pictures)
            super().begin(stores, TileRegion(otherwise, made=dict(root.made)))

    def copy_of_picture(self, windows: PaddedWindows, b: Builder) -> tuple[PaddedCopy, Value]:
        """The copy of a picture, and whether copies are near and enough for all threads."""
        product = windows.product
        number = b.product([b.count(self.field.axes[axis]) for axis in windows.pictures])
        copy = PaddedCopy(windows.source, self, product.k, windows.axes, self.table[windows.source.axis].lanes, b, by_picture=True)
        near = b.op("le", copy.size, b.const(NEAR_BYTES // bytes_of(dtype_of(product.b)), "index"))
        return copy, b.op("and", near, b.op("ge", number, b.const(ENOUGH_PICTURES, "index")))

    def where_finite(self, value: Value | None, stores: Sequence[Target], region: TileRegion, way: Callable[[TileRegion], None]) -> None:
        """What stands in `way` where all elements of a value are finite numbers; elsewhere one result after the other, in little code."""
        if value is None or not is_float(dtype_of(value)):
            way(region)
        else:
            self.where_all(self.every_finite(names_of_axes(value), value, region, region.builder.const(True, "i1")), stores, region, way)

    def where_all(self, finite: Value, stores: Sequence[Target], region: TileRegion, way: Callable[[TileRegion], None]) -> None:
        """The same, where it is known whether they are `finite`."""
        with region.builder.branch(finite) as (then, otherwise, _):
            way(region.inside(then, ()))
            table = self.table
            self.table = evolve(table, plans=[AxisPlan(plan.axis, plan.place) for plan in table.plans], rows=None, written_out=frozenset())
            self.produce(stores, region.inside(otherwise, ()), {})
            self.table = table

    def loop_over(self, axis: str, group: Sequence[Target], region: TileRegion, result: Accumulators, state: Accumulators) -> None:
        """Tiles of what reads the copy may reach over the ends of axes: there is something behind them, which isn't stored."""
        windows, plan = self.windows, self.table[axis]
        if self.picture is None or windows is None or state:
            super().loop_over(axis, group, region, result, state)
        elif axis in windows.axes and plan.tile > 1 and all(isinstance(target, Store) for target in group):
            vector, extent = single(plan), self.field.axes[axis]
            whole, tiles = extent.floordiv(plan.tile), (extent + vector.tile - 1).floordiv(plan.tile)
            ends = [(plan, Affine(), whole, False), (plan, whole, tiles, True)]
            ends += [(vector, tiles * plan.registers, extent.ceildiv(vector.tile), True)] if vector != plan else []
            for each, low, high, masked in ends if plan.lanes > 1 else [(plan, Affine(), extent.ceildiv(plan.tile), True)]:
                inner = region.inside(region.builder, ())
                inner.narrow[axis] = each
                self.one_loop(TileLoop(each, low, high, masked, group), inner, result)
        elif group == [windows.product.op] and (shared := self.shared_rows(windows, region)) is not None:
            self.row_by_row(windows, shared, region)
        else:
            super().loop_over(axis, group, region, result, state)

    def shared_rows(self, windows: PaddedWindows, region: TileRegion) -> SharedRows | None:
        """Rows of the tile that share what they read, where constantly few taps move over them and sums may be in any order."""
        product = windows.product
        plans = [self.plan(axis, region) for axis in self.axes([product.result])]
        rows = [plan for plan in plans if plan.axis in windows.axes and plan.registers > 1 and plan.lanes == 1]
        if len(rows) != 1 or (is_float(product.dtype) and "reassoc" not in product.flags):
            return None
        forms = [form for form in windows.source.load.index if rows[0].axis in form.names]
        taps = [axis for axis in product.k if any(axis in form.names for form in forms)]
        count = self.field.axes[taps[0]].value if len(taps) == len(forms) == 1 else None
        if count is None or count * prod(plan.registers for plan in plans) > MOST_WRITTEN_OUT:
            return None
        step, apart = (forms[0].coefficient(axis) for axis in (rows[0].axis, taps[0]))
        readers: dict[int, list[tuple[int, int]]] = {}
        for row, tap in pairs(range(rows[0].registers), range(count)):
            readers.setdefault(step * row + apart * tap, []).append((row, tap))
        return SharedRows(rows[0], taps[0], tuple(tuple(readers[place]) for place in sorted(readers)))

    def row_by_row(self, windows: PaddedWindows, shared: SharedRows, region: TileRegion) -> None:
        """Every row of the picture is loaded once for all rows of results that it is a term of."""
        b, product, row = region.builder, windows.product, shared.plan
        results = self.axes([product.result]) - {row.axis}
        digits = [plan for axis in sorted(results, key=self.table.order) if (plan := self.plan(axis, region)).tile > 1]
        nothing = b.const(0.0 if is_float(product.dtype) else 0, Tile(product.dtype, self.tile_axes([p.axis for p in digits], region)))
        loops = [plan.axis for plan in self.table.plans if plan.axis in product.k and plan.axis != shared.tap]
        sums = self.terms_of_rows(windows, shared, loops, [nothing] * row.registers, region)
        kept = b.alloc(Mem(product.dtype, tuple(Affine.of(plan.tile) for plan in (row, *digits)), align=64), "rows")
        within = [plan.within() for plan in digits]
        for number, total in enumerate(sums):
            b.store(kept, total, [Affine.of(number), *within])
        region.made[product.result] = b.load(kept, [row.within(), *within])

    def terms_of_rows(
        self, windows: PaddedWindows, shared: SharedRows, loops: Sequence[str], sums: Sequence[Value], region: TileRegion
    ) -> list[Value]:
        """The sums of all rows and the terms along `loops` and all taps."""
        b, product, row = region.builder, windows.product, shared.plan.axis
        if loops:
            axis, *inner_loops = loops
            with b.loop(f"{axis}0", 0, self.field.axes[axis], carried=sums) as (body, loop):
                inner = region.inside(body, (axis,))
                inner.forms[axis] = Affine.of(loop.variable.name)
                body.yield_(*self.terms_of_rows(windows, shared, inner_loops, loop.carried, inner))
            return loop.results
        sums, filters = list(sums), dict[int, Value]()
        for readers in shared.places:
            read: Value | None = None
            for number, tap in readers:
                place = region.inside(b, (row, shared.tap))
                place.forms.update({row: region.forms[row] - shared.plan.within() + number, shared.tap: Affine.of(tap)})
                place.narrow[row] = AxisPlan(row)
                read = term = read or self.value(product.b, place)
                if product.a is not product.b:
                    filters[tap] = filters[tap] if tap in filters else self.value(product.a, place)
                    term = b.mul(filters[tap], read, flags=windows.flags)
                sums[number] = b.op("add", sums[number], term, flags=product.flags if is_float(product.dtype) else ())
        return sums

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        # no vectors: LLVM would make its own, and decide on bits
        return super().marks(plan) if any(each.lanes > 1 for each in self.table.plans) else {"nounroll": True}

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        if self.picture is None or self.windows is None or value is not self.windows.product.b:
            return super().make(op, value, region)
        copy, copied = self.picture
        return region.builder.load(copied, copy.index(region))

    def every_finite(self, axes: set[str], value: Value, region: TileRegion, before: Value) -> Value:
        """Whether a value is a finite number all along the axes, and `before` holds."""
        b = region.builder
        if not axes:
            here = self.value(value, region)
            difference = b.sub(here, here)
            return b.op("and", before, b.op("eq", difference, b.const(0.0, difference.type)))
        axis = min(axes, key=self.table.order)
        with b.loop(f"{axis}0", 0, self.field.axes[axis], carried=[before]) as (body, loop):
            inner = region.inside(body, (axis,))
            inner.forms[axis], inner.narrow[axis] = Affine.of(loop.variable.name), AxisPlan(axis)
            body.yield_(self.every_finite(axes - {axis}, value, inner, loop.carried[0]))
        return loop.results[0]

