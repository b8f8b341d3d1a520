"""Threads of a custom kernel become loops, so that a CPU can run them (form C to form A).

A block's threads run one after the other, but only between *cuts*: barriers and warp operations, where each thread must have come
before any goes on. A stretch of instructions without a cut becomes one loop over the threads; control flow that contains a cut is
lifted out of that loop and keeps, for each thread, whether it takes part (a mask). What a thread computes before a cut and uses
after it is kept in an array over the threads; what is cheap and depends only on the thread's number is computed again.

This is the loop fission of Stratton, Stone and Hwu's MCUDA (2008), with masks where control diverges, as SIMT hardware has them.
A barrier that only some of a block's threads reach is a fault (0411), as it is on the hardware."""

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import Factory, define

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import Break, Condition, Continue, For, If, Return, While, Yield
from compiler.hir.core import Index, dtype_of
from compiler.hir.gpu import Atomic, Elect, Fence, GridIndex, Match, Redux, SharedAlloc, Shuffle, SyncThreads, Vote, WarpIndex, WarpSync
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Alloc, GetSlot, MakeSlot, SetSlot
from compiler.hir.module import CallingConvention, FaultSite, Form, HirFunction
from compiler.hir.types import INDEX, Mem, Slot, Space, Tile
from compiler.passes.warp_loops import WarpLoops
from compiler.source import Span

CUTS = (SyncThreads, WarpSync, Shuffle, Vote, Match, Redux, Elect)
UNIFORM = ("block_idx", "block_dim", "grid_dim")


def threads_to_loops(function: HirFunction) -> HirFunction:
    """The kernel as loops over blocks and threads. Where `kernel_info` gives no grid, three `index` parameters are appended for it.
    Raises ZyntaxError (0109) for instructions that only a GPU has."""
    return _Fission(function).run()


@define(eq=False)
class _Stretch:
    """A loop over threads under construction: its builder, the thread's number, and what is known inside."""

    builder: Builder
    thread: str
    known: dict[Value, Value] = Factory(dict)


@define(eq=False)
class _Masks:
    """Who takes part. `active` is a memory of one truth a thread (None: all). For a loop with cuts, `iteration` are the masks that a
    `continue` clears and `loop` those that a `break` clears as well."""

    active: Value | None = None
    enclosing: tuple[Value, ...] = ()
    iteration: tuple[Value, ...] = ()
    loop: tuple[Value, ...] = ()
    everything: tuple[Value, ...] = ()

    def under(self, mask: Value) -> "_Masks":
        """Inside a branch: leaving the iteration, the loop or the kernel clears the branch's mask too."""
        return _Masks(mask, self.enclosing, (*self.iteration, mask), (*self.loop, mask), (*self.everything, mask))


