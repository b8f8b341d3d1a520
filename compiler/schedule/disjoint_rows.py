"""Nests whose rows data bound, where these are disjoint: the loop of rows is marked, and what has to hold is computed from the bounds.

for r in 0..R { for k in ptr[r]..ptr[r + 1] { store %out[k], .. } }
=>  late = the most by which a row ends behind where the next one begins
    if late <= 0 { for r in 0..R disjoint { .. } } else { for r in 0..R { .. } }"""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.analysis.dependence import LoopKind, NestFacts, analyse
from compiler.analysis.disjoint_rows import MARK, DisjointRows, disjoint_rows
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.repeated_reads import repeated_reads
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field


def with_disjoint_rows(nest: HirFunction, facts: NestFacts, once: bool = False) -> tuple[HirFunction, NestFacts]:
    """The nest with loops marked that are independent where their rows are disjoint, and its facts; themselves where there are none.
    `once`: bounds of several loops are read once."""
    loops = [loop for op in nest.body.body if isinstance(op, For) if (loop := _loop_of_rows(op, facts)) is not None]
    if not loops:
        return nest, facts
    marked = _Marking(nest, rows=frozenset(loops)).run()
    marked = repeated_reads(marked, moved=False) if once else marked
    known = analyse(marked)
    return (marked, known) if all(_is_independent(op, known) for op in marked.body.body) else (nest, facts)


def _loop_of_rows(op: For, facts: NestFacts) -> For | None:
    """The outermost loop of a nest that keeps an order, if it writes rows."""
    while facts.loops[op].kind is not LoopKind.SERIAL:
        inner = [one for one in op.body.body if isinstance(one, For)]
        if len(inner) != 1 or op.carried:
            return None
        op = inner[0]
    return op if not facts.loops[op].conflicts and disjoint_rows(facts.nest, op) is not None else None


def _is_independent(op: Instruction, facts: NestFacts) -> bool:
    return all(facts.loops[one].kind is LoopKind.PARALLEL for one in op.walk() if isinstance(one, For) and one.mark(MARK))


@define(eq=False)
class _Marking(Rebuild):
    rows: frozenset[Instruction] = field(kw_only=True)

    def renewed(self, op: Instruction, into: Builder) -> Instruction:
        new = Rebuild.renewed(self, op, into)
        if op in self.rows and isinstance(new, For):
            new.marks = (*new.marks, (MARK, True))
        return new


def marked_in(op: Instruction) -> For | None:
    """The loop of rows of a nest that is marked so."""
    return next((one for one in op.walk() if isinstance(one, For) and one.mark(MARK)), None)


def lateness(rows: DisjointRows, variables: Mapping[Value, Value], values: Mapping[Value, Value], b: Builder) -> Value:
    """How far a row ends behind where the next one begins, of whatever both write; `variables`: those of the loops, `values`: what they
    stand in knows."""
    following = b.index(Affine.of(variables[rows.loops[-1].variable].name) + rows.loops[-1].step)
    low, high = _ends(rows, {**values, **variables}, b)
    begin, _ = _ends(rows, {**values, **variables, rows.loops[-1].variable: following}, b)
    return b.sub(b.op("max", low, high), begin)


def _ends(rows: DisjointRows, values: dict[Value, Value], b: Builder) -> tuple[Value, Value]:
    """Where what a row writes begins, and ends."""

    def form(old: Affine) -> Affine:
        return old.substitute({value.name: new.name for value, new in values.items() if value.name in old.names})

    for op in rows.ops:
        changes: dict[str, Any] = {}
        if op in rows.checked and isinstance(op, Load):
            inside = None
            for index, extent in zip(op.index, mem_of(op.mem).dims, strict=True):
                inside = b.both(inside, b.inbounds(form(index), form(extent)))
            changes = {"where": inside}
        new = b.emit(rebuilt(op, lambda value: values.get(value, value), form, **changes), op.results[0].name)
        values.update(zip(op.results, new.results, strict=True))
    low = high = None
    for span in rows.spans:
        first, behind = b.index(form(span.low)), b.index(form(span.high))
        low = first if low is None else b.op("min", low, first)
        high = behind if high is None else b.op("max", high, behind)
    assert low is not None and high is not None
    return low, high


def where_disjoint(nest: HirFunction, facts: NestFacts) -> HirFunction:
    """The nest with such loops marked where their rows are disjoint, and as written where they aren't; itself if it has none."""
    marked, known = with_disjoint_rows(nest, facts)
    return marked if marked is nest else _Twice(marked, facts=known).run()


@define(eq=False)
class _Twice(Rebuild):
    facts: NestFacts = field(kw_only=True)
    leaves_marks: bool = field(default=True, init=False)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        loop = marked_in(op) if self.leaves_marks else None
        if loop is None:
            return self.copy(op, into)
        rows = disjoint_rows(self.facts.nest, loop)
        assert rows is not None
        late = self.latest(rows, rows.loops, {}, into.const(0, "index"), into)
        with into.branch(into.op("le", late, into.const(0, "index"))) as (disjoint, other, _):
            self.copy(op, disjoint)
            self.leaves_marks = False
            self.copy(op, other)
            self.leaves_marks = True
        return []

    def latest(self, rows: DisjointRows, loops: Sequence[For], variables: dict[Value, Value], sofar: Value, b: Builder) -> Value:
        """The most by which any row is late."""
        if not loops:
            return b.op("max", sofar, lateness(rows, variables, self.values, b), name="late")
        loop = loops[0]
        names = {old.name: new.name for old, new in variables.items()}
        low, high = (self.form(end).substitute(names) for end in (loop.low, loop.high))
        behind = high - loop.step if loop is rows.loops[-1] else high
        with b.loop(loop.variable.name, low, behind, loop.step, [sofar]) as (inner, walked):
            variables[loop.variable] = walked.variable
            inner.yield_(self.latest(rows, loops[1:], variables, walked.carried[0], inner))
        return walked.results[0]

    def renewed(self, op: Instruction, into: Builder) -> Instruction:
        new = Rebuild.renewed(self, op, into)
        if not self.leaves_marks and isinstance(new, For):
            new.marks = tuple(each for each in new.marks if each[0] != MARK)
        return new
