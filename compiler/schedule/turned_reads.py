"""Memories that lie along the outer of two loops, among others that lie along the inner one, in nests that keep their loops. Each element
would be on another line of the cache than the one before it, and a line would be gone before its next element is read. So some turns of the
outer loop are taken together, by blocks of the inner one. What lies across is brought to the order of the inner loop for such a block, in
squares that are turned in registers. The last turns reach back over those before them, which are computed twice."""

from compiler.analysis.dependence import NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder, declared
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Const
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, bytes_of
from compiler.machines.cpu import CpuMachine
from compiler.schedule.field import CACHE_LINE, SQUARE
from compiler.schedule.lines import are_apart
from compiler.schedule.table import SIMD
from runtime.records import evolve

BLOCK = 128
"""Turns of the inner loop for which elements are brought at once: the nearest cache holds them, and what lies along the inner loop is read
in long stretches."""


def turned_reads(nest: HirFunction, facts: NestFacts, machine: CpuMachine) -> tuple[HirFunction, tuple[str, ...]]:
    """The nest with such blocks where its extents fill them, and what was done in words."""
    owner, body, words = declared(nest), list[Instruction](), list[str]()
    for op in nest.body.body:
        across = _across(op, facts) if isinstance(op, For) else []
        if not across or not isinstance(op, For):
            body.append(op)
            continue
        region = Region()
        b, turned = Builder(owner, region), _TurnedReads(op, across, machine, owner)
        counts = [b.index(loop.high - loop.low) for loop in (op, turned.inner)]
        fits = [b.op("ge", count, b.index(turned.side)) for count in counts]
        with b.branch(b.op("and", *fits)) as (then, otherwise, _):
            turned.append_to(then, *counts)
            otherwise.region.body.append(op)
        body += region.body
        names = " and ".join(load.mem.name for load in across)
        words.append(f"{op.written}: thread, {turned.side} turns together, for which {names} is turned in blocks of {turned.inner.written}")
    return (evolve(nest, body=Region([], body), axes=dict(owner.function.axes)) if words else nest), tuple(words)


def _across(outer: For, facts: NestFacts) -> list[Load]:
    """The loads that lie along the outer of two loops, whose other accesses lie along the inner one; none where that isn't so."""
    *others, inner = outer.body.body
    if not isinstance(inner, For) or not all(isinstance(op, Const) for op in others) or not are_apart(outer, facts):
        return []
    known = facts.loops.get(inner)
    if known is None or inner.step != 1 or inner.carried or any(name != "written" for name, _ in inner.marks):
        return []
    ops = inner.body.body
    if any(op.regions for op in ops) or outer.variable.name in (*inner.low.names, *inner.high.names):
        return []
    loads, stores = [op for op in ops if isinstance(op, Load)], [op for op in ops if isinstance(op, Store)]
    made = {value.name for op in (*ops, *others) for value in op.results}
    if any(store.where is not None or store.mem in {load.mem for load in loads} or not mem_of(store.mem).noalias for store in stores):
        return []
    plain = [load for load in loads if load.where is None and not made.intersection(name for form in load.index for name in form.names)]
    across = [load for load in plain if _lies_along(load, outer, inner) and mem_of(load.mem).readonly]
    return across if stores and all(_lies_along(store, inner, outer) for store in stores) else []


def _lies_along(op: Load | Store, one: For, other: For) -> bool:
    """Whether a turn of one loop goes to the next element, and a turn of the other one further."""
    mem, (along, across) = mem_of(op.mem), ([form.coefficient(loop.variable.name) for form in op.index] for loop in (one, other))
    strides = mem.strides or (*[Affine()] * (mem.rank - 1), Affine.of(1))
    dense = next((dim for dim, stride in enumerate(strides) if stride.value == 1), None)
    return dense is not None and along[dense] == 1 and sum(map(abs, along)) == 1 and across[dense] == 0 and any(across)


class _TurnedReads:
    def __init__(self, outer: For, across: list[Load], machine: CpuMachine, owner: FunctionBuilder) -> None:
        inner = outer.body.body[-1]
        assert isinstance(inner, For)
        self.outer, self.inner, self.across = outer, inner, across
        widest = max(bytes_of(mem_of(load.mem).dtype) for load in across)
        self.side = min(SQUARE, machine.vector_bits // (8 * widest))
        self.rows, self.lanes = owner.axis("row", self.side), owner.axis(SIMD, self.side)

    def append_to(self, b: Builder, turns: Value, count: Value) -> None:
        side, outer, inner = self.side, self.outer, self.inner
        with b.loop("panel", 0, Affine.of(turns.name).ceildiv(side), place="thread") as (body, panel):
            first = outer.low + body.op("min", body.index(Affine.of(panel.variable.name) * side), body.sub(turns, body.index(side))).name
            types = {load: Mem(mem_of(load.mem).dtype, (side, BLOCK + side), align=CACHE_LINE) for load in self.across}
            buffers = {load: body.alloc(type, "turned") for load, type in types.items()}
            with body.loop("block", 0, Affine.of(count.name).ceildiv(BLOCK)) as (block, number):
                low = block.index(Affine.of(number.variable.name) * BLOCK)
                high = block.op("min", block.add(low, block.index(BLOCK)), count)
                begin = block.op("min", low, block.sub(high, block.index(side)))
                with block.loop("square", 0, Affine.of(block.sub(high, begin).name).ceildiv(side)) as (turning, square):
                    far = turning.index(Affine.of(begin.name) + Affine.of(square.variable.name) * side)
                    place = Affine.of(turning.op("min", far, turning.sub(high, turning.index(side))).name)
                    for load, buffer in buffers.items():
                        forms = {outer.variable.name: first + self.rows, inner.variable.name: inner.low + place + self.lanes}
                        value = turning.load(load.mem, [form.substitute(forms) for form in load.index])
                        turning.store(buffer, value, [Affine.of(self.rows), place - begin.name + self.lanes])
                with block.loop("row", 0, side) as (line, row):
                    bounds = inner.low + low.name, inner.low + high.name
                    with line.loop(inner.variable.name, *bounds, place="simd") as (element, each):
                        self.element(element, first, row.variable, each.variable, buffers, inner.low + begin.name)

    def element(self, b: Builder, first: Affine, row: Value, at: Value, buffers: dict[Load, Value], begin: Affine) -> None:
        """One turn of the inner loop, in the turn `row` of the outer one behind the `first`."""
        turn = b.index(first + row.name)
        values = {self.outer.variable: turn, self.inner.variable: at}
        forms = {self.outer.variable.name: Affine.of(turn.name), self.inner.variable.name: Affine.of(at.name)}
        for op in (*self.outer.body.body[:-1], *self.inner.body.body):
            if isinstance(op, Load) and op in buffers:
                values[op.result] = b.load(buffers[op], [row.name, Affine.of(at.name) - begin])
            elif not isinstance(op, Yield):
                copy = b.emit(rebuilt(op, lambda value: values.get(value, value), lambda form: form.substitute(forms)))
                values.update(zip(op.results, copy.results, strict=True))
                forms.update({old.name: Affine.of(new.name) for old, new in zip(op.results, copy.results, strict=True)})
