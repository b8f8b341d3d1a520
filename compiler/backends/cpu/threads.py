"""Loops over threads: the body becomes a function of a context and a range of iterations. A team (the process's, libgomp's in code for C)
runs it in equal chunks, or the caller alone where there is too little work to pay for a team."""

from compiler.backends.cpu.frame import CpuFrame, Mode, close_frame, new_frame
from compiler.backends.cpu.marked_loops import counted_loop
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.frame import AddressedMemory, index_bundle
from compiler.backends.llvm.types import I8, I32, I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Binary, Cast, Index
from compiler.hir.instruction import Region
from compiler.hir.memory import Alloc
from compiler.hir.types import INDEX, Mem
from runtime.cpu import load, team

load.EXTERNAL[team.SYMBOL] = team.address

SERIAL_WORK = 40_000
"""Inner steps below which a loop runs on one thread: about 20 microseconds."""
UNKNOWN_TRIPS = 16
"""What a loop inside is taken to run when its bounds aren't known outside."""


def loop(frame: CpuFrame, op: For) -> None:
    """A loop, on threads where it is marked so and this is the fast kernel outside of another such loop."""
    if op.place == "thread" and not frame.in_threads and frame.kernel.mode is Mode.FAST and frame.kernel.parallel != "serial":
        thread_loop(frame, op)
    else:
        counted_loop(frame, op, frame.affine(op.low), frame.affine(op.high))


def thread_loop(frame: CpuFrame, op: For) -> None:
    w, kernel = frame.w, frame.kernel
    assert not op.carried, "a thread loop carries nothing"
    low, high = frame.affine(op.low), frame.affine(op.high)
    trips = trip_count(w, low, high, op.step)
    context = ThreadContext(frame, op)
    context.fill(w, low)
    body = _body(frame, op, context)
    chunk = _chunk(frame, body, context)

    alone, shared, after = w.label("alone"), w.label("team"), w.label("joined")
    w.branch_if(_too_small(frame, op, trips), alone, shared)
    w.start(alone)
    w.call_void(body, context.block, constant(I64, 0), trips)
    w.branch(after)
    w.start(shared)
    count = w.intrinsic("smin", frame.threads, trips)
    w.store(trips, w.offset(context.block, constant(I64, context.trips_at), I8))
    if kernel.parallel == "gomp":
        entry = _gomp_entry(frame, chunk)
        kernel.module.declare("GOMP_parallel", "void (ptr, ptr, i32, i32)")
        w.call_void("GOMP_parallel", LlvmValue(PTR, f"@{entry}"), context.block, w.convert("trunc", count, "i32"), constant(I32, 0))
    else:
        call_team(w, chunk, context.block, count)
    w.branch(after)
    w.start(after)
    if kernel.has_checks or context.allocates:
        w.store(w.binary("or", w.load(I32, frame.flag), w.convert("trunc", w.load(I64, context.block, 8), "i32")), frame.flag)
        if context.allocates:
            going = w.label("going")
            w.branch_if(w.compare("uge", w.load(I32, frame.flag), constant(I32, 2)), frame.finish, going)
            w.start(going)


def call_team(w: FunctionWriter, chunk: str, context: LlvmValue, count: LlvmValue) -> None:
    """This process's team does so many chunks."""
    w.module.helper("team", lambda _: w.module.globals.append(f"@{team.SYMBOL} = external global ptr"))
    run = w.load(PTR, LlvmValue(PTR, f"@{team.SYMBOL}"))
    w.line(f"call void {run.text}(ptr @{chunk}, {context}, {count})")


