"""Several iterations a thread, where each loads what another load says: one at a time, a thread would wait for memory twice and have one
load on its way. Iterations go side by side, instruction by instruction, so that all loads of a kind are on their way before the first is
used. Where memory lies along the innermost loop, a thread has neighbouring iterations in pieces of 16 bytes. A block has iterations that
lie behind each other; where these read anywhere in rows of a table, it has whole rows, which the first cache then holds."""

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import Yield
from compiler.hir.core import Stack
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import small_digits
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.nest_units import BESIDE, divisor
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import align, is_along
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from compiler.schedule.threads import BLOCK
from runtime.records import frozen

UNDER_WAY = 8
"""Iterations that a thread has under way."""

RESIDENT = 2048
"""Threads of a multiprocessor: with fewer iterations for each of its threads than turns, some would have nothing to do."""

ROWS_BLOCK, ROWS = 512, 8192
"""Threads of a block that has whole rows, and iterations that it has at least."""


HELD = 1 << 17
"""Bytes of a row of a table that the first cache holds: of longer ones the second one holds more where few are read at a time."""


@frozen(eq=False)
class Turns:
    """`along`: what is read and stored in pieces of `width` neighbouring iterations, of which a thread has some at once. `rows`: iterations
    of the loops around the innermost one that a block has; None where it has as many pieces as its threads take at once."""

    nest: Spread
    along: frozenset[Instruction]
    width: int
    rows: int | None
    facts: Facts

    @property
    def threads(self) -> int:
        return BLOCK if self.rows is None else ROWS_BLOCK

    @property
    def turns(self) -> int:
        return max(1, UNDER_WAY // self.width)

    def words(self) -> str:
        pieces = f", in pieces of {self.width} neighbours" if self.width > 1 else ""
        rows = "" if self.rows is None else "; a block has whole rows"
        return f"a thread takes {self.turns * self.width} of them at once{pieces}{rows}"


def turns_of(nest: Spread, facts: NestFacts, known: Facts) -> Turns | None:
    """How threads take the iterations of a leading nest; None where they are few, do more than load, compute and store, read what they
    store, as a turn behind the last iteration would read it while another thread writes it, or read nothing where data say; but for those
    that do nothing but check."""
    count = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    body = _body(nest)
    straight = all(not op.regions and (isinstance(op, Load | Store | Check) or op.effects is Effect.PURE) for op in body)
    stored = {op.mem for op in body if isinstance(op, Store)}
    apart = not any(isinstance(op, Load) and op.mem in stored for op in body)
    found = _following_loads(body)
    if not straight or not apart or not (found or not stored) or count < known.processors * RESIDENT * UNDER_WAY // 2:
        return None
    inner, around = nest.inner, {loop.variable.name for loop in nest.loops[:-1]}
    if any(loop.step != 1 or loop.low != Affine() for loop in nest.loops):
        return Turns(nest, frozenset(), 1, None, known)
    along = frozenset(op for op in body if isinstance(op, Load | Store) and op not in found and is_along(op, inner.variable.name, known))
    width = ALIGNMENT // max((bytes_of(mem_of(op.mem).dtype) for op in along), default=ALIGNMENT)
    width = max(1, min(width, UNDER_WAY))
    extents = (iterations(inner), *(mem_of(op.mem).dims[-1] for op in along)) if around else ()
    if nest.between or any(divisor(extent, known) % width for extent in extents):
        along, width = frozenset(), 1
    by_row = [op for op in found if around & {name for form in op.index[:-1] for name in form.names}]
    row = max(1, known.about(facts.nest.of_loop(inner).extent))
    held = all((most_elements(mem_of(op.mem).dims[-1:], known) or 0) * bytes_of(mem_of(op.mem).dtype) <= HELD for op in by_row)
    few = count < 2 * known.processors * max(ROWS, row)
    return Turns(nest, along, width, max(1, ROWS // row) if by_row and held and not few else None, known)


def _body(nest: Spread) -> list[Instruction]:
    return [op for op in (*nest.between, *nest.inner.body.body) if not (isinstance(op, Yield) and not op.operand_values)]


def _following_loads(body: Sequence[Instruction]) -> list[Load]:
    """Loads whose places come of other loads."""
    loaded = depending([op.result for op in body if isinstance(op, Load)], body)
    return [op for op in body if isinstance(op, Load) and loaded & read_names(op)]


def in_turns(work: Cooperation, plan: Turns, start: Start, group: Group, counts: Sequence[Value], b: Builder) -> Launch:
    """The iterations of a thread. Turns behind the block's last iteration do its first one again, and store nothing."""
    align(start, plan.facts)
    nest, width, threads, axis = plan.nest, plan.width, start.threads, start.out.axis(BESIDE, plan.width) if plan.width > 1 else ""
    pieces = [*counts[:-1], b.op("div", counts[-1], b.const(width, "index")) if width > 1 else counts[-1]]
    total, one = b.product(pieces), b.const(1, "index")
    span = b.const(threads * plan.turns, "index")
    if plan.rows is not None:
        span = b.op("max", b.mul(pieces[-1], b.const(plan.rows, "index")), one)
    alone = len(nest.loops) == 1 and width > 1
    blocks = b.op("div", b.add(total, b.sub(span, one)), span, name="blocks")
    blocks = b.op("max", blocks, one, name="blocks") if alone else blocks
    start.take(group, b)
    begin = b.mul(b.index(Affine.of(start.number.name)), span)
    end = b.op("min", b.add(begin, span), total)
    most = most_elements([iterations(loop) for loop in nest.loops], plan.facts)
    split = Builder.digits if most is None or most >= 1 << 32 else small_digits
    with b.loop("place", Affine.of(begin.name) + Affine.of(work.thread.name), end.name, threads * plan.turns, unroll=1) as (inner, loop):
        every = [inner.index(Affine.of(loop.variable.name) + turn * threads) for turn in range(plan.turns)]
        inside: list[Value | None] = [None, *(inner.op("lt", place, end) for place in every[1:])]
        own = list[list[dict[Value, Value]]]()
        for place, holds in zip(every, inside, strict=True):
            digits = split(inner, place if holds is None else inner.select(holds, place, loop.variable), pieces[1:])
            first = inner.mul(digits[-1], inner.const(width, "index")) if width > 1 else digits[-1]
            values, at = work.variables(nest, [*digits[:-1], first], inner), Affine.of(first.name)
            own.append([values if width == 1 else {**values, nest.inner.variable: inner.index(at + lane)} for lane in range(width)])
        for op in _body(nest):
            for known, holds in zip(own, inside, strict=True):
                _written(op, known, holds, op in plan.along, axis, start, inner)
    if alone:
        # what is left of one loop behind its last piece
        rest = b.index(Affine.of(total.name) * width + Affine.of(b.index(start.place).name))
        with b.when(b.op("lt", rest, counts[-1])) as inner:
            work.variables(nest, [rest], inner)
            for op in _body(nest):
                start.copy.one(op, inner)
    return start.finish((Affine.of(blocks.name),), 1)


def _written(
    op: Instruction, own: Sequence[dict[Value, Value]], holds: Value | None, together: bool, axis: str, start: Start, b: Builder
) -> None:
    """An instruction for neighbouring iterations, by what each has computed."""
    values = start.values
    if together and len(own) > 1 and isinstance(op, Load | Store):
        values.update(own[0])
        place = (*map(start.copy.form, op.index[:-1]), start.copy.form(op.index[-1]) + Affine.of(axis))
        if isinstance(op, Load):
            vector = b.load(values[op.mem], place)
            for lane, known in enumerate(own):
                known[op.result] = taken(b, vector, axis, lane)
            return
        stored = [{**values, **known}[op.value] for known in own]
        with b.when(holds) if holds is not None else nullcontext(b) as there:
            there.store(values[op.mem], there.emit(Stack(values=tuple(stored), axis=axis)).result, place)
        return
    for known in own:
        values.update(known)
        with b.when(holds) if holds is not None and isinstance(op, Store) else nullcontext(b) as there:
            start.copy.one(op, there)
        known.update((result, values[result]) for result in op.results)
