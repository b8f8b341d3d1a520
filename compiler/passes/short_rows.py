"""Loops whose number of turns data say, and that do nothing but reduce what lies in memory side by side: where they are short, as rows of a
sparse matrix are, they go in vectors under a mask to their end. A loop of whole vectors and one of single elements behind it would each end
by a branch that isn't foretold.

for %k in %a..%b carried=...   =>   if %b - %a < 64 { for %k in %a..%b carried=... masked=true } else { for %k in %a..%b carried=... }"""

from collections.abc import Mapping, Sequence

from compiler.analysis.ends_by_data import ends_by_data
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field

SHORT = 64
"""Turns below which a loop is short: some vectors."""

MASKED_BYTES = 4
"""Of the narrowest elements that vectors of common machines load under a mask."""


def short_rows(function: HirFunction) -> HirFunction:
    """The function with such loops twice; itself where it has none."""
    ops = [op for top in function.body.body for op in top.walk()]
    made = {value.name: op for op in ops for value in op.results}
    loops = frozenset(op for op in ops if isinstance(op, For) and _is_row(op, made))
    return _Rows(function, loops=loops).run() if loops else function


def _is_row(op: For, made: Mapping[str, Instruction]) -> bool:
    if not op.carried or op.step != 1 or op.place != "time" or op.marks:
        return False
    loads = [inner for inner in op.body.body if isinstance(inner, Load)]
    inside = {value.name for inner in op.body.body for value in inner.results}
    plain = all(not i.regions and (i.effects in (Effect.PURE, Effect.READ) or isinstance(i, Yield)) for i in op.body.body)
    return plain and bool(loads) and all(_is_beside(load, op.variable.name, inside) for load in loads) and ends_by_data(op, made.get)


def _is_beside(load: Load, variable: str, inside: set[str]) -> bool:
    mem = mem_of(load.mem)
    dense = mem.strides is None or mem.strides[-1].value == 1
    steps = [form.coefficient(variable) for form in load.index]
    named = {name for form in load.index for name in form.names}
    beside = dense and not any(steps[:-1]) and steps[-1] == 1
    return beside and load.where is None and named.isdisjoint(inside) and bytes_of(mem.dtype) >= MASKED_BYTES


@define(eq=False)
class _Rows(Rebuild):
    loops: frozenset[Instruction] = field(default=frozenset(), kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.loops or not isinstance(op, For):
            return self.copy(op, into)
        few = into.op("lt", into.index(self.form(op.high) - self.form(op.low)), into.const(SHORT, "index"))
        with into.branch(few, [value.type for value in op.results]) as (then, otherwise, chosen):
            for side, marks in (then, (("masked", True),)), (otherwise, ()):
                side.yield_(*side.emit(rebuilt(self.renewed(op, side), lambda value: value, marks=marks)).results)
        return chosen.results
