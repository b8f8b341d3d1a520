"""Loads and stores: addresses from affine indices, masks from `where`, `pad` and failed checks, whole vectors where the simd
axis is contiguous, gathers and scatters where it isn't; and local memory."""

from collections.abc import Sequence

from compiler.backends.cpu.fetched_ahead import fetch_ahead
from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.cpu.interleave import grouped_axis, interleaved_axis, load_groups, store_interleaved
from compiler.backends.cpu.streamed import LINE, fills_lines
from compiler.backends.cpu.transpose import load_turned, store_turned, turned_axis
from compiler.backends.llvm.arithmetic import from_memory, to_memory
from compiler.backends.llvm.bundle import Bundle, build, points, static_axes, unsupported
from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.indexing import Address, Indexing
from compiler.backends.llvm.masked import guards_of, is_guarded, load_where
from compiler.backends.llvm.types import I8, I32, I64, PTR, LlvmType, memory_type, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store
from compiler.hir.types import Tile, bytes_of


def _at(frame: CpuFrame, bundle: Bundle, point: dict[str, int], lanes: int) -> LlvmValue:
    """A condition at a point of an access; along axes that the access lacks, all must hold."""
    w = frame.w
    missing = [name for name in bundle.names if name not in point]
    items = list(bundle.items) if missing else [bundle.at(point)]
    result = items[0]
    for item in items[1:]:
        result = w.binary("and", result, item)
    if result.type.lanes and not lanes:
        result = w.call(f"llvm.vector.reduce.and.{result.type.suffix}", result.type.with_lanes(0), result)
    return result


def _mask(frame: CpuFrame, indexing: Indexing, point: dict[str, int], where: Value | None, padded: bool) -> LlvmValue | None:
    w = frame.w
    mask: LlvmValue | None = None
    if where is not None:
        mask = _at(frame, frame.values[where.name], point, indexing.lanes)
    for guard in guards_of(frame, indexing.index):
        mask = w.both(mask, _at(frame, frame.values[guard.condition], point, indexing.lanes))
    if padded:
        mask = w.both(mask, indexing.inside(point))
    return mask


def load(frame: CpuFrame, op: Load) -> None:
    w = frame.w
    memory = frame.memories[op.mem.name]
    type = op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type)
    indexing = Indexing(frame, memory, op.index, simd, lanes)
    dtype = memory.type.dtype
    notes = frame.notes(memory, op.mem.name)
    align = bytes_of(dtype)
    pad = constant(register_type(dtype), _number(op.pad or 0, dtype))

    def one(point: dict[str, int]) -> LlvmValue:
        mask = _mask(frame, indexing, point, op.where, op.pad is not None)
        address = indexing.at(point)
        scalar = not address.pointer.type.lanes and (address.step is None or address.step.number == 0)
        if scalar and not (mask is not None and mask.type.lanes):
            if mask is None or op.where is not None or op.pad is not None or not memory.type.readonly:
                return load_where(w, address.pointer, mask, dtype, pad, notes)
            return load_checked(w, indexing, point, mask, dtype, notes)
        held = memory_type(dtype, lanes)
        other = to_memory(w, w.splat(pad, lanes), dtype)
        if address.step is not None and address.step.number == 1:
            if id(op) in frame.fetched:
                fetch_ahead(w, address.pointer, frame.fetched[id(op)])
            if mask is None or (not mask.type.lanes and not is_guarded(frame, indexing.index)):
                return load_where(w, address.pointer, mask, dtype, w.splat(pad, lanes), notes)
            kind = f"llvm.masked.load.{held.suffix}.p0"
            text = f"call {held} @{kind}(ptr align {align} {address.pointer.text}, {w.splat(mask, lanes)}, {other}){notes}"
        elif mask is None and address.step is not None and 1 < (step := int(address.step.number or 0)) <= MOST_APART:
            return from_memory(w, load_apart(w, held, address.pointer, indexing.element, step, align, notes), dtype)
        else:
            if scalar:
                address = Address(w.splat(address.pointer, lanes), None)
            pointers = indexing.scattered(address)
            every = w.splat(mask if mask is not None else w.true(), lanes)
            return from_memory(w, frame.kernel.masked.gather(w, pointers, every, other, align, notes), dtype)
        return from_memory(w, w.value(held, text), dtype)

    plain = op.where is None and op.pad is None and not is_guarded(frame, indexing.index)
    if plain and (across := grouped_axis(w, indexing, axes)) is not None:
        groups = load_groups(w, indexing, axes, across, notes)
        frame.define(op, Bundle(dtype, axes, simd, lanes, tuple(groups[tuple(p.values())] for p in points(axes))))
        return
    axis = turned_axis(indexing, axes) if plain else None
    if axis is None:
        frame.define(op, build(w, type, one))
        return
    turned = load_turned(w, indexing, axes, axis, notes, lambda value: from_memory(w, value, dtype))
    frame.define(op, Bundle(dtype, axes, simd, lanes, tuple(turned[tuple(p.values())] for p in points(axes))))


