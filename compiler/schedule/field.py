"""Tables for fields on the CPU, derived from the field alone: which axis is the vector (the one along which memory is
contiguous), which is shared out to threads (one that every result varies along), how many registers hide the latency."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from math import prod

from compiler.analysis.recognise import ProductSum, instructions_below, product_sum
from compiler.analysis.written_order import axes_in_written_order
from compiler.hir.affine import Affine
from compiler.hir.core import Combine, Contract, Reduce, Scan, Select, dtype_of, names_of_axes
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import FLOATS, Tile, bytes_of
from compiler.machines.cpu import CpuMachine
from compiler.schedule.loop_wishes import LoopWishes
from compiler.schedule.materialise import common_axes
from compiler.schedule.pieces import LEAST_SQUARE
from compiler.schedule.searches import searches
from compiler.schedule.table import AxisPlan, Table
from runtime.records import frozen

MAP_VECTORS = 2
"""Vectors a map keeps in flight: enough to hide load latency; more only grows the code."""

ACCUMULATORS = 4
"""Vector accumulators of a reduction along contiguous memory: latency of an add times adds a cycle. Where it runs through a whole
tensor, twice as many: more loads in flight, and no short rows that they would overshoot."""

SUMMED_ROWS = 4
"""Rows of a matrix that are summed side by side: what else is read along them is read once for all."""

TINY_ROW, LONG_ROW = 512, 1 << 14
"""Bytes of a row: processors fetch memory ahead along several at once where these lie in one page, or go on for some pages."""

WINDOW_ROWS = 4
"""Rows in flight of a window that moves over a picture."""

MOST_WRITTEN_OUT = 72
"""Vectors of a tile's terms that are written out one after the other, without a loop."""

MOST_SHARED = 3
"""Axes that are shared out together: each costs a division an iteration, and three are enough to keep all cores busy."""

SCAN_VECTORS = 8
"""Vectors of a running value between two steps of what is carried."""

FEW_APART = 4
"""Elements between neighbours of a vector up to which it is loaded as what lies around it, and put together in registers."""

SQUARE = 16
"""The largest square of elements that is turned in registers."""


CACHE_LINE = 64
"""Bytes that come from memory together."""


@frozen
class _TableFacts:
    """What the choice of a table looks at."""

    common: tuple[str, ...]
    """Axes that every store's index names and no reduction runs along, in order of appearance."""
    reduced: frozenset[str]
    scanned: frozenset[str]
    ordered: tuple[str, ...]
    """Axes that a reduction runs along in exact order, no permission to reassociate, and those that the program wants so."""
    widest: str
    windows: frozenset[str]
    """Axes along which windows reach that move by a few elements."""


def table_for(field: HirFunction, machine: CpuMachine, tiled: bool = True) -> Table:
    """The table of places for a field. Every axis of the field gets a plan. `tiled`: with the sizes that the program gives tiles."""
    facts = _look(field)
    tiles: dict[str, tuple[int, int]] = {}
    reasons: list[str] = []
    rows: list[str] = []
    for op in field.body.body:
        product = product_sum(op)
        if product is not None and (isinstance(op, Contract) or (product.m and product.n)):
            rows += _block_product(field, product, facts, machine, tiles, reasons)
    rows += _choose_vector(field, facts, machine, tiles, reasons)
    wishes = LoopWishes(field, facts.ordered, facts.reduced)
    wishes.vectors(tiles, contiguity(field), machine.lanes(facts.widest))
    # lanes are one axis of values: where a short extent narrows them for one loop, all have so many
    narrowest = min((lanes for _, lanes in tiles.values() if lanes > 1), default=1)
    tiles = {axis: (registers, min(lanes, narrowest)) for axis, (registers, lanes) in tiles.items()}
    if tiled:
        wishes.sizes(tiles)
    unrolled = wishes.written_out(tiles)
    order = _order(field, facts, tiles)
    threaded = wishes.threads(order, _threaded(field, facts, order), MOST_SHARED, facts.reduced | facts.scanned)
    for axis in threaded:
        why = "every result varies along it" if axis in facts.common else "its reduction may be cut in chunks"
        reasons.append(f"{axis} is shared out to threads: {why}")
    plans = [AxisPlan(axis, "thread" if axis in threaded else "time", *tiles.get(axis, (1, 1))) for axis in order]
    block_rows = rows[0] if len(rows) == 1 else None
    turns = _written_out(field, facts, plans, {axis for axis, _ in unrolled})
    return Table(
        plans,
        reasons,
        written_out=turns,
        unrolled=unrolled,
        unheeded=wishes.unheeded,
        rows=block_rows,
        masked_bits=machine.masked_bits,
        halves=machine.vector_bits >= 512 and block_rows is not None,
    )


