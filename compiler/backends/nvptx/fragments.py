"""Products of the tensor cores on fragments: `wmma` for the shapes that it has, and 8x8x8 as the upper half of `mma.m16n8k8` with
zeros below. Also the matrix moves between shared memory and registers that `mma.sync` is fed by.

`wmma` wants the address of a matrix at a multiple of 32 bytes and its rows (columns) a multiple of 16 bytes apart."""

from compiler.backends.llvm.arithmetic import to_memory
from compiler.backends.llvm.bundle import scalar_bundle, unsupported
from compiler.backends.llvm.indexing import strides_of
from compiler.backends.llvm.masked import load_where
from compiler.backends.llvm.types import F32, I32, I64, LlvmType, memory_type, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.access import element_address, mask_of, together
from compiler.backends.nvptx.faults import special
from compiler.backends.nvptx.fragment_shapes import PADDED, PRODUCTS, shape_of
from compiler.backends.nvptx.frame import NvptxFrame, fragment_bundle, memory_kind
from compiler.hir.affine import Affine
from compiler.hir.core import Const
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.tensor_core import LoadMatrix, Mma, MmaLoad, MmaStore, StoreMatrix
from compiler.hir.types import Fragment, FragmentRole, bytes_of
from compiler.machines.gpu import Feature
from compiler.machines.units import wmma
from compiler.machines.units.unit import Shape

_WORDS = {"f32": "f32", "f16": "f16", "i32": "s32", "f64": "f64"}


def _name(shape: Shape) -> str:
    return "m{}n{}k{}".format(*shape)


def fill(frame: NvptxFrame, op: Const) -> None:
    """A fragment of one number everywhere."""
    assert isinstance(op.type, Fragment)
    w = frame.w
    register, count = frame.registers_of(op.type)
    number = constant(register_type(op.type.dtype), float(op.value) if register_type(op.type.dtype).is_float else int(op.value))
    held = to_memory(w, number, op.type.dtype)
    if register == I32 and held.type != I32:
        held = _repeated(w, held)
    frame.define(op, fragment_bundle(op.type, [held] * count))


def _repeated(w: FunctionWriter, value: LlvmValue) -> LlvmValue:
    """A number of 8 or 16 bits (or an f32's bits) as often as a word holds it."""
    if value.type.is_float:
        return w.convert("bitcast", value, "i32")
    times = sum(1 << shift for shift in range(0, 32, value.type.bits))
    return w.binary("mul", w.convert("zext", value, "i32"), constant(I32, times))


# ---- loads and stores ----------------------------------------------------------------------------------------------------


def _stride(frame: NvptxFrame, mem: Value) -> LlvmValue:
    """Elements from one row (column) of a matrix to the next."""
    strides = strides_of(frame, frame.memories[mem.name].type)
    if strides[-1].number != 1:
        raise unsupported("a fragment of a matrix whose rows aren't contiguous", "copy it to shared memory first", "NVPTX")
    return frame.w.convert("trunc", strides[-2], "i32") if strides[-2].number is None else constant(I32, strides[-2].number)


def mma_load(frame: NvptxFrame, op: MmaLoad) -> None:
    fragment, w = op.type, frame.w
    assert isinstance(fragment, Fragment)
    register, count = frame.registers_of(fragment)
    if shape_of(fragment) == PADDED:
        frame.define(op, fragment_bundle(fragment, _load_small(frame, op, fragment)))
        return
    role = {FragmentRole.A: "a", FragmentRole.B: "b", FragmentRole.ACCUMULATOR: "c"}[fragment.role]
    word = _WORDS[fragment.dtype] if role == "c" else PRODUCTS[fragment.dtype, shape_of(fragment)].word
    name = f"wmma.load.{role}.sync.aligned.{op.layout}.{_name(shape_of(fragment))}.{memory_kind(mem_of(op.mem))}.{word}"
    stride = _stride(frame, op.mem)

    def make() -> list[LlvmValue]:
        outputs = ", ".join(f"${n}" for n in range(count))
        text = f"{name} {{{outputs}}}, [${count}], ${count + 1};"
        return w.assembly(text, [register] * count, "l,r", [element_address(frame, op.mem, op.index), stride])

    held = together(frame, op.index, make)
    if word == "tf32":
        held = [w.assembly("cvt.rna.tf32.f32 $0, $1;", [I32], "r", [value], pure=True)[0] for value in held]
    frame.define(op, fragment_bundle(fragment, held))


def mma_store(frame: NvptxFrame, op: MmaStore) -> None:
    w = frame.w
    fragment = op.fragment.type
    assert isinstance(fragment, Fragment)
    held = list(frame.values[op.fragment.name].items)
    if shape_of(fragment) == PADDED:
        _store_small(frame, op, fragment, held)
        return
    name = f"wmma.store.d.sync.aligned.{op.layout}.{_name(shape_of(fragment))}.{memory_kind(mem_of(op.mem))}.{_WORDS[fragment.dtype]}"
    stride = _stride(frame, op.mem)
    count = len(held)

    def make() -> list[LlvmValue]:
        inputs = ", ".join(f"${n + 1}" for n in range(count))
        kind = {"i32": "r", "float": "f", "double": "d"}[held[0].type.element]
        constraints = ",".join(["l", *[kind] * count, "r"])
        arguments = [element_address(frame, op.mem, op.index), *held, stride]
        return w.assembly(f"{name} [$0], {{{inputs}}}, ${count + 1};", [], constraints, arguments)

    together(frame, op.index, make)


