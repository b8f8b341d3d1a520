"""Several iterations a thread, where each loads what another load says: one at a time, a thread would wait for memory twice and have one
load on its way. Iterations go side by side, instruction by instruction, so that all loads of a kind are on their way before the first is
used. Where memory lies along the innermost loop, a thread has neighbouring iterations in pieces of 16 bytes, wherever rows end. A block has
iterations that lie behind each other: where these read anywhere in rows of a table, the first cache holds most of a row."""

from collections.abc import Sequence
from contextlib import nullcontext
from math import prod

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import Yield
from compiler.hir.core import Stack
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.indices import further, small_digits
from compiler.schedule.gpu.library.sorting import taken
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.nests.cooperate import Cooperation
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.pieces import align, is_along
from compiler.schedule.gpu.scattered.scatter_targets import most_elements
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Group, Start, iterations
from runtime.records import frozen

UNDER_WAY = 8
"""Iterations that a thread has under way."""

RESIDENT = 2048
"""Threads of a multiprocessor: with fewer iterations for each of its threads than turns, some would have nothing to do."""


@frozen(eq=False)
class Turns:
    """`along`: what is read and stored in pieces of `width` neighbouring iterations, wherever rows end, as these lie behind each other;
    `guarded`: loads that may only be made where checks pass."""

    nest: Spread
    guarded: frozenset[Instruction]
    along: frozenset[Instruction]
    width: int
    facts: Facts

    @property
    def turns(self) -> int:
        return max(1, UNDER_WAY // self.width)

    def words(self) -> str:
        pieces = f", in pieces of {self.width} neighbours" if self.width > 1 else ""
        return f"a thread takes {self.turns * self.width} of them at once{pieces}"


def turns_of(nest: Spread, facts: NestFacts, known: Facts) -> Turns | None:
    """How threads take the iterations of a leading nest; None where they are few, do more than load, compute and store, read what they
    store, as a turn behind the last iteration would read it while another thread writes it, or read nothing where data say; but for those
    that do nothing but check."""
    count = prod(max(1, known.about(facts.nest.of_loop(loop).extent)) for loop in nest.loops)
    body = _body(nest)
    straight = all(not op.regions and (isinstance(op, Load | Store | Check) or op.effects is Effect.PURE) for op in body)
    stored = {op.mem for op in body if isinstance(op, Store)}
    apart = not any(isinstance(op, Load) and op.mem in stored for op in body)
    loads = [op for op in body if isinstance(op, Load)]
    loaded = depending([op.result for op in loads], body)
    found = [op for op in loads if loaded & read_names(op)]
    # what doesn't follow from data needs no check of these
    guarded = frozenset(found if all(loaded & read_names(op) for op in body if isinstance(op, Check)) else loads)
    if not straight or not apart or not (found or not stored) or count < known.processors * RESIDENT * UNDER_WAY // 2:
        return None
    if any(loop.step != 1 or loop.low != Affine() for loop in nest.loops) or nest.between:
        return Turns(nest, guarded, frozenset(), 1, known)
    row, most, name = iterations(nest.inner), most_elements([iterations(nest.inner)], known) or 0, nest.inner.variable.name
    along = frozenset(op for op in body if isinstance(op, Load | Store) and op not in found and is_along(op, name, known))
    width = ALIGNMENT // max((bytes_of(mem_of(op.mem).dtype) for op in along), default=ALIGNMENT)
    width = max(1, min(width, UNDER_WAY))
    long = most >= 2 * width and (row.value is not None or row in map(Affine.of, row.names))  # a size is more than half of its most
    places = tuple(Affine.of(loop.variable.name) for loop in nest.loops), tuple(iterations(loop) for loop in nest.loops[1:])
    whole = all((op.index, mem_of(op.mem).dims[1:]) == places for op in along)
    if not whole or not (long or len(nest.loops) == 1):
        along, width = frozenset(), 1
    return Turns(nest, guarded, along, width, known)


def _body(nest: Spread) -> list[Instruction]:
    return [op for op in (*nest.between, *nest.inner.body.body) if not (isinstance(op, Yield) and not op.operand_values)]


def in_turns(work: Cooperation, plan: Turns, start: Start, group: Group, counts: Sequence[Value], b: Builder) -> Launch:
    """The iterations of a thread. Turns behind the last piece do its first one again, and store nothing."""
    align(start, plan.facts)
    nest, width, threads = plan.nest, plan.width, start.threads
    axis = start.out.axis(f"simd_of_{width}", width) if width > 1 else ""
    total, one, nothing = b.product(counts), b.const(1, "index"), [b.const(0, "index")] * (len(counts) - 1)
    span, pieces = b.const(threads * plan.turns * width, "index"), b.op("div", total, b.const(width, "index"))
    blocks = b.op("div", b.add(total, b.sub(span, one)), span, name="blocks")
    start.take(group, b)
    begin = Affine.of(start.number.name) * (threads * plan.turns) + work.thread.name
    every = [b.index(begin + turn * threads) for turn in range(plan.turns)]
    most = most_elements([iterations(loop) for loop in nest.loops], plan.facts)
    split = Builder.digits if most is None or most >= 1 << 32 else small_digits
    with b.when(b.op("lt", every[0], pieces)) as inner:
        inside: list[Value | None] = [None, *(inner.op("lt", place, pieces) for place in every[1:])]
        own = list[_Piece]()
        for place, holds in zip(every, inside, strict=True):
            number = place if holds is None else inner.select(holds, place, every[0])
            first = inner.mul(number, inner.const(width, "index"))
            digits = split(inner, first, counts[1:])
            # a row may end within the piece
            steps = ([*nothing, inner.const(lane, "index")] for lane in range(width))
            lanes = [further(inner, digits, step, counts) for step in steps] if width > 1 else [digits]
            own.append(_Piece(Affine.of(first.name), [work.variables(nest, each, inner) for each in lanes], holds))
        passed: Value | None = None
        for op in _body(nest):
            if isinstance(op, Check):
                passed = inner.both(passed, _checked(op, own, start, inner))
            for piece in own if not isinstance(op, Check) else ():
                _written(op, piece, plan, axis, passed if op in plan.guarded else None, start, inner)
    if width > 1:
        # what is left behind the last piece
        rest = b.index(Affine.of(pieces.name) * width + start.place)
        with b.when(b.op("lt", rest, total)) as inner:
            work.variables(nest, split(inner, rest, counts[1:]), inner)
            for op in _body(nest):
                start.copy.one(op, inner)
    return start.finish((Affine.of(blocks.name),), 1)


@frozen(eq=False)
class _Piece:
    """Neighbouring iterations, and what they have computed: the number of the first, in order, and whether they store."""

    first: Affine
    own: Sequence[dict[Value, Value]]
    holds: Value | None


def _checked(op: Check, pieces: Sequence[_Piece], start: Start, b: Builder) -> Value:
    """Whether all iterations pass a check; where one fails, each is checked by itself, which says where."""
    every, holds = [known for piece in pieces for known in piece.own], b.const(True, "i1")
    for known in every:
        holds = b.both(holds, {**start.values, **known}[op.condition])
    with b.branch(holds, likely=True) as (_, no, _):
        for known in every:
            start.values.update(known)
            start.copy.one(op, no)
    return holds


def _written(op: Instruction, piece: _Piece, plan: Turns, axis: str, passed: Value | None, start: Start, b: Builder) -> None:
    """An instruction for neighbouring iterations, by what each has computed; a load where `passed` says so."""
    values, own, holds = start.values, piece.own, piece.holds
    if op in plan.along and axis and isinstance(op, Load | Store) and passed is None:
        place = (*[Affine()] * (len(op.index) - 1), piece.first + Affine.of(axis))
        bytes = len(own) * bytes_of(mem_of(op.mem).dtype)
        if isinstance(op, Load):
            vector = b.emit(Load(mem=values[op.mem], index=place, align=bytes)).result
            for lane, known in enumerate(own):
                known[op.result] = taken(b, vector, axis, lane)
            return
        stored = tuple({**values, **known}[op.value] for known in own)
        with b.when(holds) if holds is not None else nullcontext(b) as there:
            whole = there.emit(Stack(values=stored, axis=axis)).result
            there.emit(Store(mem=values[op.mem], value=whole, index=place, align=bytes))
        return
    for known in own:
        values.update(known)
        with b.when(holds) if holds is not None and isinstance(op, Store) else nullcontext(b) as there:
            if passed is None or not isinstance(op, Load):
                start.copy.one(op, there)
            else:
                where = passed if op.where is None else there.both(passed, values[op.where])
                values[op.result] = there.emit(rebuilt(op, start.copy.value, start.copy.form, where=where)).result
        known.update((result, values[result]) for result in op.results)
