"""Loops and branches. Carried values and results live in stack cells, which LLVM turns back into registers."""

from compiler.backends.cpu.bundle import Bundle, build
from compiler.backends.cpu.frame import Frame, Mode, Target, index_bundle
from compiler.backends.cpu.threads import thread_loop
from compiler.backends.llvm.types import I64, register_type
from compiler.backends.llvm.writer import Value, constant, poison
from compiler.hir.control import Condition, For, If, Return, While, Yield
from compiler.hir.instruction import Instruction
from compiler.hir.instruction import Value as HirValue
from compiler.hir.memory import Load, SetSlot, Store
from compiler.hir.types import Tile


def loop(frame: Frame, op: For) -> None:
    if op.place == "thread" and not frame.in_threads and frame.kernel.mode is Mode.FAST and frame.kernel.parallel != "serial":
        thread_loop(frame, op)
        return
    plain_loop(frame, op)


def plain_loop(frame: Frame, op: For) -> None:
    w = frame.w
    counted_loop(frame, op, frame.affine(op.low), frame.affine(op.high))
    assert not w.terminated


def counted_loop(frame: Frame, op: For, low: Value, high: Value) -> None:
    """The loop from `low` to `high`, with its marks as metadata."""
    w = frame.w
    start = [frame.values[value.name] for value in op.carried]
    cells = [frame.cells(bundle) for bundle in start]
    for bundle, held in zip(start, cells, strict=True):
        frame.put(bundle, held)
    latch, leave = w.label("latch"), w.label("exit")
    marks = _marks(frame, op)
    with w.loop(low, high, op.step, marks, latch, leave) as index:
        frame.values[op.variable.name] = index_bundle(index)
        for parameter, bundle, held in zip(op.body.parameters[1:], start, cells, strict=True):
            frame.values[parameter.name] = frame.fetch(bundle, held)
        frame.targets.append(Target(latch, leave))
        frame.yields.append(cells)
        frame.region(op.body)
        frame.yields.pop()
        frame.targets.pop()
    if op.place == "simd":
        frame.groups.pop()
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(start, cells, strict=True)])


def _marks(frame: Frame, op: For) -> str:
    """Loop metadata; a simd loop opens its access group here."""
    module = frame.kernel.module
    notes: list[str] = []
    if op.place == "simd":
        group = module.metadata("!{}", distinct=True)
        frame.groups.append((group, independent_memories(op)))
        notes.append(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
        if not op.carried and not any(isinstance(inner, SetSlot) for inner in op.walk()):
            # with a carried value this would also allow float sums to be reordered
            notes.append('!{!"llvm.loop.vectorize.enable", i1 true}')
    unroll = op.mark("unroll")
    if isinstance(unroll, int) and not isinstance(unroll, bool):
        notes.append(f'!{{!"llvm.loop.unroll.count", i32 {unroll}}}' if unroll > 1 else '!{!"llvm.loop.unroll.disable"}')
    if op.mark("nounroll"):
        notes.append('!{!"llvm.loop.unroll.disable"}')
    width = op.mark("width")
    if isinstance(width, int):
        notes.append(f'!{{!"llvm.loop.vectorize.width", i32 {width}}}')
    if not notes:
        return ""
    nodes = ["!{self}", *[module.metadata(note) for note in notes]]
    return f", !llvm.loop {module.node(nodes, distinct=True)}"


def independent_memories(op: For) -> frozenset[str]:
    """Memories whose accesses in the loop don't meet between iterations: those not stored to, and those all of whose accesses
    name the loop's variable alike when there are stores. The rest are left for LLVM to judge (a sum kept in memory)."""
    loads: dict[str, set[tuple[object, ...]]] = {}
    stored: dict[str, set[tuple[object, ...]]] = {}
    name = op.variable.name
    for inner in op.walk():
        if isinstance(inner, Load):
            loads.setdefault(inner.mem.name, set()).add(inner.index)
        elif isinstance(inner, Store):
            stored.setdefault(inner.mem.name, set()).add(inner.index)
    found = {memory for memory in loads if memory not in stored}
    for memory, places in stored.items():
        if all(any(form.coefficient(name) for form in index) for index in places):  # type: ignore[attr-defined]
            found.add(memory)
    return frozenset(found)


def branch(frame: Frame, op: If) -> None:
    w = frame.w
    condition = frame.values[op.condition.name].scalar
    results: list[Bundle] = []
    for type in op.types:
        assert isinstance(type, Tile)
        results.append(build(w, type, lambda point, dtype=type.dtype: poison(register_type(dtype))))  # type: ignore[misc]
    cells = [frame.cells(bundle) for bundle in results]
    then, otherwise, after = w.label("then"), w.label("else"), w.label("after")
    w.branch_if(condition, then, otherwise if op.otherwise is not None else after)
    for label, region in ((then, op.then), (otherwise, op.otherwise)):
        if region is None:
            continue
        w.start(label)
        frame.yields.append(cells)
        frame.region(region)
        frame.yields.pop()
        w.branch(after)
    w.start(after)
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(results, cells, strict=True)])


def repeat(frame: Frame, op: While) -> None:
    w = frame.w
    start = [frame.values[value.name] for value in op.carried]
    cells = [frame.cells(bundle) for bundle in start]
    for bundle, held in zip(start, cells, strict=True):
        frame.put(bundle, held)
    head, body, leave = w.label("while"), w.label("do"), w.label("done")
    w.start(head)

    def fetch(parameters: list[HirValue]) -> None:
        for parameter, bundle, held in zip(parameters, start, cells, strict=True):
            frame.values[parameter.name] = frame.fetch(bundle, held)

    fetch(op.before.parameters)
    frame.region(op.before)
    last = op.before.body[-1]
    assert isinstance(last, Condition)
    going = frame.values[last.value.name].scalar
    if frame.kernel.has_checks and frame.kernel.mode is Mode.FAST:
        # after a fault the data may never end the loop
        clean = w.compare("eq", w.load(I64, frame.flag), constant(I64, 0))
        going = w.select(clean, going, constant(going.type, 0))
    w.branch_if(going, body, leave)
    w.start(body)
    fetch(op.body.parameters or op.before.parameters)
    frame.targets.append(Target(head, leave))
    frame.yields.append(cells)
    frame.region(op.body)
    frame.yields.pop()
    frame.targets.pop()
    w.branch(head)
    w.start(leave)
    frame.define(op, *[frame.fetch(bundle, held) for bundle, held in zip(start, cells, strict=True)])


def give(frame: Frame, op: Yield) -> None:
    """Store what the innermost region carries or results in."""
    if not op.values:
        return
    for value, cells in zip(op.values, frame.yields[-1], strict=True):
        frame.put(frame.values[value.name], cells)


def leave_function(frame: Frame, op: Return) -> None:
    frame.w.branch(frame.finish)


def jump(frame: Frame, op: Instruction, out: bool) -> None:
    target = frame.targets[-1]
    frame.w.branch(target.leaving if out else target.following)
