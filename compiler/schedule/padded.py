"""Operands of windows, read in place: every element of a picture belongs to several windows, so panels of all windows' terms would hold it
as often. Its operand is copied once instead, with zeros where the program's conditions leave terms out. In that copy the place of a term is
the place of its window and an offset that all windows have in common. Where vectors lie across windows that are several elements apart,
neighbours along the vector are those apart in the memory: the copy has such elements side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import gcd

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Cast
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.types import Mem
from compiler.schedule.combination import PairReduction
from compiler.schedule.interior import ZoneBounds, all_hold, bounds_of, least_of
from compiler.schedule.region import TileRegion
from compiler.schedule.table import SIMD, AxisPlan, Table
from compiler.schedule.tile_values import TileValues
from runtime.records import frozen

LinePlace = Callable[[Mapping[int, Affine], Value, Builder], Sequence[Affine]]
"""The index at which a line begins, by its places along the dimensions and its phase."""

MOST_STEPS = 4
"""Elements between windows up to which these are read in place."""

CHANNELS = "c"
"""Digit of the axis of terms that is turned on the way into the copy."""

LEAST_TURNED = 4
"""Lanes of the shortest vectors that are turned in registers."""

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
    channel: tuple[str, int] | None = None
    """An axis of terms that is the index of a dimension, which no windows move along and no condition bounds. Where it is long, neighbours
    along it are neighbours in the copy."""
    picture: tuple[str, int] | None = None
    """An axis of windows that is the index of a dimension: each has a picture of its own, which lie one behind the other in the copy."""

    def terms(self, axes: Sequence[str]) -> tuple[str, ...]:
        """These axes of terms, first those that windows move over: the terms that a window has follow one another."""
        windows = {name for form in self.load.index if not {*form.names} <= {*axes} for name in form.names}
        return tuple(sorted(axes, key=lambda axis: (axis not in windows, self.channel is not None and axis == self.channel[0])))


def dense_axes(operand: Value, axes: Sequence[str], extents: Mapping[str, Affine]) -> tuple[str, ...]:
    """These axes in the order in which they lie one inside the other in the memory that an operand loads; none where they don't."""
    load = operand.source.value.source if isinstance(operand.source, Cast) else operand.source
    if not isinstance(load, Load) or load.where is not None:
        return ()
    mem, own = mem_of(load.mem), {Affine.of(axis): axis for axis in axes}
    dims = [dim for dim, form in enumerate(load.index) if form in own]
    alone = all(set(axes).isdisjoint(form.names) for form in load.index if form not in own)
    follow = len(dims) == len(axes) and dims == [*range(dims[0], dims[0] + len(dims))]
    whole = all(mem.dims[dim] == extents[own[load.index[dim]]] for dim in dims[1:])
    return tuple(own[load.index[dim]] for dim in dims) if mem.strides is None and alone and follow and whole else ()


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
    strides = mem_of(load.mem).strides or (*[Affine()] * (len(load.index) - 1), Affine.of(1))
    along = next((dim for dim, stride in enumerate(strides) if stride.value == 1), dims[0] if dims else 0)
    # panels of rows have gaps, and end with each line
    gaps = {dim for dim, form in enumerate(load.index) if any(abs(form.coefficient(axis)) > 1 for axis in axes)}
    apart = not across and bool(gaps) and (along in gaps or len(axes) > 1)
    if len(dims) != 1 or not linear or not (apart or (windows and (across or len(product.k) > 1))):
        return None
    step = load.index[dims[0]].coefficient(last)
    lonely = not {*axes[:-1]}.intersection(load.index[dims[0]].names)
    if across and (not 1 <= step <= MOST_STEPS or not (lonely or step == 1)):
        return None
    bounds: list[tuple[int, int, Affine]] = []
    for bound in () if product.guard is None else bounds_of(product.guard) or (None,):
        signs = [(dim, sign, bound - form * sign) for dim, form in enumerate(load.index) for sign in (1, -1)] if bound is not None else []
        found = next(((dim, sign, rest) for dim, sign, rest in signs if every.isdisjoint(rest.names)), None)
        if found is None:
            return None
        bounds.append(found)
    if across:
        return PaddedSource(load, last, dims[0], step, tuple(bounds))
    free = {*range(len(load.index))} - {along, *(dim for dim, _, _ in bounds)}
    channel = next(((axis, dim) for dim in sorted(free) for axis in product.k if load.index[dim] == Affine.of(axis)), None)
    outer = next(dim for dim, form in enumerate(load.index) if not every.isdisjoint(form.names))
    picture = next(((axis, outer) for axis in axes if outer in free and load.index[outer] == Affine.of(axis)), None)
    alone = [each if each is not None and _dims(load, each[0]) == [each[1]] else None for each in (channel, picture)]
    return PaddedSource(load, last, along, 1, tuple(bounds), *alone)


