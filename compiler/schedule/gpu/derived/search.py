"""The launch of a field that a thread's values follow from, and its tables, best-priced first: registers along the axes by neighbours of
the best, for each of them some ways to stand threads."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import prod

from compiler.hir.core import Compare, Const, Contract, InBounds, Index, Reduce
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.derived.accesses import strides_of
from compiler.schedule.gpu.derived.instances import DigitSpan, ThreadInstances, TooManyValues
from compiler.schedule.gpu.derived.nest import LARGEST_STEP, ThreadNest, thread_nest
from compiler.schedule.gpu.derived.price import ThreadPrice, ThreadWork, price, work_of
from compiler.schedule.gpu.derived.table import ThreadTable, spans_of
from compiler.schedule.gpu.derived.turned_results import MOST_TILE, can_turn, tiles_of
from compiler.schedule.gpu.derived.written import derived_launch
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import power_of_two
from compiler.schedule.gpu.price.memory_traffic import LINE
from compiler.schedule.launches import Launches
from runtime.records import frozen

MOST_REGISTERS = 64
"""Elements of a thread."""
MOST_DERIVED = 10
"""Ways to give registers to the axes that are looked at."""
BLOCKS = (128, 256)
"""Threads of a block, about."""
LEAST_THREADS = 96
MOST_BLOCKS = 1 << 31
MANY, FEW_TERMS = 64, 16
"""Results of a multiprocessor that keep it at work, where each has more terms than few."""
LEAST_LANES = 16
"""Of an axis that lanes lie along for what they read."""
FEW_TURNED, LONGEST_TURNED = 4, 32
"""Elements of a thread along rows of results that are turned, to begin with; and rows that it has whole."""
VALUES = 14000
"""Numbered values of all ways together, about."""
NEAR = 1.15
"""Times the best price: what the model may be wrong by."""
MOST = 5
"""Tables that are tried on a device."""


@frozen(eq=False)
class PricedTable:
    """A table with its price, and what its threads compute: all of them, and if it pays those away from the edges."""

    table: ThreadTable
    price: ThreadPrice
    everywhere: ThreadInstances
    inside: ThreadInstances | None


def derived_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field that isn't of the shape."""
    nest = thread_nest(field)
    if nest is None:
        return None
    best = priced(nest, facts.table, facts) if facts.table is not None else next(iter(candidates(nest, facts)), None)
    if best is None:
        return None
    launch = derived_launch(nest, best.table, best.everywhere, best.inside)
    return Launches((launch,), (), words=words_of(best, nest.axes))


def near_tables(field: HirFunction, facts: Facts) -> list[tuple[ThreadTable, float]]:
    """The table with the best price, and others that may be as fast, with their nanoseconds: of each way to give registers the best, then
    the best one's threads in another way. None for a field that isn't of the shape."""
    nest = thread_nest(field)
    every = candidates(nest, facts) if nest is not None else []
    near = [each for each in every if each.price.nanoseconds <= NEAR * every[0].price.nanoseconds]
    first: dict[tuple[int, ...], PricedTable] = {}
    for each in near:
        first.setdefault(each.table.registers, each)
    others = [each for each in near if each not in first.values()]
    chosen = [*first.values()][: MOST - 1] + others[:1]
    return [(each.table, each.price.nanoseconds) for each in chosen]


def words_of(chosen: PricedTable, axes: tuple[str, ...]) -> tuple[str, ...]:
    """What a table says, and why it was taken."""
    table = chosen.table
    along = zip(axes, table.registers, table.threads, strict=False)
    parts = [f"{axis}: {registers} x {threads}" for axis, registers, threads in along if registers * threads > 1]
    words = [f"elements of a thread x threads of a block, by axis: {', '.join(parts)}"]
    if chosen.inside is not None:
        words.append("threads away from the edges have code of their own")
    return (*words, chosen.price.words())


def lanes_of(nest: ThreadNest, facts: Facts) -> int | None:
    """The axis along which lanes lie; None where there are no tables: results are few, or neighbours read what is far apart."""
    lane = lane_axis(nest)
    if nest.extents[lane] < LEAST_LANES:
        lane = _beside(nest, lane)
    if not _is_near(nest, lane):
        lane = _beside(nest, lane)
    if not _is_near(nest, lane) and can_turn(nest):
        lane = _turning_axis(nest, lane)
    few = nest.results < facts.processors * MANY and prod(nest.extents[nest.outputs :]) > FEW_TERMS
    return None if few or max(nest.extents) >= MOST_BLOCKS or not (_is_near(nest, lane) or is_turned(nest, lane)) else lane


