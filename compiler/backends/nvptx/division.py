"""Many numbers divided by one, or each by its own; and many roots: by the reciprocal, or that of the root, and two corrections, rounded
as a division is, without the branch that ptxas puts around each `div.rn` and `sqrt.rn`.

With r the rounded reciprocal of s, q = x*r is off by less than two units in the last place, one correction q + (x - q*s)*r by less than
one, and a second one is the rounded quotient (Markstein, Computation of elementary functions on the IBM RISC System/6000, 1990). No step
may overflow or lose bits to subnormals: where numbers are not in the middle of the range, four at a time are divided the long way.
Remainders are taken with the other sign, which keeps the sign of zeros."""

from collections.abc import Sequence
from math import frexp, inf, prod

from compiler.analysis.float_bounds import is_normal
from compiler.backends.llvm.arithmetic import rounded
from compiler.backends.llvm.bundle import Bundle, points, static_axes
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import F32
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Binary, Const, Unary
from compiler.hir.types import Tile, is_float

NUMERATORS = 2.0**-100, 2.0**100
DIVISORS = 2.0**-24, 2.0**24
ROOTED = 2.0**-100, 2.0**127
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


def has_several(frame: NvptxFrame, op: Binary | Unary) -> bool:
    """Whether floats are divided each by its own, or roots taken, so many at a time that one branch for some of them pays."""
    if op.operator not in ("div", "sqrt") or "afn" in op.flags or not isinstance(op.result.type, Tile):
        return False
    dtype = op.result.type.dtype
    if not is_float(dtype) or dtype == "f64" or isinstance(op.operand_values[-1].source, Const):
        return False
    axes, _, lanes = static_axes(op.result.type, "NVPTX")
    return prod(size for _, size in axes) * max(1, lanes) >= TOGETHER


def several(frame: NvptxFrame, op: Binary | Unary) -> None:
    w, type = frame.w, op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, "NVPTX")
    held = [frame.values[value.name] for value in op.operand_values]
    places = list(points(axes))
    operands = [tuple(w.splat(bundle.at(point), lanes) for bundle in held) for point in places]
    each = [tuple(w.extract(one, lane) for one in some) for some in operands for lane in range(lanes)] if lanes else operands
    normal = isinstance(op, Unary) and is_normal(op.value)
    results: list[LlvmValue] = []
    for start in range(0, len(each), TOGETHER):
        together = each[start : start + TOGETHER]
        if isinstance(op, Binary):
            results += _branching(frame, [_quotient(w, x, y) for x, y in together], "div.rn.f32 $0, $1, $2;", together)
        elif normal:
            results += [_root_of_normal(w, x) for (x,) in together]
        else:
            results += _branching(frame, [_root(w, x) for (x,) in together], "sqrt.rn.f32 $0, $1;", together)
    if lanes:
        whole = []
        for number, some in enumerate(operands):
            vector = some[0]
            for lane in range(lanes):
                vector = w.insert(vector, results[number * lanes + lane], lane)
            whole.append(vector)
        results = whole
    frame.define(op, Bundle(type.dtype, axes, simd, lanes, tuple(rounded(w, result, type.dtype) for result in results)))


Checked = tuple[LlvmValue, LlvmValue]
"""A result, and whether its operands are in the middle of the range."""


def _quotient(w: FunctionWriter, x: LlvmValue, y: LlvmValue) -> Checked:
    m = Maths(w, F32)
    size, divisor = m.abs(x), m.abs(y)
    fine = m.both(m.is_("oge", divisor, DIVISORS[0]), m.is_("ole", divisor, DIVISORS[1]))
    fine = m.both(fine, m.both(m.either(m.is_("oge", size, NUMERATORS[0]), m.is_("oeq", x, 0.0)), m.is_("ole", size, NUMERATORS[1])))
    guess = m.reciprocal(y)
    r = m.fma(guess, m.fma(m.neg(y), guess, m.number(1.0)), guess)
    q = m.mul(x, r)
    for _ in range(2):
        q = m.fma(m.neg(m.fma(q, y, m.neg(x))), r, q)
    return q, fine


def _root(w: FunctionWriter, x: LlvmValue) -> Checked:
    m = Maths(w, F32)
    guess = w.call("llvm.nvvm.rsqrt.approx.ftz.f", F32, x)
    root = m.mul(x, guess)
    root = m.fma(m.fma(m.neg(root), root, x), m.mul(guess, m.number(0.5)), root)
    return root, m.both(m.is_("oge", x, ROOTED[0]), m.is_("ole", x, ROOTED[1]))


def _root_of_normal(w: FunctionWriter, x: LlvmValue) -> LlvmValue:
    """Of a number that is too large to be out of the range below; infinity is its own root."""
    m = Maths(w, F32)
    return m.select(m.is_("oeq", x, inf), x, _root(w, x)[0])


def _branching(frame: NvptxFrame, made: Sequence[Checked], text: str, operands: Sequence[tuple[LlvmValue, ...]]) -> list[LlvmValue]:
    """The results, unless one of them isn't fine: all the long way then. That is assembly, or LLVM would take it out of its branch."""
    w = frame.w
    fine = made[0][1]
    for _, other in made[1:]:
        fine = w.binary("and", fine, other)
    slow, after, quick = w.label("exactly"), w.label("after"), w.label("quick")
    w.branch(quick)
    w.start(quick)
    w.branch_if(fine, after, slow)
    w.start(slow)
    exact = [w.assembly(text, [F32], ",".join("f" * len(some)), some)[0] for some in operands]
    w.branch(after)
    w.start(after)
    return [w.phi(F32, [(result, quick), (long, slow)]) for (result, _), long in zip(made, exact, strict=True)]


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