class _Fission:
    def __init__(self, function: HirFunction) -> None:
        info = function.kernel_info
        assert info is not None
        self.function = function
        self.workgroup = info.workgroup or (256, 1, 1)
        self.grid = info.grid
        self.threads = self.workgroup[0] * self.workgroup[1] * self.workgroup[2]
        self.out = FunctionBuilder(function.name, Form.NEST)
        self.sites = list(function.sites)
        self.named: dict[str, Value] = {}
        self.stretch_of: dict[Instruction, int] = {}
        self.stretches = 0
        self.crossing: set[Value] = set()
        self.block: dict[Value, Value] = {}
        self.arrays: dict[Value, Value] = {}
        self.places: dict[str, Affine] = {}
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
        made = self.out.finish()
        made.kernel_info, made.constraints, made.linkage = self.function.kernel_info, self.function.constraints, self.function.linkage
        made.calling_convention, made.sites = CallingConvention.C, tuple(self.sites)
        return made

    def blocks(self, b: Builder, dimension: int) -> None:
        """Loops over the grid, z outermost; inside them the block."""
        if dimension < 0:
            masks = _Masks()
            if _contains(self.function.body, Return):
                alive = self.mask_memory(b, "alive")
                self.each_thread(b, _Masks(), lambda s: s.builder.store(alive, s.builder.const(True, "i1"), [s.thread]))
                masks = _Masks(alive, everything=(alive,))
            self.region(self.function.body, b, masks)
            return
        name = "xyz"[dimension]
        assert self.grid is not None
        with b.loop(f"block_{name}", 0, self.grid[dimension]) as (inner, loop):
            self.places[f"block_idx {name}"] = Affine.of(loop.variable.name)
            self.blocks(inner, dimension - 1)

    # ---- which instruction belongs to which stretch ----

    def number(self, region: Region) -> None:
        """Numbers stretches: neighbours without a cut share a number, with all that is nested in them; a cut has one of its own."""
        current: int | None = None
        for op in region.body:
            if _has_cut(op):
                current = None
                self.stretches += 1
                self.stretch_of[op] = self.stretches
                for inner in op.regions:
                    self.number(inner)
                continue
            if current is None:
                self.stretches += 1
                current = self.stretches
            for nested in op.walk():
                self.stretch_of[nested] = current

    def find_crossing(self, region: Region) -> None:
        """Values and slots that a stretch makes and another uses."""
        defined: dict[Value, int] = {}
        for op in _walk(region):
            for result in op.results:
                defined[result] = self.stretch_of[op]
                self.named[result.name] = result
            for inner in op.regions:
                for parameter in inner.parameters:
                    self.named[parameter.name] = parameter
                    if not _has_cut(op):
                        defined[parameter] = self.stretch_of[op]
        for op in _walk(region):
            used = list(op.operand_values) + [self.named[name] for name in op.symbols if name in self.named]
            for value in used:
                if value in defined and defined[value] != self.stretch_of[op] and not self.again(value):
                    self.crossing.add(value)

    def again(self, value: Value) -> bool:
        """Whether the value is cheaper to compute again than to keep: pure, from the thread's place and the block's values only."""
        op = value.source
        if op is None:
            return value in self.block
        if isinstance(op, GridIndex | WarpIndex):
            return True
        if op.effects is not Effect.PURE or op.regions or _has_cut(op):
            return False
        operands = list(op.operand_values) + [self.named[name] for name in op.symbols if name in self.named]
        return len(operands) <= 3 and all(self.again(operand) for operand in operands)

    def uniform(self, value: Value) -> bool:
        """Whether all threads of a block have the same value here."""
        if value in self.block:
            return True
        op = value.source
        if isinstance(op, GridIndex):
            return op.operator in UNIFORM
        if op is None or isinstance(op, WarpIndex) or op.effects is not Effect.PURE or op.regions:
            return False
        return all(self.uniform(v) for v in [*op.operand_values, *(self.named[n] for n in op.symbols if n in self.named)])

    # ---- regions ----

    def region(self, region: Region, b: Builder, masks: _Masks) -> None:
        """A region that is lifted out of the loops over threads: its stretches one behind the other, its cuts between."""
        stretch: list[Instruction] = []
        for op in [*region.body, None]:
            if op is not None and not _has_cut(op):
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
            raise _unsupported("an array of a thread that lives across a barrier", op)
        return False

    def copier(self, ops: list[Instruction], masks: _Masks):  # type: ignore[no-untyped-def]
        def copy(stretch: _Stretch) -> None:
            for op in ops:
                self.copy(op, stretch, stretch.builder, masks, inside_loop=False)

        return copy

    def each_thread(self, b: Builder, masks: _Masks, body) -> None:  # type: ignore[no-untyped-def]
        """`for t in 0..threads { if active[t] { body } }`."""
        with b.loop("t", 0, self.threads) as (inner, loop):
            name = loop.variable.name
            if masks.active is None:
                body(_Stretch(inner, name))
            else:
                with inner.when(inner.load(masks.active, [name])) as guarded:
                    body(_Stretch(guarded, name))

    # ---- values inside a stretch ----

    def get(self, value: Value, s: _Stretch, b: Builder) -> Value:
        """The value as one thread sees it."""
        if value in s.known:
            return s.known[value]
        if value in self.block:
            return self.block[value]
        if value in self.arrays:
            made = b.load(self.arrays[value], [s.thread], name=value.name)
        elif (place := self.place(value.source, s)) is not None:
            made = b.index(place, value.name)
        else:
            assert value.source is not None, f"{value} isn't known here"
            return self.clone(value.source, s, b).results[value.source.results.index(value)]
        if b is s.builder:
            s.known[value] = made
        return made

    def place(self, op: Instruction | None, s: _Stretch) -> Affine | None:
        """The thread's place as an affine form of its number."""
        t, (x, y, _) = Affine.of(s.thread), self.workgroup
        match op:
            case GridIndex(operator="thread_idx", dim="x"):
                return t if self.threads == x else t - t.floordiv(x) * x
            case GridIndex(operator="thread_idx", dim="y"):
                return t.floordiv(x) - t.floordiv(x * y) * y
            case GridIndex(operator="thread_idx", dim="z"):
                return t.floordiv(x * y)
            case GridIndex() | WarpIndex():
                return self.block_place(op, t)
            case _:
                return None

    def block_place(self, op: Instruction, thread: Affine | None) -> Affine | None:
        match op:
            case GridIndex(operator="block_idx", dim=dim):
                return self.places[f"block_idx {dim}"]
            case GridIndex(operator="block_dim", dim=dim):
                return Affine.of(self.workgroup["xyz".index(dim)])
            case GridIndex(operator="grid_dim", dim=dim):
                assert self.grid is not None
                return self.grid["xyz".index(dim)]
            case WarpIndex(operator="lane") if thread is not None:
                return thread - thread.floordiv(32) * 32
            case WarpIndex(operator="warp") if thread is not None:
                return thread.floordiv(32)
            case WarpIndex(operator="cluster_rank"):
                return Affine()
            case _:
                return None

    def form(self, form: Affine, s: _Stretch, b: Builder) -> Affine:
        """An affine form with each name as the thread knows it; places stay affine."""
        names: dict[str, Affine | str] = {}
        for name in form.names:
            value = self.named.get(name)
            if value is None:
                continue
            place = self.place(value.source, s) if value not in s.known else None
            if place is None and isinstance(value.source, Index) and value not in s.known and self.again(value):
                place = self.form(value.source.of, s, b)
            names[name] = place if place is not None else self.get(value, s, b).name
        return form.substitute(names)

    def clone(self, op: Instruction, s: _Stretch, b: Builder) -> Instruction:
        made = rebuilt(op, lambda v: self.get(v, s, b), lambda form: self.form(form, s, b))
        return b.emit(made, op.results[0].name if op.results else "")

    # ---- one instruction inside a stretch ----

    def copy(self, op: Instruction, s: _Stretch, b: Builder, masks: _Masks, inside_loop: bool) -> None:
        b.span = op.span
        match op:
            case GridIndex() | WarpIndex() | Fence():
                return
            case MakeSlot() if op.result in self.crossing:
                array = self.array(op.result)
                b.store(array, self.get(op.initial, s, b), [s.thread])
            case GetSlot(slot=slot) if slot in self.crossing:
                s.known[op.result] = b.load(self.array(slot), [s.thread], name=op.result.name)
                self.keep(op.result, s, b)
            case SetSlot(slot=slot, value=value) if slot in self.crossing:
                b.store(self.array(slot), self.get(value, s, b), [s.thread])
            case For():
                low, high = self.form(op.low, s, b), self.form(op.high, s, b)
                carried = [self.get(v, s, b) for v in op.carried]
                with b.loop(op.variable.name, low, high, op.step, carried, op.place, **dict(op.marks)) as (inner, loop):
                    s.known.update(zip(op.body.parameters, [loop.variable, *loop.carried], strict=True))
                    self.nested(op.body, s, inner, masks, True)
                s.known.update(zip(op.results, loop.results, strict=True))
                self.keep_all(op, s, b)
            case While():
                made = While(carried=tuple(self.get(v, s, b) for v in op.carried))
                for old, new in ((op.before, made.before), (op.body, made.body)):
                    for parameter in old.parameters:
                        s.known[parameter] = self.out.value(parameter.name, parameter.type)
                        new.parameters.append(s.known[parameter])
                    self.nested(old, s, b.child(new), masks, True)
                b.emit(made)
                s.known.update(zip(op.results, made.results, strict=True))
                self.keep_all(op, s, b)
            case If():
                branch = If(
                    condition=self.get(op.condition, s, b), otherwise=None if op.otherwise is None else Region(), types=op.types
                )
                self.nested(op.then, s, b.child(branch.then), masks, inside_loop)
                if op.otherwise is not None and branch.otherwise is not None:
                    self.nested(op.otherwise, s, b.child(branch.otherwise), masks, inside_loop)
                b.emit(branch)
                s.known.update(zip(op.results, branch.results, strict=True))
                self.keep_all(op, s, b)
            case Break() if not inside_loop:
                self.leave(masks.loop, s, b)
            case Continue() if not inside_loop:
                self.leave(masks.iteration, s, b)
            case Return():
                # A return inside a loop of this stretch can't leave the loop over threads from within: masks are cleared, loops run dry.
                if inside_loop:
                    raise _unsupported("`return` inside a loop of a custom kernel", op)
                self.leave(masks.everything, s, b)
            case Atomic():
                self.atomic(op, s, b)
            case _:
                if all(self.again(r) and r not in self.crossing for r in op.results) and op.results:
                    return
                made_op = self.clone(op, s, b)
                s.known.update(zip(op.results, made_op.results, strict=True))
                self.keep_all(op, s, b)

    def atomic(self, op: Atomic, s: _Stretch, b: Builder) -> None:
        """Threads run one at a time here, so reading, combining and writing is indivisible as it is."""
        mem = self.get(op.mem, s, b)
        index = [self.form(form, s, b) for form in op.index]
        old = b.load(mem, index, name=op.result.name)
        value = self.get(op.value, s, b)
        match op.operation:
            case "exchange":
                new = value
            case "cas":
                assert op.compare is not None
                new = b.select(b.op("eq", old, self.get(op.compare, s, b)), value, old)
            case "inc":
                zero, one = b.const(0, dtype_of(old)), b.const(1, dtype_of(old))
                new = b.select(b.op("ge", old, value), zero, b.add(old, one))
            case "dec":
                zero, one = b.const(0, dtype_of(old)), b.const(1, dtype_of(old))
                wraps = b.op("or", b.op("eq", old, zero), b.op("gt", old, value))
                new = b.select(wraps, value, b.sub(old, one))
            case operation:
                new = b.op(operation, old, value)
        b.store(mem, new, index)
        s.known[op.result] = old
        self.keep(op.result, s, b)

    def nested(self, region: Region, s: _Stretch, b: Builder, masks: _Masks, inside_loop: bool) -> None:
        """A region inside a stretch; what is computed in it is not known outside."""
        inner = _Stretch(b, s.thread, dict(s.known))
        for op in region.body:
            self.copy(op, inner, b, masks, inside_loop)

    def leave(self, masks: tuple[Value, ...], s: _Stretch, b: Builder) -> None:
        for mask in masks:
            b.store(mask, b.const(False, "i1"), [s.thread])
        b.continue_()

    def keep_all(self, op: Instruction, s: _Stretch, b: Builder) -> None:
        for result in op.results:
            self.keep(result, s, b)

    def keep(self, value: Value, s: _Stretch, b: Builder) -> None:
        if value in self.crossing:
            b.store(self.array(value), s.known[value], [s.thread])

    def array(self, value: Value) -> Value:
        """The memory that holds a value or slot of every thread."""
        if value not in self.arrays:
            assert isinstance(value.type, Tile | Slot)
            self.arrays[value] = self.out.body.alloc(Mem(value.type.dtype, (Affine.of(self.threads),), space=Space.LOCAL), value.name)
        return self.arrays[value]

    def mask_memory(self, b: Builder, name: str) -> Value:
        return self.out.body.alloc(Mem("i1", (Affine.of(self.threads),), space=Space.LOCAL), name)

    # ---- cuts ----

    def cut(self, op: Instruction, b: Builder, masks: _Masks) -> None:
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
            case Shuffle() | Vote() | Match() | Redux() | Elect():
                self.warp_operation(op, b, masks)
            case _:
                raise _unsupported(f"`{op.name}`", op)

    @contextmanager
    def not_for_all(self, condition: Span | None) -> Iterator[None]:
        if condition is None:
            yield
            return
        self.divergent.append(Label(condition, "this condition differs between the threads of a block"))
        yield
        self.divergent.pop()

    def require_all(self, op: Instruction, b: Builder, masks: _Masks) -> None:
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
            here = inner.op("or", inner.load(masks.active, [t]), nobody)
            if masks.everything and masks.everything[0] is not masks.active:
                gone = inner.op("not", inner.load(masks.everything[0], [t]))
                here = inner.op("or", here, gone)
            inner.check(here, loop.variable, code="0411", site=len(self.sites) - 1)

    def warp_operation(self, op: Instruction, b: Builder, masks: _Masks) -> None:
        """Operands of all threads in arrays; loops over warps and lanes compute the result array."""
        operands: list[Value] = []
        for value in op.operand_values:
            operands.append(self.operand_array(value, b, masks))
        result = self.array(op.result)
        WarpLoops(self.threads, masks.active).emit(op, operands, result, b)

    def operand_array(self, value: Value, b: Builder, masks: _Masks) -> Value:
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
        place = self.block_place(op, None)
        if place is not None:
            return b.index(place, value.name)
        made = rebuilt(op, lambda v: self.block_value(v, b), lambda form: self.block_form(form, b))
        return b.emit(made, value.name).results[op.results.index(value)]

    def block_form(self, form: Affine, b: Builder) -> Affine:
        names: dict[str, Affine | str] = {}
        for name in form.names:
            value = self.named.get(name)
            if value is not None:
                place = self.block_place(value.source, None) if value.source is not None else None
                names[name] = place if place is not None else self.block_value(value, b).name
        return form.substitute(names)

    def cut_if(self, op: If, b: Builder, masks: _Masks) -> None:
        if op.types:
            for result in op.results:
                self.crossing.add(result)
                self.array(result)
        if self.uniform(op.condition) and not op.types:
            branch = If(condition=self.block_value(op.condition, b), otherwise=None if op.otherwise is None else Region())
            self.region(op.then, b.child(branch.then), masks)
            if op.otherwise is not None and branch.otherwise is not None:
                self.region(op.otherwise, b.child(branch.otherwise), masks)
            b.emit(branch)
            return
        sides = [(op.then, True)] + ([(op.otherwise, False)] if op.otherwise is not None else [])
        taken = [self.mask_memory(b, "taken") for _ in sides]

        def split(s: _Stretch) -> None:
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

                def give(s: _Stretch, pairs: list[tuple[Value, Value]] = pairs) -> None:
                    for result, value in pairs:
                        s.builder.store(self.array(result), self.get(value, s, s.builder), [s.thread])

                self.each_thread(b, inner, give)

    def clear(self, mask: Value, b: Builder) -> None:
        with b.loop("t", 0, self.threads) as (inner, loop):
            inner.store(mask, inner.const(False, "i1"), [loop.variable.name])

    def cut_for(self, op: For, b: Builder, masks: _Masks) -> None:
        if op.carried:
            raise _unsupported("a loop that carries values across a barrier", op)
        if _strides(op) and not any(_has_cut(inner) for inner in op.body.body):
            self.strided_loop(op, b, masks)
            return
        symbols = [self.named[n] for n in (*op.low.names, *op.high.names) if n in self.named]
        if all(self.uniform(v) for v in symbols) and not _leaves(op.body):
            with b.loop(op.variable.name, self.block_form(op.low, b), self.block_form(op.high, b), op.step) as (inner, loop):
                self.block[op.variable] = loop.variable
                self.region(op.body, inner, masks)
            return
        self.crossing.add(op.variable)
        counter = self.array(op.variable)
        running, iteration = self.mask_memory(b, "running"), self.mask_memory(b, "iteration")

        def start(s: _Stretch) -> None:
            s.builder.store(counter, s.builder.index(self.form(op.low, s, s.builder)), [s.thread])
            s.builder.store(running, s.builder.const(True, "i1"), [s.thread])

        self.clear(running, b)
        self.each_thread(b, masks, start)

        def test(s: _Stretch) -> None:
            now = s.builder.load(counter, [s.thread])
            end = s.builder.index(self.form(op.high, s, s.builder))
            going = s.builder.op("lt" if op.step > 0 else "gt", now, end)
            s.builder.store(running, going, [s.thread])

        def advance(s: _Stretch) -> None:
            now = s.builder.load(counter, [s.thread])
            s.builder.store(counter, s.builder.add(now, s.builder.const(op.step, "index")), [s.thread])

        with self.not_for_all(op.span):
            self.masked_loop(b, masks, running, iteration, test, lambda inner, inside: self.region(op.body, inner, inside), advance)

    def strided_loop(self, op: For, b: Builder, masks: _Masks) -> None:
        """`for turn { for each thread that has this turn { body } }`."""
        turns = self.out.body.alloc(Mem("index", (Affine.of(self.threads),), space=Space.LOCAL), "turns")
        self.each_thread(b, _Masks(), lambda s: s.builder.store(turns, s.builder.const(0, "index"), [s.thread]))
        self.each_thread(b, masks, lambda s: s.builder.store(turns, s.builder.index(self.form(op.high, s, s.builder)), [s.thread]))
        most = b.slot(b.const(0, "index"), "most")
        with b.loop("t", 0, self.threads) as (inner, loop):
            inner.set(most, inner.op("max", inner.get(most), inner.load(turns, [loop.variable.name])))
        last = b.get(most)
        with b.loop(op.variable.name, self.block_form(op.low, b), last.name, op.step) as (inner, loop):
            self.block[op.variable] = loop.variable
            with inner.loop("t", 0, self.threads) as (each, thread):
                t = thread.variable.name
                with each.when(each.op("lt", loop.variable, each.load(turns, [t]))) as here:
                    self.copier(op.body.body, masks)(_Stretch(here, t))

    def cut_while(self, op: While, b: Builder, masks: _Masks) -> None:
        if op.carried:
            raise _unsupported("a loop that carries values across a barrier", op)
        running, iteration = self.mask_memory(b, "running"), self.mask_memory(b, "iteration")
        self.clear(running, b)
        self.each_thread(b, masks, lambda s: s.builder.store(running, s.builder.const(True, "i1"), [s.thread]))
        last = op.before.body[-1]
        assert isinstance(last, Condition)

        def test(s: _Stretch) -> None:
            for inner in op.before.body[:-1]:
                self.copy(inner, s, s.builder, masks, inside_loop=False)
            s.builder.store(running, self.get(last.value, s, s.builder), [s.thread])

        if any(_has_cut(inner) for inner in op.before.body):
            raise _unsupported("a barrier in the condition of a `while`", op)
        with self.not_for_all(_written_at(last.value) or op.span):
            self.masked_loop(b, masks, running, iteration, test, lambda inner, inside: self.region(op.body, inner, inside), None)

    def masked_loop(self, b: Builder, masks: _Masks, running: Value, iteration: Value, test, body, advance) -> None:  # type: ignore[no-untyped-def]
        """`while any thread runs`: threads whose test fails, or that break, stop running; the others take part in the iteration."""
        inside = _Masks(
            iteration,
            iteration=(iteration,),
            loop=(iteration, running),
            everything=(*masks.everything, iteration, running) if masks.everything else (),
        )
        still = _Masks(running)
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


