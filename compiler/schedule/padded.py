"""Operands of windows, read in place: every element of a picture belongs to several windows, so panels of all windows' terms would hold it
as often. Its operand is copied once instead, with zeros where the program's conditions leave terms out. In that copy the place of a term is
the place of its window and an offset that all windows have in common. Where vectors lie across windows that are several elements apart,
neighbours along the vector are those apart in the memory: the copy has such elements side by side."""

from collections.abc import Callable, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import Mem
from compiler.schedule.combination import PairReduction
from compiler.schedule.interior import ZoneBounds, all_hold, bounds_of, least_of
from compiler.schedule.region import TileRegion
from compiler.schedule.table import AxisPlan, Table
from compiler.schedule.tile_values import TileValues
from runtime.records import frozen

LinePlace = Callable[[Mapping[int, Affine], Value, Builder], Sequence[Affine]]
"""The index at which a line begins, by its places along the dimensions and its phase."""

MOST_STEPS = 4
"""Elements between windows up to which these are read in place."""

LINE = 16
"""Elements of a cache line, or two: what lies one behind the other along a dimension is an odd number of these apart, so that it shares no
cache sets."""


@frozen(eq=False)
class PaddedSource:
    """What windows read. `dim`: the dimension along which vectors of windows lie, `step` elements apart. `bounds`: conditions on the index
    of a dimension, `sign * index + form >= 0`."""

    load: Load
    axis: str
    dim: int
    step: int
    bounds: tuple[tuple[int, int, Affine], ...]


def padded_source(product: PairReduction, operand: Value, axes: Sequence[str], across: bool = True) -> PaddedSource | None:
    """How the windows of an operand with these axes of results are read in place; None where it has none, or conditions speak of anything
    but its indices. `across`: in vectors of windows; else one by one, and lines of the copy lie along memory."""
    load = operand.source.value.source if isinstance(operand.source, Cast) else operand.source
    if not isinstance(load, Load) or load.mem.source is not None or load.where not in (None, product.guard):
        return None
    every, last = {*axes, *product.k}, axes[-1]
    dims = [dim for dim, form in enumerate(load.index) if last in form.names]
    windows = [form for form in load.index if not {*axes}.isdisjoint(form.names) and not {*product.k}.isdisjoint(form.names)]
    linear = all(name not in every or form.coefficient(name) for form in load.index for name in form.names)
    if len(dims) != 1 or not windows or not linear:
        return None
    step = load.index[dims[0]].coefficient(last)
    alone = not {*axes[:-1]}.intersection(load.index[dims[0]].names)
    if across and (not 1 <= step <= MOST_STEPS or not (alone or step == 1)):
        return None
    bounds: list[tuple[int, int, Affine]] = []
    for bound in () if product.guard is None else bounds_of(product.guard) or (None,):
        signs = [(dim, sign, bound - form * sign) for dim, form in enumerate(load.index) for sign in (1, -1)] if bound is not None else []
        found = next(((dim, sign, rest) for dim, sign, rest in signs if every.isdisjoint(rest.names)), None)
        if found is None:
            return None
        bounds.append(found)
    strides = mem_of(load.mem).strides or (*[Affine()] * (len(load.index) - 1), Affine.of(1))
    along = next((dim for dim, stride in enumerate(strides) if stride.value == 1), dims[0])
    return PaddedSource(load, last, *((dims[0], step) if across else (along, 1)), tuple(bounds))


