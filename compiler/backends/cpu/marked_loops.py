"""Loops of one thread on the CPU, with the marks that LLVM's vectoriser reads."""

from collections.abc import Callable
from functools import partial

from compiler.analysis.ends_by_data import ends_by_data
from compiler.analysis.fetches import fetches
from compiler.backends.cpu.access import fetch_ahead
from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.cpu.liberties import has_vectors
from compiler.backends.cpu.rows_beside import fetched_beside
from compiler.backends.cpu.streamed import LINE, is_large, made_in, streamed_by
from compiler.backends.llvm import structured
from compiler.backends.llvm.arithmetic import cast
from compiler.backends.llvm.frame import index_bundle
from compiler.backends.llvm.indexing import Indexing
from compiler.backends.llvm.masked import load_where
from compiler.backends.llvm.trigonometry import OF_ANGLES
from compiler.backends.llvm.types import I64, register_type
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Binary, Cast, Index, Unary, dtype_of
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load, SetSlot, Store, mem_of
from compiler.hir.types import Mem, bytes_of, is_float
from compiler.passes.rows_to_come import accesses_of, row_of

FAR_ROWS, MOST_FETCHED = 1 << 20, 512
"""Bytes of a memory whose rows are fetched before their turn, and of a row: processors follow longer ones by themselves."""
FAR_STREAM = 1 << 22
"""Bytes of a memory that is fetched ahead of accesses whose places are data: caches hold smaller ones."""
LONGEST_ROW = 1 << 18
"""Bytes of a row of such a memory, the next of which is fetched: near caches hold no longer ones."""
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
    begin: list[Callable[[], None]] = []
    if isinstance(distance := op.mark("row_ahead"), int):
        fetch = partial(_fetch_row, frame, op, low, high, distance)
        if op.step > 1:
            begin.append(fetch)
        else:
            fetch()
    if isinstance(turns := op.mark("rows_ahead"), int):
        _fetch_rows_to_come(frame, op, low, high, turns)
    before, ahead = frame.fetched, op.mark("ahead")
    if isinstance(ahead, int):
        frame.fetched = {id(inner): constant(I64, ahead) for inner in op.walk() if isinstance(inner, Load)}
    else:
        frame.fetched = fetched_beside(frame, op)
    structured.counted_loop(frame, op, low, high, _marks(frame, op), begin)
    frame.fetched = before
    if op.place == "simd":
        frame.groups.pop()


