"""Loops that change elements at indices which are data, and check these indices on the way, take several turns at once: LLVM makes no
vectors of them, and writes out no loop that it may leave between two turns. What the turns go along is fetched ahead.

for i in a..b { %k = load %x[i]  check %inside  store %out[%k], .. }
=>  for i in a..c step 8 ahead=4096 { .. check .. store ..  /* of i, i + 1, up to i + 7 */ }  for i in c..b { .. check .. store .. }"""

from collections.abc import Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Check, Store
from compiler.hir.module import HirFunction
from compiler.passes.checked_together import AHEAD
from compiler.passes.rewrite import Rebuild
from compiler.passes.stop_at_faults import data_in
from runtime.records import define, field

TURNS = 8


def turns_at_once(function: HirFunction) -> HirFunction:
    """The function (form A) with such loops; itself where it has none."""
    loops = [op for top in function.body.body for op in top.walk() if isinstance(op, For)]
    if not any(isinstance(op, Check) for loop in loops for op in loop.body.body):
        return function
    data = data_in(function)
    chosen = frozenset(loop for loop in loops if _is_chosen(loop, data))
    return _Together(function, loops=chosen).run() if chosen else function


def _is_chosen(loop: For, data: set[str]) -> bool:
    body = loop.body.body
    if loop.step != 1 or loop.carried or any(op.regions for op in body) or loop.mark("unroll") is not None:
        return False
    changes = any(isinstance(op, Store) and loop.variable.name not in op.symbols and not data.isdisjoint(op.symbols) for op in body)
    return changes and any(isinstance(op, Check) for op in body)


@define(eq=False)
class _Together(Rebuild):
    loops: frozenset[Instruction] = field(default=frozenset(), kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.loops or not isinstance(op, For):
            return self.copy(op, into)
        low, high = self.form(op.low), self.form(op.high)
        count = into.op("max", into.index(high - low), into.index(0))
        middle = low + Affine.of(count.name).floordiv(TURNS) * TURNS
        for first, behind, turns in (low, middle, TURNS), (middle, high, 1):
            marks: dict[str, Any] = {"ahead": AHEAD} if turns > 1 else {}
            with into.loop(op.variable.name, first, behind, turns, place=op.place, **marks) as (body, loop):
                for turn in range(turns):
                    self.bind(op.variable, body.index(Affine.of(loop.variable.name) + turn) if turn else loop.variable)
                    for each in op.body.body:
                        if not isinstance(each, Yield):
                            body.span = each.span
                            for old, new in zip(each.results, self.copy(each, body), strict=True):
                                self.bind(old, new)
        return []