class PaddedCopy:
    """The copy of one such operand in a function: its extents and strides, made before the loops over batches."""

    def __init__(self, source: PaddedSource, placing: TileValues, over: Sequence[str], axes: Sequence[str], lanes: int, b: Builder) -> None:
        self.source, self.placing, self.over, self.axes, self.lanes = source, placing, over, axes, lanes
        self.extents = {axis: placing.field.axes[axis] for axis in (*over, *axes)}
        index = source.load.index
        self.others = [dim for dim in range(len(index)) if dim != source.dim]
        spans = {dim: self.least(-form, -1) - self.least(form) + 1 for dim, form in enumerate(index)}
        row = b.named(spans[source.dim].ceildiv(source.step * lanes) * lanes)
        self.counts = [*(b.index(spans[dim]) for dim in self.others), b.const(source.step, "index")]
        self.row = b.index(row)
        self.strides: dict[int, Value] = {}
        stride = b.mul(self.row, self.counts[-1])
        for dim, count in reversed(list(zip(self.others, self.counts, strict=False))):
            self.strides[dim] = stride
            lines = Affine.of(b.mul(stride, count).name).ceildiv(LINE)
            stride = b.index((lines.floordiv(2) * 2 + 1) * LINE)
        self.strides[source.dim] = b.const(1, "index")
        self.size = stride

    def least(self, form: Affine, sign: int = 1) -> Affine:
        """The least value of an index, `sign` times what it is at most for -1."""
        least = least_of(form, self.extents)
        assert least is not None
        return least * sign

    def low(self, dim: int, region: TileRegion) -> Affine:
        """The index at which the copy begins."""
        return self.placing.form(self.least(self.source.load.index[dim]), region)

    def type(self, dtype: str, table: Table) -> Mem:
        """The copy as a memory of its own: dimensions but that of vectors, phases, and what lies along a line. Tiles that reach over ends
        of axes find something behind it."""
        row, index = Affine.of(self.row.name), self.source.load.index
        strides = [Affine.of(self.strides[dim].name) for dim in self.others]
        behind = [sum(index[dim].coefficient(axis) * (table[axis].tile - 1) for axis in self.axes) for dim in self.others]
        counts = [Affine.of(count.name) + more for count, more in zip(self.counts, (*behind, 1), strict=True)]
        return Mem(dtype, (*counts, row), (*strides, row, Affine.of(1)), align=64)

    def index(self, region: TileRegion) -> list[Affine]:
        """The index in that memory of what the windows of a tile read."""
        source, forms = self.source, self.source.load.index
        offset = self.placing.form(forms[source.dim].without(source.axis), region) - self.low(source.dim, region)
        others = [self.placing.form(forms[dim], region) - self.low(dim, region) for dim in self.others]
        return [*others, offset % source.step, region.forms[source.axis] + offset.floordiv(source.step)]

    def fill(self, work: Value, region: TileRegion, at: LinePlace) -> None:
        """Copies what lies inside and puts zeros around it; threads share the lines, which begin `at` these places of the memory."""
        source, b, dtype = self.source, region.builder, mem_of(work).dtype
        mem = region.find(source.load.mem)
        assert mem is not None
        dims = mem_of(source.load.mem).dims
        lows = {dim: self.low(dim, region) for dim in (*self.others, source.dim)}
        plan = AxisPlan(source.axis, "time", 1, self.lanes)
        with b.loop("line", 0, Affine.of(b.product(self.counts).name), place="thread") as (body, line):
            *numbers, phase = body.digits(line.variable, self.counts[1:])
            places = {dim: Affine.of(number.name) for dim, number in zip(self.others, numbers, strict=True)}
            index = {dim: place + lows[dim] for dim, place in places.items()}

            def inside(dim: int) -> list[Affine]:
                own = [index[dim] * sign + self.placing.form(form, region) for bound, sign, form in source.bounds if bound == dim]
                return [*own, index[dim], self.placing.form(dims[dim], region) - index[dim] - 1]

            *leading, start = at(places, phase, body)
            with body.loop("at", 0, Affine.of(self.row.name).floordiv(self.lanes)) as (zeros, number):
                zeros.store(work, zeros.const(0, dtype), [*leading, start + plan.form(number.variable.name)])
            with body.when(all_hold([form for dim in self.others for form in inside(dim)], body)) as then:
                index[source.dim] = Affine.of(source.axis) * source.step + phase.name + lows[source.dim]
                bounds = ZoneBounds(AxisPlan(source.axis), {}, then)
                bounds.add(source.load.result, inside(source.dim))
                low, high = bounds.elements(self.row)
                vectors = then.index((Affine.of(high.name) - low.name).floordiv(self.lanes))
                behind = then.add(low, then.mul(vectors, then.const(self.lanes, "index")))
                # what is left over: a vector that reaches back, or elements where there is none
                some = then.op("ge", vectors, then.const(1, "index"))
                last = then.index(Affine.of(high.name) - self.lanes)
                over = then.op("min", then.sub(high, behind), then.const(1, "index"))
                once = then.select(some, then.add(last, over), last)
                for one, first, end, step in (
                    (plan, low, behind, self.lanes),
                    (plan, last, once, 1),
                    (AxisPlan(source.axis), then.select(some, high, low), high, 1),
                ):
                    with then.loop("at", Affine.of(first.name), Affine.of(end.name), step) as (copying, number):
                        along = Affine.of(number.variable.name) + one.within()
                        place = [form.substitute({source.axis: along}) for _, form in sorted(index.items())]
                        copying.store(work, copying.cast(copying.load(mem, place), dtype), [*leading, start + along])

    def offset(self, forms: Mapping[str, Affine], b: Builder) -> Value:
        """How far what these axes of windows, or of terms, say lies behind the first along them."""
        parts: dict[int, Affine] = {}
        for dim, form in enumerate(self.source.load.index):
            own = sum((Affine.of(axis) * form.coefficient(axis) for axis in forms), Affine())
            parts[dim] = (own - self.least(own)).substitute(forms)
        return self.place(parts, b)

    def place(self, parts: Mapping[int, Affine], b: Builder) -> Value:
        """The place of an element by its places along the dimensions."""
        place = b.const(0, "index")
        for dim, form in parts.items():
            if form.value != 0:
                place = b.add(place, b.mul(b.index(form), self.strides[dim]))
        return place