def _walk(region: Region):  # type: ignore[no-untyped-def]
    for op in region.body:
        yield from op.walk()


def _strides(op: Instruction) -> bool:
    """A loop by which the threads of a grid share out a range, each in strides of the grid. Neighbouring threads then touch
    neighbouring elements: the loop over threads belongs inside, where memory runs in order. Between barriers any order is right."""
    return isinstance(op, For) and bool(op.mark("strided")) and not op.carried and not _leaves(op.body) and not _contains(op.body, Return)


def _has_cut(op: Instruction) -> bool:
    return _strides(op) or isinstance(op, CUTS) or any(_has_cut(inner) for region in op.regions for inner in region.body)


def _contains(region: Region, kind: type[Instruction]) -> bool:
    return any(isinstance(op, kind) for op in _walk(region))


def _leaves(region: Region) -> bool:
    """Whether a break or continue of this region's own loop stands in it."""
    for op in region.body:
        if isinstance(op, Break | Continue):
            return True
        if not isinstance(op, For | While) and any(_leaves(inner) for inner in op.regions):
            return True
    return False


def _without_yield(region: Region) -> Region:
    if region.body and isinstance(region.body[-1], Yield):
        return Region(region.parameters, region.body[:-1])
    return region


def _unsupported(what: str, op: Instruction) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{what} is valid, but not supported on the CPU yet", op.span))