def candidates(nest: ThreadNest, facts: Facts) -> list[PricedTable]:
    """Some tables of the nest, the best-priced first; none where it can't have any."""
    if (lane := lanes_of(nest, facts)) is None:
        return []
    seen: dict[tuple[int, ...], list[PricedTable]] = {}
    waiting, spent = _promising(nest, lane), 0
    while waiting and len(seen) < MOST_DERIVED and spent < VALUES:
        registers = waiting.pop(0)
        if registers in seen:
            continue
        seen[registers] = _with(nest, registers, _tables(nest, registers, lane), lane, facts)
        spent += sum(len(found.everywhere.nodes) for found in seen[registers][:1])
        if not waiting:
            best = min((found for found in seen.values() if found), key=lambda found: found[0].price.nanoseconds, default=None)
            if best is not None:
                near = [near for near in _neighbours(nest, best[0].table.registers, lane) if near not in seen]
                waiting = sorted(near, key=partial(rough_cost, nest))[:3]
    every = [candidate for found in seen.values() for candidate in found]
    return sorted(every, key=lambda candidate: candidate.price.nanoseconds)


def _is_near(nest: ThreadNest, lane: int) -> bool:
    """Whether neighbours along the lanes of a warp find their elements in the same place, or a few elements on."""
    return all(is_near(nest, op, lane) for op in nest.ops if isinstance(op, Load))


def is_near(nest: ThreadNest, load: Load, lane: int) -> bool:
    """The same, of one of the nest's loads. Lanes may be a line of the cache apart where they read most of what lies between them."""
    step = abs(_step(nest, nest.ops.index(load), lane))
    if step <= LARGEST_STEP:
        return True
    loads = (number for number, op in enumerate(nest.ops) if isinstance(op, Load) and op.mem is load.mem)
    together = {nest.forms[number] for number in loads if abs(_step(nest, number, lane)) == step}
    return step * bytes_of(mem_of(load.mem).dtype) <= LINE and 2 * len(together) > step


def _step(nest: ThreadNest, number: int, lane: int) -> int:
    """Elements between what neighbouring lanes read by a load."""
    op = nest.ops[number]
    assert isinstance(op, Load)
    places = zip(nest.forms[number], strides_of(mem_of(op.mem)), strict=True)
    return sum(coefficient * stride for (terms, _), stride in places for axis, coefficient in terms if axis == lane)


def _beside(nest: ThreadNest, writing: int) -> int:
    """An axis along which neighbours read what lies near and write a few elements on: those between are the thread's own. Else the one that
    results lie along."""
    steps = _stored_steps(nest)
    near = [axis for axis, step in steps.items() if step <= LARGEST_STEP and nest.extents[axis] >= LEAST_LANES and _is_near(nest, axis)]
    return min(near, key=steps.__getitem__, default=writing)


def _turning_axis(nest: ThreadNest, writing: int) -> int:
    """The axis along which neighbours read most of what they read near each other, where that is more than along the results' own."""
    loads = [(number, op) for number, op in enumerate(nest.ops) if isinstance(op, Load)]
    axes = [axis for axis in range(nest.outputs) if axis == writing or nest.extents[axis] >= LEAST_LANES]
    near = {axis: sum(prod(nest.extents[v] for v in nest.varying[n]) for n, op in loads if is_near(nest, op, axis)) for axis in axes}
    best = max(axes, key=lambda axis: (near[axis], axis != writing))
    return best if near[best] >= near[writing] else writing


def is_turned(nest: ThreadNest, lane: int) -> bool:
    """Whether lanes along an axis would write far from each other, and tiles of results are turned."""
    return _stored_steps(nest).get(lane, 0) > LARGEST_STEP and can_turn(nest)


def lane_axis(nest: ThreadNest) -> int:
    """The axis along which results lie nearest to each other."""
    return min(steps, key=steps.__getitem__) if (steps := _stored_steps(nest)) else nest.outputs - 1


