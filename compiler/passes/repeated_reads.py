"""Elements of memory that a function doesn't write are read once where they are read again behind that, or in loops and branches there; and
a check that has been made isn't made again.

check %ok  %a = load %x[%k]  %k2 = load %i[0]  check %ok2  store %x[%k2], ...      // %k came of %i[0], too
=>  check %ok  %a = load %x[%k]  store %x[%k], ..."""

from collections.abc import Sequence

from compiler.hir.build import Builder
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, mem_of
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field


def repeated_reads(function: HirFunction) -> HirFunction:
    """The function without them; itself if it has no checks, since LLVM reads once what nothing else stands between."""
    ops = (op for top in function.body.body for op in top.walk())
    return _Once(function).run() if any(isinstance(op, Check) for op in ops) else function


def written_in(function: HirFunction) -> frozenset[Value]:
    """Memories that the function may write, among other operands of what does."""
    ops = [op for top in function.body.body for op in top.walk()]
    return frozenset(value for op in ops if op.effects not in (Effect.PURE, Effect.READ) and not op.regions for value in op.operand_values)


@define(eq=False)
class _Once(Rebuild):
    held: frozenset[Value] = field(default=frozenset(), init=False)
    """Conditions that checks have seen."""
    written: frozenset[Value] = field(default=frozenset(), init=False)

    def run(self) -> HirFunction:
        self.written = written_in(self.source)
        return Rebuild.run(self)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if isinstance(op, Check):
            condition = self.values[op.condition]
            if condition in self.held:
                return []
            self.held |= {condition}
        if isinstance(op, Load) and op.mem in self.source.parameters and mem_of(op.mem).noalias and op.mem not in self.written:
            return into.emit(self.renewed(op, into), op.result.name, repeats=False).results
        return self.copy(op, into)

    def nested(self, old: Region, into: Builder) -> Region:
        before = self.held
        new = Rebuild.nested(self, old, into)
        self.held = before
        return new
