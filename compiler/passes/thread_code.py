"""One thread's view inside a loop over threads: its place, the values it knows, the ones it keeps for later stretches, and the copy of
its instructions."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.control import Break, Continue, For, If, Return, While
from compiler.hir.core import Index, dtype_of
from compiler.hir.gpu import WARP, Atomic, Fence, GridIndex, WarpIndex
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import GetSlot, MakeSlot, SetSlot
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, Slot, Space, Tile
from compiler.passes.stretches import Stretches
from runtime.records import Factory, define


@define(eq=False)
class Stretch:
    """A loop over threads under construction: its builder, the thread's number, and what is known inside."""

    builder: Builder
    thread: str
    known: dict[Value, Value] = Factory(dict)


@define(eq=False)
class Masks:
    """Who takes part. `active` is a memory of one truth a thread (None: all). For a loop with cuts, `iteration` are the masks that a
    `continue` clears and `loop` those that a `break` clears as well."""

    active: Value | None = None
    enclosing: tuple[Value, ...] = ()
    iteration: tuple[Value, ...] = ()
    loop: tuple[Value, ...] = ()
    everything: tuple[Value, ...] = ()

    def under(self, mask: Value) -> "Masks":
        """Inside a branch: leaving the iteration, the loop or the kernel clears the branch's mask too."""
        return Masks(mask, self.enclosing, (*self.iteration, mask), (*self.loop, mask), (*self.everything, mask))


class ThreadCode(Stretches):
    """Copies instructions of form C into loops over threads."""

    def __init__(self, function: HirFunction) -> None:
        super().__init__(function)
        info = function.kernel_info
        assert info is not None
        self.workgroup = info.workgroup or (256, 1, 1)
        self.grid = info.grid
        self.threads = self.workgroup[0] * self.workgroup[1] * self.workgroup[2]
        self.out = FunctionBuilder(function.name, Form.NEST)
        self.arrays: dict[Value, Value] = {}
        self.places: dict[str, Affine] = {}

    def copier(self, ops: list[Instruction], masks: Masks) -> Callable[[Stretch], None]:
        """What copies these instructions into a loop over threads."""

        def copy(stretch: Stretch) -> None:
            for op in ops:
                self.copy(op, stretch, stretch.builder, masks, inside_loop=False)

        return copy

    def each_thread(self, b: Builder, masks: Masks, body: Callable[[Stretch], object]) -> None:
        """`for t in 0..threads { if active[t] { body } }`."""
        with b.loop("t", 0, self.threads) as (inner, loop):
            name = loop.variable.name
            if masks.active is None:
                body(Stretch(inner, name))
            else:
                with inner.when(inner.load(masks.active, [name])) as guarded:
                    body(Stretch(guarded, name))

    def get(self, value: Value, s: Stretch, b: Builder) -> Value:
        """The value as one thread sees it."""
        if value in s.known:
            return s.known[value]
        if value in self.block:
            return self.block[value]
        if value in self.arrays:
            value_ = b.load(self.arrays[value], [s.thread], name=value.name)
        elif (form := self.place(value.source, s)) is not None:
            value_ = b.index(form, value.name)
        else:
            assert value.source is not None, f"{value} isn't known here"
            return self.clone(value.source, s, b).results[value.source.results.index(value)]
        if b is s.builder:
            s.known[value] = value_
        return value_

    def place(self, op: Instruction | None, s: Stretch) -> Affine | None:
        """The thread's place as an affine form of its number."""
        t, (x, y, _) = Affine.of(s.thread), self.workgroup
        match op:
            case GridIndex(operator="thread_idx", dim="x"):
                return t if self.threads == x else t % x
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
                return thread % WARP
            case WarpIndex(operator="warp") if thread is not None:
                return thread.floordiv(WARP)
            case WarpIndex(operator="cluster_rank"):
                return Affine()
            case _:
                return None

    def form(self, form: Affine, s: Stretch, b: Builder) -> Affine:
        """An affine form with each name as the thread knows it; places stay affine."""
        names: dict[str, Affine | str] = {}
        for name in form.names:
            value = self.named.get(name)
            if value is None:
                continue
            known_form = self.place(value.source, s) if value not in s.known else None
            if known_form is None and isinstance(value.source, Index) and value not in s.known and self.again(value):
                known_form = self.form(value.source.of, s, b)
            names[name] = known_form if known_form is not None else self.get(value, s, b).name
        return form.substitute(names)

    def clone(self, op: Instruction, s: Stretch, b: Builder) -> Instruction:
        copy = rebuilt(op, lambda v: self.get(v, s, b), lambda form: self.form(form, s, b))
        return b.emit(copy, op.results[0].name if op.results else "")

    # ---- one instruction inside a stretch ----

    def copy(self, op: Instruction, s: Stretch, b: Builder, masks: Masks, inside_loop: bool) -> None:
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
                copy = While(carried=tuple(self.get(v, s, b) for v in op.carried))
                for old, new in ((op.before, copy.before), (op.body, copy.body)):
                    for parameter in old.parameters:
                        s.known[parameter] = self.out.value(parameter.name, parameter.type)
                        new.parameters.append(s.known[parameter])
                    self.nested(old, s, b.child(new), masks, True)
                b.emit(copy)
                s.known.update(zip(op.results, copy.results, strict=True))
                self.keep_all(op, s, b)
            case If():
                branch = If(condition=self.get(op.condition, s, b), otherwise=None if op.otherwise is None else Region(), types=op.types)
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
                    raise unsupported("`return` inside a loop of a custom kernel", op)
                self.leave(masks.everything, s, b)
            case Atomic():
                self.atomic(op, s, b)
            case _:
                if all(self.again(r) and r not in self.crossing for r in op.results) and op.results:
                    return
                made_op = self.clone(op, s, b)
                s.known.update(zip(op.results, made_op.results, strict=True))
                self.keep_all(op, s, b)

    def atomic(self, op: Atomic, s: Stretch, b: Builder) -> None:
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
                zero, unit = b.const(0, dtype_of(old)), b.const(1, dtype_of(old))
                new = b.select(b.op("ge", old, value), zero, b.add(old, unit))
            case "dec":
                zero, unit = b.const(0, dtype_of(old)), b.const(1, dtype_of(old))
                wraps = b.op("or", b.op("eq", old, zero), b.op("gt", old, value))
                new = b.select(wraps, value, b.sub(old, unit))
            case operation:
                new = b.op(operation, old, value)
        b.store(mem, new, index)
        s.known[op.result] = old
        self.keep(op.result, s, b)

    def nested(self, region: Region, s: Stretch, b: Builder, masks: Masks, inside_loop: bool) -> None:
        """A region inside a stretch; what is computed in it is not known outside."""
        inner = Stretch(b, s.thread, dict(s.known))
        for op in region.body:
            self.copy(op, inner, b, masks, inside_loop)

    def leave(self, masks: tuple[Value, ...], s: Stretch, b: Builder) -> None:
        for mask in masks:
            b.store(mask, b.const(False, "i1"), [s.thread])
        b.continue_()

    def keep_all(self, op: Instruction, s: Stretch, b: Builder) -> None:
        for result in op.results:
            self.keep(result, s, b)

    def keep(self, value: Value, s: Stretch, b: Builder) -> None:
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


def unsupported(feature: str, op: Instruction) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{feature} is valid, but not supported on the CPU yet", op.span))
