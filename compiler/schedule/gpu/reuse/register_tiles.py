"""Reductions whose terms share elements (`reuse.py`), as matrix products are made where no matrix unit takes them: a thread has a tile of
results in registers, the block's threads put a slice of what its rows and columns read in shared memory, and each walks along the sum
through it. What combines elements, and how terms are reduced, is the field's own; a later reduction along the columns takes each tile's
results from the registers."""

from collections.abc import Mapping
from itertools import product
from math import ceil, prod, sqrt

from attrs import evolve

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.core import dtype_of
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.machines.gpu import Feature
from compiler.passes.dce import dce
from compiler.passes.rewrite import rewrite
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.lanes import lanes_along, power_of_two
from compiler.schedule.gpu.loop_wishes import with_tile
from compiler.schedule.gpu.products import three_products
from compiler.schedule.gpu.products.product_sums import SumOfLoads, sum_of_loads
from compiler.schedule.gpu.reuse.register_walk import STAGE_BYTES, STAGES, RegisterDistributing, RegisterWindow
from compiler.schedule.gpu.reuse.reuse import ReusedTerms, are_copied, axes_of, reused_terms
from compiler.schedule.gpu.rewrites.narrow import extremes_of_pairs
from compiler.schedule.gpu.rewrites.side_by_side import in_one_axis
from compiler.schedule.gpu.rewrites.single_elements import without_single_elements
from compiler.schedule.gpu.rewrites.terms_of_products import terms_of_products, terms_of_window
from compiler.schedule.gpu.rewrites.whole_results import whole_results
from compiler.schedule.gpu.rewrites.windows import WindowProduct, triangle_product, window_product
from compiler.schedule.gpu.tiles.last_block import join_nanoseconds
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.table import AxisPlan, LoopSplit, Table
from compiler.schedule.tile_sizes import tile_of
from runtime.records import frozen

THREADS = (64, 128, 256)
"""Of a block: with few of them a multiprocessor has many blocks, of which some load or store while others compute; with many, more results
share what is put in shared memory."""
ALL_THREADS = 512
"""Of a multiprocessor at a time: each has 128 registers."""
LINE_THREADS, LINE_SLICES = 128, 10
"""Where a block's results lie along one axis; and slices of as many terms for each multiprocessor, below which slices are half as long."""

LEAST_RESULTS = 1 << 14
"""Below which a device isn't filled by tiles of results."""
LEAST_SIDE = 4
"""Rows, and columns, with fewer of which there is little to share."""
MOST_IDLE = 4
"""Threads of a block for each that has a result."""
LARGE_PRODUCT = 1024
LEAST_ROWS, LEAST_TERMS = 128, 32
"""Along one axis, with terms that are shared by all rows."""

MOST_REGISTERS = 64
"""32-bit registers of a thread's results."""
MOST_RESULTS = 8
"""Of a thread along one axis."""
COLUMN_THREADS = (8, 16, 32)
FEW_COLUMNS = 32
"""Up to which half as many threads stand along them."""

STAGING_SLOTS = 8
"""Issue slots for each element that is put in shared memory, about."""

LITTLE = 32
"""Issue slots of a result up to which storing the zeros beside results takes less than to clear all memory before."""

SLICE_BYTES = 36 << 10
MOST_PUT, MOST_COPIED, LEAST_DEEP = 8, 16, 8
"""Words that a thread puts there at a time, as more would take registers from results, or has copied; and terms of a slice, at least."""
DEEPEST = 64

TURN = 3
"""Terms that take as long as what a slice takes besides: barriers, and the code of its loop."""

SHORT = 128
"""The longest extent that a kernel is made for."""

WHOLE, MOST_EMPTY = 64, 1.02
"""Columns of a tile, and how many times as many as there are they may be."""

LINE, LINE_CYCLES = 128, 4.3
"""Bytes of a line of the cache, and cycles of a multiprocessor for each that a store touches (measured on an H200)."""

LANES = 128
"""Instructions of threads that a multiprocessor issues in a cycle."""

WAITING = 1.5
"""How many times as long a slice takes whose elements don't come while the one before is used."""

