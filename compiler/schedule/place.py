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

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, Scan, Select, dtype_of
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule import running
from compiler.schedule.in_chunks import chunked_loop, chunked_scans
from compiler.schedule.interior import Zone, ZoneBounds, all_hold, bounds_of, edges_of, least_of
from compiler.schedule.pieces import Piece, blocks_of_rows, combinations_of, pieces_of, reaching, single, squares_of, wide
from compiler.schedule.region import Accumulators, NotPlaceable, Target, TileLoop, TileRegion, by_target
from compiler.schedule.searches import better, located, nothing_yet, searches
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.tile_values import TileValues
from compiler.schedule.whole_vectors import blocks_of_squares, enter_span, may_store_twice, store_in_vectors

RUN, ENOUGH_RUNS = 16, 64
"""Tiles of the last of several shared axes that a thread takes at once, where there are enough of such runs."""


def place(field: HirFunction, table: Table) -> HirFunction:
    """The field `field` (form F) in loops and tiles (form B) as the table says. Raises `NotPlaceable`."""
    return Placing(field, table).run()


class Placing(TileValues):
    outer = "thread"
    """The place that top-level loops are shared out to."""

    @property
    def squares(self) -> Sequence[Sequence[AxisPlan]]:
        """The table's plans, and those of smaller squares."""
        return squares_of(self.table.plans) if self.outer == "thread" else [self.table.plans]

    def declare_squares(self) -> None:
        for plan in (each for smaller in self.squares[1:] for each in smaller):
            self.declare(plan)

    def run(self) -> HirFunction:
        self.declare_squares()
        root = TileRegion(self.out.body)
        for parameter in self.field.parameters:
            root.made[parameter] = self.out.parameter(parameter.name, parameter.type)
        function = self.out.function
        function.kernel_info, function.constraints = self.field.kernel_info, self.field.constraints
        function.sites, function.linkage = self.field.sites, self.field.linkage
        self.begin(self.stores(), root)
        return self.out.finish()

    def stores(self) -> list[Target]:
        """What the field stores; those to its own buffers are noted as their sources."""
        stores: list[Target] = []
        for op in self.field.body.body:
            if isinstance(op, Store) and isinstance(op.mem.source, Alloc):
                self.sources[op.mem] = op
            elif isinstance(op, Store):
                stores.append(op)
            elif not isinstance(op, Alloc) and (op.regions or not op.results):
                raise NotPlaceable(f"`{op.name}` in a field")
        return stores

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        """Everything that the function computes."""
        self.produce(stores, root, {})

    # ---- targets ----

    def produce(self, targets: Sequence[Target], region: TileRegion, state: Accumulators) -> Accumulators:
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
        """Reductions and local buffers that the target reads, also through reductions to come, that don't vary along a loop still to
        come, and aren't there yet."""
        targets: dict[Target, None] = {}
        seen: set[Value] = set()
        waiting = self.reads(target)
        while waiting:
            value = waiting.pop()
            op = value.source
            if value in seen or op is None or region.find(value) is not None:
                continue
            seen.add(value)
            if isinstance(op, Reduce | Contract) and self.axes(op.results) <= region.looped:
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

    def loop_over(self, axis: str, group: Sequence[Target], region: TileRegion, result: Accumulators, state: Accumulators) -> None:
        """One loop over the axis's outer digit for the whole group, and, when the tile may not divide the extent, its masked end."""
        plan = self.plan(axis, region)
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
        if in_time and not scans and self.outer == "thread" and plan.lanes > 1 and may_store_twice(self.field, group):
            bounds = self.bounds(AxisPlan(axis), group, region, windows=True)
            if not bounds.parts(self.form(extent, region), plan.tile):
                store_in_vectors(self, plan, group, region, bounds, self.has_masks(plan))
                return
        if in_time and not scans and (zones := self.zones(plan, group, carrying, region)):
            for zone in zones:
                inner = region.inside(region.builder, ())
                inner.certain, inner.refuted = region.certain | zone.certain, region.refuted | zone.refuted
                self.one_loop(TileLoop(plan, zone.low, zone.high, zone.ragged, group, carrying), inner, result)
            self.end(begun, region, result)
            return
        if self.outer == "thread" and axis in self.table.written_out and len(carrying) == len(group):
            for number in range(extent.value or 0):
                inner = region.inside(region.builder, (axis,))
                self.enter(plan, Affine.of(number), inner)
                result.update(self.produce(group, inner, {target: result[target] for target in carrying}))
            self.end(begun, region, result)
            return
        narrows = self.outer == "thread" and len(begun) == len(carrying) and not any(map(self.searched, begun))
        for piece in pieces_of(plan, self.ends(plan) if narrows else [], extent):
            if piece.plan is not plan:
                self.narrow(piece.plan, begun, region, result)
            loop = TileLoop(piece.plan, piece.start, piece.start + piece.count, piece.masked, group, carrying, scans, before)
            if in_time or piece.masked or piece.plan is not plan:
                before = self.one_loop(loop, region, result)
            elif scans:
                before = chunked_scans(self, loop, region)
            else:
                chunked_loop(self, loop, region, result)
        self.end(begun, region, result)
        region.narrow.pop(axis, None)

    def ends(self, plan: AxisPlan) -> list[AxisPlan]:
        """The plans for what tiles of an axis leave over: a vector at a time, then elements where their type isn't moved under a mask."""
        ends = [single(plan)] if plan.registers > 1 else []
        return [*ends, AxisPlan(plan.axis, plan.place)] if plan.lanes > 1 and not self.has_masks(plan) else ends

    def has_masks(self, plan: AxisPlan) -> bool:
        """Whether all that is moved along an axis can be moved in vectors under a mask."""
        accesses = [op for op in self.field.body.body if isinstance(op, Load | Store)]
        moved = [op.mem for op in accesses if plan.axis in dict(self.scope.axes_of(*op.index))]
        return all(8 * bytes_of(mem_of(mem).dtype) >= self.table.masked_bits for mem in moved)

    def narrow(self, plan: AxisPlan, begun: Sequence[Reduce | Contract], region: TileRegion, result: Accumulators) -> None:
        """From here an axis goes in smaller tiles: digits that these lack are combined."""
        kept = {name for name, _, _ in plan.digits()}
        gone = [name for name, _, _ in self.plan(plan.axis, region).digits() if name not in kept]
        region.narrow[plan.axis] = plan
        for target in begun:
            if plan.axis in target.over:
                result[target] = self.combine_along(target, result[target], gone, region)

    def end(self, reductions: Sequence[Reduce | Contract], region: TileRegion, result: Accumulators) -> None:
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
        bounds = self.bounds(plan, group, region)
        if not bounds.conditions:
            return []
        guards = [self.guarded(t, identity_of(t.monoid, [dtype_of(v) for v in t.values])) for t in carrying if isinstance(t, Reduce)]
        skip = len(guards) == len(group) and all(guard is not None and guard[0] in bounds.conditions for guard in guards)
        return bounds.zones(self.field.axes[plan.axis], skip)

    def bounds(self, plan: AxisPlan, group: Sequence[Target], region: TileRegion, windows: bool = False) -> ZoneBounds:
        """Between which tiles of an axis the conditions hold that are bounds along it, if its loop is the last around the group. `windows`:
        those of sums over windows too."""
        others = [other for other in self.table.plans if other.axis != plan.axis]
        extents = {name: extent for other in others for name, extent in self.variables_of(other, region)}
        bounds = ZoneBounds(plan, extents, region.builder)
        conditions = self.conditions(group, region, windows) - region.certain - region.refuted
        for condition in sorted(conditions, key=lambda value: value.name):
            forms = bounds_of(condition)
            if forms is not None and not any(plan.axis in self.axes_of_values(form) for form in forms):
                bounds.add(condition, [self.form(form, region) for form in forms])
        return bounds

    def axes_of_values(self, form: Affine) -> set[str]:
        """Axes along which the values vary that a form names, as an index that memory holds."""
        return {axis for axis, _ in self.scope.axes_of(*[Affine.of(name) for name in form.names if name not in self.field.axes])}

    def conditions(self, group: Sequence[Target], region: TileRegion, windows: bool) -> set[Value]:
        """Conditions of accesses and choices that targets depend on, as far as these aren't known in the region yet. `windows`: those of
        sums of constantly many terms too."""
        conditions: set[Value] = set()
        waiting, seen = [value for target in group for value in self.reads(target)], set[Value]()
        conditions.update(target.where for target in group if isinstance(target, Store) and target.where is not None)
        while waiting:
            value = waiting.pop()
            op = value.source
            if value in seen or op is None or region.find(value) is not None:
                continue
            seen.add(value)
            if isinstance(op, Reduce) and windows and all(self.field.axes[axis].value is not None for axis in op.over):
                conditions |= self.guards([op])
            if isinstance(op, Reduce | Contract | Scan):
                continue
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
                guards |= edges_of(target)
        return frozenset(guards)

    def inside_or_not(
        self,
        axis: str,
        reductions: Sequence[Reduce | Contract],
        guards: frozenset[Value],
        region: TileRegion,
        result: Accumulators,
    ) -> None:
        """Begun reductions by themselves, in two ways: where their conditions hold all over this tile, and elsewhere."""
        whole = self.holds(sorted(guards, key=lambda guard: guard.name), region)
        types = [value.type for target in reductions for value in result[target]]
        with region.builder.branch(whole, types) as (then, otherwise, chosen):
            for body, certain in (then, guards), (otherwise, frozenset[Value]()):
                inner = region.inside(body, ())
                inner.certain |= certain
                own: Accumulators = {target: result[target] for target in reductions}
                self.loop_over(axis, reductions, inner, own, dict(own))
                body.yield_(*[value for target in reductions for value in own[target]])
        after, _ = by_target(chosen.results, reductions, result)
        for target in reductions:
            for value, final in zip(target.results, self.combine_digits(target, after[target], region), strict=True):
                region.made[value] = final
            del result[target]

    def holds(self, conditions: Iterable[Value], region: TileRegion) -> Value:
        """Whether conditions that are bounds of indices hold all over the tiles of axes that have loops, and all along the others."""
        extents = {name: extent for plan in self.table.plans for name, extent in self.variables_of(plan, region)}
        forms: list[Affine] = []
        for condition in conditions:
            for form in bounds_of(condition) or ():
                if self.axes_of_values(form) - region.looped:
                    return region.builder.const(False, "i1")
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
        if self.outer == "thread" and self.may_reach(plans) and may_store_twice(self.field, group):
            self.reaching_back(self.squares, plans, group, region)
        else:
            self.in_pieces(plans, group, region)

    def reaching_back(
        self, sizes: Sequence[Sequence[AxisPlan]], shared: Sequence[AxisPlan], group: Sequence[Target], region: TileRegion
    ) -> None:
        """Rows of a map in the first of these sizes of tiles that no extent is less than."""
        if not sizes:
            self.in_pieces(shared, group, region)
            return
        (plans, *smaller), extents = sizes, self.field.axes
        axes = {plan.axis for plan in shared}
        pieces = [reaching(plan, extents[plan.axis]) for plan in plans if plan.axis in axes]
        tiled = [plan for plan in plans if plan.tile > 1 and (smaller or plan.lanes == 1)]
        more = [extents[plan.axis] - plan.tile for plan in tiled if extents[plan.axis].value is None]
        if not more:
            self.thread_loop(pieces, group, region)
            return
        with region.builder.branch(all_hold(more, region.builder)) as (then, otherwise, _):
            inner = region.inside(then, ())
            inner.narrow.update({plan.axis: plan for plan in plans})
            self.thread_loop(pieces, group, inner)
            self.reaching_back(smaller, shared, group, region.inside(otherwise, ()))

    def in_pieces(self, plans: Sequence[AxisPlan], group: Sequence[Target], region: TileRegion) -> None:
        """The stores in whole tiles and smaller ones behind them."""
        products = [product for op in self.field.body.body if (product := product_sum(op)) is not None]
        multiplies = any(product.m and product.n for product in products)
        lanes = 0 if self.outer != "thread" or multiplies else max(plan.lanes for plan in self.table.plans)
        rows = next((plan for plan in plans if plan.axis == self.table.rows), None)
        blocks = () if rows is None else blocks_of_rows(rows, self.field.axes[rows.axis], region.builder)
        for pieces in combinations_of(plans, self.field.axes, blocks, lanes, self.table.halves):
            if not any(piece.is_empty for piece in pieces):
                self.thread_loop(pieces, group, region)

    def may_reach(self, plans: Sequence[AxisPlan]) -> bool:
        """Whether rows in registers of a map may leave something over. (Vectors reach back elsewhere.)"""
        if any(plan.lanes > 1 for plan in plans) or any(isinstance(op, Reduce | Contract | Scan) for op in self.field.body.body):
            return False
        extents = {plan: self.field.axes[plan.axis].value for plan in plans if plan.tile > 1}
        if any(extent is not None and extent < plan.tile for plan, extent in extents.items()):
            return False
        return any(extent is None or extent % plan.tile for plan, extent in extents.items())

    def thread_loop(self, pieces: Sequence[Piece], group: Sequence[Target], region: TileRegion) -> None:
        """One loop over the tiles of all pieces."""
        b = region.builder
        pieces = [*pieces[:-1], *blocks_of_squares(self, pieces, group, region), pieces[-1]]
        # An extent may come out negative (`0..N-1` of nothing): a product of two of them must not count as work.
        counts = [b.index(piece.count) if len(pieces) == 1 else b.count(piece.count) for piece in pieces]
        total = b.product(counts)
        high = pieces[0].count if len(pieces) == 1 else Affine.of(total.name)
        names = [f"{piece.plan.axis}0" for piece in pieces]
        if len(pieces) > 1 and any(plan.lanes > 1 for plan in self.table.plans):
            self.thread_loop_of_runs(pieces, counts, total, group, region)
            return
        with b.loop(names[0], 0, high, place="thread") as (body, loop):
            inner = region.inside(body, [piece.plan.axis for piece in pieces if not piece.spans])
            for piece, number in zip(pieces, body.digits(loop.variable, counts[1:], names[1:]), strict=True):
                self.enter_piece(piece, number, inner)
            self.produce(group, inner, {})

    def thread_loop_of_runs(
        self, pieces: Sequence[Piece], counts: Sequence[Value], total: Value, group: Sequence[Target], region: TileRegion
    ) -> None:
        """The same for several axes: an iteration is a run of tiles of the last one, so that the divisions that find it are few."""
        b = region.builder
        run = b.select(b.op("ge", total, b.const(RUN * ENOUGH_RUNS, "index")), b.const(RUN, "index"), b.const(1, "index"))
        runs = b.op("div", b.sub(b.add(counts[-1], run), b.const(1, "index")), run)
        names = [f"{piece.plan.axis}0" for piece in pieces]
        high = b.product([*counts[:-1], runs])
        with b.loop(names[0], 0, Affine.of(high.name), place="thread") as (body, loop):
            outer = region.inside(body, [piece.plan.axis for piece in pieces[:-1] if not piece.spans])
            *numbers, last = body.digits(loop.variable, [*counts[1:-1], runs], names[1:])
            for piece, number in zip(pieces, numbers, strict=False):
                self.enter_piece(piece, number, outer)
            first = body.op("mul", last, run)
            behind = body.op("min", body.add(first, run), counts[-1])
            with body.loop(names[-1], Affine.of(first.name), Affine.of(behind.name)) as (inside, inner_loop):
                inner = outer.inside(inside, [pieces[-1].plan.axis])
                self.enter_piece(pieces[-1], inner_loop.variable, inner)
                self.produce(group, inner, {})

    def enter_piece(self, piece: Piece, number: Value, region: TileRegion) -> None:
        """How the axis of a piece is written where its tile with this number is computed."""
        axis = piece.plan.axis
        if piece.spans:
            enter_span(self, piece, number, region)
            return
        region.forms[axis] = piece.plan.form(piece.start + number.name) + piece.offset
        region.narrow[axis] = piece.plan
        if axis == self.table.rows and piece.plan.registers == 1:
            region.narrow.update({plan.axis: wide(plan) for plan in self.table.plans if plan.lanes > 1 and plan.place != self.outer})
        if piece.masked:
            region.masks[axis] = self.field.axes[axis]
        if piece.reaches:
            b, tile = region.builder, piece.plan.tile
            start = b.op("min", b.index(Affine.of(number.name) * tile), b.index(self.field.axes[axis] - tile))
            region.forms[axis] = piece.plan.within() + start.name

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        """How the axis is written in the body of its loop."""
        region.forms[plan.axis] = plan.form(loop)
        region.starts[plan.axis] = loop * plan.tile

    def one_loop(self, loop: TileLoop, region: TileRegion, result: Accumulators) -> list[Value]:
        plan, carrying = loop.plan, loop.carrying
        carried = [value for target in carrying for value in result[target]] + list(loop.before)
        # a few elements that vectors leave over
        few = self.outer == "thread" and any(narrow.lanes < self.table[axis].lanes for axis, narrow in region.narrow.items())
        marks = {**self.marks(plan), **({"nounroll": True} if few else {})}
        with region.builder.loop(f"{plan.axis}0", loop.low, loop.high, loop.step, carried=carried, **marks) as (body, op):
            inner = region.inside(body, (plan.axis,))
            self.enter(plan, Affine.of(op.variable.name), inner)
            if loop.ragged:
                inner.masks[plan.axis] = self.field.axes[plan.axis]
            inside, running_values = by_target(op.carried, carrying, result)
            behind = [self.scan_step(scan, value, inner) for scan, value in zip(loop.scans, running_values, strict=True)]
            after = self.produce(loop.group, inner, inside)
            if carried:
                body.yield_(*[value for target in carrying for value in after[target]], *behind)
        after, running_values = by_target(op.results, carrying, result)
        result.update(after)
        return running_values

    def scan_step(self, scan: Scan, before: Value, region: TileRegion) -> Value:
        """The scan's tile, noted in the region, and the running value behind it, where `before` stands before it."""
        return running.step(self, scan, before, region)

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

    def finish_target(self, target: Target, region: TileRegion, result: Accumulators, begun: bool) -> None:
        """All loops stand: store the value, or combine it into the accumulator."""
        if isinstance(target, Store):
            if target.where in region.refuted:
                return
            if target.mem in self.sources and region.find(target.mem) is None:
                self.make_buffer(target, region)
            where = self.mask(region, [a for a, _ in self.scope.axes_of(*target.index)], target.where)
            mem = region.known(target.mem)
            region.builder.store(mem, self.value(target.value, region), self.index(target.index, target.mem, region), where)
            return
        after = self.accumulate(target, result[target] if begun else self.identity(target, region), region)
        if begun:
            result[target] = after
        else:
            for value, final in zip(target.results, self.combine_digits(target, after, region), strict=True):
                region.made[value] = final
