"""Short loops inside a loop whose iterations need their order are written out: what reads ahead along it takes plain instructions only.

for m in 0..N { for j in 0..2 { .. load %x[2*m+j] .. } }   =>   for m in 0..N { .. load %x[2*m] ..  .. load %x[2*m+1] .. }"""

from collections.abc import Sequence

from compiler.analysis.dependence import LoopKind, analyse
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define

MOST_TURNS, MOST_WRITTEN = 16, 256
"""Turns of a loop that is written out, and instructions that those of a loop around come to."""


def without_short_turns(function: HirFunction) -> HirFunction:
    """The function (form A) with such loops written out; itself where it has none."""
    loops = {
        inside
        for op, facts in analyse(function).loops.items()
        if facts.kind in (LoopKind.SERIAL, LoopKind.SCAN) and 0 < _written(op.body.body) <= MOST_WRITTEN
        for top in op.body.body
        for inside in top.walk()
        if isinstance(inside, For)
    }
    return _WrittenOut(function, loops=frozenset(loops)).run() if loops else function


def _written(ops: Sequence[Instruction]) -> int:
    """How many instructions they come to, written out; many where that can't be."""
    total = 0
    for op in ops:
        turns = _turns(op) if isinstance(op, For) else None
        if op.regions and turns is None:
            return MOST_WRITTEN + 1
        total += 1 if turns is None else turns * _written(op.regions[0].body)
    return total


def _turns(op: For) -> int | None:
    count = (op.high - op.low).value
    is_plain = op.step == 1 and op.place == "time" and all(name == "written" for name, _ in op.marks)
    return count if count is not None and is_plain and 0 < count <= MOST_TURNS else None


@define(eq=False)
class _WrittenOut(Rebuild):
    loops: frozenset[Instruction]

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.loops:
            return self.copy(op, into)
        assert isinstance(op, For)
        carried: Sequence[Value] = [self.values[value] for value in op.carried]
        for turn in range(_turns(op) or 0):
            self.bind(op.variable, into.index(self.form(op.low) + turn))
            for old, new in zip(op.body.parameters[1:], carried, strict=True):
                self.bind(old, new)
            for each in op.body.body:
                into.span = each.span
                if isinstance(each, Yield):
                    carried = [self.values[value] for value in each.operand_values]
                    continue
                for old, new in zip(each.results, self.instruction(each, into), strict=True):
                    self.bind(old, new)
        return carried
