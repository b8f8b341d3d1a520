"""Loops that count down count up: what walks along a loop, and reads ahead of it, knows one direction.

for y in H-1..-1 step -1 { .. load %x[y] .. }  =>  for y in 0..H { .. load %x[H-1-y] .. }"""

from collections.abc import Sequence

from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define


def counting_up(function: HirFunction) -> HirFunction:
    """The function (form A) with such loops; itself where it has none."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    return _CountingUp(function).run() if any(loop.step == -1 for loop in loops) else function


@define(eq=False)
class _CountingUp(Rebuild):
    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if not isinstance(op, For) or op.step != -1:
            return self.copy(op, into)
        low, high = self.form(op.low), self.form(op.high)
        carried = [self.values[value] for value in op.carried]
        with into.loop(op.variable.name, 0, low - high, 1, carried, op.place, **dict(op.marks)) as (body, loop):
            self.bind(op.variable, body.index(low - loop.variable.name))
            for old, new in zip(op.body.parameters[1:], loop.carried, strict=True):
                self.bind(old, new)
            for each in op.body.body:
                body.span = each.span
                if isinstance(each, Yield):
                    body.yield_(*(self.values[value] for value in each.operand_values))
                    continue
                for old, new in zip(each.results, self.instruction(each, body), strict=True):
                    self.bind(old, new)
        return loop.results
