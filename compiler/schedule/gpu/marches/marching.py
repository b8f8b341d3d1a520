"""Loops that one thread runs in the written order, with what they read on its way before it is used: several steps are read at once, and
the next ones while these are computed. The operations and their order stay as they are."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Space, bytes_of
from compiler.schedule.gpu.need import depending, read_names
from compiler.schedule.gpu.price.block_work import cost_of
from compiler.schedule.stages import InstructionCopy
from runtime.records import frozen

MOST_STEPS, LEAST_STEPS = 32, 4
"""That are read at once."""

WORDS = 32
"""Registers of a thread, of 32 bits, for what is read ahead; twice as many where few threads share a multiprocessor."""

WRITTEN_OUT = 512
"""Instructions of the steps that are read at once, at most, where threads are many: more take the registers of other threads."""


@frozen(eq=False)
class March:
    """A loop, what reads ahead in it (loads, and what computes their places), the loads among that, and how many steps at once."""

    loop: For
    early: tuple[Instruction, ...]
    loads: tuple[Load, ...]
    steps: int


def march_of(op: Instruction, few: bool) -> March | None:
    """The loop as a march; None where nothing can be read ahead, or a few steps are all there are. `few`: whether there are few threads."""
    if not isinstance(op, For):
        return None
    loads, steps, body = stepping_loads(op), MOST_STEPS, op.body.body
    while steps * words_of(loads) > WORDS << few and steps > 1:
        steps //= 2
    while not few and steps > LEAST_STEPS and steps * sum(map(cost_of, body[:-1])) > WRITTEN_OUT:
        steps //= 2
    length = (op.high - op.low).value
    if not loads or steps < LEAST_STEPS or (length is not None and length < 2 * steps):
        return None
    known = {result.name: inside for inside in body for result in inside.results}
    wanted, early = set[Instruction](loads), set[Instruction]()
    while wanted:
        inside = wanted.pop()
        early.add(inside)
        wanted |= {known[name] for name in read_names(inside) if name in known} - early
    ahead = tuple(inside for inside in body if inside in early)
    return March(op, ahead, tuple(inside for inside in ahead if isinstance(inside, Load)), steps)


def stepping_loads(op: For) -> list[Load]:
    """What a recurrence reads on its way and nothing but its steps decides, in a loop of nothing but plain instructions."""
    body = op.body.body
    if op.step != 1 or not op.carried or not isinstance(body[-1], Yield) or any(not _is_straight(inside) for inside in body[:-1]):
        return []
    changing = {value.name for value in op.body.parameters[1:]}
    for inside in body:
        if read_names(inside) & changing or (isinstance(inside, Load) and not is_only_read(inside)):
            changing |= {result.name for result in inside.results}
    stepping = depending([op.variable], body) - changing
    return [inside for inside in body if isinstance(inside, Load) and inside.result.name in stepping]


def words_of(loads: Sequence[Load]) -> int:
    """Registers that they take."""
    return sum(max(1, bytes_of(mem_of(load.mem).dtype) // 4) for load in loads)


def _is_straight(op: Instruction) -> bool:
    return isinstance(op, Load | Store) or (op.effects is Effect.PURE and not op.regions)


def is_only_read(load: Load) -> bool:
    """Whether nothing writes what it reads."""
    mem = mem_of(load.mem)
    return mem.readonly and mem.space is Space.GLOBAL


def marched(march: March, copy: InstructionCopy, b: Builder) -> None:
    """Writes the march; what the loop results in is in the copy's values then."""
    loop, steps = march.loop, march.steps
    initial = [copy.value(value) for value in loop.carried]
    low, high, each, whole, full = whole_steps(loop, steps, copy, b)
    last = b.sub(full, each)
    with b.branch(b.op("lt", b.const(0, "index"), whole), [value.type for value in initial]) as (some, none, chosen):
        ahead = _read_ahead(march, copy, low, some)
        with some.loop(loop.variable.name, low.name, full.name, steps, [*initial, *ahead]) as (inner, walked):
            ahead = _read_ahead(march, copy, inner.op("min", inner.add(walked.variable, each), last), inner)
            carried, there = walked.carried[: len(initial)], walked.carried[len(initial) :]
            for number in range(steps):
                values = there[number * len(march.loads) :][: len(march.loads)]
                carried = _one_step(march, copy, inner.index(Affine.of(walked.variable.name) + number), carried, values, inner)
            inner.yield_(*carried, *ahead)
        some.yield_(*walked.results[: len(initial)])
        none.yield_(*initial)
    with b.loop(loop.variable.name, full.name, high.name, 1, chosen.results) as (inner, walked):
        copy.values[loop.variable] = walked.variable
        copy.values.update(zip(loop.body.parameters[1:], walked.carried, strict=True))
        copy.all(loop.body.body, inner)
    copy.values.update(zip(loop.results, walked.results, strict=True))


def whole_steps(loop: For, steps: int, copy: InstructionCopy, b: Builder) -> tuple[Value, Value, Value, Value, Value]:
    """Where the loop begins and ends, how many steps are taken at once, how often, and where the last of these end."""
    low, high = b.index(copy.form(loop.low)), b.index(copy.form(loop.high))
    each = b.const(steps, "index")
    whole = b.op("div", b.op("max", b.sub(high, low), b.const(0, "index")), each)
    return low, high, each, whole, b.add(low, b.mul(whole, each))


def _read_ahead(march: March, copy: InstructionCopy, first: Value, b: Builder) -> list[Value]:
    """What the steps from the first on read, step by step."""
    read = []
    for step in range(march.steps):
        copy.values[march.loop.variable] = b.index(Affine.of(first.name) + step)
        copy.all(march.early, b)
        read += [copy.values[load.result] for load in march.loads]
    return read


def _one_step(
    march: March, copy: InstructionCopy, place: Value, carried: Sequence[Value], read: Sequence[Value], b: Builder
) -> list[Value]:
    """A step with what was read for it; what it carries on."""
    copy.values[march.loop.variable] = place
    copy.values.update(zip(march.loop.body.parameters[1:], carried, strict=True))
    copy.values.update(zip((load.result for load in march.loads), read, strict=True))
    *body, last = march.loop.body.body
    copy.all([op for op in body if op not in march.loads], b)
    return [copy.value(value) for value in last.operand_values]
