"""What loops of the CPU bring to the nearest cache before its turn, where processors don't foresee it. Nobody asks for it but by the mark
`ahead` of a loop, the number of bytes: they follow no stream along which a loop also goes to places that are data, and none far that rows
end. Two forms are seen from a loop itself:

* rows that data choose: no processor foresees where the next one begins, but the indices of rows to come are there to be read;
* rows of a large memory beside each other, as stencils read them: processors follow few at once, and each only to the end of a page. The
  row that goes before the others is fetched, and so is what is stored;
* many rows at once, of which each turn takes a square, as lines along memory that go side by side do."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from math import prod
from operator import mul

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.cpu.streamed import LINE, loops_around
from compiler.backends.llvm.arithmetic import cast
from compiler.backends.llvm.bundle import is_simd
from compiler.backends.llvm.frame import index_bundle
from compiler.backends.llvm.indexing import Indexing, strides_of
from compiler.backends.llvm.masked import load_where
from compiler.backends.llvm.types import I64, PTR, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Cast, Index
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.types import Tile, bytes_of

FAR_ROWS, MOST_FETCHED = 1 << 20, 512
"""Bytes of a memory whose rows are fetched before their turn, and of a row: processors follow longer ones by themselves."""
FAR_STREAM, LONGEST_ROW = 1 << 22, 1 << 18
"""Bytes of a memory that is fetched ahead of accesses whose places are data: caches hold smaller ones; and of a row of it, the next of
which is fetched: near caches hold no longer ones."""
FAR_BESIDE, BESIDE = 6 << 20, 1 << 14
"""Bytes of a memory whose rows beside each other are fetched: with what is stored, more than the caches keep from call to call; and how far
ahead: some pages, since a page that is begun is looked up first."""
MANY, AHEAD, SECOND = 8, 256, 2
"""Rows at once that processors don't follow; how many bytes these are fetched ahead; and LLVM's number of the cache to which they come:
the nearest one has few places for rows that lie alike."""
SEVERAL, TURNS = 3, 32
"""Rows beside each other: two are followed well enough. Turns between a row that data choose and the one that is fetched: rows that lie in
memory take as long as some dozens of those that are near."""


def fetch_ahead(w: FunctionWriter, pointer: LlvmValue, bytes_: LlvmValue, to_write: bool = False, near: int = 3) -> None:
    """Brings what lies so many bytes behind an address to a cache, LLVM's number of which says how `near` it is, if anything does."""
    w.module.declare("llvm.prefetch.p0", "void (ptr, i32, i32, i32)")
    there = w.value(PTR, f"getelementptr i8, {pointer}, {bytes_}")
    w.line(f"call void @llvm.prefetch.p0({there}, i32 {int(to_write)}, i32 {near}, i32 1)")


def fetched_ahead(
    frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue
) -> tuple[Mapping[int, LlvmValue], list[Callable[[], None]]]:
    """Writes what is fetched before the loop from `low` to `high`. Gives the vectors in it that fetch memory, by the identities of their
    accesses, with how many bytes ahead, and what each turn fetches first."""
    begin: list[Callable[[], None]] = []
    ahead = op.mark("ahead")
    if isinstance(ahead, int):
        fetch = partial(_fetch_along, frame, op, low, high, ahead)
        if op.step > 1:
            begin.append(fetch)
        else:
            fetch()
    _fetch_rows_to_come(frame, op, low, high)
    if not isinstance(ahead, int):
        marching = [access for access in _accesses(op) if any(isinstance(inner, For) for inner in op.body.body)]
        return _beside(frame, op), [partial(_fetch_many_rows, frame, op, access, low, high) for access in marching]
    vectors = (inner for inner in op.walk() if isinstance(inner, Load) and inner.index[-1:] and _step(inner, op) != 1)
    return {id(inner): constant(I64, ahead) for inner in vectors}, begin


def _step(access: Load | Store, op: For) -> int:
    return access.index[-1].coefficient(op.variable.name)


def _accesses(op: For) -> list[Load | Store]:
    return [inner for inner in op.body.body if isinstance(inner, Load | Store) and inner.index]


def _without_axes(frame: CpuFrame, access: Load | Store) -> list[Affine]:
    """The index of the first element of a tile."""
    return [form.without(*filter(frame.is_axis, form.names)) for form in access.index]


