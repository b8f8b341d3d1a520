"""Reductions whose terms share elements (`reuse.py`), as matrix products are made where no matrix unit takes them: a thread has a tile of
results in registers, the block's threads put a slice of what its rows and columns read in shared memory, and each walks along the sum
through it. What combines elements, and how terms are reduced, is the field's own; a later reduction along the columns takes each tile's
results from the registers."""

from collections.abc import Mapping, Sequence
from math import ceil, prod

from attrs import evolve

from compiler.analysis.accesses import constraints_of
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, Scan, dtype_of
from compiler.hir.gpu import SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, bytes_of
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.combine import combine_over_threads
from compiler.schedule.gpu.distribute import Distributing, launches_of_blocks
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.lanes import lanes_along, power_of_two
from compiler.schedule.gpu.reuse import ReusedTerms, axes_of, reused_terms
from compiler.schedule.gpu.staged_tiles import contiguous
from compiler.schedule.gpu.taking_part import bounds_of, longest_first
from compiler.schedule.gpu.triangles import triangle_product
from compiler.schedule.gpu.windows import window_product
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, LoopSplit, Table
from runtime.records import frozen

THREADS = 256
LINE_THREADS = 128
"""Where a block's results lie along one axis."""

LEAST_RESULTS = 1 << 14
"""Below which a device isn't filled by tiles of results."""
LEAST_SIDE = 4
"""Rows, and columns, with fewer of which there is little to share."""
LARGE_PRODUCT = 1024
THIN = 128
LEAST_ROWS, LEAST_TERMS = 128, 32
"""Along one axis, with terms that are shared by all rows."""

MOST_REGISTERS = 64
"""32-bit registers of a thread's results."""
RESIDENT = 2
"""Blocks of a multiprocessor at a time, whose slices come while the other one computes."""
MOST_RESULTS = 8
"""Of a thread along one axis."""
COLUMN_THREADS = (8, 16, 32)
FEW_COLUMNS = 32
"""Up to which half as many threads stand along them."""

STAGING_SLOTS = 6
"""Issue slots for each element that is put in shared memory, about."""
BYTE_SLOTS = 4
"""Issue slots that pass while a byte of it comes, from the cache or from afar."""

SLICE_BYTES = 36 << 10
MOST_PUT = 20
"""Elements that a thread puts there at a time: more would take registers from results."""
DEEPEST = 64
DEPTH_THREADS = (32, 16, 8, 4)
"""Threads along the sum that load what is contiguous along it."""

SHORT = 128
"""The longest extent that a kernel is made for."""

BLOCKS = 512
"""Blocks that fill a large GPU, where they share sums."""
WRITTEN_OUT = 4
"""Terms of which a loop's turn consists."""


def register_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field without such reductions, or with too few results for it."""
    terms = terms_for_registers(field)
    table = None if terms is None else register_table(field, terms, facts)
    if terms is None or table is None:
        return None
    return evolve(launches_of_blocks(RegisterDistributing(field, terms, table).run()), words=table.reasons)


def is_thin_triangle(field: HirFunction, facts: Facts) -> bool:
    """Whether terms take part where a condition holds alone, in so few columns, or rows, that all time goes to reading the other operand:
    to write it for a matrix unit, with zeros, would take longer than the products do in registers."""
    terms = terms_for_registers(field)
    if terms is None or terms.columns is None or not any(bounds_of(op) for op in terms.sums):
        return False
    return min(facts.about(field.axes[axis]) for axis in (terms.rows, terms.columns)) <= THIN


def thin_launches(field: HirFunction, facts: Facts) -> Launches | None:
    return register_launches(field, facts) if is_thin_triangle(field, facts) else None


def terms_for_registers(field: HirFunction) -> ReusedTerms | None:
    """Such terms, but for those of windows with a border: they are products (`windows.py`)."""
    terms = reused_terms(field)
    return None if terms is None or window_product(field) is not None else terms


def register_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes that a kernel is made for: short axes fill their tiles then."""
    terms = terms_for_registers(field)
    if terms is None:
        return ()
    lengths: dict[str, int] = {}
    for axis in (terms.depth, terms.rows, *([terms.columns] if terms.columns is not None else [])):
        names = set(field.axes[axis].names)
        if names <= sizes.keys() and 0 < field.axes[axis].evaluate(sizes.__getitem__) <= SHORT:
            lengths |= {name: sizes[name] for name in names}
    return tuple(sorted(lengths.items()))


