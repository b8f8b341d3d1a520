"""Steps that each go along a whole row and change all of its elements, as those of a sparse row times a matrix whose columns are its inner
loop: four of them go along the row at once, so that its elements pass through memory once for all four. What does not vary along the row,
such as an index that is data and its check, is computed before it. Each element is changed in the written order.

for k { for j { %old = load %out[r, j]  ..  store %out[r, j], %new } }
=>  for k step 4 { for j { %old = load %out[r, j]  .. of k, k + 1, k + 2, k + 3 ..  store %out[r, j], %new } }  for k { for j { .. } }"""

from collections.abc import Sequence

from compiler.analysis.dependence import NestFacts, analyse
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from compiler.schedule.lines import TURNS, are_apart, is_marked, same_in_all
from runtime.records import define, field, frozen


@frozen(eq=False)
class _RowOfSteps:
    """The loop along a row, what its turns read and store of it, and what they all have in common."""

    row: For
    old: Load
    store: Store
    shared: frozenset[Instruction]


def steps_at_once(nest: HirFunction, facts: NestFacts) -> tuple[HirFunction, NestFacts, tuple[str, ...]]:
    """The nest (form A) with such loops, its facts, and what was done in words."""
    loops = [op for top in nest.body.body for op in top.walk() if isinstance(op, For)]
    rows = {loop: row for loop in loops if (row := _row_of(loop, facts)) is not None}
    if not rows:
        return nest, facts, ()
    together = _AtOnce(nest, rows=rows).run()
    words = tuple(f"{steps.written}: {TURNS} steps at once go along {row.row.written}" for steps, row in rows.items())
    return together, analyse(together), words


def _row_of(steps: For, facts: NestFacts) -> _RowOfSteps | None:
    row = steps.body.body[0] if len(steps.body.body) == 1 else None
    if not isinstance(row, For) or steps.step != 1 or steps.carried or is_marked(steps) or not are_apart(row, facts):
        return None
    ops = row.body.body
    stores = [op for op in ops if isinstance(op, Store)]
    loads = [op for op in ops if isinstance(op, Load) and stores and op.mem is stores[0].mem]
    if any(op.regions for op in ops) or len(stores) != 1 or len(loads) != 1:
        return None
    (store,), (old,), shared = stores, loads, same_in_all(row.body, row.variable.name)
    varying = {steps.variable.name, *(value.name for op in ops for value in op.results)}
    fixed = varying.isdisjoint((*row.low.names, *row.high.names, *store.symbols))
    alone = store.where is None and old.where is None and store.index == old.index and mem_of(store.mem).noalias
    checked = {op for op in ops if isinstance(op, Check)} <= shared
    return _RowOfSteps(row, old, store, shared) if fixed and alone and checked else None


@define(eq=False)
class _AtOnce(Rebuild):
    rows: dict[For, _RowOfSteps] = field(factory=dict, kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if not isinstance(op, For) or op not in self.rows:
            return self.copy(op, into)
        steps = self.rows[op]
        low, high, first, behind = map(self.form, (op.low, op.high, steps.row.low, steps.row.high))
        none = into.const(0, "index")
        # a row without elements checks nothing
        count = into.select(into.op("lt", into.index(first), into.index(behind)), into.op("max", into.index(high - low), none), none)
        middle = low + Affine.of(count.name).floordiv(TURNS) * TURNS
        with into.loop(op.variable.name, low, middle, TURNS) as (body, loop):
            turns = []
            for number in range(TURNS):
                self.bind(op.variable, body.index(Affine.of(loop.variable.name) + number) if number else loop.variable)
                self.all_of([each for each in steps.row.body.body if each in steps.shared], body)
                turns.append((dict(self.values), dict(self.names)))
            with body.loop(steps.row.variable.name, first, behind, written=steps.row.written) as (one, along):
                sofar: Value | None = None
                for self.values, self.names in turns:
                    self.bind(steps.row.variable, along.variable)
                    for each in steps.row.body.body:
                        if each is steps.old and sofar is not None:
                            self.bind(steps.old.result, sofar)
                        elif each not in steps.shared and each is not steps.store:
                            self.all_of([each], one)
                    sofar = self.values[steps.store.value]
                self.all_of([steps.store], one)
        with into.loop(op.variable.name, middle, high) as (body, loop):
            self.bind(op.variable, loop.variable)
            self.region(op.body, body)
        return []

    def all_of(self, ops: Sequence[Instruction], into: Builder) -> None:
        for op in ops:
            if not isinstance(op, Yield):
                for old, new in zip(op.results, self.copy(op, into), strict=True):
                    self.bind(old, new)
