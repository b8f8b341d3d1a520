"""From a HIR function to the text of an LLVM module: the dispatch over instructions, and the kernel's entry.

The entry is `i64 name(ptr slots)`: eight bytes a parameter (addresses; integers extended; floats in their own width), then
the number of threads, then the address of the fault record. It returns 0, 1 after a failed check, 2 when memory ran out."""

from compiler.backends.cpu import access, axes, control, faults, monoids, sort
from compiler.backends.cpu.bundle import Bundle, build, scalar_bundle, unsupported
from compiler.backends.cpu.frame import Frame, Kernel, Memory, Mode, alias_notes, close_frame, new_frame
from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.types import I8, I64, PTR, memory_type, register_type
from compiler.backends.llvm.writer import ModuleWriter, Value, constant
from compiler.hir.affine import Affine
from compiler.hir.control import Break, Condition, Continue, For, If, Return, While, Yield
from compiler.hir.core import (
    Binary,
    Bitcast,
    Cast,
    Combine,
    Compare,
    Concat,
    Const,
    Contract,
    Convert,
    Fma,
    InBounds,
    Index,
    IsNan,
    Reduce,
    Scan,
    Select,
    Take,
    Unary,
)
from compiler.hir.instruction import Instruction
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Check, GetSlot, Load, MakeSlot, SetSlot, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile


def emit_function(
    function: HirFunction, mode: Mode, parallel: str, attributes: tuple[str, ...], native_half: bool
) -> tuple[ModuleWriter, list[faults.CheckSite]]:
    """The module of a kernel, and in REPORT mode the checks by the numbers that its records use."""
    module = ModuleWriter(function.name, attributes, native_half)
    w = module.function(symbol_name(function), I64, [(PTR, "slots")])
    kernel = Kernel(function, module, mode, parallel, emit)
    kernel.has_checks = any(isinstance(op, Check) for top in function.body.body for op in top.walk())
    kernel.aliases = _aliases(function, module)
    slots = w.parameters[0]
    count = len(function.parameters)
    threads = w.load(I64, w.offset(slots, constant(I64, 8 * count), I8))
    record = w.load(PTR, w.offset(slots, constant(I64, 8 * count + 8), I8))
    frame = new_frame(kernel, w, threads, record)
    sizes = {str(d) for p in function.parameters if isinstance(p.type, Mem) for d in p.type.dims}
    ranged = module.metadata("!{i64 0, i64 140737488355328}")
    for number, parameter in enumerate(function.parameters):
        place = w.offset(slots, constant(I64, 8 * number), I8)
        if isinstance(parameter.type, Mem):
            align = parameter.type.align
            known = f", !align {module.node([f'i64 {align}'])}" if align else ""
            pointer = w.load(PTR, place, 8, known)
            frame.memories[parameter.name] = Memory(pointer, parameter.type, kernel.aliases.get(parameter.name, ""))
        else:
            assert isinstance(parameter.type, Tile)
            dtype = parameter.type.dtype
            notes = f", !range {ranged}" if dtype == "index" and parameter.name in sizes else ""
            held = w.load(memory_type(dtype), place, 8, notes)
            frame.values[parameter.name] = scalar_bundle(dtype, arithmetic.from_memory(w, held, dtype))
    frame.region(function.body)
    close_frame(frame)
    w.ret(w.load(I64, frame.flag))
    return module, kernel.checks


def symbol_name(function: HirFunction) -> str:
    """The entry's name in the object."""
    return function.link_name or "".join(c if c.isalnum() or c in "_." else "_" for c in function.name)


def _aliases(function: HirFunction, module: ModuleWriter) -> dict[str, str]:
    """Of the parameters that don't alias, and of all local memories."""
    names = [p.name for p in function.parameters if isinstance(p.type, Mem) and p.type.noalias]
    names += [op.result.name for top in function.body.body for op in top.walk() if isinstance(op, Alloc)]
    return alias_notes(names, module)


