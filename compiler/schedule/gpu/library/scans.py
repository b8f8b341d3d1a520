"""Running values on blocks of threads. A tile of the scanned axis is, in order: warps, registers, lanes, and neighbours in one wide
access; each is scanned by itself and led by what stands before it. Which way tiles follow each other depends on how many scans there
are beside each other:

* few: every tile is a block, and what stands before it comes by look-back (`look_back.py`): memory is read once and written once;
* many: a block (or a warp, where they are short) walks along its scan and carries the running value;
* along the stride of memory: lanes stand along what is contiguous, warps along the scan, and a block walks; of many more, lines march.

All of them join in an order that depends on sizes alone: floats are the same in every run."""

from collections.abc import Sequence
from math import prod

from compiler.analysis.written_order import in_written_order
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Scan, dtype_of, union_axes
from compiler.hir.gpu import Atomic, SyncThreads
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, bytes_of
from compiler.machines.gpu import Feature, GpuMachine
from compiler.schedule.field import axes_contiguous
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import thread_index
from compiler.schedule.gpu.library.block_scan import Joining
from compiler.schedule.gpu.library.look_back import GROUP, LookBack
from compiler.schedule.gpu.tiles.distribute import Distributing
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.running import refusal, scans_of
from compiler.schedule.table import SIMD, AxisPlan, Table
from runtime.records import evolve, frozen

WARPS = 8

MOST_WARPS = 16
"""Of a block that holds all of a scan, where that fits twice, or walks along few columns."""

WORDS = 32
"""Registers of a thread, of 32 bits, for the elements of all running values of a field. Machines may have more for those that are read
as they are; half as many are for what is computed from several reads, which assemblers begin one after the other: more threads then keep
memory at work."""

WALKED = 16
"""The same where blocks walk along their scans: more of them keep memory at work while one joins its elements."""

RESIDENT = 2
"""Blocks that a multiprocessor must hold at once, where threads keep more of a scan than that: while one waits another works."""

ACCESS = 16
"""Bytes of the widest access."""

MOST_LANES = 8

MANY_SCANS = 2
"""Scans beside each other, for each multiprocessor, that keep a GPU at work without tiles of their own."""

ROWS = 16
"""Registers along a scan that isn't along contiguous memory."""

CLEARING = 256
"""Threads of a block that clears what tiles tell each other."""

MARCHING = 64
"""Lines across memory, for each multiprocessor, from which on they march: on an H200 376,000 lines of 127 steps took 0.82 of the time of
blocks that walk, 360,000 of 160 steps 0.5, and 16,000 of 8,640 steps 0.89."""

FEW_COLUMNS = 4
"""Lanes beside each other, for each multiprocessor, below which it is better to read memory in strides and look back."""

SHORTEST = 16
"""Elements that a thread scans by itself as fast as a warp does."""


@frozen
class ScanPlan:
    """`tiled`: each tile is a block, there may be several of a scan; else a block walks along its scan."""

    axis: str
    table: Table
    tiled: bool
    resident: int | None = None


def scan_launches(field: HirFunction, plan: ScanPlan) -> Launches:
    """The launches of the plan. Raises `NotPlaceable`."""
    launches = launches_of_blocks(ScanDistributing(field, plan).run())
    for launch in launches.launches:
        info = launch.function.kernel_info
        assert info is not None and info.launch_bounds is not None
        launch.function.kernel_info = evolve(info, launch_bounds=evolve(info.launch_bounds, min_blocks_per_sm=plan.resident))
    return evolve(launches, words=tuple(str(plan.table).split("\n")))


