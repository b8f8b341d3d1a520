"""Loops of one thread on the CPU, with the marks that LLVM's vectoriser reads."""


from compiler.analysis.ends_by_data import ends_by_data
from compiler.analysis.fetches import fetches
from compiler.backends.cpu.fetched_ahead import fetched_ahead
from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.cpu.liberties import has_vectors
from compiler.backends.cpu.streamed import is_large, made_in, streamed_by
from compiler.backends.llvm import structured
from compiler.backends.llvm.trigonometry import OF_ANGLES
from compiler.backends.llvm.writer import LlvmValue
from compiler.hir.control import For
from compiler.hir.core import Binary, Cast, Unary, dtype_of
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Check, Load, SetSlot, Store
from compiler.hir.types import is_float

AT_ONCE = 8
"""Elements that are read one by one in a turn, without vectors."""


def counted_loop(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue) -> None:
    """The loop from `low` to `high`, with its marks as metadata; twice where a large result goes past the caches."""
    stores = [] if frame.streams else streamed_by(frame, op)
    if stores:
        w = frame.w
        large, other, after = w.label("large"), w.label("cached"), w.label("stored")
        w.branch_if(is_large(frame, op, stores, made_in(frame, op)), large, other)
        for label, frame.streams in (large, True), (other, False):
            w.start(label)
            _loop(frame, op, low, high)
            w.branch(after)
        w.start(after)
        frame.streamed = True
    else:
        _loop(frame, op, low, high)


def _loop(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue) -> None:
    before = frame.fetched
    frame.fetched, begin = fetched_ahead(frame, op, low, high)
    structured.counted_loop(frame, op, low, high, _marks(frame, op), begin)
    frame.fetched = before
    if op.place == "simd":
        frame.groups.pop()


def _marks(frame: CpuFrame, op: For) -> str:
    """Loop metadata; a simd loop opens its access group here."""
    module = frame.kernel.module
    notes: list[str] = []
    unroll, wished = op.unrolled, op.mark("vectorize")
    one_by_one = unroll is None and wished is None and not has_vectors(op) and fetches(op)
    if op.place == "simd":
        group = module.metadata("!{}", distinct=True)
        frame.groups.append((group, independent_memories(op)))
        notes.append(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
        if not op.carried and _straight(op) and not one_by_one:
            # with a carried value this would also allow float sums to be reordered; where it can't be done LLVM would say so
            notes.append('!{!"llvm.loop.vectorize.enable", i1 true}')
    if unroll == 0:
        notes.append('!{!"llvm.loop.unroll.full"}')
    elif unroll is not None:
        notes.append(f'!{{!"llvm.loop.unroll.count", i32 {unroll}}}' if unroll > 1 else '!{!"llvm.loop.unroll.disable"}')
    if op.mark("nounroll") or (unroll is None and _is_written_out(op)):
        notes.append('!{!"llvm.loop.unroll.disable"}')
    if op.place == "simd" and isinstance(wished, int) and not isinstance(wished, bool):
        notes.append(f'!{{!"llvm.loop.vectorize.width", i32 {wished}}}')
    if one_by_one:
        # what is computed beside still goes in vectors: whether indices are inside, and sums
        notes += ['!{!"llvm.loop.vectorize.width", i32 1}', f'!{{!"llvm.loop.interleave.count", i32 {AT_ONCE}}}']
    elif op.carried and ends_by_data(op, frame.definitions.get):
        # rows of any length: four vectors at a time would leave much of short ones over, one would have long ones wait for each sum
        notes.append('!{!"llvm.loop.interleave.count", i32 2}')
    elif _updates_a_row_of_data(frame, op):
        # a row of some dozens of elements: four vectors at a time would leave most of it over
        notes += ['!{!"llvm.loop.interleave.count", i32 1}', '!{!"llvm.loop.unroll.disable"}']
    if op.mark("masked"):
        notes.append('!{!"llvm.loop.vectorize.predicate.enable", i1 true}')
    if not notes:
        return ""
    nodes = ["!{self}", *[module.metadata(note) for note in notes]]
    return f", !llvm.loop {module.node(nodes, distinct=True)}"


def _updates_a_row_of_data(frame: CpuFrame, op: For) -> bool:
    """Whether a loop in vectors changes elements of a row that data choose."""
    inside = [inner for inner in op.body.body if isinstance(inner, Load | Store)]
    read = {load.mem for load in inside if isinstance(load, Load)}
    names = {name for store in inside if isinstance(store, Store) and store.mem in read for name in store.symbols}
    made = (frame.definitions.get(name) for name in names)
    return op.place == "simd" and not op.carried and any(isinstance(each, Cast) and isinstance(each.value.source, Load) for each in made)


def _is_written_out(op: For) -> bool:
    """Whether it runs any number of times over vectors: LLVM would write those that registers are blocked by three times over, which is
    most of its time and no faster."""
    return (op.low.value is None or op.high.value is None) and has_vectors(op)


def _straight(op: For) -> bool:
    """Whether the body is a straight line of what vectors can do: no branch or loop, no slot set, no call of the C library,
    no element that every iteration writes, no check that ends a loop which writes."""

    def plain(inner: Instruction) -> bool:
        if isinstance(inner, Binary) and inner.operator == "rem":
            return not is_float(dtype_of(inner.left))
        if isinstance(inner, Unary) and inner.operator in OF_ANGLES:
            return False
        if isinstance(inner, Store):
            return op.variable.name in inner.symbols and not any(isinstance(other, Check) for other in op.body.body)
        return not inner.regions and not isinstance(inner, SetSlot)

    return all(plain(inner) for inner in op.body.body)


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
    independent = {memory for memory in loads if memory not in stored}
    for memory, places in stored.items():
        if all(any(form.coefficient(name) for form in index) for index in places):  # type: ignore[attr-defined]
            independent.add(memory)
    return frozenset(independent)