ROUNDS = 2
"""Of blocks, where they share sums."""

BEGIN, SLICE = 6000, 750
"""Cycles in which a block computes nothing: until its first slice is there and after its last, and at each slice. Of more blocks beside it
more compute meanwhile, and each has fewer results to begin with."""

ROOM, TIGHT = 64, 0.01
"""32-bit registers of a thread for results and pieces of a slice, where each piece has a condition of its own, and how much longer terms
take for each one above. Fitted, with the three before, to 52 products, distances and triangles on an H200."""


def register_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """None for a field without such reductions, or with too few results for it."""
    field = _in_whole_tiles(without_single_elements(field, facts))
    if facts.machine.has(Feature.NARROW_FLOATS):
        field = dce(rewrite(field, [extremes_of_pairs]))
    window = window_product(field) or _large_triangle(field, facts)
    if window is not None:
        window = terms_of_window(window)
    field = terms_of_products(field) if window is None else window.field
    terms, covered = reused_terms(field, facts.about), frozenset[str]()
    if terms is not None and window is None and _computes_little(field, terms, facts):
        field, covered = whole_results(field, facts)
        terms = reused_terms(field, facts.about)
    if terms is not None and window is not None:
        terms = evolve(terms, bounds=window.bounds or terms.bounds)
    table = None if terms is None else register_table(field, terms, facts)
    if terms is None or table is None:
        return None
    if window is not None and not window.bounds and any(extent.value is None for extent in field.axes.values()):
        table = evolve(table, resident=None)  # digits of taps whose extents have names want registers, too
    table, heeded = with_tile(field, table)
    count = facts.processors
    placing = RegisterDistributing(field, terms, table, count) if window is None else RegisterWindow(window, terms, table, count)
    return evolve(launches_of_blocks(placing.run()), words=table.reasons, heeded=heeded, covered=covered)


