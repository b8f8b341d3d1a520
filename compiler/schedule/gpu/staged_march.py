"""Marches whose blocks have two kinds of threads: a line's own thread does nothing but what its state needs, in the written order, on what
lies in shared memory; helpers bring what all lines of the block read there, many steps ahead, and store what they leave. So a step takes
about as long as its arithmetic, and blocks may have few lines each: all multiprocessors work, and enough of memory is under way. Helpers
access 16 bytes at once, of neighbouring steps where lines lie along memory, of neighbouring lines where these do."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.instruction import Effect, Instruction
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import Slot, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.march_work import MarchWork, work_of
from compiler.schedule.gpu.marching import March
from compiler.schedule.gpu.nest_units import divisor, with_units
from compiler.schedule.gpu.spread import Spread
from runtime.records import frozen

GROUP, GROUPS = 64, 4
"""Threads that bring a part, and how many such groups take turns: what a group has loaded is under way for as many parts."""

HELD = 32
"""Registers of a helper for what is under way."""

SECTOR = 32
"""Bytes of memory that are read together: so many of neighbouring lines a block has at least, or half as many where some multiprocessors
would have no block."""

MOST_LINES = 128
"""Of a block."""

MANY = 128
"""Lines of a multiprocessor from which on those that don't lie along memory have a thread each."""

ALONG_LINES = 32
"""Of a block, where many lie along memory."""

MOST_STEPS, LEAST_STEPS = 128, 16
"""Of a part."""

KNOWN = 32
"""Registers of a line's thread for what it reads of steps before it does those before them."""


@frozen(eq=False)
class StagedMarch:
    """Of blocks of so many `lines`: `steps` of each are a part. `along`: lines lie along memory, so that helpers take neighbouring steps
    rather than neighbouring lines, so many `lanes` at once."""

    loop: For
    work: MarchWork
    lines: int
    steps: int
    along: bool
    lanes: int

    @property
    def steps_beside(self) -> bool:
        """Whether steps lie side by side in shared memory, rather than lines."""
        return self.along or self.lines < 32

    @property
    def at_once(self) -> int:
        """Steps whose elements a line's thread reads at once."""
        words = sum(max(1, bytes_of(dtype_of(value)) // 4) for value in self.work.brought)
        return min(self.steps, max(4, 1 << (min(16, KNOWN // words).bit_length() - 1)))

    @property
    def own_threads(self) -> int:
        """Of lines, in whole warps."""
        return max(self.lines, 32)

    @property
    def threads(self) -> int:
        return self.own_threads + GROUPS * GROUP

    @property
    def loads(self) -> list[Load]:
        return [op for op in self.work.early if isinstance(op, Load)]


def staged_march(nest: Spread, march: March, total: int, known: Facts) -> StagedMarch | None:
    """The march of each iteration of leading loops, of which there are so many; None where there are too many that don't lie along memory,
    or where helpers can't know what it reads and stores."""
    loop, many = march.loop, total > MANY * known.processors
    ops = [*nest.between, *nest.inner.body.body]
    inside = [op for op in loop.body.body if isinstance(op, Load | Store)]
    stores = [op for op in inside if isinstance(op, Store)]
    if loop not in ops or not stores or len(inside) != len(march.loads) + len(stores) or len(march.early) > len(march.loads):
        return None
    made = {result.name for op in (*ops, *loop.body.body) for result in op.results} | {value.name for value in loop.body.parameters[1:]}
    if any(op.where is not None or isinstance(op.mem.type, Slot) or made.intersection(op.symbols) for op in inside):
        return None
    bounds = {*loop.low.names, *loop.high.names}
    if bounds & (made | {outer.variable.name for outer in nest.loops}) or not _all_apart(stores, march) or not only_reads(ops, loop):
        return None
    along = all(op.index and op.index[-1].coefficient(loop.variable.name) == 1 for op in inside)
    if many and not along:
        return None
    work = work_of(loop, march.loads, stores)
    width = min(bytes_of(mem_of(op.mem).dtype) for op in inside)
    lines = lines_of(total, width, many, known)
    lanes = lanes_of(inside, nest, loop, lines, along, known)
    registers = sum(max(1, lanes * bytes_of(mem_of(op.mem).dtype) // 4) for op in march.loads)
    length = (loop.high - loop.low).value
    steps = min(MOST_STEPS, HELD * GROUP * lanes // (lines * registers))
    steps = 1 << (min(steps, steps if length is None else max(LEAST_STEPS, length // 4)).bit_length() - 1)
    if steps < LEAST_STEPS or lines * steps < lanes * GROUP or (length is not None and length < 2 * steps):
        return None
    return StagedMarch(loop, work, lines, steps, along, lanes)


def lines_of(total: int, width: int, many: bool, known: Facts) -> int:
    """Of a block."""
    each, sector = power_of_two(-(-total // known.processors)), SECTOR // width
    return ALONG_LINES if many else min(MOST_LINES, max(sector // 2, min(sector, each), each // 2))


def lanes_of(accesses: Sequence[Load | Store], nest: Spread, loop: For, lines: int, along: bool, known: Facts) -> int:
    """Neighbouring steps, or lines, that a helper takes at once: as many as 16 bytes have of the widest elements, or fewer."""
    axis = loop if along else nest.inner
    lanes = ALIGNMENT // max(bytes_of(mem_of(op.mem).dtype) for op in accesses)
    while lanes > 1:
        fits = axis.step == 1 and divisor(axis.high - axis.low, known) % lanes == 0 and (along or lines % lanes == 0)
        if fits and all(_takes(op, axis, lanes, known) for op in accesses):
            break
        lanes //= 2
    return lanes


def _takes(op: Load | Store, axis: For, lanes: int, known: Facts) -> bool:
    mem, name = with_units(op.mem, known), axis.variable.name
    at = {name: axis.low + Affine.of(name) * lanes}
    whole = alignment(mem, [form.substitute(at) for form in op.index]) % (lanes * bytes_of(mem.dtype)) == 0
    return whole and steps_by_one(mem, op.index, name)


def _all_apart(stores: Sequence[Store], march: March) -> bool:
    """Whether each step of each line stores to an element of its own, so that nobody minds who stores it when: the analysis of the leading
    loops says so for lines, and each step moves on."""
    step = march.loop.variable.name
    moves = [any(form.coefficient(step) and step not in form.without(step).names for form in op.index) for op in stores]
    return len({op.mem for op in stores}) == len(stores) and all(moves)


def only_reads(ops: Sequence[Instruction], loop: For) -> bool:
    """Whether what stands before the loop may be done by threads without a line, too: it reads what no line stores."""
    before = ops[: ops.index(loop)]
    stored = {inside.mem for op in ops for inside in op.walk() if isinstance(inside, Store)}
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return False
    return not any(isinstance(op, Load) and op.mem in stored for op in before)