def _stored_steps(nest: ThreadNest) -> dict[int, int]:
    """Elements between what neighbours along an axis write, the least of all stores."""
    least = dict[int, int]()
    for number, op in enumerate(nest.ops):
        if isinstance(op, Store):
            steps = dict[int, int]()
            for (terms, _), stride in zip(nest.forms[number], strides_of(mem_of(op.mem)), strict=True):
                for axis, coefficient in terms:
                    steps[axis] = steps.get(axis, 0) + coefficient * stride
            for axis, step in steps.items():
                if nest.extents[axis] > 1 and step:
                    least[axis] = min(least.get(axis, abs(step)), abs(step))
    return least


def _widest(nest: ThreadNest) -> int:
    """Elements of the narrowest type that a vector holds."""
    return ALIGNMENT // min(bytes_of(mem_of(op.mem).dtype) for op in nest.ops if isinstance(op, Load | Store))


def _promising(nest: ThreadNest, lane: int) -> list[tuple[int, ...]]:
    """Registers of the axes to begin with: for some widths along the lanes those that a rough count of instructions goes down to."""
    extent, wide = nest.extents[lane], max(4, _widest(nest))
    fitting = [each for each in (16, 8, 4, 2) if each <= wide and extent % each == 0] or [min(4, extent), 1]
    steps, starts = _stored_steps(nest), []
    between = {axis: nest.extents[axis] for axis, step in steps.items() if axis != lane and step * nest.extents[axis] <= steps.get(lane, 0)}
    if is_turned(nest, lane):
        writing = lane_axis(nest)
        between = {writing: nest.extents[writing] if nest.extents[writing] <= LONGEST_TURNED else FEW_TURNED}
    for each in fitting[:3]:
        best = tuple(each if axis == lane else between.get(axis, 1) for axis in range(nest.outputs))
        cost = rough_cost(nest, best)
        starts.append(best)
        while True:
            near = [other for other in _neighbours(nest, best, lane) if other[lane] == each]
            least = min(near, key=partial(rough_cost, nest), default=best)
            if rough_cost(nest, least) > 0.93 * cost:
                break
            best, cost = least, rough_cost(nest, least)
        starts.append(best)
    return sorted(dict.fromkeys(starts), key=partial(rough_cost, nest))[:4]


def rough_cost(nest: ThreadNest, registers: tuple[int, ...]) -> float:
    """About how many instructions an element costs, and more where a thread has more values than registers."""
    total, most = 12.0, 0
    sizes = (*registers, *nest.extents[nest.outputs :])
    distinct: dict[int, float] = {}
    for number, op in enumerate(nest.ops):
        if isinstance(op, Load):
            count = prod(_distinct(terms, sizes) for terms, _ in nest.forms[number])
            rows = prod(_distinct(terms, sizes) for terms, _ in nest.forms[number][:-1])
            distinct[number] = count
            total += max(rows, count / 4)
            most = max(most, min(count, prod(registers) * 4))
            continue
        sources = [nest.numbers.get(value, -1) for value in op.operand_values]
        own = [source for source in sources if source >= 0 and not isinstance(nest.ops[source], Const)]
        inner = op.over if isinstance(op, Reduce | Contract) else ()
        if len(own) == 1 and own[0] in distinct and not inner:
            distinct[number] = distinct[own[0]]
            total += distinct[number]
        elif not isinstance(op, Const | Index | Compare | InBounds):
            axes = {*nest.varying[number], *(nest.axes.index(axis) for axis in inner)}
            total += prod(sizes[axis] for axis in axes)
    elements = prod(registers)
    return total / elements * (1 + max(0.0, (elements + most - 80) / 80))


def _distinct(terms: Sequence[tuple[int, int]], sizes: Sequence[int]) -> int:
    """How many places an index takes in a thread."""
    places = {0}
    for axis, coefficient in terms:
        places = {place + coefficient * element for place in places for element in range(sizes[axis])}
    return len(places)


