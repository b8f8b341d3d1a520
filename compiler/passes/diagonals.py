"""Two loops, one in the other, whose iterations both need their order become diagonals: cells of a table that are computed from those
above and before them, as in alignments of texts and in sums over rectangles. The cells of a diagonal need nothing of each other.

for i in 0..H { for j in 0..W { .. load %t[i-1, j], load %t[i, j-1], store %t[i, j] .. } }   =>
    for d in 0..H+W-1 { for i in 0..H { if 0 <= d-i and d-i < W { .. of j = d-i .. } } }

Where a cell needs the one above and behind it (`%t[i-1, j+1]`), a row begins two diagonals after the one above: j = d-2*i. What is stored
before a row's cells, or behind them, is stored in loops of its own, before all cells and behind them."""

from collections.abc import Iterator, Sequence

from compiler.analysis.dependence import LoopKind, NestFacts, analyse, conflict
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, If, Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field, frozen

SKEWS = (1, 2)
"""Diagonals from a row's first cell to that of the next row."""


def diagonals(function: HirFunction) -> HirFunction:
    """The function (form A) with diagonals for such loops; itself where it has none."""
    for table in _tables(analyse(function)):
        for skew in SKEWS:
            rebuilding = _Diagonals(function, table=table, skew=skew)
            made = rebuilding.run()
            if analyse(made).loops[rebuilding.cells].kind is LoopKind.PARALLEL:
                return diagonals(made)
    return function


@frozen(eq=False)
class _Table:
    """A loop over rows, the loop over a row's cells in it, what is stored before and behind that, and values that all of a row share."""

    rows: For
    cells: For
    shared: tuple[Instruction, ...]
    before: tuple[Instruction, ...]
    behind: tuple[Instruction, ...]


def _tables(facts: NestFacts) -> Iterator[_Table]:
    stored = {access.mem for access in facts.nest.accesses if access.is_store}
    for rows, of_rows in facts.loops.items():
        inner = [op for op in rows.body.body if isinstance(op, For)]
        if of_rows.kind is not LoopKind.SERIAL or len(inner) != 1 or facts.loops[inner[0]].kind is not LoopKind.SERIAL:
            continue
        (cells,) = inner
        if any(loop.step != 1 or loop.carried or loop.place != "time" or _has_wishes(loop) for loop in (rows, cells)):
            continue
        at = rows.body.body.index(cells)
        others = [op for op in rows.body.body if op is not cells and not isinstance(op, Yield)]
        shared = _shared(others, stored)
        before, behind = (
            tuple(op for op in half if op in others and op not in shared) for half in (rows.body.body[:at], rows.body.body[at:])
        )
        varying = {value.name for op in others for value in op.results} | {rows.variable.name}
        if not varying.isdisjoint((*cells.low.names, *cells.high.names)) or _reads(before, (cells, *behind)):
            continue
        if all(_only_stores(op) for op in (*before, *behind)) and _may_be_apart(facts, rows, cells, before, behind):
            yield _Table(rows, cells, shared, before, behind)


def _has_wishes(loop: For) -> bool:
    return any(name != "written" for name, _ in loop.marks)


def _shared(ops: Sequence[Instruction], stored: set[Value]) -> tuple[Instruction, ...]:
    """Those that give the same wherever in their row they stand."""
    varying: set[Value] = set()
    shared = []
    for op in ops:
        same = not op.regions and (op.effects is Effect.PURE or (isinstance(op, Load) and op.mem not in stored))
        if same and varying.isdisjoint(op.operand_values):
            shared.append(op)
        else:
            varying.update(op.results)
    return tuple(shared)


def _reads(makers: Sequence[Instruction], readers: Sequence[Instruction]) -> bool:
    """Whether one of `readers` takes a value that one of `makers` makes."""
    made = {value for op in makers for value in op.results}
    names = {value.name for value in made}
    return any(not made.isdisjoint(each.operand_values) or not names.isdisjoint(each.symbols) for op in readers for each in op.walk())


def _only_stores(op: Instruction) -> bool:
    return all(isinstance(each, Store | Load | If | Yield) or each.effects is Effect.PURE for each in op.walk())


def _may_be_apart(facts: NestFacts, rows: For, cells: For, before: Sequence[Instruction], behind: Sequence[Instruction]) -> bool:
    """Whether what stands before a row's cells may run before those of all rows, and what stands behind them behind all."""
    loop = facts.nest.of_loop(rows)
    parts = [{op for top in part for op in top.walk()} for part in (before, (cells,), behind)]
    of_parts = [[access for access in facts.nest.accesses if access.op in part] for part in parts]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        for one in of_parts[first]:
            for other in of_parts[second]:
                if one.mem is other.mem and (one.is_store or other.is_store):
                    met = conflict(facts.nest, loop, one, other)
                    if met is not None and (met.distance is None or met.distance < 0):
                        return False
    return True


@define(eq=False)
class _Diagonals(Rebuild):
    table: _Table
    skew: int
    cells: For = field(init=False)
    """The loop over the cells of a diagonal."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op is not self.table.rows:
            return self.copy(op, into)
        self.apart(self.table.before, into)
        rows, cells = self.table.rows, self.table.cells
        low, high, first, end = (self.form(form) for form in (rows.low, rows.high, cells.low, cells.high))
        count = (high - low - 1) * self.skew + (end - first)
        name = f"{rows.variable.name}_{cells.variable.name}"
        with into.loop(name, 0, count) as (body, diagonal), body.loop(rows.variable.name, low, high) as (each, row):
            self.bind(rows.variable, row.variable)
            column = Affine.of(diagonal.variable.name) - (Affine.of(row.variable.name) - low) * self.skew + first
            at = each.index(column)
            with each.when(each.op("and", each.op("ge", at, each.index(first)), each.op("lt", at, each.index(end)))) as cell:
                self.bind(cells.variable, cell.index(column))
                self.all_of((*self.table.shared, *cells.body.body), cell)
        (made,) = (op for op in into.region.body if isinstance(op, For) and op.variable is diagonal.variable)
        (self.cells,) = (op for op in made.body.body if isinstance(op, For))
        self.apart(self.table.behind, into)
        return ()

    def apart(self, ops: Sequence[Instruction], into: Builder) -> None:
        rows = self.table.rows
        if ops:
            with into.loop(rows.variable.name, self.form(rows.low), self.form(rows.high)) as (body, row):
                self.bind(rows.variable, row.variable)
                self.all_of((*self.table.shared, *ops), body)

    def all_of(self, ops: Sequence[Instruction], into: Builder) -> None:
        for op in ops:
            if not isinstance(op, Yield):
                into.span = op.span
                for old, new in zip(op.results, self.instruction(op, into), strict=True):
                    self.bind(old, new)