def _written_out(field: HirFunction, facts: _TableFacts, plans: Sequence[AxisPlan], wished: set[str]) -> frozenset[str]:
    """The innermost axes of a reduction of a few terms, whose number is constant: a loop would take longer than its body."""
    vectors = prod(plan.registers for plan in plans)
    axes: list[str] = []
    for plan in reversed(plans):
        extent = field.axes[plan.axis].value
        if plan.axis not in facts.reduced or plan.tile > 1 or extent is None or plan.axis in wished or vectors * extent > MOST_WRITTEN_OUT:
            break
        vectors *= extent
        axes.append(plan.axis)
    return frozenset(axes)


def _threaded(field: HirFunction, facts: _TableFacts, order: list[str]) -> list[str]:
    """Axes that are shared out to threads, as one loop over all their iterations: the leading ones that every result varies along, so
    that a batch of one doesn't leave the other cores idle. A map, or a window, keeps its last axis for itself: its iterations are too
    short for the arithmetic that finds their place."""
    leading = list(takewhile(lambda axis: axis in facts.common and axis not in facts.ordered, order))
    if leading:
        return leading[: max(1, len(leading) - 1)] if facts.reduced <= facts.windows else leading[:MOST_SHARED]
    return order[:1] if order and order[0] not in facts.ordered else []


def _look(field: HirFunction) -> _TableFacts:
    common = common_axes(field)
    reduced: set[str] = set()
    scanned: set[str] = set()
    for op in field.body.body:
        if isinstance(op, Reduce | Contract):
            reduced.update(op.over)
        if isinstance(op, Scan):
            scanned.update(op.over)
    # A loop over an axis that is reduced can't stand around the reduction: such an axis is walked again for each pass.
    common = tuple(axis for axis in common if axis not in reduced)
    windows = _windows(field, common, reduced)
    return _TableFacts(common, frozenset(reduced), frozenset(scanned), axes_in_written_order(field), _computed_dtype(field), windows)


def _windows(field: HirFunction, common: Iterable[str], reduced: Iterable[str]) -> frozenset[str]:
    forms = [form for op in field.body.body if isinstance(op, Load) for form in op.index]
    moving = [form for form in forms if any(0 < form.coefficient(axis) <= FEW_APART for axis in common)]
    return frozenset(axis for axis in reduced if any(0 < abs(form.coefficient(axis)) <= FEW_APART for form in moving))


def _computed_dtype(field: HirFunction) -> str:
    """The widest number that the field computes with: it decides how many lanes a vector has. Places of best elements are computed from the
    numbers of tiles, not in every lane. Floats that are only moved are so many bits."""
    widest = "i8"
    if all(isinstance(op, Load | Store) for op in field.body.body):
        sizes = [bytes_of(mem_of(op.mem).dtype) for op in field.body.body if isinstance(op, Load | Store)]
        return f"i{8 * max(sizes, default=1)}"
    found = [op for op in field.body.body if isinstance(op, Reduce) and searches(op)]
    joined = [op for op in field.body.body if isinstance(op, Combine) and any(op_.results[1] in op.operand_values for op_ in found)]
    places = {value for op in found for value in (op.values[1], op.results[1])} | {op.results[1] for op in joined}
    for op in field.body.body:
        for value in {*op.results, *op.operand_values} - places:
            if isinstance(value.type, Tile) and value.type.axes and value.type.dtype not in ("i1", "index"):
                dtype = "f32" if FLOATS.get(value.type.dtype, 32) < 32 else value.type.dtype
                widest = max(widest, dtype, key=lambda d: CpuMachine(512).lanes(d) * -1)
    return widest


