"""How tiles of results in registers are walked (`register_tiles.py` says which): a slice of what the block's rows and columns read is put
in shared memory at a time, while the next ones are copied there, or their elements are under way to registers, and each thread walks along
the sum through it."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import product
from math import ceil, prod

from compiler.analysis.accesses import constraints_of
from compiler.analysis.recognise import instructions_below
from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.async_copy import AsyncCommit, AsyncCopy, AsyncWait
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, dtype_of
from compiler.hir.gpu import SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, bytes_of, is_float
from compiler.schedule.gpu.facts import ALIGNMENT
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.reuse.reuse import ReusedTerms, are_copied, axes_of, copied
from compiler.schedule.gpu.rewrites.whole_results import skipped
from compiler.schedule.gpu.rewrites.windows import WindowProduct, added_again
from compiler.schedule.gpu.tiles.combine import combine_over_threads
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.gpu.tiles.taking_part import long_before_short
from compiler.schedule.interior import least_of
from compiler.schedule.region import Accumulators, Target, TileLoop, TileRegion, by_target
from compiler.schedule.table import SIMD, AxisPlan, Table
from runtime.records import evolve

LINE_THREADS = 32
"""Threads that load what is contiguous, at most, where there is more than one line."""
MOST_AHEAD = 20
"""32-bit registers of a thread for elements of the next slice."""
STAGES, STAGE_BYTES = 2, 40 << 10
"""Slices in shared memory, one of which is walked through while the others come, and the bytes that all of them may have."""
WRITTEN_OUT = 4
"""Terms of which a loop's turn consists; four times as many where a thread has no elements of the next slice in registers."""