def register_table(field: HirFunction, terms: ReusedTerms, facts: Facts) -> Table | None:
    common = common_axes(field)
    results = prod(facts.about(field.axes[axis]) for axis in common)
    depth, over = facts.about(field.axes[terms.depth]), terms.sums[0].over
    if terms.columns is None:
        if results < LEAST_ROWS or depth < LEAST_TERMS:
            return None
        tile = _line(field, terms, results, depth)
    else:
        if results < LEAST_RESULTS or min(facts.about(field.axes[axis]) for axis in (terms.rows, terms.columns)) < LEAST_SIDE:
            return None
        if _is_large_product(field, terms, facts):
            return None
        tile = _best_tile(field, terms, facts, results)
    plans = {plan.axis: plan for plan in (tile.rows, *tile.columns)}
    for axis in field.axes:
        if axis == terms.depth:
            plans[axis] = AxisPlan(axis, "time", _slice(field, terms, tile, depth))
        else:
            plans.setdefault(axis, AxisPlan(axis, "block" if axis in common else "time"))
    ordered = [axis for axis in common if axis not in (terms.rows, terms.columns)] + [terms.rows]
    ordered += [terms.columns] if terms.columns is not None else []
    ordered += [axis for axis in field.axes if axis not in ordered and axis not in over]
    names = " and ".join(f"{plan.run} along {plan.axis}" for plan in (tile.rows, *tile.columns))
    each = " by ".join(str(plan.registers * plan.lanes) for plan in (tile.rows, *tile.columns))
    reasons = [
        f"what terms read is read for many results: a block has tiles of {names}, a thread {each} of them in registers",
        f"elements go through shared memory, {plans[terms.depth].tile} along {terms.depth} at a time",
    ]
    resident = RESIDENT if tile.columns else None
    table = Table([plans[axis] for axis in (*ordered, *over)], reasons, tile.block, resident=resident, machine=facts.machine)
    return _shared_by_blocks(field, terms, facts, table)


def _is_large_product(field: HirFunction, terms: ReusedTerms, facts: Facts) -> bool:
    """Whether it is a product of triangles with so many rows and columns that zeros instead of conditions pay (`triangles.py`)."""
    least = min(facts.about(field.axes[axis]) for axis in (terms.rows, terms.columns or terms.rows))
    return least >= LARGE_PRODUCT and dtype_of(terms.sums[0].results[0]) in ("f32", "i32", "u32") and triangle_product(field) is not None


@frozen
class RegisterTile:
    """Plans of the rows and the columns, if there are any; the block's threads."""

    rows: AxisPlan
    columns: tuple[AxisPlan, ...]
    block: tuple[int, ...]


def _line(field: HirFunction, terms: ReusedTerms, rows: int, depth: int) -> RegisterTile:
    """Results along one axis: a few a thread, as long as there are enough for all threads of a device that share sums."""
    each = next((each for each in (4, 2) if rows >= each * LINE_THREADS * 16), 1)
    return RegisterTile(AxisPlan(terms.rows, "block", each, threads=LINE_THREADS), (), (LINE_THREADS,))


