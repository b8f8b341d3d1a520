"""Tables for windows and other reductions of few terms, of which there are many: each thread computes results of its own, the lanes of a
warp side by side where results are contiguous. A thread has several results along the next axis, best one along which windows overlap:
what their windows share is loaded once, as loops over so few terms are written out. The extents of such windows are numbers in the
kernel, also where the program gives them names."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeVar

from compiler.analysis.recognise import product_sum
from compiler.hir.affine import Affine
from compiler.hir.core import Contract, Reduce, Scan
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.distribute import Distributing
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.lanes import lanes_along
from compiler.schedule.gpu.rows import is_chain
from compiler.schedule.launches import Launches
from compiler.schedule.materialise import common_axes
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import AxisPlan, Table
from runtime.records import evolve

Access = TypeVar("Access", bound=Instruction)

THREADS = 256

SHORTEST_WARP = 8
"""Threads along the contiguous axis, at least: 32 bytes of f32."""

LARGEST_EXTENT = 16
"""Of an axis that a kernel is made for."""

MANY = 256
"""Results of a multiprocessor, from which on its threads have enough to do by themselves."""

MOST_TERMS = 256
"""Of a reduction that a thread computes by itself."""

MOST_KEPT = 32
"""Of one whose terms are read again: they stay in registers."""

WRITTEN_OUT = 64
"""Terms that are written out: what windows share is loaded once then."""

LARGEST_STEP = 4
"""Elements between neighbouring lanes' loads, at most: one cache line still serves several lanes."""

RESULTS = (4, 2)
"""Of a thread, the most that leave each multiprocessor all the threads that it can have."""

FEW_TERMS = 16
"""Up to which a thread has more than two results; else they would take registers from other threads."""

BLOCKS = 4
"""Of a multiprocessor at a time: each thread has 64 registers."""

RESIDENT = 2048
"""Threads that a multiprocessor can have."""


