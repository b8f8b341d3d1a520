"""Elements of memory that a function doesn't write are read once where they are read again behind that, or in loops and branches there;
what was stored just before isn't read, and a check that has been made isn't made again. What all turns of a loop begin with is read and
checked before it, if it has a turn.

check %ok  %a = load %x[%k]  %k2 = load %i[0]  check %ok2  store %x[%k2], ...      // %k came of %i[0], too
=>  check %ok  %a = load %x[%k]  store %x[%k], ...

for j in 0..n { %k = load %i[0]  check %ok  store %out[j], ... }
=>  if 0 < n { %k = load %i[0]  check %ok  for j in 0..n { store %out[j], ... } }"""

from collections.abc import Sequence
from typing import TypeGuard

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field


def repeated_reads(function: HirFunction, moved: bool = True) -> HirFunction:
    """The function without them; itself if it has no checks, since LLVM reads once what nothing else stands between. `moved`: whether what
    turns begin with may stand before their loop."""
    ops = (op for top in function.body.body for op in top.walk())
    return _Once(function, moved=moved).run() if any(isinstance(op, Check) for op in ops) else function


def reads_once(function: HirFunction) -> HirFunction:
    """The function with nothing of it moved, whether it has checks or not: branches that only read again become branches that choose."""
    return _Once(function, moved=False).run()


def written_in(function: HirFunction) -> frozenset[Value]:
    """Memories that the function may write, among other operands of what does."""
    ops = [op for top in function.body.body for op in top.walk()]
    return frozenset(value for op in ops if op.effects not in (Effect.PURE, Effect.READ) and not op.regions for value in op.operand_values)


@define(eq=False)
class _Once(Rebuild):
    moved: bool = field(default=True, kw_only=True)
    held: frozenset[Value] = field(default=frozenset(), init=False)
    """Conditions that checks have seen."""
    written: frozenset[Value] = field(default=frozenset(), init=False)

    def run(self) -> HirFunction:
        self.written = written_in(self.source)
        return Rebuild.run(self)

    first: frozenset[Instruction] = field(default=frozenset(), init=False)
    """What has been done before its loop."""

    stored: dict[tuple[Value, tuple[Affine, ...]], Value] = field(factory=dict, init=False)
    """What elements hold that were stored in this region, behind everything else that writes."""

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op in self.first:
            return [self.values[result] for result in op.results]
        if isinstance(op, Load | Store):
            element = op.mem, tuple(map(self.form, op.index))
            if isinstance(op, Load) and op.where is None and element in self.stored:
                return [self.stored[element]]
            if isinstance(op, Store):
                apart = mem_of(op.mem).noalias
                self.stored = {each: value for each, value in self.stored.items() if apart and each[0] is not op.mem}
                self.stored |= {} if op.where is not None else {element: self.values[op.value]}
        elif not op.regions and op.effects not in (Effect.PURE, Effect.READ) and not isinstance(op, Check):
            self.stored = {}
        if self.moved and isinstance(op, For) and not op.results and op.place != "thread":
            ahead = self.ahead(op)
            if any(isinstance(each, Check) for each in ahead):
                return self.after(ahead, op, into)
        if isinstance(op, Check):
            condition = self.values[op.condition]
            if condition in self.held:
                return []
            self.held |= {condition}
        if self.is_constant(op):
            return into.emit(self.renewed(op, into), op.result.name, repeats=False).results
        return self.copy(op, into)

    def is_constant(self, op: Instruction) -> TypeGuard[Load]:
        """Whether it reads memory that the function doesn't write."""
        return isinstance(op, Load) and op.mem in self.source.parameters and mem_of(op.mem).noalias and op.mem not in self.written

    def ahead(self, loop: For) -> list[Instruction]:
        """The instructions that are the same in all turns of a loop, as far as nothing that differs could be seen before them."""
        varying = {value.name for value in loop.body.parameters}
        same: list[Instruction] = []
        for op in loop.body.body:
            if not varying.isdisjoint((*op.symbols, *(value.name for value in op.operand_values))) or op.regions:
                varying.update(value.name for value in op.results)
                if op.regions or not (op.effects is Effect.PURE or self.is_constant(op)):
                    break
            elif op.effects is Effect.PURE or isinstance(op, Check) or self.is_constant(op):
                same.append(op)
            else:
                break
        return same

    def after(self, ahead: Sequence[Instruction], loop: For, into: Builder) -> Sequence[Value]:
        """A loop behind what is the same in all its turns."""
        held, first = self.held, self.first
        with into.when(into.op("lt" if loop.step > 0 else "gt", into.index(self.form(loop.low)), into.index(self.form(loop.high)))) as runs:
            for op in ahead:
                for old, new in zip(op.results, self.instruction(op, runs), strict=True):
                    self.bind(old, new)
            self.first = first.union(ahead)
            self.copy(loop, runs)
        self.held, self.first = held, first
        return []

    def nested(self, old: Region, into: Builder) -> Region:
        before, self.stored = self.held, {}
        new = Rebuild.nested(self, old, into)
        self.held, self.stored = before, {}
        return new
