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
from itertools import combinations
from typing import Any

from attrs import Factory, define

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Combine, Const, Contract, Reduce, Scan, Select, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule import running
from compiler.schedule.kept_order import breach
from compiler.schedule.table import AxisPlan, Table

Target = Store | Reduce | Contract

CHUNKS = 64
"""Parts into which threads cut a reduction: more than any machine's cores share evenly, few enough to combine at once."""


class NotPlaceable(Exception):
    """The field has something `place` doesn't know how to put in loops; the message says what."""


@define(eq=False)
class Region:
    """The body of one loop (or of the function): which axes have loops here, how they are written, which are ragged."""

    builder: Builder
    parent: "Region | None" = None
    axes: frozenset[str] = frozenset()
    """Axes whose loop this is the body of."""
    forms: dict[str, Affine] = Factory(dict)
    starts: dict[str, Affine] = Factory(dict)
    """Where the tile of an axis begins."""
    masks: dict[str, Affine] = Factory(dict)
    narrow: dict[str, AxisPlan] = Factory(dict)
    """Plans that hold here instead of the table's: the ends of axes go in smaller tiles."""
    made: dict[Value, Value] = Factory(dict)

    @property
    def looped(self) -> set[str]:
        return set(self.forms)

    def inside(self, builder: Builder, axes: Iterable[str]) -> "Region":
        """The body of a loop in this region, over these axes."""
        return Region(builder, self, frozenset(axes), dict(self.forms), dict(self.starts), dict(self.masks), dict(self.narrow))

    def find(self, value: Value) -> Value | None:
        region: Region | None = self
        while region is not None:
            if value in region.made:
                return region.made[value]
            region = region.parent
        return None


def place(field: HirFunction, table: Table) -> HirFunction:
    """The field `field` (form F) in loops and tiles (form B) as the table says. Raises `NotPlaceable`."""
    return Placing(field, table).run()


