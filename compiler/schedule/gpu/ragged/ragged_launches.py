"""Launches of rows of a ragged axis: some lanes a row, or a block, and behind that blocks that share the longest."""

from collections.abc import Mapping
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import LaunchBounds
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.nests.cooperate import counts_of
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import align
from compiler.schedule.gpu.ragged.ragged import LaneCooperation, RowShape, row_barriers
from compiler.schedule.gpu.ragged.ragged_parts import BLOCKS, RowParts, RowsInParts
from compiler.schedule.gpu.ragged.ragged_running import RowWork
from compiler.schedule.gpu.ragged.staged_rows import StagedCooperation, StagedRows
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Group, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import evolve, frozen


@frozen(eq=False)
class RaggedRows:
    """A leading nest whose rows data bound, and how threads share them. `own`: slots and scratch memories of each row."""

    nest: Spread
    spreads: Mapping[For, Spread]
    shape: RowShape
    parts: RowParts | None
    staged: StagedRows | None
    own: tuple[Value, ...]
    facts: NestFacts
    known: Facts
    late: Value | None = None
    """The mark of rows that aren't disjoint, which lanes read while they read where rows begin."""

    @property
    def body(self) -> list[Instruction]:
        return [*self.nest.between, *self.nest.inner.body.body]

    def launches(self, around: Around, group: Group, name: str) -> list[Launch]:
        launches = [_Launch(self, around, group, name, self.shape.threads).finish()]
        for number in range(len(self.parts.loops) if self.parts is not None else 0):
            behind = _Launch(self, around, group, f"{name}_parts{number or ''}", BLOCK)
            assert behind.parts is not None
            launches.append(behind.parts.launch(number, behind.variables, BLOCKS * self.known.processors))
        return launches


class _Launch:
    """A launch that begins like the others."""

    def __init__(self, rows: RaggedRows, around: Around, group: Group, name: str, threads: int) -> None:
        self.rows, self.start = rows, Start(around, name, (threads, 1, 1))
        align(self.start, rows.known)
        self.start.take(group, self.start.out.body)
        self.counts = counts_of(rows.nest, self.start.copy, self.start.out.body)
        self.barriers = row_barriers(rows.body, rows.spreads, rows.facts)
        self.block = RowWork(self.start, rows.spreads, self.barriers, rows.known.machine.lanes, rows.shape.turns, rows.shape.pieces)
        self.parts = RowsInParts(rows.parts, self.block, around) if rows.parts is not None else None

    def variables(self, row: Value, b: Builder) -> None:
        """Makes a row's variables known to the block."""
        self.block.digits(self.rows.nest, row, self.counts, b)
        self.block.own(self.rows.own, b)

    def by_block(self, row: Value, b: Builder) -> None:
        self.variables(row, b)
        held = self.rows.shape.held if self.rows.shape.by_block else ()
        if self.parts is not None:
            self.parts.leave(row, self.rows.body, held, b)
        else:
            self.block.all_of_row(self.rows.body, held, self.start.threads, b)

    def finish(self) -> Launch:
        """All rows."""
        rows, shape, start = self.rows, self.rows.shape, self.start
        b, counts, share = start.out.body, tuple(iterations(loop) for loop in rows.nest.loops), 1
        if shape.by_block:
            self.by_block(start.number, b)
        else:
            given = start, rows.spreads, self.barriers, shape, rows.known.machine.lanes
            late = None if rows.late is None else b.load(start.workspaces[start.around.others[rows.late]], [0])
            if rows.staged is not None:
                staged, all_rows = StagedCooperation(*given, rows.staged), b.product(self.counts)
                counts = (Affine.of(staged.blocks(all_rows, b).name),)
                self.by_batches(staged, late, all_rows, b)
            else:
                work, share = LaneCooperation(*given), start.threads // shape.lanes
                each, lanes = (b.const(number, "index") for number in (work.lanes // shape.lanes, shape.lanes))
                own = b.op("div", work.thread, lanes)
                work.begin(b.index(Affine.of(start.number.name) * share), each, own, b.product(self.counts), b)
                self.by_lanes(work, late, b)
                if work.long is not None:
                    self.long_rows(work, b)
        launch = start.finish(counts, share)
        if (info := launch.function.kernel_info) is not None:
            launch.function.kernel_info = evolve(info, launch_bounds=LaunchBounds(prod(launch.block), shape.resident // shape.threads))
        return launch

    def by_lanes(self, work: LaneCooperation, late: Value | None, b: Builder, bounds: bool = False) -> None:
        """The rows with which the block begins; their `bounds` alone. `late`: where it isn't 0, none."""
        work.digits(self.rows.nest, work.row, self.counts, b)
        if late is not None:
            work.only_where(b.op("eq", late, b.const(0, "u32")), b)
        if bounds and isinstance(work, StagedCooperation):
            work.all(work.staged.before, b)
            work.begins(work.loop, b)
        else:
            work.own(self.rows.own, b)
            work.all_of_row(self.rows.body, self.rows.shape.held, self.rows.shape.lanes, b)

    def by_batches(self, work: StagedCooperation, late: Value | None, rows: Value, b: Builder) -> None:
        """All rows of the block, of which it copies what they read; then those that are left to it."""
        work.stage(lambda number, inner: work.digits(self.rows.nest, number, self.counts, inner), rows, b)
        with work.batches(b) as inner:
            self.by_lanes(work, late, inner)
            if work.long is not None:
                work.leave(inner)
        if self.rows.shape.long is not None:
            with work.when_left(b) as some, work.batches(some) as inner:
                self.by_lanes(work, late, inner, bounds=True)
                self.long_rows(work, inner)

    def long_rows(self, work: LaneCooperation, b: Builder) -> None:
        with work.long_rows(b) as (inner, row):
            self.by_block(row, inner)
