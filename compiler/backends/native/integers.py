"""Integer arithmetic that stops or saturates, on LLVM values."""

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.arithmetic import is_unsigned
from compiler.backends.llvm.types import I1, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.native.faults import stop_if
from compiler.backends.native.frame import NativeFrame
from compiler.hir.core import dtype_of
from compiler.hir.host import Checked, Narrow, Saturating
from compiler.hir.numbers import limits
from compiler.hir.types import DTYPES, is_float


def checked(frame: NativeFrame, op: Checked) -> LlvmValue:
    """`add sub mul div rem shl shr`, exact or a failure."""
    w, dtype = frame.w, dtype_of(op.left)
    a, b = frame.scalar(op.left.name), frame.scalar(op.right.name)
    values = [(dtype, a), (dtype, b)]
    sign = "u" if is_unsigned(dtype) else "s"
    match op.operation:
        case "add" | "sub" | "mul":
            result, bad = with_overflow(w, f"{sign}{op.operation}", a, b)
            if op.operation == "mul":
                stop_if(frame, bad, op.site, values)
            else:
                stop_if(frame, bad, op.site, [(dtype, result), (dtype, b)], undo=op.operation)
            return result
        case "div" | "rem":
            bad = w.compare("eq", b, constant(b.type, 0))
            if op.operation == "div" and sign == "s":
                bad = w.binary("or", bad, lowest_by_minus_one(w, a, b))
            stop_if(frame, _known(bad, b), op.site, values)
            return arithmetic.binary(w, op.operation, dtype, a, b)
        case _:
            stop_if(frame, w.compare("uge", b, constant(b.type, DTYPES[dtype])), op.site, values)
            if op.operation == "shr":
                return arithmetic.binary(w, "shr", dtype, a, b)
            moved = w.binary("shl", a, b)
            back = w.binary("lshr" if sign == "u" else "ashr", moved, b)
            stop_if(frame, w.compare("ne", back, a), op.site, values)
            return moved


def _known(bad: LlvmValue, divisor: LlvmValue) -> LlvmValue:
    """No failure where the divisor is a constant other than 0 and -1."""
    return constant(I1, 0) if divisor.number not in (None, 0, -1) else bad


def lowest_by_minus_one(w: FunctionWriter, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    lowest = w.compare("eq", a, constant(a.type, -(1 << (a.type.bits - 1))))
    return w.binary("and", lowest, w.compare("eq", b, constant(b.type, -1)))


def with_overflow(w: FunctionWriter, operation: str, a: LlvmValue, b: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """The wrapped result, and whether it isn't the exact one."""
    name = f"llvm.{operation}.with.overflow.{a.type.suffix}"
    result, bad = w.parts([a.type, I1], lambda type: f"call {type} @{name}({a}, {b})")
    return result, bad


def saturating(frame: NativeFrame, op: Saturating) -> LlvmValue:
    w, dtype = frame.w, dtype_of(op.left)
    a, b = frame.scalar(op.left.name), frame.scalar(op.right.name)
    unsigned = is_unsigned(dtype)
    if op.operation != "mul":
        return w.intrinsic(f"{'u' if unsigned else 's'}{op.operation}.sat", a, b)
    result, bad = with_overflow(w, "umul" if unsigned else "smul", a, b)
    low, high = limits(dtype)
    if unsigned:
        return w.select(bad, constant(a.type, high), result)
    negative = w.compare("slt", w.binary("xor", a, b), constant(a.type, 0))
    return w.select(bad, w.select(negative, constant(a.type, low), constant(a.type, high)), result)


def narrow(frame: NativeFrame, op: Narrow) -> LlvmValue:
    """The number in another int type, or a failure."""
    w, source = frame.w, dtype_of(op.value)
    value = frame.scalar(op.value.name)
    low, high = limits(op.to)
    if is_float(source):
        return _whole(frame, op, source, value)
    least, most = (0, 1) if source == "i1" else limits(source)
    outside = constant(I1, 0)
    if least < low:
        outside = arithmetic.compare(w, "lt", source, value, constant(value.type, low))
    if most > high:
        above = arithmetic.compare(w, "gt", source, value, constant(value.type, high))
        outside = above if outside.number == 0 else w.binary("or", outside, above)
    stop_if(frame, outside, op.site, [(source, value)])
    return arithmetic.cast(w, value, source, op.to)


def _whole(frame: NativeFrame, op: Narrow, source: str, value: LlvmValue) -> LlvmValue:
    """A float cut toward zero, which must lie between the limits; NaN lies nowhere."""
    w = frame.w
    low, high = limits(op.to)
    wide = w.convert("fpext", value, "double")
    # both bounds are exact in f64: one below the limit where that still is, else the limit itself, a power of two
    bound, least = ("ogt", low - 1) if low - 1 == float(low - 1) else ("oge", low)
    above = w.compare(bound, wide, constant(wide.type, least))
    below = w.compare("olt", wide, constant(wide.type, high + 1))
    inside = w.binary("and", above, below)
    stop_if(frame, w.binary("xor", inside, w.true()), op.site, [(source, value)])
    return w.convert("fptoui" if is_unsigned(op.to) else "fptosi", wide, register_type(op.to).element)
