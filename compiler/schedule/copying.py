"""A nest copied with places on its loops, scratch values made anew in the loops that threads share, and reductions cut in chunks."""

from collections.abc import Callable, Mapping, Sequence

from compiler.analysis.dependence import LoopFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import For
from compiler.hir.core import Const, Index
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.memory import Alloc, Load, MakeSlot, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import INDEX, Mem, Slot, Tile
from compiler.schedule.chunks import Chunked
from runtime.records import evolve

Act = Callable[[Builder, tuple[Affine, ...]], object]

CHUNKS = 64
"""Parts of a reduction; they depend on nothing but the number of iterations, so any number of threads gives the same."""


def privately(facts: LoopFacts) -> tuple[Value, ...]:
    """Slots and scratch memories of which each iteration may have its own."""
    return (*facts.private, *facts.workspaces)


class Copying:
    """Values outside the copied loops are shared, those inside made anew under their names."""

    def __init__(
        self,
        nest: HirFunction,
        places: Mapping[For, str],
        chunked: Mapping[For, Chunked],
        private: Mapping[For, Sequence[Value]],
    ) -> None:
        self.nest, self.places, self.chunks, self.private = nest, places, chunked, private
        self.values: dict[Value, Value] = {}
        self.partial: dict[Value, tuple[Value, str]] = {}
        """Memories that a chunk has a copy of: the copies, and the name of the chunk's number."""
        self.owner = FunctionBuilder(nest.name, nest.form)
        operations = [op for top in nest.body.body for op in top.walk()]
        everything = [r for op in operations for r in (*op.results, *(p for region in op.regions for p in region.parameters))]
        for value in (*nest.parameters, *everything):
            self.owner._taken.add(value.name)
            self.owner.scope.types[value.name] = value.type

    def function(self) -> HirFunction:
        return evolve(self.nest, body=self.region(self.nest.body))

    def value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def region(self, region: Region, private: Sequence[Value] = ()) -> Region:
        parameters = [self.fresh(parameter) for parameter in region.parameters]
        copy = Region(parameters, [])
        outside = {value: self.values[value] for value in private if value in self.values}
        self.make_private(private, copy.body)
        for op in region.body:
            if isinstance(op, For) and op in self.chunks:
                copy.body += self.in_chunks(op, self.chunks[op])
            else:
                copy.body.append(self.instruction(op))
        for value in private:
            del self.values[value]
        self.values.update(outside)
        return copy

    def make_private(self, values: Sequence[Value], body: list[Instruction]) -> None:
        """Slots and scratch memories for one iteration; what they hold at first is never read."""
        for value in values:
            name = self.owner.fresh(value.name)
            if isinstance(value.type, Slot):
                initial = Const(value=0, type=Tile(value.type.dtype))
                initial.results = [Value(self.owner.fresh("t"), Tile(value.type.dtype), initial)]
                instruction: Instruction = MakeSlot(initial=initial.result)
                body.append(initial)
            else:
                assert isinstance(value.type, Mem)
                instruction = Alloc(type=value.type)
            instruction.results = [Value(name, value.type, instruction)]
            self.values[value] = instruction.results[0]
            body.append(instruction)

    def instruction(self, op: Instruction) -> Instruction:
        private = self.private.get(op, ()) if isinstance(op, For) else ()
        regions = {
            name: None if getattr(op, name) is None else self.region(getattr(op, name), private)
            for name in op.fields(Role.REGION, Role.OPTIONAL_REGION)
        }
        changes: dict[str, object] = {}
        if isinstance(op, For) and op in self.places:
            changes["place"] = self.places[op]
        if isinstance(op, Load | Store) and op.mem in self.partial:
            changes["index"] = (Affine.of(self.partial[op.mem][1]), *op.index)
        copy = rebuilt(op, self.value, _same, regions, **changes)
        copy.results = [self.fresh(result, copy) for result in op.results]
        return copy

    def fresh(self, value: Value, source: Instruction | None = None) -> Value:
        copy = Value(value.name, value.type, source)
        self.values[value] = copy
        return copy

    # ---- chunks ----

    def in_chunks(self, op: For, plan: Chunked) -> list[Instruction]:
        """The loops cut in chunks: a partial result for each, made by threads, then all joined in order."""
        whole = Region()
        b = Builder(self.owner, whole)
        counts = [b.op("max", b.index(loop.high - loop.low), b.index(0)) for loop in plan.loops]
        total = b.product(counts)
        share = b.op("div", b.add(total, b.index(CHUNKS - 1)), b.index(CHUNKS), name="share")
        carried = op.body.parameters[1:]
        sums = [b.alloc(Mem(_dtype(value), (CHUNKS,), align=64), "partial") for value in carried]
        copies = {mem: b.alloc(Mem(_dtype(mem), (CHUNKS, *_dims(mem)), align=64), "partial") for mem in plan.memories}
        starts = [identity_of(plan.monoid(value), [_dtype(value)])[0] for value in carried]
        with b.loop("chunk", 0, CHUNKS, place="thread") as (body, chunk):
            number = chunk.variable.name
            for mem, copy in copies.items():
                self.clear(plan, mem, copy, body, number)
            first = body.op("min", body.mul(chunk.variable, share), total, name="first")
            last = body.op("min", body.add(first, share), total, name="last")
            partial = dict(self.partial)
            self.partial.update({mem: (copy, number) for mem, copy in copies.items()})
            self.values.update(copies)
            loop = self.piece(plan, body, first, last, counts, [body.const(n, v.type) for n, v in zip(starts, carried, strict=True)])
            self.partial = partial
            for mem in copies:
                del self.values[mem]
            for buffer, value in zip(sums, loop.results, strict=True):
                body.store(buffer, value, [number])
        with b.loop("chunk", 0, CHUNKS, carried=[self.value(value) for value in op.carried]) as (body, chunk):
            number = chunk.variable.name
            for mem, copy in copies.items():
                self.join(plan, mem, copy, body, number)
            if carried:
                body.yield_(
                    *[
                        body.op(plan.monoid(value), before, body.load(buffer, [number]))
                        for value, before, buffer in zip(carried, chunk.carried, sums, strict=True)
                    ]
                )
        for old, new in zip(op.results, chunk.results, strict=True):
            new.name = old.name
            self.values[old] = new
        return whole.body

    def piece(self, plan: Chunked, b: Builder, first: Value, last: Value, counts: Sequence[Value], starts: Sequence[Value]) -> For:
        """The iterations from `first` to before `last` of the loops taken as one."""
        inner = plan.loops[-1]
        if len(plan.loops) == 1:
            body = self.region(inner.body, (*plan.private, *plan.workspaces))
            low, high = inner.low + Affine.of(first.name), inner.low + Affine.of(last.name)
        else:
            flat = self.owner.value("turn", INDEX)
            body = Region([flat], [])
            digits = Builder(self.owner, body)
            left = flat
            for loop, count in reversed(list(zip(plan.loops[1:], counts[1:], strict=True))):
                self.named(loop, digits.op("rem", left, count), digits)
                left = digits.op("div", left, count)
            self.named(plan.loops[0], left, digits)
            rest = self.region(Region([], inner.body.body), (*plan.private, *plan.workspaces))
            body.body += rest.body
            low, high = Affine.of(first.name), Affine.of(last.name)
        loop_ = For(carried=tuple(starts), body=body, low=low, high=high, span=inner.span)
        loop_.results = [self.owner.value("part", value.type) for value in starts]
        for result in loop_.results:
            result.source = loop_
        b.region.body.append(loop_)
        return loop_

    def named(self, loop: For, digit: Value, b: Builder) -> None:
        """The loop's variable, under its name, from its number among the iterations."""
        index = Index(of=loop.low + Affine.of(digit.name))
        index.results = [self.fresh(loop.variable, index)]
        b.region.body.append(index)

    def clear(self, plan: Chunked, mem: Value, copy: Value, b: Builder, number: str) -> None:
        """A chunk's copy of a memory holds nothing yet."""
        (nothing,) = identity_of(plan.monoid(mem), [_dtype(mem)])
        self.each(b, mem, lambda at, index: at.store(copy, at.const(nothing, _dtype(mem)), [number, *index]))

    def join(self, plan: Chunked, mem: Value, copy: Value, b: Builder, number: str) -> None:
        """A chunk's copy of a memory goes into the memory."""
        whole = self.value(mem)

        def one(at: Builder, index: tuple[Affine, ...]) -> None:
            at.store(whole, at.op(plan.monoid(mem), at.load(whole, index), at.load(copy, [number, *index])), index)

        self.each(b, mem, one)

    def each(self, b: Builder, mem: Value, act: Act) -> None:
        """`act` for every element of a memory."""

        def inside(at: Builder, index: tuple[Affine, ...]) -> None:
            dims = _dims(mem)
            if len(index) == len(dims):
                act(at, index)
                return
            with at.loop("at", 0, dims[len(index)]) as (body, loop):
                inside(body, (*index, Affine.of(loop.variable.name)))

        inside(b, ())


def _dtype(value: Value) -> str:
    assert isinstance(value.type, Tile | Mem | Slot)
    return value.type.dtype


def _dims(mem: Value) -> tuple[Affine, ...]:
    assert isinstance(mem.type, Mem)
    return mem.type.dims


def _same(form: Affine) -> Affine:
    return form