def load_checked(
    w: FunctionWriter, indexing: Indexing, point: dict[str, int], passed: LlvmValue, dtype: str, notes: str
) -> LlvmValue:
    """The element at an index where checks have passed, else some other one of that memory, or a zero where it has none: no branch stands
    in the way of vectors. Nobody sees what is loaded behind a failed check."""
    frame, mem = indexing.frame, indexing.memory.type
    offset, holds_some = constant(I64, 0), w.true()
    for number, (dim, stride) in enumerate(zip(mem.dims, indexing.strides, strict=True)):
        offset = w.add(offset, w.mul(indexing.form_at(number, point), stride))
        if dim.value is None or dim.value < 1:
            holds_some = w.binary("and", holds_some, w.compare("sgt", frame.affine(dim), constant(I64, 0)))
    w.module.helper("zero", lambda name: w.module.globals.append(f"@{name} = private unnamed_addr constant i64 0, align 8"))
    first = w.select(holds_some, indexing.memory.pointer, LlvmValue(PTR, "@zero"))
    pointer = w.offset(first, w.select(passed, offset, constant(I64, 0)), indexing.element)
    return from_memory(w, w.load(memory_type(dtype), pointer, bytes_of(dtype), notes), dtype)


MOST_APART = 4
"""Elements between neighbours of a vector up to which all that lies around it is loaded."""


def load_apart(w: FunctionWriter, type: LlvmType, pointer: LlvmValue, element: LlvmType, step: int, align: int, notes: str) -> LlvmValue:
    """A vector of elements `step` apart: vectors of all elements between its first and its last, of which it is put together."""
    lanes = type.lanes
    reach = (lanes - 1) * step + 1
    starts = [*range(0, reach - lanes, lanes), reach - lanes]
    result: LlvmValue | None = None
    for number, start in enumerate(starts):
        part = w.load(type, w.offset(pointer, constant(I64, start), element), align, notes)
        following = starts[number + 1] if number + 1 < len(starts) else reach
        own = {lane: lane * step - start for lane in range(lanes) if start <= lane * step < following}
        if result is None:
            result = w.shuffle(part, part, [own.get(lane, 0) for lane in range(lanes)])
        else:
            result = w.shuffle(result, part, [lanes + own[lane] if lane in own else lane for lane in range(lanes)])
    assert result is not None
    return result


def _number(value: float | int | bool, dtype: str) -> float | int:
    return int(value) if register_type(dtype).element.startswith("i") else float(value)


def store(frame: CpuFrame, op: Store) -> None:
    w = frame.w
    memory = frame.memories[op.mem.name]
    type = op.value.type
    assert isinstance(type, Tile)
    bundle = frame.values[op.value.name]
    axes, simd, lanes = bundle.axes, bundle.simd, bundle.lanes
    for axis, extent in _index_axes(frame, op.index):
        # an axis of the index that the value lacks: the value is the same along it
        if axis not in bundle.names and axis != simd:
            if axis.startswith("simd"):
                simd, lanes = axis, extent
            else:
                axes = (*axes, (axis, extent))
    indexing = Indexing(frame, memory, op.index, simd, lanes)
    dtype = memory.type.dtype
    notes = frame.notes(memory, op.mem.name)
    align = bytes_of(dtype)
    whole = (align, notes)
    if frame.streams and fills_lines(frame, op, frame.definitions):
        whole = (min(LINE, max(lanes, 1) * align), f"{notes}, !nontemporal {w.module.node(['i32 1'])}")

    if op.where is None and not is_guarded(frame, indexing.index):
        for across, together in (turned_axis(indexing, axes), store_turned), (interleaved_axis(indexing, axes), store_interleaved):
            if across is not None:
                together(w, indexing, axes, across, whole, lambda point: to_memory(w, w.splat(bundle.at(point), lanes), dtype))
                return
    for point in points(_in_memory_order(indexing, axes)):
        mask = _mask(frame, indexing, point, op.where, False)
        value = to_memory(w, w.splat(bundle.at(point), lanes), dtype)
        address = indexing.at(point)
        beside = lanes > 0 and address.step is not None and address.step.number == 1
        if mask is None and beside and id(op) in frame.fetched:
            fetch_ahead(w, address.pointer, frame.fetched[id(op)], to_write=True)
        if mask is None and (not lanes or beside):
            w.store(value, address.pointer, *(whole if beside else (align, notes)))
        elif mask is not None and not mask.type.lanes and (not lanes or beside):
            with w.when(mask):
                w.store(value, address.pointer, align, notes)
        elif beside:
            assert mask is not None
            frame.kernel.masked.store(w, value, address.pointer, mask, align, notes)
        else:
            pointers = indexing.scattered(address)
            every = w.splat(mask if mask is not None else w.true(), lanes)
            frame.kernel.masked.scatter(w, value, pointers, every, align, notes)


