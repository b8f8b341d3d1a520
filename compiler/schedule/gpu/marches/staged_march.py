"""Marches whose blocks have two kinds of threads: a line's own thread does nothing but what its state needs, in the written order, on what
lies in shared memory; helpers bring what all lines of the block read there, many steps ahead, and store what they leave. So a step takes
about as long as its arithmetic, and blocks may have few lines each: all multiprocessors work, and enough of memory is under way. Helpers
access 16 bytes at once, of neighbouring steps where lines lie along memory, of neighbouring lines where these do. Rows that all lines read,
as `B[t, 0..16]`, are brought once for a block."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import ceil, prod

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.control import For
from compiler.hir.instruction import Effect, Instruction
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.types import Slot, bytes_of
from compiler.hir.words import WORD
from compiler.machines.gpu import Feature
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import ANYWHERE
from compiler.schedule.gpu.marches.march_work import MarchWork, wait_of, work_of
from compiler.schedule.gpu.marches.marching import March, is_only_read, stepping_loads
from compiler.schedule.gpu.nests.nest_units import divisor, with_units
from compiler.schedule.gpu.nests.spread import Spread
from compiler.schedule.gpu.price.block_work import cost_of
from compiler.schedule.gpu.price.march_price import MarchShape, nanoseconds
from compiler.schedule.stages import iterations
from runtime.records import evolve, frozen

HELPERS, AHEAD = (256, 128), (8, 4, 2, 0)
"""Threads of a block that bring and store, and how many parts they copy ahead; 0: they load the one that is wanted next."""

BROUGHT, LEFT = 3, 2
"""Parts in shared memory of what is brought, and of what is left."""

COPIED = 4, 8, 16
"""Bytes that an asynchronous copy has."""

HELD, KNOWN = 32, 32
"""Registers of a helper for what it loads of a part, or for where it copies from (4 of each), and of a line's thread for what it reads of
steps before it does those before them."""

LINES = (1, 2, 4, 8, 16, 32, 64, 128)
"""Of a block."""

MOST_STEPS, LEAST_STEPS = 128, 4
"""Of a part."""

SURELY = 1.2
"""Times what a thread a line is estimated to take, from which on it does."""

USUAL = 0.6, 0.8, 0.95
"""Of the most that a size is, where it isn't known."""

SHIFTED, STORED, TURN = 45, 2, 5
"""Instructions of a helper for what begins at any address; of a line's thread for an element that it stores, and for a turn of steps."""

QUEUED = 2800
"""Cycles from a load to its value where many threads have loads of their own."""

HELPING = 4.5
"""Instructions of lines, in the time of one of helpers: these wait for each other, and access shared memory."""

WRITTEN_OUT = 1024
"""Instructions of steps that are written out, about: one warp alone waits for its code where no cache holds that."""

FETCHED = 64
"""Instructions between a read of shared memory and the use of what comes, about."""

MOST_BYTES = 2048
"""Of the rows of a step."""


@frozen(eq=False)
class SharedRow:
    """Elements of a memory side by side, which all lines read in a step: `width` from `low` on, copied `lanes` at once."""

    load: Load
    low: int
    width: int
    lanes: int