def contiguity(field: HirFunction, among: list[Instruction] | None = None) -> dict[str, int]:
    """Votes by axis, weighted by the number of axes of the access (its traffic): for, when a step along the axis is a step to the
    next element; against, when it is a longer one; none, when it is a few elements that a load passes over."""
    votes: dict[str, int] = dict.fromkeys(field.axes, 0)
    for op in field.body.body if among is None else among:
        if not isinstance(op, Load | Store):
            continue
        weight = sum(any(form.coefficient(axis) for form in op.index) for axis in field.axes)
        for axis in field.axes:
            if not any(form.coefficient(axis) for form in op.index):
                continue
            apart = elements_apart(op, axis)
            if apart == 1:
                votes[axis] += weight
            elif not (isinstance(op, Load) and 1 < apart <= FEW_APART):
                votes[axis] -= weight
    return votes


def elements_apart(op: Load | Store, axis: str) -> int:
    """How many elements a step along an axis passes in memory; 0: many."""
    mem, steps = mem_of(op.mem), [form.coefficient(axis) for form in op.index]
    dense = [dim for dim in range(mem.rank) if (dim == mem.rank - 1 if mem.strides is None else mem.strides[dim].value == 1)]
    return next((steps[dim] for dim in dense if not any(steps[:dim]) and not any(steps[dim + 1 :])), 0)


def _lanes(field: HirFunction, axis: str, lanes: int) -> int:
    """No more lanes than a static extent has elements, rounded down to a power of two."""
    extent = field.axes[axis].value
    while extent is not None and lanes > 1 and lanes > extent:
        lanes //= 2
    return lanes


def _registers(field: HirFunction, axis: str, registers: int, lanes: int) -> int:
    extent = field.axes[axis].value
    while extent is not None and registers > 1 and registers * lanes > extent:
        registers -= 1
    return registers


def _order(field: HirFunction, facts: _TableFacts, tiles: dict[str, tuple[int, int]]) -> list[str]:
    """Loop order: axes common to everything first, those without tiles outermost, vectors before rows of registers (a panel as
    wide as the vectors is then reused from the cache by all rows); then the rest in the same manner."""

    def rank(axis: str) -> tuple[bool, int]:
        registers, lanes = tiles.get(axis, (1, 1))
        return axis not in facts.common, 3 if axis in facts.ordered else 1 if lanes > 1 else 2 if registers > 1 else 0

    def inner_rank(axis: str) -> tuple[bool, int]:
        # Inside, vectors run fastest: they follow memory.
        registers, lanes = tiles.get(axis, (1, 1))
        return axis not in facts.common, 2 if lanes > 1 and axis in facts.reduced else 1 if registers > 1 else 0

    common = sorted((a for a in field.axes if a in facts.common), key=rank)
    remaining = sorted((a for a in field.axes if a not in facts.common and a not in facts.reduced), key=rank)
    reduced = sorted((a for a in field.axes if a not in facts.common and a in facts.reduced), key=inner_rank)
    if len(common) > 1 and not any(isinstance(op, Contract) for op in field.body.body):
        if not facts.reduced and not facts.scanned:
            common.sort(key=lambda a: _reach(field, a), reverse=True)
        # A map or reduction walks memory in its own order: the vector axis innermost.
        common.sort(key=lambda a: (a in facts.ordered, tiles.get(a, (1, 1))[1] > 1))
    if facts.ordered:
        reduced.sort(key=lambda a: facts.ordered.index(a) if a in facts.ordered else -1)
    # A running value is carried by the innermost loop.
    return sorted(common + remaining + reduced, key=lambda axis: axis in facts.scanned)


def _reach(field: HirFunction, axis: str) -> tuple[int, int]:
    """How many dimensions of an access, and of a load, at least vary faster than the axis: where results are stored in another order than
    they are read, axes that are slow in both go around those that cross."""

    loads, stores = ([op.index for op in field.body.body if isinstance(op, kind)] for kind in (Load, Store))

    def least(indices: Iterable[tuple[Affine, ...]]) -> int:
        return min((len(index) - 1 - dim for index in indices for dim, form in enumerate(index) if axis in form.names), default=0)

    return (least(loads), least([*loads, *stores]))