def _dims(load: Load, axis: str) -> list[int]:
    """The dimensions whose index names an axis."""
    return [dim for dim, form in enumerate(load.index) if axis in form.names]


class PaddedCopy:
    """The copy of one such operand in a function: its extents and strides, made before the loops over batches. `by_picture`: threads share
    pictures, each of which is copied by one of them."""

    def __init__(
        self,
        source: PaddedSource,
        placing: TileValues,
        over: Sequence[str],
        axes: Sequence[str],
        lanes: int,
        b: Builder,
        pictures: Value | None = None,
        by_picture: bool = False,
    ) -> None:
        self.by_picture = by_picture
        self.source, self.placing, self.over, self.axes, self.lanes = source, placing, over, axes, lanes
        self.extents = {axis: placing.field.axes[axis] for axis in (*over, *axes)}
        if pictures is not None and source.picture is not None:
            self.extents[source.picture[0]] = Affine.of(pictures.name)
        index = source.load.index
        self.others = [dim for dim in range(len(index)) if dim != source.dim]
        # what no window reads isn't copied: of some dimensions every second element, say
        steps = {dim: gcd(*(form.coefficient(axis) for axis in self.extents)) or 1 for dim, form in enumerate(index)}
        self.steps = {dim: 1 if dim == source.dim and source.step > 1 else step for dim, step in steps.items()}
        last = {dim: (self.least(-form, -1) - self.least(form)).floordiv(self.steps[dim]) for dim, form in enumerate(index)}
        self.spans = {dim: b.index(place + 1) for dim, place in last.items()}
        row = Affine.of(self.spans[source.dim].name).ceildiv(source.step * lanes) * lanes
        self.counts = [*(self.spans[dim] for dim in self.others), b.const(source.step, "index")]
        self.row, self.turned = b.index(row), None
        self.strides, self.size = self.nested(b.mul(self.row, self.counts[-1]), self.others, b)
        if source.channel is not None:
            _, dim = source.channel
            self.pixel = b.index(Affine.of(self.spans[dim].name).ceildiv(lanes) * lanes)
            self.turned = b.op("ge", self.spans[dim], b.const(lanes, "index"))
            strides, size = self.nested(self.pixel, [*(other for other in self.others if other != dim), source.dim], b)
            self.size = b.select(self.turned, size, self.size)
            strides[dim] = self.strides[source.dim] = b.const(1, "index")
            self.strides = {each: b.select(self.turned, strides[each], self.strides[each]) for each in strides}
        else:
            self.strides[source.dim] = b.const(1, "index")

    def nested(self, stride: Value, dims: Sequence[int], b: Builder) -> tuple[dict[int, Value], Value]:
        """Strides of dimensions that lie one inside the other, the last of which has this one; and the size of all."""
        strides: dict[int, Value] = {}
        for dim in reversed(dims):
            strides[dim] = stride
            lines = Affine.of(b.mul(stride, self.spans[dim]).name).ceildiv(LINE)
            stride = b.index((lines.floordiv(2) * 2 + 1) * LINE)
        return strides, stride

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
        reach = {dim: sum(index[dim].coefficient(axis) * (table[axis].tile - 1) for axis in self.axes) for dim in self.others}
        behind = [reach[dim] // self.steps[dim] for dim in self.others]
        counts = [Affine.of(count.name) + more for count, more in zip(self.counts, (*behind, 1), strict=True)]
        return Mem(dtype, (*counts, row), (*strides, row, Affine.of(1)), align=64)

    def index(self, region: TileRegion) -> list[Affine]:
        """The index in that memory of what the windows of a tile read."""
        source, forms = self.source, self.source.load.index
        offset = self.placing.form(forms[source.dim].without(source.axis), region) - self.low(source.dim, region)
        others = [(self.placing.form(forms[dim], region) - self.low(dim, region)).floordiv(self.steps[dim]) for dim in self.others]
        return [*others, offset % source.step, region.forms[source.axis] + offset.floordiv(source.step)]

    def fill(self, work: Value, region: TileRegion, at: LinePlace, first: Value | None = None) -> None:
        """Copies what lies inside and puts zeros around it; threads share the lines, which begin `at` these places of the memory. `first`:
        the number of the first picture."""
        if self.turned is None:
            self.fill_lines(work, region, at, first, None)
        else:
            with region.builder.branch(self.turned) as (then, otherwise, _):
                self.fill_lines(work, region.inside(then, ()), at, first, self.source.channel)
                self.fill_lines(work, region.inside(otherwise, ()), at, first, None)

    @contextmanager
    def lines(self, counts: Sequence[Value], b: Builder) -> Iterator[tuple[Builder, list[Value]]]:
        """The body of loops over all lines, and their numbers along the dimensions: threads share them, or one thread has them all."""
        with ExitStack() as loops:
            if self.by_picture:
                numbers = list[Value]()
                for count in counts:
                    b, loop = loops.enter_context(b.loop("line", 0, count.name))
                    numbers.append(loop.variable)
            else:
                b, loop = loops.enter_context(b.loop("line", 0, Affine.of(b.product(counts).name), place="thread"))
                numbers = b.digits(loop.variable, counts[1:])
            yield b, numbers

    def fill_lines(self, work: Value, region: TileRegion, at: LinePlace, first: Value | None, channel: tuple[str, int] | None) -> None:
        """`channel`: what lies along the lines of the copy instead, so many together, and is turned on the way."""
        source, b, dtype, lanes = self.source, region.builder, mem_of(work).dtype, self.lanes
        mem = region.known(source.load.mem)
        dims = mem_of(source.load.mem).dims
        lows = {dim: self.low(dim, region) for dim in (*self.others, source.dim)}
        if first is not None and source.picture is not None:
            lows[source.picture[1]] += first.name
        # of short lines half a vector is turned at a time
        width = lanes if channel is None else min(lanes, max(LEAST_TURNED, lanes // 2))
        plan = AxisPlan(source.axis, "time", 1, width, simd=SIMD if width == lanes else f"{SIMD}_{CHANNELS}")
        line_of, one = AxisPlan(source.axis, "time", 1, lanes), AxisPlan(source.axis)
        self.placing.declare(plan)
        steps = {dim: lanes if channel is not None and dim == channel[1] else 1 for dim in self.others}
        counts = [*(b.index(Affine.of(self.spans[dim].name).ceildiv(step)) for dim, step in steps.items()), self.counts[-1]]
        with self.lines(counts, b) as (body, (*numbers, phase)):
            places = {dim: Affine.of(number.name) * steps[dim] for dim, number in zip(self.others, numbers, strict=True)}
            index = {dim: place * self.steps[dim] + lows[dim] for dim, place in places.items()}

            def inside(dim: int) -> list[Affine]:
                own = [index[dim] * sign + self.placing.form(form, region) for bound, sign, form in source.bounds if bound == dim]
                return [*own, index[dim], self.placing.form(dims[dim], region) - index[dim] - 1]

            *leading, start = at(places, phase, body)

            def at_pixel(along: Affine, across: Affine) -> list[Affine]:
                return [*leading, start + along] if channel is None else [*leading[:-1], along, start + across]

            index[source.dim] = Affine.of(source.axis) * (source.step * self.steps[source.dim]) + phase.name + lows[source.dim]
            bounds = ZoneBounds(AxisPlan(source.axis), {}, body)
            bounds.add(source.load.result, inside(source.dim))
            length, together = (self.row, lanes) if channel is None else (self.spans[source.dim], 1)
            low, high = bounds.elements(length)
            some, none = all_hold([form for dim in self.others for form in inside(dim)], body), body.const(0, "index")
            head, tail = (Affine.of(body.select(some, each, none).name) for each in (low, high))
            # one loop for both ends, few turns that nobody takes for a long fill
            before, after = body.index(head.ceildiv(together)), tail.floordiv(together)
            with body.loop("at", 0, Affine.of(before.name) + Affine.of(length.name).ceildiv(together) - after) as (zeros, number):
                second = zeros.index(Affine.of(number.variable.name) + after - before.name)
                along = Affine.of(zeros.select(zeros.op("lt", number.variable, before), number.variable, second).name)
                place = at_pixel(line_of.form(along), Affine()) if channel is None else at_pixel(along, line_of.within())
                zeros.store(work, zeros.const(0, dtype), place)
            with body.when(some) as then:
                vectors = then.index((Affine.of(high.name) - low.name).floordiv(width))
                behind = then.add(low, then.mul(vectors, then.const(width, "index")))
                # what is left over: a vector that reaches back, or elements where there is none
                filled = then.op("ge", vectors, then.const(1, "index"))
                last = then.index(Affine.of(high.name) - width)
                over = then.op("min", then.sub(high, behind), then.const(1, "index"))
                once, high = then.select(filled, then.add(last, over), last), then.select(filled, low, high)
                ranges = (plan, low, behind, width), (plan, last, once, 1), (one, low, high, 1)

                def copy(b: Builder, across: Affine) -> None:
                    for each, begin, end, step in ranges:
                        with b.loop("at", Affine.of(begin.name), Affine.of(end.name), step) as (copying, number):
                            along = Affine.of(number.variable.name) + each.within()
                            place = {dim: form.substitute({source.axis: along}) for dim, form in index.items()}
                            if channel is not None:
                                place[channel[1]] += across
                            value = copying.cast(copying.load(mem, [form for _, form in sorted(place.items())]), dtype)
                            copying.store(work, value, at_pixel(along, across))

                if channel is None:
                    copy(then, Affine())
                    return
                axis, dim = channel
                square = AxisPlan(axis, registers=lanes, digit=CHANNELS)
                self.placing.declare(square)
                ends = Affine.of(self.spans[dim].name) - places[dim], self.placing.form(dims[dim], region) - index[dim]
                left = then.op("min", *map(then.index, ends))
                with then.branch(then.op("ge", left, then.const(lanes, "index"))) as (whole, otherwise, _):
                    copy(whole, square.within())
                    with otherwise.loop(axis, 0, left.name) as (rest, number):
                        copy(rest, Affine.of(number.variable.name))

    def offset(self, forms: Mapping[str, Affine], b: Builder) -> Value:
        """How far what these axes of windows, or of terms, say lies behind the first along them."""
        parts: dict[int, Affine] = {}
        for dim, form in enumerate(self.source.load.index):
            own = sum((Affine.of(axis) * form.coefficient(axis) for axis in forms), Affine())
            parts[dim] = (own - self.least(own)).floordiv(self.steps[dim]).substitute(forms)
        return self.place(parts, b)

    def place(self, parts: Mapping[int, Affine], b: Builder) -> Value:
        """The place of an element by its places along the dimensions."""
        place = b.const(0, "index")
        for dim, form in parts.items():
            if form.value != 0:
                place = b.add(place, b.mul(b.index(form), self.strides[dim]))
        return place
