"""The kernel of a thread, from its numbered values: where it stands, its loads, operations and stores."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from compiler.analysis.edge_reads import Outside
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Stack, Take
from compiler.hir.gpu import Fence
from compiler.hir.instruction import Instruction, Role, Value
from compiler.hir.memory import mem_of
from compiler.schedule.gpu.derived.accesses import LoadGroup, StoreGroup, lanes_outside, load_groups, store_groups
from compiler.schedule.gpu.derived.instances import DigitSpan, Part, ThreadInstances
from compiler.schedule.gpu.derived.nest import ThreadNest
from compiler.schedule.gpu.derived.table import ThreadTable
from compiler.schedule.gpu.derived.turned_results import TurnedResults, number_of, vector_axis
from compiler.schedule.launches import Launch
from compiler.schedule.stages import Around, Start


def derived_launch(nest: ThreadNest, table: ThreadTable, everywhere: ThreadInstances, inside: ThreadInstances | None) -> Launch:
    """The launch of a nest by a table. `inside`: what threads away from the edges compute, which needs fewer conditions."""
    start = Start(Around(nest.field, (), (), (), (), {}, ()), "0", (table.block, 1, 1))
    digits, turned = _digits(start, nest, table)
    b = start.out.body
    if inside is None:
        _ThreadWriting(start, digits, everywhere, turned).write(b)
    else:
        with b.branch(_within(b, digits, inside.spans, everywhere.spans)) as (yes, no, _):
            _ThreadWriting(start, digits, inside, turned).write(yes)
            _ThreadWriting(start, digits, everywhere, turned).write(no)
            no.emit(Fence(scope="thread"))  # LLVM would make one of both branches' stores, and choices of all that they store
    if turned is not None:
        turned.write(b)
    return start.finish((Affine((), prod(table.blocks(nest))),), 1)


def _digits(start: Start, nest: ThreadNest, table: ThreadTable) -> tuple[list[Value], TurnedResults | None]:
    """The thread's digit along each axis, as `u32`. Where results are turned, those in its block behind them, and the tiles."""
    b = start.out.body
    thread = b.cast(b.index(start.thread), "u32")
    block = b.cast(start.number, "u32")
    blocks = table.blocks(nest)
    lanes = _taken_apart(b, thread, table.order, table.threads)
    tiles = _taken_apart(b, block, table.order if table.turned else range(nest.outputs - 1, -1, -1), blocks)
    digits = list[Value]()
    if table.turned:
        firsts = []
        for axis, span in enumerate(table.spans(nest)):
            unit, tile = table.tile_unit(nest, axis), table.tile[axis]
            first = b.mul(tiles[axis], number_of(b, tile // unit))
            firsts.append(b.op("min", first, number_of(b, (nest.extents[axis] - tile) // unit)) if nest.extents[axis] % tile else first)
            own = b.mul(lanes[axis], number_of(b, table.registers[axis] // span.unit))
            digits.append(b.add(b.mul(firsts[axis], number_of(b, unit // span.unit)), own))
        return [*digits, *(lanes[axis] for axis in range(nest.outputs))], TurnedResults(start, nest, table, firsts)
    for axis, span in enumerate(table.spans(nest)):
        threads, step = table.threads[axis], table.registers[axis] // span.unit
        digit = b.add(b.mul(tiles[axis], number_of(b, threads)), lanes[axis]) if threads > 1 else tiles[axis]
        digit = b.mul(digit, number_of(b, step)) if step > 1 else digit
        if (blocks[axis] * threads - 1) * step > span.high:
            digit = b.op("min", digit, number_of(b, span.high))
        digits.append(digit)
    return digits, None


def _taken_apart(b: Builder, number: Value, order: Sequence[int], counts: Sequence[int]) -> dict[int, Value]:
    """The digits of a number, the first of the order fastest."""
    digits = {}
    wanted = [axis for axis in order if counts[axis] > 1]
    for axis in order:
        digits[axis] = number_of(b, 0)
    for axis in wanted:
        last = axis == wanted[-1]
        digits[axis] = number if last else b.op("rem", number, number_of(b, counts[axis]))
        number = number if last else b.op("div", number, number_of(b, counts[axis]))
    return digits


def _within(b: Builder, digits: Sequence[Value], inside: Sequence[DigitSpan], everywhere: Sequence[DigitSpan]) -> Value:
    """Whether the thread's digits lie in the narrower spans."""
    condition: Value | None = None
    for digit, span, whole in zip(digits, inside, everywhere, strict=False):
        if span != whole:
            ahead = b.sub(digit, number_of(b, span.low)) if span.low else digit
            condition = b.both(condition, b.op("le", ahead, number_of(b, span.high - span.low)))
    assert condition is not None
    return condition


class _ThreadWriting:
    def __init__(self, start: Start, digits: Sequence[Value], instances: ThreadInstances, turned: TurnedResults | None) -> None:
        self.start, self.digits, self.instances, self.nest = start, digits, instances, instances.nest
        self.turned = turned
        self.values: dict[int, Value] = {}
        self.vectors: dict[LoadGroup, Value] = {}
        self.names: dict[int, str] = {}

    def write(self, b: Builder) -> None:
        live = self.instances.live()
        groups = load_groups(self.instances, live)
        for number, needed in enumerate(live):
            if needed:
                self.values[number] = self.value(b, number, groups)
        turned, instances = self.turned, self.instances
        stores = instances.stores if turned is None else turned.elements(instances)
        for group in store_groups(self.nest, stores, {} if turned is None else turned.mems):
            self.store(b, group)

    def store(self, b: Builder, group: StoreGroup) -> None:
        memory = self.start.values[self.nest.memories[group.memory]] if self.turned is None else self.turned.tiles[group.memory]
        values = [self.values[number] for number in group.values]
        index = [self.form(b, part, constant) for part, constant in zip(group.parts, group.at, strict=True)]
        where = None if group.where is None else self.values[group.where]
        if len(values) > 1:
            index[-1] = index[-1] + vector_axis(self.start, len(values))
            values = [b.emit(Stack(values=tuple(values), axis=vector_axis(self.start, len(values)))).result]
        b.store(memory, values[0], index, where)

    def value(self, b: Builder, number: int, groups: Mapping[int, tuple[LoadGroup, int]]) -> Value:
        node, dtype = self.instances.nodes[number], self.instances.dtypes[number]
        match node[0]:
            case "load":
                return self.loaded(b, *groups[number])
            case "const":
                return b.const(node[2], dtype)
            case "given":
                return next(value for old, value in self.start.values.items() if old.name == node[1])
            case "index":
                return b.index(self.form(b, *node[1:]))
            case "ge":
                return self.at_least_zero(b, *node[1:])
            case "zero" | "nonzero":
                return b.op("eq" if node[0] == "zero" else "ne", b.index(self.form(b, *node[1:])), b.const(0, "index"))
            case "select":
                return b.select(*(self.values[operand] for operand in node[1:]))
            case "and":
                return b.op("and", *(self.values[operand] for operand in node[1:]))
            case _:
                return self.operation(b, self.instances.templates[node[1]], [self.values[operand] for operand in node[2:]])

    def operation(self, b: Builder, template: Instruction, operands: Sequence[Value]) -> Value:
        rest = iter(operands)
        fields: dict[str, object] = {}
        for name, role in template.roles():
            value = getattr(template, name)
            if role is Role.OPERANDS:
                fields[name] = tuple(next(rest) for _ in value)
            elif role is Role.OPERAND or (role is Role.OPTIONAL and value is not None):
                fields[name] = next(rest)
            else:
                fields[name] = value
        return b.emit(type(template)(span=template.span, **fields)).result

    def form(self, b: Builder, part: Part, constant: int) -> Affine:
        form = Affine((), constant)
        for axis, coefficient in part:
            if axis not in self.names:
                self.names[axis] = self.start.out.body.cast(self.digits[axis], "index").name
            form = form + Affine.of(self.names[axis]) * coefficient
        return form

    def at_least_zero(self, b: Builder, part: Part, constant: int) -> Value:
        """Of a single digit it is one comparison in 32 bits."""
        if len(part) == 1 and abs(part[0][1]) == 1:
            ((axis, coefficient),) = part
            return b.op("ge" if coefficient > 0 else "le", self.digits[axis], number_of(b, -constant * coefficient))
        return b.op("ge", b.index(self.form(b, part, constant)), b.const(0, "index"))

    def loaded(self, b: Builder, group: LoadGroup, lane: int) -> Value:
        if group not in self.vectors:
            memory = self.nest.memories[group.memory]
            dims = [dim.constant for dim in mem_of(memory).dims]
            index = []
            for position, (part, constant) in enumerate(zip(group.parts, group.at, strict=True)):
                unit = group.lanes if position == len(dims) - 1 else 1
                led_back = self.wrapped if group.outside is Outside.WRAPPED else self.nearest
                if unit == 1 and group.outside in (Outside.MIRRORED, Outside.REPEATED):
                    led_back = partial(self.mirrored, once=group.outside is Outside.MIRRORED)
                index.append(led_back(b, part, constant, unit, dims[position], group.below[position], group.above[position]))
            if group.lanes > 1:
                index[-1] = index[-1] + vector_axis(self.start, group.lanes)
            self.vectors[group] = b.load(self.start.values[memory], index)
        vector = self.vectors[group]
        if group.lanes == 1:
            return vector
        value = self.lane(b, group, lane)
        return value if group.outside in (None, Outside.WRAPPED) else self.of_the_edge(b, group, lane, value)

    def lane(self, b: Builder, group: LoadGroup, lane: int) -> Value:
        return b.emit(Take(value=self.vectors[group], axis=vector_axis(self.start, group.lanes), at=Affine((), lane))).result

    def of_the_edge(self, b: Builder, group: LoadGroup, lane: int, value: Value) -> Value:
        """The element, or the one that is read instead where the vector lies outside: the vector inside that is next to it was loaded."""
        mem = mem_of(self.nest.memories[group.memory])
        part, constant = group.parts[-1], group.at[-1]
        first, last = lanes_outside(group, lane)
        if group.below[-1] and lane != first:
            outside = self.at_least_zero(b, tuple((axis, -c) for axis, c in part), -constant - 1)
            value = b.select(outside, self.lane(b, group, first), value)
        if group.above[-1] and lane != last:
            outside = self.at_least_zero(b, part, constant - mem.dims[-1].constant)
            value = b.select(outside, self.lane(b, group, last), value)
        return value

    def nearest(self, b: Builder, part: Part, constant: int, unit: int, dim: int, below: bool, above: bool) -> Affine:
        """The index, or of those outside the nearest inside, in steps of so many elements."""
        if not (below or above):
            return self.form(b, part, constant)
        index = b.index(self.form(b, tuple((axis, c // unit) for axis, c in part), constant // unit))
        if below:
            index = b.op("max", index, b.const(0, "index"))
        if above:
            index = b.op("min", index, b.const((dim - unit) // unit, "index"))
        return Affine.of(index.name) * unit

    def mirrored(
        self, b: Builder, part: Part, constant: int, _: int, dim: int, below: bool, above: bool, once: bool
    ) -> Affine:
        """The index, or of those outside the one as far from the last inside, or from the edge where elements at edges are read twice."""
        form = self.form(b, part, constant)
        if below:
            form = Affine.of(b.op("max", b.index(form), b.index(-form - (not once))).name)
        if above:
            form = Affine.of(b.op("min", b.index(form), b.index(2 * dim - 1 - once - form)).name)
        return form

    def wrapped(self, b: Builder, part: Part, constant: int, unit: int, dim: int, below: bool, above: bool) -> Affine:
        """The index, or of those outside the one as far from the other end."""
        form = self.form(b, part, constant)
        if not (below or above):
            return form
        index, extent, zero = b.index(form), b.const(dim, "index"), b.const(0, "index")
        if above:
            index = b.sub(index, b.select(b.op("ge", index, extent), extent, zero))
        if below:
            index = b.add(index, b.select(b.op("lt", index, zero), extent, zero))
        return Affine.of(index.name)
