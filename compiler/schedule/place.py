"""`place`: a field becomes tiles. Each axis of the table turns into a loop over its outer digit; the static digits stay axes of
the values. What is known about the order of computation is only what the values say:

* a store, or a reduction, is a *target*; a target needs loops over all axes of what it reads;
* targets that begin with the same loop share it, unless one needs the other's result: then it comes in a later *pass*;
* a value is computed in the outermost loop body in which all its axes have loops;
* a reduction over a looped axis is carried: its accumulator keeps the static digits, which are combined after the last loop
  (by associativity; the table gives no digits to axes that must stay in order);
* an extent that the tile doesn't divide gets a last iteration in which loads, stores and reductions are masked.

This is section "place" of the HIR's design; the recursion over axes replaces its fixed pair of grid and serial axes."""

from collections.abc import Iterable, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Reduce, Scan, Select, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from compiler.schedule import running
from compiler.schedule.interior import Zone, ZoneBounds, all_hold, bounds_of, least_of
from compiler.schedule.pieces import Piece, combinations_of, pieces_of, single
from compiler.schedule.region import NotPlaceable, Target, TileRegion
from compiler.schedule.searches import better, located, nothing_yet, searches
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.tile_values import TileValues

CHUNKS = 64
"""Parts into which threads cut a reduction: more than any machine's cores share evenly, few enough to combine at once."""

SCAN_CHUNKS = 64
"""What threads share of a scan. Twice the threads meet: a long scan is read twice, but no thread waits for another in between."""

LEAST_TILES = 16
"""Tiles of a chunk: fewer aren't worth a chunk of their own."""


def place(field: HirFunction, table: Table) -> HirFunction:
    """The field `field` (form F) in loops and tiles (form B) as the table says. Raises `NotPlaceable`."""
    return Placing(field, table).run()