def scan_plan(field: HirFunction, facts: Facts) -> ScanPlan | None:
    """How the scans of a field go to blocks; None where there are none, or not of a kind that this file knows."""
    scans = scans_of(field)
    if not scans or refusal(field) or marches(field, facts):
        return None
    (axis,) = scans[0].over
    others = [other for other in common_axes(field) if other != axis]
    if {axis, *others} != set(field.axes) or in_written_order(field):
        return None
    contiguous = set(axes_contiguous(field))
    length, warp = facts.about(field.axes[axis]), facts.machine.lanes
    known = set(field.axes[axis].names) <= dict(facts.magnitudes).keys()
    if known and length <= SHORTEST and others:
        return None
    beside = prod(facts.about(field.axes[other]) for other in others)
    columns = [other for other in others if other in contiguous]
    if columns and axis not in contiguous and (beside >= FEW_COLUMNS * facts.processors or length < warp * WARPS * ROWS):
        return _down(axis, others, columns[-1], length, facts.machine)
    read = sum(isinstance(op, Load) and axis in (name for name, _ in union_axes(op.result)) for op in field.body.body)
    words = WORDS if axis not in contiguous else facts.machine.scan_words if read <= len(scans) else WORDS // 2
    words = min(words, WALKED) if others and beside >= MANY_SCANS * facts.processors else words
    lanes, registers = _shape(field, scans, length, words, warp)
    resident = RESIDENT if words > WORDS else None
    run = warp * lanes * registers
    warps = WARPS
    while warps > 1 and warps * run >= 2 * length:
        warps //= 2
    one_tile = known and length <= warps * run
    fewer = _shape(field, scans, length, WORDS, warp)
    if words > WORDS and known and not others and not one_tile and length <= MOST_WARPS * warp * prod(fewer):
        # One scan, that a block of more warps still holds: look-back takes further launches.
        (lanes, registers), warps, resident, one_tile = fewer, MOST_WARPS, None, True
    if not others or (beside < MANY_SCANS * facts.processors and not one_tile):
        # The tiles of all scans that begin alike begin together: the tile before has had the time of a row of them.
        plans = [AxisPlan(axis, "block", registers, lanes, threads=warp, warps=warps)]
        plans += [AxisPlan(other, "block") for other in others]
        if not (one_tile or (facts.machine.has(Feature.BLOCK_ORDER) and warp == GROUP)):
            return None
        how = "one tile holds it" if one_tile else "tiles are blocks, and look back for what stands before them"
        reasons = [f"{axis} is scanned by {warps * warp} threads, {registers * lanes} elements each: {how}"]
        return ScanPlan(axis, Table(plans, reasons, (warp, warps), machine=facts.machine), not one_tile, resident)
    if length <= run:
        warps = 1
    plans = [AxisPlan(other, "block") for other in others[:-1]]
    rows = WARPS if warps == 1 else 1
    plans.append(AxisPlan(others[-1], "block", threads=rows, dim=1))
    plans.append(AxisPlan(axis, "time", registers, lanes, threads=warp, warps=warps))
    who = "a warp" if warps == 1 else f"a block of {warps} warps"
    reasons = [f"{who} walks along each scan of {axis}"]
    return ScanPlan(axis, Table(plans, reasons, (warp, max(warps, rows)), machine=facts.machine), False, resident)


def _down(axis: str, others: Sequence[str], columns: str, length: int, machine: GpuMachine) -> ScanPlan:
    """Lanes along contiguous memory, warps and registers along the scan."""
    warps = MOST_WARPS
    while warps > 1 and warps * ROWS >= 2 * length:
        warps //= 2
    plans = [AxisPlan(other, "block") for other in others if other != columns]
    plans.append(AxisPlan(columns, "block", threads=machine.lanes))
    plans.append(AxisPlan(axis, "time", ROWS, warps=warps))
    reasons = [f"{columns} lies along the lanes of a warp: memory is contiguous along it; {warps} warps walk along {axis}"]
    return ScanPlan(axis, Table(plans, reasons, (machine.lanes, warps), machine=machine), tiled=False)


def marches(field: HirFunction, facts: Facts) -> bool:
    """Whether running values go across contiguous memory, in so many lines that each is best a march of its own."""
    over = {axis for scan in scans_of(field) for axis in scan.over}
    others, lengths = [axis for axis in common_axes(field) if axis not in over], [facts.about(field.axes[axis]) for axis in over]
    contiguous, beside = set(axes_contiguous(field)), prod(facts.about(field.axes[axis]) for axis in others)
    across = min(lengths, default=0) > SHORTEST and not over & contiguous and bool(contiguous.intersection(others))
    return across and beside >= MARCHING * facts.processors