def _choose_vector(
    field: HirFunction, facts: _TableFacts, machine: CpuMachine, tiles: dict[str, tuple[int, int]], reasons: list[str]
) -> list[str]:
    """Vectors for what isn't a contraction: the axis with the most contiguous traffic, if no target then has two vector axes. Gives the
    axis of rows that are summed side by side, if there is one."""
    contracted = {a for op in field.body.body if (p := product_sum(op)) is not None and p.m and p.n for a in p.k}
    votes = contiguity(field)
    allowed = [a for a in field.axes if a not in facts.ordered and a not in contracted and a not in tiles and _is_free(field, a, tiles)]
    full = machine.lanes(facts.widest)

    def rank(axis: str) -> tuple[int, int, bool]:
        # a window's few elements fill no vector
        filled = _lanes(field, axis, full) if votes[axis] > 0 and axis not in facts.windows else 0
        return filled, votes[axis], axis in facts.common

    best = max(allowed, key=rank, default=None)
    if _turn_squares(field, facts, machine, tiles, reasons) or _turn_results(field, facts, full, tiles, reasons):
        return []
    if best is None or votes[best] <= 0:
        return []
    lanes = _lanes(field, best, full)
    others = [] if tiles or lanes == full or facts.windows else [a for a in facts.common[::-1] if a != best]
    if any(a not in facts.ordered and _interleave(field, full, [best, a], tiles, reasons) for a in others):
        return []
    # a search has two for each vector
    accumulators = ACCUMULATORS if facts.common or any(searches(op) for op in field.body.body) else 2 * ACCUMULATORS
    vectors = accumulators if best in facts.reduced and not tiles else MAP_VECTORS
    if best in facts.scanned:
        vectors = SCAN_VECTORS
    along = [op for op in field.body.body if isinstance(op, Reduce | Scan) and best in axes_of(op)]
    downwards = best not in facts.reduced | facts.scanned and bool(along)
    rows = [a for a in facts.common if a not in (best, *tiles, *facts.ordered) and _slides(field, a, facts, overlapping=True)]
    if downwards and (rows or _slides(field, best, facts)):
        if rows:
            tiles[rows[-1]] = (_registers(field, rows[-1], WINDOW_ROWS, 1), 1)
            reasons.append(f"{rows[-1]} moves the window too: some of its rows share what is read")
    elif downwards:
        # The reduction walks down columns: a wide panel reads whole stretches of each row, which the prefetcher follows.
        vectors = machine.vector_registers // 2
    summed = [a for a in facts.common if a not in facts.ordered and not tiles]
    summed = [a for a in summed[-1:] if _shares_rows(field, best, a)]
    if summed:
        tiles[summed[-1]], vectors = (_registers(field, summed[-1], SUMMED_ROWS, 1), 1), accumulators // 2
        reasons.append(f"{summed[-1]}: several rows are read side by side")
    tiles[best] = (_registers(field, best, vectors, lanes), lanes)
    reasons.append(f"{best} is the vector: memory is contiguous along it")
    return summed


def _shares_rows(field: HirFunction, axis: str, row: str) -> bool:
    """Whether all that a field does along an axis is one reduction without conditions, of rows and of what these have in common."""
    reductions = [op for op in field.body.body if isinstance(op, Reduce | Scan | Contract)]
    if len(reductions) != 1 or not isinstance(reductions[0], Reduce) or searches(reductions[0]) or reductions[0].over != (axis,):
        return False
    scope = field.scope()
    if any(isinstance(op, Store) and axis in {name for name, _ in scope.axes_of(*op.index)} for op in field.body.body):
        return False
    if any(isinstance(op, Select) or (isinstance(op, Load) and op.where is not None) for op in field.body.body):
        return False
    along = [(op, {name for name, _ in scope.axes_of(*op.index)}) for op in field.body.body if isinstance(op, Load)]
    own = [op for op, axes in along if axis in axes and row in axes]
    bytes_of_row = max((bytes_of(mem_of(op.mem).dtype) for op in own), default=0) * (field.axes[axis].value or 0)
    return any(axis in axes and row not in axes for _, axes in along) and not TINY_ROW <= bytes_of_row < LONG_ROW


def _is_free(field: HirFunction, axis: str, tiles: dict[str, tuple[int, int]]) -> bool:
    """Whether nothing is computed along the axis and along one that has vectors already: a value has one vector axis."""
    taken = [other for other, (_, lanes) in tiles.items() if lanes > 1]
    together = [axes_of(op) for op in field.body.body if isinstance(op, Store | Reduce | Contract)]
    return not any(axis in axes and any(other in axes for other in taken) for axes in together)


