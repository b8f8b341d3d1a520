"""Several iterations a thread, where each loads what another load says: one at a time, a thread would wait for memory twice and have one
load on its way. Iterations go side by side, instruction by instruction, so that all loads of a kind are on their way before the first is
used. A block has as many neighbouring iterations as its threads do, and a turn is one for each thread."""

from collections.abc import Sequence
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store
from compiler.schedule.gpu.cooperate import Cooperation
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.indices import further, small_digits
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.scatter_targets import most_elements
from compiler.schedule.gpu.spread import Spread
from compiler.schedule.stages import Start, iterations

TURNS = 4

RESIDENT = 2048
"""Threads of a multiprocessor: with fewer iterations for each of its threads than turns, some would have nothing to do."""


def turns_of(nest: Spread, facts: NestFacts, known: Facts) -> int:
    """How many iterations of a leading nest a thread takes: 1 where they are few, do more than load, compute and store, or read what they
    store: a turn behind the last iteration would read it while another thread writes it."""
    iterations = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    body = _body(nest)
    straight = all(not op.regions and (isinstance(op, Load | Store | Check) or op.effects is Effect.PURE) for op in body)
    stored = {op.mem for op in body if isinstance(op, Store)}
    apart = not any(isinstance(op, Load) and op.mem in stored for op in body)
    return TURNS if straight and apart and _follows_loads(body) and iterations >= known.processors * RESIDENT * TURNS else 1


def _body(nest: Spread) -> list[Instruction]:
    return [op for op in (*nest.between, *nest.inner.body.body) if not (isinstance(op, Yield) and not op.operand_values)]


def _follows_loads(body: Sequence[Instruction]) -> bool:
    """Whether a load's place comes of another load."""
    loaded = depending([op.result for op in body if isinstance(op, Load)], body)
    return any(isinstance(op, Load) and loaded & read_names(op) for op in body)


def in_turns(work: Cooperation, nest: Spread, start: Start, counts: Sequence[Value], turns: int, facts: Facts, b: Builder) -> None:
    """The iterations of a thread. Turns behind the last iteration do the first one again, and store nothing."""
    count, values = b.product(counts), start.values
    last = b.sub(count, b.const(1, "index"))
    threads, first = start.threads, Affine.of(start.number.name) * (start.threads * turns) + start.thread
    most = most_elements([iterations(loop) for loop in nest.loops], facts)
    split = Builder.digits if most is None or most >= 1 << 32 else small_digits
    with b.when(b.op("lt", b.index(first, "place"), count)) as inner:
        inside = [inner.op("le", inner.index(first + turn * threads), last) for turn in range(turns)]
        digits, step = split(inner, inner.index(first), counts[1:]), split(inner, inner.const(threads, "index"), counts[1:])
        begin, own = digits, [work.variables(nest, digits, inner)]
        for holds in inside[1:]:
            digits = further(inner, digits, step, counts)
            kept = [inner.select(holds, *pair) for pair in zip(digits, begin, strict=True)]
            own.append(work.variables(nest, kept, inner))
        for op in _body(nest):
            for turn, known in enumerate(own):
                values.update(known)
                if turn and isinstance(op, Store):
                    with inner.when(inside[turn]) as there:
                        start.copy.one(op, there)
                else:
                    start.copy.one(op, inner)
                known.update((result, values[result]) for result in op.results)
