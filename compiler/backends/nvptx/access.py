"""Memory on a GPU: addresses from affine indices, loads and stores, shared memory, tables of constants, scratch memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from compiler.backends.llvm.arithmetic import from_memory, to_memory
from compiler.backends.llvm.bundle import Bundle, is_simd, points, static_axes, unsupported
from compiler.backends.llvm.checks import all_hold
from compiler.backends.llvm.frame import AddressedMemory
from compiler.backends.llvm.indexing import strides_of
from compiler.backends.llvm.masked import guards_of, load_where
from compiler.backends.llvm.types import I8, I32, I64, constant_text, memory_type, pointer, register_type, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant, poison
from compiler.backends.nvptx.frame import ALL_LANES, NvptxFrame
from compiler.backends.nvptx.runs import Wanted, bytes_between, in_lanes, lanes_wanted, read_words, shifted_words
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.gpu import ClusterStore
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, GlobalRef, Load, Store
from compiler.hir.types import Mem, Space, Tile, bytes_of
from compiler.machines.access import WORD
from compiler.machines.gpu import Feature

SWIZZLES = {"128B": 7, "64B": 3, "32B": 1}
"""Which bits of the row number (128-byte lines) are XORed into the number of a 16-byte chunk."""
RUNS = (4, 8, 16)
"""Bytes of vectors that a thread reads at any address."""
CONSTANT_SPACE = 4
CLUSTER_SPACE = 7
CONSTANT_BYTES = 65536
LOCAL_BYTES = 512 * 1024

Point = dict[str, int]


# ---- addresses -----------------------------------------------------------------------------------------------------------


def element_offset(frame: NvptxFrame, mem: Mem, index: Sequence[Affine], point: Point | None = None) -> LlvmValue:
    """How many elements into the memory an index is."""
    w = frame.w
    total = constant(I64, 0)
    for form, stride in zip(index, strides_of(frame, mem), strict=True):
        total = w.add(total, w.mul(frame.affine(form, point or {}), stride))
    return total


def element_address(frame: NvptxFrame, mem: Value, index: Sequence[Affine], point: Point | None = None, raw: bool = False) -> LlvmValue:
    """Where an element is; `raw`: where it would be without the swizzle, as hardware that swizzles itself wants it."""
    w, memory = frame.w, frame.memories[mem.name]
    element = memory_type(memory.type.dtype)
    offset = element_offset(frame, memory.type, index, point)
    if memory.type.swizzle is None or raw:
        return w.offset(memory.pointer, offset, element)
    if memory.type.swizzle not in SWIZZLES:
        raise unsupported(f"the swizzle `{memory.type.swizzle}`", f"swizzles are {', '.join(SWIZZLES)}", "NVPTX")
    position = w.mul(offset, constant(I64, element.bytes))
    row = w.binary("and", w.binary("lshr", position, constant(I64, 7)), constant(I64, SWIZZLES[memory.type.swizzle]))
    return w.offset(memory.pointer, w.binary("xor", position, w.binary("shl", row, constant(I64, 4))), I8)


def _inside(frame: NvptxFrame, mem: Mem, index: Sequence[Affine], point: Point) -> LlvmValue | None:
    w = frame.w
    all_inside: LlvmValue | None = None
    for form, dim in zip(index, mem.dims, strict=True):
        position, extent = frame.affine(form, point), frame.affine(dim)
        if position.number is not None and extent.number is not None and 0 <= position.number < extent.number:
            continue
        all_inside = w.both(all_inside, w.compare("ult", position, extent))
    return all_inside


# ---- masks ---------------------------------------------------------------------------------------------------------------


def value_at(frame: NvptxFrame, bundle: Bundle, point: Point) -> LlvmValue:
    """A value at a point that names all its axes, lanes too."""
    item = bundle.at(point)
    return frame.w.extract(item, point[bundle.simd]) if bundle.simd is not None and item.type.lanes else item


def _condition(frame: NvptxFrame, bundle: Bundle, point: Point) -> LlvmValue:
    names = (*bundle.names, *((bundle.simd,) if bundle.simd else ()))
    return value_at(frame, bundle, point) if all(name in point for name in names) else all_hold(frame, bundle)


def mask_of(frame: NvptxFrame, index: Sequence[Affine], point: Point, where: Value | None = None) -> LlvmValue | None:
    """When an access may happen: `where`, and what passed checks say. None: always."""
    mask = _condition(frame, frame.values[where.name], point) if where is not None else None
    for guard in guards_of(frame, index):
        mask = frame.w.both(mask, _condition(frame, frame.values[guard.condition], point))
    return mask


@contextmanager
def where_allowed(frame: NvptxFrame, *indices: Sequence[Affine]) -> Iterator[None]:
    """What a thread does only if its checks have passed."""
    mask: LlvmValue | None = None
    for index in indices:
        mask = frame.w.both(mask, mask_of(frame, index, {}))
    if mask is None:
        yield
        return
    with frame.w.when(mask):
        yield


def together(frame: NvptxFrame, index: Sequence[Affine], make: Callable[[], list[LlvmValue]]) -> list[LlvmValue]:
    """What a warp does together, if the checks of all its lanes have passed; zeros else."""
    w = frame.w
    mask = mask_of(frame, index, {})
    if mask is None:
        return make()
    everyone = w.call("llvm.nvvm.vote.all.sync", mask.type, ALL_LANES, mask)
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(everyone, inside, after)
    w.start(inside)
    values = make()
    end = w.block
    w.start(after)
    return [w.phi(value.type, [(value, end), (constant(value.type, 0), before)]) for value in values]


# ---- loads and stores ----------------------------------------------------------------------------------------------------


def _vector_align(mem: Mem, index: Sequence[Affine], simd: str, lanes: int, point: Point) -> int | None:
    """Bytes that the address of a whole vector is a multiple of; None when its lanes don't lie side by side."""
    if not steps_by_one(mem, index, simd):
        return None
    size = bytes_of(mem.dtype) * lanes
    known = min(alignment(mem, [form.substitute({**point, simd: 0}) for form in index]), 16, size)
    return known if mem.swizzle is None or known == size else None