def _memory_bytes(frame: CpuFrame, access: Load | Store) -> LlvmValue:
    mem = mem_of(access.mem)
    size = constant(I64, bytes_of(mem.dtype))
    for dim in mem.dims:
        size = frame.w.mul(size, frame.affine(dim))
    return size


def _fetch(frame: CpuFrame, access: Load | Store, index: list[Affine], behind: LlvmValue) -> None:
    fetch_ahead(frame.w, Indexing(frame, frame.memories[access.mem.name], index, None, 0).base, behind)


# ---- along a loop ----


def _fetch_along(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue, distance: int) -> None:
    """Fetches what lies so many bytes behind the elements that the loop goes along in their order, a line at a time, and the rows behind
    those that it reads at places which are data. What near caches hold isn't fetched. A loop of several turns at once fetches in each."""
    w, turn, fetched = frame.w, op.variable.name, set[tuple[str, tuple[Affine, ...]]]()
    turns = {each.result.name: each.of for each in op.body.body if isinstance(each, Index)}
    made = {value.name for each in op.walk() for value in each.results} | {value.name for value in op.body.parameters[1:]}
    for access in _accesses(op):
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
        far = w.compare("sge", _memory_bytes(frame, access), constant(I64, FAR_STREAM))
        if op.step > 1:
            _fetch(frame, access, index, w.select(far, behind, constant(I64, 0)))
            continue
        with w.loop(low, w.select(far, high, low), LINE // size) as at:
            frame.values[turn] = index_bundle(at)
            _fetch(frame, access, index, behind)


# ---- rows that data choose ----


def _fetch_rows_to_come(frame: CpuFrame, op: For, low: LlvmValue, high: LlvmValue) -> None:
    """Fetches the beginnings of the rows that a loop around goes along some turns later; its last turns fetch the last row. Rows that are
    only read are on their way in time, unless what is stored goes past the caches."""
    w, fetched = frame.w, set[str]()
    stored = {access.mem.name for access in _accesses(op) if isinstance(access, Store)}
    for access, name, element in _rows_of(frame, op):
        if access.mem.name in fetched or not (frame.streams or access.mem.name in stored):
            continue
        fetched.add(access.mem.name)
        is_far = w.compare("sge", _memory_bytes(frame, access), constant(I64, FAR_ROWS))
        with w.when(w.binary("and", is_far, w.compare("slt", low, high))):
            _fetch_row_to_come(frame, access, name, element, op.variable.name, low, high)


def _rows_of(frame: CpuFrame, op: For) -> Iterator[tuple[Load | Store, str, Load]]:
    """The accesses along a loop with one index that is data, the name of that index, and the element that it is: one for each turn of a
    loop around."""
    within = {value.name for inner in op.walk() for value in inner.results}
    turns: list[tuple[Affine, ...]] | None = None
    for access in _accesses(op):
        names = {name for form in access.index[:-1] for name in form.names}
        found = [(name, made.value.source) for name in names if isinstance(made := frame.definitions.get(name), Cast)]
        rows = [(name, source) for name, source in found if isinstance(source, Load)]
        if _step(access, op) < 1 or len(rows) != 1 or not within.isdisjoint(access.symbols):
            continue
        ((name, element),) = rows
        if turns is None:
            turns = [(Affine.of(loop.variable.name),) for loop in loops_around(frame, op) if isinstance(loop, For) and loop.step == 1]
        alone = element.where is None and element.mem is not access.mem and element.index in turns
        if alone and not any(form.coefficient(op.variable.name) for form in access.index[:-1]):
            yield access, name, element


def _fetch_row_to_come(
    frame: CpuFrame, access: Load | Store, name: str, element: Load, variable: str, low: LlvmValue, high: LlvmValue
) -> None:
    """Fetches the row that an access goes along some turns later."""
    w, (turn,), dtype = frame.w, element.index[0].names, mem_of(element.mem).dtype
    before = {each: frame.values[each] for each in (name, turn)}
    last = w.sub(frame.affine(mem_of(element.mem).dims[0]), constant(I64, 1))
    frame.values[turn] = index_bundle(w.intrinsic("smin", w.add(before[turn].scalar, constant(I64, TURNS)), last))
    there = Indexing(frame, frame.memories[element.mem.name], element.index, None, 0).base
    number = load_where(w, there, None, dtype, constant(register_type(dtype), 0))
    frame.values[name] = index_bundle(cast(w, number, dtype, "index"))
    _fetch_turns(frame, access, variable, low, high)
    frame.values.update(before)


def _fetch_turns(frame: CpuFrame, access: Load | Store, variable: str, low: LlvmValue, high: LlvmValue) -> None:
    """Fetches what an access goes along in the first turns of a loop."""
    w, index = frame.w, _without_axes(frame, access)
    bytes_ = bytes_of(mem_of(access.mem).dtype) * index[-1].coefficient(variable)
    behind = w.intrinsic("smin", high, w.add(low, constant(I64, max(1, MOST_FETCHED // bytes_))))

    def fetch(at: LlvmValue) -> None:
        frame.values[variable] = index_bundle(at)
        _fetch(frame, access, index, constant(I64, 0))

    with w.loop(low, behind, max(1, LINE // bytes_)) as at:
        fetch(at)
    fetch(w.sub(behind, constant(I64, 1)))


# ---- many rows at once ----


def _fetch_many_rows(frame: CpuFrame, op: For, access: Load | Store, low: LlvmValue, high: LlvmValue) -> None:
    """Fetches what the rows of an access go along some lines later, and at their ends the beginnings of the rows behind them."""
    w, mem, variable = frame.w, mem_of(access.mem), op.variable.name
    type, strides = (access.result if isinstance(access, Load) else access.value).type, strides_of(frame, mem)
    across = {name: range(extent.value or 1) for name, extent in type.axes} if isinstance(type, Tile) else {}
    across = {name: places for name, places in across.items() if not access.index[-1].coefficient(name)}
    dim, *others = [dim for dim, form in enumerate(access.index) if not across.keys().isdisjoint(form.names)] or [-1]
    step, made = _step(access, op) * bytes_of(mem.dtype), {value.name for each in op.walk() for value in each.results}
    known = access.mem in frame.kernel.function.parameters and made.isdisjoint(access.symbols) and strides[-1].number == 1
    if others or step <= 0 or not known or prod(map(len, across.values())) < MANY:
        return
    rows = [sum(map(mul, map(access.index[dim].coefficient, across), places)) for places in product(*across.values())]
    ahead, stride = max(1, AHEAD // step), w.mul(strides[dim], constant(I64, bytes_of(mem.dtype)))
    later = w.add(frame.values[variable].scalar, constant(I64, ahead))
    back = w.mul(w.sub(w.sub(high, low), constant(I64, ahead)), constant(I64, step))
    next_rows = w.sub(w.mul(stride, constant(I64, max(rows) + 1)), back)
    behind = w.select(w.compare("slt", later, high), constant(I64, ahead * step), next_rows)
    first = Indexing(frame, frame.memories[access.mem.name], _without_axes(frame, access), None, 0).base
    with w.when(w.compare("sge", _memory_bytes(frame, access), constant(I64, FAR_BESIDE))):
        for row in rows:
            fetch_ahead(w, first, w.add(behind, w.mul(stride, constant(I64, row))), isinstance(access, Store), SECOND)


# ---- rows beside each other ----


def _beside(frame: CpuFrame, op: For) -> Mapping[int, LlvmValue]:
    """The accesses of an innermost loop that fetch memory, by identity, and how many bytes ahead of each."""
    accesses = [access for access in _accesses(op) if any(map(is_simd, access.index[-1].names))]
    if any(inner.regions for inner in op.body.body) or not any(isinstance(access, Store) for access in accesses):
        return {}
    w, fetched = frame.w, dict[int, LlvmValue]()
    for mem in dict.fromkeys(access.mem for access in accesses if access.mem in frame.kernel.function.parameters):
        loads = {access.index[:-1]: access for access in accesses if isinstance(access, Load) and access.mem is mem}
        if len(loads) >= SEVERAL and (first := _first(list(loads))) is not None:
            far = w.compare("sge", _memory_bytes(frame, loads[first]), constant(I64, FAR_BESIDE))
            ahead = w.select(far, constant(I64, BESIDE), constant(I64, 0))
            stores = [] if frame.streams else [access for access in accesses if isinstance(access, Store)]
            fetched |= {id(access): ahead for access in (loads[first], *stores)}
    return fetched


def _first(rows: list[tuple[Affine, ...]]) -> tuple[Affine, ...] | None:
    """The row that goes before all others; None where that depends on sizes."""
    known: dict[tuple[int, ...], tuple[Affine, ...]] = {}
    for row in rows:
        steps = [(form - other).value for form, other in zip(row, rows[0], strict=True)]
        known[tuple(step for step in steps if step is not None)] = row
        if None in steps:
            return None
    return known[max(known)]