def _computes_little(field: HirFunction, terms: ReusedTerms, facts: Facts) -> bool:
    size = max(bytes_of(dtype_of(op.results[0])) for op in terms.sums)
    return prod(facts.about(field.axes[axis]) for axis in terms.sums[0].over) * terms.slots * max(1, size // 4) <= LITTLE


def _large_triangle(field: HirFunction, facts: Facts) -> WindowProduct | None:
    """A product of triangles with so many rows and columns that zeros instead of conditions pay."""
    triangle = triangle_product(field)
    product = None if triangle is None else product_sum(triangle.target)
    if product is None or dtype_of(product.result) not in ("f64", "f32", "i32", "u32"):
        return None
    sides = [prod(facts.about(field.axes[axis]) for axis in side) for side in (product.m, product.n)]
    return triangle if min(sides) >= LARGE_PRODUCT else None


def _in_whole_tiles(field: HirFunction) -> HirFunction:
    """A product's field whose rows of results are so short that tiles along them would be emptier than tiles along several rows."""
    product, stores = sum_of_loads(field), [op for op in field.body.body if isinstance(op, Store)]
    if product is None or len(stores) != 1 or field.loops:
        return field
    names = [form.names[0] for form in stores[0].index[-2:] if len(form.names) == 1 and form == Affine.of(form.names[0])]
    if len(names) < 2 or not any({*names} <= {*side} for side in (product.described.m, product.described.n)):
        return field
    length = field.axes[names[1]].value
    if length is None or not length or ceil(length / WHOLE) * WHOLE < MOST_EMPTY * length:
        return field
    return in_one_axis(field, *names) or field


def terms_for_registers(field: HirFunction, facts: Facts | None = None) -> ReusedTerms | None:
    """Such terms, but for those of windows with a border: they are products (`windows.py`)."""
    terms = reused_terms(field, None if facts is None else facts.about)
    return None if terms is None or window_product(field) is not None else terms


def register_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The sizes that a kernel is made for: short axes fill their tiles then. All of them for windows that no matrix unit takes: a sum along
    their channels and taps is one along one axis then."""
    if (product := _window_of(field, sizes)) is not None and not three_products.takes(field, product, sizes):
        return tuple(sorted(sizes.items()))
    terms = terms_for_registers(field)
    if terms is None:
        return ()
    lengths: dict[str, int] = {}
    for axis in (terms.depth, terms.rows, *([terms.columns] if terms.columns is not None else [])):
        names = set(field.axes[axis].names)
        if names <= sizes.keys() and 0 < field.axes[axis].evaluate(sizes.__getitem__) <= SHORT:
            lengths |= {name: sizes[name] for name in names}
    return tuple(sorted(lengths.items()))


def left_over_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The same of windows of f32 that matrix units might have taken, and didn't."""
    product = _window_of(field, sizes)
    return () if product is None or dtype_of(product.a.results[0]) != "f32" else tuple(sorted(sizes.items()))


def _window_of(field: HirFunction, sizes: Mapping[str, int]) -> SumOfLoads | None:
    """The sum of products over a window that a field is, all of whose extents are known."""
    product = sum_of_loads(field)
    if product is None or not product.described.windows:
        return None
    names = {name for extent in field.axes.values() for name in extent.names}
    return product if names <= sizes.keys() and all(size > 0 for size in sizes.values()) else None


def register_table(field: HirFunction, terms: ReusedTerms, facts: Facts) -> Table | None:
    common = common_axes(field)
    results = prod(facts.about(field.axes[axis]) for axis in common)
    depth, over = facts.about(field.axes[terms.depth]), terms.sums[0].over
    if terms.columns is None:
        if results < LEAST_ROWS or depth < LEAST_TERMS:
            return None
        tile = _line(terms, results)
    else:
        wished = tile_of(field)
        sides = [facts.about(field.axes[axis]) for axis in (terms.rows, terms.columns)]
        if not wished and (results < LEAST_RESULTS or min(sides) < LEAST_SIDE or prod(sides) <= THREADS[-1] // MOST_IDLE):
            return None
        best = _best_tile(field, terms, facts, results, wished) or _best_tile(field, terms, facts, results, {})
        assert best is not None
        tile = best
    plans = {plan.axis: plan for plan in (tile.rows, *tile.columns)}
    for axis in field.axes:
        if axis == terms.depth:
            plans[axis] = AxisPlan(axis, "time", _slice(field, terms, tile, depth, facts))
        else:
            plans.setdefault(axis, AxisPlan(axis, "block" if axis in common else "time"))
    ordered = [axis for axis in common if axis not in (terms.rows, terms.columns)] + [terms.rows]
    ordered += [terms.columns] if terms.columns is not None else []
    ordered += [axis for axis in field.axes if axis not in ordered and axis not in over]
    names = " and ".join(f"{plan.run} along {plan.axis}" for plan in (tile.rows, *tile.columns))
    each = " by ".join(str(plan.registers * plan.lanes) for plan in (tile.rows, *tile.columns))
    reasons = [
        f"what terms read is read for many results: a block has tiles of {names}, a thread {each} of them in registers",
        f"elements go through shared memory, {plans[terms.depth].tile} along {terms.depth} at a time",
    ]
    tiles = prod(ceil(facts.about(field.axes[plan.axis]) / plan.tile) for plan in plans.values() if plan.place == "block")
    parts = min(_parts(terms, facts, tiles, tile, depth), power_of_two(ceil(depth / plans[terms.depth].tile)) // 2)
    if parts > 1:
        reasons.append(f"up to {parts} blocks share each sum, the last of them joins their parts")
    split, resident = LoopSplit(terms.depth, parts) if parts > 1 else None, tile.resident if tile.columns else None
    return Table([plans[axis] for axis in (*ordered, *over)], reasons, tile.block, resident, split, facts.machine)


@frozen
class RegisterTile:
    """Plans of the rows and the columns, if there are any; the block's threads."""

    rows: AxisPlan
    columns: tuple[AxisPlan, ...]
    block: tuple[int, ...]

    @property
    def threads(self) -> int:
        return prod(self.block)

    @property
    def resident(self) -> int:
        """Blocks of a multiprocessor at a time."""
        return ALL_THREADS // self.threads


def _line(terms: ReusedTerms, rows: int) -> RegisterTile:
    """Results along one axis: a few a thread, as long as there are enough for all threads of a device that share sums."""
    each = next((each for each in (4, 2) if rows >= each * LINE_THREADS * 8), 1)
    return RegisterTile(AxisPlan(terms.rows, "block", each, threads=LINE_THREADS), (), (LINE_THREADS,))


def _best_tile(field: HirFunction, terms: ReusedTerms, facts: Facts, results: int, wished: Mapping[str, int]) -> RegisterTile | None:
    """The tile whose terms cost least. `wished`: sizes that the program gives; None where no tile has them."""
    assert terms.columns is not None
    words = max(1, max(bytes_of(dtype_of(op.results[0])) for op in terms.sums) // 4) * len(terms.sums)
    wide = ALIGNMENT // _bytes_of_columns(terms) if terms.later or lanes_along(field, [terms.columns]) > 1 else 1
    narrow, tiles = facts.about(field.axes[terms.columns]) <= FEW_COLUMNS, list[RegisterTile]()
    across_of = (COLUMN_THREADS[0] // 2, *COLUMN_THREADS) if narrow else COLUMN_THREADS
    copied = are_copied(terms, facts.machine)  # else a block's threads have what they put in shared memory in registers first
    counts, room = (THREADS, MOST_REGISTERS) if copied else (THREADS[-1:], MOST_REGISTERS - MOST_PUT * (words - 1))
    for threads, across, wider, higher in product(counts, across_of, range(1, MOST_RESULTS + 1), (8, 6, 4, 3, 2, 1)):
        lanes = max(lanes for lanes in (1, 2, 4, 8, 16) if lanes <= wide and wider % lanes == 0)
        rows = AxisPlan(terms.rows, "block", higher, threads=threads // across, dim=1, beside=higher % 4 == 0)
        columns = AxisPlan(terms.columns, "time" if terms.later else "block", wider // lanes, lanes, threads=across)
        if higher * wider * words <= room and all(wished.get(plan.axis, plan.run) == plan.run for plan in (rows, columns)):
            tiles.append(RegisterTile(rows, (columns,), (across, threads // across)))
    return min(tiles, key=lambda tile: _slots_of_term(field, terms, facts, results, tile), default=None)


def _slots_of_term(field: HirFunction, terms: ReusedTerms, facts: Facts, results: int, tile: RegisterTile) -> float:
    """Issue slots of a term: reads of shared memory are shared by the registers, elements that are put there by the block's threads, and
    results outside of the axes are computed in vain."""
    (columns,), height, width = tile.columns, tile.rows.run, tile.columns[0].run
    down, across = (facts.about(field.axes[plan.axis]) for plan in (tile.rows, columns))
    size, side = max(bytes_of(dtype_of(op.results[0])) for op in terms.sums), _bytes_of_columns(terms)
    depth, beside = facts.about(field.axes[terms.depth]), max(1, results // (down if terms.later else down * across))
    tiles = beside * ceil(down / height) * (1 if terms.later else ceil(across / width))
    padded = ceil(down / height) * height * ceil(across / width) * width / (down * across)
    parts = _parts(terms, facts, tiles, tile, depth)
    blocks = tiles * parts
    waves = max(1.0, blocks / facts.processors)
    reads = terms.along(terms.rows) / (width // columns.threads) + terms.along(terms.columns) / (tile.rows.registers * columns.lanes)
    put = STAGING_SLOTS * (terms.along(terms.rows) / width + terms.along(terms.columns) / height)
    slices = ceil(depth / parts / _slice(field, terms, tile, depth, facts))
    gaps = LANES * (BEGIN + SLICE * slices) / (tile.resident**2 * height * width * depth / parts)
    cost = padded * ceil(waves) / waves * (terms.slots * max(1, size // 4) + reads * max(1, side // 4) + put + gaps)
    cost += padded * _store_slots(field, terms, columns.threads, columns.lanes, facts) / depth
    cost *= max(1.0, facts.processors / max(1, blocks))
    pieces = LEAST_DEEP * (height + width) * max(1, side // 4) / tile.threads
    if pieces > MOST_COPIED:
        cost *= WAITING
    if columns.lanes == 1:
        held = tile.rows.registers * columns.registers * max(1, size // 4) * len(terms.sums) + pieces
        cost *= 1 + TIGHT * max(0.0, held - ROOM)
    if parts > 1:
        slots = LANES * facts.rates.clock * facts.processors * join_nanoseconds(height * width * size)
        cost += (parts - 1) * slots / (beside * down * across * depth)
    return cost


def _bytes_of_columns(terms: ReusedTerms) -> int:
    return max(map(bytes_of, [dtype_of(value) for value in terms.shared if terms.columns in axes_of(value)] or ["f32"]))


def _store_slots(field: HirFunction, terms: ReusedTerms, across: int, lanes: int, facts: Facts) -> float:
    """Issue slots of a result that pass while it is stored: a warp's store takes its time for each line that it touches, however little
    of it, and short rows that begin anywhere touch more of them."""
    stores = [op for op in field.body.body if isinstance(op, Store) and terms.columns is not None and not terms.later]
    sizes = [bytes_of(mem_of(op.mem).dtype) for op in stores if steps_by_one(mem_of(op.mem), op.index, terms.columns or "")]
    beside, lines = min(across, facts.machine.lanes), 0.0
    for size in sizes:
        run = beside * lanes * size
        lines += max(1.0, run / LINE) if lanes > 1 else 1 + (run - size) / LINE
    return LINE_CYCLES * LANES * lines / (beside * lanes)


def _slice(field: HirFunction, terms: ReusedTerms, tile: RegisterTile, depth: int, facts: Facts) -> int:
    """Terms of which the block has all elements at a time: so many that the last slice is nearly full, too."""
    machine = facts.machine
    if terms.columns is None:
        few = facts.about(field.axes[terms.rows]) * depth < LINE_SLICES * facts.processors * tile.rows.run * LINE_THREADS
        return min(LINE_THREADS // 2 if few else LINE_THREADS, power_of_two(depth))
    extents = {plan.axis: plan.run for plan in (tile.rows, *tile.columns)}
    elements = {value: prod(extents.get(axis, 1) for axis in axes_of(value)) for value in terms.shared}
    each = sum(bytes_of(dtype_of(value)) * count for value, count in elements.items())
    copied = are_copied(terms, machine)
    put, room = (MOST_COPIED, STAGE_BYTES // STAGES) if copied else (MOST_PUT, SLICE_BYTES)
    room = min(room, machine.shared // tile.resident // (STAGES if copied else 1))
    words = sum(max(1, bytes_of(dtype_of(value)) // 4) * count for value, count in elements.items())
    most = max(LEAST_DEEP, min(DEEPEST, room // each, put * tile.threads // words))
    if field.axes[terms.depth].value is None:
        return min(16, power_of_two(most // 2 + 1))
    lengths = range(LEAST_DEEP, most + 1, LEAST_DEEP) if copied else range(4, most + 1, 2)  # so that each thread copies as much
    return min(lengths, key=lambda along: (ceil(depth / along) * (along + TURN), -along))


def _parts(terms: ReusedTerms, facts: Facts, tiles: int, tile: RegisterTile, depth: int) -> int:
    """Blocks that share each of so many tiles of results, where these are too few for a device."""
    results, slots = prod(plan.run for plan in (tile.rows, *tile.columns)), tile.resident * facts.processors
    shared = not terms.later and len(terms.sums[0].over) == 1 and facts.machine.has(Feature.BLOCK_ORDER)
    enough = 1 if terms.unevenness == 1 else 4 * terms.unevenness  # tiles with long sums come first
    if not shared or 2 * tiles >= enough * slots:
        return 1
    size = sum(bytes_of(dtype_of(op.results[0])) for op in terms.sums)
    alone = depth * results * terms.slots * max(1, size // 4) / (LANES * facts.rates.clock)
    worth = power_of_two(ceil(sqrt(alone / join_nanoseconds(results * size))))  # with more of them joining takes longer than the sums
    wanted = power_of_two(ceil(max(ROUNDS, terms.unevenness) * slots / max(1, tiles)))
    return min(wanted, max(1, power_of_two(ceil(depth / LEAST_DEEP)) // 2), worth)