def _together(frame: NvptxFrame, index: Sequence[Affine], where: Value | None, simd: str) -> bool:
    """Whether an access is allowed in all lanes or in none."""
    conditions = [guard.condition for guard in guards_of(frame, index)] + ([where.name] if where is not None else [])
    return all(frame.values[name].simd != simd for name in conditions)


def load(frame: NvptxFrame, op: Load) -> None:
    w, mem = frame.w, frame.memories[op.mem.name].type
    type = op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, "NVPTX")
    register = register_type(mem.dtype)
    pad = constant(register, float(op.pad or 0) if register.is_float else int(op.pad or 0))

    predicated = mem.readonly and mem.space is Space.GLOBAL and not op.pad and not frame.kernel.multiplies_matrices

    def one(point: Point) -> LlvmValue:
        mask = mask_of(frame, op.index, point, op.where)
        if op.pad is not None:
            mask = w.both(mask, _inside(frame, mem, op.index, point))
        if mask is not None and predicated:
            return _predicated(w, element_address(frame, op.mem, op.index, point), mask, mem.dtype)
        return load_where(w, element_address(frame, op.mem, op.index, point), mask, mem.dtype, pad)

    items = []
    for point in points(axes):
        if simd is None:
            items.append(one(point))
            continue
        first = {**point, simd: 0}
        align = None
        if op.align is not None:
            align = op.align
        elif op.pad is None and _together(frame, op.index, op.where, simd):
            align = _vector_align(mem, op.index, simd, lanes, point)
        if align is not None and not _is_shifted(mem, lanes, align):
            address = element_address(frame, op.mem, op.index, first)
            mask = mask_of(frame, op.index, first, op.where)
            items.append(load_where(w, address, mask, mem.dtype, w.splat(pad, lanes), align=align))
            continue
        if (run := _run(frame, op, simd, lanes, point)) is not None:
            items.append(run)
            continue
        vector = poison(register.with_lanes(lanes))
        for lane in range(lanes):
            vector = w.insert(vector, one({**point, simd: lane}), lane)
        items.append(vector)
    frame.define(op, Bundle(mem.dtype, axes, simd, lanes, tuple(items)))


