"""Instructions that every back end emits alike: arithmetic point by point, axes, monoids, slots, branches."""

from compiler.backends.llvm import arithmetic, axes, monoids, structured
from compiler.backends.llvm.bundle import Bundle, build, scalar_bundle
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.types import register_type
from compiler.backends.llvm.writer import LlvmValue, constant
from compiler.hir.affine import Affine
from compiler.hir.control import Break, Condition, Continue, If, Return, While, Yield
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
    Pack2,
    Reduce,
    Scan,
    Select,
    Stack,
    Take,
    Unary,
)
from compiler.hir.instruction import Instruction
from compiler.hir.memory import GetSlot, MakeSlot, SetSlot
from compiler.hir.types import Tile


def emit_plain(frame: FunctionFrame, op: Instruction) -> None:
    """One instruction of the common set; others are refused."""
    match op:
        case If():
            structured.branch(frame, op)
        case While():
            structured.repeat(frame, op)
        case Yield():
            structured.give(frame, op)
        case Break() | Continue():
            structured.jump(frame, op, isinstance(op, Break))
        case Return():
            structured.leave_function(frame, op)
        case Condition():
            pass
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
        case Stack():
            axes.stack(frame, op)
        case Pack2():
            axes.pack2(frame, op)
        case Convert():
            frame.define(op, frame.values[op.value.name])
        case _:
            frame.define(op, _pointwise(frame, op))


def _pointwise(frame: FunctionFrame, op: Instruction) -> Bundle:
    w = frame.w
    if not op.results or not isinstance(op.result.type, Tile):
        raise frame.refused(op)
    type = op.result.type
    inputs = [frame.values[value.name] for value in op.operand_values]
    dtype = inputs[0].dtype if inputs else type.dtype

    def one(point: dict[str, int]) -> LlvmValue:
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
                raise frame.refused(op)

    def lanes(axis: str) -> LlvmValue:
        extent = frame.function.axes[axis].value
        assert extent is not None
        return w.lane_numbers(extent)

    return build(w, type, one)


def _inbounds(frame: FunctionFrame, of: Affine, index: LlvmValue, below: LlvmValue) -> LlvmValue:
    """0 <= index < below, as one unsigned compare, but `below` itself may be negative: then nothing is."""
    w = frame.w
    if below.number is not None and below.number >= 0:
        return w.compare("ult", index, below)
    low = w.compare("sge", index, constant(index.type, 0))
    return w.binary("and", low, w.compare("slt", index, below))