def _slides(field: HirFunction, axis: str, facts: _TableFacts, overlapping: bool = False) -> bool:
    """Whether a reduction moves a window along the axis: then rows are short stretches read again and again, from the cache.
    `overlapping`: and windows beside each other have elements in common, as far as numbers say."""

    def reach(form: Affine) -> int | None:
        extents = [(form.coefficient(a), field.axes[a].value) for a in facts.reduced.intersection(form.names)]
        return sum(abs(step) * (extent - 1) for step, extent in extents if extent) if all(extent for _, extent in extents) else None

    forms = [form for op in field.body.body if isinstance(op, Load) for form in op.index if form.coefficient(axis)]
    moved = [form for form in forms if facts.reduced.intersection(form.names)]
    return any(not overlapping or (far := reach(form)) is None or far >= abs(form.coefficient(axis)) for form in moved)


def _turn_squares(
    field: HirFunction, facts: _TableFacts, machine: CpuMachine, tiles: dict[str, tuple[int, int]], reasons: list[str]
) -> bool:
    """A map that writes along one axis and reads along another: squares of both, which the backend turns in registers. Whether it is
    one."""
    if tiles or facts.reduced or facts.scanned:
        return False
    stores = [op for op in field.body.body if isinstance(op, Store)]
    loads = [op for op in field.body.body if isinstance(op, Load)]
    written = [a for a in facts.common if a not in facts.ordered and all(contiguity(field, [op])[a] > 0 for op in stores)]
    if not written:
        return False
    (column, *_) = written
    votes = [contiguity(field, [op]) for op in loads]
    rows = [a for a in facts.common if a not in (column, *facts.ordered) and any(vote[a] > 0 and vote[column] for vote in votes)]
    if not rows:
        return False
    if _interleave(field, machine.lanes(facts.widest), [column, rows[0]], tiles, reasons):
        return True
    across = sum(vote[rows[0]] > 0 for vote in votes) - len(stores) - sum(vote[column] > 0 for vote in votes)
    # the vector is the axis along which most accesses lie: the others are turned; else that of rows read, so that stores fill whole lines
    vector, other = (rows[0], column) if across >= 0 else (column, rows[0])
    lanes = _lanes(field, other, _lanes(field, vector, min(machine.lanes(facts.widest), SQUARE)))
    if lanes > 1:
        line = CACHE_LINE // min(bytes_of(mem_of(op.mem).dtype) for op in field.body.body if isinstance(op, Load | Store))
        tiles[vector] = (1, lanes)
        tiles[other] = (line if _registers(field, other, line, 1) == line > lanes else lanes, 1)
        reasons.append(f"{column} is written and {rows[0]} read along memory: squares of both are turned in registers")
        return True
    return False


def _interleave(field: HirFunction, full: int, axes: list[str], tiles: dict[str, tuple[int, int]], reasons: list[str]) -> bool:
    """One of two axes has so few elements that vectors along the other one are taken apart or put together. Whether it has. Squares of four
    wide elements are turned in fewer instructions."""
    for short, vector in axes, axes[::-1]:
        extent = field.axes[short].value
        accesses = [op for op in field.body.body if isinstance(op, Load | Store) and any(form.coefficient(vector) for form in op.index)]
        few = extent is not None and (1 < extent < FEW_APART or (extent == FEW_APART and full > 2 * FEW_APART))
        if extent is not None and few and _lanes(field, vector, full) == full and all(_step(op, vector) in (1, extent) for op in accesses):
            tiles[short], tiles[vector] = (extent, 1), (1, full)
            reasons.append(f"{vector} is the vector: the {extent} elements along {short} lie between its neighbours")
            return True
    return False


def _step(op: Load | Store, axis: str) -> int:
    """How many elements a step along an axis passes in memory, through dimensions whose strides are numbers; 0: nobody knows."""
    mem = mem_of(op.mem)
    strides = mem.strides or [Affine.of(prod(d.value or 0 for d in mem.dims[dim + 1 :])) for dim in range(mem.rank)]
    steps = [(form.coefficient(axis), stride.value or 0) for form, stride in zip(op.index, strides, strict=True) if axis in form.names]
    return sum(step * stride for step, stride in steps) if all(stride for _, stride in steps) else 0


