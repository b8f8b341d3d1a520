"""Rows of a ragged axis with loops inside, as one loop each: lanes then share out the elements of all entries of a row.

for k in ptr[r]..ptr[r + 1] { for c in 0..B { s += v[k, c] } }
=>  for f in 0..(ptr[r + 1] - ptr[r]) * B { k = ptr[r] + f / B; c = f % B; s += v[k, c] }"""

from collections.abc import Mapping, Sequence
from math import prod

from compiler.analysis.accesses import NestLoop
from compiler.analysis.dependence import NestFacts, analyse
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import mem_of
from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import small_digits
from compiler.schedule.gpu.nests.spread import Spread, extents_of, leading_of, spreads_in
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.stages import iterations
from runtime.records import define, field

ENTRY = "entry"
"""Mark of such a loop: the name of the number of the entry in its row, and about how many elements an entry has."""


def with_flat_rows(nest: HirFunction, facts: NestFacts, known: Facts) -> tuple[HirFunction, NestFacts]:
    """The nest with such loops as one, and its facts; themselves where there are none."""
    flat: dict[Instruction, tuple[Spread, int, bool]] = {}
    for op in nest.body.body:
        if not isinstance(op, For) or (leading := leading_of(op, facts)) is None:
            continue
        for loop, spread in spreads_in(leading.inner.body, facts).items():
            outer = Spread(spread.loops[:1], (), spread.folds, ())
            if len(spread.loops) > 1 and loop.carried and not spread.private and extents_of({loop: outer}, facts, leading.loops) is None:
                each = prod(max(1, known.about(facts.nest.of_loop(inner).extent)) for inner in spread.loops[1:])
                flat[loop] = spread, each, (_entries(facts.nest.of_loop(loop), facts, known) or 1 << 32) * each < 1 << 32
    if not flat:
        return nest, facts
    flattened = _Flattening(nest, flat=flat).run()
    return flattened, analyse(flattened)


def _entries(loop: NestLoop, facts: NestFacts, known: Facts) -> int | None:
    """How many iterations a loop has at most that reads inside of its memories."""
    found = [
        most_elements([mem_of(access.mem).dims[place]], known)
        for access in facts.nest.accesses
        if loop in access.loops
        for place, form in enumerate(access.index)
        if abs(form.coefficient(loop.axis)) == 1
    ]
    return min((most for most in found if most is not None), default=None)


@define(eq=False)
class _Flattening(Rebuild):
    flat: Mapping[Instruction, tuple[Spread, int, bool]] = field(kw_only=True)

    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if op not in self.flat or not isinstance(op, For):
            return self.copy(op, into)
        spread, each, few = self.flat[op]
        counts = [into.count(self.form(iterations(loop))) for loop in spread.loops]
        carried = [self.values[value] for value in op.carried]
        with into.loop(op.variable.name, 0, into.product(counts).name, 1, carried) as (inner, flat):
            entry, *digits = (small_digits if few else Builder.digits)(inner, flat.variable, counts[1:])
            flat.op.marks = (*op.marks, (ENTRY, (entry.name, each)))
            for loop, digit in zip(spread.loops, (entry, *digits), strict=True):
                self.bind(loop.variable, inner.index(self.form(loop.low) + Affine.of(digit.name) * loop.step))
                for parameter, value in zip(loop.body.parameters[1:], flat.carried, strict=True):
                    self.bind(parameter, value)
            for one in (*spread.between, *spread.inner.body.body):
                inner.span = one.span
                for old, new in zip(one.results, self.instruction(one, inner), strict=True):
                    self.bind(old, new)
        return flat.results