def trip_count(w: FunctionWriter, low: LlvmValue, high: LlvmValue, step: int) -> LlvmValue:
    """Iterations of a loop, 0 when it runs backwards."""
    distance = w.sub(high, low) if step > 0 else w.sub(low, high)
    if abs(step) != 1:
        distance = w.add(distance, constant(I64, abs(step) - 1))
        if distance.number is not None:
            distance = constant(I64, distance.number // abs(step))
        else:
            # below zero the quotient may be off by one, and is cut off next
            distance = w.binary("sdiv", distance, constant(I64, abs(step)))
    if distance.number is not None:
        return constant(I64, max(0, distance.number))
    return w.intrinsic("smax", distance, constant(I64, 0))


class ThreadContext:
    """What a thread body needs from outside, laid out in one block: flag, trip count, low bound, then captured values.
    Word 0 is the fault flag that all threads raise."""

    trips_at, low_at = 8, 16

    def __init__(self, frame: CpuFrame, op: For) -> None:
        self.frame = frame
        self.names = _free_names(frame, op)
        self.allocates = any(isinstance(inner, Alloc) for inner in op.walk())
        self.places: list[tuple[str, int, int]] = []
        size = 24
        for name in self.names:
            for number, item in enumerate(_parts(frame, name)):
                if _is_constant(item):
                    continue
                bytes_ = max(8, item.type.bytes)
                align = min(64, 1 << (bytes_ - 1).bit_length())
                size = (size + align - 1) // align * align
                self.places.append((name, number, size))
                size += bytes_
        self.threads_at = (size + 7) // 8 * 8
        self.block = frame.w.alloca(I8, self.threads_at + 8, 64)

    def fill(self, w: FunctionWriter, low: LlvmValue) -> None:
        w.store(constant(I64, 0), self.block)
        w.store(low, w.offset(self.block, constant(I64, self.low_at), I8))
        w.store(self.frame.threads, w.offset(self.block, constant(I64, self.threads_at), I8))
        for name, number, offset in self.places:
            w.store(_parts(self.frame, name)[number], w.offset(self.block, constant(I64, offset), I8))

    def restore(self, inner: CpuFrame, block: LlvmValue) -> None:
        """The captured names in the frame of the body."""
        outer, w = self.frame, inner.w
        got = {name: list(_parts(outer, name)) for name in self.names}
        for name, number, offset in self.places:
            got[name][number] = w.load(got[name][number].type, w.offset(block, constant(I64, offset), I8))
        for name, items in got.items():
            if name in outer.memories:
                memory = outer.memories[name]
                inner.memories[name] = AddressedMemory(items[0], memory.type, memory.notes)
            elif name in outer.slots:
                inner.slots[name] = (items[0], outer.slots[name][1])
            else:
                b = outer.values[name]
                inner.values[name] = Bundle(b.dtype, b.axes, b.simd, b.lanes, tuple(items))


def _parts(frame: CpuFrame, name: str) -> tuple[LlvmValue, ...]:
    if name in frame.memories:
        return (frame.memories[name].pointer,)
    if name in frame.slots:
        return (frame.slots[name][0],)
    return frame.values[name].items


def _is_constant(item: LlvmValue) -> bool:
    """Whether the value is known in every function: it need not travel, and its users are simplified with it."""
    return not item.text.startswith("%")


def _free_names(frame: CpuFrame, op: For) -> list[str]:
    """Names that the body uses and that are known outside, and what the types of its memories speak of."""
    used: dict[str, None] = {}

    def use(name: str) -> None:
        if name in used or not (name in frame.values or name in frame.memories or name in frame.slots):
            return
        used[name] = None
        if name in frame.memories:
            memory_type(frame.memories[name].type)

    def memory_type(mem: Mem) -> None:
        for form in (*mem.dims, *(mem.strides or ())):
            for symbol in form.names:
                use(symbol)

    for inner in op.walk():
        for value in inner.operand_values:
            use(value.name)
        for symbol in inner.symbols:
            use(symbol)
        if isinstance(inner, Alloc):
            memory_type(inner.type)
    for guard in frame.guards:
        use(guard.condition)
    return list(used)


def _body(frame: CpuFrame, op: For, context: ThreadContext) -> str:
    """`void body(context, begin, end)`: those iterations, one after the other."""
    kernel = frame.kernel
    name = kernel.module.unique(f"{frame.w.name}.body")
    w = kernel.module.function(name, None, [(PTR, "context"), (I64, "begin"), (I64, "end")], "internal", "noinline")
    block, begin, end = w.parameters
    inner = new_frame(kernel, w, LlvmValue(I64, "1", 1), LlvmValue(PTR, "null"))
    inner.in_threads = True
    inner.definitions = dict(frame.definitions)
    inner.guards = list(frame.guards)
    context.restore(inner, block)
    low = w.load(I64, w.offset(block, constant(I64, context.low_at), I8))
    first = w.add(low, w.mul(begin, constant(I64, op.step)))
    last = w.add(low, w.mul(end, constant(I64, op.step)))
    counted_loop(inner, op, first, last)
    close_frame(inner)
    if kernel.has_checks or context.allocates:
        flag = w.convert("zext", w.load(I32, inner.flag), "i64")
        with w.when(w.compare("ne", flag, constant(I64, 0))):
            w.line(f"%old = atomicrmw or {block}, {flag} monotonic, align 8")
    w.ret()
    return name


def _chunk(frame: CpuFrame, body: str, context: ThreadContext) -> str:
    """`void chunk(context, number, count)`: an equal share of the iterations."""
    name = f"{body}.chunk"
    w = frame.kernel.module.function(name, None, [(PTR, "context"), (I64, "number"), (I64, "count")], "internal")
    block, number, count = w.parameters
    trips = w.load(I64, w.offset(block, constant(I64, context.trips_at), I8))
    # quotient and rest, so that no product overflows
    share = w.binary("udiv", trips, count)
    rest = w.binary("urem", trips, count)
    begin = w.add(w.mul(number, share), w.intrinsic("umin", number, rest))
    extra = w.convert("zext", w.compare("ult", number, rest), "i64")
    w.call_void(body, block, begin, w.add(w.add(begin, share), extra))
    w.ret()
    return name


def _gomp_entry(frame: CpuFrame, chunk: str) -> str:
    module = frame.kernel.module
    name = f"{chunk}.gomp"
    w = module.function(name, None, [(PTR, "context")], "internal")
    module.declare("omp_get_thread_num", "i32 ()")
    module.declare("omp_get_num_threads", "i32 ()")
    number = w.convert("zext", w.call("omp_get_thread_num", I32), "i64")
    count = w.convert("zext", w.call("omp_get_num_threads", I32), "i64")
    w.call_void(chunk, w.parameters[0], number, count)
    w.ret()
    return name


def _too_small(frame: CpuFrame, op: For, trips: LlvmValue) -> LlvmValue:
    """Whether one thread should do it: only one is wanted, one iteration, or little work in all."""
    w = frame.w
    few = w.compare("sle", w.intrinsic("smin", frame.threads, trips), constant(I64, 1))
    below = op.mark("serial_below")
    if isinstance(below, int):
        return w.binary("or", few, w.compare("slt", trips, constant(I64, below)))
    work = op.mark("work")
    if isinstance(work, Affine) and all(name in frame.values for name in work.names):
        inside = frame.affine(work)
    elif isinstance(work, int):
        inside = constant(I64, work)
    else:
        inside = _work_of_first(frame, op)
    wide = w.convert("sitofp", trips, "double")
    total = w.binary("fmul", wide, w.convert("sitofp", inside, "double"))
    return w.binary("or", few, w.compare("olt", total, constant(total.type, float(SERIAL_WORK))))


def _work_of_first(frame: CpuFrame, op: For) -> LlvmValue:
    """The work of the first iteration, its variable taken as the low bound: bounds of loops inside that are computed in the body
    are computed here too."""
    outer = dict(frame.values)
    frame.values[op.variable.name] = index_bundle(frame.affine(op.low))
    try:
        return _work(frame, op.body)
    finally:
        frame.values = outer


_COMPUTED = (Binary, Cast, Index)


def _bound(frame: CpuFrame, form: Affine, region: Region) -> LlvmValue | None:
    """A loop bound's value here, None when it depends on what only the body knows."""

    def known(name: str) -> bool:
        if name in frame.values:
            return not frame.values[name].axes
        for op in region.body:
            if isinstance(op, _COMPUTED) and op.result.name == name and op.result.type == INDEX:
                if all(known(n) for n in (*(v.name for v in op.operand_values), *op.symbols)):
                    frame.kernel.emit(frame, op)
                    return True
                return False
        return False

    return frame.affine(form) if all(known(name) for name in form.names) else None


def _work(frame: CpuFrame, region: Region) -> LlvmValue:
    """Inner steps of a region: a step an instruction at most, and for each loop its trips times its body's."""
    w = frame.w
    total = constant(I64, 1)
    for op in region.body:
        if isinstance(op, For):
            low, high = _bound(frame, op.low, region), _bound(frame, op.high, region)
            trips = constant(I64, UNKNOWN_TRIPS)
            if low is not None and high is not None:
                trips = trip_count(w, low, high, op.step)
            total = w.add(total, w.mul(trips, _work(frame, op.body)))
        else:
            for inner in op.regions:
                total = w.add(total, _work(frame, inner))
            size = 1
            for result in op.results:
                for _, extent in getattr(result.type, "axes", ()):
                    size *= extent.value or 1
            total = w.add(total, constant(I64, size // 4))
    return total