def _shape(field: HirFunction, scans: Sequence[Scan], length: int, words: int, warp: int) -> tuple[int, int]:
    """Neighbours of an access, and registers of a thread, for a scan of about this length."""
    widths = [bytes_of(mem_of(op.mem).dtype) for op in field.body.body if isinstance(op, Load | Store)]
    lanes = min(MOST_LANES, max(1, ACCESS // max(widths, default=4)))
    sizes = [max(1, bytes_of(dtype_of(scan.value)) // 4) for scan in scans]
    most = words if max(sizes) == 1 else min(words, WORDS)
    registers = max(1, most // (sum(sizes) * lanes))
    while registers > 1 and warp * lanes * registers >= 2 * length:
        registers //= 2
    return lanes, registers


class ScanDistributing(Distributing):
    """Builds the launches of such a field."""

    all_have_own = True

    def __init__(self, field: HirFunction, plan: ScanPlan) -> None:
        super().__init__(field, plan.table)
        self.scan_plan = plan
        self.others = [plan_.axis for plan_ in plan.table.plans if plan_.axis != plan.axis]
        self.known: dict[Scan, LookBack] = {}
        self.ticket: Value | None = None
        self.tile = Affine()
        """Number of the block's tile, along its scan."""

    # ---- blocks and threads ----

    def enter(self, plan: AxisPlan, loop: Affine, region: TileRegion) -> None:
        super().enter(plan, loop, region)
        if plan.warps > 1:
            region.forms[plan.axis] += Affine.of(self.threads[1].name) * plan.run
        if plan.axis == self.scan_plan.axis:
            self.tile = loop

    def loop_over(
        self, axis: str, group: Sequence[Target], region: TileRegion, result: dict[Target, list[Value]], state: dict[Target, list[Value]]
    ) -> None:
        if region.parent is None:
            self.shared_out(group, region)
        else:
            super().loop_over(axis, group, region, result, state)

    def shared_out(self, group: Sequence[Target], region: TileRegion) -> None:
        if self.scan_plan.tiled:
            self.nothing_known(region)
        super().shared_out(group, region)

    def nothing_known(self, region: TileRegion) -> None:
        """The launch that clears what tiles tell each other."""
        b = region.builder
        axis = self.scan_plan.axis
        extents, tiles = [self.field.axes[other] for other in self.others], self.field.axes[axis].ceildiv(self.table[axis].tile)
        self.ticket = ticket = b.alloc(Mem("i64", (1,), align=64), "ticket")
        self.known = {scan: LookBack.made(b, scan.monoid, dtype_of(scan.value), extents, tiles) for scan in self.scans}
        counts = [b.count(extent) for extent in (*extents, tiles)]
        total = b.product(counts)
        blocks = b.op("div", b.add(total, b.const(CLEARING - 1, "index")), b.const(CLEARING, "index"))
        with b.loop("block", 0, blocks.name, place="block", threads=CLEARING) as (body, loop):
            number = body.index(Affine.of(loop.variable.name) * CLEARING + thread_index(body).name)
            with body.when(body.op("eq", number, body.const(0, "index"))) as first:
                first.store(ticket, first.const(0, "i64"), [0])
            with body.when(body.op("lt", number, total)) as inner:
                *around, tile = inner.digits(number, counts[1:])
                for look_back in self.known.values():
                    look_back.clear(inner, [position.name for position in around], tile)

    def around(self, b: Builder, region: TileRegion) -> list[str]:
        """Which scan the block's tile is of."""
        return [b.index(region.forms[other]).name for other in self.others]

    def turn(self, b: Builder, number: Value) -> Value:
        """Tiles in the order in which blocks begin: those that a block waits for have begun before it."""
        if self.ticket is None:
            return number
        thread = thread_index(b)
        box = self.shared_memory("turn", "i64", (1,))
        with b.when(b.op("eq", thread, b.const(0, "index"))) as first:
            taken = first.emit(Atomic(operation="add", mem=self.ticket, index=(Affine(),), value=first.const(1, "i64"))).result
            first.store(box, taken, [0])
        b.emit(SyncThreads())
        return b.cast(b.load(box, [0]), "index")

    # ---- running values ----

    def make(self, op: Instruction, value: Value, region: TileRegion) -> Value:
        """With a tile a block, a running value is made where it is read."""
        if isinstance(op, Scan):
            self.scanned(op, None, region)
            return region.made[value]
        return super().make(op, value, region)

    def scan_step(self, scan: Scan, before: Value, region: TileRegion) -> Value:
        return self.scanned(scan, before, region)

    def scanned(self, scan: Scan, before: Value | None, region: TileRegion) -> Value:
        """The tile's running values, noted in the region, and what stands behind the tile; `before` None: nothing, or what look-back
        finds."""
        b, axis = region.builder, self.scan_plan.axis
        plan = self.table[axis]
        (number,) = identity_of(scan.monoid, [dtype_of(scan.value)])
        nothing = b.const(number, dtype_of(scan.value))
        value = self.masked(self.value(scan.value, region), number, [axis], region)
        joined = Joining(b, scan.monoid, scan.flags, self.table.machine.lanes)
        rows = next((name for name, _, _ in plan.digits() if name != SIMD), None)
        within, total = joined.along(SIMD, value, plan.lanes, scan.exclusive) if plan.lanes > 1 else (None, value)
        lead: Value | None = None
        if plan.threads > 1:
            lead, total = joined.over_lanes(total, self.threads[plan.dim], nothing)
        if rows is not None:
            above, total = joined.before(rows, total, plan.registers)
            lead = above if lead is None else joined(above, lead)
        # What stands before a register goes in at once: behind the barriers only one number is kept beside the elements.
        own = within if within is not None else None if scan.exclusive else value
        total_ = own if lead is None else lead if own is None else joined(lead, own)
        start = before
        if plan.warps > 1:
            first, total = self.over_warps(joined, total, nothing)
            start = first if start is None else joined(start, first)
        if self.known:
            preceding = self.found(self.known[scan], total, region)
            start = preceding if start is None else joined(preceding, start)
        if start is not None:
            total_ = start if total_ is None else joined(start, total_)
        assert total_ is not None, "a tile of one element with nothing before it"
        region.made[scan.result] = total_
        return total if before is None else joined(before, total)

    def over_warps(self, joined: Joining, total: Value, nothing: Value) -> tuple[Value, Value]:
        """What the warps before this one make, and what all make; where lanes stand beside the scan, each lane for itself."""
        b, plan = joined.b, self.table[self.scan_plan.axis]
        lane, warp = self.threads
        if plan.threads > 1:
            memory = self.shared_memory("warps", dtype_of(total), (plan.warps,))
            return joined.over_warps(total, warp, nothing, memory, plan.warps, (), b.op("eq", lane, b.const(0, "index")))
        memory = self.shared_memory("warps", dtype_of(total), (plan.warps, self.table.machine.lanes))
        return joined.over_warps(total, warp, nothing, memory, plan.warps, (lane.name,))

    def found(self, look_back: LookBack, total: Value, region: TileRegion) -> Value:
        """What stands before the block's tile: its first warp looks, all get it."""
        b = region.builder
        lane, warp = self.threads
        box = self.shared_memory("found", look_back.dtype, (1,))
        with b.when(b.op("eq", warp, b.const(0, "index"))) as first:
            before = look_back.before(first, self.around(first, region), first.index(self.tile), total, lane)
            first.store(box, before, [0], first.op("eq", lane, first.const(0, "index")))
        b.emit(SyncThreads())
        value = b.load(box, [0])
        b.emit(SyncThreads())
        return value
