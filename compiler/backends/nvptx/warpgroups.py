"""Products of a warpgroup (sm_90a), as assembly: accumulators in registers, operands in shared memory under descriptors, or `a` in
registers. The accumulator is a tile, whose axes say which register is which (`register_points`)."""

from compiler.backends.llvm.bundle import Bundle, unsupported
from compiler.backends.llvm.indexing import strides_of
from compiler.backends.llvm.types import I32, I64, LlvmType
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.backends.nvptx.access import element_address
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.affine import Affine
from compiler.hir.hopper import (
    WARPGROUP_KINDS,
    SetMaxRegisters,
    WarpgroupCommit,
    WarpgroupFence,
    WarpgroupMma,
    WarpgroupWait,
    kind_of,
    register_points,
)
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Mem, bytes_of
from compiler.machines.gpu import Feature
from compiler.machines.units.unit import Issue

_SWIZZLES = {"128B": (128, 1), "64B": (64, 2), "32B": (32, 3)}
"""Bytes of a row, and the descriptor's code."""


def _require(frame: NvptxFrame) -> None:
    if frame.target.machine.unit(Issue.WARPGROUP) is None:
        raise frame.lacks("products of warpgroups", "they are for sm_90a; `mma` is for all targets")


# ---- registers of an accumulator -------------------------------------------------------------------------------------------


def _points(bundle: Bundle) -> list[dict[str, int]]:
    points = register_points(bundle.axes)
    if points is None:
        raise unsupported("an accumulator of these axes", "name them as in `tile<j2:32, i1:2, j0:2, f32>`", "NVPTX")
    return points


def _registers(bundle: Bundle) -> list[LlvmValue]:
    return [bundle.at(point) for point in _points(bundle)]


def _as_bundle(like: Bundle, registers: list[LlvmValue]) -> Bundle:
    """A bundle of `like`'s axes from registers in the hardware's order."""
    places: dict[tuple[int, ...], LlvmValue] = {}
    for point, value in zip(_points(like), registers, strict=True):
        places[tuple(point[name] for name in like.names)] = value
    return Bundle(like.dtype, like.axes, None, 0, tuple(places[key] for key in sorted(places)))


# ---- descriptors -----------------------------------------------------------------------------------------------------------