def _turn_results(field: HirFunction, facts: _TableFacts, full: int, tiles: dict[str, tuple[int, int]], reasons: list[str]) -> bool:
    """Windows that are read along one axis, where results lie along another one: squares of results are turned. Whether it is that."""
    if tiles or facts.scanned or not facts.windows:
        return False
    own = [a for a in facts.common if a not in facts.ordered and _lanes(field, a, full) >= min(full, LEAST_SQUARE)]
    loads, stores = ([op for op in field.body.body if isinstance(op, kind)] for kind in (Load, Store))
    near = {a: [0 < elements_apart(op, a) <= FEW_APART for op in loads if any(form.coefficient(a) for form in op.index)] for a in own}
    written = next((a for a in own if all(elements_apart(op, a) == 1 for op in stores) and not any(near[a])), "")
    read = next((a for a in own if a != written and near[a] and all(near[a])), "")
    if written and read:
        side = _lanes(field, read, _lanes(field, written, full))
        tiles[read], tiles[written] = (1, side), (side, 1)
        reasons.append(f"{written} is written and {read} read along memory: squares of results are turned in registers")
    return bool(written and read)


def _block_product(
    field: HirFunction, product: ProductSum, facts: _TableFacts, machine: CpuMachine, tiles: dict[str, tuple[int, int]], reasons: list[str]
) -> list[str]:
    """Register blocking of one sum of products. Columns are vectors of the operand that is contiguous along them, rows are
    broadcast from the other: their axis is given, if there is one; when both operands are contiguous along the sum instead, vectors run
    along it and both sides give rows."""
    left, right = names_of_axes(product.a), names_of_axes(product.b)
    own = [a for a in (*product.m, *product.n) if a not in tiles and a not in facts.ordered]
    votes = contiguity(field, loads_of(product))
    lanes_for = machine.lanes(dtype_of(product.result))
    written = contiguity(field, [op for op in field.body.body if isinstance(op, Store)])
    column = max((a for a in own if votes[a] > 0 and _is_free(field, a, tiles)), key=lambda a: (votes[a], written[a]), default=None)
    summed = [a for a in product.k if votes[a] > 0 and a not in facts.ordered and a not in tiles and _is_free(field, a, tiles)]
    along = max(summed, key=lambda a: votes[a], default=None)
    if column is None and (along is None or _lanes(field, along, lanes_for) < lanes_for):
        # terms fill no vector: results do, where an operand's elements for neighbours lie a few apart
        column = next((a for a in own if votes[a] == 0 and written[a] > 0 and _is_free(field, a, tiles)), None)
    full = any(a is not None and _lanes(field, a, lanes_for) == lanes_for for a in (column, along))
    pairs = [[a, b] for a in own for b in own if a != b and not tiles and not full and _is_free(field, b, tiles)]
    if any(_interleave(field, lanes_for, pair, tiles, reasons) for pair in pairs):
        return []
    if column is not None:
        lanes = _lanes(field, column, lanes_for)
        height, vectors = machine.register_tile
        tiles[column] = (_registers(field, column, vectors, lanes), lanes)
        reasons.append(f"{column} is the vector of a sum of products: an operand is contiguous along it")
        other = right if column in left else left
        rows = [a for a in own if a != column and a in other]
        if rows:
            tiles[rows[-1]] = (_registers(field, rows[-1], height, 1), 1)
            reasons.append(f"{rows[-1]} reuses its vectors from registers")
        return rows[-1:]
    if along is None:
        return []
    tiles[along] = (1, _lanes(field, along, lanes_for))
    reasons.append(f"{along} is the vector of a sum of products: both operands are contiguous along it")
    for side, height in (left, 4), (right, 4 if machine.vector_registers >= 32 else 2):
        rows = [a for a in own if a in side and a not in tiles]
        if rows:
            tiles[rows[-1]] = (_registers(field, rows[-1], height, 1), 1)
            reasons.append(f"{rows[-1]} reuses its vectors from registers")
    return []


def loads_of(product: ProductSum) -> list[Instruction]:
    """Loads that the factors are computed from, other reductions not entered."""
    ops = instructions_below(product.a, product.b, enter=lambda op: not isinstance(op, Load | Reduce | Contract))
    return [op for op in ops if isinstance(op, Load)]


def axes_of(op: Instruction) -> set[str]:
    return names_of_axes(*op.operand_values)



def axes_contiguous(field: HirFunction) -> set[str]:
    """Axes with more contiguous traffic than strided."""
    return {axis for axis, votes in contiguity(field).items() if votes > 0}