def short_extents(field: HirFunction, sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """The extents of windows that a kernel is made for, by their names: of reduced axes that move along an axis of the result in some
    index, where all of them are short."""
    axes = [axis for axis in _reduced(field) if field.axes[axis].names]
    names = {name for axis in axes for name in field.axes[axis].names}
    if not axes or not names <= sizes.keys() or not all(_is_window(field, axis) for axis in axes):
        return ()
    extents = [field.axes[axis].evaluate(sizes.__getitem__) for axis in axes]
    if min(extents) < 1 or max(extents) > LARGEST_EXTENT or prod(extents) > MOST_TERMS:
        return ()
    return tuple(sorted((name, sizes[name]) for name in names))


def short_launches(field: HirFunction, facts: Facts) -> Launches | None:
    """The launch of a field that reduces few terms for each of its results; None for any other."""
    if any(isinstance(op, Scan | Alloc) for op in field.body.body):
        return None
    products = [product_sum(op) for op in field.body.body if isinstance(op, Contract)]
    if any(product is not None and product.m and product.n for product in products):
        return None
    reduced = _reduced(field)
    common = [axis for axis in common_axes(field) if axis not in reduced]
    inside = [axis for axis in field.axes if axis not in common]
    if not inside or not common or not reduced.keys() >= set(inside):
        return None
    table = short_table(field, common, inside, facts)
    return None if table is None else evolve(launches_of_blocks(ShortSumDistributing(field, table).run()), words=table.reasons)


def short_table(field: HirFunction, common: Sequence[str], inside: Sequence[str], facts: Facts) -> Table | None:
    """The table of a field whose results vary along the `common` axes, and which reduces the few terms of the axes `inside`; None where
    terms are many, results are few, neighbouring results read what lies far apart, or a thread can take several elements side by side."""
    terms, results = (prod(facts.about(field.axes[axis]) for axis in axes) for axes in (inside, common))
    if terms > MOST_TERMS or results < facts.processors * MANY or any(field.axes[axis].value is None for axis in inside):
        return None
    if terms > MOST_KEPT and any(is_chain(field, axis) for axis in inside):
        return None
    columns = _columns(field, common)
    if columns is None or lanes_along(field, [columns]) > 1:
        return None
    extent = facts.about(field.axes[columns])
    wide = min((2**n for n in range(SHORTEST_WARP.bit_length() - 1, THREADS.bit_length())), key=lambda w: (-(-extent // w) * w, -w))
    below = [axis for axis in common if axis != columns]
    rows = max(below, key=lambda axis: (_overlaps(field, axis, inside), below.index(axis)), default=None)
    beside = max((axis for axis in below if axis != rows), key=lambda axis: facts.about(field.axes[axis]), default=rows)
    reasons = [f"few terms are reduced: each thread has results of its own, {columns} lies along {wide} threads"]
    each = 1 if rows is None or terms > WRITTEN_OUT else _each(facts.about(field.axes[rows]), terms, results, facts)
    if each > 1:
        reasons.append(f"a thread has {each} results along {rows}")
    plans = [_plan(axis, each if axis == rows else 1, THREADS // wide if axis == beside else 1) for axis in below]
    plans.append(AxisPlan(columns, "block", threads=wide))
    block = (wide,) if beside is None else (wide, THREADS // wide)
    written_out = frozenset(inside if terms <= WRITTEN_OUT else inside[-1:])
    plans += [AxisPlan(axis) for axis in inside]
    return Table(plans, reasons, block, written_out=written_out, resident=BLOCKS, machine=facts.machine)


class ShortSumDistributing(Distributing):
    """Builds the launch of such a field. Threads past the end of an axis along which they have one element each compute what the last one
    before them does, and store nothing: so their loads need no conditions."""

    def __init__(self, field: HirFunction, table: Table) -> None:
        super().__init__(field, table)
        self.unbounded: dict[str, Affine] = {}
        """Axes that are kept below their extent, as they are without that."""

    def in_block(self, group: Sequence[Target], region: TileRegion, ragged: Sequence[AxisPlan]) -> None:
        b = region.builder
        single = [plan.axis for plan in ragged if not plan.digits()]
        self.unbounded = {axis: region.forms[axis] for axis in single}
        for axis, form in self.unbounded.items():
            last = b.index(self.field.axes[axis] - 1)
            region.forms[axis] = Affine.of(b.op("min", b.index(form), last).name)
        super().in_block(group, region, [plan for plan in ragged if plan.digits()])

    def stored_where(self, target: Store, axes: Sequence[str], region: TileRegion) -> Value | None:
        where = super().stored_where(target, axes, region)
        for axis, form in self.unbounded.items():
            where = region.builder.both(where, region.builder.inbounds(form, self.field.axes[axis]))
        return where


def _plan(axis: str, registers: int, threads: int) -> AxisPlan:
    return AxisPlan(axis, "block", registers, threads=threads, dim=1 if threads > 1 else 0)


def _each(extent: int, terms: int, results: int, facts: Facts) -> int:
    """Results of a thread along an axis of this extent."""
    allowed = RESULTS if terms <= FEW_TERMS else RESULTS[1:]
    return next((each for each in allowed if 2 * each <= extent and results >= each * facts.processors * RESIDENT), 1)


def _columns(field: HirFunction, common: Sequence[str]) -> str | None:
    """The axis along which results are contiguous, and all that is loaded for neighbours is near. Where that is a short one, whose results
    lie between those of a longer axis (residues: `out[2 * p + r]`), it is the longer axis."""
    stores, loads = _accesses(field, Store), _accesses(field, Load)
    steps = {axis: step for op in stores for axis in common if (step := _steps(op, axis)) and all(_is_near(load, axis) for load in loads)}
    contiguous = next((axis for axis in common if steps.get(axis) == 1), None)
    extent = None if contiguous is None else field.axes[contiguous].value
    longer = (axis for axis in common if extent is not None and 1 < extent < SHORTEST_WARP and steps.get(axis) == extent)
    return next(longer, contiguous)


def _is_near(op: Load | Store, axis: str) -> bool:
    """Whether neighbours along the axis find their elements in the same place, or a few elements on."""
    step = _steps(op, axis)
    return step is not None and 0 <= step <= LARGEST_STEP


def _steps(op: Load | Store, axis: str) -> int | None:
    """Elements from one place along the axis to the next; None where these aren't a small constant number."""
    if any(form.coefficient(axis) for form in op.index[:-1]):
        return None
    strides = mem_of(op.mem).strides
    step = op.index[-1].coefficient(axis) if op.index else 0
    if not step:
        return 0
    return None if strides is not None and strides[-1].value != 1 else step


def _overlaps(field: HirFunction, axis: str, inside: Sequence[str]) -> bool:
    """Whether windows of neighbours along the axis share elements, or all of them."""
    return any(
        all(not form.coefficient(axis) or any(form.coefficient(other) for other in inside) for form in op.index)
        for op in _accesses(field, Load)
        if any(form.coefficient(other) for form in op.index for other in inside)
    )


def _is_window(field: HirFunction, axis: str) -> bool:
    """Whether some index moves along the reduced axis and along one that isn't reduced."""
    others = set(field.axes) - set(_reduced(field))
    return any(
        form.coefficient(axis) and any(form.coefficient(other) for other in others) for op in _accesses(field, Load) for form in op.index
    )


def _reduced(field: HirFunction) -> dict[str, None]:
    return dict.fromkeys(axis for op in field.body.body if isinstance(op, Reduce | Contract) for axis in op.over)


def _accesses(field: HirFunction, kind: type[Access]) -> list[Access]:
    return [op for op in field.body.body if isinstance(op, kind)]
