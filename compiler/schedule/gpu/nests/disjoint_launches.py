"""Launches of a nest whose rows data bound and have to be disjoint. A thread for each row looks whether it ends before the next one begins,
and sets a mark where it doesn't. The launches behind read the mark first: those of independent iterations do nothing where it is set, and
one block that keeps the order does nothing where it isn't."""

from compiler.analysis.dependence import NestFacts
from compiler.analysis.disjoint_rows import disjoint_rows
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import For, If
from compiler.hir.gpu import SharedAlloc, SyncThreads
from compiler.hir.instruction import Region, Value
from compiler.hir.types import Mem
from compiler.schedule.disjoint_rows import lateness
from compiler.schedule.gpu.nests.barriers import Barriers
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.spread import spreads_in
from compiler.schedule.launches import Either, Launch
from compiler.schedule.stages import Around, Group, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import evolve, frozen

ALONE = 1024
"""Threads of the block that keeps the order."""


def mark_memory() -> Value:
    """A mark: 0 before the launches and after."""
    return Value("late", Mem("u32", (1,)))


@frozen(eq=False)
class DisjointLaunches:
    """The launches around those of a loop of rows. `mark`: its memory; `around`: what all launches have in common."""

    loop: For
    mark: Value
    around: Around
    group: Group
    facts: NestFacts
    lanes: int

    def looking(self, name: str) -> Launch:
        """Sets the mark."""
        rows = disjoint_rows(self.facts.nest, self.loop)
        assert rows is not None
        start, counts = Start(self.around, name, (BLOCK, 1, 1)), [iterations(loop) for loop in rows.loops]
        b = start.out.body
        sizes = [b.count(start.copy.form(count)) for count in (*counts[:-1], counts[-1] - 1)]
        place = b.index(start.place, "place")
        with b.when(b.op("lt", place, b.product(sizes))) as inner:
            start.take(self.group, inner)
            for loop, digit in zip(rows.loops, inner.digits(place, sizes[1:]), strict=True):
                start.copy.variable(loop, digit, inner)
            variables = {loop.variable: start.values[loop.variable] for loop in rows.loops}
            late = inner.op("lt", inner.const(0, "index"), lateness(rows, variables, start.values, inner))
            inner.store(self.memory(start), inner.const(1, "u32"), [0], late)
        return start.finish(tuple(counts), BLOCK)

    def in_order(self, name: str) -> Launch:
        """One block, where the mark is set, and clears it."""
        start = Start(self.around, name, (ALONE, 1, 1))
        spreads = spreads_in(self.loop.body, self.facts)
        barriers = Barriers(self.facts, spreads)
        barriers.place(Region([], self.group.body))
        b = start.out.body
        start.take(self.group, b)
        work = Cooperation(start, spreads, barriers, self.lanes)
        work.all(self.group.body, b)
        b.emit(SyncThreads())
        b.store(self.memory(start), b.const(0, "u32"), [0], work.first)
        return self.where(True, start.finish((Affine((), 1),), 1, work.dynamic))

    def memory(self, start: Start) -> Value:
        return start.workspaces[self.around.others[self.mark]]

    def where(self, set_: bool, stage: Launch) -> Launch:
        """A launch that does nothing where the mark is another."""
        function = stage.function
        mark = function.parameters[len(self.around.function.parameters) + self.around.others[self.mark]]
        out = FunctionBuilder(function.name, function.form, {**function.axes})
        out.scope = function.scope()
        out._taken |= out.scope.types.keys()
        b = out.body
        for op in function.body.body:
            if isinstance(op, SharedAlloc):
                b.region.body.append(op)
        rest = Region([], [op for op in function.body.body if not isinstance(op, SharedAlloc)])
        b.emit(If(condition=b.op("ne" if set_ else "eq", b.load(mark, [0]), b.const(0, "u32")), then=rest))
        return evolve(stage, function=evolve(function, body=b.region))


def where_not_late(stage: Launch | Either, launches: DisjointLaunches) -> Launch | Either:
    """A stage of independent iterations, where these are."""
    if isinstance(stage, Either):
        return evolve(stage, blocks=launches.where(False, stage.blocks), threads=launches.where(False, stage.threads))
    return launches.where(False, stage)