def _descriptor(frame: NvptxFrame, mem: Value, index: tuple[Affine, ...], transposed: bool) -> LlvmValue:
    """Where a matrix lies in shared memory, and how: rows of 32, 64 or 128 bytes, swizzled, eight rows after eight. Transposed
    (contiguous along rows or columns rather than the depth), it is made of boxes that wide, one behind the other."""
    w, type = frame.w, frame.memories[mem.name].type
    if type.swizzle not in _SWIZZLES:
        raise unsupported(f"a warpgroup's operand in {type}", f"its memory is swizzled: {', '.join(_SWIZZLES)}", "NVPTX")
    row_bytes, code = _SWIZZLES[type.swizzle]
    lead = 1
    if transposed:
        strides = strides_of(frame, type)
        rows = type.dims[-2].value
        apart = strides[-3].number if len(strides) > 2 else None
        lead = apart * bytes_of(type.dtype) if apart is not None else (rows or 0) * row_bytes
    high = (lead >> 4 & 0x3FFF) << 16 | (8 * row_bytes >> 4) << 32 | code << 62
    if any(form.divisor % (16 // bytes_of(type.dtype)) for form in index[-1:]):
        address, known = element_address(frame, mem, index, raw=True), constant(I64, 0)
    else:
        fixed = tuple(Affine.of(form.constant) for form in index)
        address = element_address(frame, mem, [form - form.constant for form in index], raw=True)
        known = _steps(frame, type, fixed)
    number = w.value(I64, f"ptrtoint {address} to i64")
    start = w.binary("and", w.binary("lshr", number, constant(I64, 4)), constant(I64, 0x3FFF))
    descriptor = w.binary("or", start, constant(I64, high))
    if known.number != 0:
        # as assembly, or LLVM would take each of these sums out of loops, and registers with them
        descriptor = w.add(w.assembly("mov.b64 $0, $1;", [I64], "l", [descriptor], pure=True)[0], known)
    return descriptor


def _steps(frame: NvptxFrame, type: Mem, index: tuple[Affine, ...]) -> LlvmValue:
    """How many times 16 bytes elements at a constant place lie behind the memory's begin."""
    total = constant(I64, 0)
    for form, stride in zip(index, strides_of(frame, type), strict=True):
        total = frame.w.add(total, frame.w.mul(constant(I64, form.constant), stride))
    assert total.number is not None
    return constant(I64, total.number * bytes_of(type.dtype) // 16)


# ---- the product -----------------------------------------------------------------------------------------------------------


def mma(frame: NvptxFrame, op: WarpgroupMma) -> None:
    _require(frame)
    w = frame.w
    dtype = mem_of(op.b).dtype
    left = mem_of(op.a).dtype if isinstance(op.a.type, Mem) else dtype
    rows, columns, depth = op.shape
    held = frame.values[op.accumulator.name]
    kind = kind_of(left, dtype)
    if kind is None or (kind.depth, kind.sums) != (depth, held.dtype):
        of = dtype if left == dtype else f"{left} and {dtype}"
        message = f"warpgroup product {rows}x{columns}x{depth} of {of} summed in {held.dtype}"
        known = ", ".join(WARPGROUP_KINDS)
        raise frame.lacks(
            message, f"operands are {known}" if kind is None else f"of {of} the depth is {kind.depth}, summed in {kind.sums}"
        )
    sums = {"i32": "s32", "f32": "f32"}[kind.sums]
    if depth != 16 and (op.transpose_a or op.transpose_b):
        raise frame.lacks(f"transposed warpgroup operand of {dtype}", "only 16-bit operands can lie across")
    accumulators = _registers(held)
    count = len(accumulators)
    if count != columns // 2:
        raise frame.lacks(f"accumulator of {count} registers for {columns} columns", f"a thread holds {columns // 2}")
    result = accumulators[0].type
    inputs, a_text, a_kinds = _operand_a(frame, op, 2 * count)
    position = 2 * count + len(inputs)
    transposes = f", {int(op.transpose_b)}" if len(inputs) > 1 else f", {int(op.transpose_a)}, {int(op.transpose_b)}"
    signs = "" if sums == "s32" else f", {-1 if op.negated else 1}, 1" + (transposes if depth == 16 else "")
    registers = ", ".join(f"${n}" for n in range(count))
    name = f"wgmma.mma_async.sync.aligned.m{rows}n{columns}k{depth}.{sums}.{WARPGROUP_KINDS[left].word}.{kind.word}"
    product = f"{name} {{{registers}}}, {a_text}, ${position}, p{signs};"
    text = f"{{ .reg .pred p; setp.ne.b32 p, ${position + 1}, 0; {product} }}"
    keep = frame.values[op.keep.name].scalar
    scale = constant(I32, keep.number) if keep.number is not None else w.convert("zext", keep, "i32")
    arguments = [*accumulators, *inputs, _descriptor(frame, op.b, op.b_index, op.transpose_b), scale]
    frame.define(op, _as_bundle(held, _tied(frame, text, result, count, [*a_kinds, "l", "r"], arguments)))


def _operand_a(frame: NvptxFrame, op: WarpgroupMma, first: int) -> tuple[list[LlvmValue], str, list[str]]:
    """The operand's values, its text, and their constraints; operand numbers start at `first`."""
    if isinstance(op.a.type, Mem):
        return [_descriptor(frame, op.a, op.a_index, op.transpose_a)], f"${first}", ["l"]
    bundle = frame.values[op.a.name]
    before = 2 * sum(form.value or 0 for form in op.a_index)
    items = bundle.items[before : before + 4]
    if bundle.dtype not in ("u32", "i32") or len(items) != 4 or op.transpose_a:
        raise unsupported("a warpgroup's operand in registers of this type", "give four u32, packed", "NVPTX")
    return list(items), "{" + ", ".join(f"${first + n}" for n in range(4)) + "}", ["r"] * 4


def _tied(frame: NvptxFrame, text: str, type: LlvmType, count: int, kinds: list[str], arguments: list[LlvmValue]) -> list[LlvmValue]:
    """Assembly whose first arguments are also its results, in the same registers."""
    constraints = ",".join([*[str(n) for n in range(count)], *kinds])
    return frame.w.assembly(text, [type] * count, constraints, arguments)


def fence(frame: NvptxFrame, op: WarpgroupFence) -> None:
    _require(frame)
    frame.w.call_void("llvm.nvvm.wgmma.fence.sync.aligned")


def commit(frame: NvptxFrame, op: WarpgroupCommit) -> None:
    _require(frame)
    frame.w.call_void("llvm.nvvm.wgmma.commit_group.sync.aligned")


def wait(frame: NvptxFrame, op: WarpgroupWait) -> None:
    """Tied to the accumulators, so that nothing that reads them moves above it."""
    _require(frame)
    bundles = [frame.values[value.name] for value in op.values]
    registers = [register for bundle in bundles for register in bundle.items]
    text = f"wgmma.wait_group.sync.aligned {op.count};"
    if not registers:
        frame.w.assembly(text, [], "", [])
        return
    constraints = ",".join(map(str, range(len(registers))))
    types = [register.type for register in registers]
    results = frame.w.assembly(text, types, constraints, registers)
    finished = []
    for bundle in bundles:
        finished.append(Bundle(bundle.dtype, bundle.axes, None, 0, tuple(results[: len(bundle.items)])))
        results = results[len(bundle.items) :]
    frame.define(op, *finished)


def set_registers(frame: NvptxFrame, op: SetMaxRegisters) -> None:
    if not frame.has(Feature.REGISTER_TRANSFER):
        raise frame.lacks("registers handed from role to role", "they are for sm_90a and sm_100a")
    frame.w.assembly(f"setmaxnreg.{op.direction}.sync.aligned.u32 {op.registers};", [], "", [])