def _in_memory_order(indexing: Indexing, axes: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The axes with that last along which vectors lie one behind the other: so that lines of the cache are filled one by one."""

    def follows(axis: tuple[str, int]) -> bool:
        step = indexing.steps.get(axis[0])
        return step is not None and step.number == max(1, indexing.lanes)

    return sorted(axes, key=follows)


def _index_axes(frame: CpuFrame, index: Sequence[Affine]) -> list[tuple[str, int]]:
    """Axes that an index names directly, with their extents."""
    axes: list[tuple[str, int]] = []
    for form in index:
        for name in form.names:
            if frame.is_axis(name) and name not in dict(axes):
                extent = frame.kernel.function.axes[name].value
                if extent is None:
                    raise unsupported(f"an axis `{name}` without a fixed extent", "schedule the function first")
                axes.append((name, extent))
    return axes


STACK_LIMIT = 16384
"""Bytes of a local memory that may lie on the stack."""
LARGE = 1 << 22
"""Bytes of one from which huge pages are asked for: processors keep the addresses of few small ones."""
PAGE, HUGE_PAGES = 4096, 14
"""Bytes of a page, and Linux's advice to use huge ones."""


def alloc(frame: CpuFrame, op: Alloc) -> None:
    """Scratch memory: on the stack when small and of fixed size, else one heap block a function, freed where it ends."""
    w, mem = frame.w, op.type
    size = constant(I64, bytes_of(mem.dtype))
    extent: LlvmValue = constant(I64, 1)
    for position, dim in enumerate(mem.dims):
        if mem.strides is not None:
            reach = w.mul(w.sub(frame.affine(dim), constant(I64, 1)), frame.affine(mem.strides[position]))
            extent = w.add(extent, reach)
        else:
            extent = w.mul(extent, frame.affine(dim))
    size = w.mul(size, extent)
    if size.number is not None and size.number <= STACK_LIMIT:
        pointer = w.alloca(I8, max(size.number, 1), 64)
    else:
        pointer = heap_block(frame, size)
    frame.memories[op.result.name] = AddressedMemory(pointer, mem, frame.kernel.aliases.get(op.result.name, ""))


def heap_block(frame: CpuFrame, size: LlvmValue) -> LlvmValue:
    """A block of `size` bytes at a multiple of 64; made the first time that control comes here."""
    w = frame.w
    cell = w.alloca(PTR)
    w.at_entry(f"store ptr null, {cell}")
    frame.heap.append(cell)
    w.module.declare("malloc", "ptr (i64)")
    fresh = w.compare("eq", w.load(PTR, cell), LlvmValue(PTR, "null"))
    with w.when(fresh):
        got = w.call("malloc", PTR, w.add(size, constant(I64, 64)))
        failed, good = w.label("failed"), w.label("good")
        w.branch_if(w.compare("eq", got, LlvmValue(PTR, "null")), failed, good)
        w.start(failed)
        w.store(constant(I32, 2), frame.flag)
        w.branch(frame.finish)
        w.start(good)
        w.store(got, cell)
        if w.module.huge_pages:
            w.module.declare("madvise", "i32 (ptr, i64, i32)")
            with w.when(w.compare("uge", size, constant(I64, LARGE))):
                page = w.value(PTR, f"call ptr @llvm.ptrmask.p0.i64({w.offset(got, constant(I64, PAGE - 1), I8)}, i64 -{PAGE})")
                w.call("madvise", I32, page, w.sub(size, constant(I64, PAGE)), constant(I32, HUGE_PAGES))
    above = w.offset(w.load(PTR, cell), constant(I64, 63), I8)
    return w.value(PTR, f"call ptr @llvm.ptrmask.p0.i64({above}, i64 -64)")