@frozen(eq=False)
class StagedMarch:
    """Of blocks of so many `lines`: `steps` of each are a part. `along`: lines lie along memory, so that helpers take neighbouring steps
    rather than neighbouring lines, and load so many `lanes` at once, which may begin `anywhere`, and have so many `stored` at once. `rows`,
    and which of them each of their loads reads, and where; `same`: what is the same in all steps. `ahead`: parts that `helpers` copy,
    `direct` to where lines read them."""

    loop: For
    work: MarchWork
    rows: tuple[SharedRow, ...]
    places: Mapping[Load, tuple[int, int]]
    same: tuple[Load, ...]
    along: bool
    lines: int = 1
    lanes: int = 1
    stored: int = 1
    anywhere: bool = False
    steps: int = 0
    helpers: int = 0
    ahead: int = 1
    direct: bool = False

    @property
    def steps_beside(self) -> bool:
        """Whether steps lie side by side in shared memory, rather than lines."""
        return self.along or self.lines < 32

    @property
    def padded(self) -> int:
        """What lines along the innermost loop are a multiple of, some of which may not be there."""
        return self.lanes if self.anywhere and not self.along else 1

    @property
    def words(self) -> bool:
        """Whether helpers load words, which may begin anywhere, and put them where lines read them."""
        return self.direct and not self.ahead

    def words_of(self, op: Load) -> int:
        """Of what a helper loads at once."""
        return self.lanes * _size(op) // WORD

    @property
    def at_once(self) -> int:
        """Steps whose elements a line's thread reads at once."""
        words, instructions = sum(max(1, size // 4) for size in self.work.sizes[0]), self.work.instructions
        most = min(16, KNOWN // max(1, words), max(4, FETCHED // instructions), WRITTEN_OUT // instructions)
        return min(self.steps, 1 << (max(1, most).bit_length() - 1))

    @property
    def written_out(self) -> bool:
        return bool(self.work.stores) and self.steps * self.work.instructions <= WRITTEN_OUT

    @property
    def own_threads(self) -> int:
        """Of lines, in whole warps."""
        return max(self.lines, 32)

    @property
    def threads(self) -> int:
        return self.own_threads + self.helpers

    @property
    def registers(self) -> int:
        """Of a thread, about."""
        return 40 + 16 * self.words + 2 * self.at_once * len(self.work.brought) + len(self.same) + len(self.loop.carried)

    @property
    def slots(self) -> int:
        """Parts in shared memory of what lines read."""
        return BROUGHT + self.ahead * self.direct

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block."""
        beside = ALIGNMENT if self.steps_beside else 0
        brought, left = (self.lines * sum(sizes) for sizes in self.work.sizes)
        rows = sum(row.width * _size(row.load) for row in self.rows)
        copied = sum(turns * self.helpers * lanes * _size(op) for op, lanes, turns in self.copied)
        whole = brought * (self.slots * self.steps + beside) + left * (LEFT * self.steps + beside)
        return whole + self.steps * BROUGHT * rows + self.ahead * copied

    @property
    def copies(self) -> list[tuple[Load, int, int]]:
        """What a helper loads of a part: how many elements at once, and how often."""
        copies = [(op, self.lanes, self.steps * self.lines) for op in self.loads]
        copies += [(row.load, row.lanes, self.steps * row.width) for row in self.rows]
        return [(op, lanes, -(-elements // (lanes * self.helpers))) for op, lanes, elements in copies]

    @property
    def copied(self) -> list[tuple[Load, int, int]]:
        """The same of what is copied ahead, and lies apart until lines want it."""
        return self.copies[len(self.loads) if self.direct else 0 :] if self.ahead else []

    @property
    def loads(self) -> list[Load]:
        return [op for op in self.work.early if isinstance(op, Load)]


def staged_march(nest: Spread, march: March | None, threads: int, known: Facts) -> StagedMarch | None:
    """The march of each iteration of leading loops as what is estimated to end first; None where helpers can't know what it reads and
    stores, and where a thread a line does, in blocks of so many, as `march` says."""
    ops = [*nest.between, *nest.inner.body.body]
    loops = [op for op in nest.inner.body.body if isinstance(op, For)]
    if len(loops) != 1 or nest.inner.step != 1 or not only_reads(ops, loops[0]):
        return None
    (loop,) = loops
    body, step = loop.body.body, loop.variable.name
    inside = [op for op in body if isinstance(op, Load | Store)]
    stores, loads = [op for op in inside if isinstance(op, Store)], stepping_loads(loop)
    own_names = {value.name for value in loop.body.parameters} | {result.name for op in body for result in op.results}
    made = {result.name for op in ops for result in op.results} | own_names - {step}
    same = [op for op in inside if isinstance(op, Load) and is_only_read(op) and not own_names.intersection(op.symbols)]
    shared = [op for op in loads if not {nest.inner.variable.name, *made}.intersection(op.symbols)]
    accesses: list[Load | Store] = [*(op for op in loads if op not in shared), *stores]
    if len(inside) != len(accesses) + len(shared) + len(same) or not _all_apart(stores, step):
        return None
    if not loads or not (stores or shared or known.magnitudes):  # of unknown lines that store nothing registers are guessed too low
        return None
    if any(op.where is not None or isinstance(op.mem.type, Slot) for op in inside) or any(made.intersection(op.symbols) for op in accesses):
        return None
    if {*loop.low.names, *loop.high.names} & (made | {outer.variable.name for outer in nest.loops}):
        return None
    found = rows_of(shared, known)
    if found is None:
        return None
    along = bool(accesses) and all(op.index and op.index[-1].coefficient(step) == 1 for op in accesses)
    brought = [op for op in loads if op not in shared]
    works = [work_of(loop, brought, [] if direct and not along else stores, (*shared, *same), not direct) for direct in (False, True)]
    kinds = [StagedMarch(loop, work, *found, tuple(same), along, direct=bool(direct)) for direct, work in enumerate(works)]
    plans = [sized for kind in kinds for lines in LINES for sized in _sized(kind, lines, nest, known)]
    likely = _likely(known)
    prices = [sum(price_of(plan, nest, facts) for facts in likely) for plan in plans]
    if not plans or min(prices) >= SURELY * sum(price_of_threads(nest, loop, march, threads, facts) for facts in likely):
        return None
    return plans[prices.index(min(prices))]


def _likely(known: Facts) -> list[Facts]:
    """With sizes as they may be, where they aren't known: what a kernel costs changes where blocks have another turn."""
    shares = USUAL if {name for name, _ in known.magnitudes} - known.exact else (1.0,)
    sizes = [{name: max(1, int(share * most)) if name not in known.exact else most for name, most in known.magnitudes} for share in shares]
    return [evolve(known, magnitudes=tuple(each.items())) for each in sizes]


def blocks_of(plan: StagedMarch, nest: Spread, known: Facts) -> int:
    counts = [max(1, known.about(iterations(loop))) for loop in nest.loops]
    return prod(counts[:-1]) * ceil(counts[-1] / plan.lines) if plan.rows else ceil(prod(counts) / plan.lines)


def _sized(plan: StagedMarch, lines: int, nest: Spread, known: Facts) -> Iterator[StagedMarch]:
    """With blocks of so many lines, and as many steps as helpers hold; those of which no helper would have nothing to do."""
    loop, loads = plan.loop, plan.loads
    length = (loop.high - loop.low).value
    most = MOST_STEPS if length is None else min(MOST_STEPS, max(16, length // 4))
    plan = evolve(plan, lines=lines)
    if plan.direct and plan.along != plan.steps_beside:
        return
    name = (loop if plan.along else nest.inner).variable.name
    aligned, stored = (lanes_of(ops or loads, nest, loop, lines, plan.along, known) for ops in (loads, plan.work.stores))
    wide = min((ANYWHERE.get(_size(op), 1) for op in loads), default=1)
    run = plan.direct and aligned < wide and (plan.along or lines % wide == 0)
    run = run and all(steps_by_one(mem_of(op.mem), op.index, name) for op in loads)
    pieces = {*(aligned * _size(op) for op in loads), *(row.lanes * _size(row.load) for row in plan.rows)}
    copied = known.machine.has(Feature.ASYNC_COPIES) and pieces <= set(COPIED)
    for helpers, ahead in product(HELPERS, AHEAD):
        lanes = wide if run and not ahead else aligned
        words = sum(lines * max(4 if ahead else 1, lanes * _size(op) // 4) / lanes for op in loads) + sum(
            row.width * _size(row.load) / 4 for row in plan.rows
        )
        steps = 1 << (max(1, min(most, int(HELD * helpers // words))).bit_length() - 1)
        sized = evolve(plan, lanes=lanes, stored=stored, anywhere=lanes > aligned, steps=steps, helpers=helpers, ahead=ahead)
        while sized.shared > known.machine.block_shared and sized.steps > LEAST_STEPS:
            sized = evolve(sized, steps=sized.steps // 2)
        for part in (sized, evolve(sized, steps=sized.steps // 2)):
            enough = part.steps >= LEAST_STEPS and max(lanes, stored) * helpers <= lines * part.steps
            enough = enough and not (part.words and (helpers < HELPERS[0] or any(lanes * _size(op) % WORD for op in loads)))
            if enough and copied == bool(ahead) and (length is None or 2 * part.steps <= length):
                yield part


def price_of(plan: StagedMarch, nest: Spread, known: Facts) -> float:
    """About how many nanoseconds it takes."""
    work = plan.work
    sizes = [size for sizes in work.sizes for size in sizes]
    stores = [op for op in plan.loop.body.body if isinstance(op, Store)]
    own = work.instructions + sum(size / ALIGNMENT if plan.steps_beside else 1.0 for size in sizes)
    own += STORED * (len(stores) - len(work.stores)) + (0.0 if plan.written_out else TURN / plan.at_once)
    beside = plan.along == plan.steps_beside
    exchanged = work.sizes[1] if plan.direct else sizes
    each = sum(size / ALIGNMENT if beside else 1.0 for size in exchanged) + work.helping
    each += (4 + SHIFTED * plan.anywhere) * len(plan.loads) / plan.lanes + 4 * len(work.stores) / plan.stored
    helpers = plan.lines * each + sum(row.width / row.lanes for row in plan.rows) * 4
    accesses: list[Load | Store] = [*plan.loads, *stores]
    width, loaded = min(map(_size, accesses), default=4), sum(map(_size, plan.loads))
    shape = MarchShape(
        blocks_of(plan, nest, known),
        plan.lines,
        max(1, known.about(plan.loop.high - plan.loop.low)),
        plan.steps,
        plan.ahead,
        plan.own_threads // known.machine.lanes,
        own,
        work.wait,
        HELPING * helpers / known.machine.lanes,
        plan.threads,
        plan.registers,
        plan.shared,
        sum(map(_size, accesses)),
        width * (plan.steps if plan.along else plan.lines),
        0 if plan.lanes * min(map(_size, plan.loads), default=ALIGNMENT) >= ALIGNMENT else plan.ahead * plan.steps * plan.lines * loaded,
    )
    return nanoseconds(shape, known)


def price_of_threads(nest: Spread, loop: For, march: March | None, threads: int, known: Facts) -> float:
    """About how many nanoseconds a thread a line takes, in blocks of so many."""
    body, total = loop.body.body, prod(max(1, known.about(iterations(outer))) for outer in nest.loops)
    accesses = [op for op in body if isinstance(op, Load | Store)]
    beside = all(op.index and op.index[-1].coefficient(nest.inner.variable.name) == 1 for op in accesses)
    width, ahead = min(map(_size, accesses), default=ALIGNMENT), 1 if march is None else march.steps
    shape = MarchShape(
        ceil(total / threads),
        threads,
        max(1, known.about(loop.high - loop.low)),
        ahead,
        1,
        threads // known.machine.lanes,
        sum(map(cost_of, body[:-1])) + 3 * len(accesses),
        wait_of(loop, body) + QUEUED / ahead,
        0.0,
        threads,
        40 + 2 * ahead * len(accesses),
        0,
        sum(map(_size, accesses)),
        width * (threads if beside else 1),
    )
    return nanoseconds(shape, known)


def lanes_of(accesses: Sequence[Load | Store], nest: Spread, loop: For, lines: int, along: bool, known: Facts) -> int:
    """Neighbouring steps, or lines, that a helper takes at once: as many as 16 bytes have of the widest elements, or fewer."""
    axis = loop if along else nest.inner
    lanes = ALIGNMENT // max(map(_size, accesses), default=ALIGNMENT)
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


def _size(op: Load | Store) -> int:
    return bytes_of(mem_of(op.mem).dtype)


def _all_apart(stores: Sequence[Store], step: str) -> bool:
    """Whether each step of each line stores to an element of its own, so that nobody minds who stores it when: the analysis of the leading
    loops says so for lines, and each step moves on."""
    moves = [any(form.coefficient(step) and step not in form.without(step).names for form in op.index) for op in stores]
    return len({op.mem for op in stores}) == len(stores) and all(moves)


def only_reads(ops: Sequence[Instruction], loop: For) -> bool:
    """Whether what stands before the loop may be done by threads without a line, too: it reads what no line stores."""
    before = ops[: ops.index(loop)]
    stored = {inside.mem for op in ops for inside in op.walk() if isinstance(inside, Store)}
    if any(op.regions or not (op.effects is Effect.PURE or isinstance(op, Load | Check)) for op in before):
        return False
    return not any(isinstance(op, Load) and op.mem in stored for op in before)


def rows_of(shared: Sequence[Load], known: Facts) -> tuple[tuple[SharedRow, ...], dict[Load, tuple[int, int]]] | None:
    """The rows in which these loads lie, those side by side together."""
    groups: dict[tuple[object, ...], list[Load]] = {}
    for load in shared:
        if not load.index:
            return None
        last = load.index[-1]
        groups.setdefault((load.mem, *load.index[:-1], last - last.constant), []).append(load)
    rows, places = list[SharedRow](), dict[Load, tuple[int, int]]()
    for group in groups.values():
        mem, columns = with_units(group[0].mem, known), [load.index[-1].constant for load in group]
        low, width, lanes = min(columns), max(columns) - min(columns) + 1, ALIGNMENT // bytes_of(mem.dtype)
        if width > 2 * len(set(columns)) or (mem.strides is not None and mem.strides[-1].value != 1):
            return None
        first = next(load for load in group if load.index[-1].constant == low)
        while lanes > 1 and (width % lanes or alignment(mem, first.index) % (lanes * bytes_of(mem.dtype))):
            lanes //= 2
        places.update({load: (len(rows), load.index[-1].constant - low) for load in group})
        rows.append(SharedRow(first, low, width, lanes))
    return (tuple(rows), places) if sum(row.width * _size(row.load) for row in rows) <= MOST_BYTES else None
