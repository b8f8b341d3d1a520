"""Threads of a custom kernel become loops, so that a CPU can run them (form C to form A).

A block's threads run one after the other, but only between *cuts*: barriers and warp operations, where each thread must have come
before any goes on. A stretch of instructions without a cut becomes one loop over the threads; control flow that contains a cut is
lifted out of that loop and keeps, for each thread, whether it takes part (a mask). What a thread computes before a cut and uses
after it is kept in an array over the threads; what is cheap and depends only on the thread's number is computed again.

This is the loop fission of Stratton, Stone and Hwu's MCUDA (2008), with masks where control diverges, as SIMT hardware has them.
A barrier that only some of a block's threads reach is a fault (0411), as it is on the hardware."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.control import Condition, For, If, Return, While, Yield
from compiler.hir.core import dtype_of
from compiler.hir.gpu import Elect, MatchLanes, Redux, SharedAlloc, Shuffle, SyncThreads, Vote, WarpSync
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Alloc
from compiler.hir.module import CallingConvention, FaultSite, HirFunction
from compiler.hir.types import INDEX, Mem, Space
from compiler.passes.stretches import contains, has_cut, leaves, strides
from compiler.passes.thread_code import Masks, Stretch, ThreadCode, unsupported
from compiler.passes.warp_loops import WarpLoops
from compiler.source import Span


def threads_to_loops(function: HirFunction) -> HirFunction:
    """The kernel as loops over blocks and threads. Where `kernel_info` gives no grid, three `index` parameters are appended for it.
    Raises ZyntaxError (0109) for instructions that only a GPU has."""
    return _Fission(function).run()


class _Fission(ThreadCode):
    """Control flow that contains cuts, lifted out of the loops over threads."""

    def __init__(self, function: HirFunction) -> None:
        super().__init__(function)
        self.sites = list(function.sites)
        self.divergent: list[Label] = []
        """Conditions that some threads of a block may not meet, outermost first, around what is being lifted."""

    def run(self) -> HirFunction:
        b = self.out.body
        for parameter in self.function.parameters:
            self.block[parameter] = self.out.parameter(parameter.name, parameter.type)
        if self.grid is None:
            x, y, z = (Affine.of(self.out.parameter(f"grid_{dim}", INDEX).name) for dim in "xyz")
            self.grid = (x, y, z)
        self.number(self.function.body)
        self.find_crossing(self.function.body)
        self.blocks(b, 2)
        function = self.out.finish()
        original = self.function
        function.kernel_info, function.constraints, function.linkage = original.kernel_info, original.constraints, original.linkage
        function.calling_convention, function.sites = CallingConvention.C, tuple(self.sites)
        return function

    def blocks(self, b: Builder, dimension: int) -> None:
        """Loops over the grid, z outermost; inside them the block."""
        if dimension < 0:
            masks = Masks()
            if contains(self.function.body, Return):
                alive = self.mask_memory(b, "alive")
                self.each_thread(b, Masks(), lambda s: s.builder.store(alive, s.builder.const(True, "i1"), [s.thread]))
                masks = Masks(alive, everything=(alive,))
            self.region(self.function.body, b, masks)
            return
        name = "xyz"[dimension]
        assert self.grid is not None
        with b.loop(f"block_{name}", 0, self.grid[dimension]) as (inner, loop):
            self.places[f"block_idx {name}"] = Affine.of(loop.variable.name)
            self.blocks(inner, dimension - 1)

    # ---- regions ----

    def region(self, region: Region, b: Builder, masks: Masks) -> None:
        """A region that is lifted out of the loops over threads: its stretches one behind the other, its cuts between."""
        stretch: list[Instruction] = []
        for op in [*region.body, None]:
            if op is not None and not has_cut(op):
                if isinstance(op, SharedAlloc | Alloc) and self.is_block_memory(op):
                    self.block[op.result] = b.alloc(_as_local(op.type), op.result.name)
                else:
                    stretch.append(op)
                continue
            if stretch:
                self.each_thread(b, masks, self.copier(stretch, masks))
                stretch = []
            if op is not None:
                self.cut(op, b, masks)

    def is_block_memory(self, op: Instruction) -> bool:
        if isinstance(op, SharedAlloc):
            return True
        if op.result in self.crossing:
            raise unsupported("an array of a thread that lives across a barrier", op)
        return False

    # ---- cuts ----

    def cut(self, op: Instruction, b: Builder, masks: Masks) -> None:
        b.span = op.span
        match op:
            case SyncThreads():
                if masks.active is not None:
                    self.require_all(op, b, masks)
            case WarpSync():
                pass
            case If():
                self.cut_if(op, b, masks)
            case For():
                self.cut_for(op, b, masks)
            case While():
                self.cut_while(op, b, masks)
            case Shuffle() | Vote() | MatchLanes() | Redux() | Elect():
                self.warp_operation(op, b, masks)
            case _:
                raise unsupported(f"`{op.name}`", op)

    @contextmanager
    def not_for_all(self, condition: Span | None) -> Iterator[None]:
        if condition is None:
            yield
            return
        self.divergent.append(Label(condition, "this condition differs between the threads of a block"))
        yield
        self.divergent.pop()

    def require_all(self, op: Instruction, b: Builder, masks: Masks) -> None:
        """A barrier under a mask: every thread that hasn't left the kernel must be here, or none."""
        assert masks.active is not None
        self.sites.append(
            FaultSite(
                "0411",
                op.span,
                "`barrier()` is reached by some threads of a block only",
                "thread {0} doesn't come here",
                "move the barrier out, and leave only the work under the condition",
                tuple(self.divergent[-1:]),
            )
        )
        some = b.slot(b.const(False, "i1"), "some")
        with b.loop("t", 0, self.threads) as (look, loop):
            look.set(some, look.op("or", look.get(some), look.load(masks.active, [loop.variable.name])))
        nobody = b.op("not", b.get(some))
        with b.loop("t", 0, self.threads) as (inner, loop):
            t = loop.variable.name
            active = inner.op("or", inner.load(masks.active, [t]), nobody)
            if masks.everything and masks.everything[0] is not masks.active:
                gone = inner.op("not", inner.load(masks.everything[0], [t]))
                active = inner.op("or", active, gone)
            inner.check(active, loop.variable, code="0411", site=len(self.sites) - 1)

    def warp_operation(self, op: Instruction, b: Builder, masks: Masks) -> None:
        """Operands of all threads in arrays; loops over warps and lanes compute the result array."""
        operands: list[Value] = []
        for value in op.operand_values:
            operands.append(self.operand_array(value, b, masks))
        result = self.array(op.result)
        WarpLoops(self.threads, masks.active).emit(op, operands, result, b)

    def operand_array(self, value: Value, b: Builder, masks: Masks) -> Value:
        if value in self.arrays:
            return self.arrays[value]
        array = self.out.body.alloc(Mem(dtype_of(value), (Affine.of(self.threads),), space=Space.LOCAL), value.name)
        self.each_thread(b, masks, lambda s: s.builder.store(array, self.get(value, s, s.builder), [s.thread]))
        return array

    def block_value(self, value: Value, b: Builder) -> Value:
        """A uniform value, computed once for the block."""
        if value in self.block:
            return self.block[value]
        op = value.source
        assert op is not None
        position = self.block_place(op, None)
        if position is not None:
            return b.index(position, value.name)
        copy = rebuilt(op, lambda v: self.block_value(v, b), lambda form: self.block_form(form, b))
        return b.emit(copy, value.name).results[op.results.index(value)]

    def block_form(self, form: Affine, b: Builder) -> Affine:
        names: dict[str, Affine | str] = {}
        for name in form.names:
            value = self.named.get(name)
            if value is not None:
                known_form = self.block_place(value.source, None) if value.source is not None else None
                names[name] = known_form if known_form is not None else self.block_value(value, b).name
        return form.substitute(names)

    def cut_if(self, op: If, b: Builder, masks: Masks) -> None:
        if op.types:
            for result in op.results:
                self.crossing.add(result)
                self.array(result)
        if self.uniform(op.condition) and not op.types:
            branch = If(condition=self.block_value(op.condition, b), otherwise=None if op.otherwise is None else Region(), likely=op.likely)
            self.region(op.then, b.child(branch.then), masks)
            if op.otherwise is not None and branch.otherwise is not None:
                self.region(op.otherwise, b.child(branch.otherwise), masks)
            b.emit(branch)
            return
        sides = [(op.then, True)] + ([(op.otherwise, False)] if op.otherwise is not None else [])
        taken = [self.mask_memory(b, "taken") for _ in sides]

        def split(s: Stretch) -> None:
            condition = self.get(op.condition, s, s.builder)
            for mask, (_, wanted) in zip(taken, sides, strict=True):
                s.builder.store(mask, condition if wanted else s.builder.op("not", condition), [s.thread])

        for mask in taken:
            self.clear(mask, b)
        self.each_thread(b, masks, split)
        for mask, (branch_region, _) in zip(taken, sides, strict=True):
            inner = masks.under(mask)
            with self.not_for_all(_written_at(op.condition) or op.span):
                self.region(_without_yield(branch_region), b, inner)
            last = branch_region.body[-1] if branch_region.body else None
            if isinstance(last, Yield) and op.results:
                pairs = list(zip(op.results, last.values, strict=True))

                def give(s: Stretch, pairs: list[tuple[Value, Value]] = pairs) -> None:
                    for result, value in pairs:
                        s.builder.store(self.array(result), self.get(value, s, s.builder), [s.thread])

                self.each_thread(b, inner, give)

    def clear(self, mask: Value, b: Builder) -> None:
        with b.loop("t", 0, self.threads) as (inner, loop):
            inner.store(mask, inner.const(False, "i1"), [loop.variable.name])

    def cut_for(self, op: For, b: Builder, masks: Masks) -> None:
        if op.carried:
            raise unsupported("a loop that carries values across a barrier", op)
        if strides(op) and not any(has_cut(inner) for inner in op.body.body):
            self.strided_loop(op, b, masks)
            return
        symbols = [self.named[n] for n in (*op.low.names, *op.high.names) if n in self.named]
        if all(self.uniform(v) for v in symbols) and not leaves(op.body):
            with b.loop(op.variable.name, self.block_form(op.low, b), self.block_form(op.high, b), op.step) as (inner, loop):
                self.block[op.variable] = loop.variable
                self.region(op.body, inner, masks)
            return
        self.crossing.add(op.variable)
        counter = self.array(op.variable)
        running, iteration = self.mask_memory(b, "running"), self.mask_memory(b, "iteration")

        def start(s: Stretch) -> None:
            s.builder.store(counter, s.builder.index(self.form(op.low, s, s.builder)), [s.thread])
            s.builder.store(running, s.builder.const(True, "i1"), [s.thread])

        self.clear(running, b)
        self.each_thread(b, masks, start)

        def test(s: Stretch) -> None:
            now = s.builder.load(counter, [s.thread])
            end = s.builder.index(self.form(op.high, s, s.builder))
            going = s.builder.op("lt" if op.step > 0 else "gt", now, end)
            s.builder.store(running, going, [s.thread])

        def advance(s: Stretch) -> None:
            now = s.builder.load(counter, [s.thread])
            s.builder.store(counter, s.builder.add(now, s.builder.const(op.step, "index")), [s.thread])

        with self.not_for_all(op.span):
            self.masked_loop(b, masks, running, iteration, test, lambda inner, inside: self.region(op.body, inner, inside), advance)

    def strided_loop(self, op: For, b: Builder, masks: Masks) -> None:
        """`for turn { for each thread that has this turn { body } }`."""
        turns = self.out.body.alloc(Mem("index", (Affine.of(self.threads),), space=Space.LOCAL), "turns")
        self.each_thread(b, Masks(), lambda s: s.builder.store(turns, s.builder.const(0, "index"), [s.thread]))
        self.each_thread(b, masks, lambda s: s.builder.store(turns, s.builder.index(self.form(op.high, s, s.builder)), [s.thread]))
        most, least = b.slot(b.const(0, "index"), "most"), b.slot(b.const(2**62, "index"), "least")
        with b.loop("t", 0, self.threads) as (inner, loop):
            count = inner.load(turns, [loop.variable.name])
            inner.set(most, inner.op("max", inner.get(most), count))
            inner.set(least, inner.op("min", inner.get(least), count))
        last, whole = b.get(most), b.get(least)
        # Turns that every thread has need no question in the innermost loop: nearly all of them, in a long range.
        with b.loop(op.variable.name, 0, whole.name) as (inner, loop):
            self.block[op.variable] = loop.variable
            with inner.loop("t", 0, self.threads) as (each, thread):
                self.copier(op.body.body, masks)(Stretch(each, thread.variable.name))
        with b.loop(op.variable.name, whole.name, last.name) as (inner, loop):
            self.block[op.variable] = loop.variable
            with inner.loop("t", 0, self.threads) as (each, thread):
                t = thread.variable.name
                with each.when(each.op("lt", loop.variable, each.load(turns, [t]))) as active:
                    self.copier(op.body.body, masks)(Stretch(active, t))

    def cut_while(self, op: While, b: Builder, masks: Masks) -> None:
        if op.carried:
            raise unsupported("a loop that carries values across a barrier", op)
        running, iteration = self.mask_memory(b, "running"), self.mask_memory(b, "iteration")
        self.clear(running, b)
        self.each_thread(b, masks, lambda s: s.builder.store(running, s.builder.const(True, "i1"), [s.thread]))
        last = op.before.body[-1]
        assert isinstance(last, Condition)

        def test(s: Stretch) -> None:
            for inner in op.before.body[:-1]:
                self.copy(inner, s, s.builder, masks, inside_loop=False)
            s.builder.store(running, self.get(last.value, s, s.builder), [s.thread])

        if any(has_cut(inner) for inner in op.before.body):
            raise unsupported("a barrier in the condition of a `while`", op)
        with self.not_for_all(_written_at(last.value) or op.span):
            self.masked_loop(b, masks, running, iteration, test, lambda inner, inside: self.region(op.body, inner, inside), None)

    def masked_loop(
        self,
        b: Builder,
        masks: Masks,
        running: Value,
        iteration: Value,
        test: Callable[[Stretch], None],
        body: Callable[[Builder, Masks], None],
        advance: Callable[[Stretch], None] | None,
    ) -> None:
        """`while any thread runs`: threads whose test fails, or that break, stop running; the others take part in the iteration."""
        inside = Masks(
            iteration,
            iteration=(iteration,),
            loop=(iteration, running),
            everything=(*masks.everything, iteration, running) if masks.everything else (),
        )
        still = Masks(running)
        with b.repeat() as (before, inner):
            self.each_thread(before, still, test)
            some = before.slot(before.const(False, "i1"), "some")
            with before.loop("t", 0, self.threads) as (look, loop):
                going = look.load(running, [loop.variable.name])
                look.store(iteration, going, [loop.variable.name])
                look.set(some, look.op("or", look.get(some), going))
            before.condition(before.get(some))
            body(inner, inside)
            if advance is not None:
                self.each_thread(inner, still, advance)


def _written_at(value: Value) -> Span | None:
    return value.source.span if value.source is not None else None


def _as_local(type: Mem) -> Mem:
    """Shared memory of a block is ordinary memory here: one block runs at a time."""
    return Mem(type.dtype, type.dims, space=Space.LOCAL, align=type.align)


def _without_yield(region: Region) -> Region:
    if region.body and isinstance(region.body[-1], Yield):
        return Region(region.parameters, region.body[:-1])
    return region
