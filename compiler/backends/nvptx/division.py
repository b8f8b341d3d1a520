"""Many numbers divided by one: by its reciprocal and two corrections, rounded as a division is, without the branch that ptxas puts
around each `div.rn`.

With r the rounded reciprocal of s, q = x*r is off by less than two units in the last place, one correction q + (x - q*s)*r by less than
one, and a second one is the rounded quotient (Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990). No step
may overflow or lose bits to subnormals: where numbers are not in the middle of the range, four at a time are divided the long way.
Remainders are taken with the other sign, which keeps the sign of zeros."""

from math import frexp

from compiler.backends.llvm.arithmetic import rounded
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import F32
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Binary, Const
from compiler.hir.types import is_float

NUMERATORS = 2.0**-100, 2.0**100
DIVISORS = 2.0**-24, 2.0**24
FAR = 2.0**64, 2.0**-64
TOGETHER = 4


def shares_divisor(frame: NvptxFrame, op: Binary) -> bool:
    """Whether many floats are divided by one that isn't a power of two."""
    left, right = frame.values[op.left.name], frame.values[op.right.name]
    if op.operator != "div" or not is_float(left.dtype) or left.dtype == "f64":
        return False
    if isinstance(op.right.source, Const) and abs(frexp(float(op.right.source.value))[0]) in (0.0, 0.5):
        return False
    return not right.axes and not right.lanes and len(left.items) * max(1, left.lanes) >= TOGETHER


def divide(frame: NvptxFrame, op: Binary) -> None:
    w, left = frame.w, frame.values[op.left.name]
    divisor = frame.values[op.right.name].scalar
    scalar = Maths(w, F32)
    if "afn" in op.flags:
        items = _about(frame, left.items, divisor)
        frame.define(op, Bundle(left.dtype, left.axes, left.simd, left.lanes, tuple(rounded(w, item, left.dtype) for item in items)))
        return
    reciprocal = scalar.div(scalar.number(1.0), divisor)
    usual = scalar.both(scalar.is_("oge", divisor, DIVISORS[0]), scalar.is_("ole", divisor, DIVISORS[1]))
    quotients: list[LlvmValue] = []
    together = max(1, TOGETHER // max(1, left.lanes))
    for start in range(0, len(left.items), together):
        quotients += _quotients(frame, left.items[start : start + together], divisor, reciprocal, usual)
    frame.define(op, Bundle(left.dtype, left.axes, left.simd, left.lanes, tuple(rounded(w, item, left.dtype) for item in quotients)))


def _about(frame: NvptxFrame, numbers: tuple[LlvmValue, ...], divisor: LlvmValue) -> list[LlvmValue]:
    """Products with the reciprocal, right to 22 bits. The divisor is brought to the middle of the range, where it has a reciprocal."""
    w = frame.w
    scalar = Maths(w, F32)
    size = scalar.abs(divisor)
    large, small = (scalar.number(number) for number in FAR)
    scale = w.select(scalar.is_("olt", size, FAR[1]), large, w.select(scalar.is_("ogt", size, FAR[0]), small, scalar.number(1.0)))
    reciprocal = scalar.div(scalar.number(1.0), scalar.mul(divisor, scale))
    quotients = []
    for x in numbers:
        m = Maths(w, x.type)
        quotients.append(m.mul(m.mul(x, w.splat(reciprocal, x.type.lanes)), w.splat(scale, x.type.lanes)))
    return quotients


def _quotients(
    frame: NvptxFrame, numbers: tuple[LlvmValue, ...], divisor: LlvmValue, reciprocal: LlvmValue, usual: LlvmValue
) -> list[LlvmValue]:
    w = frame.w
    quotients, fine = [], usual
    for x in numbers:
        m = Maths(w, x.type)
        s, r, size = w.splat(divisor, x.type.lanes), w.splat(reciprocal, x.type.lanes), m.abs(x)
        inside = m.both(m.either(m.is_("oge", size, NUMERATORS[0]), m.is_("oeq", x, 0.0)), m.is_("ole", size, NUMERATORS[1]))
        for number in [w.extract(inside, lane) for lane in range(x.type.lanes)] or [inside]:
            fine = m.both(fine, number)
        q = m.mul(x, r)
        for _ in range(2):
            q = m.fma(m.neg(m.fma(q, s, m.neg(x))), r, q)
        quotients.append(q)
    slow, after = w.label("divide"), w.label("after")
    quick = w.label("quotient")
    w.branch(quick)
    w.start(quick)
    w.branch_if(fine, after, slow)
    w.start(slow)
    exact = [_exact(w, x, divisor) for x in numbers]
    w.branch(after)
    w.start(after)
    return [w.phi(q.type, [(q, quick), (e, slow)]) for q, e in zip(quotients, exact, strict=True)]


def _exact(w: FunctionWriter, x: LlvmValue, divisor: LlvmValue) -> LlvmValue:
    """The division itself; as assembly, or LLVM would take it out of its branch."""

    def one(number: LlvmValue) -> LlvmValue:
        return w.assembly("div.rn.f32 $0, $1, $2;", [F32], "f,f", [number, divisor])[0]

    if not x.type.lanes:
        return one(x)
    quotients = x
    for lane in range(x.type.lanes):
        quotients = w.insert(quotients, one(w.extract(x, lane)), lane)
    return quotients