class Placing(TileValues):
    outer = "thread"
    """The place that top-level loops are shared out to."""

    def run(self) -> HirFunction:
        root = TileRegion(self.out.body)
        for parameter in self.field.parameters:
            root.made[parameter] = self.out.parameter(parameter.name, parameter.type)
        function = self.out.function
        function.kernel_info, function.constraints = self.field.kernel_info, self.field.constraints
        function.sites, function.linkage = self.field.sites, self.field.linkage
        stores: list[Target] = []
        for op in self.field.body.body:
            match op:
                case Alloc():
                    pass
                case Store(mem=mem) if isinstance(mem.source, Alloc):
                    self.sources[mem] = op
                case Store():
                    stores.append(op)
                case _ if op.regions or not op.results:
                    raise NotPlaceable(f"`{op.name}` in a field")
                case _:
                    pass
        self.begin(stores, root)
        return self.out.finish()

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        """Everything that the function computes."""
        self.produce(stores, root, {})

    # ---- targets ----

    def produce(self, targets: Sequence[Target], region: TileRegion, state: dict[Target, list[Value]]) -> dict[Target, list[Value]]:
        """Computes all targets inside `region`. A reduction in `state` has begun: its accumulators come in and go out; one that isn't
        begins here, and its results are noted in the region."""
        result = dict(state)
        pending = list(targets)
        while pending:
            waits = {target: self.prerequisites(target, region) for target in pending}
            missing = dict.fromkeys(p for needed in waits.values() for p in needed if p not in waits)
            if missing:
                pending = [*missing, *pending]
                continue
            first = next(target for target in pending if not waits[target])
            around = region.looped.intersection(first.over) - self.once if isinstance(first, Reduce | Contract) else set()
            if around and first not in state:
                raise NotPlaceable(f"a loop over {min(around)} stands around a reduction along it")
            axis = self.next_axis(first, region)
            if axis is None:
                pending.remove(first)
                with region.builder.at(first.span):
                    self.finish_target(first, region, result, begun=first in state)
                continue
            group = [t for t in pending if not waits[t] and self.next_axis(t, region) == axis]
            pending = [t for t in pending if t not in group]
            self.loop_over(axis, group, region, result, state)
        return {t: result[t] for t in state}

    def prerequisites(self, target: Target, region: TileRegion) -> list[Target]:
        """Reductions and local buffers that the target reads, that don't vary along a loop still to come, and aren't there yet."""
        targets: dict[Target, None] = {}
        seen: set[Value] = set()
        waiting = self.reads(target)
        while waiting:
            value = waiting.pop()
            op = value.source
            if value in seen or op is None or region.find(value) is not None:
                continue
            seen.add(value)
            if isinstance(op, Reduce | Contract):
                if self.axes(op.results) <= region.looped:
                    targets.setdefault(op)
                continue
            if isinstance(op, Load) and op.mem in self.sources and region.find(op.mem) is None:
                source = self.sources[op.mem]
                if self.target_axes(source) - self.private_axes(op.mem) <= region.looped:
                    targets.setdefault(source)
                continue
            waiting += self.reads(op)
        return [t for t in targets if t is not target]

    def next_axis(self, target: Target, region: TileRegion) -> str | None:
        missing = self.target_axes(target) - region.looped
        return min(missing, key=self.table.order) if missing else None

    def loop_over(
        self, axis: str, group: Sequence[Target], region: TileRegion, result: dict[Target, list[Value]], state: dict[Target, list[Value]]
    ) -> None:
        """One loop over the axis's outer digit for the whole group, and, when the tile may not divide the extent, its masked end."""
        plan = self.table[axis]
        begun = [t for t in group if isinstance(t, Reduce | Contract) and t not in state]
        for reduction in begun:
            result[reduction] = self.identity(reduction, region)
        if len(begun) == len(group) and (guards := self.guards(begun) - region.certain):
            self.inside_or_not(axis, begun, guards, region, result)
            return
        carrying = [t for t in group if isinstance(t, Reduce | Contract)]
        scans = [scan for scan in self.scans if scan.over == (axis,) and any(running.reads_scan(self, t, [scan]) for t in group)]
        before = running.start(self, scans, region)
        extent = self.field.axes[axis]
        for target in group:
            if isinstance(target, Store) and target.mem in self.sources and region.find(target.mem) is None:
                self.make_buffer(target, region)
        if plan.place == self.outer and region.parent is None and not carrying and not scans:
            self.shared_out(group, region)
            return
        in_time = plan.place != self.outer or region.parent is not None
        if in_time and not scans and (zones := self.zones(plan, group, carrying, region)):
            for zone in zones:
                inner = region.inside(region.builder, ())
                inner.certain, inner.refuted = region.certain | zone.certain, region.refuted | zone.refuted
                self.one_loop(plan, zone.low, zone.high, zone.ragged, group, carrying, inner, result)
            self.end(begun, region, result)
            return
        if self.outer == "thread" and axis in self.table.written_out and len(carrying) == len(group):
            for number in range(extent.value or 0):
                inner = region.inside(region.builder, (axis,))
                self.enter(plan, Affine.of(number), inner)
                result.update(self.produce(group, inner, {target: result[target] for target in carrying}))
            self.end(begun, region, result)
            return
        narrows = self.outer == "thread" and not scans and len(begun) == len(carrying) and not any(map(self.searched, begun))
        for piece in pieces_of(plan, self.ends(plan) if narrows else [], extent):
            if piece.plan is not plan:
                self.narrow(piece.plan, begun, region, result)
            low, high = piece.start, piece.start + piece.count
            if in_time or piece.masked or piece.plan is not plan:
                before = self.one_loop(piece.plan, low, high, piece.masked, group, carrying, region, result, scans, before)
            elif scans:
                before = self.chunked_scans(plan, high, group, scans, region)
            else:
                self.chunked_loop(plan, high, group, carrying, region, result)
        self.end(begun, region, result)
        region.narrow.pop(axis, None)

    def ends(self, plan: AxisPlan) -> list[AxisPlan]:
        """The plans for what tiles of an axis leave over: a vector at a time, then elements where their type isn't moved under a mask."""
        ends = [single(plan)] if plan.registers > 1 else []
        if plan.lanes > 1:
            accesses = [op for op in self.field.body.body if isinstance(op, Load | Store)]
            moved = [op.mem for op in accesses if plan.axis in dict(self.scope.axes_of(*op.index))]
            if any(8 * bytes_of(mem_of(mem).dtype) < self.table.masked_bits for mem in moved):
                ends.append(AxisPlan(plan.axis, plan.place))
        return ends

    def narrow(self, plan: AxisPlan, begun: Sequence[Reduce | Contract], region: TileRegion, result: dict[Target, list[Value]]) -> None:
        """From here an axis goes in smaller tiles: digits that these lack are combined."""
        kept = {name for name, _, _ in plan.digits()}
        gone = [name for name, _, _ in self.plan(plan.axis, region).digits() if name not in kept]
        region.narrow[plan.axis] = plan
        for target in begun:
            if plan.axis in target.over:
                result[target] = self.combine_along(target, result[target], gone, region)

    def end(self, reductions: Sequence[Reduce | Contract], region: TileRegion, result: dict[Target, list[Value]]) -> None:
        """Reductions all of whose loops stand: their results are known in the region."""
        for reduction in reductions:
            for value, final in zip(reduction.results, self.combine_digits(reduction, result.pop(reduction), region), strict=True):
                region.made[value] = final

    def zones(self, plan: AxisPlan, group: Sequence[Target], carrying: Sequence[Target], region: TileRegion) -> list[Zone]:
        """The zones of an axis whose loop is the last around a group; none where no condition is a bound along it."""
        if self.outer != "thread" or any(self.target_axes(target) - region.looped != {plan.axis} for target in group):
            return []
        if any(isinstance(target, Reduce) and len(target.over) > 1 for target in group):
            return []
        others = [other for other in self.table.plans if other.axis != plan.axis]
        extents = {name: extent for other in others for name, extent in self.variables_of(other, region)}
        bounds = ZoneBounds(plan, extents, region.builder)
        for condition in sorted(self.conditions(group, region) - region.certain - region.refuted, key=lambda value: value.name):
            if (forms := bounds_of(condition)) is not None:
                bounds.add(condition, [self.form(form, region) for form in forms])
        if not bounds.conditions:
            return []
        guards = [self.guarded(t, identity_of(t.monoid, [dtype_of(v) for v in t.values])) for t in carrying if isinstance(t, Reduce)]
        skip = len(guards) == len(group) and all(guard is not None and guard[0] in bounds.conditions for guard in guards)
        return bounds.zones(self.field.axes[plan.axis], skip)

    def conditions(self, group: Sequence[Target], region: TileRegion) -> set[Value]:
        """Conditions of accesses and choices that targets depend on, as far as these aren't known in the region yet."""
        conditions: set[Value] = set()
        waiting, seen = [value for target in group for value in self.reads(target)], set[Value]()
        conditions.update(target.where for target in group if isinstance(target, Store) and target.where is not None)
        while waiting:
            value = waiting.pop()
            op = value.source
            if value in seen or op is None or isinstance(op, Reduce | Contract | Scan) or region.find(value) is not None:
                continue
            seen.add(value)
            if isinstance(op, Select):
                conditions.add(op.condition)
            if isinstance(op, Load) and op.where is not None:
                conditions.add(op.where)
            waiting += self.reads(op)
        return conditions

    def guards(self, reductions: Sequence[Reduce | Contract]) -> frozenset[Value]:
        """Conditions under which elements take part in sums over several axes, as those of a window."""
        guards: set[Value] = set()
        for target in reductions:
            if isinstance(target, Reduce) and len(target.over) > 1 and self.outer == "thread":
                guarded = self.guarded(target, identity_of(target.monoid, [dtype_of(v) for v in target.values]))
                bounds = None if guarded is None else bounds_of(guarded[0])
                if guarded is not None and bounds is not None:
                    guards.add(guarded[0])
        return frozenset(guards)

    def inside_or_not(
        self,
        axis: str,
        reductions: Sequence[Reduce | Contract],
        guards: frozenset[Value],
        region: TileRegion,
        result: dict[Target, list[Value]],
    ) -> None:
        """Begun reductions by themselves, in two ways: where their conditions hold all over this tile, and elsewhere."""
        whole = self.holds(sorted(guards, key=lambda guard: guard.name), region)
        types = [value.type for target in reductions for value in result[target]]
        with region.builder.branch(whole, types) as (then, otherwise, chosen):
            for body, certain in (then, guards), (otherwise, frozenset[Value]()):
                inner = region.inside(body, ())
                inner.certain |= certain
                own: dict[Target, list[Value]] = {target: result[target] for target in reductions}
                self.loop_over(axis, reductions, inner, own, dict(own))
                body.yield_(*[value for target in reductions for value in own[target]])
        results = list(chosen.results)
        for target in reductions:
            count = len(result[target])
            after, results = results[:count], results[count:]
            for value, final in zip(target.results, self.combine_digits(target, after, region), strict=True):
                region.made[value] = final
            del result[target]

    def holds(self, conditions: Iterable[Value], region: TileRegion) -> Value:
        """Whether conditions that are bounds of indices hold all over the tiles of axes that have loops, and all along the others."""
        extents = {name: extent for plan in self.table.plans for name, extent in self.variables_of(plan, region)}
        forms: list[Affine] = []
        for condition in conditions:
            for form in bounds_of(condition) or ():
                least = least_of(self.form(form, region), extents)
                if least is None:
                    return region.builder.const(False, "i1")
                forms.append(least)
        return all_hold(forms, region.builder)

    def variables_of(self, plan: AxisPlan, region: TileRegion) -> list[tuple[str, Affine]]:
        """The variables that an axis is written with here, and their extents."""
        if plan.axis not in region.forms:
            return [(plan.axis, self.form(self.field.axes[plan.axis], region))]
        return [(name, Affine.of(extent)) for name, extent, _ in self.plan(plan.axis, region).digits()]

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        """Stores whose leading axes are shared out to threads, all iterations of these axes as one loop for each combination of pieces."""
        needed = set.intersection(*[self.target_axes(target) for target in group])
        plans = [plan for plan in self.table.plans if plan.place == self.outer and plan.axis in needed]
        for pieces in combinations_of(plans, self.field.axes, self.table.rows):
            if not any(piece.is_empty for piece in pieces):
                self.thread_loop(pieces, group, region)

    def thread_loop(self, pieces: Sequence[Piece], group: Sequence[Target], region: TileRegion) -> None:
        """One loop over the tiles of all pieces."""
        b = region.builder
        # An extent may come out negative (`0..N-1` of nothing): a product of two of them must not count as work.
        counts = [b.index(piece.count) if len(pieces) == 1 else b.count(piece.count) for piece in pieces]
        total = b.product(counts)
        high = pieces[0].count if len(pieces) == 1 else Affine.of(total.name)
        names = [f"{piece.plan.axis}0" for piece in pieces]
        with b.loop(names[0], 0, high, place="thread") as (body, loop):
            inner = region.inside(body, [piece.plan.axis for piece in pieces])
            for piece, number in zip(pieces, body.digits(loop.variable, counts[1:], names[1:]), strict=True):
                axis = piece.plan.axis
                inner.forms[axis] = piece.plan.form(piece.start + number.name)
                inner.narrow[axis] = piece.plan
                if piece.masked:
                    inner.masks[axis] = self.field.axes[axis]
            self.produce(group, inner, {})

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        """What is noted at the loop of an axis."""
        turns = dict(self.table.unrolled).get(plan.axis)
        return {} if turns is None else {"unroll": turns or True}

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        """How the axis is written in the body of its loop."""
        region.forms[plan.axis] = plan.form(loop)
        region.starts[plan.axis] = loop * plan.tile

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
        """The loop over tiles `low`, `low + step`..., with the accumulators in `result` carried; gives the running values of the scans,
        which are `before` at first."""
        carried = [value for target in carrying for value in result[target]] + list(before)
        # a few elements that vectors leave over
        few = self.outer == "thread" and any(narrow.lanes < self.table[axis].lanes for axis, narrow in region.narrow.items())
        marks = {**self.marks(plan), **({"nounroll": True} if few else {})}
        with region.builder.loop(f"{plan.axis}0", low, high, step, carried=carried, **marks) as (body, loop):
            inner = region.inside(body, (plan.axis,))
            self.enter(plan, Affine.of(loop.variable.name), inner)
            if ragged:
                inner.masks[plan.axis] = self.field.axes[plan.axis]
            inside: dict[Target, list[Value]] = {}
            position = 0
            for target in carrying:
                count = len(result[target])
                inside[target] = loop.carried[position : position + count]
                position += count
            behind = [self.scan_step(scan, value, inner) for scan, value in zip(scans, loop.carried[position:], strict=True)]
            after = self.produce(group, inner, inside)
            if carried:
                body.yield_(*[value for target in carrying for value in after[target]], *behind)
        position = 0
        for target in carrying:
            count = len(result[target])
            result[target] = loop.results[position : position + count]
            position += count
        return loop.results[position:]

    def scan_step(self, scan: Scan, before: Value, region: TileRegion) -> Value:
        """The scan's tile, noted in the region, and the running value behind it, where `before` stands before it."""
        return running.step(self, scan, before, region)

    def chunked_loop(
        self,
        plan: AxisPlan,
        whole: Affine,
        group: Sequence[Target],
        carrying: Sequence[Target],
        region: TileRegion,
        result: dict[Target, list[Value]],
    ) -> None:
        """Threads that reduce: a fixed number of chunks, a partial result for each, combined in order. The chunks depend on the extent
        alone, so the result doesn't depend on the number of threads."""
        b = region.builder
        share = b.index(whole.ceildiv(CHUNKS), "share")
        total = b.index(whole, "total")
        buffers = [b.alloc(Mem(dtype_of(v), (CHUNKS, *_extents(v)), align=64), "partial") for t in carrying for v in result[t]]
        with b.loop("chunk", 0, CHUNKS, place="thread") as (body, loop):
            first = body.op("min", body.op("mul", loop.variable, share), total, name="first")
            last = body.op("min", body.add(first, share), total)
            inner = region.inside(body, ())
            own: dict[Target, list[Value]] = {t: self.identity(t, inner) for t in carrying if isinstance(t, Reduce | Contract)}
            self.one_loop(plan, Affine.of(first.name), Affine.of(last.name), False, group, carrying, inner, own)
            for buffer, value in zip(buffers, [v for t in carrying for v in own[t]], strict=True):
                body.store(buffer, value, [loop.variable.name, *_axis_names(value)])
        with b.loop("chunk", 0, CHUNKS, carried=[v for t in carrying for v in result[t]]) as (body, loop):
            position, combined = 0, []
            for target in carrying:
                before = loop.carried[position : position + len(result[target])]
                after = [
                    body.load(buffer, [loop.variable.name, *_axis_names(value)])
                    for buffer, value in zip(buffers[position:], before, strict=False)
                ]
                combined += self.combined(target, before, after, body)
                position += len(before)
            body.yield_(*combined)
        position = 0
        for target in carrying:
            count = len(result[target])
            result[target] = loop.results[position : position + count]
            position += count

    def chunked_scans(
        self, plan: AxisPlan, whole: Affine, group: Sequence[Target], scans: Sequence[Scan], region: TileRegion
    ) -> list[Value]:
        """Threads that scan all whole tiles of an axis, when the scan is alone with it: the totals of chunks, the running totals of these,
        then the chunks themselves. Gives the running values behind the last. Chunks depend on the extent alone, as above."""
        b = region.builder
        tiles = b.index(whole, "tiles")
        share = b.op("max", b.index(whole.ceildiv(SCAN_CHUNKS)), b.index(LEAST_TILES), name="share")
        buffers = [b.alloc(Mem(dtype_of(scan.value), (SCAN_CHUNKS,), align=64), "totals") for scan in scans]

        def bounds(body: Builder, chunk: Value) -> tuple[Affine, Affine]:
            first = body.op("min", body.mul(chunk, share), tiles, name="first")
            last = body.op("min", body.add(first, share), tiles, name="last")
            return Affine.of(first.name), Affine.of(last.name)

        with b.loop("chunk", 0, SCAN_CHUNKS, place="thread") as (body, chunks):
            inner = region.inside(body, ())
            low, high = bounds(body, chunks.variable)
            sums = [Reduce(monoid=scan.monoid, values=(scan.value,), over=scan.over, flags=scan.flags) for scan in scans]
            totals: dict[Target, list[Value]] = {sum: self.identity(sum, inner) for sum in sums}
            self.one_loop(plan, low, high, False, sums, sums, inner, totals)
            for sum, buffer in zip(sums, buffers, strict=True):
                (total,) = self.combine_digits(sum, totals[sum], inner)
                body.store(buffer, total, [chunks.variable.name])
        with b.loop("chunk", 0, SCAN_CHUNKS, carried=running.start(self, scans, region)) as (body, chunks):
            after = []
            for scan, buffer, before in zip(scans, buffers, chunks.carried, strict=True):
                total = body.load(buffer, [chunks.variable.name])
                body.store(buffer, before, [chunks.variable.name])
                after.append(body.op(scan.monoid, before, total, flags=scan.flags if is_float(dtype_of(before)) else ()))
            body.yield_(*after)
        behind = chunks.results
        with b.loop("chunk", 0, SCAN_CHUNKS, place="thread") as (body, chunks):
            inner = region.inside(body, ())
            low, high = bounds(body, chunks.variable)
            lead = [body.load(buffer, [chunks.variable.name]) for buffer in buffers]
            self.one_loop(plan, low, high, False, group, [], inner, {}, scans, lead)
        return behind

    def searched(self, target: Target) -> bool:
        """Whether lanes keep the numbers of the tiles of their best elements."""
        return isinstance(target, Reduce) and self.outer == "thread" and searches(target)

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        if isinstance(target, Reduce) and self.searched(target):
            return nothing_yet(self, target, region)
        return super().identity(target, region)

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        if isinstance(target, Reduce) and self.searched(target):
            return better(self, target, accumulators, region)
        return super().accumulate(target, accumulators, region)

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        if isinstance(target, Reduce) and self.searched(target):
            return located(self, target, accumulators, region)
        return super().combine_digits(target, accumulators, region)

    def finish_target(self, target: Target, region: TileRegion, result: dict[Target, list[Value]], begun: bool) -> None:
        """All loops stand: store the value, or combine it into the accumulator."""
        if isinstance(target, Store):
            if target.where in region.refuted:
                return
            if target.mem in self.sources and region.find(target.mem) is None:
                self.make_buffer(target, region)
            where = self.mask(region, [a for a, _ in self.scope.axes_of(*target.index)], target.where)
            mem = region.find(target.mem)
            assert mem is not None
            region.builder.store(mem, self.value(target.value, region), self.index(target.index, target.mem, region), where)
            return
        after = self.accumulate(target, result[target] if begun else self.identity(target, region), region)
        if begun:
            result[target] = after
        else:
            for value, final in zip(target.results, self.combine_digits(target, after, region), strict=True):
                region.made[value] = final


def _extents(value: Value) -> tuple[Affine, ...]:
    assert isinstance(value.type, Tile)
    return tuple(extent for _, extent in value.type.axes)


def _axis_names(value: Value) -> tuple[str, ...]:
    assert isinstance(value.type, Tile)
    return value.type.axis_names