class Placing:
    outer = "thread"
    """The place that top-level loops are shared out to."""

    def __init__(self, field: HirFunction, table: Table) -> None:
        if broken := breach(field, table):
            raise NotPlaceable(broken)
        self.field = field
        self.table = table
        self.scope = field.scope()
        self.out = FunctionBuilder(field.name, Form.TILE)
        for plan in table.plans:
            for name, extent, _ in dict.fromkeys((*plan.digits(), *plan.narrowed().digits())):
                self.out.function.axes[name] = Affine.of(extent)
                self.out._taken.add(name)
        self.named = {result.name: result for op in field.body.body for result in op.results}
        self.sources: dict[Value, Store] = {}
        self.scans = running.scans_of(field)
        self.once = {plan.axis for plan in table.plans if plan.place == "once"}

    def run(self) -> HirFunction:
        root = Region(self.out.body)
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
        self.produce(stores, root, {})
        return self.out.finish()

    # ---- axes ----

    def axes(self, values: Iterable[Value]) -> set[str]:
        return {name for name, _ in union_axes(*values) if name in self.table}

    def target_axes(self, target: Target) -> set[str]:
        """Axes that need loops before the target can be computed."""
        if isinstance(target, Store):
            named = {name for name, _ in self.scope.axes_of(*target.index) if name in self.table}
            return named | self.axes([target.value])
        return self.axes(v for v in target.operand_values if not _is_accumulator(target, v))

    def private_axes(self, mem: Value) -> set[str]:
        """Axes along which a local buffer has elements of its own."""
        return {name for name, _ in self.scope.axes_of(*self.sources[mem].index)}

    # ---- targets ----

    def produce(self, targets: Sequence[Target], region: Region, state: dict[Target, list[Value]]) -> dict[Target, list[Value]]:
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

    def prerequisites(self, target: Target, region: Region) -> list[Target]:
        """Reductions and local buffers that the target reads, that don't vary along a loop still to come, and aren't there yet."""
        found: dict[Target, None] = {}
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
                    found.setdefault(op)
                continue
            if isinstance(op, Load) and op.mem in self.sources and region.find(op.mem) is None:
                source = self.sources[op.mem]
                if self.target_axes(source) - self.private_axes(op.mem) <= region.looped:
                    found.setdefault(source)
                continue
            waiting += self.reads(op)
        return [t for t in found if t is not target]

    def reads(self, op: Instruction) -> list[Value]:
        """Operands, and the values behind names in affine attributes."""
        found = [v for v in op.operand_values if not (isinstance(op, Store) and v is op.mem)]
        return found + [self.named[name] for name in op.symbols if name in self.named]

    def next_axis(self, target: Target, region: Region) -> str | None:
        missing = self.target_axes(target) - region.looped
        return min(missing, key=self.table.order) if missing else None

    def loop_over(
        self, axis: str, group: Sequence[Target], region: Region, result: dict[Target, list[Value]], state: dict[Target, list[Value]]
    ) -> None:
        """One loop over the axis's outer digit for the whole group, and, when the tile may not divide the extent, its masked end."""
        plan = self.table[axis]
        begun = [t for t in group if isinstance(t, Reduce | Contract) and t not in state]
        for one in begun:
            result[one] = self.identity(one, region)
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
        known = extent.value
        whole, rest = extent.floordiv(plan.tile), extent.ceildiv(plan.tile)
        parts = [(Affine(), whole, False)] if known is None or known >= plan.tile else []
        if whole != rest:
            parts.append((whole, rest, True))
        for low, high, ragged in parts:
            if plan.place != self.outer or region.parent is not None or ragged:
                before = self.one_loop(plan, low, high, ragged, group, carrying, region, result, scans, before)
            elif scans:
                before = running.in_chunks(self, plan, high, group, scans, region)
            else:
                self.chunked_loop(plan, high, group, carrying, region, result)
        for one in begun:
            for value, final in zip(one.results, self.combine_digits(one, result.pop(one), region), strict=True):
                region.made[value] = final

    def shared_out(self, group: Sequence[Target], region: Region) -> None:
        """Stores whose leading axes are shared out to threads, all iterations of these axes as one loop: first the whole tiles,
        then every combination of axes at the end that their tile doesn't divide."""
        needed = set.intersection(*[self.target_axes(target) for target in group])
        plans = [plan for plan in self.table.plans if plan.place == self.outer and plan.axis in needed]
        extents = {plan.axis: self.field.axes[plan.axis] for plan in plans}
        ragged = [plan.axis for plan in plans if extents[plan.axis].floordiv(plan.tile) != extents[plan.axis].ceildiv(plan.tile)]
        for count in range(len(ragged) + 1):
            for ends in combinations(ragged, count):
                self.thread_loop(plans, frozenset(ends), group, region)

    def thread_loop(self, plans: Sequence[AxisPlan], ends: frozenset[str], group: Sequence[Target], region: Region) -> None:
        """One loop over the product of the axes' tiles: narrow, masked ones at the end of axes in `ends`, whole ones of the others."""
        b = region.builder
        extents = [self.field.axes[plan.axis] for plan in plans]
        here = [plan.narrowed() if plan.axis in ends else plan for plan in plans]
        wholes = [extent.floordiv(plan.tile) for extent, plan in zip(extents, plans, strict=True)]
        starts = [whole * (plan.tile // small.tile) for whole, plan, small in zip(wholes, plans, here, strict=True)]
        lengths = [
            extent.ceildiv(small.tile) - start if plan.axis in ends else whole
            for extent, plan, small, whole, start in zip(extents, plans, here, wholes, starts, strict=True)
        ]
        if any(length.value == 0 for length in lengths):
            return
        # An extent may come out negative (`0..N-1` of nothing): a product of two of them must not count as work.
        counts = [b.index(length) if len(plans) == 1 else b.op("max", b.index(length), b.const(0, "index")) for length in lengths]
        total = counts[0]
        for count in counts[1:]:
            total = b.mul(total, count)
        high = lengths[0] if len(plans) == 1 else Affine.of(total.name)
        with b.loop(f"{plans[0].axis}0", 0, high, place="thread") as (body, loop):
            inner = region.inside(body, [plan.axis for plan in plans])
            place = loop.variable
            digits: list[Affine] = []
            for plan, count in reversed(list(zip(plans[1:], counts[1:], strict=True))):
                digits.append(Affine.of(body.op("rem", place, count, name=f"{plan.axis}0").name))
                place = body.op("div", place, count)
            digits.append(Affine.of(place.name))
            for plan, digit, start, extent in zip(here, reversed(digits), starts, extents, strict=True):
                inner.forms[plan.axis] = plan.form(digit + start if plan.axis in ends else digit)
                if plan.axis in ends:
                    inner.narrow[plan.axis] = plan
                    inner.masks[plan.axis] = extent
            self.produce(group, inner, {})

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        """What is noted at the loop of an axis."""
        return {}

    def enter(self, plan: AxisPlan, loop: Affine, region: Region) -> None:
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
        region: Region,
        result: dict[Target, list[Value]],
        scans: Sequence[Scan] = (),
        before: Sequence[Value] = (),
        step: int = 1,
    ) -> list[Value]:
        """The loop over tiles `low`, `low + step`..., with the accumulators in `result` carried; gives the running values of the scans,
        which are `before` at first."""
        carried = [value for target in carrying for value in result[target]] + list(before)
        with region.builder.loop(f"{plan.axis}0", low, high, step, carried=carried, **self.marks(plan)) as (body, loop):
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

    def scan_step(self, scan: Scan, before: Value, region: Region) -> Value:
        """The scan's tile, noted in the region, and the running value behind it, where `before` stands before it."""
        return running.step(self, scan, before, region)

    def chunked_loop(
        self,
        plan: AxisPlan,
        whole: Affine,
        group: Sequence[Target],
        carrying: Sequence[Target],
        region: Region,
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

    def finish_target(self, target: Target, region: Region, result: dict[Target, list[Value]], begun: bool) -> None:
        """All loops stand: store the value, or combine it into the accumulator."""
        if isinstance(target, Store):
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

    # ---- reductions ----

    def plan(self, axis: str, region: Region) -> AxisPlan:
        return region.narrow.get(axis) or self.table[axis]

    def tile_axes(self, axes: Iterable[str], region: Region) -> tuple[tuple[str, int], ...]:
        return tuple((name, extent) for axis in axes for name, extent, _ in self.plan(axis, region).digits())

    def identity(self, target: Reduce | Contract, region: Region) -> list[Value]:
        if isinstance(target, Contract):
            if target.accumulator is not None:
                raise NotPlaceable("a contraction with an accumulator in a field")
            axes = sorted(self.axes([target.a, target.b]), key=self.table.order)
            return [region.builder.const(0.0 if is_float(target.to) else 0, Tile(target.to, self.tile_axes(axes, region)))]
        axes = sorted(self.axes(target.values), key=self.table.order)
        return [
            region.builder.const(number, Tile(dtype_of(value), self.tile_axes(axes, region)))
            for value, number in zip(target.values, identity_of(target.monoid, [dtype_of(v) for v in target.values]), strict=True)
        ]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: Region) -> list[Value]:
        b = region.builder
        if isinstance(target, Contract):
            left, right = self.value(target.a, region), self.value(target.b, region)
            if any(axis in region.masks for axis in target.over):
                left = self.masked(left, 0.0, [a for a in target.over if a in self.axes([target.a])], region)
            made = Contract(a=left, b=right, accumulator=accumulators[0], over=(), to=target.to, flags=target.flags)
            return [b.emit(made).result]
        numbers = identity_of(target.monoid, [dtype_of(v) for v in target.values])
        guarded = self.guarded(target, numbers)
        if guarded is not None:
            # `acc + (p ? x : 0)` is `p ? acc + x : acc`, which is one instruction where vectors have masks.
            condition, value = (self.value(v, region) for v in guarded)
            where = self.mask(region, [a for a in target.over if a in region.masks], None)
            condition = condition if where is None else b.op("and", condition, where)
            flags = target.flags if is_float(dtype_of(value)) else ()
            return [b.select(condition, b.op(target.monoid, accumulators[0], value, flags=flags), accumulators[0])]
        return self.combined(target, accumulators, self.brought(target, region), b)

    def brought(self, target: Reduce, region: Region) -> list[Value]:
        """What this tile brings to a reduction: outside, the element that changes nothing."""
        numbers = identity_of(target.monoid, [dtype_of(v) for v in target.values])
        axes = [axis for axis in target.over if axis in region.masks]
        return [self.masked(self.value(v, region), number, axes, region) for v, number in zip(target.values, numbers, strict=True)]

    def guarded(self, target: Reduce, numbers: list[float | int]) -> tuple[Value, Value] | None:
        """The condition and value of a reduction that takes part only where the condition holds."""
        if len(target.values) != 1:
            return None
        match target.values[0].source:
            case Select(condition=condition, then=then, otherwise=Value(source=Const(value=number))) if number == numbers[0]:
                return condition, then
            case _:
                return None

    def combined(self, target: Target, left: list[Value], right: list[Value], b: Builder) -> list[Value]:
        """Two partial results of a reduction made one."""
        assert isinstance(target, Reduce | Contract)
        monoid = "add" if isinstance(target, Contract) else target.monoid
        if len(left) > 1:
            return b.emit(Combine(monoid=monoid, operands_=(*left, *right))).results
        return [b.op(monoid, left[0], right[0], flags=target.flags if is_float(dtype_of(left[0])) else ())]

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: Region) -> list[Value]:
        """After the last loop: the static digits of the reduced axes combined."""
        over = [name for name, _ in self.tile_axes((a for a in target.over if a in self.table), region)]
        if not over:
            return accumulators
        monoid = "add" if isinstance(target, Contract) else target.monoid
        flags = tuple(flag for flag in target.flags if flag == "reassoc") if isinstance(target, Contract) else target.flags
        return region.builder.reduce(monoid, *accumulators, over=over, flags=flags)

    # ---- values ----

    def value(self, value: Value, region: Region) -> Value:
        """The value's tile, computed in the outermost body in which all its axes have loops."""
        found = region.find(value)
        if found is not None:
            return found
        op = value.source
        assert op is not None, f"{value} has no source"
        if isinstance(op, Reduce | Contract):
            self.produce([op], region, {})
            found = region.find(value)
            assert found is not None
            return found
        needed = self.axes([value]) | {a for v in op.operand_values for a in self.axes([v])}
        home = region
        while home.parent is not None and not home.axes & needed and not self.reads_local(op, home):
            home = home.parent
        with home.builder.at(op.span):
            made = self.make(op, value, home)
        home.made[value] = made
        return made

    def reads_local(self, op: Instruction, region: Region) -> bool:
        return isinstance(op, Load) and op.mem in region.made

    def make(self, op: Instruction, value: Value, region: Region) -> Value:
        b = region.builder
        if isinstance(op, Const):
            axes = [name for name, _ in union_axes(value) if name in self.table]
            return b.const(op.value, Tile(dtype_of(value), self.tile_axes(axes, region)))
        if isinstance(op, Load):
            where = self.mask(region, [a for a, _ in self.scope.axes_of(*op.index)], op.where)
            mem = region.find(op.mem)
            if mem is None:
                raise NotPlaceable(f"{op.mem} is read before it is written")
            return b.load(mem, self.index(op.index, op.mem, region), where, op.pad)
        made = rebuilt(op, lambda v: self.value(v, region), lambda form: self.form(form, region))
        results = b.emit(made).results
        for old, new in zip(op.results, results, strict=True):
            region.made[old] = new
        return region.made[value]

    def symbol(self, name: str, region: Region) -> str:
        """The name under which a symbol of an affine form is known in the new function."""
        return self.value(self.named[name], region).name if name in self.named else name

    def form(self, form: Affine, region: Region) -> Affine:
        names: dict[str, Affine | str] = {name: self.symbol(name, region) for name in form.names if name not in region.forms}
        return form.substitute({**names, **{n: f for n, f in region.forms.items() if n in form.names}})

    def index(self, index: tuple[Affine, ...], mem: Value, region: Region) -> list[Affine]:
        if mem not in self.sources:
            return [self.form(form, region) for form in index]
        kept = [self.form(form, region) for form in index]
        extra = [self.plan(axis, region).within() for axis in self.shared_axes(mem, region)]
        return extra + kept

    # ---- masks ----

    def mask(self, region: Region, axes: Iterable[str], where: Value | None) -> Value | None:
        """The condition under which an access along these axes is inside: ragged ends and the access's own condition."""
        b = region.builder
        conditions = [] if where is None else [self.value(where, region)]
        for axis in dict.fromkeys(axes):
            if axis in region.masks:
                conditions.append(self.inside(axis, region))
        result: Value | None = None
        for condition in conditions:
            result = condition if result is None else b.op("and", result, condition)
        return result

    def inside(self, axis: str, region: Region) -> Value:
        """The condition under which a place along a ragged axis exists."""
        return region.builder.inbounds(region.forms[axis], region.masks[axis])

    def masked(self, value: Value, number: float, axes: Iterable[str], region: Region) -> Value:
        where = self.mask(region, [a for a in axes if a in region.masks], None)
        if where is None:
            return value
        return region.builder.select(where, value, region.builder.const(number, dtype_of(value)))

    # ---- local buffers ----

    def shared_axes(self, mem: Value, region: Region) -> list[str]:
        """Axes whose loops stand outside the buffer but whose tile digits it must keep apart."""
        outside = self.target_axes(self.sources[mem]) - self.private_axes(mem)
        return [a for a in sorted(outside, key=self.table.order) if self.plan(a, region).digits()]

    def make_buffer(self, store: Store, region: Region) -> None:
        type = store.mem.type
        assert isinstance(type, Mem)
        extra = [Affine.of(self.plan(axis, region).tile) for axis in self.shared_axes(store.mem, region)]
        region.made[store.mem] = region.builder.alloc(
            Mem(type.dtype, (*extra, *type.dims), space=type.space, align=64), store.mem.name
        )


def _is_accumulator(target: Target, value: Value) -> bool:
    return isinstance(target, Contract) and value is target.accumulator


def _extents(value: Value) -> tuple[Affine, ...]:
    assert isinstance(value.type, Tile)
    return tuple(extent for _, extent in value.type.axes)


def _axis_names(value: Value) -> tuple[str, ...]:
    assert isinstance(value.type, Tile)
    return value.type.axis_names
