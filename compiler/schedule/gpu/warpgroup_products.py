"""Sums of products on the warpgroups of sm_90a. One warpgroup of a block copies boxes of both operands into a ring of stages in shared
memory, others multiply what has arrived, 64 rows each, and keep the sums in registers; what follows the sum is computed on these. The
blocks stay: each takes one tile after the other, so that copies for the next begin while the last is stored.

The way of working is the warp-specialised one of NVIDIA's CUTLASS (persistent, ping stages by mbarriers); what is multiplied, its layouts
and all that follows come from the field."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

from attrs import frozen

from compiler.analysis.recognise import ProductSum, product_sum
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Contract, Pack2, Reduce, Scan, Take, dtype_of
from compiler.hir.gpu import FenceAsync, GridIndex, SharedAlloc, SyncThreads, WarpIndex
from compiler.hir.hopper import (
    WARPGROUP_KINDS,
    BarrierArrive,
    BarrierExpect,
    BarrierInit,
    BarrierMake,
    BarrierWait,
    BulkCommit,
    BulkLoad,
    BulkStore,
    BulkWait,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
)
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import StoreMatrix
from compiler.hir.types import Barrier, Mem, Space, Tile, bytes_of
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.place import NotPlaceable, Region, Target
from compiler.schedule.table import AxisPlan, Table

WARPGROUP = 128
ROWS = 64
"""Rows that a warpgroup multiplies at a time."""
GROUPS = 2
"""Warpgroups that multiply; one more copies."""
SWIZZLED = 128
"""Bytes of a row of a box."""
BUFFERS = 2
"""Of each warpgroup, for results on their way out."""
SHARED_BYTES = 225 * 1024
RESULT_BYTES = GROUPS * BUFFERS * ROWS * SWIZZLED
STAGES = 6
BAND = 16
"""Tiles along the rows that are taken together, so that what they read stays in the L2 cache."""
COPYING_REGISTERS, MULTIPLYING_REGISTERS = 40, 232
LEAST = 64
"""Rows and terms below which a tile would be mostly empty."""
WIDTHS = (256, 128, 64, 32, 16, 8)
"""Columns of a tile."""


@frozen(eq=False)
class Side:
    """An operand: the load, its own axis, and which dims of the memory its own axis and the sum's run along."""

    load: Load
    axis: str
    own: int
    along: int

    @property
    def mem(self) -> Mem:
        assert isinstance(self.load.mem.type, Mem)
        return self.load.mem.type

    @property
    def across(self) -> bool:
        """Memory is contiguous along the operand's own axis instead of the sum's."""
        return self.own == self.mem.rank - 1


@frozen(eq=False)
class WarpgroupProduct:
    """A field that is one product with what follows it. `columns`: of a tile."""

    target: Contract
    a: Side
    b: Side
    sum: str
    columns: int
    stages: int
    processors: int

    @property
    def rows(self) -> int:
        return ROWS * GROUPS

    @property
    def sides(self) -> tuple[tuple[Side, int], tuple[Side, int]]:
        """Both operands, and how much of their own axes a tile has."""
        return (self.a, self.rows), (self.b, self.columns)

    @property
    def depth(self) -> int:
        """Elements of the sum in a stage."""
        return wide_of(self.a.mem)