def _neighbours(nest: ThreadNest, registers: tuple[int, ...], lane: int) -> Iterator[tuple[int, ...]]:
    for axis in range(nest.outputs):
        choices = {registers[axis] * 2, registers[axis] // 2}
        if axis != lane:
            choices |= {registers[axis] + 1} if registers[axis] <= 2 else set()
        for each in sorted(choices):
            near = (*registers[:axis], each, *registers[axis + 1 :])
            extent = nest.extents[axis]
            if each < 1 or each > extent or prod(near) > MOST_REGISTERS:
                continue
            if axis == lane and (each > max(4, _widest(nest)) or (extent % each and each > 4)):
                continue
            if axis != lane and -(-extent // each) * each > 1.25 * extent:
                continue
            yield near


def priced(nest: ThreadNest, table: ThreadTable, facts: Facts) -> PricedTable | None:
    """A table with its price."""
    return next(iter(_with(nest, table.registers, [table], table.order[0], facts)), None)


def _with(nest: ThreadNest, registers: tuple[int, ...], tables: Iterable[ThreadTable], lane: int, facts: Facts) -> list[PricedTable]:
    """Those of the tables, all with these registers, that have the best prices."""
    spans = spans_of(nest, registers)
    try:
        everywhere = ThreadInstances(nest, registers, spans)
        narrower = _away_from_edges(everywhere, spans, lane)
        inside = None if narrower is None else ThreadInstances(nest, registers, narrower)
    except TooManyValues:
        return []
    work = work_of(everywhere)
    works: list[tuple[float, ThreadWork]] = [(1.0, work)]
    if inside is not None and narrower is not None:
        share = prod((span.high - span.low + 1) / (whole.high + 1) for span, whole in zip(narrower, spans, strict=True))
        works = [(min(1.0, 1.15 * (1 - share)), work), (share, work_of(inside))]
        if sum(part * each.instructions for part, each in works) > work.instructions:
            inside, works = None, [(1.0, work)]
    few = [table for table in tables if prod(table.blocks(nest)) < MOST_BLOCKS]
    prices = [price(nest, table, works, facts.machine, facts.processors, facts.rates) for table in few]
    tried = [PricedTable(table, cost, everywhere, inside) for table, cost in zip(few, prices, strict=True)]
    return sorted(tried, key=lambda each: each.price.nanoseconds)[:3]


def _away_from_edges(instances: ThreadInstances, spans: Sequence[DigitSpan], lane: int) -> tuple[DigitSpan, ...] | None:
    """The spans in which conditions on a single axis hold, those along the lanes of a warp apart: its lanes would go two ways."""
    narrower = list(spans)
    for node, needed in zip(instances.nodes, instances.live(), strict=True):
        if needed and node[0] == "ge" and len(node[1]) == 1 and abs(node[1][0][1]) == 1 and node[1][0][0] != lane:
            (((axis, sign),), constant) = node[1:]
            span = narrower[axis]
            low, high = (max(span.low, -constant), span.high) if sign > 0 else (span.low, min(span.high, constant))
            narrower[axis] = DigitSpan(span.unit, low, high)
    if tuple(narrower) == tuple(spans) or any(span.low > span.high for span in narrower):
        return None
    return tuple(narrower)


def _tables(nest: ThreadNest, registers: tuple[int, ...], lane: int) -> Iterator[ThreadTable]:
    """Some ways to stand threads: as many along the lanes as fill them, up to a block; the rest along the next axes."""
    tiles = [-(-extent // each) for extent, each in zip(nest.extents, registers, strict=False)]
    others, turned = [axis for axis in range(nest.outputs - 1, -1, -1) if axis != lane], is_turned(nest, lane)
    if turned:
        others.sort(key=lambda axis: axis != lane_axis(nest))
    made = set()
    for block in BLOCKS:
        widths = {min(block, power_of_two(tiles[lane])), min(block, 16), min(block, 32), min(block, 64)} | {tiles[lane]}
        for along in sorted(widths, reverse=True):
            if along > block or along > power_of_two(tiles[lane]):
                continue
            for second in (block, 2, 4):
                threads, left = [1] * nest.outputs, block // along
                threads[lane] = along
                for axis, most in zip(others, (second, *(block for _ in others)), strict=False):
                    threads[axis] = max(1, min(left, most, power_of_two(tiles[axis])))
                    left //= threads[axis]
                key = tuple(threads)
                if key not in made and (prod(threads) >= LEAST_THREADS or prod(tiles) < LEAST_THREADS * nest.outputs):
                    made.add(key)
                    table = ThreadTable(registers, key, (lane, *others), turned)
                    whole = not turned or all(tile <= extent for tile, extent in zip(table.tile, nest.extents, strict=False))
                    mems = tiles_of(nest, table).values() if turned else ()
                    if whole and sum(prod(dim.constant for dim in mem.dims) * bytes_of(mem.dtype) for mem in mems) <= MOST_TILE:
                        yield table