def mma(frame: NvptxFrame, op: Mma) -> None:
    w = frame.w
    a, c = op.a.type, op.c.type
    assert isinstance(a, Fragment) and isinstance(c, Fragment)
    if c.dtype not in wmma.SUMS[a.dtype]:
        raise frame.lacks(f"product of {a.dtype} summed in {c.dtype}", f"sums are in {' or '.join(wmma.SUMS[a.dtype])}")
    shape, word = shape_of(a), PRODUCTS[a.dtype, shape_of(a)].word
    of = [list(frame.values[value.name].items) for value in (op.a, op.b, op.c)]
    left, right = op.layout.split(".") if "." in op.layout else (op.layout, op.layout)
    if shape == PADDED:
        zero = constant(F32, 0.0)
        held = [[of[0][0], constant(I32, 0)], of[1], [*of[2], zero, zero]]
        name = f"mma.sync.aligned.m16n8k8.row.col.f32.{word}.{word}.f32"
        results = _multiply(w, name, [F32] * 4, held)[:2]
    else:
        sums = _WORDS[c.dtype]
        types = f"{sums}.{sums}" if word == "f16" else f"{sums}.{word}.{word}.{sums}"
        register, count = frame.registers_of(c)
        results = _multiply(w, f"wmma.mma.sync.aligned.{left}.{right}.{_name(shape)}.{types}", [register] * count, of)
    frame.define(op, fragment_bundle(c, results))


def _multiply(w: FunctionWriter, name: str, results: list[LlvmType], held: list[list[LlvmValue]]) -> list[LlvmValue]:
    number = len(results)
    groups = ["{" + ", ".join(f"${n}" for n in range(number)) + "}"]
    for registers in held:
        groups.append("{" + ", ".join(f"${number + n}" for n in range(len(registers))) + "}")
        number += len(registers)
    every = [register for registers in held for register in registers]
    kinds = ",".join({"i32": "r", "float": "f", "double": "d"}[register.type.element] for register in every)
    return w.assembly(f"{name} {', '.join(groups)};", results, kinds, every, pure=True)


# ---- 8x8x8 ---------------------------------------------------------------------------------------------------------------


def _places(frame: NvptxFrame, fragment: Fragment, layout: str) -> list[tuple[LlvmValue, LlvmValue]]:
    """Where the two elements of a lane lie, behind the matrix's first: along the memory's last dims."""
    w = frame.w
    lane = special(w, "laneid")
    group = w.binary("lshr", lane, constant(I64, 2))
    pair = w.binary("shl", w.binary("and", lane, constant(I64, 3)), constant(I64, 1))
    # of b, the pair runs down the rows; of a and of the sums, along a row
    down = (fragment.role is FragmentRole.B) != (layout == "col")
    positions = []
    for e in range(2):
        along = w.add(pair, constant(I64, e))
        positions.append((along, group) if down else (group, along))
    return positions


def _address(frame: NvptxFrame, mem: Value, index: tuple[Affine, ...], position: tuple[LlvmValue, LlvmValue]) -> LlvmValue:
    w = frame.w
    first = element_address(frame, mem, index)
    strides = strides_of(frame, frame.memories[mem.name].type)
    offset = w.add(w.mul(position[0], strides[-2]), w.mul(position[1], strides[-1]))
    return w.offset(first, offset, memory_type(mem_of(mem).dtype))


def _load_small(frame: NvptxFrame, op: MmaLoad, fragment: Fragment) -> list[LlvmValue]:
    w, dtype = frame.w, fragment.dtype
    mask = mask_of(frame, op.index, {})
    zero = constant(register_type(dtype), 0.0)
    elements = []
    for position in _places(frame, fragment, op.layout):
        elements.append(load_where(w, _address(frame, op.mem, op.index, position), mask, dtype, zero))
    if fragment.role is FragmentRole.ACCUMULATOR:
        return elements
    low, high = (w.convert("zext", to_memory(w, element, dtype), "i32") for element in elements)
    return [w.binary("or", low, w.binary("shl", high, constant(I32, 16)))]


def _store_small(frame: NvptxFrame, op: MmaStore, fragment: Fragment, held: list[LlvmValue]) -> None:
    w, dtype = frame.w, fragment.dtype
    mask = mask_of(frame, op.index, {})
    for value, position in zip(held, _places(frame, fragment, op.layout), strict=True):
        address = _address(frame, op.mem, op.index, position)
        if mask is None:
            w.store(to_memory(w, value, dtype), address, bytes_of(dtype))
        else:
            with w.when(mask):
                w.store(to_memory(w, value, dtype), address, bytes_of(dtype))


# ---- ldmatrix and stmatrix -------------------------------------------------------------------------------------------------


def load_matrix(frame: NvptxFrame, op: LoadMatrix) -> None:
    w, count = frame.w, op.count
    outputs = ", ".join(f"${n}" for n in range(count))
    trans = ".trans" if op.transpose else ""
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{outputs}}}, [${count}];"
    make = lambda: w.assembly(text, [I32] * count, "l", [element_address(frame, op.mem, op.index)])  # noqa: E731
    frame.define(op, *[scalar_bundle("u32", value) for value in together(frame, op.index, make)])


def store_matrix(frame: NvptxFrame, op: StoreMatrix) -> None:
    frame.require_feature(Feature.STORE_MATRIX, "stmatrix")
    w, count = frame.w, len(op.values)
    inputs = ", ".join(f"${n + 1}" for n in range(count))
    trans = ".trans" if op.transpose else ""
    text = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [$0], {{{inputs}}};"
    values = [frame.values[value.name].scalar for value in op.values]
    constraints = ",".join(["l", *["r"] * count])
    together(frame, op.index, lambda: w.assembly(text, [], constraints, [element_address(frame, op.mem, op.index), *values]))
