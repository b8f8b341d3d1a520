"""Loops along rows that data choose: no processor foresees where the next row begins, but the indices of rows to come are there to be read.
Such loops are marked with how many turns of the loop around them lie between a row and the one that is fetched beside it.

for i in 0..n { %r = load %x[i]  for c in 0..m { .. %out[%r, c] .. } }   =>   for c in 0..m rows_ahead=32 { .. }"""

from collections.abc import Iterator, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.core import Cast
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from runtime.records import define, field

TURNS = 32
"""Between a row and the one that is fetched: rows that lie in memory take as long as some dozens of those that are near."""


def rows_to_come(function: HirFunction) -> HirFunction:
    """The function with such loops marked; itself where it has none."""
    ops = [op for top in function.body.body for op in top.walk()]
    made = {value.name: op for op in ops for value in op.results}
    loops = {loop for op in ops if isinstance(op, For) and op.step == 1 for loop in _along_rows(op, made)}
    return _Marked(function, loops=frozenset(loops)).run() if loops else function


def _along_rows(outer: For, made: Mapping[str, Instruction]) -> Iterator[For]:
    turn = (Affine.of(outer.variable.name),)
    for loop in outer.walk():
        if isinstance(loop, For) and loop is not outer:
            rows = [row for access in accesses_of(loop) if (row := row_of(access, loop, made)) is not None]
            if any(element.index == turn for _, element in rows):
                yield loop


def accesses_of(loop: For) -> list[Load | Store]:
    return [op for op in loop.body.body if isinstance(op, Load | Store)]


def row_of(access: Load | Store, loop: For, made: Mapping[str, Instruction]) -> tuple[str, Load] | None:
    """The name of the one index of an access along a loop that is data, and the element of a memory of one dimension that it is."""
    if not access.index or access.index[-1].coefficient(loop.variable.name) < 1:
        return None
    within = {value.name for inner in loop.walk() for value in inner.results}
    names = {name for form in access.index[:-1] for name in form.names}
    found = [(name, op.value.source) for name in names if isinstance(op := made.get(name), Cast) and isinstance(op.value.source, Load)]
    if len(found) != 1 or any(form.coefficient(loop.variable.name) for form in access.index[:-1]) or not within.isdisjoint(access.symbols):
        return None
    ((name, element),) = found
    assert isinstance(element, Load)
    plain = element.where is None and element.mem is not access.mem and [*map(Affine.of, element.index[0].names)] == [*element.index]
    return (name, element) if plain else None


@define(eq=False)
class _Marked(Rebuild):
    loops: frozenset[For] = field(kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.loops or not isinstance(op, For):
            return self.copy(op, into)
        marked = rebuilt(self.renewed(op, into), lambda value: value, marks=(*op.marks, ("rows_ahead", TURNS)))
        return into.emit(marked).results