def _best_tile(field: HirFunction, terms: ReusedTerms, facts: Facts, results: int) -> RegisterTile:
    """The tile whose terms cost least: reads of shared memory are shared by the registers, elements that are put there by the block's
    threads, and results outside of the axes are computed in vain."""
    assert terms.columns is not None
    size = max(bytes_of(dtype_of(op.results[0])) for op in terms.sums)
    words = max(1, size // 4) * len(terms.sums)
    rows, columns = (facts.about(field.axes[axis]) for axis in (terms.rows, terms.columns))
    side = max(map(bytes_of, [dtype_of(value) for value in terms.shared if terms.columns in axes_of(value)] or ["f32"]))
    wide = ALIGNMENT // side if terms.later or lanes_along(field, [terms.columns]) > 1 else 1
    splits = is_shared(terms, facts)
    turns = max(1, facts.about(field.axes[terms.depth]) // DEEPEST)
    best: tuple[float, RegisterTile] | None = None
    for across in (COLUMN_THREADS[0] // 2, *COLUMN_THREADS) if columns <= FEW_COLUMNS else COLUMN_THREADS:
        for wider in range(1, MOST_RESULTS + 1):
            for higher in (8, 4, 2, 1):
                lanes = max(lanes for lanes in (1, 2, 4, 8, 16) if lanes <= wide and wider % lanes == 0)
                if higher * wider * words > MOST_REGISTERS:
                    continue
                height, width = THREADS // across * higher, across * wider
                padded = ceil(rows / height) * height * ceil(columns / width) * width / (rows * columns)
                blocks = results / (height * (1 if terms.later else width)) * (turns if splits else 1)
                waves = max(1.0, blocks / facts.processors)
                reads = terms.along(terms.rows) / wider + terms.along(terms.columns) / (higher * lanes)
                put = (STAGING_SLOTS + BYTE_SLOTS * side) * (terms.along(terms.rows) / width + terms.along(terms.columns) / height)
                cost = padded * ceil(waves) / waves * (terms.slots * max(1, size // 4) + reads * max(1, side // 4) + put)
                if blocks < facts.processors:
                    cost *= facts.processors / max(1.0, blocks)
                tile = RegisterTile(
                    AxisPlan(terms.rows, "block", higher, threads=THREADS // across, dim=1),
                    (AxisPlan(terms.columns, "time" if terms.later else "block", wider // lanes, lanes, threads=across),),
                    (across, THREADS // across),
                )
                if best is None or cost < best[0]:
                    best = cost, tile
    assert best is not None
    return best[1]


def _slice(field: HirFunction, terms: ReusedTerms, tile: RegisterTile, depth: int) -> int:
    """Terms of which the block has all elements at a time: so many that the last slice is nearly full, too."""
    if terms.columns is None:
        return min(LINE_THREADS, power_of_two(depth))
    extents = {plan.axis: plan.run for plan in (tile.rows, *tile.columns)}
    elements = {value: prod(extents.get(axis, 1) for axis in axes_of(value)) for value in terms.shared}
    each = sum(bytes_of(dtype_of(value)) * count for value, count in elements.items())
    most = max(4, min(DEEPEST, SLICE_BYTES // each, MOST_PUT * THREADS // sum(elements.values())))
    turns = ceil(depth / most)
    along = ceil(depth / turns)
    return ceil(along / 4) * 4 if field.axes[terms.depth].value is not None else min(16, power_of_two(most // 2 + 1))


def is_shared(terms: ReusedTerms, facts: Facts) -> bool:
    """Whether blocks may share a sum."""
    return not terms.later and len(terms.sums[0].over) == 1 and facts.machine.has(Feature.BLOCK_ORDER)


def _shared_by_blocks(field: HirFunction, terms: ReusedTerms, facts: Facts, table: Table) -> Table:
    """With more blocks for each tile of results, where these are too few for a device."""
    if not is_shared(terms, facts):
        return table
    tiles = prod(ceil(facts.about(field.axes[plan.axis]) / plan.tile) for plan in table.plans if plan.place == "block")
    turns = ceil(facts.about(field.axes[terms.depth]) / table[terms.depth].tile)
    parts = min(power_of_two(ceil(BLOCKS / max(1, tiles))), power_of_two(turns) // 2)
    uneven = any(bounds_of(op) for op in terms.sums)
    if parts <= 1 or tiles >= (BLOCKS if uneven else facts.processors):
        return table
    reason = f"up to {parts} blocks share each sum, the last of them joins their parts"
    return evolve(table, split=LoopSplit(terms.depth, parts), reasons=(*table.reasons, reason))


class RegisterDistributing(Distributing):
    """Builds the launch of such a field."""

    def __init__(self, field: HirFunction, terms: ReusedTerms, table: Table) -> None:
        super().__init__(field, table)
        self.terms = terms

    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        return longest_first(self.field, b, number, total, plans)

    # ---- tiles that have nothing to do ----

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        self.enter_once(region)
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})
        b = region.builder
        some = self.stores_some(group, region)
        if some is None:
            self.produce(group, region, {})
            return
        with b.when(some) as inner:
            self.produce(group, region.inside(inner, ()), {})

    def stores_some(self, group: Sequence[Target], region: TileRegion) -> Value | None:
        """Whether some element of the block's tile may be stored; None where that is so anyway, or isn't known."""
        conditions = [target.where for target in group if isinstance(target, Store)]
        if len(conditions) < len(group) or any(where is None for where in conditions):
            return None
        b, any_of = region.builder, None
        for where in conditions:
            assert where is not None
            most = [self.extreme(form, region, True) for form in constraints_of(where) or ()]
            known = [form for form in most if form is not None]
            if not known:
                return None
            all_of: Value | None = None
            for form in known:
                all_of = b.both(all_of, b.op("ge", b.index(form), b.const(0, "index")))
            assert all_of is not None
            any_of = all_of if any_of is None else b.op("or", any_of, all_of)
        return any_of

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        """Where all of the tile is stored, nothing is compared."""
        done = (target, region) in self.finished
        whole = self.all_stored(target, region) if isinstance(target, Store) and not done else None
        if whole is None:
            super().finish_target(target, region, result, begun)
            return
        assert isinstance(target, Store)
        self.value(target.value, region)
        with region.builder.branch(whole) as (yes, no, _):
            all_of_it = region.inside(yes, ())
            all_of_it.masks.clear()
            all_of_it.certain |= {target.where} if target.where is not None else frozenset()
            super().finish_target(target, all_of_it, result, begun)
            super().finish_target(target, region.inside(no, ()), result, begun)

    def all_stored(self, target: Store, region: TileRegion) -> Value | None:
        """Whether each element of the block's tile is stored; None where that is so anyway, or isn't known."""
        own = constraints_of(target.where) if target.where is not None else []
        least = [self.extreme(form, region, False) for form in own or ()]
        ragged = [axis for axis, _ in self.scope.axes_of(*target.index) if axis in region.masks]
        if own is None or None in least or not (least or ragged):
            return None
        least += [self.form(region.masks[axis], region) - region.starts[axis] - self.table[axis].tile for axis in ragged]
        b, whole = region.builder, None
        for form in least:
            assert form is not None
            whole = b.both(whole, b.op("ge", b.index(form), b.const(0, "index")))
        return whole

    def extreme(self, form: Affine, region: TileRegion, most: bool) -> Affine | None:
        """The most or the least that a form is in the block's tile; None for forms of something else."""
        value = Affine((), form.constant)
        for symbol, coefficient in form.terms:
            if isinstance(symbol, str) and symbol in region.starts:
                last = self.table[symbol].tile - 1 if (coefficient > 0) == most else 0
                value = value + (region.starts[symbol] + last) * coefficient
            elif isinstance(symbol, str) and symbol not in self.table and symbol not in self.named:
                value = value + Affine.of(symbol) * coefficient
            else:
                return None
        return value

    # ---- the slices of a sum ----

    def tile_axes(self, axes: Sequence[str], region: TileRegion) -> tuple[tuple[str, int], ...]:  # type: ignore[override]
        """The slice's elements are no axis of what a thread has: it walks through them."""
        return super().tile_axes([axis for axis in axes if axis != self.terms.depth], region)

    def one_loop(
        self,
        plan: AxisPlan,
        low: Affine,
        high: Affine,
        ragged: bool,
        group: Sequence[Target],
        carrying: Sequence[Target],
        region: TileRegion,
        result: dict[Target, list[Value]],
        scans: Sequence[Scan] = (),
        before: Sequence[Value] = (),
        step: int = 1,
    ) -> list[Value]:
        """Along the sum: each turn puts a slice in shared memory, and walks through it."""
        if plan.axis != self.terms.depth:
            return super().one_loop(plan, low, high, ragged, group, carrying, region, result, scans, before, step)
        low, high = self.taking_part(plan, low, high, group, region, step)
        carried = [value for target in group for value in result[target]]
        with region.builder.loop(f"{plan.axis}0", low, high, step, carried=carried) as (body, loop):
            inner = region.inside(body, (plan.axis,))
            self.enter(plan, Affine.of(loop.variable.name), inner)
            if ragged:
                inner.masks[plan.axis] = self.field.axes[plan.axis]
            slices = [Slice(self, number, value, inner) for number, value in enumerate(self.terms.shared)]
            for each in slices:
                each.put(body)
            body.emit(SyncThreads())
            count: Affine = Affine.of(plan.tile)
            if ragged:
                left = body.index(self.form(self.field.axes[plan.axis], inner) - inner.starts[plan.axis])
                count = Affine.of(body.op("min", left, body.const(plan.tile, "index")).name)
            guards, all_take_part = self.guards_of(group, inner)
            if all_take_part is None:
                after = self.walk(plan.axis, count, slices, group, loop.carried, result, inner, body)
            else:
                with body.branch(all_take_part, [value.type for value in loop.carried]) as (yes, no, both):
                    free = inner.inside(yes, ())
                    free.certain |= guards
                    yes.yield_(*self.walk(plan.axis, count, slices, group, loop.carried, result, free, yes))
                    no.yield_(*self.walk(plan.axis, count, slices, group, loop.carried, result, inner.inside(no, ()), no))
                after = list(both.results)
            body.emit(SyncThreads())
            body.yield_(*after)
        position = 0
        for target in group:
            count_of = len(result[target])
            result[target] = loop.results[position : position + count_of]
            position += count_of
        return loop.results[position:]

    def walk(
        self,
        axis: str,
        count: Affine,
        slices: Sequence["Slice"],
        group: Sequence[Target],
        carried: Sequence[Value],
        result: Mapping[Target, list[Value]],
        region: TileRegion,
        b: Builder,
    ) -> list[Value]:
        """The accumulators with the terms of the slice, one after the other."""
        with b.loop("step", 0, count, carried=carried, unroll=WRITTEN_OUT) as (steps, walk):
            at = region.inside(steps, (axis,))
            at.forms[axis] = region.starts[axis] + walk.variable.name
            at.masks.pop(axis, None)
            for each in slices:
                at.made[each.value] = each.read(steps, Affine.of(walk.variable.name), region)
            after, position = list[Value](), 0
            for target in group:
                assert isinstance(target, Reduce | Contract)
                own = walk.carried[position : position + len(result[target])]
                after += self.accumulate(target, own, at)
                position += len(own)
            steps.yield_(*after)
        return walk.results

    # ---- which terms take part ----

    def taking_part(
        self, plan: AxisPlan, low: Affine, high: Affine, group: Sequence[Target], region: TileRegion, step: int
    ) -> tuple[Affine, Affine]:
        """The slices from the first to behind the last one in which some term takes part."""
        (target, *others) = group
        if others or not isinstance(target, Reduce):
            return low, high
        first, high = self.tiles_between(plan, target, low, high, region)
        if step == 1 or first == low:
            return first, high
        b = region.builder
        ahead = b.op("max", b.index(first - low), b.const(0, "index"))
        return low + Affine.of(b.index(Affine.of(ahead.name).ceildiv(step) * step).name), high

    def guards_of(self, group: Sequence[Target], region: TileRegion) -> tuple[frozenset[Value], Value | None]:
        """The conditions under which terms take part, and whether all of them hold all over the slice; None without such conditions."""
        b, guards = region.builder, set[Value]()
        whole: Value | None = None
        for target in group:
            assert isinstance(target, Reduce)
            guarded = self.guarded(target, identity_of(target.monoid, [dtype_of(value) for value in target.values]))
            forms = None if guarded is None else constraints_of(guarded[0])
            least = [self.extreme(form, region, False) for form in forms or ()]
            if guarded is None or None in least or not least or guarded[0] in guards:
                continue
            guards.add(guarded[0])
            for form in least:
                assert form is not None
                whole = b.both(whole, b.op("ge", b.index(form), b.const(0, "index")))
        return frozenset(guards), whole

    # ---- what tiles come to ----

    def is_later(self, target: Target) -> bool:
        return isinstance(target, Reduce) and target in self.terms.later

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        if not self.is_later(target):
            return super().identity(target, region)
        assert isinstance(target, Reduce)
        axes = sorted(axes_of(*target.values) - set(target.over), key=self.table.order)
        numbers = identity_of(target.monoid, [dtype_of(value) for value in target.values])
        types = [Tile(dtype_of(value), self.tile_axes(axes, region)) for value in target.values]
        return [region.builder.const(number, type) for number, type in zip(numbers, types, strict=True)]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        """A later reduction has no registers along the columns: those of a tile are joined first."""
        if not self.is_later(target):
            return super().accumulate(target, accumulators, region)
        assert isinstance(target, Reduce)
        b, values = region.builder, self.brought(target, region)
        over = [name for name, _ in self.tile_axes(target.over, region)]
        values = b.reduce(target.monoid, *values, over=over, flags=target.flags) if over else values
        return self.combined(target, accumulators, values, b)

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        if not self.is_later(target):
            return super().combine_digits(target, accumulators, region)
        dims = sorted({self.table[axis].dim for axis in target.over if self.table[axis].threads > 1})
        return combine_over_threads(self, target, accumulators, dims, region.builder)


class Slice:
    """What elements of the block's rows, or columns, come to in one slice of the sum, in shared memory: the sum first, and the rows or
    columns fastest."""

    def __init__(self, placing: RegisterDistributing, number: int, value: Value, region: TileRegion) -> None:
        depth, terms = placing.terms.depth, placing.terms
        self.placing, self.value, self.depth = placing, value, depth
        self.own = next((axis for axis in (terms.rows, terms.columns) if axis in axes_of(value)), None)
        self.tile = placing.table[self.own].tile if self.own is not None else 1
        self.deep = placing.table[depth].tile
        size = bytes_of(dtype_of(value))
        padding = max(1, ALIGNMENT // size)
        extents = [self.deep, self.tile + padding] if self.own is not None else [self.deep]
        self.memory = placing.shared_memory(("slice", number), dtype_of(value), extents)
        self.spread, self.where = self._spread(region)
        self.made = placing.value(value, self.spread)

    def _spread(self, region: TileRegion) -> tuple[TileRegion, Value | None]:
        """The body as a thread sees it that has a part of the slice: neighbours along what is contiguous in memory."""
        placing, b = self.placing, region.builder
        axes = [(self.depth, self.deep)] + ([(self.own, self.tile)] if self.own is not None else [])
        along_depth = self.own is None or contiguous(self.value, self.depth) > contiguous(self.value, self.own)
        first, *rest = axes if along_depth else axes[::-1]
        most = placing.table.threads if not rest else max(DEPTH_THREADS)
        wide = _divisor(first[1], min(most, placing.table.threads))
        spread = region.inside(b, [axis for axis, _ in axes])
        thread = Affine.of(thread_index(b).name)
        where: Value | None = None
        for (axis, extent), position, threads in (
            (first, thread % wide if rest else thread, wide if rest else placing.table.threads),
            *((each, thread.floordiv(wide), placing.table.threads // wide) for each in rest),
        ):
            registers = ceil(extent / threads)
            at = b.named(position)
            form = at + (Affine.of(placing.out.axis(f"{axis}_c", registers)) * threads if registers > 1 else Affine())
            spread.forms[axis] = spread.starts[axis] + form
            if registers * threads > extent:
                where = b.both(where, b.op("lt", b.index(form), b.const(extent, "index")))
                spread.masks.setdefault(axis, spread.starts[axis] + extent)
        return spread, where

    def put(self, b: Builder) -> None:
        """This thread's part, to shared memory."""
        index = [self.spread.forms[axis] - self.spread.starts[axis] for axis in (self.depth, self.own) if axis is not None]
        b.store(self.memory, self.made, index, self.where)

    def read(self, b: Builder, step: Affine, region: TileRegion) -> Value:
        """The registers of this thread at a step."""
        own = [] if self.own is None else [region.forms[self.own] - region.starts[self.own]]
        return b.load(self.memory, [step, *own])


def _divisor(extent: int, most: int) -> int:
    """The largest power of two that divides an extent, up to so many."""
    wide = 1
    while wide < most and extent % (2 * wide) == 0:
        wide *= 2
    return wide