def _fetch_row(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue, distance: int) -> None:
    """Fetches what lies so many bytes behind the elements that the loop goes along in their order, a line at a time, and the rows behind
    those that it reads at places which are data. What near caches hold isn't fetched. A loop of several turns at once fetches in each."""
    w, turn, fetched = frame.w, op.variable.name, set[tuple[str, tuple[Affine, ...]]]()
    turns = {each.result.name: each.of for each in op.body.body if isinstance(each, Index)}
    made = {value.name for each in op.walk() for value in each.results} | {value.name for value in op.body.parameters[1:]}
    for access in accesses_of(op):
        if not access.index:
            continue
        mem, index = mem_of(access.mem), [form.substitute(turns) for form in access.index]
        size, behind = bytes_of(mem.dtype), constant(I64, distance)
        if len(index) > 1 and not made.isdisjoint(index[-1].names):
            index[-1] = Affine.of(turn)
            behind = w.intrinsic("smin", w.mul(frame.affine(mem.dims[-1]), constant(I64, size)), constant(I64, LONGEST_ROW))
        index[-1] -= index[-1].constant if op.step > 1 else 0
        steps = [form.coefficient(turn) for form in index]
        key = access.mem.name, tuple(index)
        if any(steps[:-1]) or steps[-1:] != [1] or key in fetched or any(not made.isdisjoint(form.names) for form in index):
            continue
        fetched.add(key)
        far = w.compare("sge", memory_bytes(frame, mem), constant(I64, FAR_STREAM))
        if op.step > 1:
            fetch_ahead(w, Indexing(frame, frame.memories[access.mem.name], index, None, 0).base, w.select(far, behind, constant(I64, 0)))
            continue
        with w.loop(low, w.select(far, high, low), LINE // size) as at:
            frame.values[turn] = index_bundle(at)
            fetch_ahead(w, Indexing(frame, frame.memories[access.mem.name], index, None, 0).base, behind)


def memory_bytes(frame: CpuFrame, mem: Mem) -> LlvmValue:
    size = constant(I64, bytes_of(mem.dtype))
    for dim in mem.dims:
        size = frame.w.mul(size, frame.affine(dim))
    return size


def _fetch_rows_to_come(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue, turns: int) -> None:
    """Fetches the beginnings of the rows that a loop around goes along so many turns later; its last turns fetch the last row. Rows that
    are only read are on their way in time, unless what is stored goes past the caches."""
    w, fetched = frame.w, set[str]()
    stored = {access.mem.name for access in accesses_of(op) if isinstance(access, Store)}
    for access in accesses_of(op):
        found = row_of(access, op, frame.definitions)
        if found is None or access.mem.name in fetched or not (frame.streams or access.mem.name in stored):
            continue
        fetched.add(access.mem.name)
        is_far = w.compare("sge", memory_bytes(frame, mem_of(access.mem)), constant(I64, FAR_ROWS))
        with w.when(w.binary("and", is_far, w.compare("slt", low, high))):
            _fetch_row_to_come(frame, access, found, op.variable.name, low, high, turns)


def _fetch_row_to_come(
    frame: CpuFrame, access: Load | Store, found: tuple[str, Load], variable: str, low: LlvmValue, high: LlvmValue, turns: int
) -> None:
    """Fetches the row that an access goes along so many turns later."""
    w, (name, element) = frame.w, found
    (turn,), dtype = element.index[0].names, mem_of(element.mem).dtype
    before = {each: frame.values[each] for each in (name, turn)}
    last = w.sub(frame.affine(mem_of(element.mem).dims[0]), constant(I64, 1))
    frame.values[turn] = index_bundle(w.intrinsic("smin", w.add(before[turn].scalar, constant(I64, turns)), last))
    there = Indexing(frame, frame.memories[element.mem.name], element.index, None, 0).base
    number = load_where(w, there, None, dtype, constant(register_type(dtype), 0))
    frame.values[name] = index_bundle(cast(w, number, dtype, "index"))
    _fetch_turns(frame, access, variable, low, high)
    frame.values.update(before)


def _fetch_turns(frame: CpuFrame, access: Load | Store, variable: str, low: LlvmValue, high: LlvmValue) -> None:
    """Fetches what an access goes along in the first turns of a loop."""
    w, index = frame.w, [form.without(*filter(frame.is_axis, form.names)) for form in access.index]
    bytes_ = bytes_of(mem_of(access.mem).dtype) * index[-1].coefficient(variable)
    behind = w.intrinsic("smin", high, w.add(low, constant(I64, max(1, MOST_FETCHED // bytes_))))

    def fetch(at: LlvmValue) -> None:
        frame.values[variable] = index_bundle(at)
        fetch_ahead(w, Indexing(frame, frame.memories[access.mem.name], index, None, 0).base, constant(I64, 0))

    with w.loop(low, behind, max(1, LINE // bytes_)) as at:
        fetch(at)
    fetch(w.sub(behind, constant(I64, 1)))


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
    no element that every iteration writes."""

    def plain(inner: Instruction) -> bool:
        if isinstance(inner, Binary) and inner.operator == "rem":
            return not is_float(dtype_of(inner.left))
        if isinstance(inner, Unary) and inner.operator in OF_ANGLES:
            return False
        if isinstance(inner, Store):
            return op.variable.name in inner.symbols
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
