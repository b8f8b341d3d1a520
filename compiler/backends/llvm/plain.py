"""Instructions that every back end emits alike: arithmetic point by point, axes, monoids, slots, branches."""

from compiler.analysis.float_bounds import is_normal
from compiler.backends.llvm import arithmetic, axes, monoids, structured
from compiler.backends.llvm.bundle import Bundle, build, is_simd, scalar_bundle
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.types import register_type, vector
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

MOST_COMPARED = 16
"""Lanes whose numbers are compared in 32 bits."""

NARROW_INDICES = ("i8", "u8", "i16", "u16", "i32", "u32")
"""Indices that are compared as what they are."""


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
                operator = "log_of_normal" if op.operator == "log" and is_normal(op.value) else op.operator
                return arithmetic.unary(w, operator, dtype, values[0])
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
                if frame.compares_lanes and (near := _lanes_inside(frame, op, point)) is not None:
                    return near
                if (narrow := _inside_narrow(frame, op, point)) is not None:
                    return narrow
                index, below = frame.affine(op.of, point, lanes), frame.affine(op.below, point, lanes)
                return _inbounds(frame, op.of, index, below)
            case _:
                raise frame.refused(op)

    def lanes(axis: str) -> LlvmValue:
        extent = frame.function.axes[axis].value
        assert extent is not None
        return w.lane_numbers(extent)

    return build(w, type, one)


def _lanes_inside(frame: FunctionFrame, op: InBounds, point: dict[str, int]) -> LlvmValue | None:
    """The same for a vector of neighbours: how many lanes are before the first inside and before the end, as small numbers that a vector of
    the same lanes compares at once. None for others."""
    w = frame.w
    axis = next((name for name in op.of.names if frame.is_axis(name) and is_simd(name)), None)
    lanes = None if axis is None else frame.function.axes[axis].value
    if axis is None or lanes is None or op.of.coefficient(axis) != 1:
        return None
    rest = op.of.without(axis)
    if axis in rest.names or axis in op.below.names or any(name in frame.definitions for name in (*rest.names, *op.below.names)):
        return None
    first, below = frame.affine(rest, point), frame.affine(op.below, point)
    if first.type.lanes or below.type.lanes:
        return None
    small = "i32" if lanes <= MOST_COMPARED else "i8"
    numbers = LlvmValue(vector(small, lanes), f"<{', '.join(f'{small} {lane}' for lane in range(lanes))}>")

    def lanes_before(place: LlvmValue) -> LlvmValue:
        zero, most = constant(place.type, 0), constant(place.type, lanes)
        return w.splat(w.convert("trunc", w.intrinsic("smin", w.intrinsic("smax", place, zero), most), small), lanes)

    inside = w.compare("ult", numbers, lanes_before(w.sub(below, first)))
    if first.number is not None and first.number >= 0:
        return inside
    return w.binary("and", inside, w.compare("uge", numbers, lanes_before(w.sub(constant(first.type, 0), first))))


def _inside_narrow(frame: FunctionFrame, op: InBounds, point: dict[str, int]) -> LlvmValue | None:
    """The same where the index is a whole number of at most 32 bits, compared in its own: vectors of as many lanes as that has, and
    half the instructions on a GPU. None for others."""
    w, name = frame.w, next(iter(op.of.names), "")
    source = frame.definitions.get(name)
    if op.of != Affine.of(name) or not isinstance(source, Cast):
        return None
    narrow = frame.values[source.value.name]
    if narrow.dtype not in NARROW_INDICES:
        return None
    below = frame.affine(op.below, point)
    if below.type.lanes or (below.number is not None and not frame.compares_lanes):
        return None
    index = narrow.at(point)
    zero, most = constant(below.type, 0), constant(below.type, 1 << index.type.bits - (not arithmetic.is_unsigned(narrow.dtype)))
    end = w.intrinsic("smin", w.intrinsic("smax", below, zero), most)
    if not arithmetic.is_unsigned(narrow.dtype):
        # negative numbers are large ones without a sign
        return w.compare("ult", *w.same_lanes(index, w.convert("trunc", end, index.type.element)))
    inside = w.compare("ule", *w.same_lanes(index, w.convert("trunc", w.sub(end, constant(below.type, 1)), index.type.element)))
    return w.binary("and", *w.same_lanes(inside, w.compare("sgt", below, zero)))


def _inbounds(frame: FunctionFrame, of: Affine, index: LlvmValue, below: LlvmValue) -> LlvmValue:
    """0 <= index < below, as one unsigned compare, but `below` itself may be negative: then nothing is."""
    w = frame.w
    if below.number is not None and below.number >= 0:
        return w.compare("ult", index, below)
    low = w.compare("sge", index, constant(index.type, 0))
    return w.binary("and", low, w.compare("slt", index, below))
