"""Values in tiles: what a field's instructions, reductions and local buffers become in the body of a loop, as far as the tile goes. Which
loops there are, and which targets they compute, `place` decides."""

from collections.abc import Iterable, Sequence
from typing import Any

from compiler.analysis.written_order import in_written_order
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Combine, Const, Contract, Reduce, Scan, Select, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, Tile, is_float
from compiler.schedule.pieces import half, lower, rows_left_over, wide
from compiler.schedule.region import Accumulators, NotPlaceable, Target, TileLoop, TileRegion
from compiler.schedule.table import AxisPlan, Table


class TileValues:
    def __init__(self, field: HirFunction, table: Table) -> None:
        if broken := _order_broken(field, table):
            raise NotPlaceable(broken)
        self.field = field
        self.table = table
        self.scope = field.scope()
        self.out = FunctionBuilder(field.name, Form.TILE)
        lanes = max((plan.lanes for plan in table.plans), default=1)
        for plan in table.plans:
            for each in (plan, *rows_left_over(plan, lanes)):
                self.declare(each)
            for each in () if table.rows is None else (wide(plan), half(plan)) if plan.lanes > 1 else (lower(plan),):
                self.declare(each)
        self.named = {result.name: result for op in field.body.body for result in op.results}
        self.sources: dict[Value, Store] = {}
        self.scans = [op for op in field.body.body if isinstance(op, Scan)]
        self.once = {plan.axis for plan in table.plans if plan.place == "once"}

    def produce(self, targets: Sequence[Target], region: TileRegion, state: dict[Target, list[Value]]) -> dict[Target, list[Value]]:
        """Computes all targets inside `region`: the loops that they need."""
        raise NotImplementedError

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        """How the axis is written in the body of its loop."""
        raise NotImplementedError

    def searched(self, target: Target) -> bool:
        """Whether lanes keep the numbers of the tiles of their best elements."""
        raise NotImplementedError

    def one_loop(self, loop: TileLoop, region: TileRegion, result: Accumulators) -> list[Value]:
        """The loop, with the accumulators in `result` carried; gives the running values of the scans behind it."""
        raise NotImplementedError

    # ---- axes ----

    def declare(self, plan: AxisPlan) -> None:
        """The digits of a plan become axes of the new function."""
        for name, extent, _ in dict.fromkeys((*plan.digits(), *plan.narrowed().digits())):
            self.out.function.axes[name] = Affine.of(extent)
            self.out._taken.add(name)

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

    def reads(self, op: Instruction) -> list[Value]:
        """Operands, and the values behind names in affine attributes."""
        operands = [v for v in op.operand_values if not (isinstance(op, Store) and v is op.mem)]
        return operands + [self.named[name] for name in op.symbols if name in self.named]

    def marks(self, plan: AxisPlan) -> dict[str, Any]:
        """What is noted at the loop of an axis."""
        turns = dict(self.table.unrolled).get(plan.axis)
        return {} if turns is None else {"unroll": turns or True}

    # ---- reductions ----

    def plan(self, axis: str, region: TileRegion) -> AxisPlan:
        return region.narrow.get(axis) or self.table[axis]

    def tile_axes(self, axes: Iterable[str], region: TileRegion) -> tuple[tuple[str, int], ...]:
        return tuple((name, extent) for axis in axes for name, extent, _ in self.plan(axis, region).digits())

    def digits_of(self, target: Reduce, region: TileRegion) -> tuple[tuple[str, int], ...]:
        """Along which a reduction has accumulators of their own."""
        return self.tile_axes(sorted(self.axes(target.values), key=self.table.order), region)

    def identity(self, target: Reduce | Contract, region: TileRegion) -> list[Value]:
        if isinstance(target, Contract):
            if target.accumulator is not None:
                raise NotPlaceable("a contraction with an accumulator in a field")
            axes = sorted(self.axes([target.a, target.b]), key=self.table.order)
            return [region.builder.const(0.0 if is_float(target.to) else 0, Tile(target.to, self.tile_axes(axes, region)))]
        digits = self.digits_of(target, region)
        return [
            region.builder.const(number, Tile(dtype_of(value), digits))
            for value, number in zip(target.values, identity_of(target.monoid, [dtype_of(v) for v in target.values]), strict=True)
        ]

    def accumulate(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        b = region.builder
        if isinstance(target, Contract):
            left, right = self.value(target.a, region), self.value(target.b, region)
            if any(axis in region.masks for axis in target.over):
                left = self.masked(left, 0.0, [a for a in target.over if a in self.axes([target.a])], region)
            product = Contract(a=left, b=right, accumulator=accumulators[0], over=(), to=target.to, flags=target.flags)
            return [b.emit(product).result]
        numbers = identity_of(target.monoid, [dtype_of(v) for v in target.values])
        guarded = self.guarded(target, numbers)
        if guarded is not None and guarded[0] in region.refuted:
            return accumulators
        if guarded is not None and guarded[0] not in region.certain:
            # `acc + (p ? x : 0)` is `p ? acc + x : acc`, which is one instruction where vectors have masks.
            condition, value = (self.value(v, region) for v in guarded)
            where = self.mask(region, [a for a in target.over if a in region.masks], None)
            condition = condition if where is None else b.op("and", condition, where)
            flags = target.flags if is_float(dtype_of(value)) else ()
            return [b.select(condition, b.op(target.monoid, accumulators[0], value, flags=flags), accumulators[0])]
        return self.combined(target, accumulators, self.brought(target, region), b)

    def brought(self, target: Reduce, region: TileRegion, values: Sequence[Value] = ()) -> list[Value]:
        """What this tile brings to a reduction, or of these `values`: outside, the element that changes nothing."""
        values = values or target.values
        numbers = identity_of(target.monoid, [dtype_of(v) for v in values])
        axes = [axis for axis in target.over if axis in region.masks]
        return [self.masked(self.value(v, region), number, axes, region) for v, number in zip(values, numbers, strict=True)]

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
        with b.at(target.span):
            if len(left) > 1:
                return b.emit(Combine(monoid=monoid, operands_=(*left, *right))).results
            return [b.op(monoid, left[0], right[0], flags=target.flags if is_float(dtype_of(left[0])) else ())]

    def combine_digits(self, target: Reduce | Contract, accumulators: list[Value], region: TileRegion) -> list[Value]:
        """After the last loop: the static digits of the reduced axes combined."""
        over = [name for name, _ in self.tile_axes((a for a in target.over if a in self.table), region)]
        return self.combine_along(target, accumulators, over, region)

    def combine_along(self, target: Reduce | Contract, accumulators: list[Value], over: list[str], region: TileRegion) -> list[Value]:
        """The accumulators with these digits combined."""
        if not over:
            return accumulators
        monoid = "add" if isinstance(target, Contract) else target.monoid
        flags = tuple(flag for flag in target.flags if flag == "reassoc") if isinstance(target, Contract) else target.flags
        return region.builder.reduce(monoid, *accumulators, over=over, flags=flags)

    # ---- values ----

    def value(self, value: Value, region: TileRegion) -> Value:
        """The value's tile, computed in the outermost body in which all its axes have loops."""
        existing = region.find(value)
        if existing is not None:
            return existing
        op = value.source
        assert op is not None, f"{value} has no source"
        if isinstance(op, Reduce | Contract):
            self.produce([op], region, {})
            return region.known(value)
        needed = self.axes([value]) | {a for v in op.operand_values for a in self.axes([v])}
        home = region
        while home.parent is not None and not home.axes & needed and not self.reads_local(op, home):
            home = home.parent
        with home.builder.at(op.span):
            created = self.make(op, value, home)
        home.made[value] = created
        return created

    def reads_local(self, op: Instruction, region: TileRegion) -> bool:
        return isinstance(op, Load) and op.mem in region.made

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        b = region.builder
        if isinstance(op, Const):
            axes = [name for name, _ in union_axes(value) if name in self.table]
            return b.const(op.value, Tile(dtype_of(value), self.tile_axes(axes, region)))
        if isinstance(op, Load):
            if op.where in region.refuted:
                return b.const(op.pad or 0, dtype_of(value))
            where = self.read_where(op, region)
            mem = region.find(op.mem)
            if mem is None:
                raise NotPlaceable(f"{op.mem} is read before it is written")
            return b.load(mem, self.index(op.index, op.mem, region), where, op.pad)
        if isinstance(op, Select) and op.condition in region.certain | region.refuted:
            return self.value(op.then if op.condition in region.certain else op.otherwise, region)
        copy = rebuilt(op, lambda v: self.value(v, region), lambda form: self.form(form, region))
        results = b.emit(copy).results
        for old, new in zip(op.results, results, strict=True):
            region.made[old] = new
        return region.made[value]

    def read_where(self, op: Load, region: TileRegion) -> Value | None:
        """The condition of a load; None: always."""
        return self.mask(region, [axis for axis, _ in self.scope.axes_of(*op.index)], op.where)

    def symbol(self, name: str, region: TileRegion) -> str:
        """The name under which a symbol of an affine form is known in the new function."""
        return self.value(self.named[name], region).name if name in self.named else name

    def form(self, form: Affine, region: TileRegion) -> Affine:
        names: dict[str, Affine | str] = {name: self.symbol(name, region) for name in form.names if name not in region.forms}
        form = form.substitute({**names, **{n: f for n, f in region.forms.items() if n in form.names}})
        return form.without(*(symbol for symbol, _ in form.terms if isinstance(symbol, FloorDiv) and self.is_none(symbol)))

    def is_none(self, quotient: FloorDiv) -> bool:
        """Whether a quotient is 0, whatever the places are along axes of registers."""
        least = most = quotient.numerator.constant
        for symbol, factor in quotient.numerator.terms:
            extent = self.out.function.axes.get(symbol) if isinstance(symbol, str) else None
            if extent is None or extent.value is None:
                return False
            last = factor * (extent.value - 1)
            least, most = least + min(0, last), most + max(0, last)
        return least >= 0 and most < quotient.divisor

    def index(self, index: tuple[Affine, ...], mem: Value, region: TileRegion) -> list[Affine]:
        if mem not in self.sources:
            return [self.form(form, region) for form in index]
        rows, vectors = self.shared_axes(mem, region)
        own = [self.form(form, region) for form in index]
        return [*(plan.within() for plan in rows), *own, *(plan.within() for plan in vectors)]

    # ---- masks ----

    def mask(self, region: TileRegion, axes: Iterable[str], where: Value | None) -> Value | None:
        """The condition under which an access along these axes is inside: ragged ends and the access's own condition."""
        b = region.builder
        conditions = [] if where is None or where in region.certain else [self.value(where, region)]
        for axis in dict.fromkeys(axes):
            if axis in region.masks:
                conditions.append(self.inside(axis, region))
        result: Value | None = None
        for condition in conditions:
            result = b.both(result, condition)
        return result

    def inside(self, axis: str, region: TileRegion) -> Value:
        """The condition under which a place along a ragged axis exists, computed outside of loops over others."""
        form, extent, home = region.forms[axis], region.masks[axis], region
        while home.parent is not None and (home.parent.forms.get(axis), home.parent.masks.get(axis)) == (form, extent):
            home = home.parent
        if axis not in home.inside_of:
            home.inside_of[axis] = home.builder.inbounds(form, extent)
        return home.inside_of[axis]

    def masked(self, value: Value, number: float, axes: Iterable[str], region: TileRegion) -> Value:
        where = self.mask(region, [a for a in axes if a in region.masks], None)
        if where is None:
            return value
        return region.builder.select(where, value, region.builder.const(number, dtype_of(value)))

    # ---- local buffers ----

    def shared_axes(self, mem: Value, region: TileRegion) -> tuple[list[AxisPlan], list[AxisPlan]]:
        """Axes whose loops stand outside the buffer but whose tile digits it must keep apart: rows, and those of vectors, whose lanes lie
        side by side in it."""
        outside = sorted(self.target_axes(self.sources[mem]) - self.private_axes(mem), key=self.table.order)
        plans = [plan for plan in (self.plan(axis, region) for axis in outside) if plan.digits()]
        return [plan for plan in plans if plan.lanes == 1], [plan for plan in plans if plan.lanes > 1]

    def make_buffer(self, store: Store, region: TileRegion) -> None:
        type = store.mem.type
        assert isinstance(type, Mem)
        rows, vectors = ([Affine.of(plan.tile) for plan in plans] for plans in self.shared_axes(store.mem, region))
        dims = (*rows, *type.dims, *vectors)
        region.made[store.mem] = region.builder.alloc(Mem(type.dtype, dims, space=type.space, align=64), store.mem.name)


def _is_accumulator(target: Target, value: Value) -> bool:
    return isinstance(target, Contract) and value is target.accumulator


def _order_broken(field: HirFunction, table: Table) -> str:
    """Where a table would change the order of sums that have a written one, in words; empty where it doesn't."""
    order = [plan.axis for plan in table.plans]
    for op in in_written_order(field):
        for axis in op.over:
            plan = next((plan for plan in table.plans if plan.axis == axis), None)
            if plan is not None and (plan.place not in ("time", "once") or plan.tile != 1):
                return f"the sum along `{axis}` keeps its order"
        if [axis for axis in order if axis in op.over] != [axis for axis in op.over if axis in order]:
            return f"the sum along {' and '.join(f'`{axis}`' for axis in op.over)} keeps its order"
    return ""