def warpgroup_product(field: HirFunction, facts: Facts) -> WarpgroupProduct | None:
    """The field as a product for warpgroups; None where they don't take it: another machine, more than one sum, operands that are
    computed, types and strides that boxes can't have, little to do."""
    if facts.architecture != "sm_90a" or (field.kernel_info is not None and field.kernel_info.tensor_cores is False):
        return None
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce | Scan)]
    if len(sums) != 1 or not isinstance(sums[0], Contract):
        return None
    target = sums[0]
    product = product_sum(target)
    if product is None or target.accumulator is not None or len(product.m) != 1 or len(product.n) != 1 or len(product.k) != 1:
        return None
    kind = WARPGROUP_KINDS.get(dtype_of(target.a))
    if kind is None or dtype_of(target.a) != dtype_of(target.b) or kind.sums != target.to or kind.word == "tf32":
        return None
    sides = side_of(target.a, product), side_of(target.b, product)
    if sides[0] is None or sides[1] is None:
        return None
    a, b = sides if _is_first(field, facts, sides[0], sides[1]) else sides[::-1]
    assert a is not None and b is not None
    if kind.depth != 16 and (a.across or b.across):
        return None
    if any(facts.about(field.axes[axis]) < LEAST for axis in (a.axis, *product.k)):
        return None
    matrices = prod(facts.about(field.axes[axis]) for axis in product.batch)
    columns = _columns(matrices, facts.about(field.axes[a.axis]), facts.about(field.axes[b.axis]), facts.processors)
    stage = (ROWS * GROUPS + max(columns, SWIZZLED // 2)) * SWIZZLED
    return WarpgroupProduct(target, a, b, product.k[0], columns, min(STAGES, (SHARED_BYTES - RESULT_BYTES) // stage), facts.processors)


def _is_first(field: HirFunction, facts: Facts, one: Side, other: Side) -> bool:
    """Whether the first operand's axis makes the rows: columns are what the result is contiguous along; but few are always columns."""
    first, second = facts.about(field.axes[one.axis]), facts.about(field.axes[other.axis])
    if min(first, second) < LEAST:
        return first > second
    return one.axis not in {axis for op in field.body.body if isinstance(op, Store) for axis in op.index[-1].names}


def side_of(operand: Value, product: ProductSum) -> Side | None:
    """The operand as what boxes can copy: read where it lies, contiguous along its own axis or the sum's."""
    op = operand.source
    if not isinstance(op, Load) or op.where is not None or op.pad is not None or op.mem.source is not None:
        return None
    mem = op.mem.type
    assert isinstance(mem, Mem)
    own = [axis for axis in (*product.m, *product.n) if axis in getattr(operand.type, "axis_names", ())]
    (along,) = product.k
    if len(own) != 1 or not 2 <= mem.rank <= 5 or mem.align < 16:
        return None
    dims: dict[str, int] = {}
    for axis in (own[0], along):
        places = [place for place, form in enumerate(op.index) if axis in form.names]
        if len(places) != 1 or op.index[places[0]].coefficient(axis) != 1:
            return None
        dims[axis] = places[0]
    if dims[own[0]] == dims[along] or mem.rank - 1 not in dims.values():
        return None
    unit = 16 // bytes_of(mem.dtype)
    strides = mem.dims[-1:] if mem.strides is None else mem.strides[:-1]
    if (mem.strides is not None and mem.strides[-1].value != 1) or any(not divides(unit, form) for form in strides):
        return None
    return Side(op, own[0], dims[own[0]], dims[along])


def wide_of(mem: Mem) -> int:
    """Elements of a row of a box."""
    return SWIZZLED // bytes_of(mem.dtype)


def divides(unit: int, form: Affine) -> bool:
    """Whether the form is a multiple of the unit, whatever its symbols are."""
    return all(number % unit == 0 for number in (form.constant, *(coefficient for _, coefficient in form.terms)))


def _columns(matrices: int, rows: int, columns: int, processors: int) -> int:
    """The width of tiles with which the last round of blocks leaves least to wait for: a tile takes as long as it is wide, and a
    little."""

    def cost(width: int) -> int:
        tiles = matrices * -(-rows // (ROWS * GROUPS)) * -(-columns // width)
        return -(-tiles // processors) * (width + 48)

    return min(WIDTHS, key=cost)


class WarpgroupDistributing(Distributing):
    """Builds the one launch of such a field."""

    def __init__(self, field: HirFunction, product: WarpgroupProduct) -> None:
        axes = [product.a.axis, product.b.axis]
        batch = [axis for axis in field.axes if axis not in (*axes, product.sum)]
        plans = [AxisPlan(axis, "block") for axis in (*batch, *axes)] + [AxisPlan(product.sum)]
        super().__init__(field, Table(plans, block=(WARPGROUP * (GROUPS + 1),)))
        self.product, self.batch = product, batch
        self.team = Affine()
        self.digits = ("", "", "")
        """Axes of the sums: neighbouring columns, groups of 8 of them, rows 8 apart."""

    def idle(self, axes: Iterable[str]) -> list[int]:
        """Every thread that multiplies has elements of its own."""
        return []

    def shared_out(self, group: Sequence[Target], region: Region) -> None:
        product = self.product
        if any(self.target_axes(target) != {product.a.axis, product.b.axis, *self.batch} for target in group):
            raise NotPlaceable("a result that doesn't vary along all axes of a product")
        b = region.builder
        extents = [*(self.field.axes[axis] for axis in self.batch)]
        extents.append(self.field.axes[product.a.axis].ceildiv(product.rows))
        extents.append(self.field.axes[product.b.axis].ceildiv(product.columns))
        counts = [b.index(extent) for extent in extents]
        total = b.op("max", counts[0], b.const(0, "index"))
        for count in counts[1:]:
            total = b.mul(total, b.op("max", count, b.const(0, "index")))
        resident = b.op("min", total, b.const(product.processors, "index"))
        with self.blocks(resident, region, ()) as (inner, block):
            self.roles(group, inner, block, total, counts)

    def roles(self, group: Sequence[Target], region: Region, block: Value, total: Value, counts: Sequence[Value]) -> None:
        b, product = region.builder, self.product
        ring = _Ring(b, product)
        thread = b.emit(GridIndex(operator="thread_idx", dim="x")).result
        first = b.op("eq", thread, b.const(0, "index"))
        with b.when(first) as once:
            ring.begin(once)
        b.emit(SyncThreads())
        rounds = small(b, "div", b.add(b.sub(total, block), b.index(product.processors - 1)), b.index(product.processors))
        steps = b.index(self.field.axes[product.sum].ceildiv(product.depth), "steps")
        with b.branch(b.op("lt", thread, b.const(WARPGROUP, "index"))) as (copying, multiplying, _):
            copying.emit(SetMaxRegisters(direction="dec", registers=COPYING_REGISTERS))
            with copying.when(first) as one:
                self.tiles(one, region, block, rounds, counts, lambda inner, number: self.copied(inner, number, steps, ring))
            multiplying.emit(SetMaxRegisters(direction="inc", registers=MULTIPLYING_REGISTERS))
            place = Affine.of(thread.name)
            self.leader = multiplying.op("eq", multiplying.index(place - place.floordiv(WARPGROUP) * WARPGROUP), multiplying.index(0))
            self.tiles(
                multiplying, region, block, rounds, counts, lambda inner, number: self.multiplied(inner, number, steps, ring, group)
            )
            with multiplying.when(self.leader) as last:
                last.emit(BulkWait(count=0, read=True))

    def tiles(
        self, b: Builder, region: Region, block: Value, rounds: Value, counts: Sequence[Value], work: Callable[[Region, Value], None]
    ) -> None:
        """The block's tiles in turn: every so many, in bands of rows."""
        product = self.product
        with b.loop("round", 0, rounds.name) as (body, loop):
            inner = region.inside(body, (product.a.axis, product.b.axis, *self.batch))
            number = body.index(Affine.of(loop.variable.name) * product.processors + block.name)
            down, across = counts[-2:]
            matrix = small(body, "rem", number, body.mul(down, across))
            rest = small(body, "div", number, body.mul(down, across))
            for axis, count in reversed(list(zip(self.batch, counts[:-2], strict=True))):
                place = small(body, "rem", rest, count)
                inner.forms[axis] = inner.starts[axis] = Affine.of(place.name)
                rest = small(body, "div", rest, count)
            band = body.mul(across, body.const(BAND, "index"))
            above = body.mul(small(body, "div", matrix, band), body.const(BAND, "index"))
            within = small(body, "rem", matrix, band)
            height = body.op("min", body.sub(down, above), body.const(BAND, "index"))
            row = body.add(above, small(body, "rem", within, height))
            column = small(body, "div", within, height)
            inner.starts[product.a.axis] = Affine.of(row.name) * product.rows
            inner.starts[product.b.axis] = Affine.of(column.name) * product.columns
            work(inner, loop.variable)

    # ---- copying ----

    def copied(self, region: Region, number: Value, steps: Value, ring: "_Ring") -> None:
        b, product = region.builder, self.product
        done = b.mul(number, steps)
        with b.loop("copy", 0, steps.name) as (body, loop):
            turn = body.add(done, loop.variable)
            stage, parity = ring.place(body, turn)
            body.emit(BarrierWait(barrier=ring.empty, barrier_index=(stage,), parity=ring.flipped(body, parity)))
            bytes = sum(prod(_stage_dims(side, extent, product)[1:]) for side, extent in product.sides) * bytes_of(product.a.mem.dtype)
            body.emit(BarrierExpect(barrier=ring.full, barrier_index=(stage,), bytes=bytes))
            for (side, extent), memory in zip(product.sides, (ring.a, ring.b), strict=True):
                self.box(body, side, memory, extent, Affine.of(loop.variable.name) * product.depth, stage, ring, region)

    def box(
        self, b: Builder, side: Side, memory: Value, extent: int, step: Affine, stage: Affine, ring: "_Ring", region: Region
    ) -> None:
        """The copies of one operand's tile: one box, or, where memory is contiguous along its own axis, boxes of 128 bytes of that."""
        product = self.product
        wide = wide_of(side.mem)
        inner = region.inside(b, ())
        inner.forms[product.sum] = step
        for part in range(-(-extent // wide) if side.across else 1):
            inner.forms[side.axis] = region.starts[side.axis] + part * wide
            place = tuple(self.form(form, inner) for form in side.load.index)
            extents = {side.own: wide if side.across else extent, side.along: product.depth}
            box = tuple(extents.get(dim, 1) for dim in range(side.mem.rank))
            at = (stage, Affine.of(part), Affine(), Affine()) if side.across else (stage, Affine(), Affine())
            mem = region.find(side.load.mem)
            assert mem is not None
            b.emit(
                BulkLoad(
                    shared=memory, shared_index=at, tensor=mem, tensor_index=place, barrier=ring.full, barrier_index=(stage,), box=box
                )
            )

    # ---- multiplying ----

    def multiplied(self, region: Region, number: Value, steps: Value, ring: "_Ring", group: Sequence[Target]) -> None:
        b, product = region.builder, self.product
        pair, eight = self.out.axis("column0", 2), self.out.axis("column1", product.columns // 8)
        half = self.out.axis("row0", 2)
        warp = b.emit(WarpIndex(operator="warp")).result
        lane = b.emit(WarpIndex(operator="lane")).result
        who = Affine.of(warp.name)
        team = who.floordiv(4) + -1
        leader = self.leader
        sums = Tile(product.target.to, ((pair, 2), (eight, product.columns // 8), (half, 2)))
        zero = b.const(0.0 if product.target.to == "f32" else 0, sums)
        done = b.mul(number, steps)
        with b.loop("step", 0, steps.name, carried=[zero]) as (body, loop):
            turn = body.add(done, loop.variable)
            stage, parity = ring.place(body, turn)
            body.emit(BarrierWait(barrier=ring.full, barrier_index=(stage,), parity=parity))
            body.emit(WarpgroupFence())
            total = loop.carried[0]
            kind = WARPGROUP_KINDS[product.a.mem.dtype]
            for part in range(0, product.depth, kind.depth):
                total = body.emit(
                    WarpgroupMma(
                        accumulator=total,
                        a=ring.a,
                        a_index=_view(product.a, stage, team * ROWS, part),
                        b=ring.b,
                        b_index=_view(product.b, stage, Affine(), part),
                        keep=body.const(True, "i1"),
                        shape=(ROWS, product.columns, kind.depth),
                        transpose_a=product.a.across,
                        transpose_b=product.b.across,
                    )
                ).result
            body.emit(WarpgroupCommit())
            waited = body.emit(WarpgroupWait(values=(total,), count=1)).results[0]
            before = body.op("and", leader, body.op("gt", loop.variable, body.const(0, "index")))
            with body.when(before) as freeing:
                earlier, _ = ring.place(freeing, freeing.sub(turn, freeing.const(1, "index")))
                freeing.emit(BarrierArrive(barrier=ring.empty, barrier_index=(earlier,)))
            body.yield_(waited)
        complete = b.emit(WarpgroupWait(values=(loop.results[0],), count=0)).results[0]
        with b.when(b.op("and", leader, b.op("gt", steps, b.const(0, "index")))) as freeing:
            last, _ = ring.place(freeing, freeing.sub(freeing.add(done, steps), freeing.const(1, "index")))
            freeing.emit(BarrierArrive(barrier=ring.empty, barrier_index=(last,)))
        region.made[product.target.results[0]] = complete
        row = team * ROWS + (who - who.floordiv(4) * 4) * 16 + Affine.of(lane.name).floordiv(4) + Affine.of(half) * 8
        column = (Affine.of(lane.name) - Affine.of(lane.name).floordiv(4) * 4) * 2 + Affine.of(eight) * 8 + pair
        for (side, extent), within in zip(product.sides, (row, column), strict=True):
            region.forms[side.axis] = region.starts[side.axis] + within
            if not divides(extent, self.field.axes[side.axis]):
                region.masks[side.axis] = self.field.axes[side.axis]
        self.team, self.digits = team, (pair, eight, half)
        self.produce(group, region, {})

    # ---- storing ----

    def finish_target(self, target: Target, region: Region, result: dict[Target, list[Value]], begun: bool) -> None:
        if isinstance(target, Store) and self.is_boxed(target):
            self.stored(target, region)
        else:
            super().finish_target(target, region, result, begun)

    def is_boxed(self, store: Store) -> bool:
        """Whether bulk copies write the result's tile: numbers of 16 bits (wider ones fill whole sectors from registers), contiguous along
        the columns, at places that boxes can have."""
        product = self.product
        mem = store.mem.type
        assert isinstance(mem, Mem)
        unit = 16 // bytes_of(mem.dtype)
        strides = mem.dims[-1:] if mem.strides is None else mem.strides[:-1]
        if mem.dtype not in ("f16", "bf16") or mem.align < 16 or not 2 <= mem.rank <= 5:
            return False
        if store.where is not None or store.mem.source is not None:
            return False
        if (mem.strides is not None and mem.strides[-1].value != 1) or any(not divides(unit, form) for form in strides):
            return False
        rows = [form for form in store.index if product.a.axis in form.names]
        columns = [form for form in store.index if product.b.axis in form.names]
        if product.columns % wide_of(mem):
            return False
        plain = all(form.coefficient(axis) == 1 for forms, axis in ((rows, product.a.axis), (columns, product.b.axis)) for form in forms)
        return plain and len(rows) == len(columns) == 1 and columns[0] is store.index[-1] and rows[0] is not columns[0]

    def stored(self, store: Store, region: Region) -> None:
        """The tile through shared memory, 128 bytes of each row at a time, in two buffers for each warpgroup: while one is copied out
        the other fills."""
        b, product = region.builder, self.product
        mem = store.mem.type
        assert isinstance(mem, Mem)
        wide = wide_of(mem)
        assert self.body is not None
        key = ("result", mem.dtype)
        if key not in self.memories:
            type = Mem(mem.dtype, (GROUPS, BUFFERS, ROWS, wide), space=Space.SHARED, align=1024, swizzle="128B")
            self.memories[key] = self.body.emit(SharedAlloc(type=type), "result").result
        buffers = self.memories[key]
        value = self.value(store.value, region)
        target = region.find(store.mem)
        assert target is not None
        pair, eight, half = self.digits
        packed = b.emit(Pack2(value=value, over=pair)).result
        lane = Affine.of(b.emit(WarpIndex(operator="lane")).result.name)
        warp = Affine.of(b.emit(WarpIndex(operator="warp")).result.name)
        row = (warp - warp.floordiv(4) * 4) * 16 + lane - lane.floordiv(16) * 16
        for part in range(product.columns // wide):
            buffer = Affine.of(part % BUFFERS)
            with b.when(self.leader) as one:
                one.emit(BulkWait(count=BUFFERS - 1, read=True))
            self.meet(b)
            for group in range(0, wide, 16):
                first = (part * wide + group) // 8
                words = [_taken(b, packed, {eight: first + n // 2, half: n % 2}) for n in range(4)]
                column = lane.floordiv(16) * 8 + group
                b.emit(StoreMatrix(mem=buffers, index=(self.team, buffer, row, column), values=tuple(words)))
            b.emit(FenceAsync())
            self.meet(b)
            place = region.inside(b, ())
            place.forms[product.a.axis] = region.starts[product.a.axis] + self.team * ROWS
            place.forms[product.b.axis] = region.starts[product.b.axis] + part * wide
            box = tuple(ROWS if product.a.axis in form.names else wide if product.b.axis in form.names else 1 for form in store.index)
            with b.when(self.leader) as one:
                one.emit(
                    BulkStore(
                        shared=buffers,
                        shared_index=(self.team, buffer, Affine(), Affine()),
                        tensor=target,
                        tensor_index=tuple(self.form(form, place) for form in store.index),
                        box=box,
                    )
                )
                one.emit(BulkCommit())

    def meet(self, b: Builder) -> None:
        """The threads of this warpgroup wait for each other."""
        with b.branch(b.op("eq", b.index(self.team), b.index(0))) as (first, other, _):
            first.emit(SyncThreads(id=1, count=WARPGROUP))
            other.emit(SyncThreads(id=2, count=WARPGROUP))


def small(b: Builder, operator: str, left: Value, right: Value) -> Value:
    """A quotient or remainder of numbers below 2^32. Divisions of 64 bits are calls, and a function with calls has its products one
    after the other."""
    return b.cast(b.op(operator, b.cast(left, "u32"), b.cast(right, "u32")), "index")


def _taken(b: Builder, value: Value, places: Mapping[str, int]) -> Value:
    for axis, place in places.items():
        value = b.emit(Take(value=value, axis=axis, at=Affine.of(place))).result
    return value


def _view(side: Side, stage: Affine, own: Affine, part: int) -> tuple[Affine, ...]:
    """Where a matrix of 64 rows (or all columns) begins in a stage, at a place along the sum."""
    if not side.across:
        return stage, own, Affine.of(part)
    wide = wide_of(side.mem)
    return stage, own.floordiv(wide), Affine.of(part), Affine()


class _Ring:
    """The stages in shared memory, and the barriers that say which are full and which are empty."""

    def __init__(self, b: Builder, product: WarpgroupProduct) -> None:
        self.stages = product.stages
        self.a, self.b = (
            b.emit(SharedAlloc(type=_stage_memory(side, extent, product)), "stage").result for side, extent in product.sides
        )
        self.full = b.emit(BarrierMake(type=Barrier(self.stages)), "full").result
        self.empty = b.emit(BarrierMake(type=Barrier(self.stages)), "empty").result

    def begin(self, b: Builder) -> None:
        for stage in range(self.stages):
            b.emit(BarrierInit(barrier=self.full, barrier_index=(Affine.of(stage),), count=1))
            b.emit(BarrierInit(barrier=self.empty, barrier_index=(Affine.of(stage),), count=GROUPS))

    def place(self, b: Builder, turn: Value) -> tuple[Affine, Value]:
        """The stage of a turn, and how often it was filled before, odd or even."""
        form = Affine.of(turn.name)
        filled = form.floordiv(self.stages)
        parity = b.cast(b.index(filled - filled.floordiv(2) * 2), "i32")
        return Affine.of(b.index(form - filled * self.stages).name), parity

    def flipped(self, b: Builder, parity: Value) -> Value:
        return b.op("xor", parity, b.const(1, "i32"))


def _stage_dims(side: Side, extent: int, product: WarpgroupProduct) -> tuple[int, ...]:
    wide = wide_of(side.mem)
    if side.across:
        return product.stages, -(-extent // wide), product.depth, wide
    return product.stages, extent, product.depth


def _stage_memory(side: Side, extent: int, product: WarpgroupProduct) -> Mem:
    return Mem(side.mem.dtype, _stage_dims(side, extent, product), space=Space.SHARED, align=1024, swizzle="128B")