class RegisterDistributing(Distributing):
    """Builds the launch of such a field."""

    def __init__(self, field: HirFunction, terms: ReusedTerms, table: Table, processors: int) -> None:
        super().__init__(field, table)
        self.terms, self.processors = terms, processors
        self.slice_digits: dict[tuple[int, str], str] = {}
        """Axes of what a thread puts in shared memory, by the number of what is shared and the axis that they are digits of."""

    def tile_of_turn(self, b: Builder, number: Value, total: Value, plans: Sequence[AxisPlan]) -> Value:
        """So that long sums don't come last."""
        bounds = [(form, op.over) for op in self.terms.sums for form in self.terms_between(op)]
        return long_before_short(self.field, b, number, total, [plan.axis for plan in plans], bounds)

    # ---- tiles that have nothing to do ----

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        self.enter_once(region)
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})
        b = region.builder
        some = self.stores_some(group, region)
        if some is None:
            self.produce(group, region, {})
            return
        with b.branch(some) as (yes, no, _):
            self.produce(group, region.inside(yes, ()), {})
            for target in group:
                if isinstance(target, Store) and target.where is None and self.part is None:
                    nothing = region.inside(no, ())
                    nothing.refuted |= {condition} if (condition := skipped(target)) is not None else set()
                    super().finish_target(target, nothing, {}, False)

    def stores_some(self, group: Sequence[Target], region: TileRegion) -> Value | None:
        """Whether some element of the block's tile may be more than a constant; None where that is so anyway, or isn't known."""
        conditions = [skipped(target) for target in group if isinstance(target, Store)]
        if len(conditions) < len(group) or any(where is None for where in conditions):
            return None
        b, any_of = region.builder, None
        for where in conditions:
            assert where is not None
            most = [self.extreme(form, region, True) for form in constraints_of(where) or ()]
            known = [form for form in most if form is not None]
            if not known:
                return None
            all_of = b.none_negative(known)
            assert all_of is not None
            any_of = all_of if any_of is None else b.op("or", any_of, all_of)
        return any_of

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        """Where all of the tile is stored as it was computed, nothing is compared."""
        done = (target, region) in self.finished
        whole = self.all_stored(target, region) if isinstance(target, Store) and not done else None
        if whole is None:
            super().finish_target(target, region, result, begun)
            return
        assert isinstance(target, Store)
        condition = skipped(target)
        if condition is target.where:
            self.value(target.value, region)
        with region.builder.branch(whole) as (yes, no, _):
            all_of_it = region.inside(yes, ())
            all_of_it.masks.clear()
            all_of_it.certain |= {condition} if condition is not None else frozenset()
            super().finish_target(target, all_of_it, result, begun)
            super().finish_target(target, region.inside(no, ()), result, begun)

    def all_stored(self, target: Store, region: TileRegion) -> Value | None:
        """Whether each element of the block's tile is stored as it was computed; None where that is so anyway, or isn't known."""
        condition = skipped(target)
        own = constraints_of(condition) if condition is not None else []
        least = [self.extreme(form, region, False) for form in own or ()]
        ragged = [axis for axis, _ in self.scope.axes_of(*target.index) if axis in region.masks]
        if own is None or None in least or not (least or ragged):
            return None
        least += [self.form(region.masks[axis], region) - region.starts[axis] - self.table[axis].tile for axis in ragged]
        return region.builder.none_negative(form for form in least if form is not None)

    def extreme(self, form: Affine, region: TileRegion, most: bool) -> Affine | None:
        """The most or the least that a form is in the block's tile; None for forms of something else."""
        own = [name for name in form.names if name in region.starts]
        if any(name in self.table or name in self.named for name in {*form.names} - {*own}):
            return None
        inside, sign = form.substitute({axis: region.starts[axis] + axis for axis in own}), -1 if most else 1
        least = least_of(inside * sign, {axis: Affine.of(self.table[axis].tile) for axis in own})
        return None if least is None else least * sign

    # ---- the slices of a sum ----

    def tile_axes(self, axes: Sequence[str], region: TileRegion) -> tuple[tuple[str, int], ...]:  # type: ignore[override]
        """The slice's elements are no axis of what a thread has: it walks through them."""
        return super().tile_axes([axis for axis in axes if axis != self.terms.depth], region)

    def one_loop(self, loop: TileLoop, region: TileRegion, result: Accumulators) -> list[Value]:
        """Along the sum: each turn puts a slice in shared memory, has the next one's elements loaded, and walks through its own."""
        plan, low, high, ragged, group, step = loop.plan, loop.low, loop.high, loop.ragged, loop.group, loop.step
        if plan.axis == self.terms.depth and not {*group} <= {*self.terms.sums}:
            end = self.form(self.field.axes[plan.axis], region) if ragged else high * plan.tile
            alone = evolve(loop, plan=AxisPlan(plan.axis), low=low * plan.tile, high=end, ragged=False)
            return super().one_loop(alone, region, result)
        if plan.axis != self.terms.depth:
            return super().one_loop(loop, region, result)
        low, high = self.taking_part(plan, low, high, group, region, step)
        sums = [value for target in group for value in result[target]]
        stages = self.stages()
        for turn in range(stages - 1):
            self.copies_of(plan, low + turn * step, Affine((), turn), high, ragged, region)
        ahead = self.fetched(plan, low, high, ragged, region) if not stages and self.fetches_ahead() else []
        with region.builder.loop(f"{plan.axis}0", low, high, step, carried=[*ahead, *sums]) as (body, op):
            place = Affine.of(op.variable.name)
            inner = self.slice_at(plan, place, ragged, region, body)
            stage = (place - low).floordiv(step) % stages if stages else None
            slices = [Slice(self, number, value, inner, stage) for number, value in enumerate(self.terms.shared)]
            if stages:
                body.emit(AsyncWait(count=stages - 2))
            else:
                for each, elements in zip(slices, op.carried if ahead else [each.elements() for each in slices], strict=False):
                    each.put(body, elements)
            body.emit(SyncThreads())
            following = self.fetched(plan, place + step, high, ragged, region.inside(body, ())) if ahead else []
            if stages:
                later = place + (stages - 1) * step
                self.copies_of(plan, later, (later - low).floordiv(step) % stages, high, ragged, region.inside(body, ()))
            self.turns[plan.axis] = place
            count: Affine = Affine.of(plan.tile)
            if ragged:
                left = body.index(self.form(self.field.axes[plan.axis], inner) - inner.starts[plan.axis])
                count = Affine.of(body.op("min", left, body.const(plan.tile, "index")).name)
            guards, all_take_part = self.guards_of(group, inner)
            own = op.carried[len(ahead) :]
            if all_take_part is None:
                after = self.walk(plan.axis, count, slices, group, own, result, inner, body)
            else:
                with body.branch(all_take_part, [value.type for value in own]) as (yes, no, both):
                    free = inner.inside(yes, ())
                    free.certain |= guards
                    yes.yield_(*self.walk(plan.axis, count, slices, group, own, result, free, yes))
                    no.yield_(*self.walk(plan.axis, count, slices, group, own, result, inner.inside(no, ()), no))
                after = list(both.results)
            if not stages:
                body.emit(SyncThreads())
            body.yield_(*following, *after)
        if stages:
            region.builder.emit(AsyncWait(count=0))
            region.builder.emit(SyncThreads())
        own_results, running_values = by_target(op.results[len(ahead) :], group, result)
        result.update(own_results)
        return running_values

    def slice_at(self, plan: AxisPlan, place: Affine, ragged: bool, region: TileRegion, b: Builder) -> TileRegion:
        """The body at a place along the sum."""
        inner = region.inside(b, (plan.axis,))
        self.enter(plan, place, inner)
        if ragged:
            inner.masks[plan.axis] = self.field.axes[plan.axis]
        return inner

    def stages(self) -> int:
        """Slices in shared memory where copies bring them, if there is room for them; 0 where threads put them there."""
        copies = [copied(value) for value in self.terms.shared]
        if not are_copied(self.terms, self.table.machine) or any(copy is not None and copy[0].mem in self.sources for copy in copies):
            return 0
        each = sum(bytes_of(dtype_of(value)) * self.elements_of(value) for value in self.terms.shared)
        return STAGES if STAGES * each <= STAGE_BYTES else 0

    def copies_of(self, plan: AxisPlan, at: Affine, stage: Affine, high: Affine, ragged: bool, region: TileRegion) -> None:
        """Copies of the slice at a place along the sum begin, if there is one."""
        b = region.builder
        with b.when(b.op("lt", b.index(at), b.index(high))) as into:
            there = self.slice_at(plan, at, ragged, region, into)
            for number, value in enumerate(self.terms.shared):
                Slice(self, number, value, there, stage).copy(into)
        b.emit(AsyncCommit())

    def fetches_ahead(self) -> bool:
        """Whether a thread has registers for the elements of the next slice beside its results."""
        each = {value: ceil(self.elements_of(value) / self.table.threads) for value in self.terms.shared}
        return sum(count * max(1, bytes_of(dtype_of(value)) // 4) for value, count in each.items()) <= MOST_AHEAD

    def elements_of(self, value: Value) -> int:
        """Of a slice."""
        return prod(self.table[axis].tile for axis in axes_of(value))

    def fetched(self, plan: AxisPlan, at: Affine, high: Affine, ragged: bool, region: TileRegion) -> list[Value]:
        """A thread's elements of the slice at a place along the sum; zeros behind the last one."""
        b = region.builder
        with b.branch(b.op("lt", b.index(at), b.index(high))) as (yes, no, both):
            there = self.slice_at(plan, at, ragged, region, yes)
            elements = [Slice(self, number, value, there, None).elements() for number, value in enumerate(self.terms.shared)]
            both.types = tuple(value.type for value in elements)
            yes.yield_(*elements)
            no.yield_(*(no.const(0.0 if is_float(dtype_of(value)) else 0, value.type) for value in elements))
        return list(both.results)

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
        with b.loop("step", 0, count, carried=carried, unroll=WRITTEN_OUT * (4 if self.stages() else 1)) as (steps, walk):
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
        guards, every = set[Value](), list[Affine]()
        for target in group:
            assert isinstance(target, Reduce)
            guarded = self.guarded(target, identity_of(target.monoid, [dtype_of(value) for value in target.values]))
            forms = None if guarded is None else constraints_of(guarded[0])
            least = [self.extreme(form, region, False) for form in forms or ()]
            if guarded is not None and None not in least and least and guarded[0] not in guards:
                guards.add(guarded[0])
                every += [form for form in least if form is not None]
        return frozenset(guards), region.builder.none_negative(every)

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


class RegisterWindow(RegisterDistributing):
    """The same of a window with a border."""

    def __init__(self, window: WindowProduct, terms: ReusedTerms, table: Table, processors: int) -> None:
        super().__init__(window.field, terms, table, processors)
        self.window = window
        self.own = [plan.axis for plan in table.plans if plan.place == "block"]
        self.block: TileRegion | None = None

    def terms_between(self, target: Reduce | Contract) -> Sequence[Affine]:
        return self.window.bounds or super().terms_between(target)

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        if self.window.exact is None:
            super().in_block(group, region, ragged)
            return
        region.masks.update({plan.axis: self.field.axes[plan.axis] for plan in ragged})
        self.block = region
        first = region.inside(region.builder, self.own)
        self.produce(group, first, {})
        if self.part is None:
            added_again(self, self.window, group, first, self.element)

    def last_words(self, group: Sequence[Target], region: TileRegion, last: TileRegion) -> set[Target]:
        left = super().last_words(group, region, last)
        if self.window.exact is not None:
            part, self.part = self.part, None  # no other block sums these again
            added_again(self, self.window, [op for op in self.field.body.body if isinstance(op, Store)], last, self.element)
            self.part = part
        return left

    def element(self, b: Builder, places: Mapping[str, Affine]) -> TileRegion:
        """The block's body at one place of a thread's digits."""
        assert self.block is not None
        one = self.block.inside(b, self.own)
        one.forms = {axis: form.substitute(places) for axis, form in one.forms.items()}
        one.narrow.update({axis: AxisPlan(axis, "block") for axis in self.own})
        return one


class Slice:
    """What elements of the block's rows, or columns, come to in one slice of the sum, in shared memory: the sum first, and the rows or
    columns fastest."""

    def __init__(self, placing: RegisterDistributing, number: int, value: Value, region: TileRegion, stage: Affine | None) -> None:
        depth, terms = placing.terms.depth, placing.terms
        self.placing, self.number, self.value, self.depth = placing, number, value, depth
        self.own = next((axis for axis in (terms.rows, terms.columns) if axis in axes_of(value)), None)
        self.extents = {axis: placing.table[axis].tile for axis in (depth, self.own) if axis is not None}
        self.stage = [] if stage is None else [stage]
        self.registers: dict[str, int] = {}
        self.bounds: list[tuple[Affine, int]] = []
        self.spread, self.lanes = self._spread(region)

    def memory(self) -> Value:
        extents = [*(self.placing.stages() for _ in self.stage), *self.extents.values()]
        extents[-1] += 0 if self.own is None else max(1, ALIGNMENT // bytes_of(dtype_of(self.value)))
        return self.placing.shared_memory(("slice", self.number), dtype_of(self.value), extents)

    def _digit(self, axis: str, registers: int) -> str:
        known = self.placing.slice_digits
        if (self.number, axis) not in known:
            known[self.number, axis] = self.placing.out.axis(f"{axis}_c", registers)
        self.registers[known[self.number, axis]] = registers
        return known[self.number, axis]

    def elements(self) -> Value:
        """This thread's part."""
        return self.placing.value(self.value, self.spread)

    def _spread(self, region: TileRegion) -> tuple[TileRegion, int]:
        """The body as a thread sees it that has a part of the slice: neighbours along what is contiguous in memory."""
        placing, b = self.placing, region.builder
        axes = [*self.extents.items()]
        along_depth = self.own is None or _contiguous(self.value, self.depth) > _contiguous(self.value, self.own)
        first, *rest = axes if along_depth else axes[::-1]
        single = self.stage and ((along_depth and rest) or not isinstance(self.value.source, Load))
        lanes = 1 if single else self._lanes(*first)  # copies turn nothing, and are zeros as a whole
        most = placing.table.threads if not rest else LINE_THREADS
        wide = _divisor(first[1] // lanes, most)
        spread = region.inside(b, self.extents)
        thread = Affine.of(thread_index(b).name)
        for (axis, extent), position, threads, each in (
            (first, thread % wide if rest else thread, wide if rest else placing.table.threads, lanes),
            *((each, thread.floordiv(wide), placing.table.threads // wide, 1) for each in rest),
        ):
            registers = ceil(extent / (threads * each))
            at = b.named(position)
            form = at * each + (Affine.of(self._digit(axis, registers)) * (threads * each) if registers > 1 else Affine())
            if registers * threads * each > extent:
                self.bounds.append((form, extent))
                spread.masks.setdefault(axis, spread.starts[axis] + extent)
            spread.forms[axis] = spread.starts[axis] + form + (SIMD if each > 1 else 0)
        return spread, lanes

    def _lanes(self, axis: str, extent: int) -> int:
        """Elements along the axis that a thread loads at once: as many as all addresses are known to be multiples of."""
        placing, field = self.placing, self.placing.field
        loads = [op for op in instructions_below(self.value) if isinstance(op, Load) and axis in axes_of(op.results[0])]
        lanes = ALIGNMENT // max(bytes_of(mem_of(op.mem).dtype) for op in loads) if loads else 1
        declared = placing.out.function.axes.get(SIMD)
        if lanes == 1 or extent % lanes or field.axes[axis].divisor % lanes or (declared is not None and declared.value != lanes):
            return 1
        for op in loads:
            mem = mem_of(op.mem)
            names: dict[str, Affine | str] = {axis: Affine.of(axis) * lanes}
            aligned = alignment(mem, [form.substitute(names) for form in op.index])
            if op.where is not None or not steps_by_one(mem, op.index, axis) or aligned % (lanes * bytes_of(mem.dtype)):
                return 1
        placing.out.function.axes[SIMD] = Affine.of(lanes)
        return lanes

    def put(self, b: Builder, elements: Value) -> None:
        """This thread's part, to shared memory."""
        b.store(self.memory(), elements, [*self.stage, *self._index({})], self._within({}, b))

    def copy(self, b: Builder) -> None:
        """This thread's part begins to come to shared memory."""
        copy, placing = copied(self.value), self.placing
        assert copy is not None
        load, guard = copy
        memory = self.spread.known(load.mem)
        for digits in product(*map(range, self.registers.values())):
            places = {SIMD: Affine()} | {name: Affine((), digit) for name, digit in zip(self.registers, digits, strict=True)}
            within = self._within(places, b)
            with b.at(load.span), nullcontext(b) if within is None else b.when(within) as into:
                one = self.spread.inside(into, self.extents)
                one.forms = {axis: form.substitute(places) for axis, form in one.forms.items()}
                where = placing.read_where(load, one, self.lanes)
                begun = AsyncCopy(
                    destination=self.memory(),
                    destination_index=(*self.stage, *self._index(places)),
                    source=memory,
                    source_index=tuple(placing.index(load.index, load.mem, one)),
                    bytes=self.lanes * bytes_of(dtype_of(self.value)),
                    where=where if guard is None else into.both(where, placing.value(guard, one)),
                )
                into.emit(begun)

    def _index(self, places: Mapping[str, Affine]) -> list[Affine]:
        """Where this thread's part lies in a slice, at these places of its digits."""
        return [(self.spread.forms[axis] - self.spread.starts[axis]).substitute(dict(places)) for axis in self.extents]

    def _within(self, places: Mapping[str, Affine], b: Builder) -> Value | None:
        """Whether the slice has these elements; None where it has all that threads stand for."""
        where: Value | None = None
        for form, extent in self.bounds:
            where = b.both(where, b.op("lt", b.index(form.substitute(dict(places))), b.const(extent, "index")))
        return where

    def read(self, b: Builder, step: Affine, region: TileRegion) -> Value:
        """The registers of this thread at a step."""
        own = [] if self.own is None else [region.forms[self.own] - region.starts[self.own]]
        return b.load(self.memory(), [*self.stage, step, *own])


def _contiguous(value: Value, axis: str) -> int:
    """How many loads behind a value step to the next element along the axis, except where a digit of it carries over, less those that step
    further."""
    loads = [op for op in instructions_below(value) if isinstance(op, Load)]
    steps = [(mem_of(op.mem), [Affine.of(axis) * form.coefficient(axis) for form in op.index]) for op in loads]
    return sum(1 if steps_by_one(mem, index, axis) else -1 for mem, index in steps if any(form != Affine() for form in index))


def _divisor(extent: int, most: int) -> int:
    """The largest power of two that divides an extent, up to so many."""
    wide = 1
    while wide < most and extent % (2 * wide) == 0:
        wide *= 2
    return wide