def emit(frame: Frame, op: Instruction) -> None:
    """One instruction."""
    match op:
        case Load():
            access.load(frame, op)
        case Store():
            access.store(frame, op)
        case For():
            control.loop(frame, op)
        case If():
            control.branch(frame, op)
        case While():
            control.repeat(frame, op)
        case Yield():
            control.give(frame, op)
        case Break() | Continue():
            control.jump(frame, op, isinstance(op, Break))
        case Return():
            control.leave_function(frame, op)
        case Condition():
            pass
        case Check():
            faults.check(frame, op)
        case MakeSlot():
            dtype = frame.values[op.initial.name].dtype
            cell = frame.w.alloca(register_type(dtype))
            frame.w.store(frame.values[op.initial.name].scalar, cell)
            frame.slots[op.result.name] = (cell, dtype)
        case GetSlot():
            cell, dtype = frame.slots[op.slot.name]
            frame.define(op, scalar_bundle(dtype, frame.w.load(register_type(dtype), cell)))
        case SetSlot():
            frame.w.store(frame.values[op.value.name].scalar, frame.slots[op.slot.name][0])
        case Alloc():
            access.alloc(frame, op)
        case Reduce():
            monoids.reduce(frame, op)
        case Scan():
            monoids.scan(frame, op)
        case Contract():
            monoids.contract(frame, op)
        case Combine():
            monoids.combine(frame, op)
        case Take():
            axes.take(frame, op)
        case Concat():
            axes.concat(frame, op)
        case Convert():
            frame.define(op, frame.values[op.value.name])
        case Sort():
            sort.emit_sort(frame, op)
        case _:
            frame.define(op, _plain(frame, op))


def _plain(frame: Frame, op: Instruction) -> Bundle:
    """Instructions that work point by point."""
    w = frame.w
    if not op.results or not isinstance(op.result.type, Tile):
        raise unsupported(f"the instruction `{op.name}`", "GPU and host instructions run on other targets")
    type = op.result.type
    inputs = [frame.values[value.name] for value in op.operand_values]
    dtype = inputs[0].dtype if inputs else type.dtype

    def one(point: dict[str, int]) -> Value:
        values = [bundle.at(point) for bundle in inputs]
        match op:
            case Const():
                register = register_type(dtype)
                return constant(register, float(op.value) if register.is_float else int(op.value))
            case Binary():
                return arithmetic.binary(w, op.operator, dtype, values[0], values[1], op.flags)
            case Compare():
                return arithmetic.compare(w, op.operator, dtype, values[0], values[1])
            case Unary():
                return arithmetic.unary(w, op.operator, dtype, values[0])
            case IsNan():
                return arithmetic.is_nan(w, dtype, values[0])
            case Fma():
                return arithmetic.fma(w, dtype, *values)
            case Select():
                return w.select(*values)
            case Cast():
                return arithmetic.cast(w, values[0], dtype, op.to)
            case Bitcast():
                return arithmetic.bitcast(w, values[0], dtype, op.to)
            case Index():
                return frame.affine(op.of, point, lanes)
            case InBounds():
                index, below = frame.affine(op.of, point, lanes), frame.affine(op.below, point, lanes)
                return _inbounds(frame, op.of, index, below)
            case _:
                raise unsupported(f"the instruction `{op.name}`", "GPU and host instructions run on other targets")

    def lanes(axis: str) -> Value:
        extent = frame.kernel.function.axes[axis].value
        assert extent is not None
        return w.lane_numbers(extent)

    return build(w, type, one)


def _inbounds(frame: Frame, of: Affine, index: Value, below: Value) -> Value:
    """0 <= index < below, as one unsigned compare, but `below` itself may be negative: then nothing is."""
    w = frame.w
    if below.number is not None and below.number >= 0:
        return w.compare("ult", index, below)
    low = w.compare("sge", index, constant(index.type, 0))
    return w.binary("and", low, w.compare("slt", index, below))