def _predicated(w: FunctionWriter, address: LlvmValue, mask: LlvmValue, dtype: str) -> LlvmValue:
    """The element at an address, 0 where the mask is false, without a branch: several are under way together."""
    type = memory_type(dtype)
    register = vector("i16") if type.bits == 8 else type
    load = f"ld.global.nc.{'u' if type.bits == 8 else 'b'}{type.bits}"
    text = f"{{ .reg .pred p; setp.ne.b32 p, $2, 0; mov.b{register.bits} $0, 0; @p {load} $0, [$1]; }}"
    (value,) = w.assembly(text, [register], "l,r", [address, w.convert("zext", mask, "i32")], pure=True, alone=True)
    return from_memory(w, w.convert("trunc", value, "i8") if type.bits == 8 else value, dtype)


def _is_shifted(mem: Mem, lanes: int, align: int) -> bool:
    """Whether a vector at a multiple of so many bytes is read as words that are shifted together: it may begin within one."""
    return mem.space is Space.GLOBAL and align < WORD and lanes * bytes_of(mem.dtype) in RUNS


def _run(frame: NvptxFrame, op: Load, simd: str, lanes: int, point: Point) -> LlvmValue | None:
    """Neighbours in memory, wherever they begin, in the lanes in which a condition holds; None for others, and where elements as long as
    words don't begin where a vector may: those are as well read each by itself."""
    w, mem, first = frame.w, frame.memories[op.mem.name].type, {**point, simd: 0}
    size = bytes_of(mem.dtype) * lanes
    align = _vector_align(mem, op.index, simd, lanes, point)
    if size not in RUNS or align is None or mem.space is not Space.GLOBAL or op.pad is not None:
        return None
    if not _together(frame, op.index, None, simd) or not (align == size or _is_shifted(mem, lanes, align)):
        return None
    mask = mask_of(frame, op.index, first)
    wanted: Wanted | None = None
    if op.where is not None:
        known = lanes_wanted(frame, op.where.name, simd, lanes, point)
        if known is None:
            return None
        mask, wanted = w.both(mask, known[0]), known[1]
    ends: Wanted | None = None
    if wanted is not None:
        mask = w.both(mask, w.compare("slt", *wanted))
        low, high = (w.mul(lane, constant(I32, bytes_of(mem.dtype))) for lane in wanted)
        ends = low, high
    address = element_address(frame, op.mem, op.index, first)
    words = read_words(w, address, size // WORD, mask) if align == size else shifted_words(w, address, size // WORD, mask, ends)
    by_bytes = ends is not None and bytes_of(mem.dtype) == 1
    words = bytes_between(w, words, ends) if ends is not None and by_bytes else words
    vector = from_memory(w, in_lanes(w, words, memory_type(mem.dtype, lanes)), mem.dtype)
    if op.where is None or wanted is None or by_bytes:
        return vector
    return w.select(frame.values[op.where.name].at(point), vector, constant(vector.type, 0))


def store(frame: NvptxFrame, op: Store) -> None:
    w, mem = frame.w, frame.memories[op.mem.name].type
    bundle = frame.values[op.value.name]
    axes, simd, lanes = bundle.axes, bundle.simd, bundle.lanes
    for name in dict.fromkeys(name for form in op.index for name in form.names):
        if frame.is_axis(name) and name != simd and name not in bundle.names:
            extent = frame.function.axes[name].value
            if extent is None:
                raise unsupported(f"an axis `{name}` without a fixed extent", "schedule the function first", "NVPTX")
            if is_simd(name) and simd is None:
                simd, lanes = name, extent
            else:
                axes = (*axes, (name, extent))
    # neighbours in memory one after the other: nothing that may be the same place stands between what becomes one access
    for point in points(sorted(axes, key=lambda axis: steps_by_one(mem, op.index, axis[0]))):
        align = None
        if simd is not None and _together(frame, op.index, op.where, simd):
            align = op.align or _vector_align(mem, op.index, simd, lanes, point)
        if simd is not None and align is not None:
            first = {**point, simd: 0}
            whole = to_memory(w, w.splat(bundle.at(point), lanes), mem.dtype)
            mask = mask_of(frame, op.index, first, op.where)
            with w.when(mask) if mask is not None else nullcontext():
                w.store(whole, element_address(frame, op.mem, op.index, first), align)
            continue
        for lane in range(max(1, lanes)):
            lane_point = point if simd is None else {**point, simd: lane}
            value = to_memory(w, value_at(frame, bundle, lane_point), mem.dtype)
            mask = mask_of(frame, op.index, lane_point, op.where)
            with w.when(mask) if mask is not None else nullcontext():
                w.store(value, element_address(frame, op.mem, op.index, lane_point), bytes_of(mem.dtype))


def cluster_store(frame: NvptxFrame, op: ClusterStore) -> None:
    """To where the same address is in the other block's shared memory."""
    frame.require_feature(Feature.CLUSTERS, "clusters of blocks")
    w, mem = frame.w, frame.memories[op.mem.name].type
    value = to_memory(w, frame.values[op.value.name].scalar, mem.dtype)
    mask = mask_of(frame, op.index, {}, op.where)
    with w.when(mask) if mask is not None else nullcontext():
        own = element_address(frame, op.mem, op.index)
        there = w.call("llvm.nvvm.mapa.shared.cluster", pointer(CLUSTER_SPACE), own, frame.values[op.rank.name].scalar)
        w.store(value, there, bytes_of(mem.dtype))


# ---- memories ------------------------------------------------------------------------------------------------------------


def elements_of(mem: Mem) -> int | None:
    """From the first element to behind the last, where that is constant."""
    total = 1
    for position, dim in enumerate(mem.dims):
        stride = mem.strides[position].value if mem.strides is not None else None
        if dim.value is None or (mem.strides is not None and stride is None):
            return None
        total = total * dim.value if stride is None else total + (dim.value - 1) * stride
    return total


def alloc(frame: NvptxFrame, op: Alloc) -> None:
    """Scratch memory of a thread: of constant size only."""
    count = elements_of(op.type)
    size = (count or 0) * bytes_of(op.type.dtype)
    if count is None or size > LOCAL_BYTES:
        feature = "scratch memory of a thread"
        feature = f"{feature} whose size only the launch knows" if count is None else f"{size} bytes of {feature}"
        raise unsupported(feature, f"use a constant size of at most {LOCAL_BYTES} bytes, or memory that the launch gives", "NVPTX")
    frame.memories[op.result.name] = AddressedMemory(frame.w.alloca(I8, max(size, 1), 16), op.type)


def global_ref(frame: NvptxFrame, op: GlobalRef) -> None:
    """A table of literals: constant memory, or global memory when it is larger than that."""
    table = frame.kernel.globals.get(op.name_)
    if table is None:
        raise ZyntaxError(Diagnostic("0901", f"internal fault in the NVPTX back end: no table `{op.name_}` in the module"))
    mem = op.type
    size = len(table.values) * bytes_of(mem.dtype)
    space = CONSTANT_SPACE if mem.space is Space.CONSTANT and size <= CONSTANT_BYTES else 1
    symbol = f"zyn_table_{symbol_of(op.name_)}"
    element = memory_type(mem.dtype)
    numbers = ", ".join(f"{element} {constant_text(_stored(value, mem.dtype), element)}" for value in table.values)
    text = f"@{symbol} = internal addrspace({space}) constant [{len(table.values)} x {element}] [{numbers}], align 16"
    if text not in frame.kernel.module.globals:
        frame.kernel.module.globals.append(text)
    frame.memories[op.result.name] = AddressedMemory(LlvmValue(pointer(space), f"@{symbol}"), mem)


def _stored(value: int | float, dtype: str) -> int | float:
    """A number as the memory holds it: of narrow floats, the bits."""
    if not memory_type(dtype).is_float and register_type(dtype).is_float:
        from compiler.hir.numbers import bits_of

        return int(bits_of(value, dtype))
    return value


def symbol_of(name: str) -> str:
    """A name that PTX takes."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
